"""Hypothesis: what rounds say of itemsets, were the sizes of baskets just so uneven.

A report is capped, so that nothing in it tells how many baskets are large, and what a cap takes
from an itemset hangs on just that. How uneven the sizes are is therefore supposed, several times
over, and how fat the tail of the sizes is beyond what classes of baskets foretell: each hypothesis
is believed as far as the rounds agree under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.latent_classes import (
    ClassSizes,
    Itemset,
    LatentClasses,
    LatentClassFit,
    padded,
)
from sfumato.estimation.lift_prior import NOTHING, NoisyObservation
from sfumato.estimation.round_tally import RoundTally, Survival, survival
from sfumato.mechanisms.sizes import HETEROGENEITY, heterogeneity_at, part_left
from sfumato.mechanisms.two_class_sizes import TwoClassSizes

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

MODELLED = 160  # items that classes of baskets tell apart; the others are independent
# Of what a cap takes away, how far that is open once it is known how uneven the sizes are and how
# fat their tail is: the rest of the law of sizes. Where large baskets tell how much they hold, the
# noise of what they told states it, and how far the sizes of the last tier are open.
DOUBT = 0.4
# How far single items then differ in what a cap takes, beside what classes foretell, as a part of
# that: where nobody was asked what goes together, and how much less where that was all the asking.
DIFFERS, FORETELLING = 0.65, 0.45
LARGER = 3.0  # times what a basket holds on the mean, what large ones lose where all that is so
FORETOLD = 0.6  # of how items differ in what a cap takes, the part that classes do not foretell
LEANING = 0.7  # how much less of the most frequent items a cap takes, beside how items differ
LEVEL = 0.04  # how far that is open, at the least
# The power of mean size ÷ cap that a fat tail loses of single items, how much less of each item
# more, since those who hold more items are those with large baskets, and the least.
FALLS, FALLS_LESS, LEAST_FALLS = 1.5, 0.4, 0.7
OPEN_TAIL = 0.25  # how far a tail is open, however well the rounds agree
ALIKE = 0.02  # how far two rounds may differ about an itemset, beside noise, whatever is supposed
SURE = 6.0  # errors from 0 on, what was asked about in all rounds is not there by its noise
TURNS = 2  # of fitting classes and finding what the cap takes
WEIGHED = 2  # times rounds are weighed again, by what they found together


@dataclass(frozen=True, eq=False)
class Explained:
    """What latent classes are fitted to: of the itemsets of a few items that matter, what each
    round found, the same whatever is supposed.
    """

    order: Places  # (items that matter,)
    itemsets: Places  # (n, longest), the items as places in the order
    rounds: tuple[Places, ...]  # which itemsets of each round these are, one round after the other
    found: Floats  # (n,)
    variance: Floats

    @classmethod
    def of(cls, tallies: Sequence[RoundTally], singles: Floats) -> Explained:
        """Over the items that were asked about by name, the most frequent of them."""
        direct = (each for each in tallies if not each.whole)
        named = {item for each in direct for itemset in each.itemsets for item in itemset}
        order = sorted(named, key=lambda item: -singles[item])[:MODELLED]
        own = {item: place for place, item in enumerate(order)}
        rounds = tuple(each.within(own) for each in tallies)
        rows = [
            tuple(own[item] for item in each.itemsets[place])
            for each, places in zip(tallies, rounds, strict=True)
            for place in places.tolist()
        ]
        parts = [(e.kept[p], e.steady[p]) for e, p in zip(tallies, rounds, strict=True)]
        found, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(np.array(order, np.intp), padded(rows, len(order)), rounds, found, variance)

    def fitted(
        self, survivals: Sequence[Floats], singles: Floats, sizes: ClassSizes
    ) -> tuple[LatentClasses, float]:
        """Classes over all items that explain what every round found, and how badly they do."""
        kept = np.concatenate([s[p] for s, p in zip(survivals, self.rounds, strict=True)])
        own = singles[self.order]
        fit = LatentClassFit(self.itemsets, self.found, self.variance, kept, own, sizes)
        classes, loss = fit.fitted()
        chances = np.repeat(singles[None], len(classes.shares), axis=0)
        chances[:, self.order] = classes.chances
        return LatentClasses(classes.shares, np.clip(chances, 1e-9, 1 - 1e-9)), loss


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """The rounds, the sizes of baskets being as uneven as supposed."""

    tallies: tuple[RoundTally, ...]
    singles: Floats  # (items,): a first guess, a cap not undone
    log_sd: float
    explained: Explained | None  # none where nobody was asked by name

    @property
    def _two_classes(self) -> TwoClassSizes | None:
        """What the first round's cap left, where a few baskets are far larger than all others."""
        return self.tallies[0].two_classes if self.tallies else None

    @cached_property
    def _sizes(self) -> ClassSizes:
        if self._two_classes is None:
            return ClassSizes.uneven(self.log_sd)
        return ClassSizes.two_classes(
            self._two_classes.groups.shares, self._two_classes.groups.sizes
        )

    @property
    def classes(self) -> LatentClasses:
        """Classes of baskets, over all items."""
        return self._fitted[0]

    @property
    def loss(self) -> float:
        """How badly the classes explain what was found."""
        return self._fitted[2]

    def caps(self, tail: float) -> list[Undone]:
        """What each round's cap took, the tail of the sizes of baskets being so fat: of baskets
        that hold c candidates on the mean, a cap m then takes tail·(c/m)^FALLS besides, and more of
        longer itemsets; or being so thin, when it takes but a part of what was foretold.
        """
        own = []
        for tally, found in zip(self.tallies, self._fitted[1], strict=True):
            left = found.left
            if not tally.whole and not tally.tells_sizes:
                fat = 1 - tail * fat_tail(tally, self.log_sd)
                left = left ** (1 + tail) if tail < 0 else left * fat
            own.append(replace(found, left=np.asarray(left)))
        return self._calibrated(own)

    @cached_property
    def _fitted(self) -> tuple[LatentClasses, list[Survival], float]:
        classes, loss = LatentClasses.uneven(self.singles, self._sizes), 0.0
        survivals = [self._survival(each, classes) for each in self.tallies]
        for _ in range(TURNS if self.explained else 0):
            assert self.explained is not None
            parts = [each.left for each in self._calibrated(survivals)]
            classes, loss = self.explained.fitted(parts, self._undone(parts), self._sizes)
            survivals = [self._survival(each, classes) for each in self.tallies]
        return classes, survivals, loss

    def _survival(self, tally: RoundTally, classes: LatentClasses) -> Survival:
        return Survival.beforehand(tally) if tally.whole else survival(tally, classes)

    def _calibrated(self, survivals: Sequence[Survival]) -> list[Undone]:
        """What each round's cap left; the first round's by comparing it with those who were asked
        directly, whose doubts it takes over.
        """
        caps = [
            Undone.of(each, left, self.log_sd)
            for each, left in zip(self.tallies, survivals, strict=True)
        ]
        direct = [cap for cap in caps if not cap.tally.whole]
        asked = sorted({x for cap in direct for x in cap.tally.itemsets if len(x) == 1})
        if not asked:
            return caps
        known, items = together(direct, asked), np.array([each[0] for each in asked])
        return [
            calibrated(cap, known, items, self.log_sd)
            if cap.tally.whole and not cap.tally.two_classes
            else cap
            for cap in caps
        ]

    def _undone(self, survivals: Sequence[Floats]) -> Floats:  # (items,)
        """The first guess, the cap undone by what it takes from all items together."""
        if self._two_classes is not None:
            return self.singles
        kept = left = 0.0
        for each, part in zip(self.tallies, survivals, strict=True):
            weight = np.maximum(each.kept[each.alone], 0)
            kept += float(weight.sum())
            left += float((weight / part[each.alone]).sum())
        return np.minimum(self.singles * left / max(kept, 1e-9), 0.999)


