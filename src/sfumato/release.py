"""Release: perturbed records and how they were made; and true records, asked in the same words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels import Channel, Retain
from sfumato.counting import Counter
from sfumato.counting.in_memory import TableCounter
from sfumato.domain import Cells, Domain, Items
from sfumato.errors import EstimationError, Unanswerable, listing
from sfumato.estimation.supports.flipped import FlippedSupports
from sfumato.estimation.supports.partial import PartialSupports
from sfumato.estimation.supports.supports import Supports
from sfumato.estimation.supports.symbols import SymbolSupports
from sfumato.mechanisms.base import Mechanism, channel_over
from sfumato.observation import CutLaw, FlipLaw, Observation, SymbolLaw
from sfumato.randomness import Keystream
from sfumato.renderers.html import MOST_LINES
from sfumato.result import Tabular
from sfumato.source import MINED_TABLE, CountedSource, Source
from sfumato.table import Provenance, Table, perturb_table, read, read_perturbed, save
from sfumato.view import View


@checked
@dataclass(frozen=True, eq=False)
class Exact(CountedSource, Tabular):
    """True records: every answer is a count, every standard error 0."""

    counter: TableCounter

    def __init__(self, records: Table | TableCounter) -> None:
        counter = TableCounter(records) if isinstance(records, Table) else records
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
            counter = TableCounter(counter)
        if provenance is None:
            raise _no_mechanism()
        object.__setattr__(self, "counter", counter)
        object.__setattr__(self, "provenance", provenance)

    @classmethod
    def of(cls, table: Table) -> Release:
        """The release that a perturbed table in memory is."""
        if table.provenance is None:
            raise _no_mechanism()
        return cls(TableCounter(table), table.provenance)

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
        return channel_over(self.mechanism, [self.domain.axis(name)])

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
        parts = (count, np.sqrt(variance), np.sqrt(own) / left, kept)
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
    return Exact(TableCounter(table)) if table.provenance is None else Release.of(table)


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
