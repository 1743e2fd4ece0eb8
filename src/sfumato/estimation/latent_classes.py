"""Classes of baskets: a few laws of independent items whose mixture explains the itemsets seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Itemset = tuple[int, ...]

SHARES = np.array([0.4, 0.3, 0.19, 0.08, 0.03])  # of the classes, before anything is known of them
CLASSES = len(SHARES)
USUAL = 0.9  # log_sd of the sizes of baskets where nothing is known: nearly a geometric law's
LOOSE = 1.5  # how far a class's log odds stand from everyone's: what fits are held to
STEPS = 150  # of the fit
FARTHEST = 50.0  # log odds: beyond them a chance is that of LEAST or MOST by far
LEAST, MOST = 1e-7, 1 - 1e-6  # the chance of an item


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """How common each class is, and how many times what the mean basket holds its baskets do,
    before anything is known of the items.
    """

    shares: Floats  # (classes,)
    times: Floats

    @classmethod
    def uneven(cls, log_sd: float) -> ClassSizes:
        """Sizes of a log-normal law."""
        return cls(SHARES, sizes_of(log_sd))

    @classmethod
    def two_classes(cls, shares: Floats, sizes: Floats) -> ClassSizes:
        """Small baskets and large ones, far apart: those of the first share and size, of which some
        hold more than others, and the rest in two halves.

        >>> sizes = ClassSizes.two_classes(np.array([0.9, 0.1]), np.array([2.0, 50.0]))
        >>> sizes.shares.round(3).tolist()
        [0.405, 0.315, 0.18, 0.05, 0.05]
        """
        large = float(shares[1:].sum())
        upto = np.cumsum(shares[1:]) / max(large, 1e-12)
        middles = np.interp([0.25, 0.75], upto - shares[1:] / max(2 * large, 1e-12), sizes[1:])
        split = np.array([0.45, 0.35, 0.2])
        within = np.array([0.5, 1.0, 2.1])
        every = np.concatenate([sizes[0] * within / (split @ within), middles])
        parts = np.concatenate([shares[0] * split, [large / 2, large / 2]])
        parts = np.maximum(parts, 1e-6) / np.maximum(parts, 1e-6).sum()
        return cls(parts, every / (parts @ every))


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """How common each class of basket is, and how often it holds each item.

    >>> classes = LatentClasses(np.array([0.5, 0.5]), np.array([[0.8, 0.8], [0.2, 0.2]]))
    >>> classes.supports([(0,), (0, 1)]).round(3).tolist()
    [0.5, 0.34]
    """

    shares: Floats  # (classes,)
    chances: Floats  # (classes, items)

    @classmethod
    def uneven(cls, singles: Floats, sizes: ClassSizes | None = None) -> LatentClasses:
        """Items independent but for the sizes of baskets, of which some are large, some small."""
        given = sizes or ClassSizes.uneven(USUAL)
        return cls(given.shares, 1 / (1 + np.exp(-_uneven(singles, given))))

    def supports(self, itemsets: Sequence[Itemset] | NDArray[np.integer]) -> Floats:
        """The share of baskets that holds each itemset whole."""
        if not len(itemsets):
            return np.zeros(0)
        return np.asarray(self.shares @ self._products(padded(itemsets, self.chances.shape[1])))

    def _products(self, places: NDArray[np.intp]) -> Floats:  # (classes, itemsets)
        with_one = np.append(self.chances, np.ones((len(self.shares), 1)), axis=1)
        found = with_one[:, places[:, 0]]
        for column in range(1, places.shape[1]):
            found = found * with_one[:, places[:, column]]
        return found

    def drawn(self, count: int, items: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of so many baskets of these classes, always the same, hold these items: (items,
        count).
        """
        levels, chances = _levels(count, len(items))
        upto = np.cumsum(self.shares / self.shares.sum())[:-1]
        chosen = np.searchsorted(upto, levels, side="right")
        return np.asarray(chances < self.chances[:, items].T.astype(np.float32)[:, chosen])


@lru_cache(maxsize=4)
def _levels(count: int, items: int) -> tuple[Floats, NDArray[np.float32]]:
    """What decides the class of each basket, and its items: drawn once, for all classes alike."""
    rng = np.random.default_rng(0)
    return rng.random(count), rng.random((items, count), dtype=np.float32)


