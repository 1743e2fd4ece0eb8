"""Compiled loops over a pool of hashes; only `item_set` calls them, and only for work worth loading
numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

_PRIME = np.uint64((1 << 31) - 1)
_SHIFT = np.uint64(31)
_DUE = 3  # products that are added before they are reduced
_BLOCK = 256  # items whose powers stay near the processor


@njit(cache=True, nogil=True, inline="always")
def _reduced(value: np.uint64) -> np.uint64:
    """The number modulo 2^31 - 1: its high bits are added to its low ones, which leaves 34 of 64
    bits, and then 32.
    """
    value = (value & _PRIME) + (value >> _SHIFT)
    value = (value & _PRIME) + (value >> _SHIFT)
    return value - _PRIME if value >= _PRIME else value


@njit(cache=True, nogil=True)
def sum_hits(
    counts: NDArray[Any], polynomials: NDArray[Any], buckets: int, hits: NDArray[Any]
) -> None:
    """Add to hits[item] the reports that fell into the item's bucket, hash by hash."""
    seeds, length = polynomials.shape
    divisor, shift = np.uint64(buckets), _SHIFT
    while (np.uint64(1) << (shift - _SHIFT)) < divisor:
        shift += np.uint64(1)
    # Below 2^31, the high bits of a product with this are the quotient, exactly.
    inverse = ((np.uint64(1) << shift) - np.uint64(1)) // divisor + np.uint64(1)
    for first in range(0, len(hits), _BLOCK):
        powers = _powers(first, min(_BLOCK, len(hits) - first), length)
        for seed in range(seeds):
            for place in range(len(powers)):
                value = _valued(polynomials[seed], powers[place])
                bucket = value - (value * inverse >> shift) * divisor
                hits[first + place] += counts[seed, bucket]


@njit(cache=True, nogil=True)
def _powers(first: int, count: int, length: int) -> NDArray[Any]:  # (count, length)
    """The powers of so many items' numbers, reduced: the same for all hashes."""
    found = np.ones((count, length), dtype=np.uint64)
    for place in range(count):
        for power in range(1, length):
            found[place, power] = _reduced(found[place, power - 1] * np.uint64(first + place))
    return found


@njit(cache=True, nogil=True, inline="always")
def _valued(polynomial: NDArray[Any], powers: NDArray[Any]) -> np.uint64:
    """The polynomial at a number; products are below 2^62, so that three may be added at once."""
    value = np.uint64(0)
    for place in range(len(powers)):
        value += polynomial[place] * powers[place]
        if place % _DUE == _DUE - 1:
            value = _reduced(value)
    return _reduced(value)
