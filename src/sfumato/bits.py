"""A packed 0/1 matrix: which basket holds which item, 64 baskets to a machine word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError

__all__ = ["WORD_BITS", "Bits"]

WORD_BITS = 64
# Rows unpacked at once: a row number inside a block fits 16 bits, which NumPy sorts by radix.
_BLOCK_ROWS = 16_384
# Words packed at once: few enough to stay in the cache, since their order of writing is random.
_PACKED_BYTES = 1 << 19
_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class Bits:
    """A 0/1 matrix of `rows` baskets by `items`, packed by item.

    `words[i]` holds the column of item i, 64 rows a word: row r is bit r % 64 of word r // 64. The
    unused high bits of the last word are 0. What was made of lists of items keeps them, and is
    packed when its words are first asked for.

    >>> bits = Bits.from_dense(np.array([[True, False], [True, True]]))
    >>> bits.rows, bits.items, bits.counts().tolist()
    (2, 2, [2, 1])
    """

    rows: int
    items: int  # that is of columns
    _words: NDArray[np.uint64] | None  # (items, ceil(rows / 64))
    _lists: tuple[NDArray[np.int64], NDArray[np.int32]] | None
    _counts: NDArray[np.int64] | None = None  # kept when first asked for

    def __init__(self, words: NDArray[np.uint64], rows: int) -> None:
        words = np.ascontiguousarray(words, dtype=np.uint64)
        if rows < 0 or words.ndim != 2 or words.shape[1] != _words_for(rows):
            raise DataError(
                f"words of shape {words.shape} do not hold {rows} rows; use (items, "
                f"{_words_for(rows)})"
            )
        if rows % WORD_BITS and words.size and np.any(words[:, -1] >> np.uint64(rows % WORD_BITS)):
            raise DataError(
                f"bits beyond row {rows} are set; clear the unused high bits of the last word"
            )
        self.rows, self.items, self._words, self._lists = rows, int(words.shape[0]), words, None

    @property
    def words(self) -> NDArray[np.uint64]:  # (items, ceil(rows / 64))
        """The column of each item."""
        if self._words is None:
            assert self._lists is not None
            self._words = _words_of(*self._lists, self.items)
        return self._words

    @property
    def width(self) -> int:
        """How many words a column has, packed or not yet."""
        return _words_for(self.rows)

    @property
    def in_lists(self) -> bool:
        """Whether it was made of lists of items, which it still has."""
        return self._lists is not None

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, items), as of the dense matrix."""
        return self.rows, self.items

    @property
    def nbytes(self) -> int:
        """The bytes of its words."""
        return self.words.nbytes

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: slice) -> Bits:
        """The baskets of a slice of the rows, as an array of codes gives them."""
        start, stop, step = rows.indices(self.rows)
        if step != 1:
            raise DataError(f"baskets are sliced row by row; found a step of {step}")
        return self.slice(start, stop)

    @classmethod
    def zeros(cls, rows: int, items: int) -> Bits:
        """A matrix of `rows` empty baskets."""
        return cls(np.zeros((items, _words_for(rows)), dtype=np.uint64), rows)

    @classmethod
    def from_csr(
        cls, offsets: NDArray[np.integer], items: NDArray[np.integer], universe_size: int
    ) -> Bits:
        """The matrix whose row r holds `items[offsets[r]:offsets[r + 1]]`, in any order; repeats
        count once.
        """
        offsets, items = np.asarray(offsets), np.asarray(items)
        _check_csr(offsets, items, universe_size)
        if not _ascending(offsets, items):
            return cls(_words_of(offsets, items, universe_size), len(offsets) - 1)
        made = cls.__new__(cls)
        made.rows, made.items, made._words = len(offsets) - 1, int(universe_size), None
        made._lists = offsets.astype(np.int64), items.astype(np.int32)
        for array in made._lists:  # handed out as they are
            array.setflags(write=False)
        return made

    def to_csr(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Offsets (rows + 1) and the items of every row, rows in order and items ascending within a
        row.
        """
        if self._lists is not None:
            return self._lists
        sizes = np.zeros(self.rows + 1, dtype=np.int64)
        parts = []
        for start, block in self._blocks():
            row, item = _coordinates(block)
            sizes[start + 1 : start + 1 + _BLOCK_ROWS] = np.bincount(
                row, minlength=min(_BLOCK_ROWS, self.rows - start)
            )
            parts.append(item[np.argsort(row, kind="stable")])
        return np.cumsum(sizes), np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)

    @classmethod
    def from_dense(cls, dense: NDArray[np.bool_]) -> Bits:
        """The packed form of a matrix of truth values."""  # (rows, items)
        dense = np.asarray(dense, dtype=bool)
        rows, items = dense.shape
        octets = np.zeros((_words_for(rows) * 8, items), dtype=np.uint8)
        octets[: (rows + 7) // 8] = np.packbits(dense, axis=0, bitorder="little")
        return cls(np.ascontiguousarray(octets.T).view(np.uint64), rows)

    def to_dense(self) -> NDArray[np.bool_]:
        """The matrix of truth values, one byte a cell."""  # (rows, items)
        return np.ascontiguousarray(self._unpacked().T)

    def counts(self) -> NDArray[np.int64]:
        """How many baskets hold each item."""
        if self._counts is None:
            self._counts = self._counted()
            self._counts.setflags(write=False)  # handed out as it is
        return self._counts

    def _counted(self) -> NDArray[np.int64]:
        if self._lists is not None:
            return np.bincount(self._lists[1], minlength=self.items)
        counts: NDArray[np.int64] = np.bitwise_count(self.words).sum(axis=1, dtype=np.int64)
        return counts

    def sizes(self) -> NDArray[np.int64]:
        """How many items each basket holds."""
        sizes = np.zeros(self.rows, dtype=np.int64)
        for start, block in self._blocks():
            row, _ = _coordinates(block)
            sizes[start : start + _BLOCK_ROWS] = np.bincount(
                row, minlength=min(_BLOCK_ROWS, self.rows - start)
            )
        return sizes

    def column(self, item: int) -> NDArray[np.bool_]:
        """Which baskets hold one item."""
        return np.unpackbits(
            self.words[item].view(np.uint8), count=self.rows, bitorder="little"
        ).view(bool)

    def select(self, items: Sequence[int] | NDArray[np.integer]) -> Bits:
        """The same baskets with only these items, in this order."""
        return Bits(self.words[np.asarray(items, dtype=np.int64)], self.rows)

    def slice(self, start: int, stop: int) -> Bits:
        """The baskets start..stop-1; a copy, cheapest where `start` is a multiple of 64."""
        start, stop, _ = slice(start, stop).indices(self.rows)
        rows = max(stop - start, 0)
        words = _shifted_down(self.words[:, start // WORD_BITS :], start % WORD_BITS)[
            :, : _words_for(rows)
        ]
        return Bits(_masked(words, rows), rows)

    def repeat(self, times: int) -> Bits:
        """Every basket `times` times, one after the other."""
        return self.take(np.repeat(np.arange(self.rows), times))

    def take(self, rows: NDArray[np.integer]) -> Bits:
        """The baskets with these row numbers, in this order, repeats allowed."""
        rows = np.asarray(rows, dtype=np.int64)
        if self._lists is not None:
            offsets, items = self._lists
            sizes = np.diff(offsets)[rows]
            ends = np.concatenate([[0], np.cumsum(sizes)])
            places = np.repeat(offsets[rows] - ends[:-1], sizes) + np.arange(ends[-1])
            return Bits.from_csr(ends, items[places], self.items)
        words = np.zeros((self.items, _words_for(len(rows))), dtype=np.uint64)
        for item in range(self.items):
            packed = np.packbits(self.column(item)[rows], bitorder="little")
            words[item].view(np.uint8)[: len(packed)] = packed
        return Bits(words, len(rows))

    @classmethod
    def concatenate(cls, parts: Sequence[Bits]) -> Bits:
        """All baskets of the parts, one part after the other."""
        if not parts or len({part.items for part in parts}) != 1:
            raise DataError(
                f"parts to join must have the same items; found {[part.items for part in parts]} "
                "items"
            )
        if len(parts) == 1:
            return parts[0]
        rows = sum(part.rows for part in parts)
        words = np.zeros((parts[0].items, _words_for(rows)), dtype=np.uint64)
        start = 0
        for part in parts:
            _write_at(words, part.words, start)
            start += part.rows
        return cls(words, rows)

    @classmethod
    def stack(cls, parts: Sequence[Bits]) -> Bits:
        """The items of all parts side by side, for the same baskets."""
        if not parts or len({part.rows for part in parts}) != 1:
            raise DataError(
                "parts to stack must have the same baskets; found "
                f"{[part.rows for part in parts]} rows"
            )
        # Packed columns are big: one part is handed on as it is.
        return (
            parts[0]
            if len(parts) == 1
            else cls(np.concatenate([part.words for part in parts]), parts[0].rows)
        )

    def equals(self, other: Bits) -> bool:
        """Whether both hold the same matrix."""
        return self.rows == other.rows and np.array_equal(self.words, other.words)

    def _unpacked(self) -> NDArray[np.bool_]:  # (items, rows)
        octets = self.words.view(np.uint8).reshape(self.items, -1)
        return np.unpackbits(octets, axis=1, count=self.rows, bitorder="little").view(bool)

    def _blocks(self) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """First row and words of each block of rows."""
        for start in range(0, self.rows, _BLOCK_ROWS):
            first = start // WORD_BITS
            yield start, self.words[:, first : first + _BLOCK_ROWS // WORD_BITS]


def _words_for(rows: int) -> int:
    return -(-rows // WORD_BITS)


def _check_csr(
    offsets: NDArray[np.integer], items: NDArray[np.integer], universe_size: int
) -> None:
    if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(items):
        raise DataError(
            f"offsets must run from 0 to the number of items, {len(items)}, with one entry more "
            "than rows"
        )
    if np.any(np.diff(offsets) < 0):
        raise DataError("offsets must not decrease; each row ends where the next begins")
    if len(items) and (items.min() < 0 or items.max() >= universe_size):
        raise DataError(
            f"item numbers must lie in 0..{universe_size - 1}; found {items.min()}..{items.max()}"
        )


def _ascending(offsets: NDArray[np.integer], items: NDArray[np.integer]) -> bool:
    """Whether the items of every row ascend, so that none is there twice."""
    falls = np.flatnonzero(items[1:] <= items[:-1]) + 1
    return bool(np.isin(falls, offsets, assume_unique=False).all()) if len(falls) else True


def _words_of(
    offsets: NDArray[np.integer], items: NDArray[np.integer], universe_size: int
) -> NDArray[np.uint64]:
    """The words of lists of items, packed block by block."""
    rows = len(offsets) - 1
    words = np.empty((universe_size, _words_for(rows)), dtype=np.uint64)
    step = max(8, _PACKED_BYTES // (8 * max(universe_size, 1)))
    for first in range(0, words.shape[1], step):
        part = words[:, first : first + step]
        ends = offsets[first * WORD_BITS : min((first + step) * WORD_BITS, rows) + 1]
        part[:] = _packed(ends - ends[0], items[ends[0] : ends[-1]], part.shape)
    return words


def _packed(
    offsets: NDArray[np.integer], items: NDArray[np.integer], shape: tuple[int, ...]
) -> NDArray[np.uint64]:
    """The words of a block of rows."""
    row = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
    position = items.astype(np.int64) * shape[1] + (row >> 6)
    words = np.zeros(shape, dtype=np.uint64)
    np.bitwise_or.at(words.reshape(-1), position, np.uint64(1) << (row & 63).view(np.uint64))
    return words


def _coordinates(block: NDArray[np.uint64]) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    """Row and item of every set bit of a block, items ascending; empty words are skipped first."""
    item, word = np.nonzero(block)
    octets = block[item, word].view(np.uint8).reshape(-1, 8)
    entry, bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    return (word[entry] * WORD_BITS + bit).astype(np.uint16), item[entry].astype(np.int32)


def _shifted_down(words: NDArray[np.uint64], shift: int) -> NDArray[np.uint64]:
    """The words with the first `shift` rows dropped."""
    if shift == 0:
        return words.copy()
    shifted = words >> np.uint64(shift)
    shifted[:, :-1] |= words[:, 1:] << np.uint64(WORD_BITS - shift)
    return shifted


def _masked(words: NDArray[np.uint64], rows: int) -> NDArray[np.uint64]:
    """The words with every bit from `rows` on cleared; changes its argument."""
    if rows % WORD_BITS and words.size:
        words[:, -1] &= _ONES >> np.uint64(WORD_BITS - rows % WORD_BITS)
    return words


def _write_at(words: NDArray[np.uint64], part: NDArray[np.uint64], start: int) -> None:
    """Put a part's rows at row `start` of `words`, whose bits from there on are 0."""
    first, shift = divmod(start, WORD_BITS)
    width = part.shape[1]
    words[:, first : first + width] |= part << np.uint64(shift)
    if shift:
        spilled = words[:, first + 1 : first + 1 + width]
        spilled |= (part >> np.uint64(WORD_BITS - shift))[:, : spilled.shape[1]]
