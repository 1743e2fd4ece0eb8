"""Square wave: a number in a narrow window, for distributions, quantiles and ranges (Li et al.
2020, on a grid).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.mechanisms.number_rounds import NumberRounds
from sfumato.mechanisms.windows import Windows


@dataclass(frozen=True, repr=False)
class SquareWave(Windows):
    """A window of 2w+1 reports, w = c(εγ − γ + 1) / (2γ(γ − 1 − ε)): the most that a report can say
    of where the number lies.

    >>> from sfumato.domain import Domain, Numeric
    >>> from sfumato.privacy.guarantee import Guarantee
    >>> age = Domain((Numeric("age", 0, 100),))
    >>> SquareWave.promising(Guarantee(19), age).lengths
    (15,)
    """

    name = "square-wave"
    rounds = NumberRounds()
    summary = "one number a person, for its distribution, quantiles and ranges"

    @classmethod
    def length(cls, values: int, gamma: float) -> int:
        epsilon = math.log(gamma)
        if epsilon < 1e-3:  # both parts of the fraction vanish: its limit
            half = values / 2
        else:
            half = values * (epsilon * gamma - gamma + 1) / (2 * gamma * (gamma - 1 - epsilon))
        return min(2 * round(half) + 1, 2 * values - 1)
