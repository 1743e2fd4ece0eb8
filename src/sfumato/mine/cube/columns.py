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

from sfumato.domain import Attribute, Cells, Domain, Items, Numeric

FEW_CODES = 64

Codes = NDArray[Any]
Mask = NDArray[np.bool_]
Tells = Callable[[Codes], NDArray[Any]]  # codes -> a whole number each; different ones lie apart


@dataclass(frozen=True)
class AskedColumn:
    """One column of a question: an attribute, or one item of a basket."""

    name: str
    attribute: Attribute
    item: int | None = None

    @classmethod
    def of(cls, domain: Domain, name: str) -> AskedColumn:
        """The column of this name; an unknown one is refused with its near miss."""
        axis = domain.axes[domain.axis(name)]
        return cls(name, domain.attributes[axis.attribute], axis.item)

    @property
    def size(self) -> int:
        """How many codes the column has: two for an item."""
        return self.attribute.size if self.item is None else 2


@dataclass(frozen=True, eq=False)
class Cut:
    """What one part of a question asks of a column: that values which it tells apart lie in
    different cells. `starts` are the codes of a number at which that may change.
    """

    axis: AskedColumn
    tells: Tells
    starts: Sequence[int] | NDArray[np.int64] = ()

    @classmethod
    def by_value(cls, axis: AskedColumn) -> Cut:
        """Every value a cell of its own."""
        every = np.arange(axis.size) if isinstance(axis.attribute, Numeric) else ()
        return cls(axis, lambda codes: codes, every)


@dataclass(frozen=True, eq=False)
class Grid:
    """The joint cells of a question: its columns, the cells of each, and a code of each cell by the
    name of its column, in the shape in which they broadcast.
    """

    axes: tuple[AskedColumn, ...]
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

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells these cells from those of another grid."""
        return tuple(part.key for part in self.cells)

    def place(self, name: str) -> int:
        """The position of an axis."""
        return list(self.codes).index(name)

    def full(self, value: Any) -> NDArray[Any]:
        """The same value everywhere, shaped to broadcast over the grid."""
        return np.full((1,) * len(self.axes), value)


def _cells(axis: AskedColumn, cuts: Sequence[Cut]) -> tuple[Cells, Codes]:
    """The partition of one column, and a code of each of its cells."""
    attribute = axis.attribute
    if isinstance(attribute, Items):
        return attribute.item_cells(axis.name), np.arange(2)
    starts = None
    if isinstance(attribute, Numeric):
        found = [np.asarray(cut.starts, dtype=np.int64) for cut in cuts]
        starts = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *found]))
        starts = starts[(starts >= 0) & (starts < attribute.size)]
    codes = np.arange(attribute.size) if starts is None else starts
    group, first = _alike(codes, cuts)
    labels = tuple(map(str, range(len(first))))
    return Cells(attribute, labels, group, starts), first


def _alike(codes: Codes, cuts: Sequence[Cut]) -> tuple[NDArray[np.intp], Codes]:
    """The cell of each code, those that nothing tells apart in one, and the first code of each
    cell; cells stand in the order of their first codes.
    """
    if len(codes) <= FEW_CODES:
        return _few_alike(codes, cuts)
    group = np.zeros(len(codes), dtype=np.int64)
    for cut in cuts:
        part = np.asarray(cut.tells(codes)).astype(np.int64)
        part = part - part.min()
        _, group = np.unique(group * (int(part.max()) + 1) + part, return_inverse=True)
    _, first = np.unique(group, return_index=True)
    rank = np.argsort(np.argsort(first))
    return rank[group], codes[np.sort(first)]


def _few_alike(codes: Codes, cuts: Sequence[Cut]) -> tuple[NDArray[np.intp], Codes]:
    """As `_alike`: a dictionary numbers what differs as it is first met, and for few codes
    costs a tenth of sorting them.
    """
    parts = [np.asarray(cut.tells(codes)).tolist() for cut in cuts]
    cells: dict[tuple[Any, ...], int] = {}
    group = [cells.setdefault(each, len(cells)) for each in zip(*parts, strict=True)]
    first = [group.index(cell) for cell in range(len(cells))]
    return np.array(group, dtype=np.intp), codes[first]
