"""RoundTally: what the reports of one group of people say of the itemsets it was asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.latent_classes import Itemset, LatentClasses
from sfumato.mechanisms.sizes import SizeBins, left_above, told_alone
from sfumato.mechanisms.two_class_sizes import TwoClassSizes

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

LEAST_DRAWN = 40  # of them that stand for a tier
FEW = 20.0  # baskets that all candidates together count as beside one
DRAWN = 8000  # baskets that stand for all where it is asked how many candidates one holds


@dataclass(frozen=True, eq=False)
class RoundTally:
    """What the reports of one group say: of each itemset the share of people who hold it and whose
    basket kept it, with its variance.
    """

    itemsets: tuple[Itemset, ...]
    kept: Floats  # (itemsets,)
    variance: Floats
    cap: int
    people: int
    whole: bool  # whether any item of the universe could be told, by its hash
    tiers: SizeBins | None = None  # what large baskets told of how much they hold
    slope: float = 0.0  # by how much more the variance is where more people kept it

    @cached_property
    def base(self) -> Floats:  # (itemsets,)
        """The variances, were nobody's basket to keep each."""
        return np.maximum(self.variance - self.slope * np.clip(self.kept, 0, 1), 1e-300)

    @cached_property
    def steady(self) -> Floats:  # (itemsets,)
        """The variances at what was kept, drawn to the mean of itemsets as long: of a count that
        is low by chance the variance seems low too, and the count would weigh too much.
        """
        many = np.maximum(np.bincount(self.lengths), 1)
        mean, noise = (
            (np.bincount(self.lengths, each) / many)[self.lengths]
            for each in (self.kept, self.variance)
        )
        squares = (np.bincount(self.lengths, (self.kept - mean) ** 2) / many)[self.lengths]
        drawn = mean + (self.kept - mean) * np.maximum(1 - noise / np.maximum(squares, 1e-300), 0)
        return self.base + self.slope * np.clip(drawn, 0, 1)

    @cached_property
    def _numbers(self) -> dict[Itemset, int]:
        return {each: place for place, each in enumerate(self.itemsets)}

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many items each itemset has."""
        return np.array([len(each) for each in self.itemsets], dtype=np.int64)

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Which of the itemsets are single items."""
        return self.lengths == 1

    @cached_property
    def fullness(self) -> float:
        """The candidates that baskets kept on the mean, beside the most that one may: 0 where the
        cap is above their number.
        """
        if not self.whole and self.cap >= len(self.itemsets):
            return 0.0
        return float(np.clip(self.kept.sum() / self.cap, 0, 1))

    @property
    def tells_sizes(self) -> bool:
        """Whether it was told how many baskets are above the cap, or none can be."""
        return self.tiers is not None or (not self.whole and self.cap >= len(self.itemsets))

    @cached_property
    def two_classes(self) -> TwoClassSizes | None:
        """What its cap left of each itemset, where a few baskets are far larger than all others;
        nothing elsewhere.
        """
        if self.tiers is None or not self.tiers.two_class:
            return None
        return TwoClassSizes(self.kept, self.variance, self.cap, self.tiers)

    @property
    def left(self) -> tuple[float, float]:
        """What its cap left of all that baskets hold, by what tiers told, and how far that is open,
        as a part.
        """
        assert self.tiers is not None
        return left_above(self._seen, float(self.variance.sum()), self.cap, self.tiers)

    @property
    def supposed(self) -> float:
        """How far what its cap left out is open by what large baskets told, as a part of all: where
        that is much, it is supposed that larger ones are rarer.
        """
        if self.tiers is None:
            return 0.0
        return told_alone(self._seen, self.cap, self.tiers)

    @property
    def _seen(self) -> float:
        """The candidates that baskets kept on the mean."""
        return float(np.clip(self.kept.sum(), 0, self.cap))

    def alike(self, values: Floats) -> Floats:
        """The mean of these over all itemsets as long as each, those kept more counting more."""
        weights = np.maximum(self.kept, np.sqrt(self.variance))
        sums, whole = (np.bincount(self.lengths, w) for w in (weights * values, weights))
        return np.asarray((sums / np.maximum(whole, 1e-300))[self.lengths])

    def places(self, itemsets: Sequence[Itemset]) -> tuple[Places, Places]:
        """Which of these itemsets were asked about, and where they stand here."""
        return _placed(self, tuple(itemsets))

    def sure(self, errors: float) -> set[Itemset]:
        """The itemsets found so many standard errors from 0 at least."""
        far = np.flatnonzero(self.kept > errors * np.sqrt(self.variance))
        return {self.itemsets[place] for place in far}

    def within(self, items: Mapping[int, int]) -> Places:
        """The itemsets of these items alone."""
        found = [
            place
            for place, each in enumerate(self.itemsets)
            if each[0] in items and all(item in items for item in each)
        ]
        return np.array(found, dtype=np.intp)


def pooled(tallies: Sequence[RoundTally]) -> tuple[RoundTally, ...]:
    """The groups, as one where it is told that a few baskets are far larger than all others: the
    same people's sizes, so that how many they are is what all groups told together.
    """
    if not any(each.tiers is not None and each.tiers.two_class for each in tallies):
        return tuple(tallies)
    tiers = [each.tiers for each in tallies if each.tiers is not None]
    sums = np.array([each.shares.sum() for each in tiers])
    weights = np.array([1 / each.variance.sum() for each in tiers])
    large = max(float(weights @ sums / weights.sum()), 0.0)
    return tuple(
        each
        if each.tiers is None
        else replace(each, tiers=_two_classes(each.tiers, large, 1 / float(weights.sum())))
        for each in tallies
    )


