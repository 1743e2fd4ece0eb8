"""Shuffling: how much better hidden a report is for those who see all reports without their order.

Whoever reads an export or a dashboard, and not the operator who saw the reports come, must find one
among many. The others act as clones of it (Feldman, McMillan and Talwar 2021, "Hiding among the
clones", theorem 3.1): with probability e^-ε0 a report is drawn as if from one of the two truths
that are to be told apart, by a fair coin.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.privacy.guarantee import Guarantee

DELTA = 1e-6
BUCKETS = 256  # of the number of clones; each counts as its smallest, so the bound only grows
REACH = 9.0  # standard deviations of the number of clones; what lies beyond counts in full
ACCURACY = 1e-4  # of the epsilon that is searched for, which is rounded up


def shuffled_epsilon(guarantee: Guarantee, reports: int, delta: float = DELTA) -> float:
    """An epsilon that holds, but for a chance of delta, against those who see all reports in random
    order; never above the guarantee's own, and rounded up.

    >>> round(shuffled_epsilon(Guarantee(19), 10_000), 2)
    0.31
    """
    if reports < 1:
        raise ParameterError(f"{reports} reports hide nobody; there must be at least one")
    if not 0 < delta < 1:
        raise ParameterError(f"delta={delta} must lie strictly between 0 and 1")
    local = guarantee.epsilon
    if reports == 1 or not math.isfinite(local):
        return local
    return _searched(local, _rounded_down(reports), delta)


def _rounded_down(reports: int) -> int:
    """The number with three digits, then zeros: fewer reports hide less, and few numbers are asked
    about more than once.
    """
    unit = 10 ** max(0, len(str(reports)) - 3)
    return reports // unit * unit


@lru_cache(maxsize=256)
def _searched(local: float, reports: int, delta: float) -> float:
    low, high = 0.0, local
    while high - low > ACCURACY * max(high, ACCURACY):
        middle = (low + high) / 2
        low, high = (low, middle) if _delta(local, reports, middle) <= delta else (middle, high)
    return min(local, math.ceil(high * 1e4) / 1e4)


def _delta(local: float, reports: int, epsilon: float) -> float:
    """The chance that must be conceded for epsilon: the hockey-stick divergence of (A + Δ, C - A +
    1 - Δ) from (A + 1 - Δ, C - A + Δ), with C ~ Bin(n-1, e^-ε0) clones, A ~ Bin(C, ½) of them on
    one side, and Δ ~ Bernoulli(e^ε0 / (e^ε0 + 1)).
    """
    from scipy.stats import binom

    chance = math.exp(-local)
    number = reports - 1
    mean, spread = number * chance, math.sqrt(number * chance * (1 - chance))
    least = max(0, math.floor(mean - REACH * spread - 1))
    most = min(number, math.ceil(mean + REACH * spread + 1))
    edges = np.unique(np.linspace(least, most + 1, BUCKETS + 1).astype(np.int64))
    within = np.diff(binom.cdf(edges - 1, number, chance))
    outside = float(binom.cdf(least - 1, number, chance) + binom.sf(most, number, chance))
    return float(within @ _divergence(edges[:-1], local, epsilon)) + outside


def _divergence(clones: NDArray[np.int64], local: float, epsilon: float) -> NDArray[np.float64]:
    """The divergence given each number of clones; the likelihood ratio grows with A, so it is a
    difference of two tails.
    """
    from scipy.stats import binom

    own = 1 / (1 + math.exp(-local))
    bound = math.exp(epsilon)
    if own <= (1 - own) * bound:
        return np.zeros(len(clones))
    odds = (own * bound - (1 - own)) / (own - (1 - own) * bound)
    first = np.ceil((clones + 1) * odds / (1 + odds))  # the ratio exceeds the bound from here on
    above, from_here = (binom.sf(first - shift, clones, 0.5) for shift in (2, 1))
    ours = own * above + (1 - own) * from_here
    theirs = (1 - own) * above + own * from_here
    return np.maximum(ours - bound * theirs, 0.0)
