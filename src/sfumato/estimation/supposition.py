"""Supposition: what rounds say of itemsets, were the sizes of baskets just so uneven.

A report is capped, so that nothing in it tells how many baskets are large, and what a cap takes
from an itemset hangs on just that. How uneven the sizes are is therefore supposed, several times
over, and how fat the tail of the sizes is beyond what kinds of baskets foretell: each supposition
is believed as far as the rounds agree under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.heard import Heard, Survival, survival
from sfumato.estimation.kinds import BasketKinds, Itemset, KindsFit, KindSizes, padded
from sfumato.estimation.ratios import NOTHING, Witness
from sfumato.mechanisms.apart import Apart
from sfumato.mechanisms.sizes import UNLIKE, part_left, unlikeness

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

MODELLED = 160  # items that kinds of baskets tell apart; the others are independent
# Of what a cap takes away, how far that is open once it is known how uneven the sizes are and how
# fat their tail is: the rest of the law of sizes. Where large baskets tell how much they hold, the
# noise of what they told states it, and how far the sizes of the last tier are open.
DOUBT = 0.4
# How far single items then differ in what a cap takes, beside what kinds foretell, as a part of
# that: where nobody was asked what goes together, and how much less where that was all the asking.
DIFFERS, FORETELLING = 0.65, 0.45
LARGER = 3.0  # times what a basket holds on the mean, what large ones lose where all that is so
FORETOLD = 0.6  # of how items differ in what a cap takes, the part that kinds do not foretell
LEANING = 0.7  # how much less of the most frequent items a cap takes, beside how items differ
LEVEL = 0.04  # how far that is open, at the least
# The power of mean size ÷ cap that a fat tail loses of single items, how much less of each item
# more, since those who hold more items are those with large baskets, and the least.
FALLS, FALLS_LESS, LEAST_FALLS = 1.5, 0.4, 0.7
OPEN_TAIL = 0.25  # how far a tail is open, however well the rounds agree
ALIKE = 0.02  # how far two rounds may differ about an itemset, beside noise, whatever is supposed
SURE = 6.0  # errors from 0 on, what was asked about in all rounds is not there by its noise
TURNS = 2  # of fitting kinds and finding what the cap takes
WEIGHED = 2  # times rounds are weighed again, by what they found together


@dataclass(frozen=True, eq=False)
class Explained:
    """What kinds are fitted to: of the itemsets of a few items that matter, what each round found,
    the same whatever is supposed.
    """

    order: Places  # (items that matter,)
    itemsets: Places  # (n, longest), the items as places in the order
    rounds: tuple[Places, ...]  # which itemsets of each round these are, one round after the other
    found: Floats  # (n,)
    variance: Floats

    @classmethod
    def of(cls, heard: Sequence[Heard], singles: Floats) -> Explained:
        """Over the items that were asked about by name, the most frequent of them."""
        direct = (each for each in heard if not each.whole)
        named = {item for each in direct for itemset in each.itemsets for item in itemset}
        order = sorted(named, key=lambda item: -singles[item])[:MODELLED]
        own = {item: place for place, item in enumerate(order)}
        rounds = tuple(each.within(own) for each in heard)
        rows = [
            tuple(own[item] for item in each.itemsets[place])
            for each, places in zip(heard, rounds, strict=True)
            for place in places.tolist()
        ]
        parts = [(e.kept[p], e.steady[p]) for e, p in zip(heard, rounds, strict=True)]
        found, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(np.array(order, np.intp), padded(rows, len(order)), rounds, found, variance)

    def fitted(
        self, survivals: Sequence[Floats], singles: Floats, sizes: KindSizes
    ) -> tuple[BasketKinds, float]:
        """Kinds over all items that explain what every round found, and how badly they do."""
        kept = np.concatenate([s[p] for s, p in zip(survivals, self.rounds, strict=True)])
        own = singles[self.order]
        fit = KindsFit(self.itemsets, self.found, self.variance, kept, own, sizes)
        kinds, loss = fit.fitted()
        chances = np.repeat(singles[None], len(kinds.shares), axis=0)
        chances[:, self.order] = kinds.chances
        return BasketKinds(kinds.shares, np.clip(chances, 1e-9, 1 - 1e-9)), loss


@dataclass(frozen=True, eq=False)
class Supposition:
    """The rounds, the sizes of baskets being as uneven as supposed."""

    heard: tuple[Heard, ...]
    singles: Floats  # (items,): a first guess, a cap not undone
    unevenness: float
    explained: Explained | None  # none where nobody was asked by name

    @property
    def _apart(self) -> Apart | None:
        """What the first round's cap left, where a few baskets are far larger than all others."""
        return self.heard[0].apart if self.heard else None

    @cached_property
    def _sizes(self) -> KindSizes:
        if self._apart is None:
            return KindSizes.uneven(self.unevenness)
        return KindSizes.apart(self._apart.groups.shares, self._apart.groups.sizes)

    @property
    def kinds(self) -> BasketKinds:
        """Kinds of baskets, over all items."""
        return self._fitted[0]

    @property
    def loss(self) -> float:
        """How badly the kinds explain what was found."""
        return self._fitted[2]

    def caps(self, tail: float) -> list[Undone]:
        """What each round's cap took, the tail of the sizes of baskets being so fat: of baskets
        that hold c candidates on the mean, a cap m then takes tail·(c/m)^FALLS besides, and more of
        longer itemsets; or being so thin, when it takes but a part of what was foretold.
        """
        own = [
            part if heard.whole or heard.sized else self._tailed(heard, part, tail)
            for heard, part in zip(self.heard, self._fitted[1], strict=True)
        ]
        return self._calibrated(own)

    def _tailed(self, heard: Heard, found: Survival, tail: float) -> Survival:
        if tail < 0:
            return replace(found, left=np.asarray(found.left ** (1 + tail)))
        tailed = found.left * (1 - tail * fat_tail(heard, self.unevenness))
        return replace(found, left=np.asarray(tailed))

    @cached_property
    def _fitted(self) -> tuple[BasketKinds, list[Survival], float]:
        kinds, loss = BasketKinds.uneven(self.singles, self._sizes), 0.0
        survivals = [self._survival(each, kinds) for each in self.heard]
        for _ in range(TURNS if self.explained else 0):
            assert self.explained is not None
            parts = [each.left for each in self._calibrated(survivals)]
            kinds, loss = self.explained.fitted(parts, self._undone(parts), self._sizes)
            survivals = [self._survival(each, kinds) for each in self.heard]
        return kinds, survivals, loss

    def _survival(self, heard: Heard, kinds: BasketKinds) -> Survival:
        return Survival.beforehand(heard) if heard.whole else survival(heard, kinds)

    def _calibrated(self, survivals: Sequence[Survival]) -> list[Undone]:
        """What each round's cap left; the first round's by comparing it with those who were asked
        directly, whose doubts it takes over.
        """
        caps = [
            Undone.of(each, left, self.unevenness)
            for each, left in zip(self.heard, survivals, strict=True)
        ]
        direct = [cap for cap in caps if not cap.heard.whole]
        asked = sorted({x for cap in direct for x in cap.heard.itemsets if len(x) == 1})
        if not asked:
            return caps
        known = Yardstick.of(together(direct, asked), np.array([each[0] for each in asked]))
        return [
            known.undone(cap, self.unevenness) if cap.heard.whole and not cap.heard.apart else cap
            for cap in caps
        ]

    def _undone(self, survivals: Sequence[Floats]) -> Floats:  # (items,)
        """The first guess, the cap undone by what it takes from all items together."""
        if self._apart is not None:
            return self.singles
        kept = left = 0.0
        for each, part in zip(self.heard, survivals, strict=True):
            weight = np.maximum(each.kept[each.alone], 0)
            kept += float(weight.sum())
            left += float((weight / part[each.alone]).sum())
        return np.minimum(self.singles * left / max(kept, 1e-9), 0.999)


