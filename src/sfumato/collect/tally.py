"""CampaignTally: what a campaign's dashboard asks, counted as the reports come."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.counting.tables import TableCounter
from sfumato.domain import Cells, Domain, Numeric
from sfumato.errors import EstimationError, Unanswerable
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.reading import evidence_of
from sfumato.mechanisms.base import Mechanism
from sfumato.observation import CellTally, Observation, Tally
from sfumato.table import Table
from sfumato.table.packing import Packing

MOST_PAIRS = 300  # pairs of columns that are counted as reports come; others are for the SQL box
MOST_CELLS = 1 << 12  # of a pair
MOST_SETS = 200  # of columns that are looked at for alarms
MOST_VALUES = 40  # of a number that is shown value by value; else it is cut into RANGES
RANGES = 10
GATHERED = 4096  # reports that wait to be counted together

Counts = dict[Any, NDArray[Any]]  # by the key of the tally


@dataclass(frozen=True, eq=False)
class Standing:
    """A question that the dashboard asks all the time, and what is counted for it; or the limit
    that keeps the reports from answering it.
    """

    cells: tuple[Cells, ...]
    seen: Observation | None = None
    limit: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.cells)


class CampaignTally:
    """Counts that are a function of the rows: each report that comes or goes is added or taken
    away, and a recount gives the same.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.packing = Packing(mechanism.reports)
        self.rows = 0
        self.version = 0  # changes with every change of the rows
        self._lock = threading.Lock()
        self._counts: Counts = {key: np.zeros(t.shape) for key, t in self._tallies.items()}
        self._come: list[bytes] = []
        self._gone: list[bytes] = []
        self._before: tuple[int, Counts] = (0, dict(self._counts))  # when the day began

    @cached_property
    def singles(self) -> tuple[Standing, ...]:
        """Every column, or item, on its own."""
        return tuple(_standing(self.mechanism, (part,)) for part in self._cells)

    @cached_property
    def pairs(self) -> tuple[Standing, ...]:
        """Every two columns, where they are not too many."""
        pairs = list(combinations(self._cells, 2))
        if len(pairs) > MOST_PAIRS:
            return ()
        return tuple(_standing(self.mechanism, pair) for pair in pairs)

    @cached_property
    def watched(self) -> tuple[Standing, ...]:
        """What is looked at for alarms: every column, or where a report speaks of a few columns
        only, every such set of them.
        """
        sets = self.mechanism.together
        if sets is None:
            return self.singles
        domain = self.mechanism.domain
        found = [tuple(shown_cells(domain, name) for name in names) for names in sets[:MOST_SETS]]
        standing = (_standing(self.mechanism, cells) for cells in found)
        return tuple(each for each in standing if each.seen is not None)

    @cached_property
    def _cells(self) -> tuple[Cells, ...]:
        domain = self.mechanism.domain
        return tuple(shown_cells(domain, axis.name) for axis in domain.axes)

    @cached_property
    def _tallies(self) -> dict[Any, Tally]:
        """What is counted, each once."""
        standing = (*self.singles, *self.pairs, *self.watched)
        seen = [each.seen for each in standing if each.seen is not None]
        return {each.tally.key: each.tally for each in seen}

    # As reports come and go.

    def add(self, bodies: Sequence[bytes]) -> None:
        """Count new reports."""
        with self._lock:
            self.rows += len(bodies)
            self.version += 1
            self._come += bodies
            if len(self._come) >= GATHERED:
                self._fold()

    def remove(self, body: bytes) -> None:
        """Take a withdrawn report away."""
        with self._lock:
            self.rows -= 1
            self.version += 1
            self._gone.append(body)

    def recount(self, chunks: Iterable[bytes]) -> None:
        """Count all reports anew."""
        rows, counts = 0, {key: np.zeros(t.shape) for key, t in self._tallies.items()}
        for chunk in chunks:
            rows += len(chunk) // self.packing.width
            _accumulate(counts, self._counted(chunk), 1)
        with self._lock:
            self.rows, self._counts = rows, counts
            self._come, self._gone = [], []
            self.version += 1
            self._before = (rows, counts)

    def begin_day(self) -> None:
        """Remember how things stood, to hold the new day against."""
        self._before = self.snapshot()

    @property
    def before(self) -> tuple[int, Counts]:
        """Reports and counts when the day began, or the server started if that was later."""
        return self._before

    def snapshot(self) -> tuple[int, Counts]:
        """The number of reports and the counts of all of them."""
        with self._lock:
            self._fold()
            return self.rows, self._counts

    def _fold(self) -> None:
        """Count what has gathered; the counts are new arrays, since others may hold the old."""
        come, gone = self._come, self._gone
        if not come and not gone:
            return
        self._come, self._gone = [], []
        counts = {key: table.copy() for key, table in self._counts.items()}
        for bodies, sign in ((come, 1), (gone, -1)):
            if bodies:
                _accumulate(counts, self._counted(b"".join(bodies)), sign)
        self._counts = counts

    def _counted(self, data: bytes) -> Counts:
        reports = self.mechanism.reports
        counter = TableCounter.of(Table(reports, self.packing.unpack(data)))
        plain = {key: t for key, t in self._tallies.items() if isinstance(t, CellTally)}
        found = counter.count_many([tally.cells for tally in plain.values()]) if plain else []
        counts: Counts = dict(zip(plain, found, strict=True))
        for key, tally in self._tallies.items():
            if key not in counts:
                counts[key] = tally.count(counter)
        return counts


def estimate(standing: Standing, rows: int, counts: Mapping[Any, NDArray[Any]]) -> Estimate:
    """What the counts say about a question."""
    if standing.seen is None:
        raise Unanswerable(standing.limit or "these reports do not answer this")
    table = counts[standing.seen.tally.key]
    return Estimate(standing.cells, rows, evidence_of(standing.seen, table, standing.cells))


def shown_cells(domain: Domain, name: str) -> Cells:
    """The cells in which a column is shown: its values, its default bins, or ten ranges."""
    attribute = domain.attributes[domain.axes[domain.axis(name)].attribute]
    if isinstance(attribute, Numeric):
        if attribute.cuts:
            return attribute.cells_by_cuts(attribute.cuts)
        if attribute.size > MOST_VALUES:
            codes = np.unique(np.linspace(0, attribute.size, RANGES + 1).astype(int)[1:-1])
            return attribute.cells_by_cuts(tuple(attribute.numbers(codes).tolist()))
    return domain.cells_of(name)


def _standing(mechanism: Mechanism, cells: tuple[Cells, ...]) -> Standing:
    size = int(np.prod([part.size for part in cells]))
    if size > MOST_CELLS:
        return Standing(cells, limit=f"{size:,} cells are too many to watch")
    try:
        return Standing(cells, mechanism.observe(cells))
    except EstimationError as error:
        return Standing(cells, limit=error.message)


def _accumulate(counts: Counts, more: Mapping[Any, NDArray[Any]], sign: int) -> None:
    for key, table in more.items():
        counts[key] += sign * table