def fat_tail(tally: RoundTally, log_sd: float) -> Floats:
    """What a tail of fatness 1 takes of each itemset, in baskets so uneven."""
    falls = np.maximum(FALLS - FALLS_LESS * (tally.lengths - 1), LEAST_FALLS)
    return np.asarray(heterogeneity_at(log_sd) / HETEROGENEITY * tally.fullness**falls)


def _differ(tally: RoundTally) -> float:
    """How far single items differ in what a cap takes, beside what classes predict, as a part of
    it: less where people were asked what goes together, which is what classes know, and where large
    baskets are hardly larger than others.
    """
    assert tally.tiers is not None
    longer = 1 - float(tally.alone.mean())
    shares = tally.tiers.settled[0]
    lost = float(shares @ (tally.tiers.sizes - (tally.cap - 1)))
    held = max(float(tally.kept.sum()), 0.0) + lost
    larger = lost / max(float(shares.sum()) * held, 1e-12)
    return (DIFFERS - FORETELLING * longer) * min(larger / LARGER, 1.0)


@dataclass(frozen=True, eq=False)
class Undone:
    """What a round found once its cap is undone, and how far what the cap took leaves that open."""

    tally: RoundTally
    left: Floats  # (itemsets,): the part of those who hold each that kept it
    systematic: Floats  # how far each is open, as a part of what was found: alike in all rounds
    heterogeneity: Floats  # and how far each on its own, since itemsets differ in what caps take
    size_error: Floats | float = (
        0.0  # and of all alike in this round alone, by the noise of its tiers
    )
    odd: float = 0.0  # how badly all this goes with how uneven baskets are supposed to be

    @classmethod
    def of(cls, tally: RoundTally, found: Survival, log_sd: float) -> Undone:
        """Where the cap took what it left out."""
        lost = 1 - found.left
        if found.heterogeneity is not None:
            return cls(
                tally, found.left, np.zeros(len(lost)), found.heterogeneity, found.size_error
            )
        if tally.tiers is not None:
            supposed = np.broadcast_to(found.supposed, lost.shape)
            # They differ in a part of what the cap took, which is open itself: where noise hides
            # large baskets it seems to be next to nothing.
            taken = np.hypot(lost, np.hypot(found.size_error, supposed) * found.left)
            # Of an itemset of more items, more of what they differ in averages.
            heterogeneity = (
                _differ(tally) * (taken + tally.alike(taken)) / 2 / np.sqrt(tally.lengths)
            )
            return cls(tally, found.left, supposed, heterogeneity, found.size_error)
        systematic = np.hypot(DOUBT * lost, OPEN_TAIL * fat_tail(tally, log_sd))
        return cls(tally, found.left, systematic, FORETOLD * heterogeneity_at(log_sd) * lost)

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


