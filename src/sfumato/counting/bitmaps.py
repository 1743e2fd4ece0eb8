"""How many baskets hold each of many itemsets: packed columns, one intersection an itemset, shared
heads kept.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import WORD_BITS, Bits
from sfumato.errors import DataError

__all__ = ["itemset_counts", "pair_counts"]

_KERNELS = "sfumato.counting.kernels"
# Below this many word operations NumPy is done before numba, which needs about a second a process,
# is loaded.
_SMALL_WORK = 1 << 28
# Words that one NumPy step may hold.
_NUMPY_WORDS = 1 << 17
# Costs in units of one intersected word: listing a set bit, counting one pair of a row.
_LIST_COST, _PAIR_COST = 8, 6


def itemset_counts(bits: Bits, itemsets: NDArray[np.integer]) -> NDArray[np.int64]:
    """The number of baskets that hold all items of each itemset.

    `itemsets` is (n, k), the items of a row distinct. Where the rows are sorted, neighbours share
    the intersection of the items at their heads.

    >>> bits = Bits.from_dense(np.array([[True, True, False], [True, True, True]]))
    >>> itemset_counts(bits, np.array([[0, 1], [0, 2]])).tolist()
    [2, 1]
    """
    sets: NDArray[np.int32] = np.ascontiguousarray(itemsets, dtype=np.int32)
    number, length = sets.shape
    if sets.size and (sets.min() < 0 or sets.max() >= bits.items):
        raise DataError(
            f"item numbers must lie in 0..{bits.items - 1}; found {sets.min()}..{sets.max()}"
        )
    if number == 0 or length == 0:
        return np.full(number, bits.rows, dtype=np.int64)
    if length == 1:
        return bits.counts()[sets[:, 0]]
    if not _worth_compiling(number * bits.width):
        listed = _pairs_by_list(bits, sets) if length == 2 and bits.in_lists else None
        return _counts_by_numpy(bits, sets) if listed is None else listed
    if length == 2 and _rows_are_cheaper(bits, items := _occurring(bits, sets), number):
        matrix = np.zeros((len(items), len(items)), dtype=np.int32)
        _kernels().count_pairs_by_row(bits.words, items, matrix)
        first, second = np.sort(_places(bits, items)[sets], axis=1).T
        return matrix[first, second].astype(np.int64)
    same = np.cumprod(sets[1:] == sets[:-1], axis=1, dtype=np.int32)  # leading items in common
    shared = np.concatenate([np.zeros(1, dtype=np.int32), same.sum(axis=1, dtype=np.int32)])
    counts = np.zeros(number, dtype=np.int64)
    _kernels().count_itemsets(bits.words, sets, shared, counts)
    return counts


def pair_counts(bits: Bits, items: NDArray[np.integer]) -> NDArray[np.int64]:
    """The number of baskets that hold both items, for every two of `items`; the diagonal counts
    single items.

    >>> bits = Bits.from_dense(np.array([[True, True, False], [True, True, True]]))
    >>> pair_counts(bits, np.array([0, 2])).tolist()
    [[2, 1], [1, 1]]
    """
    items = np.asarray(items, dtype=np.int32)
    first, second = np.triu_indices(len(items), 1)
    matrix = np.diag(itemset_counts(bits, items[:, None]))
    matrix[first, second] = itemset_counts(bits, np.stack([items[first], items[second]], axis=1))
    matrix[second, first] = matrix[first, second]
    return matrix


def _counts_by_numpy(bits: Bits, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
    counts = np.empty(len(itemsets), dtype=np.int64)
    step = max(1, _NUMPY_WORDS // max(1, bits.words.shape[1]))
    for start in range(0, len(itemsets), step):
        part = itemsets[start : start + step]
        common = bits.words[part[:, 0]]
        for position in range(1, part.shape[1]):
            common &= bits.words[part[:, position]]
        counts[start : start + step] = np.bitwise_count(common).sum(axis=1, dtype=np.int64)
    return counts


def _rows_are_cheaper(bits: Bits, items: NDArray[np.int32], pairs: int) -> bool:
    """Whether walking over the pairs inside each basket beats intersecting columns: so for sparse
    baskets.
    """
    work = pairs * bits.width
    ones = int(bits.counts()[items].sum())
    if len(items) ** 2 * 4 > bits.words.nbytes + (1 << 26):
        return False
    if ones * _LIST_COST + ones * max(ones / max(bits.rows, 1) - 1, 0) / 2 * _PAIR_COST > work:
        return False
    sizes = np.zeros(bits.width * WORD_BITS, dtype=np.int32)
    _kernels().count_sizes(bits.words, items, sizes)
    within = int((sizes.astype(np.int64) * (sizes - 1)).sum()) // 2
    return bool(ones * _LIST_COST + within * _PAIR_COST < work)


def _occurring(bits: Bits, sets: NDArray[np.int32]) -> NDArray[np.int32]:
    """The items of some sets, ascending."""
    return np.flatnonzero(np.bincount(sets.ravel(), minlength=bits.items)).astype(np.int32)


def _places(bits: Bits, items: NDArray[np.int32]) -> NDArray[np.int64]:  # (all items,)
    """Where each item stands among some; -1 for the others."""
    place = np.full(bits.items, -1, dtype=np.int64)
    place[items] = np.arange(len(items))
    return place


def _pairs_by_list(bits: Bits, pairs: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """The counts of pairs from the lists of items, item by the next, the one after it and so on;
    None where baskets are so large that to intersect columns is cheaper.
    """
    items = _occurring(bits, pairs)
    place = _places(bits, items)
    offsets, listed = bits.to_csr()
    row, held = np.repeat(np.arange(bits.rows), np.diff(offsets)), place[listed]
    row, held = row[held >= 0], held[held >= 0]
    sizes = np.bincount(row)
    if int((sizes * (sizes - 1)).sum()) * _PAIR_COST > 2 * len(pairs) * bits.width:
        return None
    found = np.zeros(len(items) ** 2, dtype=np.int64)
    for apart in range(1, int(sizes.max(initial=0))):
        same = np.flatnonzero(row[apart:] == row[:-apart])
        places = held[same] * len(items) + held[same + apart]
        if len(places) * 8 > len(found):
            found += np.bincount(places, minlength=len(found))
        else:
            np.add.at(found, places, 1)
    first, second = np.sort(place[pairs], axis=1).T
    return found[first * len(items) + second]


def _worth_compiling(work: int) -> bool:
    return work > _SMALL_WORK or _KERNELS in sys.modules


def _kernels() -> Any:
    """The compiled loops; says so on a terminal when this installation compiles them for the first
    time.
    """
    loaded = _KERNELS in sys.modules
    kernels = import_module(_KERNELS)
    if (
        not loaded
        and sys.stderr.isatty()
        and not any(Path(kernels.count_itemsets.stats.cache_path).glob("kernels.*.nbi"))
    ):
        print("compiling the counting loops (some seconds, once)", file=sys.stderr)
    return kernels
