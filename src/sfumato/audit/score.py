"""Score tests: what must hold of a release if its mechanism keeps its word, and how unlikely the
release makes it.

Every check has one shape. Given the truths, a sum of scores has a known mean and variance whoever
the people are; it is taken at many places (rows, stretches, columns, pairs of items), and the least
likely of them is judged, its p-value times the number of places (Bonferroni).

The scores that are looked at everywhere are those of agreement: whether each report has the true
value, beside the probability that it should. Given the truths, the deviations 1[agrees] - P(agrees)
of a sound mechanism are independent, of mean 0 and known variance. So wherever in the file they add
up, the mechanism lets the truth through there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audit.limits import MOST_NUMBERS, NORMAL, SPARSE

TINY = 1e-12  # a variance that is none
TOO_FEW = "too few rows to tell"

Floats = NDArray[np.float64]
Where = Callable[[int], str] | Sequence[str]  # what each place is called


@dataclass(frozen=True)
class Check:
    """The probability of a deviation this large if the mechanism does what it says, and where the
    largest was found.
    """

    name: str
    p_value: float
    detail: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        tests: Iterable[ScoreTest],
        *,
        places: float | None = None,
        nothing: str = "",
    ) -> Check:
        """The least likely place of all tests, its p-value times the number of places.

        `places` counts those that were not even worth a logarithm too; `nothing` is said where
        there is no place at all.
        """
        given = [test for test in tests if test.logs.size]
        if not given:
            return cls(name, 1.0, nothing)
        worst = min(given, key=lambda test: float(test.logs.min()))
        place = int(np.argmin(worst.logs))
        places = sum(test.logs.size for test in given) if places is None else places
        detail = worst.where(place) if callable(worst.where) else worst.where[place]
        return cls(name, float(np.exp(min(0.0, worst.logs[place] + np.log(places)))), detail)


@dataclass(frozen=True, eq=False)
class ScoreTest:
    """The logarithms of two-sided p-values, place by place, and what each place is called."""

    logs: Floats
    where: Where

    @classmethod
    def sums(
        cls,
        deviation: ArrayLike,
        variance: ArrayLike,
        where: Where,
        most: ArrayLike = 1.0,
        least: ArrayLike = 1.0,
    ) -> ScoreTest:
        """Of sums of independent terms of mean 0, none beyond `most` above or `least` below."""
        return cls(bounded(deviation, variance, most, least).ravel(), where)

    @classmethod
    def normal(cls, deviation: ArrayLike, variance: ArrayLike, where: Where) -> ScoreTest:
        """Of sums of so many terms that they are normal."""
        from scipy.special import log_ndtr

        score = np.abs(np.ravel(deviation)) / np.sqrt(np.maximum(variance, TINY))
        return cls(np.log(2) + log_ndtr(-score), where)

    @classmethod
    def of(cls, p_values: ArrayLike, where: Where) -> ScoreTest:
        """Of p-values that are known."""
        with np.errstate(divide="ignore"):
            return cls(np.log(np.ravel(p_values)), where)


@dataclass(frozen=True, eq=False)
class RowScores:
    """A score a row, such as how much of something its report has true, with its mean and its
    variance given the truth.
    """

    name: str
    found: Floats
    mean: Floats  # row by row, or one number where all have the same; so the variance
    variance: Floats
    most: float = 1.0  # how far one term can lie above its mean, and below
    least: float = 1.0
    top: float = 1.0  # what a report that is its record has

    @classmethod
    def of(cls, name: str, agree: NDArray[np.bool_], chance: Floats) -> RowScores:
        """Whether something is so, and how likely it was."""
        most, least = max(1 - float(chance.min()), 1e-9), float(chance.max())
        return cls(name, agree.astype(np.float64), chance, chance * (1 - chance), most, least)

    @cached_property
    def left(self) -> Floats:
        """What chance left: found less expected."""
        return self.found - self.mean

    @property
    def rows(self) -> int:
        return len(self.found)

    def test(self, sums: Callable[[Floats], Floats], where: Where) -> ScoreTest:
        """Whether the sums over some rows are as near to 0 as their variances say."""
        return ScoreTest.sums(sums(self.left), sums(self.variance), where, self.most, self.least)

    def total(self) -> ScoreTest:
        """Whether all rows together have as much as they should."""
        return self.test(np.sum, (self.name,))


@dataclass(frozen=True, eq=False)
class Agreements:
    """What the reports of a release have true: everything at once, then column by column or item
    by item.
    """

    whole: RowScores
    parts: tuple[RowScores, ...]
    unchanged: NDArray[np.bool_]  # whether the report is the record
    staying: Floats  # at least the probability of that, row by row

    @cached_property
    def scores(self) -> tuple[RowScores, ...]:
        """The whole and as many parts as can be followed through so many rows."""
        return (self.whole, *self.parts)[: max(1, MOST_NUMBERS // max(1, self.whole.rows))]


def bounded(
    deviation: ArrayLike, variance: ArrayLike, most: ArrayLike = 1.0, least: ArrayLike = 1.0
) -> Floats:
    """The logarithm of a two-sided p-value of a sum of independent terms of mean 0, by Bennett's
    inequality.

    No term exceeds `most` upwards or `least` downwards. P(sum ≥ t) ≤ exp(-(v/b²)·h(bt/v)),
    h(u) = (1+u)ln(1+u) - u: it holds at every size and for every distribution, so that it can be
    trusted as far out as a search among millions of sums needs; where t is a few standard errors of
    many terms it is close to the normal tail. (Freedman: it holds of martingales too.)
    """
    t, v = np.asarray(deviation, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    bound = np.where(t > 0, most, least)
    ratio = bound * np.abs(t) / np.maximum(v, TINY)
    tail = np.log(2) - np.maximum(v, TINY) / bound**2 * ((1 + ratio) * np.log1p(ratio) - ratio)
    # A sum without variance cannot deviate at all, but for rounding.
    certain = np.where(np.abs(t) > 1e-6, -np.inf, 0.0)
    return np.minimum(np.where(v > TINY, tail, certain), 0.0)


def counted(
    found: ArrayLike, trials: ArrayLike, mean: ArrayLike, variance: ArrayLike
) -> NDArray[np.float64]:
    """The two-sided p-value of how many of independent yes-no events came true, with this mean and
    variance.

    The normal distribution where the variance is large; else Poisson's for the rarer outcome, whose
    tails are heavier.
    """
    from scipy.special import ndtr, pdtr, pdtrc

    found, trials, mean, variance = (
        np.asarray(values, dtype=np.float64) for values in (found, trials, mean, variance)
    )
    normal = 2 * ndtr(-np.abs(found - mean) / np.sqrt(np.maximum(variance, NORMAL)))
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
