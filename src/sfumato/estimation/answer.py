"""Answer: a number that was estimated, its standard error and its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from sfumato.arguments import checked
from sfumato.errors import ParameterError
from sfumato.printable import json_number
from sfumato.privacy.probability import check_number
from sfumato.renderers.frames import arrow
from sfumato.renderers.picture import estimates
from sfumato.result import Result
from sfumato.view import Chart, ColumnView, TableView, View


@checked
@dataclass(frozen=True)
class Answer(Result):
    """A number that was estimated and its standard error; `sampling` says whether the rows count as
    a sample themselves, `assumes` what a model supposed beyond the reports.

    >>> [round(end, 2) for end in Answer(100.0, 10.0).interval(0.95)]
    [80.4, 119.6]
    """

    value: float
    stderr: float
    sampling: bool = False
    assumes: str | None = None

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The normal interval that covers the truth at this level."""
        check_number("level", level)
        if not 0 < level < 1:
            raise ParameterError(f"level={level} is not between 0 and 1")
        reach = NormalDist().inv_cdf((1 + level) / 2) * self.stderr
        return self.value - reach, self.value + reach

    def scaled(self, factor: float) -> Answer:
        """The answer times a known number."""
        return replace(self, value=self.value * factor, stderr=self.stderr * abs(factor))

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
