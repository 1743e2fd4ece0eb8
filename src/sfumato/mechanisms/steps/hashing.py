"""The public hash of items into buckets: a polynomial over GF(2^31 - 1) whose coefficients a pool
entry names; it carries no privacy.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PRIME = (1 << 31) - 1
WORD = (1 << 32) - 1


def murmur3(text: bytes) -> int:
    """MurmurHash3 (x86, 32 bits, seed 0) of a text, as published by Appleby.

    >>> hex(murmur3(b"")), hex(murmur3(b"test")), hex(murmur3(b"Hello, world!"))
    ('0x0', '0xba6bd213', '0xc0363e43')
    """
    state = 0
    padded = text + bytes(-len(text) % 4)
    for start in range(0, len(padded), 4):
        block = int.from_bytes(padded[start : start + 4], "little")
        block = _rotated(block * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD
        state ^= block
        if start + 4 <= len(text):
            state = (_rotated(state, 13) * 5 + 0xE6546B64) & WORD
    state ^= len(text)
    state = (state ^ state >> 16) * 0x85EBCA6B & WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & WORD
    return state ^ state >> 16


@lru_cache(maxsize=4096)
def coefficients(pool: str, seed: int, count: int) -> tuple[int, ...]:
    """The coefficients, lowest first, of one entry of a pool: the hash of "pool/seed/place" modulo
    2^31 - 1.
    """
    return tuple(murmur3(f"{pool}/{seed}/{place}".encode()) % PRIME for place in range(count))


@lru_cache(maxsize=8)
def pool_of(pool: str, seeds: int, count: int) -> NDArray[np.int64]:  # (seeds, count)
    """The coefficients of every hash of a pool."""
    return np.array([coefficients(pool, seed, count) for seed in range(seeds)], dtype=np.int64)


def buckets_of(pool: str, seed: int, items: Iterable[int], count: int, buckets: int) -> list[int]:
    """The bucket of each item: the polynomial with `count` coefficients at the item's number,
    modulo the buckets.
    """
    polynomial = coefficients(pool, seed, count)
    found = []
    for item in items:
        value = 0
        for coefficient in reversed(polynomial):
            value = (value * item + coefficient) % PRIME
        found.append(value % buckets)
    return found


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & WORD