def _two_classes(told: SizeBins, large: float, variance: float) -> SizeBins:
    """The tiers, so many baskets being in all of them: each as far as it stands out."""
    out = np.maximum(told.shares, 0) ** 2
    parts = out / max(float(out.sum()), 1e-300)
    return replace(told, shares=large * parts, variance=variance * parts, stand_apart=True)


@lru_cache(maxsize=64)
def _placed(tally: RoundTally, itemsets: tuple[Itemset, ...]) -> tuple[Places, Places]:
    """The same, found once: every hypothesis asks for it."""
    own = np.array([tally._numbers.get(each, -1) for each in itemsets], dtype=np.intp)
    known = np.flatnonzero(own >= 0)
    return known, own[known]


@dataclass(frozen=True, eq=False)
class Survival:
    """What a cap leaves of each candidate, and how far what tiers told leaves that open, as a
    part.
    """

    left: Floats  # (itemsets,)
    size_error: Floats  # by the noise of what was told in this round
    heterogeneity: Floats | None = None  # how far each is open on its own, where that is known
    supposed: Floats | float = 0.0  # by what nobody tells: how much baskets of the last tier hold

    @classmethod
    def whole(cls, number: int) -> Survival:
        """Where nothing is known of what a cap takes."""
        return cls(np.ones(number), np.zeros(number))

    @classmethod
    def beforehand(cls, tally: RoundTally) -> Survival:
        """As far as it is known before anything is supposed of baskets: by large ones that stand
        apart.
        """
        if tally.two_classes is None:
            return cls.whole(len(tally.itemsets))
        return cls(
            tally.two_classes.left, tally.two_classes.size_error, tally.two_classes.heterogeneity
        )


def survival(tally: RoundTally, classes: LatentClasses) -> Survival:
    """How often each candidate is among those that a basket which holds it keeps: E[min(1, m/c) |
    held], c the candidates that the basket holds; where large baskets tell their tier, (m−1)/c of
    those, and as many large ones as they told.
    """
    if tally.two_classes is not None:
        return Survival.beforehand(tally)
    held = held_of(tally.itemsets, classes).astype(np.float32)
    sizes = held.sum(axis=0)
    if tally.tiers is not None:
        return _by_tiers(held, sizes, tally.cap, tally.tiers)
    kept = np.minimum(1.0, tally.cap / np.maximum(sizes, 1))
    return Survival(_eased(held @ kept, held.sum(axis=1)), np.zeros(len(held)))


def _eased(kept: Floats, holders: Floats) -> Floats:
    """The part kept of each: of a rare candidate few drawn baskets tell, so that all others then
    count as a few more. Where nobody holds any, nothing is taken.
    """
    everyone = float(kept.sum() / holders.sum()) if holders.any() else 1.0
    return np.asarray((kept + FEW * everyone) / (holders + FEW), dtype=np.float64)


def _by_tiers(held: NDArray[np.float32], sizes: Floats, cap: int, told: SizeBins) -> Survival:
    """Baskets of each tier are as classes draw them; how many are of each is what was told."""
    shares, covariance = told.settled
    below = np.flatnonzero(sizes <= cap)
    small = _holders(held, below) * (1 - min(float(shares.sum()), 1.0))
    large = np.stack(
        [_scaled(held, sizes, tier, told) for tier in range(len(shares))], axis=1
    )  # (itemsets, tiers)
    parts = (cap - 1) / told.sizes
    holders = small + large @ shares
    left = _eased(DRAWN * (small + large @ (shares * parts)), DRAWN * holders)
    whole = np.maximum(holders, 1e-9)
    slopes = large * (parts - left[:, None]) / whole[:, None]
    variance = np.einsum("ij,jk,ik->i", slopes, covariance, slopes)
    size_error = np.sqrt(np.maximum(variance, 0)) / left
    last = large[:, -1] * shares[-1] / whole * told.spread / told.sizes[-1]
    return Survival(left, size_error, supposed=last)


def _holders(held: NDArray[np.float32], members: NDArray[np.intp]) -> Floats:  # (itemsets,)
    """How often some of the drawn baskets hold each candidate."""
    if not len(members):
        return np.zeros(len(held))
    return np.asarray(held[:, members].mean(axis=1), dtype=np.float64)


def _scaled(held: NDArray[np.float32], sizes: Floats, tier: int, told: SizeBins) -> Floats:
    """How often baskets of a tier hold each candidate, so much on the mean: where hardly any drawn
    basket is of the tier, as those do that are nearest in size.
    """
    size = float(told.sizes[tier])
    members = np.flatnonzero(np.searchsorted(told.starts, sizes, side="right") == tier + 1)
    if len(members) < LEAST_DRAWN:
        order = np.argsort(np.abs(np.log(np.maximum(sizes, 0.5) / size)), kind="stable")
        members = order[:LEAST_DRAWN]
    return np.minimum(_holders(held, members) * (size / max(sizes[members].mean(), 0.5)), 1.0)


def held_of(itemsets: Sequence[Itemset], classes: LatentClasses) -> NDArray[np.bool_]:
    """Which candidates baskets of these classes hold: (itemsets, DRAWN)."""
    items = np.array(sorted({item for each in itemsets for item in each}))
    place = {item: number for number, item in enumerate(items.tolist())}
    baskets = classes.drawn(DRAWN, items)
    held = np.ones((len(itemsets), DRAWN), dtype=bool)
    for number, each in enumerate(itemsets):
        for item in each:
            held[number] &= baskets[place[item]]
    return held
