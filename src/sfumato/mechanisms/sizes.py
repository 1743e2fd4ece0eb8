"""Sizes of baskets: what share of them is above a cap, how much those hold, and so what the cap
leaves of all that is held.

A report tells at most so many symbols of a basket. How large the large baskets are is told by
tiers, noisily; shares of tiers are shrunk to falling curves (a hierarchical normal model, its two
hyperparameters integrated over a grid). Where an older release told no tiers, a binomial law about
log odds that are normal from basket to basket stands in for them.
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
# Where nothing was told: the standard deviation of the log odds that a basket holds a symbol, with
# the weakly informative prior of a scale, half a Cauchy law of scale 1 (Gelman 2006).
UNTOLD = np.linspace(0, 3, 7)
HETEROGENEITY = 0.3  # how far itemsets differ in what a cap takes, as a part of that
_STEPS = 60  # places beyond the start of the last tier that stand for all its sizes
NOTHING_KEPT = 1e-9  # of a mean size, so that a part of it is a number


def tiers_above(cap: int, symbols: int) -> tuple[int, ...]:
    """Where tiers of sizes above a cap begin, of baskets that hold at most so many symbols: none
    where no basket can be above it, or where a cap of 1 leaves no room for them.

    >>> tiers_above(8, 500), tiers_above(8, 15), tiers_above(8, 8)
    ((9, 14, 21, 32, 48, 72), (9, 14), ())
    """
    return _starts(cap, symbols) if cap > 1 else ()


def _starts(cap: int, symbols: int) -> tuple[int, ...]:
    found, start = list[int](), cap + 1
    while len(found) < TIERS and start <= symbols:
        found.append(start)
        start = max(start + 1, round(WIDER * start))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class SizeBins:
    """How many baskets are of each tier above a cap, as shares of all, and what they hold."""

    starts: tuple[int, ...]
    most: int  # that a basket may hold
    keeps: int  # of its symbols, a basket above the cap
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
        logs = np.log(density + free).sum(axis=1)
        weight = np.exp(logs - logs.max())
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
        if weight @ on[:, -1] < 0.5:  # off any curve more probably than not: as large as any may be
            many = max(most, starts[-1]) - starts[-1] + 1
            sizes[-1], open_end = starts[-1] + (many - 1) / 2, math.sqrt((many**2 - 1) / 12)
        keeps = starts[0] - 2  # one symbol tells the tier
        return cls(starts, most, keeps, shares, covariance, sizes, open_end, variance)

    @classmethod
    def untold(cls, kept: Floats, cap: int, most: int) -> SizeBins:
        """Where nobody told, of baskets that kept so much of each symbol: as uneven as any, but
        that nothing is held by more than everybody.
        """
        seen = float(np.clip(kept.sum(), 0, 0.98 * cap))
        starts = _starts(cap, most)
        every = np.array([_tail(sd, seen, cap, most, starts) for sd in UNTOLD.tolist()])
        each, held = every[:, 0], every[:, 1]  # (laws, tiers)
        largest = seen / max(float(kept.max()), NOTHING_KEPT)  # the mean size at most
        lost = (held - cap * each).sum(axis=1)
        weights = 1 / (1 + UNTOLD**2)
        weights /= weights.sum()
        sizes = weights @ held / np.maximum(weights @ each, NOTHING_KEPT)
        each *= np.minimum(1.0, max(largest - seen, 0.0) / np.maximum(lost, NOTHING_KEPT))[:, None]
        covariance = np.cov(each.T, aweights=weights, bias=True).reshape(len(starts), -1)
        variance = covariance.diagonal()
        return cls(starts, most, cap, weights @ each, covariance, sizes, 0.0, variance)

    def left(
        self, seen: float, noise: float, implied: int | NDArray[np.integer] = 1
    ) -> tuple[Floats, Floats]:  # as many as are implied
        """What a cap left of itemsets whose holders hold so many symbols at least, by the mean that
        baskets kept, which was seen with this variance: E[kept]/E[held]; and its standard error as
        a part of it.

        Baskets of C symbols hold c given ones in proportion to C(C−1)…(C−c+1), whose mean is μ^c
        for small baskets, of Poisson's law, and 0 where c is above the cap. So of a single symbol
        E[min(C, m)]/E[C] is left, whatever hangs together with what. A tier's baskets may all be of
        one size, anywhere in it, which adds to the error.
        """
        c = np.atleast_1d(implied)[:, None]
        large, keeps, parts = float(self.shares.sum()), self.keeps, self.keeps / self.sizes
        if seen**2 < noise:  # lost in noise: large baskets alone kept so much
            seen = max(seen, large * keeps)
        rest = max(1 - large, NOTHING_KEPT)
        mean = max(seen - keeps * large, NOTHING_KEPT) / rest
        logs = _log_falling(self.sizes, c)  # (implied, tiers)
        level = np.maximum(logs.max(axis=1, keepdims=True), (c - 1) * math.log(mean))
        weights = np.exp(logs - level)
        some = np.where(c < self.starts[0], np.exp((c - 1) * math.log(mean) - level), 0.0)
        small = (some * rest * mean)[:, 0]
        holders = small + weights @ self.shares
        left = (small + weights @ (self.shares * parts)) / holders
        fewer = some * (mean + c * (keeps - mean))  # small baskets where a tier has more
        slopes = weights * (parts - left[:, None]) - (1 - left[:, None]) * fewer
        doubt = np.einsum("ij,jk,ik->i", slopes, self.covariance, slopes)
        doubt += noise * ((1 - left) * (some * c)[:, 0]) ** 2
        wider = weights / self.sizes * ((c - 1) * parts - left[:, None] * c)
        systematic = np.sqrt(((wider * self.shares * self._widths) ** 2).sum(axis=1))
        scale = left * holders
        error = np.minimum(np.sqrt(np.maximum(doubt, 0.0)) / scale, 1.0)
        return left, np.hypot(error, systematic / scale)

    @property
    def supposed(self) -> bool:
        """Whether no symbol told the tiers: then they are off alike in all rounds."""
        return self.keeps == self.starts[0] - 1

    @property
    def _widths(self) -> Floats:  # (tiers,)
        """The standard deviation of a size that may be any of a tier's; none where it has one."""
        end = min(round(WIDER * self.starts[-1]), self.most + 1)
        many = np.diff([*self.starts, max(end, self.starts[-1] + 1)])
        widths = np.sqrt((many**2 - 1) / 12)
        widths[-1] = math.hypot(widths[-1], self.spread)
        return np.asarray(widths)

    def log_sd(self, seen: float) -> float:
        """The standard deviation of the logarithm of mean sizes, were C of Poisson's law about a
        log-normal mean: E[C(C−1)] = E[C]²·exp(sd²). Baskets below the cap are of Poisson's law.
        """
        large = float(self.shares.sum())
        rest = max(1 - large, NOTHING_KEPT)
        mean = max(seen - self.keeps * large, NOTHING_KEPT) / rest
        whole = rest * mean + float(self.shares @ self.sizes)
        square = rest * mean**2 + float(self.shares @ (self.sizes * (self.sizes - 1)))
        return math.sqrt(max(math.log(square / whole**2), 0.0))

    def heterogeneity(self, left: Floats, seen: float) -> Floats:
        """How far single items differ in what a cap left of them, as a part of that: a part of what
        it took; and of what only large baskets hold it left less, which counts as they hold more.
        """
        differ = HETEROGENEITY * (1 - left)
        if self.supposed:
            return np.asarray(differ)
        held = float(self.shares @ self.sizes)
        of_large = self.keeps * float(self.shares.sum()) / max(held, NOTHING_KEPT)
        part = held * left / max(seen, NOTHING_KEPT)  # of all that is held
        alone = np.maximum(left / max(of_large, NOTHING_KEPT) - 1, 0.0)
        return np.hypot(differ, np.minimum(part, 1.0) ** 2 * alone)

    def told_alone(self, seen: float) -> float:
        """The standard error of what a cap left out by what was told alone, no curve supposed, as a
        part of all that baskets hold.
        """
        beyond = self.sizes - self.keeps
        lost = float(self.shares @ beyond)
        return math.sqrt(float(beyond**2 @ self.noise)) / (max(seen, NOTHING_KEPT) + lost)

    @property
    def large(self) -> float:
        """The share of baskets above the cap, at most: two errors above what it seems to be."""
        return float(self.shares.sum() + 2 * math.sqrt(max(float(self.covariance.sum()), 0.0)))


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