def fat_tail(heard: Heard, unevenness: float) -> Floats:
    """What a tail of fatness 1 takes of each itemset, in baskets so uneven."""
    falls = np.maximum(FALLS - FALLS_LESS * (heard.lengths - 1), LEAST_FALLS)
    return np.asarray(unlikeness(unevenness) / UNLIKE * heard.fullness**falls)


def _differ(heard: Heard) -> float:
    """How far single items differ in what a cap takes, beside what kinds foretell, as a part of it:
    less where people were asked what goes together, which is what kinds know, and where large
    baskets are hardly larger than others.
    """
    assert heard.tiers is not None
    longer = 1 - float(heard.alone.mean())
    shares = heard.tiers.settled[0]
    lost = float(shares @ (heard.tiers.sizes - (heard.cap - 1)))
    held = max(float(heard.kept.sum()), 0.0) + lost
    larger = lost / max(float(shares.sum()) * held, 1e-12)
    return (DIFFERS - FORETELLING * longer) * min(larger / LARGER, 1.0)


@dataclass(frozen=True, eq=False)
class Undone:
    """What a round found once its cap is undone, and how far what the cap took leaves that open."""

    heard: Heard
    left: Floats  # (itemsets,): the part of those who hold each that kept it
    open_to: Floats  # how far each is open, as a part of what was found: alike in all rounds
    unlike: Floats  # and how far each on its own, since itemsets differ in what caps take
    sized: Floats | float = 0.0  # and of all alike in this round alone, by the noise of its tiers
    odd: float = 0.0  # how badly all this goes with how uneven baskets are supposed to be

    @classmethod
    def of(cls, heard: Heard, found: Survival, unevenness: float) -> Undone:
        """Where the cap took what it left out."""
        lost = 1 - found.left
        if found.unlike is not None:
            return cls(heard, found.left, np.zeros(len(lost)), found.unlike, found.sized)
        if heard.tiers is not None:
            supposed = np.broadcast_to(found.supposed, lost.shape)
            # They differ in a part of what the cap took, which is open itself: where noise hides
            # large baskets it seems to be next to nothing.
            taken = np.hypot(lost, np.hypot(found.sized, supposed) * found.left)
            # Of an itemset of more items, more of what they differ in averages.
            unlike = _differ(heard) * (taken + heard.alike(taken)) / 2 / np.sqrt(heard.lengths)
            return cls(heard, found.left, supposed, unlike, found.sized)
        open_to = np.hypot(DOUBT * lost, OPEN_TAIL * fat_tail(heard, unevenness))
        return cls(heard, found.left, open_to, FORETOLD * unlikeness(unevenness) * lost)

    @property
    def found(self) -> Floats:
        """The share of people who hold each itemset."""
        return self.heard.kept / self.left

    def noise(self, shares: Floats, here: Places) -> tuple[Floats, Floats]:
        """The variances by chance alone of what was found of some, were these their shares; and by
        how much more they are where more people hold them.
        """
        left, slope = self.left[here], self.heard.slope
        kept = np.clip(shares * left, 0, 1)
        return (self.heard.base[here] + slope * kept) / left**2, slope / left


