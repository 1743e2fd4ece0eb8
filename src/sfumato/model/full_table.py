"""The tally of all columns of a release, of which any tally of fewer columns is a part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sfumato.domain import Cells, coarsened
from sfumato.errors import Unanswerable
from sfumato.mechanisms.base import Mechanism
from sfumato.observation import CellTally, ItemsetTally, Tally

Named = tuple[tuple[str, int], ...]  # the entries of an axis: columns of the reports, and cells


def full_tally(mechanism: Mechanism, columns: tuple[Cells, ...]) -> Tally:
    """What is counted of the reports for all columns at once."""
    return CellTally(columns) if counts_itself(mechanism) else mechanism.observe(columns).tally


def counts_itself(mechanism: Mechanism) -> bool:
    """Whether every tally is a sum of the table of all columns."""
    return mechanism.item_law is None and mechanism.private_reports == mechanism.domain.private


@dataclass(frozen=True, eq=False)
class FullTable:
    """The counts of all columns at once.

    >>> import numpy as np
    >>> from sfumato.domain import Category
    >>> sex, smoker = (Category(name, ("no", "yes")).cells() for name in ("female", "smoker"))
    >>> FullTable(CellTally((sex, smoker)), np.array([[4, 1], [3, 2]])).part(CellTally((smoker,)))
    array([7, 3])
    """

    tally: Tally
    table: NDArray[Any]

    @property
    def people(self) -> float:
        """How many people reported."""
        return float(self._taken([]))

    def part(self, asked: Tally) -> NDArray[Any]:
        """The counts of a tally of some of the columns, or of coarser cells."""
        if isinstance(self.tally, CellTally) and isinstance(asked, CellTally):
            return coarsened(self.table, self.tally.cells, asked.cells)
        return self._taken([named for named, _ in _axes(asked)])

    def _taken(self, wanted: list[Named]) -> NDArray[Any]:
        """The table of these axes: of each other one the entry of everyone, or else the sum."""
        table, kept = self.table, [named for named, _ in _axes(self.tally)]
        for axis, (named, optional) in reversed(list(enumerate(_axes(self.tally)))):
            if named not in wanted:
                table = table.take(0, axis) if optional else table.sum(axis)
                kept.pop(axis)
        return table.transpose([kept.index(named) for named in wanted])


def _axes(tally: Tally) -> list[tuple[Named, bool]]:
    """What the entries of each axis stand for, and whether an entry for everyone comes first."""
    if isinstance(tally, CellTally):
        return [(_entries(part.name, part.size), False) for part in tally.cells]
    if not isinstance(tally, ItemsetTally):
        raise Unanswerable("reports that are read row by row are not kept with a model")
    every = [entry for s in tally.sources for entry in _entries(s.name, s.size)]
    return [(tuple(every[item] for item in items), optional) for items, optional in tally.columns]


def _entries(name: str, size: int) -> Named:
    return tuple((name, place) for place in range(size))
