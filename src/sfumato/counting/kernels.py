"""Compiled loops over packed columns; only `sfumato.counting.bitmaps` calls them, and only for work
worth loading numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["count_itemsets", "count_pairs_by_row", "count_sizes"]

# Words of every column handled before the next: 512 words (4 KB) of a few hundred columns stay in
# the second cache.
_BLOCK_WORDS = 512
# Words of a column whose rows are listed together: one cache line.
_LINE_WORDS = 8


@intrinsic
def _ones(typing_context: Any, word: Any) -> Any:
    """The number of set bits of a word, as one instruction the compiler can vectorise."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@njit(cache=True, nogil=True)
def count_itemsets(
    words: NDArray[np.uint64],
    itemsets: NDArray[np.int32],
    shared: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> None:
    """Add to `counts` the rows that hold each itemset; `shared[r]` items of itemset r stand at the
    head of r - 1 too.

    The intersection of all items but the last is kept between neighbours, and four neighbours that
    differ only in the last item are counted in one pass over it.
    """
    number, length = itemsets.shape
    heads = np.empty((length - 1, _BLOCK_WORDS), dtype=np.uint64)
    for start in range(0, words.shape[1], _BLOCK_WORDS):
        stop = min(start + _BLOCK_WORDS, words.shape[1])
        width = stop - start
        row = 0
        while row < number:
            _intersect_head(
                words, itemsets[row], 0 if row == 0 else shared[row], start, width, heads
            )
            head = heads[length - 2]
            following = row + 1
            while following < number and shared[following] >= length - 1:
                following += 1
            while row + 4 <= following:
                _count_four(
                    head,
                    words,
                    itemsets[row : row + 4, length - 1],
                    start,
                    width,
                    counts[row : row + 4],
                )
                row += 4
            while row < following:
                counts[row] += _count_one(head, words[itemsets[row, length - 1], start:stop], width)
                row += 1


@njit(cache=True, nogil=True, inline="never")
def _intersect_head(
    words: NDArray[np.uint64],
    itemset: NDArray[np.int32],
    shared: int,
    start: int,
    width: int,
    heads: NDArray[np.uint64],
) -> None:
    for depth in range(min(shared, len(itemset) - 2), len(itemset) - 1):
        column = words[itemset[depth], start : start + width]
        target = heads[depth]
        if depth == 0:
            for word in range(width):
                target[word] = column[word]
        else:
            above = heads[depth - 1]
            for word in range(width):
                target[word] = above[word] & column[word]


@njit(cache=True, nogil=True, inline="never")
def _count_one(head: NDArray[np.uint64], column: NDArray[np.uint64], width: int) -> np.int64:
    total = uint64(0)
    for word in range(width):
        total += _ones(head[word] & column[word])
    return np.int64(total)


@njit(cache=True, nogil=True, inline="never")
def _count_four(
    head: NDArray[np.uint64],
    words: NDArray[np.uint64],
    lasts: NDArray[np.int32],
    start: int,
    width: int,
    counts: NDArray[np.int64],
) -> None:
    stop = start + width
    first, second = words[lasts[0], start:stop], words[lasts[1], start:stop]
    third, fourth = words[lasts[2], start:stop], words[lasts[3], start:stop]
    one, two, three, four = uint64(0), uint64(0), uint64(0), uint64(0)
    for word in range(width):
        common = head[word]
        one += _ones(common & first[word])
        two += _ones(common & second[word])
        three += _ones(common & third[word])
        four += _ones(common & fourth[word])
    counts[0] += np.int64(one)
    counts[1] += np.int64(two)
    counts[2] += np.int64(three)
    counts[3] += np.int64(four)


@njit(cache=True, nogil=True, inline="never")
def _list_rows(
    words: NDArray[np.uint64],
    items: NDArray[np.int32],
    start: int,
    stop: int,
    sizes: NDArray[np.int32],
    members: NDArray[np.int32],
) -> None:
    """Write the positions in `items` that each row of the words start..stop-1 holds."""
    sizes[:] = 0
    for position in range(len(items)):
        column = words[items[position]]
        for word in range(start, stop):
            rest = column[word]
            while rest:
                lowest = rest & (~rest + uint64(1))
                row = (word - start) * 64 + np.int64(_ones(lowest - uint64(1)))
                members[row, sizes[row]] = position
                sizes[row] += 1
                rest ^= lowest


@njit(cache=True, nogil=True)
def count_pairs_by_row(
    words: NDArray[np.uint64], items: NDArray[np.int32], counts: NDArray[np.int32]
) -> None:
    """Add to `counts[a, b]`, a < b positions in `items`, the rows that hold both, walking over the
    pairs of each row.
    """
    sizes = np.zeros(_LINE_WORDS * 64, dtype=np.int32)
    members = np.empty((_LINE_WORDS * 64, len(items)), dtype=np.int32)
    for start in range(0, words.shape[1], _LINE_WORDS):
        _list_rows(words, items, start, min(start + _LINE_WORDS, words.shape[1]), sizes, members)
        for row in range(len(sizes)):
            for first in range(sizes[row] - 1):
                line = counts[members[row, first]]
                for second in range(first + 1, sizes[row]):
                    line[members[row, second]] += 1


@njit(cache=True, nogil=True)
def count_sizes(
    words: NDArray[np.uint64], items: NDArray[np.int32], sizes: NDArray[np.int32]
) -> None:
    """Add to `sizes[r]` how many of the items row r holds; `sizes` covers whole words."""
    for position in range(len(items)):
        column = words[items[position]]
        for word in range(len(column)):
            rest = column[word]
            while rest:
                lowest = rest & (~rest + uint64(1))
                sizes[word * 64 + np.int64(_ones(lowest - uint64(1)))] += 1
                rest ^= lowest