@dataclass(frozen=True, eq=False)
class Found:
    """The shares of people who hold itemsets: what is open of each on its own, and of all alike."""

    share: Floats
    noise: Floats  # variances, beyond all others where nothing was told
    open_to: Floats  # how far each is open about what caps took: up or down with all others
    chance: Floats | float = 0.0  # the part of the variances that is by chance alone, ...
    slope: Floats | float = 0.0  # ... and by how much more it is where more people hold them

    @property
    def told(self) -> Witness:
        """What is open of each on its own."""
        every = np.ones(len(self.share))
        return Witness(self.share, self.noise, self.chance * every, self.slope * every)

    @property
    def variance(self) -> Floats:
        """Of both together."""
        return np.asarray(self.noise + self.open_to**2)


def believed(each: Sequence[tuple[float, Found]]) -> Found:
    """What was found, by several suppositions with the belief in each."""
    share = np.asarray(sum(belief * found.share for belief, found in each))
    noise, chance, slope = (
        np.asarray(sum(belief * getattr(found, name) for belief, found in each))
        for name in ("noise", "chance", "slope")
    )
    apart = sum(b * ((found.share - share) ** 2 + found.open_to**2) for b, found in each)
    return Found(share, noise, np.sqrt(np.asarray(apart)), chance, slope)


@dataclass(frozen=True, eq=False)
class Yardstick:
    """Items whose share is known from those who were asked about them by name."""

    found: Floats
    noise: Floats  # variances
    open_to: float  # how far all of them may be off together, as a part
    items: Places

    @classmethod
    def of(cls, known: Found, items: Places) -> Yardstick:
        """Noise averages over them; what is open about their caps does not."""
        open_to = float(known.open_to.sum() / max(float(known.share.sum()), 1e-9))
        return cls(known.share, known.noise, open_to, items)

    def undone(self, cap: Undone, unevenness: float) -> Undone:
        """The cap of a round by hash, which left of all items the part that it left of these, and
        as much as the tiers of its baskets told.
        """
        heard = cap.heard
        ratio, error = self._slope(heard)
        part = float(np.clip(ratio, 0.02, 1.0))
        odds = 0.0
        if heard.tiers is not None:
            part, error = _both((part, error), heard.left)
        else:
            odds = self._odds(heard, float(np.clip(ratio, 0.02, 50.0)), error, unevenness)
        every = np.ones(len(heard.itemsets))
        unlike = unlikeness(unevenness) * (1 - part)
        return Undone(heard, part * every, error * every, unlike * every, 0.0, odds)

    def _slope(self, heard: Heard) -> tuple[float, float]:
        """What a round kept beside what is known, and the error of that as a part: a line through
        0, so that what is frequent counts most. Items were asked about by name because their noise
        in this round was high, and of the frequent that is not so.
        """
        kept, variance = heard.kept[self.items], heard.variance[self.items]
        square = max(float((self.found**2 - self.noise).sum()), float((self.found**2).max()) / 4)
        ratio = float(kept @ self.found) / max(square, 1e-12)
        noise = self.found**2 @ variance + (ratio * self.found) ** 2 @ self.noise
        error = np.sqrt(float(noise)) / max(square, 1e-12) / max(ratio, 0.02)
        return ratio, float(np.hypot(error, self.open_to))

    def _odds(self, heard: Heard, part: float, error: float, unevenness: float) -> float:
        """How odd that part is, were all baskets so uneven: half a square. Of the most frequent
        items, which small baskets hold too, a cap takes less than of all.
        """
        unlike = unlikeness(unevenness)
        seen, spread = float(heard.kept.sum()), float(np.sqrt(heard.variance.sum()))
        parts = [self._part_left(heard, seen + move, unevenness) for move in (0, -spread, spread)]
        middle, low, high = ((1 - LEANING * unlike) * float(np.log(each)) for each in parts)
        noise = LEVEL**2 + error**2 + ((low - high) / 2) ** 2
        open_to = np.sqrt(noise + (unlike * (1 - parts[0]) / 2) ** 2)
        return float((np.log(part) - middle) / open_to) ** 2 / 2

    def _part_left(self, heard: Heard, seen: float, unevenness: float) -> float:
        return part_left(unevenness, round(float(np.clip(seen, 0, 0.98 * heard.cap)), 4), heard.cap)


