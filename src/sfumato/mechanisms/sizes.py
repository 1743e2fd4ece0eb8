"""Sizes of baskets: what share of them is above a cap, how much those hold, and so what the cap
leaves of all that is held.

A report tells at most so many symbols of a basket. How large the large baskets are is told by
tiers, noisily; shares of tiers are shrunk to falling curves (a hierarchical normal model, its two
hyperparameters integrated over a grid). Where an older release told no tiers, a Poisson law about
a log-normal mean stands in for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_TIERS = 16  # that a description may list
TIERS, WIDER = 6, 1.5  # of sizes above a cap, and each that many times the one before
# The curves A·exp(−b·j) that shares of tiers may follow: log A and b, all equally probable before,
# and how far the share of a tier may be from its curve, as a part of it.
_CURVES = np.array([(a, b) for a in np.linspace(-9, -0.1, 40) for b in np.linspace(0, 3, 13)])
OFF_CURVE = 0.7
ALONE = 0.01  # how probably before a tier is off any curve, anything from 0 to 1
# Where nothing was told: the standard deviation of log mean size, from even baskets to very uneven
# ones, all equally probable.
UNTOLD = (0.0, 0.35, 0.7, 1.05, 1.4)
HETEROGENEITY = 0.3  # how far itemsets differ in what a cap takes, as a part of that
_STEPS = 60  # places beyond the start of the last tier that stand for all its sizes
NOTHING_KEPT = 1e-9  # of a mean size, so that a part of it is a number


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
    """How many baskets are of each tier above a cap, as shares of all, and what they hold."""

    starts: tuple[int, ...]
    shares: Floats  # (tiers,)
    covariance: Floats  # (tiers, tiers)
    sizes: Floats  # (tiers,): the mean
    spread: float  # the standard deviation of the mean size of the last tier
    noise: Floats  # (tiers,): the variance of what was told, with nothing supposed

    @classmethod
    def told(cls, starts: tuple[int, ...], found: Floats, variance: Floats, most: int) -> SizeBins:
        """By what was told of each tier, of baskets that hold at most so much. Before, a tier is
        near its curve (a normal law), or rarely anything from 0 to 1 (a tier that stands alone);
        curves are weighed by their marginal likelihood.
        """
        curve = np.exp(_CURVES[:, :1] - _CURVES[:, 1:] * np.arange(len(starts)))
        times, ends = _beyond(starts[-1], most)
        curve[:, -1] *= times
        near = (OFF_CURVE * curve) ** 2
        spread = near + variance
        off = found - curve
        density = np.exp(-(off**2) / spread / 2) / np.sqrt(2 * math.pi * spread)
        error, normal = np.sqrt(variance), NormalDist()
        above = np.array([normal.cdf(z) for z in (found / error).tolist()]) + 1e-12
        free = ALONE / (1 - ALONE) * above
        alone = found + error * np.exp(-(found**2) / variance / 2) / (
            math.sqrt(2 * math.pi) * above
        )
        weight = np.exp(_centred(np.log(density + free).sum(axis=1)))
        weight /= weight.sum()
        on = density / (density + free)  # (curves, tiers): how probably near the curve
        drawn = np.maximum(curve + near / spread * off, 0.0)
        each = on * drawn + (1 - on) * alone
        own = on * (near * variance / spread + (drawn - each) ** 2)
        own += (1 - on) * (variance + (alone - each) ** 2)
        shares, inside = weight @ each, np.diag(weight @ own)
        covariance = inside + np.cov(each.T, aweights=weight, bias=True).reshape(inside.shape)
        last = weight * each[:, -1]
        last /= max(float(last.sum()), 1e-300)
        sizes = _mean_sizes(starts)
        sizes[-1] = size = float(last @ ends)
        open_end = math.sqrt(float(last @ (ends - size) ** 2))
        return cls(starts, shares, covariance, sizes, open_end, variance)

    @classmethod
    def untold(cls, kept: Floats, cap: int, most: int) -> SizeBins:
        """Where nobody told, of baskets that kept so much of each symbol: as uneven as any, but
        that nothing is held by more than everybody.
        """
        seen = float(np.clip(kept.sum(), 0, 0.98 * cap))
        starts = tiers_above(max(cap, 2), most) or (most,)
        sizes = _mean_sizes(starts)
        each = np.array([_tail(log_sd, seen, cap, starts) for log_sd in UNTOLD])
        largest = seen / max(float(kept.max()), NOTHING_KEPT)  # the mean size at most
        lost = each @ (sizes - (cap - 1))
        each *= np.minimum(1.0, max(largest - seen, 0.0) / np.maximum(lost, NOTHING_KEPT))[:, None]
        covariance = np.cov(each.T, bias=True).reshape(len(starts), len(starts))
        return cls(starts, each.mean(axis=0), covariance, sizes, 0.0, covariance.diagonal())

    def left(self, seen: float, noise: float, cap: int) -> tuple[float, float]:
        """What a cap left of all that baskets hold, of the mean that baskets kept, which was seen
        with this variance: E[kept]/E[held], and its standard error as a part of it.

        A tier's baskets may all be of one size, anywhere in it, which adds to the error.
        """
        beyond = self.sizes - (cap - 1)
        kept, lost = max(seen, NOTHING_KEPT), float(self.shares @ beyond)
        if seen**2 < noise:  # lost in noise: large baskets alone kept so much
            kept = max(kept, float(self.shares.sum()) * (cap - 1))
        doubt = float(beyond @ self.covariance @ beyond) / (kept + lost) ** 2
        doubt += noise * (lost / (kept * (kept + lost))) ** 2
        widths = np.diff([*self.starts, WIDER * self.starts[-1]]) / math.sqrt(12)
        widths[-1] = math.hypot(widths[-1], self.spread)
        systematic = float(np.hypot.reduce(self.shares * widths)) / (kept + lost)
        return kept / (kept + lost), math.hypot(min(math.sqrt(doubt), 1.0), systematic)

    def heterogeneity(self, left: float, seen: float, cap: int) -> float:
        """How far single items differ in what a cap left of them, as a part of that: a part of what
        it took; and of what only large baskets hold it left less, which counts as they hold more.
        """
        held = float(self.shares @ self.sizes)
        of_large = (cap - 1) * float(self.shares.sum()) / max(held, NOTHING_KEPT)
        part = held * left / max(seen, NOTHING_KEPT)  # of all that is held
        alone = max(left / max(of_large, NOTHING_KEPT) - 1, 0.0)
        return math.hypot(HETEROGENEITY * (1 - left), min(part, 1.0) ** 2 * alone)

    def told_alone(self, seen: float, cap: int) -> float:
        """The standard error of what a cap left out by what was told alone, no curve supposed, as a
        part of all that baskets hold.
        """
        beyond = self.sizes - (cap - 1)
        lost = float(self.shares @ beyond)
        return math.sqrt(float(beyond**2 @ self.noise)) / (max(seen, NOTHING_KEPT) + lost)

    @property
    def large(self) -> float:
        """The share of baskets above the cap, at most: two errors above what it seems to be."""
        return float(self.shares.sum() + 2 * math.sqrt(max(float(self.covariance.sum()), 0.0)))


def _centred(logs: Floats) -> Floats:
    return np.asarray(logs - logs.max())


def _mean_sizes(starts: tuple[int, ...]) -> Floats:  # (tiers,)
    """How much baskets of each tier hold on the mean, the larger the rarer: as 1/C²."""
    last = max(starts[-1] + 1, round(WIDER * WIDER * starts[-1]))
    each = (np.arange(*ends) for ends in zip(starts, (*starts[1:], last), strict=True))
    return np.array([float((1 / c).sum() / (1 / c**2).sum()) for c in each])


def _beyond(start: int, most: int) -> tuple[Floats, Floats]:  # (curves,), (curves,)
    """How many times what a curve says of the last tier there is, since that has no end but the
    most that a basket may hold; and the mean size of those.
    """
    reach = math.log((max(most, start) + 0.5) / (start - 0.5)) / math.log(WIDER)  # in tiers
    steps = (np.arange(_STEPS) + 0.5) / _STEPS

    def shares(tiers: float) -> Floats:  # (curves, steps)
        return np.asarray(tiers / _STEPS * np.exp(-_CURVES[:, 1:] * tiers * steps))

    sizes, every = (start - 0.5) * WIDER ** (reach * steps), shares(reach)
    number = every.sum(axis=1)
    return number / shares(1.0).sum(axis=1), every @ sizes / number


def _tail(log_sd: float, seen: float, cap: int, starts: Sequence[int]) -> Floats:  # (tiers,)
    """The shares of tiers where sizes are Poisson about a log-normal mean, with the standard
    deviation of its logarithm, and E[min(C, m)] is what was seen: the mean found by halving.
    """
    from scipy.special import gammainc  # P(C ≥ k) = P(k, mean)

    places = np.linspace(-4, 4, 33)  # of a normal law
    weights = np.exp(-(places**2) / 2)
    weights /= weights.sum()
    low, high = -20.0, 10.0  # of the log of the median
    for _ in range(50):
        middle = (low + high) / 2
        means = np.exp(middle + log_sd * places)
        kept = float(weights @ gammainc(np.arange(1, cap + 1), means[:, None]).sum(axis=1))
        low, high = (middle, high) if kept < seen else (low, middle)
    upto = weights @ gammainc(
        np.array([*starts], dtype=float), np.exp(low + log_sd * places)[:, None]
    )
    return np.asarray(upto - np.append(upto[1:], 0.0))