def _log_falling(sizes: Floats, c: NDArray[np.integer]) -> Floats:  # (implied, sizes)
    """The logarithm of C(C−1)…(C−c+1), −∞ where fewer than c are held."""
    from scipy.special import gammaln

    fits = sizes > c - 1
    return np.where(fits, gammaln(sizes + 1) - gammaln(np.where(fits, sizes - c, 0) + 1), -np.inf)


def _tail(
    log_sd: float, seen: float, cap: int, most: int, starts: Sequence[int]
) -> tuple[Floats, Floats]:  # (tiers,), (tiers,)
    """The shares of tiers, and what they hold, where each of so many symbols is held with log odds
    that are normal from basket to basket with this standard deviation, and E[min(C, m)] is what was
    seen: their median found by halving.
    """
    from scipy.special import betainc, expit  # P(C ≥ k) = I(k, most − k + 1; p)

    places = np.linspace(-4, 4, 33)  # of a normal law
    weights = np.exp(-(places**2) / 2)
    weights /= weights.sum()
    upto, above = np.arange(1, cap + 1), np.array(starts)
    low, high = -30.0, 10.0  # of the median log odds
    for _ in range(50):
        middle = (low + high) / 2
        chances = expit(middle + log_sd * places)[:, None]
        kept = float(weights @ betainc(upto, most - upto + 1, chances).sum(axis=1))
        low, high = (middle, high) if kept < seen else (low, middle)
    share = weights @ betainc(above, most - above + 1, chances)
    held = weights @ (most * chances * betainc(above - 1, most - above + 1, chances))
    return share - np.append(share[1:], 0.0), held - np.append(held[1:], 0.0)
