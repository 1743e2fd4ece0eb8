"""Quantity: a number computed from linear estimates, with its derivatives, so that any expression
has a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Quantity:
    """A value and its derivative by each of the linear estimates it was made of (the delta method,
    carried along).

    >>> ratio = Quantity(6.0, {0: 1.0}) / Quantity(3.0, {1: 1.0})
    >>> ratio.value, ratio.slopes
    (2.0, {0: 0.3333333333333333, 1: -0.6666666666666666})
    """

    value: float
    slopes: Mapping[int, float] = field(default_factory=dict)

    def _joined(self, other: Quantity, value: float, mine: float, theirs: float) -> Quantity:
        slopes = {name: mine * slope for name, slope in self.slopes.items()}
        for name, slope in other.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + theirs * slope
        return Quantity(value, slopes)

    def __add__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value + other.value, 1.0, 1.0)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value - other.value, 1.0, -1.0)

    def __mul__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value * other.value, other.value, self.value)

    def __truediv__(self, other: Quantity) -> Quantity:
        if other.value == 0:
            return Quantity(math.nan)
        value = self.value / other.value
        return self._joined(other, value, 1 / other.value, -value / other.value)

    def sqrt(self) -> Quantity:
        """The square root; of a variance estimated below 0 there is none."""
        if self.value < 0:
            return Quantity(math.nan)
        root = math.sqrt(self.value)
        slope = 0.5 / root if root else 0.0
        return Quantity(root, {name: slope * each for name, each in self.slopes.items()})

    def scaled(self, factor: float) -> Quantity:
        """The quantity times a known number."""
        return Quantity(
            self.value * factor, {name: factor * slope for name, slope in self.slopes.items()}
        )
