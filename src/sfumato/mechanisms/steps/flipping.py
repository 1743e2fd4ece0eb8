"""Bits flipped 64 rows at a time: what `Flip`, `CutStep` and `UnaryStep` draw for many records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import WORD_BITS, Bits
from sfumato.mechanisms.steps.step import Rows
from sfumato.randomness import Keystream

SCALE = 1 << 16  # bit flips are decided by 16-bit words
PLANES = 16  # random bits compared for one report bit
# Words at a time: 16 planes of them stay in the second-level cache, and NumPy's calls cost little.
CHUNK = 1 << 12


def flip_bits(bits: Bits, keeps: Rows, rng: Keystream) -> Bits:
    """The baskets with every bit kept with its item's probability, `keeps[item]` = (of a one, of a
    zero) in 65,536ths, else flipped.

    A 16-bit uniform number is compared with its threshold on 64 rows at once, plane by plane: from
    the threshold's lowest set bit up, "below" becomes below OR plane where the threshold has a one
    and below AND plane where it has a zero. Ones and zeros share the planes, as a bit is only one
    of them.
    """
    flips = SCALE - np.array(keeps, dtype=np.int64)
    words = np.empty_like(bits.words)
    buffer = np.empty((PLANES + 2) * CHUNK, dtype=np.uint64)
    source, target, width = bits.words.reshape(-1), words.reshape(-1), bits.words.shape[1]
    for first, last, ones, zeros in _runs(flips):
        for start in range(first * width, last * width, CHUNK):
            part = slice(start, min(start + CHUNK, last * width))
            _flip_words(source[part], target[part], (ones, zeros), buffer, rng)
    if bits.rows % WORD_BITS:
        words[:, -1] &= np.uint64((1 << bits.rows % WORD_BITS) - 1)
    return Bits(words, bits.rows)


def _runs(flips: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    """Neighbouring items with the same thresholds, whose words lie side by side: first, last + 1,
    of ones, of zeros.
    """
    starts = np.flatnonzero(np.any(flips != np.roll(flips, 1, axis=0), axis=1)).tolist()
    starts = [0, *(start for start in starts if start)]
    for first, last in zip(starts, [*starts[1:], len(flips)], strict=True):
        yield first, last, int(flips[first, 0]), int(flips[first, 1])


def _flip_words(
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    flips: tuple[int, int],
    buffer: NDArray[np.uint64],
    rng: Keystream,
) -> None:
    count, lowest = len(source), min(map(_lowest_bit, flips))
    planes = buffer[: (PLANES - lowest) * count].reshape(-1, count)
    rng.fill(planes)
    flipped = buffer[PLANES * CHUNK :][:count]
    _below(planes, flips[1], lowest, flipped)
    if flips[0] != flips[1]:
        of_ones = buffer[(PLANES + 1) * CHUNK :][:count]
        _below(planes, flips[0], lowest, of_ones)
        of_ones ^= flipped
        of_ones &= source
        flipped ^= of_ones
    np.bitwise_xor(source, flipped, out=target)


def _below(
    planes: NDArray[np.uint64], threshold: int, lowest: int, out: NDArray[np.uint64]
) -> None:
    """Bits that are 1 with probability threshold / 65,536; planes[0] decides the bit `lowest` of
    the threshold.
    """
    if threshold in (0, SCALE):
        out.fill(np.uint64(0) if threshold == 0 else ~np.uint64(0))
        return
    first = _lowest_bit(threshold)
    result = planes[first - lowest]  # not written to: the other threshold may need the plane
    for bit in range(first + 1, PLANES):
        step = np.bitwise_or if threshold >> bit & 1 else np.bitwise_and
        result = step(result, planes[bit - lowest], out=out)
    if first == PLANES - 1:
        np.copyto(out, result)


def _lowest_bit(threshold: int) -> int:
    """The place of the lowest set bit; a certain event needs no plane at all."""
    return PLANES if threshold in (0, SCALE) else (threshold & -threshold).bit_length() - 1