def mixed(each: Sequence[tuple[float, NoisyObservation]]) -> NoisyObservation:
    """What was found, by several hypotheses with the weight of each: they differ alike for all."""
    found, variance, chance, slope = (
        np.asarray(sum(weight * getattr(told, name) for weight, told in each))
        for name in ("found", "variance", "chance", "slope")
    )
    apart = sum(w * ((told.found - found) ** 2 + told.systematic**2) for w, told in each)
    return NoisyObservation(found, variance, chance, slope, np.sqrt(np.asarray(apart)))


def calibrated(cap: Undone, known: NoisyObservation, items: Places, log_sd: float) -> Undone:
    """The cap of a round by hash, which left of all items the part that it left of those which
    others were asked about by name, and as much as the tiers of its baskets told.
    """
    tally = cap.tally
    ratio, error = _slope(tally, known, items)
    part, odds = float(np.clip(ratio, 0.02, 1.0)), 0.0
    if tally.tiers is not None:
        part, error = _both((part, error), tally.left)
    else:
        odds = _odds(tally, float(np.clip(ratio, 0.02, 50.0)), error, log_sd)
    every = np.ones(len(tally.itemsets))
    heterogeneity = heterogeneity_at(log_sd) * (1 - part)
    return Undone(tally, part * every, error * every, heterogeneity * every, 0.0, odds)


def _slope(tally: RoundTally, known: NoisyObservation, items: Places) -> tuple[float, float]:
    """What a round kept beside what is known, and the error of that as a part: a line through 0, so
    that what is frequent counts most. Items were asked about by name because their noise in this
    round was high, and of the frequent that is not so. Noise averages over them; what is open about
    their caps does not.
    """
    found, own = known.found, known.variance
    square = max(float((found**2 - own).sum()), float((found**2).max()) / 4)
    ratio = float(tally.kept[items] @ found) / max(square, 1e-12)
    noise = found**2 @ tally.variance[items] + (ratio * found) ** 2 @ own
    error = np.sqrt(float(noise)) / max(square, 1e-12) / max(ratio, 0.02)
    systematic = float(known.systematic.sum() / max(float(found.sum()), 1e-9))
    return ratio, float(np.hypot(error, systematic))


