"""CampaignTally: what a campaign's dashboard asks, counted as the reports come."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Decoded
from sfumato.channels.channel import Dealt, has_known_laws
from sfumato.collect.repeats import Repeats
from sfumato.collect.synthetic_people import people
from sfumato.counting.in_memory import TableCounter
from sfumato.domain import Cells, Columns, Domain, Numeric
from sfumato.errors import EstimationError, Unanswerable
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import evidence_of
from sfumato.mechanisms.base import Mechanism
from sfumato.observation import Observation, Tally, counts_of
from sfumato.randomness import seeded
from sfumato.table import Table
from sfumato.table.packing import Packing

MOST_PAIRS = 300  # pairs of columns that are counted as reports come; others are for the SQL box
MOST_CELLS = 1 << 12  # of a pair
MOST_SETS = 200  # of columns that are looked at for alarms
MOST_ENTRIES = 1 << 24  # of a channel that is written down for the range of its chances
MOST_VALUES = 40  # of a number that is shown value by value; else it is cut into RANGES
RANGES = 10
SOME = 256  # synthetic people whose reports are looked at before any have come
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


@dataclass(frozen=True, eq=False)
class Watched:
    """Entries of a tally that are looked at for alarms: each report is counted at an entry or is
    not, and every honest one is counted with a chance between `low` and `high`, whatever its
    record. `names` are the columns that an entry speaks of most closely; `within` are, for each
    entry of the tally itself, the sums among the entries in which it is counted too.
    """

    key: Any  # of the tally
    names: tuple[tuple[str, ...], ...]  # of each entry
    low: NDArray[Any]
    high: NDArray[Any]
    read: Callable[[NDArray[Any]], NDArray[Any]]  # tally -> entries
    within: NDArray[np.intp]  # (sums, entries of the tally)

    def counts(self, counts: Mapping[Any, NDArray[Any]]) -> NDArray[Any]:
        """How many reports were counted at each entry."""
        return np.asarray(self.read(counts[self.key]), dtype=np.float64)


class CampaignTally:
    """Counts that are a function of the rows: each report that comes or goes is added or taken
    away, and a recount gives the same.
    """

    def __init__(self, mechanism: Mechanism, *, bounded: bool = False) -> None:
        self.mechanism = mechanism
        self.bounded = bounded  # whether a report sent again and again counts a few times at most
        self.packing = Packing(mechanism.reports)
        self.rows = 0
        self.version = 0  # changes with every change of the rows
        self._lock = threading.Lock()
        self._counts: Counts = {key: np.zeros(t.shape) for key, t in self._tallies.items()}
        self._come: list[bytes] = []
        self._gone: list[bytes] = []
        self._repeats = Repeats()
        self._before: tuple[int, Counts] = (0, dict(self._counts))  # when the day began
        self.days = 1  # that were held against those before

    def _standing(self, cells: tuple[Cells, ...]) -> Standing:
        found = _standing(self.mechanism, cells)
        return _bounding(found) if self.bounded else found

    def most_counted(self, people: float) -> int | None:
        """How often one report counts at most where the estimate is bounded; else None."""
        law = self.mechanism.symbol_law
        if not self.bounded or law is None or law.most_counted is None:
            return None
        return law.most_counted(people)

    @cached_property
    def singles(self) -> tuple[Standing, ...]:
        """Every column, or item, on its own."""
        return tuple(self._standing((part,)) for part in self._cells)

    @cached_property
    def pairs(self) -> tuple[Standing, ...]:
        """Every two columns, where they are not too many."""
        pairs = list(combinations(self._cells, 2))
        if len(pairs) > MOST_PAIRS:
            return ()
        return tuple(self._standing(pair) for pair in pairs)

    @cached_property
    def _sets(self) -> tuple[Standing, ...]:
        """Every column, or where a report speaks of a few columns only, every such set of them."""
        together = self.mechanism.together
        if together is None:
            return self.singles
        domain = self.mechanism.domain
        found = [
            tuple(shown_cells(domain, name) for name in names) for names in together[:MOST_SETS]
        ]
        return tuple(self._standing(cells) for cells in found)

    @cached_property
    def watched(self) -> tuple[Watched, ...]:
        """What is looked at for alarms, each tally once."""
        law = self.mechanism.symbol_law
        if law is not None and law.hits is not None:
            names = self.mechanism.domain.private.attributes[0].labels
            asked = tuple(tuple(names[item] for item in each) for each in law.itemsets)
            low, high = (np.full(len(asked), each) for each in law.between)
            alone = np.zeros((0, len(asked)), dtype=np.intp)
            return (Watched(law.tally.key, asked, low, high, law.hits, alone),)
        found: dict[Any, list[Standing]] = {}
        for standing in self._sets:
            if standing.seen is not None:
                found.setdefault(standing.seen.tally.key, []).append(standing)
        return tuple(
            _watched(self.mechanism, standings, self._tallies[key])
            for key, standings in found.items()
        )

    @cached_property
    def _cells(self) -> tuple[Cells, ...]:
        domain = self.mechanism.domain
        return tuple(shown_cells(domain, axis.name) for axis in domain.axes)

    @cached_property
    def _tallies(self) -> dict[Any, Tally]:
        """What is counted, each once."""
        standing = (*self.singles, *self.pairs, *self._sets)
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
        repeats = Repeats()
        for chunk in chunks:
            rows += len(chunk) // self.packing.width
            _accumulate(counts, self._counted(chunk), 1)
            if self.likeliest is not None:
                repeats.add_packed(chunk, self.packing.width)
        with self._lock:
            self.rows, self._counts, self._repeats = rows, counts, repeats
            self._come, self._gone = [], []
            self.version += 1
            if not self._before[0]:  # what others added meanwhile is part of the day
                self._before = (rows, counts)

    def begin_day(self) -> None:
        """Remember how things stood, to hold the new day against."""
        self._before = self.snapshot()
        self.days += 1

    @property
    def before(self) -> tuple[int, Counts]:
        """Reports and counts when the day began, or the server started if that was later."""
        return self._before

    def snapshot(self) -> tuple[int, Counts]:
        """The number of reports and the counts of all of them."""
        with self._lock:
            self._fold()
            return self.rows, self._counts

    def repeated(self, number: int) -> tuple[list[bytes], NDArray[Any]]:
        """The whole reports that came most often, and how often at least."""
        with self._lock:
            self._fold()
            found = self._repeats.most(number)
        return [body for body, _ in found], np.array([count for _, count in found], dtype=float)

    def most_likely(self, data: bytes) -> tuple[NDArray[Any], float]:
        """The highest chance of each of these whole reports under any record, and a bound on its
        sum over all reports.
        """
        found = self._most_likely(self.packing.unpack(data))
        assert found is not None
        public = math.prod(each.size for each in self.mechanism.domain if each.public)
        return found[0], found[1] * public

    def _most_likely(self, reports: Columns) -> tuple[NDArray[Any], float] | None:
        mechanism = self.mechanism
        places = map(mechanism.reports.index, mechanism.private_reports.names)
        return mechanism.most_likely(tuple(reports[place] for place in places))

    @cached_property
    def likeliest(self) -> float | None:
        """The highest chance of any of a few reports; None where whole reports are not counted, for
        the tallies count them anyhow.
        """
        mechanism = self.mechanism
        some = mechanism.perturb(people(mechanism.domain, SOME, seeded(0)).columns, seeded(1))
        found = self._most_likely(some)
        return None if found is None else float(found[0].max())

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
        if self.likeliest is not None:
            self._repeats.add(come)
            self._repeats.remove(gone)

    def _counted(self, data: bytes) -> Counts:
        reports = self.mechanism.reports
        counter = TableCounter(Table(reports, self.packing.unpack(data)))
        return counts_of(self._tallies, counter)


def estimate(standing: Standing, rows: int, counts: Mapping[Any, NDArray[Any]]) -> Estimate:
    """What the counts say about a question."""
    if standing.seen is None:
        raise Unanswerable(standing.limit or "these reports do not answer this")
    table = counts[standing.seen.tally.key]
    return Estimate(standing.cells, rows, evidence_of(standing.seen, table, standing.cells))


def shown_cells(domain: Domain, name: str) -> Cells:
    """The cells in which a column is shown: its values, its default bins, or ten ranges."""
    attribute = domain.axis_named(name).attribute
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


def _bounding(standing: Standing) -> Standing:
    """The same, undone so that one report moves it by a few people at most."""
    seen = standing.seen
    if seen is None or not isinstance(seen.channel, Decoded):
        return standing
    return replace(standing, seen=replace(seen, channel=seen.channel.bounding))


def _watched(mechanism: Mechanism, standings: Sequence[Standing], tally: Tally) -> Watched:
    """The entries of a tally that these questions share, and their sums along each of several
    columns: each as narrow as any of them says.
    """
    names, size = [standings[0].names], len(with_sums(np.zeros(tally.shape)))
    low, high, owner = np.zeros(size), np.ones(size), np.zeros(size, dtype=np.intp)
    for standing in standings:
        least, most = _range(_finest(mechanism, standing, tally))
        owner[most < high] = len(names)
        names.append(standing.names)
        low, high = np.maximum(low, least), np.minimum(high, most)
    own = tuple(names[each] for each in owner)
    return Watched(tally.key, own, low, high, with_sums, _sums_of(tally.shape))


def with_sums(table: NDArray[Any]) -> NDArray[Any]:
    """The entries of a table and, where it has several axes, the sums of each value of an axis."""
    axes = range(table.ndim) if table.ndim > 1 else ()
    sums = [np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1).sum(axis=1) for axis in axes]
    return np.concatenate([table.ravel(), *sums])


def _sums_of(shape: tuple[int, ...]) -> NDArray[np.intp]:  # (sums, entries)
    """Where among `with_sums` each entry of a table is counted again."""
    if len(shape) < 2:
        return np.zeros((0, math.prod(shape)), dtype=np.intp)
    starts = math.prod(shape) + np.cumsum([0, *shape[:-1]])
    return np.indices(shape).reshape(len(shape), -1) + starts[:, None]


def _finest(mechanism: Mechanism, standing: Standing, tally: Tally) -> Channel:
    """The channel of a tally from single values of the columns where it counts them alike: what
    merged values report depends on how they are mixed.
    """
    fine = _standing(mechanism, tuple(map(mechanism.domain.cells_of, standing.names))).seen
    seen = fine if fine is not None and fine.tally.key == tally.key else standing.seen
    assert seen is not None
    return seen.channel


def _range(channel: Channel) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lowest and the highest chance of each entry of the tally and of their sums, whatever the
    record; 0 and 1 where it depends on other columns, or is read off the reports.
    """
    shape, size = channel.outputs, math.prod(channel.inputs)
    closed = channel.closed if isinstance(channel, Dealt) else None
    known = with_sums(np.zeros(shape) if closed is None else ~closed + 0.0) == 0
    low, high = np.ones(len(known)), np.zeros(len(known))
    if not has_known_laws(channel) or len(known) * size > MOST_ENTRIES:
        return np.zeros(len(known)), np.ones(len(known))
    for cell in range(size):
        unit = np.zeros(size)
        unit[cell] = 1
        chances = with_sums(np.asarray(channel.apply(unit.reshape(channel.inputs))))
        low, high = np.minimum(low, chances), np.maximum(high, chances)
    return np.where(known, np.maximum(low, 0), 0.0), np.where(known, np.minimum(high, 1), 1.0)


def _accumulate(counts: Counts, more: Mapping[Any, NDArray[Any]], sign: int) -> None:
    for key, table in more.items():
        counts[key] += sign * table
