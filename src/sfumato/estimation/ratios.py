"""Ratios: how supports stand to what is predicted of them, learnt from many noisy ones at once, and
what each is once that is known (empirical Bayes; Kiefer and Wolfowitz's mixture on a grid).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS = 60  # of EM
ALIKE = 600  # groups of items of like supports, whose law is learnt
NOTHING = 1e3  # the variance of a support of which nothing was said
SMOOTH = 0.2  # of the logarithm of a support, over which a law has no spikes
SINGLES = np.linspace(np.log(2e-5), np.log(0.999), 150)  # log supports of single items
AROUND = np.linspace(-3.5, 3.0, 66)  # log ratios to a prediction
SUPPOSED = 0.6  # the usual log ratio, where little was seen yet
BEFOREHAND = 12.0  # itemsets that this supposition counts as


@dataclass(frozen=True, eq=False)
class Ratios:
    """The law of the logarithm of support ÷ prediction, on a grid."""

    grid: Floats  # (values,)
    masses: Floats

    @classmethod
    def supposed(cls) -> Ratios:
        """What is taken for granted before any itemset of two items was asked about."""
        return cls(AROUND, _bell())

    @classmethod
    def of_items(cls, found: Floats, variance: Floats) -> Ratios:
        """The law of the supports of all items, predicted as 1."""
        even = cls(SINGLES, np.full(len(SINGLES), 1 / len(SINGLES)))
        order = np.lexsort((found, variance))
        parts = np.array_split(order, min(len(order), ALIKE))  # those alike count together
        many = np.array([len(part) for part in parts], dtype=np.float64)
        means = [np.array([array[part].mean() for part in parts]) for array in (found, variance)]
        return even.learnt(np.ones(len(parts)), means[0], means[1], 1.0, many)

    @classmethod
    def of_itemsets(cls, predicted: Floats, found: Floats, variance: Floats) -> Ratios:
        """The law of what itemsets are to their predictions."""
        return cls.supposed().learnt(predicted, found, variance, BEFOREHAND)

    def learnt(
        self,
        predicted: Floats,
        found: Floats,
        variance: Floats,
        beforehand: float,
        many: Floats | None = None,
    ) -> Ratios:
        """The law after these itemsets were seen, each standing for so many, the one before
        counting as so many of them.
        """
        if not len(found):
            return self
        times = np.ones(len(found)) if many is None else many
        chance = self._chances(predicted, found, variance)
        masses = self.masses
        for _ in range(STEPS):
            each = chance * masses
            told = (times / each.sum(axis=1)) @ each
            masses = self._smoothed((told + beforehand * self.masses) / (times.sum() + beforehand))
        return Ratios(self.grid, masses)

    def _smoothed(self, masses: Floats) -> Floats:
        """The law without its spikes: the likeliest one would be a few points, and so surer of
        each support than anybody can be (Silverman et al. 1990).
        """
        step = self.grid[1] - self.grid[0]
        reach = round(3 * SMOOTH / step)
        bell = np.exp(-((np.arange(-reach, reach + 1) * step / SMOOTH) ** 2) / 2)
        found = np.convolve(masses, bell / bell.sum(), mode="same")
        return np.asarray(found / found.sum())

    def _chances(self, predicted: Floats, found: Floats, variance: Floats) -> Floats:
        supports = self.supports(predicted)
        logs = -((found[:, None] - supports) ** 2) / (2 * variance[:, None])
        return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True))) + 1e-300

    def supports(self, predicted: Floats) -> Floats:  # (n, values)
        """The supports that are possible for these predictions."""
        return np.minimum(np.outer(predicted, np.exp(self.grid)), 1.0)

    def known(self, predicted: Floats, found: Floats, variance: Floats) -> Posterior:
        """What the supports are, given what was found of them."""
        supports, masses = self.supports(predicted), np.tile(self.masses, (len(found), 1))
        error = np.sqrt(variance)
        fine = np.flatnonzero(5.2 * error < found)  # the grid would be too coarse for them
        if len(fine):
            near = found[fine, None] + error[fine, None] * np.linspace(-5, 5, len(self.grid))
            supports[fine] = np.minimum(near, 1.0)
            logs = np.log(supports[fine] / predicted[fine, None])
            masses[fine] = np.interp(logs, self.grid, self.masses, 1e-12, 1e-12) / supports[fine]
        away = -((found[:, None] - supports) ** 2) / (2 * variance[:, None])
        chance = np.exp(away - away.max(axis=1, keepdims=True)) * masses + 1e-300
        told = np.where(variance < NOTHING, found, np.nan)
        return Posterior(supports, chance / chance.sum(axis=1, keepdims=True), told)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The law of each support, on a grid of its own."""

    supports: Floats  # (n, values)
    masses: Floats
    told: Floats  # (n,): what the reports said alone; nan where they said nothing
    open_to: Floats | float = 0.0  # (n,): how far all may be off together, up or down

    @cached_property
    def mean(self) -> Floats:
        """The expected supports."""
        return np.asarray((self.supports * self.masses).sum(axis=1))

    @cached_property
    def stderr(self) -> Floats:
        """How far the supports may be from that: as their law says, which knows already how far it
        drew each away from its own reports, and as far as all may be off together.
        """
        square = (self.supports**2 * self.masses).sum(axis=1) - self.mean**2
        # All would be off by one factor, and with them the law that they are drawn to: of a support
        # that was drawn down, the part of it that is open stays the same.
        told = np.where(self.told > self.mean, self.told, self.mean)
        return np.asarray(np.sqrt(np.maximum(square, 0) + (self.open_to * self.mean / told) ** 2))

    def take(self, places: NDArray[np.integer]) -> Posterior:
        """Some of the supports."""
        told = self.told[places]
        open_to = np.broadcast_to(self.open_to, self.told.shape)[places]
        return Posterior(self.supports[places], self.masses[places], told, open_to)

    def above(self, least: float) -> Floats:
        """How probable it is that each support reaches this."""
        return np.asarray((self.masses * (self.supports >= least)).sum(axis=1))


def _bell() -> Floats:
    heights = np.exp(-((AROUND / SUPPOSED) ** 2) / 2) + 1e-4
    return np.asarray(heights / heights.sum())