def _odds(tally: RoundTally, part: float, error: float, log_sd: float) -> float:
    """How odd that part is, were all baskets so uneven: half a square. Of the most frequent items,
    which small baskets hold too, a cap takes less than of all.
    """
    differ = heterogeneity_at(log_sd)
    seen, spread = float(tally.kept.sum()), float(np.sqrt(tally.variance.sum()))
    moved = np.clip(seen + spread * np.array([0, -1, 1]), 0, 0.98 * tally.cap)
    parts = [part_left(log_sd, round(float(each), 4), tally.cap) for each in moved]
    middle, low, high = ((1 - LEANING * differ) * float(np.log(each)) for each in parts)
    noise = LEVEL**2 + error**2 + ((low - high) / 2) ** 2
    systematic = np.sqrt(noise + (differ * (1 - parts[0]) / 2) ** 2)
    return float((np.log(part) - middle) / systematic) ** 2 / 2


def _both(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Two estimates of one part, and the errors of each as parts of it: as one."""
    weights = np.array([1 / max(error, 1e-3) ** 2 for _, error in (first, second)])
    logs = np.log([max(part, 0.02) for part, _ in (first, second)])
    whole = float(weights.sum())
    return min(float(np.exp(weights @ logs / whole)), 1.0), float(1 / np.sqrt(whole))


def together(caps: Sequence[Undone], itemsets: Sequence[Itemset]) -> NoisyObservation:
    """What rounds found of these itemsets, each round weighed by how much it tells: by the variance
    at the share that all of them found, since of one that is low by chance the own is low too.
    """
    found = _weighed(caps, itemsets, None)
    for _ in range(WEIGHED):
        found = _weighed(caps, itemsets, np.maximum(found.found, 0))
    return found


def _weighed(
    caps: Sequence[Undone], itemsets: Sequence[Itemset], shares: Floats | None
) -> NoisyObservation:
    """The same, were these the shares; of none known yet, that of all itemsets of a round alike."""
    weight, total, noise, slopes, heterogeneity, doubt, apart, raw = np.zeros((8, len(itemsets)))
    for cap in caps:
        known, here = cap.tally.places(itemsets)
        held = shares[known] if shares is not None else _alike(cap.found[here])
        variance, slope = cap.noise(held, here)
        systematic, own = cap.systematic[here] * held, cap.heterogeneity[here] * held
        size_error = np.broadcast_to(cap.size_error, cap.left.shape)[here] * held
        told = 1 / (variance + own**2 + systematic**2 + size_error**2)
        weight[known] += told
        total[known] += told * cap.found[here]
        noise[known] += told**2 * variance
        slopes[known] += told**2 * slope
        # Where one cap takes more than classes foretold, so does the next: these errors do not
        # average. Where the cap was undone of all items alike, nothing was foretold.
        (raw if cap.tally.whole else heterogeneity)[known] += told * own
        doubt[known] += told * systematic
        apart[known] += (told * size_error) ** 2  # other people told it
    asked = weight > 0
    whole = np.where(asked, weight, 1)
    systematic = np.sqrt(doubt**2 + apart) / whole
    every = np.where(asked, (noise + heterogeneity**2 + raw**2) / whole**2, 2 * NOTHING)
    chance, slope = noise / whole**2, slopes / whole**2
    return NoisyObservation(total / whole, every, chance, slope, systematic)


def _alike(found: Floats) -> Floats:
    """The mean of these for each of them."""
    return np.full(len(found), max(float(found.mean()), 0.0) if len(found) else 0.0)


def disagreement(caps: Sequence[Undone]) -> float:
    """How badly the rounds that asked by name agree on what they all asked about, half the sum of
    squares about the shares that suit them best, and how odd what the others left is beside them.
    """
    direct = [cap for cap in caps if not cap.tally.whole]
    odd = sum(cap.odd for cap in caps)
    if not direct:
        return odd
    # What was asked about for its noise alone would seem to have lost much from round to round.
    itemsets = sorted(set.intersection(*(cap.tally.sure(SURE) for cap in direct)))
    squares, across, level = (np.zeros(len(itemsets)) for _ in range(3))
    for cap in direct:
        known, here = cap.tally.places(itemsets)
        kept, left = cap.tally.kept[here], cap.left[here]
        variance = cap.tally.variance[here] + (ALIKE * kept) ** 2
        squares[known] += kept**2 / variance
        across[known] += kept * left / variance
        level[known] += left**2 / variance
    return odd + float((squares - across**2 / np.maximum(level, 1e-300)).sum()) / 2