def _both(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Two estimates of one part, and the errors of each as parts of it: as one."""
    weights = np.array([1 / max(error, 1e-3) ** 2 for _, error in (first, second)])
    logs = np.log([max(part, 0.02) for part, _ in (first, second)])
    whole = float(weights.sum())
    return min(float(np.exp(weights @ logs / whole)), 1.0), float(1 / np.sqrt(whole))


def together(caps: Sequence[Undone], itemsets: Sequence[Itemset]) -> Found:
    """What rounds found of these itemsets, each round weighed by how much it tells: by the variance
    at the share that all of them found, since of one that is low by chance the own is low too.
    """
    found = _weighed(caps, itemsets, None)
    for _ in range(WEIGHED):
        found = _weighed(caps, itemsets, np.maximum(found.share, 0))
    return found


def _weighed(caps: Sequence[Undone], itemsets: Sequence[Itemset], shares: Floats | None) -> Found:
    """The same, were these the shares; of none known yet, that of all itemsets of a round alike."""
    weight, total, noise, slopes, unlike, doubt, apart, raw = np.zeros((8, len(itemsets)))
    for cap in caps:
        known, here = cap.heard.places(itemsets)
        held = shares[known] if shares is not None else _alike(cap.found[here])
        variance, slope = cap.noise(held, here)
        open_to, own = cap.open_to[here] * held, cap.unlike[here] * held
        sized = np.broadcast_to(cap.sized, cap.left.shape)[here] * held
        told = 1 / (variance + own**2 + open_to**2 + sized**2)
        weight[known] += told
        total[known] += told * cap.found[here]
        noise[known] += told**2 * variance
        slopes[known] += told**2 * slope
        # Where one cap takes more than kinds foretold, so does the next: these errors do not
        # average. Where the cap was undone of all items alike, nothing was foretold.
        (raw if cap.heard.whole else unlike)[known] += told * own
        doubt[known] += told * open_to
        apart[known] += (told * sized) ** 2  # other people told it
    asked = weight > 0
    whole = np.where(asked, weight, 1)
    open_to = np.sqrt(doubt**2 + apart) / whole
    every = np.where(asked, (noise + unlike**2 + raw**2) / whole**2, 2 * NOTHING)
    return Found(total / whole, every, open_to, noise / whole**2, slopes / whole**2)


def _alike(found: Floats) -> Floats:
    """The mean of these for each of them."""
    return np.full(len(found), max(float(found.mean()), 0.0) if len(found) else 0.0)


def disagreement(caps: Sequence[Undone]) -> float:
    """How badly the rounds that asked by name agree on what they all asked about, half the sum of
    squares about the shares that suit them best, and how odd what the others left is beside them.
    """
    direct = [cap for cap in caps if not cap.heard.whole]
    odd = sum(cap.odd for cap in caps)
    if not direct:
        return odd
    # What was asked about for its noise alone would seem to have lost much from round to round.
    itemsets = sorted(set.intersection(*(cap.heard.sure(SURE) for cap in direct)))
    squares, across, level = (np.zeros(len(itemsets)) for _ in range(3))
    for cap in direct:
        known, here = cap.heard.places(itemsets)
        kept, left = cap.heard.kept[here], cap.left[here]
        variance = cap.heard.variance[here] + (ALIKE * kept) ** 2
        squares[known] += kept**2 / variance
        across[known] += kept * left / variance
        level[known] += left**2 / variance
    return odd + float((squares - across**2 / np.maximum(level, 1e-300)).sum()) / 2
