"""Heaping: people who state round numbers (digit preference). Values that are equally far apart on
a grid, such as the multiples of ten of a column; and round numbers that are nearer to each other
than a grid shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Numeric

UNITS = 4  # kinds of round numbers that are looked for, the finest that a grid can show
SHOWN = 2  # steps of a grid from one round number to the next, from which on it shows them
FINE_UNITS = (1, 2, 2.5, 5)  # times a power of ten: what people round to, where it does not
NEGLIGIBLE = 1 / 32  # of a step: to round to so little moves nobody


@dataclass(frozen=True)
class Heaping:
    """Round numbers, in steps of a grid: the first of them, and from one to the next."""

    first: float
    period: float
    ends: bool = True  # whether those who are at an end of the grid are known to be just there

    @classmethod
    def all_of(cls, number: Numeric, values: int) -> tuple[Heaping, ...]:
        """The multiples of 1, 2, 5, 10, 20, … that a grid of so many values over the range of a
        number can show: every other of its values at least.

        >>> [heaping.period for heaping in Heaping.all_of(Numeric("age", 17, 90), 74)]
        [2.0, 5.0, 10.0]
        """
        span = (number.size - 1) * number.grid_step  # which may end short of the range
        step = span / (values - 1)
        power = math.floor(math.log10(SHOWN * step))
        units = [half * 10.0**place for place in range(power, power + 4) for half in (1, 2, 5)]
        shown = [unit for unit in units if SHOWN * step <= unit * (1 + 1e-9) and unit <= span / 4]
        ends = number.size == values
        return tuple(
            cls(-float(number.min) % unit / step, unit / step, ends=ends) for unit in shown[:UNITS]
        )

    def nearest(self, values: int) -> NDArray[np.float64]:  # (values,)
        """The round number that is nearest to each value."""
        places = np.arange(values) - self.first
        return np.clip(self.first + np.rint(places / self.period) * self.period, 0, values - 1)

    def inside(self, values: int) -> NDArray[np.bool_]:  # (values,)
        """Whose nearest round number is no end of the grid, where a steep law looks the same unless
        the grid has every number.
        """
        nearest = self.nearest(values)
        return np.asarray(self.ends | ((nearest > 0) & (nearest < values - 1)))

    def rounding(self, values: int) -> NDArray[np.float64]:  # (values,)
        """How many times as many people are at each value once all have rounded who do not round to
        an end of the grid.
        """
        return np.where(self.inside(values), self.period * self.teeth(values), 1.0)

    def teeth(self, values: int) -> NDArray[np.float64]:  # (values,)
        """Which values are round: 1 for one that is, and for one between two values of the grid the
        part of its people that is rounded to each.
        """
        places = np.arange(values) - self.first
        away = places - np.rint(places / self.period) * self.period
        return np.asarray(np.maximum(1 - abs(away), 0))


def moved_by_rounding(
    number: Numeric, values: int, codes: NDArray[np.int64]
) -> NDArray[np.float64]:  # (units, cuts)
    """How far cuts before these codes move, in steps of a grid of so many values, for people who
    round their number to one of the units that it does not show: who is at 60,000 after that was
    up to half a unit above. A cut half-way between two such numbers stays.

    >>> moved_by_rounding(Numeric("pay", 0, 510), 256, np.array([100, 101]))
    array([[-0.25,  0.25]])
    """
    own, step = number.grid_step, (number.size - 1) * number.grid_step / (values - 1)
    power = math.floor(math.log10(SHOWN * step))
    every = [part * 10.0**place for place in range(power - 2, power + 1) for part in FINE_UNITS]
    units = [unit for unit in every if NEGLIGIBLE * step < unit and own < unit < SHOWN * step]
    whole = [unit for unit in units if abs(unit / own - round(unit / own)) < 1e-9]
    last = number.min + (codes - 1) * own  # before each cut
    gone = [last - np.floor(last / unit + 1e-9) * unit for unit in whole]
    moves = [(unit - own) / 2 - past for unit, past in zip(whole, gone, strict=True)]
    return np.asarray(moves).reshape(len(whole), len(codes)) / step
