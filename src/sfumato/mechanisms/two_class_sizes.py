"""TwoClassSizes: what a cap takes where a few baskets are far larger than all others.

Then no one part of what is held is left of every symbol: of what small baskets hold too a cap takes
little, of what large ones alone hold nearly all. Which is which shows in what was kept, by Rasch's
law: the log odds that a basket holds a symbol are its size's plus the symbol's (Rasch 1960). How
many baskets are large, and how large, was told by their tiers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.sizes import SizeBins

Floats = NDArray[np.float64]

TILT = 1.0  # of log odds, how far a symbol may well be more at home in large baskets than the law
TURNS, HALVINGS = 12, 30  # of fitting sizes and symbols by turns, and of each
FARTHEST = 30.0  # log odds
LEAST = 1e-7  # a share that counts as none


@dataclass(frozen=True, eq=False)
class Groups:
    """Baskets by their size: those below a cap, and the tiers above it."""

    shares: Floats  # (groups,), of all people
    sizes: Floats  # what they hold on the mean
    parts: Floats  # what the cap leaves of each symbol

    @classmethod
    def told(
        cls, kept: Floats, cap: int, told: SizeBins, larger: float = 0.0, more: float = 0.0
    ) -> Groups:
        """The groups, by what tiers told and what was kept of all symbols; were those of the last
        tier so much larger, and the large ones so many more, as a part of them.
        """
        large = np.clip(told.settled[0] * (1 + more), 0, 1)
        large *= min(1.0, 0.99 / max(float(large.sum()), 1e-9))
        sizes = told.sizes.copy()
        sizes[-1] = min(max(sizes[-1] + larger, told.starts[-1]), len(kept) - 0.5)
        below = 1 - float(large.sum())
        rest = float(kept.sum()) - (cap - 1) * float(large.sum())
        size = float(np.clip(rest / below, 0.05, cap))
        some = large > LEAST
        return cls(
            np.append(below, large[some]),
            np.append(size, np.minimum(sizes[some], len(kept) - 0.5)),
            np.append(1.0, (cap - 1) / sizes[some]),
        )

    @property
    def most_kept(self) -> float:
        """The largest share of people who may keep a symbol."""
        return float(self.shares @ self.parts)

    def fitted(self, kept: Floats) -> Floats:  # (groups,)
        """The log odds of every size, so that each group holds so much and of each symbol just so
        much is kept.
        """
        share = self.sizes / len(kept)
        levels = np.log(share / (1 - share))
        for _ in range(TURNS):
            levels = self._levels(self._symbols(kept, levels))
        return levels

    def _levels(self, symbols: Floats) -> Floats:
        """The log odds of every size by which each group holds so much."""
        return _where(lambda x: _chance(x[:, None] + symbols).sum(axis=1), self.sizes)

    def _symbols(self, kept: Floats, levels: Floats) -> Floats:
        """The log odds of every symbol by which just so much of it is kept."""
        weights = self.shares * self.parts
        return _where(lambda x: weights @ _chance(levels[:, None] + x), kept)

    def holders(self, kept: Floats, levels: Floats, tilt: float = 0.0) -> Floats:  # (symbols,)
        """The share of people who hold each symbol, were each so much more at home in large
        baskets.
        """
        moved = levels + tilt * (np.arange(len(levels)) > 0)
        symbols = self._symbols(kept, moved)
        return np.asarray(self.shares @ _chance(moved[:, None] + symbols))


@dataclass(frozen=True, eq=False)
class TwoClassSizes:
    """What a cap left of each symbol, where large baskets stand apart."""

    kept: Floats  # (symbols,): the share of people who hold it and whose basket kept it
    variance: Floats
    cap: int
    told: SizeBins

    @cached_property
    def _eased(self) -> Floats:
        """What was kept without most of its noise: drawn to the mean of all."""
        mean = float(self.kept.mean())
        spread = max(float(((self.kept - mean) ** 2 - self.variance).mean()), 0.0)
        drawn = mean + (self.kept - mean) * spread / (spread + self.variance)
        return np.clip(drawn, LEAST, None)

    @cached_property
    def groups(self) -> Groups:
        """The baskets by their sizes."""
        return Groups.told(self.kept, self.cap, self.told)

    def _holders(self, larger: float = 0.0, more: float = 0.0, tilt: float = 0.0) -> Floats:
        groups = Groups.told(self.kept, self.cap, self.told, larger, more)
        kept = np.minimum(self._eased, 0.999 * groups.most_kept)
        return groups.holders(kept, groups.fitted(kept), tilt)

    @cached_property
    def holders(self) -> Floats:
        """The share of people who hold each."""
        return self._holders()

    @cached_property
    def left(self) -> Floats:
        """The part of those who hold each that kept it."""
        return np.clip(self._eased / self.holders, 1e-4, 1.0)

    @cached_property
    def heterogeneity(self) -> Floats:
        """How far each is open on its own, as a part."""
        low, high = (self._holders(tilt=tilt) for tilt in (-TILT, TILT))
        return np.asarray((high - low) / 2 / self.holders)

    @cached_property
    def size_error(self) -> Floats:
        """How far all are open alike, as a part: since it is open how large the largest are, and
        how many there are.
        """
        shares, covariance = self.told.settled
        many = math.sqrt(float(covariance.sum())) / max(float(shares.sum()), 1e-9)
        ends = [
            [self._holders(larger=sign * self.told.spread) for sign in (-1, 1)],
            [self._holders(more=sign * min(many, 0.9)) for sign in (-1, 1)],
        ]
        return np.asarray(np.hypot(*(high - low for low, high in ends)) / 2 / self.holders)


def _chance(odds: Floats) -> Floats:
    """The chances of these log odds."""
    return np.asarray(1 / (1 + np.exp(-odds)))


def _where(rising: Callable[[Floats], Floats], values: Floats) -> Floats:
    """Where each of these rising functions has its value, by halving."""
    low, high = np.full(len(values), -FARTHEST), np.full(len(values), FARTHEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = rising(middle) < values
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2
