"""Where a result goes: to the terminal, to a program as JSON, or to a picture or page, which says
what it was made from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from sfumato import __version__
from sfumato.address import redacted, without_secrets
from sfumato.cli.options import Force, Json, Options, check_absent, option
from sfumato.cli.printing import print_json, show
from sfumato.cli.summary import promise
from sfumato.model.model import Model
from sfumato.privacy.guarantee import PRIOR
from sfumato.release import Release
from sfumato.result import save_view
from sfumato.source import Source
from sfumato.view import View

_SPECIAL = {*'"$`\\!'}  # what a shell reads inside double quotes
TRUE = "none: these are true records, and what is drawn from them is for their owner"


@dataclass(frozen=True)
class Given(Options):
    """How a result is given: drawn where a file is named, and then as text or as JSON."""

    plot: Annotated[Path | None, option("Draw the result: .html, .png or .svg.", metavar="OUT")] = (
        None
    )
    force: Force = False
    json: Json = False

    def check(self) -> None:
        """Refuse a picture that is there already, before any work is done for it."""
        check_absent(self.plot, self.force)

    def draw(self, view: View, file: str, source: Source) -> None:
        """Write the view where a picture is wanted, with what it was made from."""
        if self.plot is not None:
            save_view(with_origin(view, origin_of(file, source)), self.plot)

    def give(self, view: View, result: Callable[[], dict[str, Any]], most: int | None = 20) -> None:
        """Print the JSON object, or the view, of each table at most so many lines."""
        print_json(result()) if self.json else show(view, most=most)


def typed() -> str:
    """The command as it was typed, without passwords."""
    return without_secrets(" ".join(map(quoted, ["sfumato", *map(redacted, sys.argv[1:])])))


def quoted(word: str) -> str:
    """A word as a shell takes it: SQL with its own quotes inside double ones, which can be read.

    >>> print(quoted("sex = 'f'"), quoted("a b"), quoted("a"))
    "sex = 'f'" 'a b' a
    """
    return f'"{word}"' if "'" in word and not _SPECIAL & {*word} else quote(word)


def with_origin(view: View, origin: Iterable[tuple[str, Any]]) -> View:
    """The view, which ends with what it was made from, by which version and which command."""
    facts = [*origin, ("made by", f"Sfumato {__version__}")]
    end = View("Where this comes from", facts=facts, command=typed())
    return replace(view, sections=(*view.sections, end))


def origin_of(file: str, source: Source) -> list[tuple[str, str]]:
    """The file, its rows, how it was perturbed and what was promised."""
    from sfumato.engines.several import RoundSeries

    facts = [("file", redacted(file)), ("rows", f"{source.rows:,}")]
    if isinstance(source, Model):
        made = f"a model fitted to reports of {source.mechanism.name}"
        return [*facts, ("mechanism", made), ("guarantee", str(source.mechanism.guarantee))]
    if isinstance(source, RoundSeries):
        made = f"item-set, in {len(source.sources)} rounds"
        return [*facts, ("mechanism", made), ("guarantee", str(source.guarantee))]
    if not isinstance(source, Release):
        return [*facts, ("mechanism", "none"), ("guarantee", TRUE)]
    provenance = source.provenance
    guarantee = provenance.guarantee
    facts += [("mechanism", provenance.mechanism.name), ("guarantee", str(guarantee))]
    facts.append(("which means", promise(guarantee, PRIOR)))
    if not provenance.secure:
        facts.append(("randomness", "seeded: an experiment, not private"))
    return facts
