"""Counts over baskets that come in parts: each part remembers what it was asked, so a new part
leaves the old ones alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.counting.bitmaps import itemset_counts


@dataclass(frozen=True, eq=False)
class Part:
    """A batch of baskets and the itemset counts already asked of it, by length: sorted keys and
    their counts.
    """

    bits: Bits
    known: dict[int, tuple[NDArray[Any], NDArray[np.int64]]] = field(default_factory=dict)

    def counts(self, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
        """The number of baskets that hold each itemset (n, k); only those never asked before are
        counted.
        """
        number, length = itemsets.shape
        if number == 0 or length < 2:
            return itemset_counts(self.bits, itemsets)
        wanted = _keys(itemsets)
        keys, counts = self.known.get(length, (wanted[:0], np.zeros(0, np.int64)))
        if _goes_on(keys, wanted):
            fresh = itemset_counts(self.bits, itemsets)
            self.known[length] = np.concatenate([keys, wanted]), np.concatenate([counts, fresh])
            return fresh
        places = np.searchsorted(keys, wanted)
        found = np.zeros(number, dtype=bool)
        inside = places < len(keys)
        found[inside] = keys[places[inside]] == wanted[inside]
        result = np.empty(number, dtype=np.int64)
        result[found] = counts[places[found]]
        result[~found] = itemset_counts(self.bits, itemsets[~found])
        keys = np.concatenate([keys, wanted[~found]])
        counts = np.concatenate([counts, result[~found]])
        order = np.argsort(keys, kind="stable")
        self.known[length] = keys[order], counts[order]
        return result


@dataclass(frozen=True, eq=False)
class Parts:
    """Baskets in parts, counted as one.

    >>> first = Bits.from_dense(np.array([[1, 1], [1, 0]], dtype=bool))
    >>> parts = Parts((Part(first),)).extended(first)
    >>> parts.rows, parts.counts(np.array([[0, 1]], dtype=np.int32)).tolist()
    (4, [2])
    """

    parts: tuple[Part, ...]

    @property
    def items(self) -> int:
        """The number of items."""
        return self.parts[0].bits.items

    @property
    def rows(self) -> int:
        """The number of baskets in all parts."""
        return sum(part.bits.rows for part in self.parts)

    def counts(self, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
        """The number of baskets that hold each itemset (n, k)."""
        total = np.zeros(len(itemsets), dtype=np.int64)
        for part in self.parts:
            total += part.counts(itemsets)
        return total

    def extended(self, bits: Bits) -> Parts:
        """The same baskets and some more; what is known of the old parts stays known."""
        return Parts((*self.parts, Part(bits)))


def _goes_on(keys: NDArray[Any], wanted: NDArray[Any]) -> bool:
    """Whether what is wanted stands sorted behind all that is known, as the candidates of a search
    do; a key has no two rows.
    """
    return bool((not len(keys) or keys[-1] < wanted[0]) and (wanted[1:] > wanted[:-1]).all())


def _keys(itemsets: NDArray[np.int32]) -> NDArray[Any]:
    """One fixed-width byte string a row, in the rows' lexicographic order."""
    wide = np.ascontiguousarray(itemsets.astype(">u4"))
    return wide.view(f"S{4 * itemsets.shape[1]}").ravel()
