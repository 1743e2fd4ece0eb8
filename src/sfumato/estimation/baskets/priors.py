"""Priors learnt from many noisy supports at once, and what each support is once they are known:
empirical Bayes by a mixture on a grid (Kiefer and Wolfowitz 1956; Efron's g-modelling).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.baskets.classes import Floats

STEPS = 60  # of EM
MOST_GROUPS = 4096  # of items of like supports that a prior is learnt from: bounds the memory
NOTHING = 1e3  # the variance of a support that nothing was reported of
SMOOTH = 0.2  # in log support: the width of the kernel that smooths a prior
EVEN = 10.0  # items that the first prior counts as, which is even in log support
SINGLES = np.linspace(np.log(2e-5), np.log(0.999), 150)  # log supports of single items
AROUND = np.linspace(-3.5, 3.0, 66)  # log lifts: log ratios to a prediction


@dataclass(frozen=True, eq=False)
class NoisyObservation:
    """Estimated supports with their variances, a part of which is by chance alone and grows with
    the support.

    Reports of a rare itemset are few, and their count is Poisson, not normal: a count that is low
    by chance has a low variance as well. The likelihood of a support x is therefore that of a
    Poisson count with the variance at x: (x + s)/c reports, c being the slope and s·c the variance
    at 0. The other part of the variance flattens this likelihood.
    """

    found: Floats  # (n,)
    variance: Floats
    chance: Floats  # the part of the variance that is by chance alone
    slope: Floats  # by how much that grows with the support; 0: a normal distribution
    systematic: Floats  # the error that all have together, up or down

    @classmethod
    def normal(
        cls, found: Floats, variance: Floats, systematic: Floats | None = None
    ) -> NoisyObservation:
        """Whose variance is the same for every support."""
        none = np.zeros(len(found))
        return cls(found, variance, variance, none, none if systematic is None else systematic)

    @property
    def _fields(self) -> tuple[Floats, ...]:
        return self.found, self.variance, self.chance, self.slope, self.systematic

    def take(self, places: NDArray[Any]) -> NoisyObservation:
        """Some of them."""
        return NoisyObservation(*(each[places] for each in self._fields))

    def where(self, places: NDArray[np.bool_], others: NoisyObservation) -> NoisyObservation:
        """These, but for the others in some places."""
        fields = [each.copy() for each in self._fields]
        for own, other in zip(fields, others._fields, strict=True):
            own[places] = other
        return NoisyObservation(*fields)

    def means(self, parts: Sequence[NDArray[np.intp]]) -> NoisyObservation:
        """The mean of each of these parts."""
        return NoisyObservation(
            *(np.array([each[p].mean() for p in parts]) for each in self._fields)
        )

    @cached_property
    def base(self) -> Floats:
        """The variance by chance alone, were the support 0."""
        return np.maximum(self.chance - self.slope * np.maximum(self.found, 0), 1e-3 * self.chance)

    def log_chances(self, supports: Floats) -> Floats:  # (n, values)
        """The log likelihoods of these supports."""
        away = -((self.found[:, None] - supports) ** 2) / (2 * self.variance[:, None])
        some = np.flatnonzero((self.slope > 0) & (self.variance < NOTHING))
        if not len(some):
            return np.asarray(away)
        own = self.take(some)
        shift = own.base / own.slope
        count = np.maximum(own.found + shift, 1e-9 * shift) / own.slope
        mean = (supports[some] + shift[:, None]) / own.slope[:, None]
        logs = count[:, None] * np.log(mean / count[:, None]) - mean + count[:, None]
        away[some] = logs * (own.chance / own.variance)[:, None]
        return np.asarray(away)


@dataclass(frozen=True, eq=False)
class LiftPrior:
    """The distribution of log lifts, the logarithm of support ÷ prediction, on a grid."""

    grid: Floats  # (values,)
    masses: Floats

    @classmethod
    def supposed(cls) -> LiftPrior:
        """Before any itemset of two items was asked about: log lifts of order one."""
        heights = np.exp(-(AROUND**2) / 2) + 1e-4
        return cls(AROUND, heights / heights.sum())

    @classmethod
    def of_items(cls, told: NoisyObservation) -> LiftPrior:
        """The prior of the supports of items, all predicted as 1; first it is even in log
        support.
        """
        even = cls(SINGLES, np.full(len(SINGLES), 1 / len(SINGLES)))
        order = np.lexsort((told.found, told.variance))
        parts = np.array_split(order, max(min(len(order), MOST_GROUPS), 1))
        many = np.array([len(part) for part in parts], dtype=np.float64)
        return even.learnt(np.ones(len(parts)), told.means(parts), EVEN, many)

    @classmethod
    def of_itemsets(cls, predicted: Floats, told: NoisyObservation) -> LiftPrior:
        """The prior of the lifts of itemsets over these predictions."""
        return cls.supposed().learnt(predicted, told, 1.0)

    def learnt(
        self,
        predicted: Floats,
        told: NoisyObservation,
        beforehand: float,
        many: Floats | None = None,
    ) -> LiftPrior:
        """The prior once these itemsets were seen (EM), each standing for so many; the prior
        before counts as so many of them.
        """
        if not len(told.found):
            return self
        times = np.ones(len(told.found)) if many is None else many
        logs = told.log_chances(self.supports(predicted))
        chance = np.exp(logs - logs.max(axis=1, keepdims=True)) + 1e-300
        masses = self.masses
        for _ in range(STEPS):
            each = chance * masses
            seen = (times / each.sum(axis=1)) @ each
            masses = self._smoothed((seen + beforehand * self.masses) / (times.sum() + beforehand))
        return LiftPrior(self.grid, masses)

    def _smoothed(self, masses: Floats) -> Floats:
        """The prior without spikes: the most likely one is a few points, and would make each
        support too certain (Silverman et al. 1990).
        """
        step = self.grid[1] - self.grid[0]
        reach = round(3 * SMOOTH / step)
        bell = np.exp(-((np.arange(-reach, reach + 1) * step / SMOOTH) ** 2) / 2)
        found = np.convolve(masses, bell / bell.sum(), mode="same")
        return np.asarray(found / found.sum())

    def supports(self, predicted: Floats) -> Floats:  # (n, values)
        """The supports that are possible for these predictions."""
        return np.minimum(np.outer(predicted, np.exp(self.grid)), 1.0)

    def known(self, predicted: Floats, told: NoisyObservation) -> Posterior:
        """The posterior of supports, given what was found of them."""
        found, variance = told.found, told.variance
        supports, masses = self.supports(predicted), np.tile(self.masses, (len(found), 1))
        error = np.sqrt(variance)
        fine = np.flatnonzero(5.2 * error < found)  # the grid would be too coarse for them
        if len(fine):
            near = found[fine, None] + error[fine, None] * np.linspace(-5, 5, len(self.grid))
            # Above 1 too: cut off there, what nearly everybody holds would seem surer than its
            # reports are, and be told too low.
            supports[fine] = near
            logs = np.log(supports[fine] / predicted[fine, None])
            masses[fine] = np.interp(logs, self.grid, self.masses, 1e-12) / supports[fine]
        away = told.log_chances(supports)
        chance = np.exp(away - away.max(axis=1, keepdims=True)) * masses + 1e-300
        alone = np.where(variance < NOTHING, found, np.nan)
        masses = chance / chance.sum(axis=1, keepdims=True)
        return Posterior(supports, masses, alone, told.systematic)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior distribution of each support, on a grid of its own."""

    supports: Floats  # (n, values)
    masses: Floats
    told: Floats  # (n,): the estimate from the reports alone; nan where there is none
    systematic: Floats | float = 0.0  # (n,): the error that all have together, up or down

    @cached_property
    def mean(self) -> Floats:
        """The expected supports."""
        return np.minimum(self._middle, 1.0)

    @property
    def _middle(self) -> Floats:
        return np.asarray((self.supports * self.masses).sum(axis=1))

    @cached_property
    def stderr(self) -> Floats:
        """The posterior standard deviation, which holds how far each was drawn away from its own
        reports, and the error that all have together.
        """
        square = (self.supports**2 * self.masses).sum(axis=1) - self._middle**2
        # All would be off by one factor, and with them the law that they are drawn to: of a support
        # that was drawn down, the part of it that is open stays the same.
        told = np.where(self.told > self.mean, self.told, self.mean)
        return np.asarray(
            np.sqrt(np.maximum(square, 0) + (self.systematic * self.mean / told) ** 2)
        )

    def take(self, places: NDArray[np.integer]) -> Posterior:
        """Some of the supports."""
        told = self.told[places]
        systematic = np.broadcast_to(self.systematic, self.told.shape)[places]
        return Posterior(self.supports[places], self.masses[places], told, systematic)

    def above(self, least: float) -> Floats:
        """How probable it is that each support reaches this."""
        return np.asarray((self.masses * (self.supports >= least)).sum(axis=1))
