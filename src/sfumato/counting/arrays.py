"""Contingency tables of code columns in memory: one mixed-radix pass, every marginal a sum over
axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.counting.parts import Part
from sfumato.domain import Cells, Columns, Domain, Items, Numeric, as_bits, codes_of
from sfumato.errors import EstimationError
from sfumato.observation import ItemSource

CHUNK = 1 << 16  # rows at a time: the index stays in the cache
DENSE_CELLS = 1 << 26  # the largest table that is built (512 MB of counts)
REMEMBERED_CELLS, REMEMBERED_QUESTIONS = (
    1 << 16,
    1 << 12,
)  # answers small enough and few enough to be kept
KEPT_CELLS = 1 << 20  # the largest full table that is counted once and kept for later questions


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


@dataclass(frozen=True, eq=False)
class ArrayCounter:
    """Counts over encoded columns; a joint domain small enough is counted once and answers every
    later question.
    """

    domain: Domain
    columns: Columns
    _asked: dict[Any, NDArray[Any]] = field(default_factory=dict, repr=False)
    _packed: dict[Any, Part] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        return len(self.columns[0])

    @cached_property
    def _whole(self) -> NDArray[np.int64] | None:
        """The full contingency table, where the domain is small beside the rows."""
        if any(isinstance(attribute, Items) for attribute in self.domain):
            return None
        if self.domain.cells > min(KEPT_CELLS, max(4 * self.rows, 1 << 12)):
            return None
        return contingency(codes_of(self.columns), self.domain.shape)

    def count(self, cells: Sequence[Cells]) -> NDArray[Any]:
        if self._whole is None or any(part.item is not None for part in cells):
            return self._scan(cells)
        axes = [self.domain.index(part.attribute.name) for part in cells]
        dropped = tuple(axis for axis in range(len(self.domain)) if axis not in axes)
        table = self._whole.sum(axis=dropped).transpose(*np.argsort(np.argsort(axes)))
        for axis, part in enumerate(cells):
            if not part.trivial:
                owners = part.assign(np.arange(table.shape[axis]))
                table = merged(table, axis, owners, part.size)
        return table

    def _scan(self, cells: Sequence[Cells]) -> NDArray[Any]:
        """One pass over the rows for a question that was not asked before."""
        question = _key(cells)
        if question not in self._asked:
            assigned = [
                part.assign(self.columns[self.domain.index(part.attribute.name)]) for part in cells
            ]
            return self._remembered(question, contingency(assigned, [part.size for part in cells]))
        return self._asked[question]

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
        column = np.asarray(self.columns[self.domain.index(attribute.name)])
        for start in range(0, self.rows, CHUNK):
            parts = [self._assigned(part, None, start, start + CHUNK) for part in cells]
            yield mixed_radix(parts, sizes), attribute.numbers(column[start : start + CHUNK])

    def _remembered(self, question: Any, table: NDArray[Any]) -> NDArray[Any]:
        if table.size <= REMEMBERED_CELLS and len(self._asked) < REMEMBERED_QUESTIONS:
            self._asked[question] = table
        return table

    def count_many(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        """One pass over the rows for all questions that were not asked before."""
        if self._whole is not None:
            return [self.count(cells) for cells in questions]
        fresh = {_key(cells): cells for cells in questions if _key(cells) not in self._asked}
        tables = dict(zip(fresh, self._scan_together(list(fresh.values())), strict=True))
        for question, table in tables.items():
            self._remembered(question, table)
        return [
            tables[_key(cells)] if _key(cells) in tables else self._asked[_key(cells)]
            for cells in questions
        ]

    def _scan_together(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        """Chunk by chunk: each partition assigns a chunk of its column once, whatever the number of
        questions about it.
        """
        sizes = [[part.size for part in cells] for cells in questions]
        totals = [np.zeros(checked_cells(shape), dtype=np.int64) for shape in sizes]
        chunk = max(CHUNK, *(total.size for total in totals)) if totals else CHUNK
        chunk += -chunk % 64  # packed columns are cheapest to cut at whole words
        parts = {part.key: part for cells in questions for part in cells}
        lookups = {key: _lookup(part) for key, part in parts.items()}
        for start in range(0, self.rows if questions else 0, chunk):
            assigned = {
                key: self._assigned(parts[key], lookups[key], start, start + chunk) for key in parts
            }
            for cells, shape, total in zip(questions, sizes, totals, strict=True):
                index = mixed_radix([assigned[part.key] for part in cells], shape)
                total += np.bincount(index, minlength=total.size)
        return [total.reshape(shape) for total, shape in zip(totals, sizes, strict=True)]

    def _assigned(
        self, part: Cells, lookup: NDArray[Any] | None, start: int, stop: int
    ) -> NDArray[Any]:
        column = self.columns[self.domain.index(part.attribute.name)]
        if isinstance(column, Bits):
            return part.assign(column.slice(start, stop))
        return part.assign(column[start:stop]) if lookup is None else lookup[column[start:stop]]

    def part(self, sources: Sequence[ItemSource]) -> Part:
        """The rows as bits, one an item of these sources; packed once."""
        key = tuple(source.name if isinstance(source, Items) else source.key for source in sources)
        if key not in self._packed:
            self._packed[key] = Part(Bits.stack([self._bits(source) for source in sources]))
        return self._packed[key]

    def _bits(self, source: ItemSource) -> Bits:
        if isinstance(source, Items):
            return as_bits(self.columns[self.domain.index(source.name)])
        codes = source.assign(self.columns[self.domain.index(source.attribute.name)])
        return Bits.from_csr(np.arange(len(codes) + 1), codes.astype(np.int32), source.size)


def _key(cells: Sequence[Cells]) -> tuple[Any, ...]:
    return tuple(part.key for part in cells)


def _lookup(part: Cells) -> NDArray[Any] | None:
    """The cell of every code, where that is a small table."""
    small = part.item is None and not part.trivial and part.attribute.size <= 1 << 16
    return part.assign(np.arange(part.attribute.size)) if small else None


def merged(table: NDArray[Any], axis: int, owners: NDArray[Any], size: int) -> NDArray[Any]:
    """The table with the cells of one axis summed to their owners."""
    result = np.zeros((size, *np.delete(table.shape, axis)), dtype=table.dtype)
    np.add.at(result, owners, np.moveaxis(table, axis, 0))
    return np.moveaxis(result, 0, axis)


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
