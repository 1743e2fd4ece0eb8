"""Sizes of baskets: what a cap leaves of all that baskets hold, were they just so uneven, and what
tiers of sizes say of that.

A report tells at most so many symbols of a basket. How large the large baskets are is told by
tiers, noisily, or not at all. Their sizes C are therefore supposed: a Poisson law about a mean that
is log-normal from basket to basket, from even baskets to a few very large ones, unless tiers were
told, which say what a cap took with nothing supposed but that larger baskets are rarer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The standard deviation of the logarithm of the mean size, and what is usual: on seven real files
# it was 0 on two, .2, .65, 1 on two, and 1.4.
UNEVEN = (0.0, 0.3, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7)
EVEN = (-0.6, -0.3)  # what stands for baskets that are all alike, and for ones nearly so
USUAL = 0.7
OPEN = 0.5  # how far from the usual that of any baskets may well be
# How far single items differ in what a cap takes, as a part of that: on the same files .2 to .6
# where baskets are uneven, and nothing where all are alike.
HETEROGENEITY = 0.4
LIKE = 0.9  # the log_sd from which on that is so
LEVELS = 33  # of the log-normal law
MOST_MEAN = 1e4
MOST_TIERS = 16
TIERS = 6  # of sizes above a cap
WIDER = 1.5  # times the end of a tier, the end of the next
APART = 0.7  # how far the share of a tier may be from the curve of all, as a part of that
FAR = 3.0  # errors above what is usual, from which on a tier counts as seen
STANDING = 4.0  # errors above what is usual, from which on a tier is believed as it was told
LONELY = 8.0  # times the tier below, a tier of another kind of baskets
HEAVY = 2.0  # times the tier below, the last one where sizes C are as 1/C² and have no end
ALONE = 0.9  # of all large baskets, the part of one tier that may well be of a single size
REACH = 1.96  # errors within which the largest size lies, where the end of sizes is open
# The curves A·exp(−b·j) that shares of tiers may follow: log A and b, all equally probable before.
_CURVES = np.array([(a, b) for a in np.linspace(-9, -0.1, 40) for b in np.linspace(0, 3, 13)])
_STEPS = 60  # places beyond the start of the last tier that stand for all its sizes


def tiers_above(cap: int, symbols: int) -> tuple[int, ...]:
    """Where tiers of sizes above a cap begin, of baskets that hold at most so many symbols: none
    where no basket can be above it, or where a cap of 1 leaves no room for them.

    >>> tiers_above(8, 500), tiers_above(8, 15), tiers_above(8, 8)
    ((9, 14, 21, 32, 48, 72), (9, 14), ())
    """
    if cap < 2:
        return ()
    found, start = list[int](), cap + 1
    while len(found) < TIERS and start <= symbols:
        found.append(start)
        start = max(start + 1, round(WIDER * start))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class SizeBins:
    """What was told of how many baskets are of each tier: shares of all people."""

    starts: tuple[int, ...]
    shares: Floats
    variance: Floats
    most: int = 0  # that a basket may hold, where it is known
    stand_apart: bool = False  # whether others told that large baskets follow no curve

    @cached_property
    def sizes(self) -> Floats:  # (tiers,)
        """How much baskets of each tier hold on the mean, the larger the rarer: as 1/C²; those of
        the last as the curves go on that are believed, and those of an open end as 1/C, up to all
        there is.
        """
        each = (np.arange(*ends) for ends in self._ends)
        found = np.array([float((1 / c).sum() / (1 / c**2).sum()) for c in each])
        if self.open_end:
            found[-1] = (self.most - self.starts[-1]) / math.log(self.most / self.starts[-1])
        elif not self.two_class:
            found[-1] = self._on_curves[2]
        return found

    @property
    def spread(self) -> float:
        """How far the mean size of the last tier is open: by its end, where that is open, else by
        the curves.
        """
        if self.open_end:
            return (self.most - float(self.sizes[-1])) / REACH
        return 0.0 if self.two_class else self._on_curves[3]

    @cached_property
    def open_end(self) -> bool:
        """Whether so many baskets are of the last tier, beside the one below, that larger ones are
        not rarer: then nothing tells where their sizes end.
        """
        if len(self.starts) < 2 or self.most < self._ends[-1][1]:
            return False
        before, last = self.shares[-2:]
        error = math.sqrt(self.variance[-1] + HEAVY**2 * self.variance[-2])
        return bool(last - HEAVY * max(before, 0.0) > FAR * error)

    @property
    def _ends(self) -> list[tuple[int, int]]:
        last = max(self.starts[-1] + 1, round(WIDER * WIDER * self.starts[-1]))
        return list(zip(self.starts, (*self.starts[1:], last), strict=True))

    @property
    def alike(self) -> float:
        """How far what large baskets hold is open where nearly all are of one tier: their sizes may
        all be alike, and anywhere in it.
        """
        place = int(np.argmax(self.shares))
        share = float(self.shares[place])
        if share < ALONE * float(np.maximum(self.shares, 0).sum()):
            return 0.0
        if share < FAR * math.sqrt(self.variance[place]):
            return 0.0
        low, high = self._ends[place]
        return share * (high - low) / 3

    @cached_property
    def settled(self) -> tuple[Floats, Floats]:  # (tiers,), (tiers, tiers)
        """The shares of the tiers and their covariance, each tier usually being some part of the
        one below: a curve, of which each share may be off by APART of it. What is believed of the
        curve is what was told of all tiers. Where that makes light of many large baskets among
        small ones, which follow no curve, shares are what was told.
        """
        shares, covariance = self._on_curves[:2]
        if self.two_class:
            return np.maximum(self.shares, 0.0), np.diag(self.variance)
        return shares, covariance

    @cached_property
    def two_class(self) -> bool:
        """Whether more was told of some tier than any curve makes of it, or many times what was
        told of the one below: by the error of a tier of which there are none, since that of what
        was told by chance is larger.
        """
        above = self.shares - self._on_curves[0]
        below = np.append(0.0, np.maximum(self.shares[:-1], 0))
        beyond = np.append(above[:1], (self.shares - LONELY * below)[1:])
        error = math.sqrt(float(self.variance.min()))
        return self.stand_apart or bool((np.maximum(above, beyond) > STANDING * error).any())

    @cached_property
    def _on_curves(self) -> tuple[Floats, Floats, float, float]:
        """The shares and their covariance, and the mean size of the last tier with how far that is
        open.
        """
        curve = np.exp(_CURVES[:, :1] - _CURVES[:, 1:] * np.arange(len(self.starts)))
        times, sizes = self._beyond
        curve[:, -1] *= times
        free = (APART * curve) ** 2
        spread = free + self.variance
        off = self.shares - curve
        logs = -(np.log(spread) + off**2 / spread).sum(axis=1) / 2
        weight = np.exp(logs - logs.max())
        weight /= weight.sum()
        each = np.maximum(curve + free / spread * off, 0.0)  # (curves, tiers)
        shares = weight @ each
        inside = np.diag(weight @ (free * self.variance / spread))
        apart = each - shares
        covariance = inside + (weight[:, None] * apart).T @ apart
        last = weight * each[:, -1]
        last /= max(float(last.sum()), 1e-300)
        size = float(last @ sizes)
        return shares, covariance, size, math.sqrt(float(last @ (sizes - size) ** 2))

    @property
    def _beyond(self) -> tuple[Floats, Floats]:  # (curves,), (curves,)
        """How many times what a curve says of the last tier there is, since that has no end but the
        most that a basket may hold; and the mean size of those.
        """
        start = self.starts[-1] - 0.5
        most = self.most + 0.5 if self.most > start else self._ends[-1][1]
        reach = math.log(most / start) / math.log(WIDER)  # in tiers
        steps = (np.arange(_STEPS) + 0.5) / _STEPS

        def shares(tiers: float) -> Floats:  # (curves, steps)
            return np.asarray(tiers / _STEPS * np.exp(-_CURVES[:, 1:] * tiers * steps))

        sizes, every = start * WIDER ** (reach * steps), shares(reach)
        number = every.sum(axis=1)
        return number / shares(1.0).sum(axis=1), every @ sizes / number

    def least_left(self, cap: int) -> float:
        """What a cap leaves of that which large baskets alone hold."""
        shares = self.settled[0]
        return float((cap - 1) * shares.sum() / max(float(shares @ self.sizes), 1e-9))

    @property
    def large(self) -> float:
        """The share of baskets above the cap, at most: two errors above what it seems to be."""
        shares, covariance = self.settled
        return float(shares.sum() + 2 * math.sqrt(max(float(covariance.sum()), 0.0)))


def left_above(seen: float, noise: float, cap: int, told: SizeBins) -> tuple[float, float]:
    """What a cap left of all that baskets hold, by what their tiers told, of the mean that baskets
    kept, which was seen with this variance; and how far that is open, as a part of it.
    """
    shares, covariance = told.settled
    beyond = told.sizes - (cap - 1)
    kept, lost = max(seen, 1e-9), float(shares @ beyond)
    if seen**2 < noise:  # lost in noise: large baskets alone kept so much
        kept = max(kept, float(shares.sum()) * (cap - 1))
    doubt = float(beyond @ covariance @ beyond) / (kept + lost) ** 2
    doubt += noise * (lost / (kept * (kept + lost))) ** 2
    systematic = math.hypot(float(shares[-1]) * told.spread, told.alike) / (kept + lost)
    return kept / (kept + lost), math.hypot(min(math.sqrt(doubt), 1.0), systematic)


def told_alone(seen: float, cap: int, told: SizeBins) -> float:
    """How far tiers alone, with no curve supposed of them, leave open how much a cap left out, as a
    part of all that baskets hold.
    """
    beyond = told.sizes - (cap - 1)
    lost = float(told.settled[0] @ beyond)
    return math.sqrt(float(beyond**2 @ told.variance)) / (max(seen, 1e-9) + lost)


def heterogeneity_at(log_sd: float) -> float:
    """How far items differ in what a cap takes, as a part of that, in baskets so uneven."""
    return HETEROGENEITY * min(1.0, log_sd / LIKE)


def usual(log_sd: NDArray[Any]) -> NDArray[Any]:
    """The logarithm of how probable so uneven baskets are, before anything is known of them."""
    return np.asarray(-(((log_sd - USUAL) / OPEN) ** 2) / 2)


@lru_cache(maxsize=512)
def part_left(log_sd: float, seen: float, cap: int) -> float:
    """The part of all that baskets hold which a cap leaves, E[min(C, m)]/E[C], where the mean of
    min(C, m) is what was seen.

    >>> round(part_left(0.0, 6.0, 8), 3), round(part_left(0.9, 6.0, 8), 3)
    (0.932, 0.5)
    """
    if not 0 < seen < cap:
        return 1.0 if seen <= 0 else cap / MOST_MEAN
    low, high = math.log(1e-9), math.log(MOST_MEAN)  # of the mean size, by halving
    for _ in range(50):
        middle = (low + high) / 2
        below = _kept(log_sd, math.exp(middle), cap) < seen
        low, high = (middle, high) if below else (low, middle)
    return min(1.0, seen / math.exp(low))


def _kept(log_sd: float, mean: float, cap: int) -> float:
    """E[min(C, m)] = Σ P(C ≥ j) over j = 1…m."""
    from scipy.special import gammainc

    places, weights = _levels()
    means = mean * np.exp(log_sd * places)  # at each place of the log-normal distribution
    means = means * (mean / float(weights @ means))
    return float(weights @ gammainc(np.arange(1, cap + 1), means[:, None]).sum(axis=1))


@lru_cache(maxsize=1)
def _levels() -> tuple[NDArray[Any], NDArray[Any]]:
    """Places of a normal law, evenly apart, and their weights."""
    places = np.linspace(-4, 4, LEVELS)
    weights = np.exp(-(places**2) / 2)
    return places, weights / weights.sum()
