"""Codes and cells: a column of records in memory, and a partition of it, the unit in which every
question is asked.

A column is an array of codes, or `Bits` where records hold baskets. Both answer the same calls:
`len`, `take`, `repeat`, slices of rows and `nbytes`; what differs is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import shown
from sfumato.bits import Bits
from sfumato.errors import DataError, ParameterError, SchemaError, listing, near_miss

if TYPE_CHECKING:
    from sfumato.domain.attributes import Attribute


Codes = NDArray[Any]
Column = Codes | Bits
Columns = tuple[Column, ...]  # a batch of encoded records: one entry an attribute


def code_dtype(size: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that holds the codes 0..size-1."""
    return np.dtype(np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32)


def codes_of(columns: Sequence[Column]) -> list[Codes]:
    """The columns of a batch that hold codes, in their order."""
    return [column for column in columns if not isinstance(column, Bits)]


def as_bits(column: Column) -> Bits:
    """A column that must hold baskets."""
    if not isinstance(column, Bits):
        raise DataError("this column holds codes where baskets were expected")
    return column


def one_after_another(parts: Sequence[Column]) -> Column:
    """The rows of all parts of a column, one part after the other."""
    baskets = [part for part in parts if isinstance(part, Bits)]
    return Bits.concatenate(baskets) if baskets else np.concatenate(codes_of(parts))


def same_rows(left: Column, right: Column) -> bool:
    """Whether two columns hold the same, row by row."""
    if isinstance(left, Bits) or isinstance(right, Bits):
        return isinstance(left, Bits) and isinstance(right, Bits) and left.equals(right)
    return np.array_equal(left, right)


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of one attribute: the code c belongs to cell group[c], or to group[i] for the
    i-th run of codes `starts`.
    """

    attribute: Attribute
    labels: tuple[str, ...]
    group: NDArray[np.intp]
    starts: NDArray[np.int64] | None = None
    item: int | None = None

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def name(self) -> str:
        """The axis that is partitioned: the attribute, or one item of it."""
        return self.attribute.name if self.item is None else self.attribute.labels[self.item]

    @property
    def key(self) -> tuple[str, int, bytes, bytes]:
        """What tells this partition from others of the same domain."""
        return (
            self.name,
            self.size,
            self.group.tobytes(),
            b"" if self.starts is None else self.starts.tobytes(),
        )

    @property
    def trivial(self) -> bool:
        """Whether every code is a cell of its own, in order."""
        return (
            self.starts is None
            and self.size == len(self.group)
            and bool((self.group == np.arange(self.size)).all())
        )

    def assign(self, column: Codes | Bits) -> Codes:
        """The cell of each row."""
        if self.item is not None:
            return as_bits(column).column(self.item)
        codes = column if isinstance(column, np.ndarray) else np.asarray(column)
        if self.trivial:
            return codes
        if self.starts is None:
            return self.group.astype(code_dtype(self.size))[codes]
        return self.group[np.searchsorted(self.starts, codes, side="right") - 1].astype(
            code_dtype(self.size)
        )

    def sum(self, masses: NDArray[Any]) -> NDArray[Any]:
        """Masses of the codes summed to the cells."""
        group = self.group if self.starts is None else self.assign(np.arange(len(masses)))
        return np.bincount(group, weights=masses, minlength=self.size)

    def counts(self) -> NDArray[Any]:
        """How many codes each cell holds."""
        if self.starts is None:
            return np.bincount(self.group, minlength=self.size).astype(np.float64)
        lengths = np.diff([*self.starts.tolist(), self.attribute.size])
        return np.bincount(self.group, weights=lengths, minlength=self.size)

    def within(self, fine: Cells) -> Cells:
        """This partition as one of the cells of a finer partition of the same axis."""
        if self.key == fine.key:
            return Cells(self.attribute, self.labels, np.arange(self.size))
        if self.item is not None:
            return Cells(self.attribute, self.labels, np.arange(2))
        runs = np.union1d(self._begins(), fine._begins())
        coarse, small = self.assign(runs).astype(np.intp), fine.assign(runs)
        group = np.zeros(fine.size, dtype=np.intp)
        group[small] = coarse
        if not np.array_equal(group[small], coarse):
            raise ParameterError(
                f"the cells {listing(self.labels)} of '{self.name}' split cells of "
                f"{listing(fine.labels)}",
                hint="ask about these cells, or about several of them together",
            )
        return Cells(self.attribute, self.labels, group)

    def _begins(self) -> NDArray[Any]:
        """Codes at which the cell may change."""
        return np.arange(len(self.group)) if self.starts is None else self.starts

    def code(self, label: str) -> int:
        """The cell with this label."""
        if label not in self.labels:
            raise SchemaError(
                f"no cell {shown(label)} in '{self.name}' ({listing(self.labels)})",
                hint=near_miss(label, self.labels),
            )
        return self.labels.index(label)


def merged(table: NDArray[Any], axis: int, owners: NDArray[Any], size: int) -> NDArray[Any]:
    """The table with the cells of one axis summed to their owners."""
    order = np.argsort(owners, kind="stable")
    held, starts = np.unique(owners[order], return_index=True)
    summed = np.add.reduceat(np.take(table, order, axis), starts, axis)
    result = np.zeros((*table.shape[:axis], size, *table.shape[axis + 1 :]), dtype=table.dtype)
    result[(slice(None),) * axis + (held,)] = summed
    return result


def gathered(table: NDArray[Any], axes: Sequence[int], merges: Sequence[Cells]) -> NDArray[Any]:
    """A table summed to some of its axes, in this order, and their cells merged."""
    rest = tuple(axis for axis in range(table.ndim) if axis not in axes)
    table = table.sum(axis=rest).transpose(*np.argsort(np.argsort(axes)))
    for axis, part in enumerate(merges):
        if not part.trivial:
            owners = part.assign(np.arange(table.shape[axis]))
            table = merged(table, axis, owners, part.size)
    return table


def coarsened(table: NDArray[Any], cells: Sequence[Cells], wanted: Sequence[Cells]) -> NDArray[Any]:
    """A table of these cells as that of coarser cells of some of its columns."""
    names = [part.name for part in cells]
    strange = [part.name for part in wanted if part.name not in names]
    if strange:
        raise ParameterError(f"'{strange[0]}' was not counted ({listing(names)})")
    axes = [names.index(part.name) for part in wanted]
    merges = [part.within(cells[axis]) for part, axis in zip(wanted, axes, strict=True)]
    return gathered(table, axes, merges)


def spread(
    weights: NDArray[Any], axes: Sequence[int], merges: Sequence[Cells], shape: tuple[int, ...]
) -> NDArray[Any]:
    """Weights of merged cells as weights of the fine ones: the adjoint of `gathered`."""
    for axis, part in enumerate(merges):
        weights = np.take(weights, part.assign(np.arange(shape[axes[axis]])), axis)
    rest = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return np.broadcast_to(np.expand_dims(weights.transpose(*np.argsort(axes)), rest), shape)
