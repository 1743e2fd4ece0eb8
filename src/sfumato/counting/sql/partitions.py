"""Partitions as SQL sees them: runs of a number, the cell that need not be stated, and partitions
joined into a finer one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.counting.in_memory import merged
from sfumato.counting.sql.dialect import Dialect
from sfumato.domain import Cells, Numeric
from sfumato.errors import ParameterError

CASE_RUNS = (
    64  # a number cut more often than this is grouped by its values, which are then cut here
)

PACKED, PACKED_AXES = "bits", 8  # the key that stands for up to so many columns of two cells


def packed_axes(axes: Mapping[int, Cells], dialect: Dialect) -> list[int]:
    """The axes of two cells that are grouped by one byte: DuckDB counts by one small number in
    less than half the time that eight truth values take.
    """
    narrow = [axis for axis, part in axes.items() if part.size == 2]
    return narrow[:PACKED_AXES] if dialect.columnar and len(narrow) > 1 else []


def packed_base(places: int, first: int = 0) -> int:
    """The byte of so many columns, from a bit on, none of whose conditions is true: each condition
    turns the bit of its own, and no other.

    A condition shifts a number of ones to the right, by which it loses its highest; joined by XOR,
    they are a byte.

    >>> [bin(packed_base(places)) for places in (1, 2, 3)]
    ['0b1', '0b10', '0b101']
    """
    return reduce(xor, (ones(place) for place in range(first, first + places)), 0)


def ones(place: int) -> int:
    """The number whose bits up to a place are all set.

    >>> [ones(place) for place in range(3)]
    [1, 3, 7]
    """
    return (2 << place) - 1


def runs_of(part: Cells) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Where each run of codes in one cell starts, and which cell that is.

    >>> starts, cells = runs_of(Numeric("age", 0, 9).cells_by_values(["3"], ["7", "8"]))
    >>> starts.tolist(), cells.tolist()
    ([0, 3, 4, 7, 9], [2, 0, 2, 1, 2])
    """
    codes, owners = np.arange(len(part.group)), part.group
    if part.starts is not None:
        last = np.r_[part.starts[1:] != part.starts[:-1], True] & (
            part.starts < part.attribute.size
        )
        codes, owners = part.starts[last], part.group[last]
    changes = np.r_[True, owners[1:] != owners[:-1]]
    return codes[changes].astype(np.int64), owners[changes]


def rest_of(part: Cells) -> int:
    """The cell that takes the most words to state; its rows are those that lie in no other cell.

    >>> rest_of(Numeric("age", 0, 9).cells_by_values(["3"], ["7", "8"]))
    2
    """
    if part.item is not None:
        return 0
    owners = runs_of(part)[1] if isinstance(part.attribute, Numeric) else part.group
    return int(np.bincount(owners, minlength=part.size).argmax())


def stated_cells(part: Cells) -> list[int]:
    """Every cell but the rest."""
    rest = rest_of(part)
    return [cell for cell in range(part.size) if cell != rest]


def stated_run(part: Cells) -> tuple[int, int] | None:
    """Where the codes of the stated cell of two start and end; None where they are several runs.

    >>> stated_run(Numeric("age", 0, 9).cells_by_values(["3", "4"]))
    (3, 5)
    """
    starts, owners = runs_of(part)
    (found, *more) = np.flatnonzero(owners == stated_cells(part)[0]).tolist() or [0, 0]
    return None if more else (int(starts[found]), int([*starts, part.attribute.size][found + 1]))


def by_value(part: Cells) -> bool:
    """Whether rows are best grouped by the value itself: where that makes few more groups, or saves
    very many comparisons.
    """
    if part.size <= 2:
        return False
    if isinstance(part.attribute, Numeric):
        return len(runs_of(part)[0]) > CASE_RUNS
    return part.attribute.size <= 2 * part.size


def joined(parts: Sequence[Cells]) -> Cells:
    """The coarsest partition of one axis that refines all of these.

    >>> age = Numeric("age", 0, 9)
    >>> joined([age.cells_by_cuts([3]), age.cells_by_cuts([3, 7])]).size
    3
    """
    first = parts[0]
    if first.item is not None or all(part.key == first.key for part in parts):
        return first
    codes = np.arange(first.attribute.size)
    if isinstance(first.attribute, Numeric):
        codes = np.unique(np.concatenate([runs_of(part)[0] for part in parts]))
    cells = np.stack([part.assign(codes).astype(np.intp) for part in parts])
    distinct, group = np.unique(cells, axis=1, return_inverse=True)
    labels = tuple(map(str, range(distinct.shape[1])))
    starts = codes if isinstance(first.attribute, Numeric) else None
    return Cells(first.attribute, labels, np.asarray(group).reshape(-1), starts)


@dataclass(frozen=True, eq=False)
class CountedCells:
    """A table with the cells it counts."""

    cells: tuple[Cells, ...]
    counts: NDArray[Any]

    def coarsened(self, wanted: Sequence[Cells]) -> NDArray[Any]:
        """The table of coarser cells of some of its columns; ParameterError where they are not."""
        names = [part.name for part in self.cells]
        if not {part.name for part in wanted} <= set(names):
            raise ParameterError("columns that were not counted")
        places = [names.index(part.name) for part in wanted]
        rest = tuple(place for place in range(len(names)) if place not in places)
        table = self.counts.sum(axis=rest).transpose(np.argsort(np.argsort(places)))
        for axis, part in enumerate(wanted):
            owners = _owners(part, self.cells[places[axis]])
            table = merged(table, axis, owners, part.size)
        return table


def _owners(coarse: Cells, fine: Cells) -> NDArray[np.intp]:
    """The cell that each cell of a finer partition lies in; ParameterError where one is split."""
    if coarse.item is not None or coarse.key == fine.key:
        return np.arange(fine.size)
    starts, owners = runs_of(fine)
    cells = coarse.assign(starts).astype(np.intp)
    result = np.zeros(fine.size, dtype=np.intp)
    result[owners] = cells
    if (result[owners] != cells).any() or not np.isin(runs_of(coarse)[0], starts).all():
        raise ParameterError("cells that were not counted apart")
    return result