def padded(
    itemsets: Sequence[Itemset] | NDArray[np.integer], beyond: int
) -> NDArray[np.intp]:  # (itemsets, longest)
    """Itemsets as rows of a matrix, short ones filled up with an item beyond all others."""
    if isinstance(itemsets, np.ndarray):
        return itemsets.astype(np.intp)
    found = np.full((len(itemsets), max(map(len, itemsets))), beyond, dtype=np.intp)
    for place, each in enumerate(itemsets):
        found[place, : len(each)] = each
    return found


@dataclass(frozen=True, eq=False)
class LatentClassFit:
    """What latent classes should explain: shares found of itemsets, each the part `kept` of its
    support, by penalised least squares.
    """

    itemsets: NDArray[np.intp]  # (n, longest), of the items 0..m-1, m beyond all
    found: Floats  # (n,)
    variance: Floats
    kept: Floats
    singles: Floats  # (m,): where each class is held to, but for its size
    sizes: ClassSizes = field(default_factory=lambda: ClassSizes.uneven(USUAL))

    def fitted(self, start: int = 0) -> tuple[LatentClasses, float]:
        """The classes that fit best from here on, and how badly they do: half the sum of squares,
        what holds the classes included.
        """
        from scipy.optimize import minimize

        held = self._held
        apart = np.random.default_rng(start).normal(0, 0.5, held.shape)
        first = np.concatenate([np.log(self.sizes.shares), (held + apart).ravel()])
        done = minimize(self._loss, first, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        return self._classes(done.x), float(done.fun)

    @cached_property
    def _held(self) -> Floats:
        return _uneven(self.singles, self.sizes)

    def _classes(self, theta: Floats) -> LatentClasses:
        weights = np.exp(theta[:CLASSES] - theta[:CLASSES].max())
        odds = np.clip(theta[CLASSES:].reshape(CLASSES, -1), -FARTHEST, FARTHEST)
        chances = np.clip(1 / (1 + np.exp(-odds)), LEAST, MOST)
        return LatentClasses(weights / weights.sum(), chances)

    def _loss(self, theta: Floats) -> tuple[float, Floats]:
        classes = self._classes(theta)
        products = classes._products(self.itemsets)  # (classes, n)
        off = self.kept * (classes.shares @ products) - self.found
        push = off * self.kept / self.variance  # (n,)
        apart = theta[CLASSES:].reshape(CLASSES, -1) - self._held
        loss = float((off**2 / self.variance).sum() / 2 + (apart**2).sum() / (2 * LOOSE**2))
        told = classes.shares[:, None] * products * push  # (classes, n)
        pushed = np.repeat(told.ravel(), self.itemsets.shape[1])  # by every itemset with the item
        through = np.bincount(self._places, pushed, CLASSES * (len(self.singles) + 1))
        through = through.reshape(CLASSES, -1)
        slope = through[:, :-1] * (1 - classes.chances) + apart / LOOSE**2
        level = products @ push
        moved = theta[:CLASSES] - np.log(self.sizes.shares)
        weight = classes.shares * (level - classes.shares @ level) + moved
        loss += float((moved**2).sum()) / 2
        return loss, np.concatenate([weight, slope.ravel()])

    @cached_property
    def _places(self) -> NDArray[np.intp]:  # (CLASSES · n · longest,)
        """Where each item of each itemset stands among the chances of every class."""
        classes = np.arange(CLASSES)[:, None, None] * (len(self.singles) + 1)
        return np.asarray((classes + self.itemsets).ravel())


def _uneven(singles: NDArray[Any], sizes: ClassSizes) -> Floats:  # (classes, items)
    """The log odds of items in each class, where classes differ in size alone: sizes are spread the
    less, the less room an item has, so that everyone's chance is the item's own.
    """
    odds = _log_odds(singles) + np.log(sizes.times)[:, None]
    for _ in range(20):
        chance = sizes.shares @ (1 / (1 + np.exp(-odds)))
        odds += _log_odds(singles) - _log_odds(chance)
    return np.asarray(odds)


def sizes_of(log_sd: float) -> Floats:  # (classes,)
    """How many times what the mean basket holds those of each class do: the means, between its
    quantiles, of a log-normal law with this standard deviation of the logarithm.

    >>> sizes_of(0.9).round(2).tolist()
    [0.31, 0.76, 1.44, 2.61, 5.44]
    """
    normal = NormalDist()
    inner = [normal.inv_cdf(float(upto)) - log_sd for upto in np.cumsum(SHARES)[:-1]]
    below = np.array([0.0, *(normal.cdf(place) for place in inner), 1.0])
    return np.diff(below) / SHARES


def _log_odds(chance: NDArray[Any]) -> Floats:
    inside = np.clip(chance, LEAST, MOST)
    return np.asarray(np.log(inside / (1 - inside)))
