"""Source: true records or a release of perturbed ones, asked in the same words; the only thing the
tasks see.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.channels import Channel, NotLumpableError, Retain
from sfumato.counting.arrays import ArrayCounter, JoinedCounter
from sfumato.counting.base import Baskets, Counter
from sfumato.counting.parts import Part, Parts
from sfumato.domain import Cells, Domain, Numeric
from sfumato.errors import EstimationError, ParameterError
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import CountEvidence, Evidence, MergedEvidence, RowEvidence
from sfumato.estimation.moments import PowerSums, moments_of
from sfumato.estimation.supports.base import Supports
from sfumato.estimation.supports.flipped import FlippedSupports
from sfumato.estimation.supports.partial import PartialSupports
from sfumato.estimation.supports.tabulated import TabulatedSupports
from sfumato.estimation.supports.voted import VotedSupports
from sfumato.mechanisms.base import Mechanism
from sfumato.randomness import Keystream
from sfumato.table import Provenance, Table, perturb_table, read, read_perturbed, save

MINED_TABLE = (
    1 << 16
)  # exact records over at most this many cells are mined from their table, others from bitmaps


class Source(ABC):
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

    @abstractmethod
    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        """The reconstructed counts of these cells."""

    def marginal(self, columns: Sequence[str | Cells]) -> Estimate:
        """The reconstructed counts over these columns: attributes, items, or partitions of them.

        A number is cut at its default cuts unless a partition of it is given.
        """
        return self._estimate(self._question(columns))

    def marginals(self, questions: Sequence[Sequence[str | Cells]]) -> list[Estimate]:
        """The reconstructed counts of several marginals, from one scan of the reports where the
        engine can.
        """
        return self._estimates([self._question(columns) for columns in questions])

    def _question(self, columns: Sequence[str | Cells]) -> tuple[Cells, ...]:
        if isinstance(columns, str):
            raise ParameterError(f"columns must be a list; use ['{columns}']")
        cells = tuple(
            column if isinstance(column, Cells) else self.cells(column) for column in columns
        )
        names = [part.name for part in cells]
        if not names or len(set(names)) < len(names):
            raise ParameterError(f"a marginal is over one or more different columns; found {names}")
        return cells

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        """The reconstructed counts of several sets of cells; overridden where they can share a
        scan.
        """
        return [self._estimate(cells) for cells in questions]

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
        axis = self.domain.axes[self.domain.axis(name)]
        attribute = self.domain.attributes[axis.attribute]
        if isinstance(attribute, Numeric) and attribute.cuts:
            return attribute.cells_by_cuts(attribute.cuts)
        return self.domain.cells_of(name)


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

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        return self.whole.coarsen(cells)

    def cells(self, name: str) -> Cells:
        return self.whole.cells[self.whole.names.index(name)]


class CountedSource(Source):
    """A source whose rows are counted and undone through a channel, wherever the rows are."""

    @property
    @abstractmethod
    def _counter(self) -> Counter:
        """Whoever counts the rows."""

    def moments(self, cells: Sequence[Cells], axis: int) -> PowerSums:
        fine = self._fine_channel(cells[axis].name)
        return moments_of(
            self._counter,
            tuple(cells),
            axis,
            self._channel(tuple(cells)),
            fine,
            self.rows,
            self._copies,
        )

    @abstractmethod
    def _channel(self, cells: tuple[Cells, ...]) -> Channel:
        """The channel over these cells."""

    @abstractmethod
    def _fine_channel(self, name: str) -> Channel:
        """The channel over every value of one column."""

    @property
    def _copies(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class TableSource(CountedSource):
    """A source whose rows are in memory; `earlier` is the source that this one extends, whose
    counts are used again.
    """

    table: Table
    earlier: Self | None = field(default=None, repr=False)

    def extended(self, batch: Table) -> Self:
        """This source with a batch of new rows; what was counted before is not counted again."""
        return replace(self, table=Table.concatenate([self.table, batch]), earlier=self)

    @cached_property
    def _latest(self) -> Table:
        """The rows that the earlier source does not have."""
        return (
            self.table.slice(self.earlier.table.rows, self.table.rows)
            if self.earlier
            else self.table
        )

    @cached_property
    def _counter(self) -> Counter:
        latest = ArrayCounter(self.table.domain, self._latest.columns)
        return JoinedCounter((self.earlier._counter, latest)) if self.earlier else latest

    @cached_property
    def _baskets(self) -> Parts:
        """The rows as bits, one an item."""
        latest = self._bits_of(self._latest)
        return self.earlier._baskets.extended(latest) if self.earlier else Parts((Part(latest),))

    @abstractmethod
    def _bits_of(self, table: Table) -> Bits:
        """Some rows as bits, one an item."""


@dataclass(frozen=True, eq=False)
class Exact(TableSource):
    """True records: every answer is a count, every standard error 0."""

    @property
    def domain(self) -> Domain:
        return self.table.domain

    @property
    def rows(self) -> int:
        return self.table.rows

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        return self._estimates([cells])[0]

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        tables = self._counter.count_many(questions)
        return [self._counted(cells, table) for cells, table in zip(questions, tables, strict=True)]

    def _counted(self, cells: tuple[Cells, ...], table: NDArray[Any]) -> Estimate:
        return Estimate(cells, self.rows, CountEvidence(table, self._channel(cells)))

    def _channel(self, cells: tuple[Cells, ...]) -> Channel:
        return Retain.identity([part.size for part in cells])

    def _fine_channel(self, name: str) -> Channel:
        return Retain.identity([self.domain[name].size])

    def supports(self) -> Supports:
        if self.domain.baskets:
            return FlippedSupports(self._baskets, self.domain.attributes[0].labels)
        columns = tuple(self.cells(axis.name) for axis in self.domain.axes)
        small = math.prod(part.size for part in columns) <= MINED_TABLE
        if small or len(columns) > len(
            self.domain
        ):  # baskets beside other columns have an axis an item
            return TabulatedSupports(
                columns,
                self.rows,
                (self.condensed(columns) if small else self).marginal,
                exact=True,
            )
        names = tuple(f"{part.name}={label}" for part in columns for label in part.labels)
        attributes = np.repeat(np.arange(len(columns)), [part.size for part in columns])
        return FlippedSupports(self._baskets, names, attributes=attributes)

    @property
    def _columns(self) -> tuple[Cells, ...]:
        return tuple(self.cells(name) for name in self.domain.names)

    def _bits_of(self, table: Table) -> Bits:
        if self.domain.baskets:
            return _bits(table.columns[0])
        parts = zip(self._columns, table.columns, strict=True)
        return Bits.stack([_one_hot(part.assign(column), part.size) for part, column in parts])


class PerturbedSource(CountedSource):
    """A source of reports: counts are undone through the channel of the mechanism that
    made them.
    """

    @property
    @abstractmethod
    def provenance(self) -> Provenance:
        """How the reports were made."""

    @abstractmethod
    def _row_evidence(self, cells: tuple[Cells, ...]) -> Evidence:
        """The evidence of reports that cannot be counted cell by cell."""

    @abstractmethod
    def _votes(self, items: Sequence[int]) -> NDArray[Any]:  # (reports,)
        """Each report's vote on whether its record holds all these items, for reports that are
        baskets.
        """

    @property
    @abstractmethod
    def _baskets(self) -> Baskets:
        """Whoever counts itemsets among the reports, the public columns' values being items too."""

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that made the reports."""
        return self.provenance.mechanism

    @property
    def copies(self) -> int:
        """How many reports each record made."""
        return self.provenance.copies

    @property
    def _copies(self) -> int:
        return self.copies

    @property
    def domain(self) -> Domain:
        return self.mechanism.domain

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        return Estimate(cells, self.rows, self._evidence(cells), self.copies)

    def _evidence(self, cells: tuple[Cells, ...]) -> Evidence:
        if self.mechanism.reports_in_items:
            return self._row_evidence(cells)
        try:
            return CountEvidence(self._counter.count(cells), self._channel(cells))
        except NotLumpableError:
            return self._merged_evidence(cells)

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        try:
            channels = [self._channel(cells) for cells in questions]
        except NotLumpableError:
            return super()._estimates(questions)
        if self.mechanism.reports_in_items:
            return super()._estimates(questions)
        counted = zip(questions, self._counter.count_many(questions), channels, strict=True)
        return [
            Estimate(cells, self.rows, CountEvidence(table, channel), self.copies)
            for cells, table, channel in counted
        ]

    def _channel(self, cells: tuple[Cells, ...]) -> Channel:
        return self.mechanism.channel_over([self.domain.axis(part.name) for part in cells]).coarsen(
            cells
        )

    def _fine_channel(self, name: str) -> Channel:
        return self.mechanism.channel_over([self.domain.axis(name)])

    def _merged_evidence(self, cells: tuple[Cells, ...]) -> Evidence:
        """Reconstruct every cell of the domain, then merge: for matrices whose marginals are no
        channels of their own.
        """
        every = tuple(self.domain.cells_of(axis.name) for axis in self.domain.axes)
        fine = CountEvidence(self._counter.count(every), self.mechanism.channel)
        return MergedEvidence.over(fine, [self.domain.axis(part.name) for part in cells], cells)

    def supports(self) -> Supports:
        if self.mechanism.item_keeps is not None:
            return self._flipped_supports(*self.mechanism.item_keeps)
        if self.mechanism.reports_in_items:
            return self._voted_supports()
        columns = tuple(self.cells(axis.name) for axis in self.domain.axes)
        if self.domain.baskets:
            raise EstimationError(f"{self.mechanism.name} gives no supports of items")
        small = math.prod(part.size for part in columns) <= MINED_TABLE
        return TabulatedSupports(
            columns, self.rows, (self.condensed(columns) if small else self).marginal, exact=False
        )

    def _flipped_supports(self, keep_ones: NDArray[Any], keep_zeros: NDArray[Any]) -> Supports:
        names, attributes = self._items
        extra = np.ones(len(names) - len(keep_ones))  # public columns are reported as they are
        keeps = np.r_[keep_ones, extra], np.r_[keep_zeros, extra]
        return FlippedSupports(self._baskets, names, *keeps, attributes, self.copies)

    def _voted_supports(self) -> Supports:
        names, attributes = self._items
        facts: dict[str, Any] = {"copies": self.copies, "longest": self.mechanism.longest_itemset}
        if self.mechanism.number_votes(1) is not None and not self._public:
            facts |= {"baskets": self._baskets, "weights": self.mechanism.number_votes}
            return PartialSupports(names, attributes, self.rows, self._votes, **facts)
        return VotedSupports(names, attributes, self.rows, self._votes, **facts)

    @cached_property
    def _items(self) -> tuple[tuple[str, ...], NDArray[Any]]:
        """The names of the reported items, then of the public columns' values; and the attribute of
        each.
        """
        names = self.mechanism.private_reports.attributes[0].labels
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


@dataclass(frozen=True, eq=False)
class Release(TableSource, PerturbedSource):
    """Perturbed records and the mechanism that made them: answers are reconstructed and carry their
    standard errors.
    """

    def __post_init__(self) -> None:
        if self.table.provenance is None:
            raise EstimationError(
                "this table carries no mechanism, so it is not a release",
                hint="use Exact for true records",
            )

    @property
    def provenance(self) -> Provenance:
        """How the table was perturbed."""
        assert self.table.provenance is not None
        return self.table.provenance

    @property
    def rows(self) -> int:
        return self.table.rows // self.copies

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the reports with their mechanism; `sfumato.open` reads them back."""
        save(self.table, path, force=force)

    def _row_evidence(self, cells: tuple[Cells, ...]) -> Evidence:
        """For mechanisms that report items: a cell is the set of its values' items, and each report
        votes on it.
        """
        shape = tuple(part.size for part in cells)

        def contribution(cell: int) -> NDArray[Any]:
            places = [int(place) for place in np.unravel_index(cell, shape)]
            terms = [
                self._terms(part, place)
                for part, place in zip(cells, places, strict=True)
                if not part.attribute.public
            ]
            votes = np.zeros(self.table.rows)
            for choice in product(*terms):
                items = [item for term in choice for item in term.items]
                sign = math.prod(term.sign for term in choice)
                votes += sign * (
                    self.mechanism.item_votes(self.table.columns, items) if items else 1.0
                )
            for part, place in zip(cells, places, strict=True):
                if part.attribute.public:
                    votes *= (
                        part.assign(self.table.columns[self.table.domain.index(part.name)]) == place
                    )
            return votes

        return RowEvidence(shape, contribution)

    def _terms(self, cells: Cells, place: int) -> list[_Term]:
        """The report items whose presence adds up to one cell: its values, or for a missing item
        everyone less its holders.
        """
        if cells.item is not None:
            return [_Term(1, (cells.item,))] if place else [_Term(1, ()), _Term(-1, (cells.item,))]
        items = self.mechanism.private_reports.attributes[0]
        labels = np.array(cells.attribute.labels)[cells.group == place]
        return [_Term(1, (items.code(f"{cells.attribute.name}={label}"),)) for label in labels]

    def _votes(self, items: Sequence[int]) -> NDArray[Any]:
        inside, result = self.mechanism.private_reports.attributes[0].size, np.ones(self.table.rows)
        private = [item for item in items if item < inside]
        if private:
            result = self.mechanism.item_votes(self.table.columns, private)
        for item in items:
            if item >= inside:
                result = result * self._all_bits.column(item)
        return result

    @cached_property
    def _all_bits(self) -> Bits:
        return self._bits_of(self.table)

    def _bits_of(self, table: Table) -> Bits:
        items = self.mechanism.private_reports.attributes[0]
        public = [
            _one_hot(part.assign(table.column(part.name)), part.size) for part in self._public
        ]
        return Bits.stack([_bits(table.column(items.name)), *public])


class _Term(NamedTuple):
    """Items that must all be present, counted with a sign."""

    sign: int
    items: tuple[int, ...]


def perturb(
    records: Any, mechanism: Mechanism, rng: Keystream | None = None, *, copies: int = 1
) -> Release:
    """The release of these records by this mechanism, the noise drawn once, from secure randomness
    unless told otherwise.

    Records are a table; a data frame or a file is read by the mechanism's domain.
    """
    if isinstance(records, Release):
        records = records.table
    table = records if isinstance(records, Table) else read(records, mechanism.domain)
    return Release(perturb_table(table, mechanism, rng, copies=copies))


def source_of(table: Table) -> Source:
    """The source that a table is: a release if it carries its mechanism, else the truth."""
    return Exact(table) if table.provenance is None else Release(table)


def open(path: str | Path) -> Release:
    """The release that a perturbed file holds."""
    return Release(read_perturbed(path))


def _one_hot(codes: NDArray[Any], size: int) -> Bits:
    """One bit a value."""
    return Bits.from_csr(np.arange(len(codes) + 1), codes.astype(np.int32), size)


def _bits(column: Any) -> Bits:
    assert isinstance(column, Bits)
    return column
