"""Check: one thing that must hold of a release if its mechanism keeps its word, and how surprising
the release makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SPARSE = 10.0  # cells expected to hold fewer rows than this are judged together
NORMAL = 100.0  # counts whose variance is at least this are judged by the normal law
TINY = 1e-12  # a variance that is none
ROUNDING = 1e-6  # a deviation that rounding explains


@dataclass(frozen=True)
class Check:
    """The probability of a deviation this large if the mechanism does what it says, and where the
    largest was found.
    """

    name: str
    p_value: float
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "p_value": self.p_value, "detail": self.detail}


def worst_of(name: str, p_values: ArrayLike, details: list[str] | None = None) -> Check:
    """Several tests of one thing as one: the least p-value times their number (Bonferroni)."""
    values = np.atleast_1d(np.asarray(p_values, dtype=np.float64))
    if not values.size:
        return Check(name, 1.0)
    place = int(np.argmin(values))
    return Check(
        name, float(min(1.0, values[place] * values.size)), details[place] if details else ""
    )


def worst_log(name: str, logs: ArrayLike, tests: float, detail: Callable[[int], str]) -> Check:
    """Several tests of one thing as one, from the logarithms of their p-values; `tests` counts
    those that were not even worth a logarithm too.
    """
    values = np.atleast_1d(np.asarray(logs, dtype=np.float64))
    if not values.size:
        return Check(name, 1.0)
    place = int(np.argmin(values))
    return Check(
        name, float(np.exp(min(0.0, values[place] + np.log(max(tests, 1.0))))), detail(place)
    )


def two_sided(score: ArrayLike) -> NDArray[np.float64]:
    """The p-value of a normal score."""
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-np.abs(np.asarray(score, dtype=np.float64))))


def bounded(
    deviation: ArrayLike, variance: ArrayLike, most: ArrayLike = 1.0, least: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """The logarithm of a two-sided p-value of a sum of independent terms of mean 0, by Bennett's
    inequality.

    No term exceeds `most` upwards or `least` downwards. P(sum ≥ t) ≤ exp(-(v/b²)·h(bt/v)),
    h(u) = (1+u)ln(1+u) - u: it holds at every size and for every law, so that it can be trusted as
    far out as a search among millions of sums needs; where t is a few standard errors of many
    terms it is close to the normal tail. (Freedman: it holds of martingales too.)
    """
    t, v = np.asarray(deviation, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    bound = np.where(t > 0, most, least)
    ratio = bound * np.abs(t) / np.maximum(v, TINY)
    tail = np.log(2) - np.maximum(v, TINY) / bound**2 * ((1 + ratio) * np.log1p(ratio) - ratio)
    # A sum without variance cannot deviate at all, but for rounding.
    certain = np.where(np.abs(t) > ROUNDING, -np.inf, 0.0)
    return np.minimum(np.where(v > TINY, tail, certain), 0.0)


def counted(
    found: ArrayLike, trials: ArrayLike, mean: ArrayLike, variance: ArrayLike
) -> NDArray[np.float64]:
    """The two-sided p-value of how many of independent yes-no events came true, with this mean and
    variance.

    The normal law where the variance is large; else Poisson's for the rarer outcome, whose tails
    are heavier.
    """
    from scipy.special import pdtr, pdtrc

    found, trials, mean, variance = (
        np.asarray(values, dtype=np.float64) for values in (found, trials, mean, variance)
    )
    normal = two_sided((found - mean) / np.sqrt(np.maximum(variance, NORMAL)))
    misses = mean > trials / 2
    rare, seen = np.where(misses, trials - mean, mean), np.where(misses, trials - found, found)
    rare = np.maximum(rare, 0.0)
    above = np.where(seen > 0, pdtrc(np.maximum(seen - 1, 0), rare), 1.0)
    poisson = np.minimum(1.0, 2 * np.minimum(pdtr(seen, rare), above))
    return np.where(variance >= NORMAL, normal, poisson)


def fit(observed: NDArray[Any], expected: NDArray[Any]) -> float:
    """Chi-square p-value of counts against expected counts, truth by truth; both have shape
    (reports, truths).

    Sparse cells of a truth are pooled, and left out where even together they are sparse; a report
    that cannot occur and did gives 0.
    """
    from scipy.special import chdtrc

    if observed[expected <= 0].any():
        return 0.0
    small = expected < SPARSE
    pooled, pooled_mean = (observed * small).sum(axis=0), (expected * small).sum(axis=0)
    own = np.where(small, 0.0, (observed - expected) ** 2 / np.where(small, 1.0, expected)).sum(
        axis=0
    )
    judged = pooled_mean >= SPARSE
    rest = np.where(judged, (pooled - pooled_mean) ** 2 / np.where(judged, pooled_mean, 1.0), 0.0)
    # Cells that make up all reports of a truth are bound by their sum; where a sparse rest is left
    # out, they are not.
    bound = judged | (pooled_mean <= 0)
    freedom = np.maximum((~small).sum(axis=0) + judged - bound, 0)
    used = freedom > 0
    return float(chdtrc(freedom[used].sum(), (own + rest)[used].sum())) if used.any() else 1.0
