"""Groups: the people of a file whose turn it is, read as if there were no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.domain import Columns, Domain
from sfumato.mechanisms.base import rows_of
from sfumato.table.readers import BATCH_ROWS, Reader
from sfumato.table.turns import Turn


@dataclass(frozen=True, eq=False)
class AskedPeople(Reader):
    """The records of those whom a round asks, by their places in the file."""

    every: Reader
    turn: Turn

    # A field of Reader, here that of the reader inside.
    @property
    def where(self) -> str:  # type: ignore[override]
        return self.every.where

    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        place = 0
        for columns in self.every.batches(domain, batch_rows):
            rows = rows_of(columns)
            chosen = np.flatnonzero(self.turn.asked(place, rows))
            place += rows
            if len(chosen):
                yield tuple(column.take(chosen) for column in columns)

    @property
    def description(self) -> Mapping[str, Any] | None:
        return self.every.description

    def notes(self, domain: Domain) -> tuple[str, ...]:
        return self.every.notes(domain)

    @property
    def size(self) -> int | None:
        return self.every.size

    @property
    def fraction(self) -> float | None:
        return self.every.fraction


def people_in(reader: Reader, domain: Domain) -> int:
    """How many records a file holds, counted."""
    return sum(rows_of(columns) for columns in reader.batches(domain))
