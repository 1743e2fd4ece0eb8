"""The reports of a round about its itemsets, the part of each that its cap left, and the supports
that rounds found once the cap is undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.baskets.classes import Floats, Itemset, LatentClasses
from sfumato.estimation.baskets.priors import NOTHING, NoisyObservation
from sfumato.mechanisms.sizes import HETEROGENEITY, SizeBins

Places = NDArray[np.intp]

DRAWN = 8000  # baskets that stand for all where it is asked how many candidates one holds
LEAST_DRAWN = 40  # of them that stand for a tier


@dataclass(frozen=True, eq=False)
class RoundTally:
    """Of each itemset the share of people who hold it and whose basket kept it, with its variance:
    `variance` is base + slope × share.
    """

    itemsets: tuple[Itemset, ...]
    kept: Floats  # (itemsets,)
    variance: Floats
    cap: int
    people: int
    whole: bool  # whether any item of the universe could be told
    tiers: SizeBins | None = None  # how many baskets are above the cap; None: none can be
    slope: float = 0.0

    @cached_property
    def base(self) -> Floats:  # (itemsets,)
        """The variances, were nobody's basket to keep each."""
        return np.maximum(
            self.variance - self.slope * np.clip(self.kept, 0, 1), 1e-3 * self.variance
        )

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many items each itemset has."""
        return np.array([len(each) for each in self.itemsets], dtype=np.int64)

    @property
    def seen(self) -> float:
        """The candidates that baskets kept on the mean."""
        return float(np.clip(self.kept.sum(), 0, self.cap))

    @property
    def left(self) -> tuple[float, float]:
        """What the cap left of all that baskets hold, and its standard error as a part of it."""
        if self.tiers is None:
            return 1.0, 0.0
        left, error = self.tiers.left(self.seen, float(self.variance.sum()))
        return float(left[0]), float(error[0])

    @property
    def supposed(self) -> float:
        """How far what the cap left out is open by what large baskets told, as a part of all: where
        that is much, it is supposed that larger ones are rarer.
        """
        return 0.0 if self.tiers is None else self.tiers.told_alone(self.seen)

    def places(self, itemsets: Sequence[Itemset]) -> tuple[Places, Places]:
        """Which of these itemsets were asked about, and where they stand here."""
        return _placed(self, tuple(itemsets))


@lru_cache(maxsize=64)
def _placed(tally: RoundTally, itemsets: tuple[Itemset, ...]) -> tuple[Places, Places]:
    """The same, found once: every turn of a fit asks for it."""
    numbers = {each: place for place, each in enumerate(tally.itemsets)}
    own = np.array([numbers.get(each, -1) for each in itemsets], dtype=np.intp)
    known = np.flatnonzero(own >= 0)
    return known, own[known]


@dataclass(frozen=True, eq=False)
class Undone:
    """The supports that a round found once its cap is undone, and the errors that undoing adds."""

    tally: RoundTally
    left: Floats  # (itemsets,): the part of those who hold each that kept it
    # Relative errors of that part: by the noise of this round's tiers, by what no round reports
    # (what the largest baskets hold), and of each itemset on its own, since caps take unequally.
    size_error: Floats
    systematic: Floats
    heterogeneity: Floats

    @classmethod
    def nothing(cls, tally: RoundTally) -> Undone:
        """As if no cap had taken anything."""
        none = np.zeros(len(tally.itemsets))
        return cls(tally, none + 1.0, none, none, none)

    @classmethod
    def of(cls, tally: RoundTally, classes: LatentClasses) -> Undone:
        """E[min(1, m/c) | held], c the candidates that the basket holds, over baskets drawn from
        the classes, as many of each tier as was told, which keep one less for telling it; of a
        round about every item the mean of that over all.
        """
        if tally.tiers is None:
            return cls.nothing(tally)
        if tally.whole:
            mean, doubt = tally.left
            every = np.ones(len(tally.itemsets))
            differ = HETEROGENEITY * (1 - mean)
            errors = (0 * every, doubt * every)
            error, common = errors if tally.tiers.supposed else errors[::-1]
            return cls(tally, mean * every, error, common, differ * every)
        held = held_of(tally.itemsets, classes).astype(np.float32)
        sizes, tiers = held.sum(axis=0), tally.tiers
        small = _holders(held, np.flatnonzero(sizes <= tally.cap))
        small = small * (1 - min(float(tiers.shares.sum()), 1.0))
        each = range(len(tiers.starts))
        large = np.stack([_scaled(held, tally.lengths, sizes, tier, tiers) for tier in each])
        parts = tiers.keeps / tiers.sizes
        holders = small + tiers.shares @ large
        kept = small + (tiers.shares * parts) @ large
        everyone = float(kept.sum() / holders.sum()) if holders.any() else 1.0
        # Of a rare candidate few drawn baskets tell: all others count as LEAST_DRAWN more.
        few = LEAST_DRAWN / DRAWN
        left = (kept + few * everyone) / (holders + few)
        slopes = (large * (parts[:, None] - left) / np.maximum(holders, 1e-9)).T
        variance = np.einsum("ij,jk,ik->i", slopes, tiers.covariance, slopes)
        error = np.sqrt(np.maximum(variance, 0)) / left
        last = large[-1] * tiers.shares[-1] / np.maximum(holders, 1e-9)
        last = last * tiers.spread / tiers.sizes[-1]
        if tiers.supposed:
            error, last = 0 * error, error
        # They differ in a part of what the cap took, which is open itself.
        taken = np.hypot(1 - left, np.hypot(error, last) * left)
        return cls(tally, left, error, last, HETEROGENEITY * taken)

    @property
    def found(self) -> Floats:
        """The share of people who hold each itemset."""
        return self.tally.kept / self.left

    def noise(self, shares: Floats, here: Places) -> tuple[Floats, Floats]:
        """The variances by chance alone of what was found of some, were these their shares; and by
        how much more they are where more people hold them.
        """
        left, slope = self.left[here], self.tally.slope
        kept = np.clip(shares * left, 0, 1)
        return (self.tally.base[here] + slope * kept) / left**2, slope / left


def together(caps: Sequence[Undone], itemsets: Sequence[Itemset]) -> NoisyObservation:
    """The supports that rounds found of these itemsets, each round weighed by its information: by
    the variance at the share that all of them found, since a share that is low by chance has a low
    variance of its own.
    """
    shares: Floats | None = None
    for _ in range(3):
        found = _weighed(caps, itemsets, shares)
        shares = np.maximum(found.found, 0)
    return found


def _weighed(
    caps: Sequence[Undone], itemsets: Sequence[Itemset], shares: Floats | None
) -> NoisyObservation:
    """The same, were these the shares; of none known yet, that of all itemsets of a round alike."""
    weight, total, noise, slopes, own, systematic, sizes = np.zeros((7, len(itemsets)))
    for cap in caps:
        known, here = cap.tally.places(itemsets)
        mean = max(float(cap.found[here].mean()), 0.0) if len(here) else 0.0
        held = np.full(len(here), mean) if shares is None else shares[known]
        variance, slope = cap.noise(held, here)
        differ, common, error = (
            each[here] * held for each in (cap.heterogeneity, cap.systematic, cap.size_error)
        )
        told = 1 / (variance + differ**2 + common**2 + error**2)
        weight[known] += told
        total[known] += told * cap.found[here]
        noise[known] += told**2 * variance
        slopes[known] += told**2 * slope
        # Where one cap takes more than classes predict, so does the next: these do not average.
        own[known] += told * differ
        systematic[known] += told * common
        sizes[known] += (told * error) ** 2  # other people told it
    asked = weight > 0
    whole = np.where(asked, weight, 1)
    every = np.where(asked, (noise + own**2) / whole**2, 2 * NOTHING)
    common = np.sqrt(systematic**2 + sizes) / whole
    return NoisyObservation(total / whole, every, noise / whole**2, slopes / whole**2, common)


def _holders(held: NDArray[np.float32], members: NDArray[np.intp]) -> Floats:  # (itemsets,)
    """How often some of the drawn baskets hold each candidate."""
    if not len(members):
        return np.zeros(len(held))
    return np.asarray(held[:, members].mean(axis=1), dtype=np.float64)


def _scaled(
    held: NDArray[np.float32],
    lengths: NDArray[np.int64],
    sizes: NDArray[np.float32],
    tier: int,
    tiers: SizeBins,
) -> Floats:  # (itemsets,)
    """How often baskets of a tier hold each candidate, so much on the mean: where hardly any drawn
    basket is of the tier, as those do that are nearest in size.
    """
    size = float(tiers.sizes[tier])
    members = np.flatnonzero(np.searchsorted(tiers.starts, sizes, side="right") == tier + 1)
    if len(members) < LEAST_DRAWN:
        order = np.argsort(np.abs(np.log(np.maximum(sizes, 0.5) / size)), kind="stable")
        members = order[:LEAST_DRAWN]
    times = size / max(float(sizes[members].mean()), 0.5)
    return np.minimum(_holders(held, members) * times**lengths, 1.0)


def held_of(itemsets: Sequence[Itemset], classes: LatentClasses) -> NDArray[np.bool_]:
    """Which candidates baskets of these classes hold: (itemsets, DRAWN)."""
    items = np.array(sorted({item for each in itemsets for item in each}))
    place = {item: number for number, item in enumerate(items.tolist())}
    baskets = classes.drawn(DRAWN, items)
    return np.stack([baskets[[place[item] for item in each]].all(axis=0) for each in itemsets])
