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
    code between two values is rounded at random so that its mean is right. Where `zero` is, code 0
    has the window after all others, which none of them meets; its reports are sent as one, the
    last.
    """

    kind = "window"
    values: int
    length: int
    a: int
    b: int
    round: int | None = None
    zero: int | None = None  # 1: the first code has a window of its own

    def __post_init__(self) -> None:
        self.check_columns()
        self.check(
            self.values >= 1 <= self.length
            and (self.round is None or (self.round >= 2 + self._apart and self.values >= 2))
            and self.zero in (None, 1)
            and self.values * (self.round or 1) < LARGEST,
            f"{self.values} values, a window of {self.length} and {self.round} codes",
            "use at least one of each, two to round between, and values times codes below 2^53",
        )
        check_weights(self, self.a, self.b, self._total)

    @property
    def inputs(self) -> tuple[Column, ...]:
        return (Column(self.values + self._apart if self.round is None else self.round),)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return (Column(self._last + 1, shows="set"),)

    @property
    def _last(self) -> int:
        return self.values + self.length - 2 + self._apart

    @property
    def _apart(self) -> int:
        """The codes that have a window of their own."""
        return 1 if self.zero else 0

    @property
    def _total(self) -> int:
        others = self.values - 1 + self._apart * self.length
        return self.length * self.a + others * self.b

    @property
    def gamma(self) -> Gamma:
        return Fraction(self.a, self.b) if self.values + self._apart > 1 else Fraction(1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        start, excess = self._rounded(values[0], draws), self.length * (self.a - self.b)
        drawn = draws.below(self._total)
        inside = drawn < excess
        place = start + drawn // (self.a - self.b) if inside else (drawn - excess) // self.b
        return (min(place, self._last),)

    def _rounded(self, value: Value, draws: Draws) -> int:
        assert isinstance(value, int)
        if self.zero and value == 0:
            if self.round is not None:
                draws.below(self._gaps)  # as many draws as of any other
            return self._last
        value -= self._apart
        if self.round is None:
            return value
        whole, part = divmod(value * (self.values - 1), self._gaps)
        return whole + (draws.below(self._gaps) < part)

    @property
    def _gaps(self) -> int:
        """Between the codes that are rounded."""
        assert self.round is not None
        return self.round - 1 - self._apart

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes]:
        starts = np.asarray(columns[0]).astype(np.int64) - self._apart
        none = starts < 0
        if self.round is not None:
            whole, part = np.divmod(starts * (self.values - 1), self._gaps)
            starts = whole + (rng.below(self._gaps, len(starts)).astype(np.int64) < part)
        starts = np.where(none, self._last, starts)
        drawn = rng.below(self._total, len(starts)).astype(np.int64)
        excess = self.length * (self.a - self.b)
        inside = starts + drawn // max(self.a - self.b, 1)
        found = np.where(drawn < excess, inside, (drawn - excess) // self.b)
        return [np.minimum(found, self._last)]

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(self.length * self.a, self._total)
