"""Latent classes of baskets: a few laws of independent items whose mixture explains the itemsets
seen (latent class analysis, Lazarsfeld and Henry 1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Itemset = tuple[int, ...]

# How common the classes are before anything is known, from small baskets to large ones, and the
# standard deviation of the logarithm of sizes that they stand for: nearly a geometric law's.
SHARES = np.array([0.4, 0.3, 0.19, 0.08, 0.03])
LOG_SD = 0.9
LOOSE = 1.5  # standard deviation of a class's log odds about everyone's: the ridge of the fit
STEPS = 150  # of the fit
LEAST, MOST = 1e-7, 1 - 1e-6  # the chance of an item


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
    def by_size(cls, singles: Floats, log_sd: float = LOG_SD) -> LatentClasses:
        """Items independent but for the sizes of baskets, of which some are large, some small."""
        return cls(SHARES, 1 / (1 + np.exp(-_by_size(singles, log_sd))))

    def supports(self, itemsets: Sequence[Itemset] | NDArray[np.integer]) -> Floats:
        """The share of baskets that holds each itemset whole."""
        if not len(itemsets):
            return np.zeros(0)
        return np.asarray(self.shares @ self.products(padded(itemsets, self.chances.shape[1])))

    def products(self, places: NDArray[np.intp]) -> Floats:  # (classes, itemsets)
        """How often baskets of each class hold each itemset, a row of items, whole."""
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
    """Classes that explain what was found of itemsets, each the part `left` of its support: least
    squares with a ridge towards classes that differ in size alone.
    """

    itemsets: NDArray[np.intp]  # (n, longest), of the items 0..m-1, m beyond all
    found: Floats  # (n,)
    variance: Floats
    left: Floats
    singles: Floats  # (m,)
    log_sd: float = LOG_SD

    def fitted(self) -> LatentClasses:
        """The classes that fit best, by L-BFGS from the ridge's centre."""
        from scipy.optimize import minimize

        first = np.concatenate([np.log(SHARES), self._centre.ravel()])
        done = minimize(self._loss, first, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        return _classes(done.x)

    @cached_property
    def _centre(self) -> Floats:
        return _by_size(self.singles, self.log_sd)

    def _loss(self, theta: Floats) -> tuple[float, Floats]:
        """Half the sum of squares, and its gradient."""
        number = len(SHARES)
        classes = _classes(theta)
        products = classes.products(self.itemsets)  # (classes, n)
        off = self.left * (classes.shares @ products) - self.found
        push = off * self.left / self.variance  # (n,)
        apart = theta[number:].reshape(number, -1) - self._centre
        moved = theta[:number] - np.log(SHARES)
        loss = (off**2 / self.variance).sum() + (apart**2).sum() / LOOSE**2 + (moved**2).sum()
        told = classes.shares[:, None] * products * push  # (classes, n)
        pushed = np.repeat(told.ravel(), self.itemsets.shape[1])  # by every itemset with the item
        through = np.bincount(self._places, pushed, number * (len(self.singles) + 1))
        slope = through.reshape(number, -1)[:, :-1] * (1 - classes.chances) + apart / LOOSE**2
        level = products @ push
        weight = classes.shares * (level - classes.shares @ level) + moved
        return float(loss) / 2, np.concatenate([weight, slope.ravel()])

    @cached_property
    def _places(self) -> NDArray[np.intp]:  # (classes · n · longest,)
        """Where each item of each itemset stands among the chances of every class."""
        classes = np.arange(len(SHARES))[:, None, None] * (len(self.singles) + 1)
        return np.asarray((classes + self.itemsets).ravel())


def _classes(theta: Floats) -> LatentClasses:
    """Classes by the logarithms of their shares and the log odds of their items."""
    number = len(SHARES)
    weights = np.exp(theta[:number] - theta[:number].max())
    odds = np.clip(theta[number:].reshape(number, -1), -50, 50)  # beyond LEAST and MOST by far
    chances = np.clip(1 / (1 + np.exp(-odds)), LEAST, MOST)
    return LatentClasses(weights / weights.sum(), chances)


def _by_size(singles: Floats, log_sd: float) -> Floats:  # (classes, items)
    """The log odds of items in each class, where classes differ in size alone (Rasch's model): the
    class's plus the item's, so that everyone's chance is the item's own.
    """
    odds = _log_odds(singles) + np.log(_times(log_sd))[:, None]
    for _ in range(20):
        chance = SHARES @ (1 / (1 + np.exp(-odds)))
        odds += _log_odds(singles) - _log_odds(chance)
    return np.asarray(odds)


def _times(log_sd: float) -> Floats:  # (classes,)
    """How many times what the mean basket holds those of each class do: the means, between its
    quantiles, of a log-normal law with this standard deviation of the logarithm.

    >>> _times(0.9).round(2).tolist()
    [0.31, 0.76, 1.44, 2.61, 5.44]
    """
    normal = NormalDist()
    inner = [normal.inv_cdf(float(upto)) - log_sd for upto in np.cumsum(SHARES)[:-1]]
    return np.diff([0.0, *(normal.cdf(place) for place in inner), 1.0]) / SHARES


def _log_odds(chance: Floats) -> Floats:
    inside = np.clip(chance, LEAST, MOST)
    return np.asarray(np.log(inside / (1 - inside)))
