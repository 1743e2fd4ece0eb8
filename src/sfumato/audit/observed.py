"""Reports in other columns than the records: judged by their tallies and by their likelihoods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.check import Check, counted, worst_of
from sfumato.audit.paired import Paired, judged_cells
from sfumato.bits import Bits
from sfumato.counting.tables import TableCounter
from sfumato.domain import Attribute, Cells, Columns, Items
from sfumato.errors import Unanswerable
from sfumato.mechanisms.base import Mechanism

MOST_COLUMNS = 24  # columns judged one by one and in neighbouring pairs
MOST_SETS = 32  # of columns that single reports speak of
MOST_TRUTHS = 64  # the most frequent true cells, whose reports are judged apart
LEAST_ROWS = 50  # a true cell with fewer reports is not judged on its own
FEW_REPORTS = 2048  # possible reports up to which they are looked at as they are
MOST_ITEMS = 16  # of one basket alone, of which it is seen whether a report speaks for them
BINS = 64  # steps of a likelihood ratio that are told apart

Floats = NDArray[np.float64]


def observed_checks(paired: Paired) -> list[Check]:
    """Whether reports, true cell by true cell, are tallied as the observation says."""
    columns = [part for a in paired.private for part in _judged(a)][:MOST_COLUMNS]
    questions: list[Sequence[Cells]] = [(part,) for part in columns]
    if paired.mechanism.together is None:
        questions += pairwise(columns)
    else:
        sets = [names for names in paired.mechanism.together if len(names) > 1]
        questions += [
            [judged_cells(paired.private[name]) for name in names] for names in sets[:MOST_SETS]
        ]
    found = (_tally_check(paired, cells) for cells in questions)
    return [check for check in found if check is not None]


def _judged(attribute: Attribute) -> list[Cells]:
    """The cells that a column is judged by; of baskets each item on its own."""
    if isinstance(attribute, Items):
        return [attribute.item_cells(item) for item in attribute.labels[:MOST_COLUMNS]]
    return [judged_cells(attribute)]


def _tally_check(paired: Paired, cells: Sequence[Cells]) -> Check | None:
    try:
        seen = paired.mechanism.observe(cells)
    except Unanswerable:
        return None
    truth = _true_cells(paired, seen.cells)
    if truth is None:
        return None
    names = " and ".join(f"'{part.name}'" for part in cells)
    values: list[Floats] = []
    details: list[str] = []
    shape, closed = seen.channel.inputs, seen.channel.closed
    entries = int(np.prod(seen.channel.outputs))
    judged = np.arange(entries) if closed is None else np.flatnonzero(closed.ravel())
    if not judged.size:
        return None
    sizes = np.bincount(truth, minlength=int(np.prod(shape)))
    for cell in np.argsort(-sizes, kind="stable")[:MOST_TRUTHS]:
        if sizes[cell] < LEAST_ROWS:
            break
        rows = np.flatnonzero(truth == cell)
        tally = seen.tally.count(TableCounter.of(paired.release.take(rows)))
        place = np.unravel_index(int(cell), shape)
        chances = _column_of(seen.channel, shape, place)
        mean, variance = len(rows) * chances, len(rows) * chances * (1 - chances)
        p_values = counted(tally.ravel(), len(rows), mean, variance)
        impossible = (chances <= 1e-12) & (tally.ravel() > 0)
        values.append(np.where(impossible, 0.0, p_values)[judged])
        details += [f"true cell {cell + 1}, entry {entry + 1}" for entry in judged]
    if not values:
        return None
    return worst_of(f"reports of {names} follow their channel", np.concatenate(values), details)


def _column_of(channel: Any, shape: tuple[int, ...], place: tuple[Any, ...]) -> Floats:
    """The expected tally of one true cell: probabilities, as each entry counts a report at most
    once.
    """
    one = np.zeros(shape)
    one[place] = 1
    return np.clip(np.asarray(channel.apply(one)).ravel(), 0.0, 1.0)


def _true_cells(paired: Paired, cells: Sequence[Cells]) -> NDArray[np.intp] | None:
    """The true cell of each report; None where the observation holds columns of the
    reports only.
    """
    names = paired.mechanism.domain.names
    if any(part.attribute.name not in names for part in cells):
        return None
    codes = []
    for part in cells:
        column = paired.repeated(part.attribute.name)
        codes.append(np.asarray(part.assign(column)).astype(np.intp))
    return np.ravel_multi_index(tuple(codes), tuple(part.size for part in cells))


def ratio_view(
    mechanism: Mechanism, first: Columns, second: Columns, left: Columns, right: Columns
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.intp], int]]:
    """What tells two records apart best: how much likelier a report is under one than the other."""
    private = [place for place, a in enumerate(mechanism.domain) if not a.public]
    if any(isinstance(mechanism.domain.attributes[place], Items) for place in private):
        yield from _symbol_views(mechanism, private, first, second, left, right)
        return
    cells = [mechanism.domain.attributes[place].cells() for place in private]
    within = [
        np.eye(part.size)[[int(np.asarray(record[place])[0]) for record in (first, second)]]
        for part, place in zip(cells, private, strict=True)
    ]
    try:
        logs = [mechanism.likelihood(part, cells, within) for part in (left, right)]
    except Unanswerable:
        return
    ratios = [np.round(each[:, 0] - each[:, 1], 6) for each in logs]
    steps = np.unique(np.concatenate(ratios))
    if len(steps) > BINS:
        steps = np.quantile(steps, np.linspace(0, 1, BINS))
    codes = [np.searchsorted(steps, each).clip(0, len(steps) - 1) for each in ratios]
    yield "how much likelier the report is under either record", codes[0], codes[1], len(steps)


def _symbol_views(
    mechanism: Mechanism,
    private: Sequence[int],
    first: Columns,
    second: Columns,
    left: Columns,
    right: Columns,
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.intp], int]]:
    """What tells two baskets apart that are reported as something else: the report itself where few
    are possible, else how many of the items of either basket alone it speaks for.
    """
    sizes = [attribute.size for attribute in mechanism.private_reports]
    places = [mechanism.reports.index(attribute.name) for attribute in mechanism.private_reports]
    if math.prod(sizes) <= FEW_REPORTS:
        joint = [
            np.ravel_multi_index(tuple(np.asarray(part[p]).astype(np.intp) for p in places), sizes)
            for part in (left, right)
        ]
        yield "the whole report", joint[0], joint[1], math.prod(sizes)
    for place in private:
        attribute = mechanism.domain.attributes[place]
        if not isinstance(attribute, Items):
            continue
        bits = [record[place] for record in (first, second)]
        one, other = (each.to_dense()[0] for each in bits if isinstance(each, Bits))
        own, others = (np.flatnonzero(each)[:MOST_ITEMS] for each in (one & ~other, other & ~one))
        codes = [
            _spoken_for(mechanism, part, attribute, own) * (len(others) + 1)
            + _spoken_for(mechanism, part, attribute, others)
            for part in (left, right)
        ]
        size = (len(own) + 1) * (len(others) + 1)
        yield "how many items of either basket the report speaks for", codes[0], codes[1], size


def _spoken_for(
    mechanism: Mechanism, reports: Columns, attribute: Items, items: NDArray[np.intp]
) -> NDArray[np.intp]:
    """How many of these items each report makes likelier."""
    found = np.zeros(len(np.asarray(reports[0])), dtype=np.intp)
    for item in items.tolist():
        try:
            logs = mechanism.likelihood(reports, [attribute.item_cells(attribute.labels[item])])
        except Unanswerable:
            continue
        found += logs[:, 1] > logs[:, 0]
    return found


def report_tables(
    paired: Paired,
) -> Iterator[tuple[NDArray[np.int64], list[str], list[str]]]:
    """Counts of (report, true value) for each column of reports and each private column."""
    for attribute, column in zip(paired.release.domain, paired.release.columns, strict=True):
        if attribute.public:
            continue
        shown = _shown(attribute, column)
        for place, private in enumerate(paired.private):
            for cells in _judged(private):
                truth = np.asarray(cells.assign(paired.truths[place])).astype(np.intp)
                values = [f"{cells.name}={label}" for label in cells.labels]
                for names, codes in shown:
                    flat = np.bincount(
                        codes * cells.size + truth, minlength=len(names) * cells.size
                    )
                    yield flat.reshape(len(names), cells.size), names, values


def _shown(attribute: Any, column: Any) -> list[tuple[list[str], NDArray[np.intp]]]:
    """A column of reports as codes with names: a bit an item, or its own values."""
    if isinstance(column, Bits):
        items = attribute.labels[:MOST_TRUTHS]
        return [
            ([f"no {label}", label], column.column(item).astype(np.intp))
            for item, label in enumerate(items)
        ]
    return [(list(attribute.labels), np.asarray(column).astype(np.intp))]
