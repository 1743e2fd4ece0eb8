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


@njit(cache=True, nogil=True)
def sum_hits(
    counts: NDArray[Any], polynomials: NDArray[Any], buckets: int, hits: NDArray[Any]
) -> None:
    """Add to hits[item] the reports that fell into the item's bucket, hash by hash.

    A product below 2^62 is reduced modulo 2^31 - 1 by adding its high to its low bits.
    """
    seeds, length = polynomials.shape
    for item in range(len(hits)):
        number, total = np.uint64(item), 0.0
        for seed in range(seeds):
            value = np.uint64(0)
            for place in range(length - 1, -1, -1):
                value = value * number + polynomials[seed, place]
                value = (value & _PRIME) + (value >> _SHIFT)
                value = (value & _PRIME) + (value >> _SHIFT)
                if value >= _PRIME:
                    value -= _PRIME
            total += counts[seed, value % np.uint64(buckets)]
        hits[item] += total
