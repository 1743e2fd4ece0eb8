"""Window: a number is reported within its window more often than outside (square wave,
piecewise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.domain import Codes, Columns
from sfumato.mechanisms.limits import LARGEST
from sfumato.mechanisms.steps.cell_steps import check_weights
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import Action, Column, Value
from sfumato.privacy.guarantee import Gamma
from sfumato.randomness import Keystream


@dataclass(frozen=True, kw_only=True)
class Window(Action):
    """`values` numbers and `length` reports from each on: weight a inside that window, b outside.

    Where `round` is stated, the column has that many codes, spread evenly over the values, and a
    code between two values is rounded at random so that its mean is right.
    """

    kind = "window"
    values: int
    length: int
    a: int
    b: int
    round: int | None = None

    def __post_init__(self) -> None:
        self.check_columns()
        self.check(
            self.values >= 1 <= self.length
            and (self.round is None or self.round >= 2 <= self.values)
            and self.values * (self.round or 1) < LARGEST,
            f"{self.values} values, a window of {self.length} and {self.round} codes",
            "use at least one of each, two to round between, and values times codes below 2^53",
        )
        check_weights(self, self.a, self.b, self._total)

    @property
    def inputs(self) -> tuple[Column, ...]:
        return (Column(self.values if self.round is None else self.round),)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return (Column(self.values + self.length - 1, shows="set"),)

    @property
    def _total(self) -> int:
        return self.length * self.a + (self.values - 1) * self.b

    @property
    def gamma(self) -> Gamma:
        return Fraction(self.a, self.b) if self.values > 1 else Fraction(1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        start, excess = self._rounded(values[0], draws), self.length * (self.a - self.b)
        drawn = draws.below(self._total)
        if drawn < excess:
            return (start + drawn // (self.a - self.b),)
        return ((drawn - excess) // self.b,)

    def _rounded(self, value: Value, draws: Draws) -> int:
        assert isinstance(value, int)
        if self.round is None:
            return value
        whole, part = divmod(value * (self.values - 1), self.round - 1)
        return whole + (draws.below(self.round - 1) < part)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes]:
        starts = np.asarray(columns[0]).astype(np.int64)
        if self.round is not None:
            whole, part = np.divmod(starts * (self.values - 1), self.round - 1)
            starts = whole + (rng.below(self.round - 1, len(starts)).astype(np.int64) < part)
        drawn = rng.below(self._total, len(starts)).astype(np.int64)
        excess = self.length * (self.a - self.b)
        inside = starts + drawn // max(self.a - self.b, 1)
        return [np.where(drawn < excess, inside, (drawn - excess) // self.b)]

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(self.length * self.a, self._total)
