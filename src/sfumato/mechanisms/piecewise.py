"""Piecewise: a number in a wide window, for means (Wang et al. 2019, on a grid)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.mechanisms.windows import Windows


@dataclass(frozen=True, repr=False)
class Piecewise(Windows):
    """A window of (c−1)/√γ reports: the least error of a mean under γ.

    >>> from sfumato.domain import Domain, Numeric
    >>> from sfumato.privacy.guarantee import Guarantee
    >>> age = Domain((Numeric("age", 0, 100),))
    >>> mechanism = Piecewise.promising(Guarantee(19), age)
    >>> mechanism.guarantee, mechanism.lengths
    (Guarantee(gamma=19), (23,))
    """

    name = "piecewise"
    summary = "one number a person, for means"

    @classmethod
    def length(cls, values: int, gamma: float) -> int:
        return max(1, round((values - 1) / math.sqrt(gamma)))
