"""Which cells a question needs: each column cut just where some part of the question tells its
values apart, and no finer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Axis, Cells, Items, Numeric

FEW_CODES = 64

Codes = NDArray[Any]
Mask = NDArray[np.bool_]
Tells = Callable[[Codes], NDArray[Any]]  # codes -> a whole number each; different ones lie apart


@dataclass(frozen=True, eq=False)
class Cut:
    """What one part of a question asks of a column: that values which it tells apart lie in
    different cells. `starts` are the codes of a number at which that may change.
    """

    axis: Axis
    tells: Tells
    starts: Sequence[int] | NDArray[np.int64] = ()

    @classmethod
    def by_value(cls, axis: Axis) -> Cut:
        """Every value a cell of its own."""
        every = np.arange(axis.size) if isinstance(axis.attribute, Numeric) else ()
        return cls(axis, lambda codes: codes, every)

    @classmethod
    def by_table(cls, axis: Axis, table: NDArray[Any]) -> Cut:
        """What a table says of every code."""
        return cls(axis, lambda codes: table[codes])


@dataclass(frozen=True, eq=False)
class Grid:
    """The joint cells of a question: its columns, the cells of each, and a code of each cell by the
    name of its column, in the shape in which they broadcast.
    """

    axes: tuple[Axis, ...]
    cells: tuple[Cells, ...]
    codes: Mapping[str, Codes]

    @classmethod
    def of(cls, cuts: Iterable[Cut]) -> Grid:
        """The coarsest grid that makes these cuts, its axes by name: the same question in another
        order has the same cells.
        """
        by_axis: dict[str, list[Cut]] = {}
        for cut in cuts:
            by_axis.setdefault(cut.axis.name, []).append(cut)
        names = sorted(by_axis)
        axes = tuple(by_axis[name][0].axis for name in names)
        pairs = [_cells(axis, by_axis[axis.name]) for axis in axes]
        codes = np.ix_(*(codes for _, codes in pairs))
        return cls(axes, tuple(cells for cells, _ in pairs), dict(zip(names, codes, strict=True)))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.size for part in self.cells)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What tells these cells from those of another grid."""
        return tuple(part.key for part in self.cells)

    def place(self, name: str) -> int:
        """The position of an axis."""
        return list(self.codes).index(name)

    def full(self, value: Any) -> NDArray[Any]:
        """The same value everywhere, shaped to broadcast over the grid."""
        return np.full((1,) * len(self.axes), value)


def _cells(axis: Axis, cuts: Sequence[Cut]) -> tuple[Cells, Codes]:
    """The partition of one column, codes that nothing tells apart in one cell, and the first code
    of each of its cells, in whose order they stand.
    """
    attribute = axis.attribute
    if isinstance(attribute, Items):
        return attribute.item_cells(axis.name), np.arange(2)
    starts = None
    if isinstance(attribute, Numeric):
        found = [np.asarray(cut.starts, dtype=np.int64) for cut in cuts]
        starts = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *found]))
        starts = starts[(starts >= 0) & (starts < attribute.size)]
    codes = np.arange(attribute.size) if starts is None else starts
    group, first = _alike([np.asarray(cut.tells(codes)) for cut in cuts])
    return Cells(attribute, tuple(map(str, range(len(first)))), group, starts), codes[first]


def _alike(parts: Sequence[NDArray[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The cell of each place, those that no part tells apart in one, and the first of each cell."""
    if len(parts[0]) <= FEW_CODES:
        # A dictionary numbers what differs as it is first met, for a tenth of sorting's time.
        cells: dict[tuple[Any, ...], int] = {}
        listed = zip(*(part.tolist() for part in parts), strict=True)
        few = [cells.setdefault(each, len(cells)) for each in listed]
        first = [few.index(cell) for cell in range(len(cells))]
        return np.array(few, dtype=np.intp), np.array(first, dtype=np.intp)
    group = np.zeros(len(parts[0]), dtype=np.int64)
    for part in parts:
        lifted = part.astype(np.int64) - int(part.min())
        _, group = np.unique(group * (int(lifted.max()) + 1) + lifted, return_inverse=True)
    _, starts = np.unique(group, return_index=True)
    return np.argsort(np.argsort(starts))[group], np.sort(starts)
