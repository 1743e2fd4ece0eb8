"""Neighbours: whether a report, or the coin behind it, depends on another person's record or on
another column.

Given all truths, what chance left of a row is independent of every truth; so its sum over the rows
whose neighbour holds some value must be as near to 0 as its variance says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.agreement import Agreements
from sfumato.audit.baskets import BasketFit
from sfumato.audit.check import Check, bounded, worst_log
from sfumato.audit.coins import Flips
from sfumato.audit.paired import Paired, PairedColumn, judged_cells
from sfumato.bits import Bits
from sfumato.channels import NotLumpableError
from sfumato.domain import Attribute, Codes

MOST_ROWS = 1 << 18  # rows looked at: a dependence that matters shows in so many
MOST_COLUMNS = 24

Floats = NDArray[np.float64]
NAME = "what is reported of a person depends on no other person's record"
WORDS = {-1: "the record before", 0: "the person's own", 1: "the record after"}


@dataclass(frozen=True, eq=False)
class Trait:
    """What a row's truth holds, cell by cell."""

    name: str
    cells: NDArray[np.intp]
    labels: tuple[str, ...]


def neighbour_check(paired: Paired, found: Agreements | None) -> Check:
    """Whether what chance left goes with the record before, the record after, or another column."""
    if paired.in_baskets:
        return _basket_check(paired)
    logs: list[Floats] = []
    words: list[Callable[[int], str]] = []
    for part, describe in _record_sums(paired, found):
        logs.append(part.ravel())
        words.append(describe)
    sizes = np.array([len(part) for part in logs], dtype=np.intp)

    def detail(place: int) -> str:
        which = int(np.searchsorted(np.cumsum(sizes), place, side="right"))
        return words[which](place - int(sizes[:which].sum()))

    return worst_log(NAME, np.concatenate(logs) if logs else [], float(sizes.sum()), detail)


def _record_sums(
    paired: Paired, found: Agreements | None
) -> Iterator[tuple[Floats, Callable[[int], str]]]:
    """Logarithms of p-values, and what each is about."""
    rows = min(paired.release.rows, MOST_ROWS)
    columns = list(paired.columns[:MOST_COLUMNS]) if paired.in_place else []
    traits = [Trait(c.name, c.truth[:rows], c.cells.labels) for c in columns] or [
        _trait(attribute, column, rows)
        for attribute, column in zip(paired.private, paired.truths, strict=True)
        if not isinstance(column, Bits)
    ]
    for apart in WORDS if columns else (-1, 1):
        here, there = _shifted(rows, apart * paired.copies)
        for trait in traits:
            cells = trait.cells[there]
            for one in found.series if found is not None else ():
                # A person's own truth decides whether the same column agrees.
                if apart or one.name not in ("whole records", f"'{trait.name}'"):
                    sums, spread = (
                        np.bincount(cells, values[:rows][here], len(trait.labels))
                        for values in (one.left, one.variance)
                    )
                    yield (
                        bounded(sums, spread, one.most, one.least),
                        _words(f"whether {one.name} is true", trait, apart),
                    )
            if apart:
                for column in columns:
                    yield from _report_sums(paired, column, trait, (here, there), apart)


def _trait(attribute: Attribute, column: Codes, rows: int) -> Trait:
    cells = judged_cells(attribute)
    return Trait(attribute.name, np.asarray(cells.assign(column[:rows])), cells.labels)


def _shifted(rows: int, apart: int) -> tuple[slice, slice]:
    """Rows, and the rows so far from them."""
    if apart >= 0:
        return slice(0, max(rows - apart, 0)), slice(apart, rows)
    return slice(-apart, rows), slice(0, max(rows + apart, 0))


def _words(what: str, trait: Trait, apart: int) -> Callable[[int], str]:
    return lambda cell: (
        f"{what} depends on {WORDS[apart]} '{trait.name}' being {trait.labels[cell]}"
    )


def _report_sums(
    paired: Paired, column: PairedColumn, trait: Trait, places: tuple[slice, slice], apart: int
) -> Iterator[tuple[Floats, Callable[[int], str]]]:
    """The values reported of a column, by the neighbour's value of a trait: counts less their means
    given the row's own truth.
    """
    try:
        channel = paired.channel_over([column.axis]).coarsen([column.cells])
    except NotLumpableError:
        return
    if not channel.settled:
        channel = channel.settle(np.bincount(column.truth, minlength=column.cells.size))
    dense, here, there = channel.to_dense(), *places
    size, traits = column.cells.size, len(trait.labels)
    report, truth = column.report[: len(trait.cells)][here], column.truth[: len(trait.cells)][here]
    other = trait.cells[there]
    counts = np.bincount(report * traits + other, minlength=size * traits).reshape(size, traits)
    joint = np.bincount(truth * traits + other, minlength=size * traits).reshape(size, traits)
    logs = bounded(counts - dense @ joint, (dense * (1 - dense)) @ joint)
    yield (
        logs,
        lambda place: (
            f"'{column.name}' being reported as {column.cells.labels[place // traits]} depends on "
            f"{WORDS[apart]} '{trait.name}' being {trait.labels[place % traits]}"
        ),
    )


def _basket_check(paired: Paired) -> Check:
    """The same for baskets: flips and reported items beside the items of the basket before and
    after.
    """
    fit = BasketFit(paired)
    flips = Flips.of(fit, np.argsort(-fit.truth.counts(), kind="stable")[:MOST_COLUMNS], MOST_ROWS)
    logs, words = [], []
    for apart in (-1, 1):
        here, there = _shifted(flips.rows, apart * paired.copies)
        truth = flips.truth[there]
        for what, left in (
            ("flipped", flips.left[here]),
            ("reported", flips.left[here] * flips.sign[here]),
        ):
            logs.append(bounded(left.T @ truth, flips.variance[here].T @ truth))
            words.append((what, apart))
    size, names = len(flips.names), flips.names

    def detail(place: int) -> str:
        which, pair = divmod(place, size * size)
        what, apart = words[which]
        return (
            f"whether '{names[pair // size]}' is {what} depends on {WORDS[apart]} holding "
            f"'{names[pair % size]}'"
        )

    values = np.concatenate([part.ravel() for part in logs])
    return worst_log(NAME, values, len(values), detail)
