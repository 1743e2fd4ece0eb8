"""Rows handed out as one small number each and counted here: DuckDB packs truth values and hands
them out in less time than it groups by them, or counts all combinations of four.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.counting.sql.dialect import Tree
from sfumato.counting.sql.partitions import (
    PACKED_AXES,
    packed_base,
    rest_of,
    stated_cells,
    stated_run,
)
from sfumato.counting.sql.writing import CARRY, FEW_LABELS, StatementWriter
from sfumato.domain import Cells, Items, Numeric

# One thread of ours counts what all of DuckDB's hand out: were they more, they would wait for it.
MOST_THREADS = 8
COMPARED_CELLS = 16  # up to which DuckDB compares, unless they are of four small whole numbers
FIELDS, MOST_INTEGER = 4, 1 << 31  # the bytes of a number of 32 bits, and what is too large for it
BYTES = 1 << 8
PAIRED = 64  # numbers, up to which they are counted two by two


class Types(Protocol):
    """What is known of the columns of a relation, which is asked for where it matters only."""

    def kind(self, name: str) -> pa.DataType:
        """The type of a column."""

    def words(self, name: str) -> Sequence[str]:
        """The words that the type of a column lists, in the order of their codes; none of an empty
        table.
        """


@runtime_checkable
class HandsOut(Protocol):
    """A relation that hands out rows as they are found, and never holds all of them."""

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        """The rows that a SELECT gives, some at a time."""


@dataclass(frozen=True, eq=False)
class Handed:
    """A statement that gives a small number for every row, and the cells that it stands for."""

    statement: Tree
    cells: Sequence[Cells]
    places: Sequence[NDArray[Any]]  # on each axis, the cell of every number; -1 where it has none
    wide: bool = False  # a row is four bytes, each of them a bit of its number

    def table(self, batches: Iterable[pa.RecordBatch]) -> NDArray[np.int64] | None:
        """The count of every cell; None where some row lies in none."""
        numbers = self._numbers(batches)
        there = np.all([place >= 0 for place in self.places], axis=0)
        if numbers is None or numbers[~there].any():
            return None
        table = np.zeros([part.size for part in self.cells], dtype=np.int64)
        np.add.at(table, tuple(place[there] for place in self.places), numbers[there])
        return table

    def _numbers(self, batches: Iterable[pa.RecordBatch]) -> NDArray[np.int64] | None:
        """How many rows have each number; None where a row has null."""
        most = BYTES if self.wide else len(self.places[0])
        paired, rows = most <= PAIRED, 0
        counts = np.zeros(most**2 if paired else most, dtype=np.int64)
        for batch in batches:
            if batch.column(0).null_count:
                return None
            rows += batch.num_rows
            found = self._bytes(batch.column(0).to_numpy())
            counts += np.bincount(_pairs(found, most) if paired else found, minlength=len(counts))
        numbers = _of_halves(counts) if paired or self.wide else counts
        numbers[0] -= numbers.sum() - rows  # what filled the last pair, or the last byte
        return numbers

    def _bytes(self, column: NDArray[Any]) -> NDArray[np.uint8]:
        if not self.wide:
            return column
        return np.packbits(column.astype("<i4", copy=False).view(np.uint8))  # two rows a byte


def _pairs(numbers: NDArray[np.uint8], most: int) -> NDArray[np.uint16]:
    """Numbers below `most` taken two by two, as one below its square: a pair is counted in the time
    of a number, and the counts of all pairs stay in the first cache.

    >>> _pairs(np.array([1, 2, 3], dtype=np.uint8), 4).tolist()
    [9, 3]
    """
    even = np.append(numbers, np.uint8(0)) if len(numbers) % 2 else numbers
    pairs = even.view("<u2")
    return np.asarray(pairs - (pairs >> 8) * np.uint16(BYTES - most))


def _of_halves(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each half of a number occurs, from how often the numbers do.

    >>> _of_halves(np.array([0, 1, 2, 0])).tolist()  # of 00, 01, 10 and 11
    [3, 3]
    """
    square = counts.reshape(math.isqrt(len(counts)), -1)
    return np.asarray(square.sum(axis=0) + square.sum(axis=1))


