"""EngineRelease: a release whose rows stay in an engine; only counts come here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from numpy.typing import NDArray

from sfumato.counting.base import Baskets
from sfumato.counting.sql import ItemsetCounter, SqlCounter
from sfumato.domain import Cells, Items
from sfumato.errors import EstimationError
from sfumato.estimation.evidence import Evidence
from sfumato.source import PerturbedSource
from sfumato.table import Provenance


@dataclass(frozen=True, eq=False)
class EngineRelease(PerturbedSource):
    """A release that answers as one in memory does, each question by one statement where its rows
    are.
    """

    counter: SqlCounter
    origin: Provenance

    @property
    def provenance(self) -> Provenance:
        return self.origin

    @property
    def rows(self) -> int:
        return self.counter.rows // self.copies

    @property
    def _counter(self) -> SqlCounter:
        return self.counter

    @cached_property
    def _baskets(self) -> Baskets:
        items = self.mechanism.private_reports.attributes[0]
        assert isinstance(items, Items)
        private = [(items.item_cells(label), 1) for label in items.labels]
        public = [(part, cell) for part in self._public for cell in range(part.size)]
        return ItemsetCounter([*private, *public], self.counter)

    def _row_evidence(self, cells: tuple[Cells, ...]) -> Evidence:
        self._need_rows()

    def _votes(self, items: Sequence[int]) -> NDArray[Any]:
        self._need_rows()

    def _need_rows(self) -> NoReturn:
        raise EstimationError(
            f"{self.mechanism.name} reports baskets that vote row by row, which no engine but the "
            "memory can count",
            hint="use --engine memory",
        )
