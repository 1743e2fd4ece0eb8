"""Sizes of baskets: what a cap leaves of all that baskets hold, were they just so uneven.

A report tells at most so many symbols of a basket, so nothing in it says how large the large
baskets are. Their sizes C are therefore supposed: a Poisson law about a mean that is log-normal
from basket to basket, from even baskets to a few very large ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The standard deviation of the logarithm of the mean size, and what is usual: on seven real files
# it was 0 on two, .2, .65, 1 on two, and 1.4.
UNEVEN = (0.0, 0.3, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7)
EVEN = (-0.6, -0.3)  # what stands for baskets that are all alike, and for ones nearly so
USUAL = 0.7
OPEN = 0.5  # how far from the usual that of any baskets may well be
# How far single items differ in what a cap takes, as a part of that: on the same files .2 to .6
# where baskets are uneven, and nothing where all are alike.
UNLIKE = 0.4
LIKE = 0.9  # the unevenness from which on that is so
LEVELS = 33  # of the log-normal law
MOST_MEAN = 1e4


def unlikeness(unevenness: float) -> float:
    """How far items differ in what a cap takes, as a part of that, in baskets so uneven."""
    return UNLIKE * min(1.0, unevenness / LIKE)


def usual(unevenness: NDArray[Any]) -> NDArray[Any]:
    """The logarithm of how probable so uneven baskets are, before anything is known of them."""
    return np.asarray(-(((unevenness - USUAL) / OPEN) ** 2) / 2)


@lru_cache(maxsize=512)
def part_left(unevenness: float, seen: float, cap: int) -> float:
    """The part of all that baskets hold which a cap leaves, E[min(C, m)]/E[C], where the mean of
    min(C, m) is what was seen.

    >>> round(part_left(0.0, 6.0, 8), 3), round(part_left(0.9, 6.0, 8), 3)
    (0.932, 0.5)
    """
    if not 0 < seen < cap:
        return 1.0 if seen <= 0 else cap / MOST_MEAN
    mean = _mean_where(lambda size: _kept(unevenness, size, cap) < seen)
    return min(1.0, seen / mean)


def _mean_where(below: Callable[[float], bool]) -> float:
    """The mean size at which this stops to be so, by halving."""
    low, high = math.log(1e-9), math.log(MOST_MEAN)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if below(math.exp(middle)) else (low, middle)
    return math.exp(low)


def _kept(unevenness: float, mean: float, cap: int) -> float:
    """E[min(C, m)] = Σ P(C ≥ j) over j = 1…m."""
    from scipy.special import gammainc

    places, weights = _levels()
    means = mean * np.exp(unevenness * places)
    means *= mean / float(weights @ means)
    return float(weights @ gammainc(np.arange(1, cap + 1), means[:, None]).sum(axis=1))


@lru_cache(maxsize=1)
def _levels() -> tuple[NDArray[Any], NDArray[Any]]:
    """Places of a normal law, evenly apart, and their weights."""
    places = np.linspace(-4, 4, LEVELS)
    weights = np.exp(-(places**2) / 2)
    return places, weights / weights.sum()
