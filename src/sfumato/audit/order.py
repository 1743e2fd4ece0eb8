"""Order: whether the place of a report in the file says anything about the record behind it.

A file sorted by what it should hide, published in that order, gives it away whatever the noise: the
reports of neighbours average to their truths. This needs no truth to be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.check import Check, bounded, worst_log
from sfumato.audit.paired import Paired, judged_cells
from sfumato.audit.position import stretches
from sfumato.bits import Bits

MOST_ITEMS = 24  # items of a basket that are followed
NEXT = 8  # distances at which neighbours may be alike
FEWEST = 64  # rows below which nothing is said

Floats = NDArray[np.float64]


def report_order_check(paired: Paired) -> Check:
    """Whether what is reported in any stretch of the file, or of near neighbours, differs from what
    is reported in all of it, as a random order would not have it.
    """
    name = "the order of the reports says nothing about the records"
    people = paired.people
    if people < FEWEST:
        return Check(name, 1.0, "too few rows to tell")
    starts, stops = stretches(people)
    logs: list[Floats] = []
    words: list[str] = []
    for what, shown in _shown(paired):
        left = shown - shown.mean()
        spread = float(shown.mean() * (1 - shown.mean()))
        if spread > 0:
            logs.append(_stretch_logs(left, spread, starts, stops))
            logs.append(_neighbour_logs(left, spread))
            words.append(what)
    size = len(starts) + NEXT

    def detail(place: int) -> str:
        which, where = divmod(place, size)
        if where >= len(starts):
            return f"{words[which]}, reports {where - len(starts) + 1} apart"
        return f"{words[which]}, rows {starts[where] + 1:,} to {stops[where]:,}"

    values = np.concatenate(logs) if logs else np.zeros(0)
    return worst_log(name, values, values.size, detail)


def _stretch_logs(
    left: Floats, spread: float, starts: NDArray[np.intp], stops: NDArray[np.intp]
) -> Floats:
    """Drawn without replacement, as a random order draws a stretch, sums deviate less than of
    independent terms (Hoeffding 1963).
    """
    sums = np.append(0.0, np.cumsum(left))
    return bounded(sums[stops] - sums[starts], spread * (stops - starts))


def _neighbour_logs(left: Floats, spread: float) -> Floats:
    products = [float(left[:-apart] @ left[apart:]) for apart in range(1, NEXT + 1)]
    return bounded(np.array(products), spread**2 * len(left))


def _shown(paired: Paired) -> Iterator[tuple[str, Floats]]:
    """What the first report of each person shows of every private column, value by value."""
    reports = paired.mechanism.private_reports
    for attribute in reports:
        column: Any = paired.release.column(attribute.name)
        if isinstance(column, Bits):
            for item in np.argsort(-column.counts(), kind="stable")[:MOST_ITEMS]:
                values = column.column(int(item))[:: paired.copies]
                yield f"item '{attribute.labels[item]}'", values.astype(np.float64)
            continue
        cells = judged_cells(attribute)
        codes = np.asarray(cells.assign(column))[:: paired.copies]
        for code, label in enumerate(cells.labels):
            yield f"'{attribute.name}' reported as {label}", (codes == code).astype(np.float64)


def permutation_check(order: NDArray[np.int64]) -> Check:
    """Whether the secret order itself is one that chance would draw: no neighbours left together,
    no stretch left in its place.
    """
    from scipy.special import pdtrc

    name = "the order of the reports was drawn by chance"
    rows = len(order)
    if rows < FEWEST:
        return Check(name, 1.0, "too few rows to tell")
    together = int((np.abs(np.diff(order)) == 1).sum())
    starts, stops = stretches(rows)
    place = order / (rows - 1) - 0.5  # uniform: variance 1/12
    sums = np.append(0.0, np.cumsum(place))
    # Records that stayed near their place: its product with the new one, on average 0.
    moved = float(place @ (np.arange(rows) / (rows - 1) - 0.5))
    logs = np.concatenate(
        [
            [float(np.log(max(pdtrc(together - 1, 2.0), 1e-300))) if together else 0.0],
            bounded([moved], [rows / 144], 0.25, 0.25),
            bounded(sums[stops] - sums[starts], (stops - starts) / 12, 0.5, 0.5),
        ]
    )

    def detail(which: int) -> str:
        if which < 2:
            return (
                f"{together:,} neighbours of the truth are neighbours still",
                "records stand near their old place",
            )[which]
        return f"rows {starts[which - 2] + 1:,} to {stops[which - 2]:,} come from one part"

    return worst_log(name, logs, len(logs), detail)
