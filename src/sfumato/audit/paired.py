"""Paired: a release and the truth it was made from, row beside row, checked to belong together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import shown
from sfumato.audit.limits import FEW_CELLS
from sfumato.bits import Bits
from sfumato.channels import Channel
from sfumato.channels.channel import has_known_laws
from sfumato.domain import Attribute, Cells, Columns, Domain, Items, Numeric, as_bits
from sfumato.errors import DataError, ParameterError, SchemaError, listing
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import as_baskets, reported_items
from sfumato.table import Provenance, Table


@dataclass(frozen=True, eq=False)
class Paired:
    """The reports and the records behind them; where each record has several reports, it is
    repeated beside each.
    """

    release: Table
    truth: Table  # over the mechanism's domain, one row a person
    in_order: bool = True  # whether a record stands beside its own reports

    @classmethod
    def of(cls, release: Table, truth: Table, order: NDArray[np.int64] | None = None) -> Paired:
        """The pair, refused where the truth cannot be that of the release.

        `order` says which record of the truth each record, or each report, of the release is.
        Without it those of a shuffled release are not brought together.
        """
        if release.provenance is None:
            raise DataError(
                "the release carries no mechanism, so there is no promise to audit",
                hint="audit a perturbed file",
            )
        if truth.provenance is not None:
            raise DataError("the truth was itself perturbed", hint="give the true records")
        people = release.rows // release.copies
        if truth.rows != people or not people:
            raise _stranger(
                f"it holds {truth.rows:,} records, and the release was made from {people:,}"
            )
        known = _recoded(truth, release.provenance.mechanism.domain)
        in_order = order is not None or not release.provenance.shuffled
        if order is not None:
            known = known.take(_of_people(order, people, release.copies))
        paired = cls(release, known, in_order)
        paired._check_public()
        return paired

    def _check_public(self) -> None:
        for attribute in self.mechanism.domain:
            if attribute.public:
                here = np.asarray(self.repeated(attribute.name))
                there = np.asarray(self.release.column(attribute.name))
                if not self.in_order:
                    here, there = np.sort(here), np.sort(there)
                different = int((here != there).sum())
                if different:
                    raise _stranger(
                        f"public column '{attribute.name}' differs in {different:,} of "
                        f"{self.release.rows:,} rows"
                    )

    @property
    def provenance(self) -> Provenance:
        assert self.release.provenance is not None
        return self.release.provenance

    @property
    def mechanism(self) -> Mechanism:
        return self.provenance.mechanism

    @property
    def in_baskets(self) -> bool:
        """Whether the reports are baskets of items."""
        return reports_baskets(self.mechanism)

    @property
    def in_place(self) -> bool:
        """Whether every private column is reported as itself, in its own domain."""
        return self.mechanism.private_reports == self.private

    @property
    def copies(self) -> int:
        return self.release.copies

    @property
    def people(self) -> int:
        """How many records the release was made from."""
        return self.truth.rows

    @cached_property
    def private(self) -> Domain:
        return self.mechanism.domain.private

    @cached_property
    def truths(self) -> Columns:
        """The private columns of the truth, one row a report."""
        return tuple(self.repeated(attribute.name) for attribute in self.private)

    def repeated(self, name: str) -> Any:
        """A column of the truth, one row a report."""
        column: Any = self.truth.column(name)
        return column if self.copies == 1 else column.repeat(self.copies)

    @cached_property
    def true_baskets(self) -> Bits:
        """The truth as baskets of report items, for mechanisms that report items."""
        return as_baskets(self.truths, self.private)

    @cached_property
    def reported_baskets(self) -> Bits:
        """The reported baskets, for mechanisms that report items."""
        return reported_items(self.mechanism, self.release.columns)

    @cached_property
    def true_items(self) -> NDArray[np.int64]:
        """In how many true baskets each report item is."""
        return np.asarray(self.true_baskets.counts())

    @property
    def item_names(self) -> tuple[str, ...]:
        """The items that reports hold, for mechanisms that report items."""
        return self.mechanism.private_reports.attributes[0].labels

    def most_frequent(self, most: int) -> NDArray[np.intp]:
        """The report items that most people have."""
        return np.argsort(-self.true_items, kind="stable")[:most]

    @cached_property
    def columns(self) -> tuple[PairedColumn, ...]:
        """The axes of a mechanism that reports every column in its own domain: attributes, or the
        most frequent items.
        """
        chosen: list[int] = []
        for place, attribute in enumerate(self.private):
            every = enumerate(self.private.axes)
            axes = [number for number, axis in every if axis.attribute is attribute]
            if isinstance(attribute, Items):
                counts = as_bits(self.truths[place]).counts()
                axes = [axes[item] for item in np.argsort(-counts, kind="stable")[:FEW_CELLS]]
            chosen += axes
        return tuple(self._column(axis) for axis in chosen)

    def _column(self, axis: int) -> PairedColumn:
        described = self.private.axes[axis]
        attribute = described.attribute
        reports = self.release.column(attribute.name)
        truth = self.truths[self.private.index(attribute.name)]
        if isinstance(attribute, Items):
            cells = attribute.item_cells(described.name)
        else:
            cells = judged_cells(attribute)
        agree = _codes(truth, described.item) == _codes(reports, described.item)
        return PairedColumn(axis, cells, cells_of(cells, truth), cells_of(cells, reports), agree)

    def codes(self, axes: Sequence[int]) -> list[NDArray[np.intp]]:
        """The true codes of a few private axes, one row a report."""
        described = [self.private.axes[axis] for axis in axes]
        places = [self.private.index(each.attribute.name) for each in described]
        pairs = zip(places, described, strict=True)
        return [_codes(self.truths[at], each.item).astype(np.intp) for at, each in pairs]

    def channel_over(self, axes: Sequence[int]) -> Channel:
        """The channel of a few private axes; one that replaces by the column's own distribution
        has it read off the truth.
        """
        channel = self.mechanism.private_channel_over(axes)
        if has_known_laws(channel):
            return channel
        shape = tuple(self.private.axes[axis].size for axis in axes)
        joint = np.ravel_multi_index(tuple(self.codes(axes)), shape)
        return channel.settle(np.bincount(joint, minlength=math.prod(shape)).reshape(shape))

    def channel_of(self, columns: Sequence[PairedColumn]) -> Channel:
        """The channel of a few columns' cells, as they are judged."""
        channel = self.channel_over([column.axis for column in columns])
        return channel.coarsen([column.cells for column in columns])

    @property
    def numbered(self) -> bool:
        """Whether whole records have a number: none of their columns is a basket."""
        return all(axis.item is None for axis in self.private.axes)

    def records(self, columns: Iterable[Any]) -> NDArray[np.intp]:
        """The numbers of whole records, from their private columns."""
        codes = tuple(np.asarray(column).astype(np.intp) for column in columns)
        return np.ravel_multi_index(codes, self.private.shape)

    def reported(self, release: Table) -> NDArray[np.intp]:
        """The numbers of whole reports, of a mechanism that reports columns as themselves."""
        return self.records(release.column(name) for name in self.private.names)


