"""RatioAnswer: a quotient of two estimates, whose denominator may be nothing as far as is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.answer import ANYTHING, Answer, Ends, reach


class Parts(NamedTuple):
    """Of one or many quotients: what is divided by what, and their covariances."""

    top: Any
    bottom: Any
    top_variance: Any
    covariance: Any
    bottom_variance: Any

    @classmethod
    def of(cls, top: float, bottom: float, matrix: NDArray[Any]) -> Parts:  # (2, 2)
        """The parts of one quotient, by the covariance matrix of the two."""
        return cls(top, bottom, matrix[0, 0], matrix[0, 1], matrix[1, 1])


def fieller(parts: Parts, reach: float, possible: Ends) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ends of intervals of quotients (Fieller 1954); nan where they cannot be estimated.

    All r with (a - r·b)² ≤ z²·Var(a - r·b). They lie between two ends if b² > z²·Var b, else they
    are all outside of two ends, or all there are: then the hull of what is possible of them is
    taken, and nothing is known if that is everything, or if b is not above 0.

    >>> wide = Parts(30.0, 100.0, 25.0, 0.0, 25.0)
    >>> [round(float(end), 3) for end in fieller(wide, 1.96, (0.0, 1.0))]
    [0.2, 0.406]
    """
    a, b, top, joint, bottom = (np.asarray(part, dtype=np.float64) for part in parts)
    least, most = possible
    with np.errstate(all="ignore"):
        square, middle = b**2 - reach**2 * bottom, a * b - reach**2 * joint
        inner = middle**2 - square * (a**2 - reach**2 * top)
        exact, root = (top == 0) & (bottom == 0), np.sqrt(np.maximum(inner, 0.0))
        ends = [np.where(exact, a / b, (middle + side * root) / square) for side in (-1, 1)]
        first, second = np.minimum(*ends), np.maximum(*ends)
        below, above = least <= first, second <= most  # which of the two parts outside is possible
        parted = np.where(below, least, second), np.where(above, most, first)
        low, high = (
            np.clip(np.where(square > 0, end, other), least, most)
            for end, other in zip((first, second), parted, strict=True)
        )
    part = (inner > 0) & (below | above) & ((low > least) | (high < most))
    known = (b > 0) & ((square > 0) | part)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def lift_parts(
    both: Any, first: Any, second: Any, covariance: Sequence[Sequence[Any]], people: float
) -> Parts:
    """The parts of a lift N·both / (first·second), from the covariances of the two and of both, in
    this order; those of the product by the delta method.
    """
    (a, joint, with_first), (_, b, with_second), (_, _, own) = covariance
    return Parts(
        people * both,
        first * second,
        people**2 * own,
        people * (second * with_first + first * with_second),
        second**2 * a + first**2 * b + 2 * first * second * joint,
    )


def mediants(top: Any, bottom: Any, high: Any = None) -> Ends:
    """Between which ends Σ top·x / Σ bottom·x lies, whatever the counts x ≥ 0 are: those of the
    quotients cell by cell, of which it is a weighted mean. Where top is not known it lies between
    `top` and `high`.

    >>> mediants([0, 1, 0], [1, 1, 0]), mediants([0, 1, 1], [1, 1, 0])
    ((0.0, 1.0), (0.0, inf))
    """
    low, below = np.broadcast_arrays(np.asarray(top, float), np.asarray(bottom, float))
    above = low if high is None else np.broadcast_to(np.asarray(high, float), low.shape)
    if (below < 0).any():
        return ANYTHING
    inside = below > 0
    least = (low[inside] / below[inside]).min(initial=math.inf)
    most = (above[inside] / below[inside]).max(initial=-math.inf)
    if (low[~inside] < 0).any():
        least = -math.inf
    if (above[~inside] > 0).any():
        most = math.inf
    return (float(least), float(most)) if least <= most else ANYTHING


@dataclass(frozen=True)
class RatioAnswer(Answer):
    """A quotient with its interval by Fieller's method; its standard error is that of the delta
    method, or where the interval is open half of it over 1.96.
    """

    parts: Parts = field(kw_only=True)

    @classmethod
    def of(cls, parts: Parts, possible: Ends = ANYTHING) -> Answer:
        """The quotient, without a value where it cannot be estimated."""
        low, high = map(float, fieller(parts, reach(0.95), possible))
        if math.isnan(low):
            return Answer(math.nan, math.nan)
        value = parts.top / parts.bottom
        variance = (
            parts.top_variance - 2 * value * parts.covariance + value**2 * parts.bottom_variance
        )
        stderr = math.sqrt(max(variance, 0.0)) / parts.bottom
        if parts.bottom**2 <= reach(0.95) ** 2 * parts.bottom_variance:
            stderr = max(stderr, (high - low) / (2 * reach(0.95)))
        return cls(value, stderr, possible=possible, parts=parts)

    def interval(self, level: float = 0.95) -> Ends:
        """The interval that covers the truth at this level."""
        low, high = map(float, fieller(self.parts, reach(level), self.possible))
        return self.possible if math.isnan(low) else (low, high)

    def scaled(self, factor: float) -> Self:
        """The answer times a known number."""
        top, bottom, variance, covariance, other = self.parts
        parts = Parts(factor * top, bottom, factor**2 * variance, factor * covariance, other)
        return replace(super().scaled(factor), parts=parts)
