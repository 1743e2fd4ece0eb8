"""Rows in memory: contingency tables by one mixed-radix pass, itemsets by packed bits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.counting.bitmaps import itemset_counts
from sfumato.counting.limits import DENSE_CELLS, KEPT_CELLS
from sfumato.domain import Cells, Domain, Items, Numeric, as_bits, codes_of, gathered
from sfumato.errors import EstimationError
from sfumato.observation import ItemSource
from sfumato.table.table import Table

Key = tuple[Any, ...]  # of a question: those of its cells

CHUNK = 1 << 16  # rows at a time: the index stays in the cache


def contingency(columns: Sequence[NDArray[Any]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """How many rows fall into each cell of the joint domain, as an array of shape `sizes`.

    >>> contingency([np.array([0, 1, 1]), np.array([2, 0, 0])], (2, 3)).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    cells, rows = checked_cells(sizes), len(columns[0])
    total = np.zeros(cells, dtype=np.int64)
    chunk = max(CHUNK, cells)  # adding up the counts must not cost more than counting
    for start in range(0, rows, chunk):
        part = [column[start : start + chunk] for column in columns]
        total += np.bincount(mixed_radix(part, sizes), minlength=cells)
    return total.reshape(tuple(sizes))


def checked_cells(sizes: Sequence[int]) -> int:
    """The number of cells of a table of these sizes, unless it is too large to build."""
    cells = math.prod(sizes)
    if cells > DENSE_CELLS:
        raise EstimationError(
            f"a table of {cells:,} cells is too large to count whole; ask for fewer columns or "
            "coarser cells"
        )
    return cells