@dataclass(frozen=True, eq=False)
class PairedColumn:
    """One axis: its cells as they are judged, the true and the reported cell of each row, and
    whether the values agree.
    """

    axis: int
    cells: Cells
    truth: NDArray[Any]
    report: NDArray[Any]
    agree: NDArray[np.bool_]

    @property
    def name(self) -> str:
        return self.cells.name


def reports_baskets(mechanism: Mechanism) -> bool:
    """Whether a mechanism's reports are baskets and nothing else: flipped items, or
    cut-and-paste.
    """
    return mechanism.item_law is not None


def judged_cells(attribute: Attribute) -> Cells:
    """Every value of a column, or a few even groups of them where there are many."""
    if attribute.size <= FEW_CELLS:
        return attribute.cells()
    parts = FEW_CELLS // 2
    if isinstance(attribute, Numeric):
        width = (attribute.max - attribute.min) / parts
        return attribute.cells_by_cuts([attribute.min + width * part for part in range(1, parts)])
    group = (np.arange(attribute.size) % parts).astype(np.intp)
    return Cells(attribute, tuple(f"group {part + 1}" for part in range(parts)), group)


def cells_of(cells: Cells, column: Any) -> NDArray[np.intp]:
    """The cell of each row."""
    return np.asarray(cells.assign(column)).astype(np.intp)


def _codes(column: Any, item: int | None) -> NDArray[Any]:
    return np.asarray(column) if item is None else as_bits(column).column(item)


def _recoded(truth: Table, domain: Domain) -> Table:
    missing = [name for name in domain.names if name not in truth.domain]
    if missing:
        raise _stranger(
            f"it has no column '{missing[0]}' (its columns are {listing(truth.domain.names)})"
        )
    try:
        return truth.recode(domain)
    except (DataError, SchemaError) as error:
        raise _stranger(str(error)) from None


def _stranger(found: str) -> DataError:
    return DataError(
        f"this truth does not belong to the release: {found}",
        hint=(
            "give the very records that were perturbed, in their order, and for shuffled reports "
            "the order that perturb wrote (--order)"
        ),
    )


def _of_people(order: NDArray[np.int64], people: int, copies: int) -> NDArray[np.int64]:
    """The record behind each person of the release, from one entry a person or one a report."""
    if not isinstance(order, np.ndarray) or order.ndim != 1:
        raise ParameterError(
            f"order={shown(order)} is no order of records", hint="give the file that --order wrote"
        )
    each = order[::copies] if len(order) == people * copies else order
    if len(each) != people or not np.array_equal(np.sort(each), np.arange(people)):
        raise _stranger(f"an order of {len(order):,} is no order of {people:,} records")
    return each
