"""Quantity: a number computed from linear estimates, with its derivatives, so that any expression
has a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

ROUNDING = 1e-9


@dataclass(frozen=True)
class Quantity:
    """A value and its derivative by each of the linear estimates it was made of (the delta method,
    carried along); or, where the estimates were drawn again, an array of values without.

    `bends` says that a root was taken on the way, where the derivatives say little. `root` is the
    radicand of a quantity that is itself a root and no more, `ends` are limits that it has.

    >>> ratio = Quantity(6.0, {0: 1.0}) / Quantity(3.0, {1: 1.0})
    >>> ratio.value, ratio.slopes
    (2.0, {0: 0.3333333333333333, 1: -0.6666666666666666})
    """

    value: Any  # a float, or an array of draws
    slopes: Mapping[int, float] = field(default_factory=dict)
    bends: bool = False
    root: Quantity | None = None
    ends: tuple[float, float] | None = None

    def _joined(self, other: Quantity, value: Any, mine: float, theirs: float) -> Quantity:
        slopes = {name: mine * slope for name, slope in self.slopes.items()}
        for name, slope in other.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + theirs * slope
        return Quantity(value, slopes, self.bends or other.bends)

    def __add__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value + other.value, 1.0, 1.0)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value - other.value, 1.0, -1.0)

    def __neg__(self) -> Quantity:
        return self.scaled(-1.0)

    def __mul__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value * other.value, other.value, self.value)

    def __truediv__(self, other: Quantity) -> Quantity:
        bends = self.bends or other.bends
        if np.ndim(other.value) or np.ndim(self.value):
            below = np.where(other.value == 0, np.nan, other.value)
            return Quantity(self.value / below, bends=bends)
        if other.value == 0:
            return replace(NOTHING, bends=bends)
        value = self.value / other.value
        return self._joined(other, value, 1 / other.value, -value / other.value)

    def sqrt(self) -> Quantity:
        """The square root; of what is estimated below 0 it is 0.

        Draws about an estimate below 0 are moved up to 0 with it, else all their roots would be
        sure to be 0.
        """
        if np.ndim(self.value):
            known = self.value[np.isfinite(self.value)]
            lift = max(0.0, -float(np.median(known))) if len(known) else 0.0
            return Quantity(np.sqrt(np.maximum(self.value + lift, 0.0)), bends=True)
        root = np.sqrt(np.maximum(self.value, 0.0))
        slope = 0.5 / float(root) if root > 0 else 0.0
        slopes = {name: slope * each for name, each in self.slopes.items()}
        return Quantity(float(root), slopes, True, None if self.bends else self)

    def scaled(self, factor: float) -> Quantity:
        """The quantity times a known number."""
        slopes = {name: factor * slope for name, slope in self.slopes.items()}
        return Quantity(self.value * factor, slopes, self.bends)

    def unless_zero(self) -> Quantity:
        """The quantity, and NULL where it is 0."""
        if np.ndim(self.value):
            return replace(self, value=np.where(self.value == 0, np.nan, self.value))
        return NOTHING if self.value == 0 else self

    def above_zero_if_drawn(self) -> Quantity:
        """The quantity; of draws only those above 0."""
        if np.ndim(self.value) == 0:
            return self
        return replace(self, value=np.where(self.value > 0, self.value, np.nan))

    def not_by_rounding_below_zero(self, size: Quantity) -> Quantity:
        """0 where it lies below 0 by no more than rounding, beside numbers of this size."""
        rounded = (self.value < 0) & (self.value > -ROUNDING * size.value)
        value = np.where(rounded, 0.0, self.value)
        return replace(self, value=value if np.ndim(value) else float(value))

    def between(self, low: float, high: float) -> Quantity:
        """The quantity with the limits that it has by its nature."""
        return replace(self, ends=(low, high))


NOTHING = Quantity(math.nan)  # SQL's NULL: an aggregate over no records, or a quotient by 0
