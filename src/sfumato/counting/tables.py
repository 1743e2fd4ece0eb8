"""TableCounter: rows in memory, which may come in batches; what was counted is not
counted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.counting.arrays import ArrayCounter, combined
from sfumato.counting.parts import Parts
from sfumato.domain import Cells, Domain
from sfumato.errors import DataError
from sfumato.observation import ItemSource
from sfumato.table.table import Table, alike


@dataclass(frozen=True, eq=False)
class TableCounter:
    """Counts over one or more batches of rows, added up; each batch remembers its own."""

    batches_of: tuple[Table, ...]
    parts: tuple[ArrayCounter, ...]

    @classmethod
    def of(cls, table: Table) -> TableCounter:
        """The counter of a table."""
        return cls((table,), (ArrayCounter(table.domain, table.columns),))

    def extended(self, batch: Table) -> TableCounter:
        """The same rows and a batch of new ones."""
        first = self.batches_of[0]
        if batch.domain != first.domain or not alike(batch, first):
            raise DataError("tables to join must have the same domain and the same mechanism")
        part = ArrayCounter(batch.domain, batch.columns)
        return TableCounter((*self.batches_of, batch), (*self.parts, part))

    @cached_property
    def table(self) -> Table:
        """All rows as one table."""
        only = len(self.batches_of) == 1
        return self.batches_of[0] if only else Table.concatenate(list(self.batches_of))

    @property
    def domain(self) -> Domain:
        return self.batches_of[0].domain

    @cached_property
    def rows(self) -> int:
        return sum(table.rows for table in self.batches_of)

    def count(self, cells: Sequence[Cells]) -> NDArray[Any]:
        total = self.parts[0].count(cells)
        for part in self.parts[1:]:
            total = total + part.count(cells)
        return total

    def count_many(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        totals = self.parts[0].count_many(questions)
        for part in self.parts[1:]:
            found = part.count_many(questions)
            totals = [total + more for total, more in zip(totals, found, strict=True)]
        return totals

    def power_sums(
        self, cells: Sequence[Cells], axis: int, middle: float, half: float
    ) -> NDArray[Any]:
        sums = (part.power_sums(cells, axis, middle, half) for part in self.parts)
        return np.sum(list(sums), axis=0)

    def spreads(self, cells: Sequence[Cells], axis: int) -> NDArray[Any]:
        if len(self.parts) == 1:
            return self.parts[0].spreads(cells, axis)
        found = np.stack([part.spreads(cells, axis) for part in self.parts])
        size = found[0, ..., 0].size
        places = np.tile(np.arange(size), len(self.parts))
        return combined(found.reshape(-1, 4), places, size).reshape(found.shape[1:])

    def baskets(self, sources: Sequence[ItemSource]) -> Parts:
        return Parts(tuple(part.part(sources) for part in self.parts))
