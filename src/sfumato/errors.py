"""The exceptions that Sfumato raises on purpose: each says what was wrong, what was found and what
would do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any

LONG_WORD = 80  # letters; a longer word is cut short in messages, and has no near miss
LONG_LINE = 400  # letters of a message in which words of any length may stand
MOST_LETTERS = 1000  # of any message
MOST_COMPARED = 5000  # words that a near miss is looked for among


class SfumatoError(Exception):
    """Base of every error a caller may want to catch; `facts` keeps the figures behind
    the message.
    """

    kind = "error"

    def __init__(self, message: str, *, hint: str | None = None, **facts: Any) -> None:
        message = one_line(message)
        super().__init__(message)
        self.message = message
        self.hint = hint and one_line(hint)
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def to_dict(self) -> dict[str, str | None]:
        """The JSON shape of an error, the same for every command."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint}


class ParameterError(SfumatoError, ValueError):
    """A number or choice outside the range in which it makes sense."""

    kind = "parameter"


class SchemaError(SfumatoError, ValueError):
    """A schema or domain that contradicts itself, or a name it does not know."""

    kind = "schema"


class DataError(SfumatoError, ValueError):
    """Records that do not fit their domain (raised on the owner's side only, where the value may be
    shown).
    """

    kind = "data"


class FileError(SfumatoError, OSError):
    """A file that is missing, unreadable, of the wrong form, or in the way."""

    kind = "file"

    def __str__(self) -> str:
        return SfumatoError.__str__(self)


class PrivacyError(SfumatoError):
    """A guarantee that cannot be met or a budget that is spent."""

    kind = "privacy"


class EstimationError(SfumatoError):
    """A reconstruction that cannot be done from these reports."""

    kind = "estimation"


class Unanswerable(EstimationError):  # noqa: N818  (the word that DESIGN and the messages use)
    """A question that these reports say nothing about; the message names the limit."""

    kind = "unanswerable"


class QueryError(SfumatoError, ValueError):
    """SQL that does not parse, or asks for what counts cannot answer."""

    kind = "query"


class ServerError(SfumatoError):
    """A database that cannot be reached, refuses us, or does not hold what was asked for."""

    kind = "server"


class CampaignError(SfumatoError, ValueError):
    """A campaign file that contradicts itself, or that changed after people had answered it."""

    kind = "campaign"


class StoreError(SfumatoError):
    """A report store that cannot be opened, or that takes no reports for the moment."""

    kind = "store"


class MissingExtraError(SfumatoError, ImportError):
    """A package that this call needs is not installed; an extra of Sfumato brings it.

    >>> str(MissingExtraError("figures need matplotlib", extra="plot"))
    "figures need matplotlib; in a checkout of Sfumato, pip install '.[plot]'"
    """

    kind = "install"

    def __init__(self, message: str, *, extra: str, instead: str | None = None) -> None:
        hint = f"in a checkout of Sfumato, pip install '.[{extra}]'"
        super().__init__(message, hint=f"{hint}; or {instead}" if instead else hint, extra=extra)

    def __str__(self) -> str:
        return SfumatoError.__str__(self)


class ConvergenceWarning(UserWarning):
    """An iteration stopped before it reached its stated tolerance."""


def one_line(message: str) -> str:
    """A message in one line, whatever was found: a value may bring lines of its own, or a word that
    fills the screen.

    >>> one_line("no column 'a\\nb'")
    "no column 'a b'"
    """
    if len(message) > LONG_LINE:
        words = " ".join(
            word if len(word) <= LONG_WORD else word[:LONG_WORD] + "…" for word in message.split()
        )
        return words if len(words) <= MOST_LETTERS else words[:MOST_LETTERS] + " …"
    return message if message.isprintable() else " ".join(message.split())


def near_miss(word: object, known: Iterable[str]) -> str | None:
    """The hint "did you mean …?" when one of the known words is close to what was written.

    >>> near_miss("smokr", ["age", "smoker"])
    "did you mean 'smoker'?"
    """
    if not isinstance(word, str) or len(word) > LONG_WORD:
        return None
    known = list(islice((name for name in known if len(name) <= LONG_WORD), MOST_COMPARED))
    folded = {name.casefold(): name for name in known}
    close = get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return f"did you mean '{folded[close[0]]}'?" if close else None


def listing(names: Iterable[object], most: int = 8) -> str:
    """A few names, comma separated, with the number left out.

    >>> listing("abcd", most=2)
    'a, b and 2 more'
    """
    given = [str(name) for name in names]
    shown = [name if len(name) <= LONG_WORD else name[:LONG_WORD] + "…" for name in given[:most]]
    if len(given) <= most:
        return ", ".join(shown)
    return f"{', '.join(shown)} and {len(given) - most} more"


def first_line(error: BaseException) -> str:
    """What another library says, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
