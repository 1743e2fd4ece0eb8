"""Quantity: a number computed from linear estimates, with its derivatives, so that any expression
has a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Quantity:
    """A value and its derivative by each of the linear estimates it was made of (the delta method,
    carried along).

    `radicands` are what roots were taken of on the way: where one of them is lost in its error the
    derivatives say nothing. `root` is the radicand of a quantity that is itself a root, and no more.

    >>> ratio = Quantity(6.0, {0: 1.0}) / Quantity(3.0, {1: 1.0})
    >>> ratio.value, ratio.slopes
    (2.0, {0: 0.3333333333333333, 1: -0.6666666666666666})
    """

    value: float
    slopes: Mapping[int, float] = field(default_factory=dict)
    radicands: tuple[Quantity, ...] = ()
    root: Quantity | None = None

    def _joined(self, other: Quantity, value: float, mine: float, theirs: float) -> Quantity:
        slopes = {name: mine * slope for name, slope in self.slopes.items()}
        for name, slope in other.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + theirs * slope
        return Quantity(value, slopes, self.radicands + other.radicands)

    def __add__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value + other.value, 1.0, 1.0)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value - other.value, 1.0, -1.0)

    def __mul__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value * other.value, other.value, self.value)

    def __truediv__(self, other: Quantity) -> Quantity:
        if other.value == 0:
            return NOTHING
        value = self.value / other.value
        return self._joined(other, value, 1 / other.value, -value / other.value)

    def sqrt(self) -> Quantity:
        """The square root; of what is estimated below 0 it is 0."""
        root = math.sqrt(max(self.value, 0.0)) if math.isfinite(self.value) else math.nan
        slope = 0.5 / root if root else 0.0
        slopes = {name: slope * each for name, each in self.slopes.items()}
        return Quantity(root, slopes, (*self.radicands, self), self)

    def scaled(self, factor: float) -> Quantity:
        """The quantity times a known number."""
        slopes = {name: factor * slope for name, slope in self.slopes.items()}
        return replace(self, value=self.value * factor, slopes=slopes, root=None)


NOTHING = Quantity(math.nan)  # SQL's NULL: an aggregate over no records, or a quotient by 0
