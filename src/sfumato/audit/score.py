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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audit.limits import MOST_NUMBERS

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
    def of(cls, name: str, tests: Iterable[ScoreTest], *, nothing: str = "") -> Check:
        """The least likely of all tests, its p-value times their number; `nothing` is said where
        there is no place at all.
        """
        given = [test for test in tests if test.logs.size]
        if not given:
            return cls(name, 1.0, nothing)
        worst = min(given, key=lambda test: test.log)
        place = int(np.argmin(worst.logs))
        detail = worst.where(place) if callable(worst.where) else worst.where[place]
        return cls(name, float(np.exp(min(0.0, worst.log + np.log(len(given))))), detail)

    @classmethod
    def each(cls, named: Mapping[str, Iterable[ScoreTest]]) -> list[Check]:
        """A check for every name that has a place."""
        found = {name: [test for test in tests if test.logs.size] for name, tests in named.items()}
        return [cls.of(name, tests) for name, tests in found.items() if tests]


@dataclass(frozen=True, eq=False)
class ScoreTest:
    """The logarithms of two-sided p-values, place by place, and what each place is called."""

    logs: Floats
    where: Where
    places: int = 0  # those that were not even worth a logarithm too; unless stated, all have one

    @property
    def log(self) -> float:
        """Of the least likely place, times the number of places."""
        return float(self.logs.min() + np.log(self.places or self.logs.size))

    @classmethod
    def of(
        cls,
        deviation: ArrayLike,
        variance: ArrayLike,
        where: Where,
        most: ArrayLike = 1.0,
        least: ArrayLike = 1.0,
        places: int = 0,
    ) -> ScoreTest:
        """Of sums of independent terms of mean 0, none beyond `most` above or `least` below; 0 for
        sums of so many terms that they are normal.
        """
        return cls(log_tail(deviation, variance, most, least).ravel(), where, places)


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
        return ScoreTest.of(sums(self.left), sums(self.variance), where, self.most, self.least)

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


def log_tail(
    deviation: ArrayLike, variance: ArrayLike, most: ArrayLike = 1.0, least: ArrayLike = 1.0
) -> Floats:
    """The logarithm of the two-sided p-value of a sum of independent terms of mean 0, no term
    beyond `most` upwards or `least` downwards.

    Of all such sums with variance v and terms up to b, a Poisson count in steps of b has the
    heaviest tail (Bennett 1962; of martingales too, Freedman 1975). Its own is taken, by the
    saddlepoint approximation for steps (Lugannani and Rice 1980, as Barndorff-Nielsen's r*): with
    z = t/√v, u = bt/v and w² = 2(v/b²)((1+u)ln(1+u) - u), P = Φ(-w - ln(z / (w√(1+u))) / w). It
    is right from counts that hardly ever come to sums that are normal (b → 0), and as far out as a
    search among millions of sums needs.
    """
    from scipy.special import log_ndtr

    t, v = np.asarray(deviation, dtype=np.float64), np.maximum(variance, TINY)
    step, far = np.where(t > 0, most, least), np.abs(t)
    ratio, squared = step * far / v, far * far / v
    normal = ratio < 1e-4  # where the logarithm would cancel
    skewed = np.where(normal, 1.0, ratio)
    root = np.sqrt(
        squared * np.where(normal, 1.0, 2 * ((1 + skewed) * np.log1p(skewed) - skewed) / skewed**2)
    )
    near = root < 0.1  # chance itself
    apart = np.where(near, 1.0, root)
    shift = np.log(np.where(near, 1.0, squared / (1 + ratio)) / apart**2) / (2 * apart)
    tail = np.where(near, 0.0, np.log(2) + log_ndtr(-apart - shift))
    # A sum without variance cannot deviate at all, but for rounding.
    certain = np.where(far > 1e-6, -np.inf, 0.0)
    return np.minimum(np.where(v > TINY, tail, certain), 0.0)