def handed(cells: Sequence[Cells], writer: StatementWriter, types: Types) -> Handed | None:
    """How the rows of a question are handed out; None where the engine counts them sooner."""
    if (os.cpu_count() or 1) > MOST_THREADS:
        return None
    return _as_fields(cells, writer, types) or _as_bits(cells, writer, types)


def _as_fields(cells: Sequence[Cells], writer: StatementWriter, types: Types) -> Handed | None:
    """Four ranges of small whole numbers, each a byte of one number."""
    few = cells if len(cells) == FIELDS else []
    ranges = [found for part in few if (found := _narrow_range(part, types)) is not None]
    if len(ranges) < FIELDS:
        return None
    numbers = np.arange(1 << FIELDS)  # of which the first column is the highest bit
    places = [_side(part, numbers >> FIELDS - 1 - at) for at, part in enumerate(cells)]
    return Handed(writer.fields(ranges), cells, places, wide=True)


def _narrow_range(part: Cells, types: Types) -> tuple[Numeric, int, int] | None:
    """A column and where the range starts and ends that it is cut into two by, if all its codes and
    the bit that they carry into fit into a byte.
    """
    attribute = part.attribute
    if not isinstance(attribute, Numeric) or not attribute.whole or part.size != 2:
        return None
    narrow = attribute.size <= CARRY and max(-attribute.min, attribute.max) < MOST_INTEGER
    run = stated_run(part) if narrow and pa.types.is_integer(types.kind(part.name)) else None
    return None if run is None else (attribute, *run)


def _as_bits(cells: Sequence[Cells], writer: StatementWriter, types: Types) -> Handed | None:
    """Columns of two cells, and at most one of a few words, as the bits of one byte."""
    halves = [part for part in cells if part.size == 2]
    wider = [part for part in cells if part.size > 2]
    if len(wider) > 1 or math.prod(part.size for part in cells) <= COMPARED_CELLS:
        return None
    words = _words(wider[0], types) if wider else [None]
    bits = (len(words) - 1).bit_length()
    if not words or len(halves) + bits > PACKED_AXES:
        return None
    numbers = np.arange(1 << len(halves) + bits) ^ packed_base(len(halves), bits)
    shifted = iter(numbers >> bits + at for at in range(len(halves)))
    places = [
        _cells_of(part, words)[numbers & (1 << bits) - 1]
        if part.size > 2
        else _side(part, next(shifted) if part.size == 2 else numbers * 0)
        for part in cells
    ]
    code = writer.code(wider[0].attribute, listed=words[0] is not None) if wider else None
    return Handed(writer.bits(halves, code, bits), cells, places)


def _words(part: Cells, types: Types) -> Sequence[str | None]:
    """What the codes of a column stand for, from 0 on; nothing where it is not handed out."""
    attribute = part.attribute
    if isinstance(attribute, Numeric | Items):
        return []
    kind = types.kind(part.name)
    if pa.types.is_dictionary(kind):
        return types.words(part.name)
    few = attribute.size <= FEW_LABELS  # where words are text, each row may be compared with all
    return [None, *attribute.labels] if few and pa.types.is_string(kind) else []


def _cells_of(part: Cells, words: Sequence[str | None]) -> NDArray[np.intp]:
    """The cell of every code: -1 for those that stand for no value of the column."""
    owners = dict(
        zip(part.attribute.labels, part.assign(np.arange(part.attribute.size)), strict=True)
    )
    places = np.full(1 << (len(words) - 1).bit_length(), -1, dtype=np.intp)
    places[: len(words)] = [-1 if word is None else owners.get(word, -1) for word in words]
    return places


def _side(part: Cells, bits: NDArray[Any]) -> NDArray[np.intp]:
    """Which of at most two cells a row is in, by the last bit."""
    return np.where(bits & 1, (*stated_cells(part), 0)[0], rest_of(part))
