"""Combs: values that are equally far apart on a grid, such as the round numbers of a column."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Numeric

UNITS = 4  # kinds of round numbers that are looked for, the finest that a grid can show
LONGEST = 15  # steps from one round number to the next, where these may be any


@dataclass(frozen=True)
class Comb:
    """Round numbers, in steps of a grid: the first of them, and from one to the next."""

    first: float
    period: float

    @classmethod
    def all_of(cls, number: Numeric, values: int) -> tuple[Comb, ...]:
        """The multiples of 1, 2, 5, 10, 20, … that a grid of so many values over the range of a
        number can show: every other of its values at least.

        >>> [comb.period for comb in Comb.all_of(Numeric("age", 17, 90), 74)]
        [2.0, 5.0, 10.0]
        """
        span = (number.size - 1) * number.grid_step  # which may end short of the range
        step = span / (values - 1)
        power = math.floor(math.log10(2 * step))
        units = [half * 10.0**place for place in range(power, power + 4) for half in (1, 2, 5)]
        shown = [unit for unit in units if 2 * step <= unit * (1 + 1e-9) and unit <= span / 4]
        return tuple(cls(-float(number.min) % unit / step, unit / step) for unit in shown[:UNITS])

    @classmethod
    def every(cls, values: int) -> tuple[Comb, ...]:
        """All that are some whole steps of the grid apart."""
        most = min(LONGEST, (values - 1) // 4)
        return tuple(
            cls(float(first), float(period))
            for period in range(2, most + 1)
            for first in range(period)
        )

    def teeth(self, values: int) -> NDArray[np.float64]:  # (values,)
        """Which values are round: 1 for one that is, and for one between two values of the grid the
        part of its people that is rounded to each.
        """
        half = self.period / 2
        away = (np.arange(values) - self.first + half) % self.period - half
        return np.asarray(np.maximum(1 - abs(away), 0))
