"""Answer: a number that was estimated, its standard error and its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Self

from sfumato.arguments import checked
from sfumato.errors import ParameterError
from sfumato.printable import json_number
from sfumato.privacy.probability import check_number
from sfumato.renderers.frames import arrow
from sfumato.renderers.picture import estimates
from sfumato.result import Result
from sfumato.view import Chart, ColumnView, TableView, View

Ends = tuple[float, float]  # the low and the high one
ANYTHING: Ends = (-math.inf, math.inf)


def reach(level: float) -> float:
    """How many standard errors a normal interval of this level goes to either side."""
    check_number("level", level)
    if not 0 < level < 1:
        raise ParameterError(f"level={level} is not between 0 and 1")
    return NormalDist().inv_cdf((1 + level) / 2)


def within(possible: Ends, ends: Ends) -> Ends:
    """An interval moved into what is possible."""
    least, most = possible
    low, high = (min(max(end, least), most) for end in ends)
    return low, high


def ordered(factor: float, ends: Ends) -> Ends:
    """Ends times a known number, the low one first."""
    first, second = (0.0 if factor == 0 else factor * end for end in ends)
    return (first, second) if first <= second else (second, first)


@checked
@dataclass(frozen=True)
class Answer(Result):
    """A number that was estimated and its standard error; `sampling` says whether the rows count as
    a sample themselves, `assumes` what a model supposed beyond the reports, `possible` between
    which ends the truth lies whatever the reports are: the value may leave them, being unbiased,
    and the interval does not.

    >>> [round(end, 2) for end in Answer(100.0, 10.0).interval(0.95)]
    [80.4, 119.6]
    >>> Answer(10.0, 10.0, possible=(0.0, 1000.0)).interval(0.95)[0]
    0.0
    """

    value: float
    stderr: float
    sampling: bool = False
    assumes: str | None = None
    possible: Ends = field(default=ANYTHING, kw_only=True, compare=False)

    def interval(self, level: float = 0.95) -> Ends:
        """The normal interval that covers the truth at this level, as far as it is possible."""
        half = reach(level) * self.stderr
        return within(self.possible, (self.value - half, self.value + half))

    def scaled(self, factor: float) -> Self:
        """The answer times a known number."""
        ends = ordered(factor, self.possible)
        value, stderr = self.value * factor, self.stderr * abs(factor)
        return replace(self, value=value, stderr=stderr, possible=ends)

    def clip(self, low: float = 0.0, high: float = math.inf) -> float:
        """The value moved into its possible range: no longer unbiased."""
        return min(max(self.value, low), high)

    def to_dict(self, level: float = 0.95) -> dict[str, float | None]:
        """Value, standard error and interval; all of them None where there is no value."""
        low, high = self.interval(level)
        parts = {"value": self.value, "stderr": self.stderr, "low": low, "high": high}
        known = math.isfinite(self.value)
        return {name: json_number(part) if known else None for name, part in parts.items()}

    def view(self, level: float = 0.95) -> View:
        """The number with its error and its interval."""
        column = ColumnView(
            "value",
            [self.value],
            [self.stderr],
            level=level,
            ends=[self.interval(level)],
            field=("value", "stderr", "low", "high"),
        )
        notes = () if self.assumes is None else (f"assumes {self.assumes}",)
        chart = Chart(estimates("", [""], [self.value], [self.stderr], from_zero=False))
        return View(charts=(chart,), tables=(TableView([column]),), notes=notes)

    def to_arrow(self, level: float = 0.95) -> Any:
        """A table of one row: value, stderr, and the interval's ends low and high."""
        return arrow(self.view(level).tables[0])

    def __repr__(self) -> str:
        return f"Answer(value={self.value:.6g}, stderr={self.stderr:.4g})"
