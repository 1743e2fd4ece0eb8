"""Neighbours: whether a report, or the coin behind it, depends on another person's record or on
another column.

Given all truths, what chance left of a row is independent of every truth; so its sum over the rows
whose neighbour holds some value must be as near to 0 as its variance says.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.agreement import MOST_COLUMNS, Agreements
from sfumato.audit.paired import Paired, cells_of, judged_cells
from sfumato.audit.reported_baskets import BasketFit
from sfumato.audit.reported_records import report_test
from sfumato.audit.score import Check, Floats, ScoreTest
from sfumato.bits import Bits
from sfumato.domain import Cells

MOST_ROWS = 1 << 18  # rows looked at: a dependence that matters shows in so many
WHOSE = {-1: "the record before", 0: "the person's own", 1: "the record after"}


def neighbour_check(paired: Paired, found: Agreements | None) -> Check:
    """Whether what chance left goes with the record before, the record after, or another column."""
    tests = _basket_tests(paired) if paired.in_baskets else _record_tests(paired, found)
    return Check.of("what is reported of a person depends on no other person's record", tests)


def _shifted(rows: int, apart: int) -> tuple[slice, slice]:
    """Rows, and the rows so far from them."""
    if apart >= 0:
        return slice(0, max(rows - apart, 0)), slice(apart, rows)
    return slice(-apart, rows), slice(0, max(rows + apart, 0))


def _record_tests(paired: Paired, found: Agreements | None) -> Iterator[ScoreTest]:
    """Every column of the record before, of the person's own and of the record after."""
    rows = min(paired.release.rows, MOST_ROWS)
    columns = paired.columns[:MOST_COLUMNS] if paired.in_place else ()
    traits = [(c.cells, c.truth) for c in columns] or [
        (judged_cells(attribute), cells_of(judged_cells(attribute), column))
        for attribute, column in zip(paired.private, paired.truths, strict=True)
        if not isinstance(column, Bits)
    ]
    for apart in WHOSE if columns else (-1, 1):
        here, there = _shifted(rows, apart * paired.copies)
        for cells, truth in traits:
            yield from _trait_tests(paired, found, apart, here, cells, truth[there])


def _trait_tests(
    paired: Paired,
    found: Agreements | None,
    apart: int,
    rows: slice,
    trait: Cells,
    held: NDArray[np.intp],
) -> Iterator[ScoreTest]:
    """Sums over the rows whose neighbour holds a value: of what chance left of agreement, and of
    how often each value is reported.
    """
    words = [f"{WHOSE[apart]} '{trait.name}' being {label}" for label in trait.labels]

    def sums(values: Floats) -> Floats:
        return np.asarray(np.bincount(held, values[rows], trait.size), dtype=np.float64)

    for one in found.scores if found is not None else ():
        # A person's own truth decides whether the same column agrees.
        if apart or one.name not in ("whole records", f"'{trait.name}'"):
            yield one.test(sums, [f"whether {one.name} is true depends on {w}" for w in words])
    for column in paired.columns[:MOST_COLUMNS] if paired.in_place and apart else ():
        labels = column.cells.labels
        where = [
            f"'{column.name}' being reported as {label} depends on {w}"
            for label in labels
            for w in words
        ]
        test = report_test(paired, [column], where, rows=rows, classes=held, count=trait.size)
        if test is not None:
            yield test


def _basket_tests(paired: Paired) -> Iterator[ScoreTest]:
    """The same for baskets: flips and reported items beside the items of the basket before and
    after.
    """
    items = BasketFit(paired).first_rows(paired.most_frequent(MOST_COLUMNS), MOST_ROWS)
    names = items.names
    for apart in (-1, 1):
        here, there = _shifted(len(items.truth), apart * paired.copies)
        truth, variance = items.truth[there], items.variance[here]
        for what, left in (("flipped", items.flips[here]), ("reported", items.left[here])):
            words = [
                f"whether '{own}' is {what} depends on {WHOSE[apart]} holding '{other}'"
                for own in names
                for other in names
            ]
            yield ScoreTest.sums(left.T @ truth, variance.T @ truth, words)