def mixed_radix(columns: Sequence[NDArray[Any]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """The joint cell of each row: ((c1·n2 + c2)·n3 + c3)…"""
    index = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        index *= size
        index += column
    return index


def combined(spreads: NDArray[Any], cells: NDArray[Any], size: int) -> NDArray[Any]:  # (size, 4)
    """Groups of rows put together: of each its `spreads` (n, 4), which are rows, their sum, their
    centre and the squares about it, so that variances never cancel; and the cell it belongs to.

    >>> pair = np.array([[1, 5.0, 5.0, 0.0], [1, 7.0, 7.0, 0.0]])
    >>> combined(pair, np.array([0, 0]), 1).tolist()
    [[2.0, 12.0, 6.0, 2.0]]
    """
    rows, total, centre, squares = spreads.T
    all_rows, all_total = (np.bincount(cells, each, minlength=size) for each in (rows, total))
    middle = all_total / np.maximum(all_rows, 1)
    shift = centre - middle[cells]
    moved = squares + shift * (2 * (total - centre * rows) + shift * rows)
    all_squares = np.bincount(cells, moved, minlength=size)
    return np.stack([all_rows, all_total, middle, all_squares], axis=1)


@dataclass(frozen=True, eq=False)
class CountedBaskets:
    """Baskets, and the itemset counts already asked of them, by length: sorted keys and their
    counts.
    """

    bits: Bits
    known: dict[int, tuple[NDArray[Any], NDArray[np.int64]]] = field(default_factory=dict)

    @property
    def items(self) -> int:
        """The number of items."""
        return self.bits.items

    @property
    def rows(self) -> int:
        """The number of baskets."""
        return self.bits.rows

    def counts(self, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
        """The number of baskets that hold each itemset (n, k); only those never asked before are
        counted.
        """
        number, length = itemsets.shape
        if number == 0 or length < 2:
            return itemset_counts(self.bits, itemsets)
        # One fixed-width byte string a row, in the rows' lexicographic order.
        wide = np.ascontiguousarray(itemsets.astype(">u4"))
        wanted = wide.view(f"S{4 * length}").ravel()
        keys, counts = self.known.get(length, (wanted[:0], np.zeros(0, np.int64)))
        behind = not len(keys) or keys[-1] < wanted[0]
        if behind and (wanted[1:] > wanted[:-1]).all():  # as the candidates of a search stand
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
class TableCounter:
    """Counts over the columns of a table; a joint domain small enough is counted once and answers
    every later question.
    """

    table: Table
    _packed: dict[Any, CountedBaskets] = field(default_factory=dict, repr=False)

    @property
    def domain(self) -> Domain:
        return self.table.domain

    @property
    def rows(self) -> int:
        return self.table.rows

    @cached_property
    def _whole(self) -> NDArray[np.int64] | None:
        """The full contingency table, where the domain is small beside the rows."""
        if any(isinstance(attribute, Items) for attribute in self.domain):
            return None
        if self.domain.cells > min(KEPT_CELLS, max(4 * self.rows, 1 << 12)):
            return None
        return contingency(codes_of(self.table.columns), self.domain.shape)

    def count(self, cells: Sequence[Cells]) -> NDArray[Any]:
        return self.count_many([cells])[0]

    def count_many(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        """One pass over the rows for all questions."""
        if self._whole is not None:
            asked = [([self.domain.index(p.attribute.name) for p in q], q) for q in questions]
            return [gathered(self._whole, axes, cells) for axes, cells in asked]
        keys = [tuple(part.key for part in cells) for cells in questions]
        found = self._scan(dict(zip(keys, questions, strict=True)))
        return [found[key] for key in keys]

    def power_sums(
        self, cells: Sequence[Cells], axis: int, middle: float, half: float
    ) -> NDArray[Any]:
        sizes = [part.size for part in cells]
        totals = np.zeros((5, checked_cells(sizes)))
        for index, numbers in self._numbers(cells, axis):
            scaled = (numbers - middle) / half
            power = np.ones(len(scaled))
            for total in totals:
                total += np.bincount(index, weights=power, minlength=total.size)
                power = power * scaled
        return np.moveaxis(totals.reshape(5, *sizes), 0, -1)

    def spreads(self, cells: Sequence[Cells], axis: int) -> NDArray[Any]:
        sizes = [part.size for part in cells]
        rows, total, squares = np.zeros((3, checked_cells(sizes)))
        for index, numbers in self._numbers(cells, axis):
            rows += np.bincount(index, minlength=rows.size)
            total += np.bincount(index, weights=numbers, minlength=rows.size)
        centre = total / np.maximum(rows, 1)
        attribute = cells[axis].attribute
        if isinstance(attribute, Numeric) and attribute.whole:
            centre = np.rint(centre)  # so that all squares are whole, and their sums exact
        for index, numbers in self._numbers(cells, axis):
            away = (numbers - centre[index]) ** 2
            squares += np.bincount(index, weights=away, minlength=rows.size)
        return np.stack([rows, total, centre, squares], axis=-1).reshape(*sizes, 4)

    def _numbers(
        self, cells: Sequence[Cells], axis: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """The cell and the number of each row, chunk by chunk."""
        sizes, attribute = [part.size for part in cells], cells[axis].attribute
        assert isinstance(attribute, Numeric)
        column = np.asarray(self.table.columns[self.domain.index(attribute.name)])
        for start in range(0, self.rows, CHUNK):
            parts = [self._assigned(part, None, start, start + CHUNK) for part in cells]
            yield mixed_radix(parts, sizes), attribute.numbers(column[start : start + CHUNK])

    def _scan(self, questions: Mapping[Key, Sequence[Cells]]) -> dict[Key, NDArray[Any]]:
        """The tables by the keys of their cells, chunk by chunk: each partition assigns a chunk of
        its column once, whatever the number of questions about it.
        """
        sizes = {key: [part.size for part in cells] for key, cells in questions.items()}
        totals = {key: np.zeros(checked_cells(sizes[key]), dtype=np.int64) for key in sizes}
        chunk = max(CHUNK, *(total.size for total in totals.values()))
        chunk += -chunk % 64  # packed columns are cheapest to cut at whole words
        parts = {
            own: part
            for key, cells in questions.items()
            for own, part in zip(key, cells, strict=True)
        }
        lookups = {  # the cell of every code, where there are more rows
            own: part.assign(np.arange(part.attribute.size))
            for own, part in parts.items()
            if part.item is None and not part.trivial and part.attribute.size <= self.rows
        }
        for start in range(0, self.rows, chunk):
            assigned = {
                own: self._assigned(part, lookups.get(own), start, start + chunk)
                for own, part in parts.items()
            }
            for key, total in totals.items():
                index = mixed_radix([assigned[own] for own in key], sizes[key])
                total += np.bincount(index, minlength=total.size)
        return {key: total.reshape(sizes[key]) for key, total in totals.items()}

    def _assigned(
        self, part: Cells, lookup: NDArray[Any] | None, start: int, stop: int
    ) -> NDArray[Any]:
        column = self.table.columns[self.domain.index(part.attribute.name)]
        if isinstance(column, Bits):
            assert part.item is not None
            one = Bits(column.words[part.item : part.item + 1], column.rows)
            return one.slice(start, stop).column(0)
        return part.assign(column[start:stop]) if lookup is None else lookup[column[start:stop]]

    def baskets(self, sources: Sequence[ItemSource]) -> CountedBaskets:
        """The rows as bits, one an item of these sources; packed once."""
        key = tuple(source.name if isinstance(source, Items) else source.key for source in sources)
        if key in self._packed:
            return self._packed[key]
        bits = []
        for source in sources:
            if isinstance(source, Items):
                bits.append(as_bits(self.table.columns[self.domain.index(source.name)]))
                continue
            codes = source.assign(self.table.columns[self.domain.index(source.attribute.name)])
            rows = np.arange(len(codes) + 1)
            bits.append(Bits.from_csr(rows, codes.astype(np.int32), source.size))
        return self._packed.setdefault(key, CountedBaskets(Bits.stack(bits)))
