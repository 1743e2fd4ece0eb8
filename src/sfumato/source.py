"""Source: true records or a release of perturbed ones, asked in the same words; the only thing the
tasks see.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import plots
from sfumato.arguments import checked
from sfumato.channels import Channel, Retain
from sfumato.counting import Counter
from sfumato.counting.in_memory import TableCounter
from sfumato.domain import Cells, Domain, Items, Numeric
from sfumato.errors import EstimationError, ParameterError, Unanswerable, listing
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import Evidence, evidence_of, is_nested, undoing
from sfumato.estimation.moments import PowerSums, moments_of
from sfumato.estimation.supports.flipped import FlippedSupports
from sfumato.estimation.supports.partial import PartialSupports
from sfumato.estimation.supports.supports import Supports
from sfumato.estimation.supports.symbols import SymbolSupports
from sfumato.estimation.supports.tabulated import TabulatedSupports
from sfumato.mechanisms.base import Mechanism
from sfumato.memory import Recent
from sfumato.observation import CellTally, CutLaw, FlipLaw, Observation, SymbolLaw, Tally
from sfumato.privacy.probability import check_places
from sfumato.randomness import Keystream
from sfumato.renderers.html import MOST_LINES
from sfumato.result import Shown, Tabular
from sfumato.table import Provenance, Table, perturb_table, read, read_perturbed, save
from sfumato.view import View

# Records over at most this many cells are mined from one table, others set by set or from bitmaps.
MINED_TABLE = 1 << 16
DRAWN_COLUMNS = 24  # in one picture, a panel each
REMEMBERED = 1 << 20  # entries of tallies that a source keeps in memory
UNDONE, UNDONE_CELLS = 64, 1 << 12  # questions whose estimates it keeps, and their cells at most


@checked
class Source(ABC, Shown):
    """Records that can be asked for marginals and for supports, each with its standard error."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The domain of the true records."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many true records there are."""

    @abstractmethod
    def supports(self) -> Supports:
        """Estimated counts of itemsets, one length after the other."""

    def marginal(self, columns: Sequence[str | Cells]) -> Estimate:
        """The reconstructed counts over these columns: attributes, items, or partitions of them.

        A number is cut at its default cuts unless a partition of it is given.

        >>> table = Exact(read({"smoker": ["no", "yes", "no"], "sex": ["f", "m", "f"]}))
        >>> counts = table.marginal(["smoker", "sex"])
        >>> counts.value.tolist()
        [[2.0, 0.0], [0.0, 1.0]]
        >>> counts.where(smoker="no")
        Answer(value=2, stderr=0)
        """
        return self._estimates([self._question(columns)])[0]

    def marginals(self, questions: Sequence[Sequence[str | Cells]]) -> list[Estimate]:
        """The reconstructed counts of several marginals, from one scan of the reports where the
        engine can.
        """
        return self._estimates([self._question(columns) for columns in questions])

    def _question(self, columns: Sequence[str | Cells]) -> tuple[Cells, ...]:
        if isinstance(columns, str):
            raise ParameterError(f"columns must be a list; use ['{columns}']")
        if not isinstance(columns, Iterable):
            raise ParameterError(
                f"columns must be a list of names, not a {type(columns).__name__}",
                hint=f"as in [{self.domain.names[0]!r}]",
            )
        cells = tuple(
            column if isinstance(column, Cells) else self.cells(column) for column in columns
        )
        names = [part.name for part in cells]
        if not names or len(set(names)) < len(names):
            raise ParameterError(f"a marginal is over one or more different columns; found {names}")
        return cells

    @abstractmethod
    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        """The reconstructed counts of several sets of cells."""

    def moments(self, cells: Sequence[Cells], axis: int) -> PowerSums:
        """The reconstructed sums of the powers of the number that cells[axis] partitions, cell by
        cell.
        """
        raise EstimationError("sums of a column cannot be asked of this source")

    def condensed(self, columns: Sequence[str | Cells]) -> Condensed:
        """These columns counted once and for all: later questions about them, or coarser cells of
        them, cost no scan.
        """
        return Condensed(self.marginal(columns), self.domain)

    def cells(self, name: str) -> Cells:
        """The default partition of a column: every value, or the default bins of a number."""
        return default_cells(self.domain, name)

    def view(self) -> View:
        """What is known of the source."""
        names = listing(self.domain.names, most=MOST_LINES)
        return View("Records", facts=[("people", self.rows), ("columns", names)])

    def plot(self, columns: Sequence[str] | None = None, truth: Source | None = None) -> list[Any]:
        """Every column's counts (or those of some columns) as a panel with 95 % intervals, beside
        the truth where it is given; the axes, a panel each.
        """
        names = [axis.name for axis in self.domain.axes] if columns is None else list(columns)
        if len(names) > DRAWN_COLUMNS:
            raise ParameterError(
                f"{len(names)} columns are too many for one picture; at most {DRAWN_COLUMNS}",
                hint="name some of them",
            )
        found = self.marginals([[name] for name in names])
        true = found if truth is None else truth.marginals([[name] for name in names])
        for each, other in zip(found, true, strict=True):
            if each.cells[0].labels != other.cells[0].labels:
                raise ParameterError(
                    f"the truth cuts '{each.names[0]}' otherwise than the release",
                    hint="read the true records by the release's own domain or schema",
                )
        panels = [
            plots.Marginal(
                each.names[0],
                each.cells[0].labels,
                each.value,
                each.stderr,
                None if truth is None else other.value,
            )
            for each, other in zip(found, true, strict=True)
        ]
        return plots.marginals(panels)


def default_cells(domain: Domain, name: str) -> Cells:
    """The default partition of a column of these records: every value, or a number's default
    bins.
    """
    axis = domain.axes[domain.axis(name)]
    attribute = domain.attributes[axis.attribute]
    if isinstance(attribute, Numeric) and attribute.cuts:
        return attribute.cells_by_cuts(attribute.cuts)
    return domain.cells_of(name)


@checked
@dataclass(frozen=True, eq=False)
class Condensed(Source):
    """A table of reconstructed counts that answers as the source did from which it was counted."""

    whole: Estimate
    records: Domain

    @property
    def domain(self) -> Domain:
        return self.records

    @property
    def rows(self) -> int:
        return self.whole.rows

    def supports(self) -> Supports:
        return TabulatedSupports(self.whole.cells, self.rows, self.marginal, exact=False)

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        return [self.whole.coarsen(cells) for cells in questions]

    def cells(self, name: str) -> Cells:
        return self.whole.cells[self.whole.names.index(name)]


@checked
class CountedSource(Source):
    """A source whose rows are counted and undone through a channel, wherever the rows are."""

    counter: Counter

    @property
    def copies(self) -> int:
        """How many rows each record has."""
        return 1

    @abstractmethod
    def observe(self, cells: Sequence[Cells]) -> Observation:
        """What to count of the rows for these cells of the records, and the channel of that
        tally.
        """

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        keys = [tuple(part.key for part in cells) for cells in questions]
        known = {key: kept for key in keys if (kept := self._evidence.find(key)) is not None}
        asked = {key: each for key, each in zip(keys, questions, strict=True) if key not in known}
        seen = [self.observe(cells) for cells in asked.values()]
        tables = self._tallies([each.tally for each in seen])
        for (key, cells), each, table in zip(asked.items(), seen, tables, strict=True):
            known[key] = evidence_of(each, table, cells)
            if is_nested(known[key]) and math.prod(part.size for part in cells) <= UNDONE_CELLS:
                self._evidence.keep(key, known[key])
        pairs = zip(keys, questions, strict=True)
        return [Estimate(cells, self.rows, known[key], self.copies) for key, cells in pairs]

    @cached_property
    def _evidence(self) -> Recent[Evidence]:
        """What answered earlier questions about few cells, with all that was worked out from it."""
        return Recent(UNDONE)

    def _tallies(self, tallies: Sequence[Tally]) -> list[NDArray[Any]]:
        """The tallies, small ones from memory where they were counted before: many questions may
        have one.
        """
        keys = [tally.key for tally in tallies]
        found = {key: kept for key in keys if (kept := self._counted.find(key)) is not None}
        missing = {tally.key: tally for tally in tallies if tally.key not in found}
        plain = {key: t.cells for key, t in missing.items() if isinstance(t, CellTally)}
        tables = (
            self.counter.count_many(list(plain.values()))
            if len(plain) > 1
            else [self.counter.count(cells) for cells in plain.values()]
        )
        found |= dict(zip(plain, tables, strict=True))
        found |= {k: t.count(self.counter) for k, t in missing.items() if k not in plain}
        for key in missing:
            if found[key].size <= REMEMBERED // 16:
                self._counted.keep(key, found[key])
        return [found[key] for key in keys]

    @cached_property
    def _counted(self) -> Recent[NDArray[Any]]:
        return Recent(REMEMBERED, np.size)

    def moments(self, cells: Sequence[Cells], axis: int) -> PowerSums:
        check_places("axis", [axis], len(cells))
        seen = self.observe(cells)
        if seen.channel.sums_back is not None:
            counts, sums = seen.tally.count(self.counter), undoing(seen.channel.sums_back)
            return sums.of(counts, seen.channel, cells, axis, self.copies)
        channel, fine = self._own_channel(cells), self._fine_channel(cells[axis].name)
        return moments_of(self.counter, tuple(cells), axis, channel, fine, self.rows, self.copies)

    @abstractmethod
    def _fine_channel(self, name: str) -> Channel:
        """The channel over every value of one column that is reported as itself."""

    def _own_channel(self, cells: Sequence[Cells]) -> Channel:
        """The channel of these cells where the rows are counted by the very same cells."""
        seen = self.observe(cells)
        if not isinstance(seen.tally, CellTally) or seen.tally.cells != tuple(cells):
            names = ", ".join(f"'{part.name}'" for part in cells)
            raise Unanswerable(
                f"these reports hold no numbers of {names}, so there is no sum or average of them",
                hint="ask for counts of cells, or fit a model",
            )
        return seen.channel

    def _tabulated(self, exact: bool, longest: int | None = None) -> TabulatedSupports:
        """Supports from one table for each set of columns, or from one table of all."""
        columns = tuple(self.cells(axis.name) for axis in self.domain.axes)
        small = math.prod(part.size for part in columns) <= MINED_TABLE
        source: Source = self
        if small and longest is None:
            try:
                source = self.condensed(columns)
                _ = source.marginal(columns[:1]).value
            except Unanswerable:
                source = self
        return TabulatedSupports(columns, self.rows, source.marginal, exact, longest)


@checked
@dataclass(frozen=True, eq=False)
class Exact(CountedSource, Tabular):
    """True records: every answer is a count, every standard error 0."""

    counter: TableCounter

    def __init__(self, records: Table | TableCounter) -> None:
        counter = TableCounter.of(records) if isinstance(records, Table) else records
        object.__setattr__(self, "counter", counter)

    @property
    def table(self) -> Table:
        """The true records."""
        return self.counter.table

    def to_arrow(self) -> Any:
        """The true records, one a row: for the owner alone."""
        return self.table.to_arrow()

    def __repr__(self) -> str:
        return f"{self.rows:,} true records of {listing(self.domain.names)}"

    def view(self) -> View:
        """What is known of the records, and none of them."""
        return self.table.view()

    @property
    def domain(self) -> Domain:
        return self.counter.domain

    @property
    def rows(self) -> int:
        return self.counter.rows

    def observe(self, cells: Sequence[Cells]) -> Observation:
        return Observation.plain(cells)

    def _fine_channel(self, name: str) -> Channel:
        return Retain.identity([self.domain[name].size])

    def supports(self) -> Supports:
        if self.domain.baskets:
            items = self.domain.attributes[0]
            assert isinstance(items, Items)
            return FlippedSupports(self.counter.baskets((items,)), items.labels)
        columns = tuple(self.cells(axis.name) for axis in self.domain.axes)
        small = math.prod(part.size for part in columns) <= MINED_TABLE
        if small or len(columns) > len(self.domain):  # baskets beside others: an axis an item
            return self._tabulated(exact=True)
        names = tuple(f"{part.name}={label}" for part in columns for label in part.labels)
        attributes = np.repeat(np.arange(len(columns)), [part.size for part in columns])
        return FlippedSupports(self.counter.baskets(columns), names, attributes=attributes)


@checked
@dataclass(frozen=True, eq=False)
class Release(CountedSource, Tabular):
    """Perturbed records and how they were made: answers are reconstructed and carry their standard
    errors.

    The rows stay with their counter: in memory, in a file or database, or in Spark.
    """

    counter: Counter
    provenance: Provenance

    def __init__(self, counter: Counter | Table, provenance: Provenance | None = None) -> None:
        if isinstance(counter, Table):
            warnings.warn(
                "Release(table) is now Release.of(table)", DeprecationWarning, stacklevel=2
            )
            provenance = counter.provenance
            counter = TableCounter.of(counter)
        if provenance is None:
            raise _no_mechanism()
        object.__setattr__(self, "counter", counter)
        object.__setattr__(self, "provenance", provenance)

    @classmethod
    def of(cls, table: Table) -> Release:
        """The release that a perturbed table in memory is."""
        if table.provenance is None:
            raise _no_mechanism()
        return cls(TableCounter.of(table), table.provenance)

    @property
    def table(self) -> Table:
        """The reports, where they are in memory."""
        if not isinstance(self.counter, TableCounter):
            raise Unanswerable(
                "the rows of this release stay in their engine", hint="use --engine memory"
            )
        return self.counter.table

    def to_arrow(self) -> Any:
        """The reports as they were made, one a row: noise and all; ask a `marginal` for counts."""
        return self.table.to_arrow()

    def __repr__(self) -> str:
        guarantee = self.provenance.guarantee
        return (
            f"{self.rows:,} people's reports of {listing(self.domain.names)}, made by "
            f"{self.mechanism.name}, {guarantee}"
        )

    def view(self) -> View:
        """What is known of the release."""
        mechanism, copies = self.provenance.mechanism, self.provenance.copies
        facts = [
            ("rows", self.rows),
            ("columns", listing(self.domain.names, most=MOST_LINES)),
            ("mechanism", mechanism.name),
            ("guarantee", str(self.provenance.guarantee)),
            ("reports per person", copies if copies > 1 else None),
        ]
        return View("Perturbed records", facts=facts, notes=mechanism.caveats)

    @property
    def in_memory(self) -> bool:
        """Whether the reports are in memory."""
        return isinstance(self.counter, TableCounter)

    def extended(self, batch: Table) -> Release:
        """This release with a batch of new reports; what was counted is not counted again."""
        if not isinstance(self.counter, TableCounter):
            raise Unanswerable("only a release in memory can be extended", hint="combine them")
        counter = self.counter.extended(batch)
        assert batch.provenance is not None
        return Release(counter, self.provenance.joined(batch.provenance))

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the reports with their mechanism; `sfumato.open` reads them back."""
        save(self.table, path, force=force)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that made the reports."""
        return self.provenance.mechanism

    @property
    def copies(self) -> int:
        """How many reports each record made."""
        return self.provenance.copies

    @property
    def domain(self) -> Domain:
        return self.mechanism.domain

    @property
    def rows(self) -> int:
        return self.counter.rows // self.copies

    def observe(self, cells: Sequence[Cells]) -> Observation:
        return self.mechanism.observe(cells)

    def _fine_channel(self, name: str) -> Channel:
        return self.mechanism.channel_over([self.domain.axis(name)])

    def supports(self) -> Supports:
        symbols, law = self.mechanism.symbol_law, self.mechanism.item_law
        if symbols is not None:
            return self._symbol_supports(symbols)
        if law is None:
            return self._tabulated(exact=False, longest=self.mechanism.at_once)
        if isinstance(law, FlipLaw):
            return self._flipped_supports(law)
        return self._tabulated(False, law.cutoff) if self._public else self._cut_supports(law)

    def _flipped_supports(self, law: FlipLaw) -> Supports:
        names, attributes = self._items
        extra = np.ones(len(names) - len(law.ones))  # public columns are reported as they are
        keeps = np.r_[law.ones, extra], np.r_[law.zeros, extra]
        baskets = self.counter.baskets((self._reported, *self._public))
        return FlippedSupports(baskets, names, *keeps, attributes, self.copies)

    def _symbol_supports(self, law: SymbolLaw) -> Supports:
        items = self.domain.private.attributes[0]
        table = self.counter.count(law.tally.cells)
        (count, variance), (kept, own) = law.decode(table), law.kept(table)
        left = float(kept.sum() / count.sum()) if count.sum() > 0 else 1.0
        parts = (count, np.sqrt(variance), np.sqrt(own) / left)
        shares = (part / self.copies for part in parts)
        return SymbolSupports(items.labels, self.rows, law.itemsets, *shares)

    def _cut_supports(self, law: CutLaw) -> Supports:
        names, attributes = self._items
        sizes: tuple[tuple[int, int | None], ...]
        if isinstance(law.size, int):
            baskets, sizes = self.counter.baskets((self._reported,)), ((law.size, None),)
        else:
            held = np.flatnonzero(self.counter.count((law.size,)))
            cells = _each_of(law.size, held)
            baskets = self.counter.baskets((self._reported, cells))
            sizes = tuple((int(size), len(names) + place) for place, size in enumerate(held))
        return PartialSupports(
            names, attributes, self.rows, baskets, law.votes, sizes, law.cutoff, self.copies
        )

    @property
    def _reported(self) -> Items:
        items = self.mechanism.private_reports.attributes[0]
        assert isinstance(items, Items)
        return items

    @cached_property
    def _items(self) -> tuple[tuple[str, ...], NDArray[Any]]:
        """The names of the reported items, then of the public columns' values; and the attribute of
        each.
        """
        names = self._reported.labels
        attributes = np.arange(len(names))
        if not self.domain.private.baskets:
            attributes = np.repeat(
                np.arange(len(self.domain.private)), [a.size for a in self.domain.private]
            )
        for place, part in enumerate(self._public, len(names)):
            names = (*names, *(f"{part.name}={label}" for label in part.labels))
            attributes = np.r_[attributes, np.full(part.size, place)]
        return names, attributes

    @cached_property
    def _public(self) -> list[Cells]:
        return [self.cells(attribute.name) for attribute in self.domain if attribute.public]


def _each_of(cells: Cells, held: NDArray[Any]) -> Cells:
    """The partition into these cells, each on its own, and all others."""
    group = np.full(cells.size, len(held))
    group[held] = np.arange(len(held))
    labels = (*(cells.labels[place] for place in held), "other")
    return Cells(cells.attribute, labels, group[cells.group].astype(np.intp), cells.starts)


def _no_mechanism() -> EstimationError:
    return EstimationError(
        "this table carries no mechanism, so it is not a release",
        hint="use Exact for true records",
    )


@checked
def perturb(
    records: Any,
    mechanism: Mechanism,
    rng: Keystream | None = None,
    *,
    copies: int = 1,
    keep_order: bool = False,
) -> Release:
    """The release of these records by this mechanism, the noise drawn once, from secure randomness
    unless told otherwise, and in a random order unless that of the records is to be kept.

    Records are a table; a data frame or a file is read by the mechanism's domain.
    """
    if isinstance(records, Release):
        records = records.table
    table = records if isinstance(records, Table) else read(records, mechanism.domain)
    return Release.of(perturb_table(table, mechanism, rng, copies=copies, keep_order=keep_order))


def source_of(table: Table) -> Source:
    """The source that a table is: a release if it carries its mechanism, else the truth."""
    return Exact(TableCounter.of(table)) if table.provenance is None else Release.of(table)


@checked
def open(path: str | Path) -> Release:
    """The release that a perturbed file holds.

    >>> from tempfile import TemporaryDirectory
    >>> from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
    >>> table = read({"smoker": ["no", "no", "yes", "no"] * 5})
    >>> release = perturb(table, GammaDiagonal(table.domain, 19))
    >>> with TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/blurred.parquet")
    ...     open(f"{folder}/blurred.parquet").mechanism.guarantee
    Guarantee(gamma=19)
    """
    return Release.of(read_perturbed(path))
