"""Options: what a mechanism can be told on the command line and in a campaign file, stated once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from sfumato.domain import Domain
from sfumato.errors import ParameterError
from sfumato.untrusted import MOST_NUMBER, MOST_WHOLE, Untrusted

Supports = Callable[[Domain], Any]  # the true support of every report item, where records are read


@dataclass(frozen=True)
class Option:
    """One parameter of a mechanism as people give it: its name, what it means, and its bounds."""

    name: str
    help: str
    kind: type = float
    beside: bool = False  # may stand beside a guarantee, which decides the rest
    needed: bool = True  # must be given where no guarantee is
    read: Callable[[Any], Any] = lambda given: given  # of the command line, for the constructor
    # What people should hear of what they gave, before noise is drawn.
    remarks: Callable[[Any, Any], tuple[str, ...]] = lambda mechanism, given: ()

    @property
    def flag(self) -> str:
        """As it is typed: --keep-ones."""
        return "--" + self.name.replace("_", "-")

    def check(self, value: Any) -> Any:
        """The value, refused where it is not of its kind."""
        if self.kind is float and not isinstance(value, int | float):
            raise ParameterError(f"{self.flag} {value} is not a number")
        return value


@dataclass(frozen=True)
class InFile:
    """A parameter as it stands in a file, which may lie: how it is read, and how it is written."""

    name: str
    read: Callable[[Untrusted], Any]
    write: Callable[[Any], Any] = lambda value: value


def fraction(name: str) -> InFile:
    """A fraction, written as digits."""
    return InFile(name, Untrusted.fraction, lambda value: str(Fraction(value)))


def whole(name: str, least: int, most: int = MOST_WHOLE) -> InFile:
    """A whole number from one bound to another."""
    return InFile(name, lambda given: given.whole(least, most))


def number(name: str, least: float = -MOST_NUMBER, most: float = MOST_NUMBER) -> InFile:
    """A number from one bound to another."""
    return InFile(name, lambda given: given.number(least, most))


class AskedSet(NamedTuple):
    """Private columns that some people are asked about together, and the share of the people."""

    columns: frozenset[str]
    share: float
    folded: bool  # whether these are one of several parts, so that shares do not add up


def parsed(options: tuple[Option, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """What people gave, as a constructor takes it."""
    read = {option.name: option.read for option in options}
    return {name: read[name](value) if name in read else value for name, value in given.items()}


def remarks(mechanism: Any, given: Mapping[str, Any]) -> tuple[str, ...]:
    """What people should hear, before noise is drawn, of the options they gave."""
    own = [option for option in mechanism.options if option.name in given]
    return tuple(said for option in own for said in option.remarks(mechanism, given[option.name]))


def each_or_all(flag: str, text: str) -> str | dict[str, str]:
    """One word for all columns, or one a column as in age=…,sex=….

    >>> each_or_all("--keep", "age=0.2,sex=0.6")
    {'age': '0.2', 'sex': '0.6'}
    """
    if "=" not in text:
        return text
    pairs = [part.rpartition("=") for part in text.split(",")]
    if any(not name or not word for name, _, word in pairs):
        raise ParameterError(
            f"{flag} {text} should be one value, or one a column as in age=…,sex=…"
        )
    return {name.strip(): word.strip() for name, _, word in pairs}


def keep_of(text: Any) -> float | dict[str, float]:
    """How often values are kept: one number, or one a column.

    >>> keep_of("0.4"), keep_of("age=0.2,sex=0.6")
    (0.4, {'age': 0.2, 'sex': 0.6})
    """
    words = text if isinstance(text, Mapping) else each_or_all("--keep", str(text))
    try:
        if isinstance(words, str):
            return float(words)
        return {str(name): float(str(word)) for name, word in words.items()}
    except ValueError:
        raise ParameterError(
            f"--keep {text} is not a number", hint="as in --keep 0.4, or --keep age=0.2,sex=0.6"
        ) from None


def check_given(name: str, options: tuple[Option, ...], given: Mapping[str, Any]) -> None:
    """Refuse parameters of which some, but not all that are needed, are given."""
    needed = [option for option in options if option.needed and not option.beside]
    missing = [option for option in needed if option.name not in given]
    if missing and len(missing) < len(needed):
        raise ParameterError(f"{name} needs {' and '.join(o.flag for o in missing)} as well")


KEEP = Option("keep", "how often a value is kept; 0.4, or age=0.2,sex=0.6", str, read=keep_of)
