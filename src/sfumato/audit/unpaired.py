"""Unpaired: what can be checked of a release whose order is secret, from the counts of the truth
alone.

Each report is drawn by its own record, so the number of reports of a kind is a sum of independent
events whose probabilities the truth gives, whichever report belongs to whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.baskets import CHUNK, BasketFit
from sfumato.audit.check import Check, bounded, two_sided, worst_log, worst_of
from sfumato.audit.fitting import WholeRecords
from sfumato.audit.paired import Paired, PairedColumn
from sfumato.audit.twins import Twins
from sfumato.channels import NotLumpableError
from sfumato.randomness import Keystream

MOST_COLUMNS = 24
MOST_CELLS = 512  # of two columns together
JUDGED_ITEMS = 64
SCORES = 16

LEFT_OUT = (
    "which record a report came from is secret, and the order was not given (--order), so this "
    "audit leaves out: attacks and breaches, whether reports follow the channel record by record, "
    "and whether rows, neighbours and coins are independent"
)

Floats = NDArray[np.float64]


def unpaired_checks(paired: Paired, rng: Keystream) -> list[Check]:
    """The checks that need no pairing of reports and records."""
    if paired.in_baskets:
        return _basket_checks(paired)
    if not paired.in_place:
        return [Twins(paired, rng).count_check()]
    checks = list(_column_checks(paired))
    whole = WholeRecords.of(paired)
    if whole is not None:
        checks.append(_whole_check(whole, rng))
    if paired.copies > 1:
        checks += _sibling_checks(paired)
    return checks


def _column_checks(paired: Paired) -> Iterator[Check]:
    columns = list(paired.columns[:MOST_COLUMNS])
    for column in columns:
        logs = _count_logs(paired, [column])
        if logs is not None:
            yield worst_log(
                f"'{column.name}' is reported as often as the counts of the truth say",
                logs,
                logs.size,
                partial(_reported_as, column.cells.labels),
            )
    found = [
        (f"'{a.name}' and '{b.name}'", logs)
        for a, b in combinations(columns, 2)
        if a.cells.size * b.cells.size <= MOST_CELLS
        and (logs := _count_logs(paired, [a, b])) is not None
    ]
    if found:
        least = [float(logs.min()) for _, logs in found]
        yield worst_log(
            "pairs of columns are reported as often as the counts of the truth say",
            least,
            sum(logs.size for _, logs in found),
            lambda place: found[place][0],
        )


def _reported_as(labels: Sequence[str], place: int) -> str:
    return f"as {labels[place]}"


def _count_logs(paired: Paired, columns: list[PairedColumn]) -> Floats | None:
    """How often each combination is reported, less how often it should be."""
    shape = tuple(column.cells.size for column in columns)
    try:
        channel = paired.channel_over([column.axis for column in columns])
        channel = channel.coarsen([column.cells for column in columns])
    except NotLumpableError:
        return None
    truth, report = (
        np.bincount(np.ravel_multi_index(codes, shape), minlength=int(np.prod(shape)))
        for codes in (
            tuple(column.truth for column in columns),
            tuple(column.report for column in columns),
        )
    )
    if not channel.settled:
        channel = channel.settle(truth.reshape(shape))
    dense = channel.to_dense()
    return bounded(report - dense @ truth, (dense * (1 - dense)) @ truth)


def _whole_check(whole: WholeRecords, rng: Keystream) -> Check:
    """Random scores of whole reports, added up: their mean and variance follow from the counts of
    the truth.
    """
    scores = rng.random(whole.cells * SCORES).reshape(whole.cells, SCORES) - 0.5
    counts = np.bincount(whole.truth, minlength=whole.cells)
    means = whole.expected(scores)
    variance = counts @ np.maximum(whole.expected(scores**2) - means**2, 0.0)
    found = np.bincount(whole.report, minlength=whole.cells) @ scores
    shift = found - counts @ means
    return worst_of(
        "whole records are reported as the counts of the truth say",
        two_sided(shift / np.sqrt(np.maximum(variance, 1e-12))),
    )


def _sibling_checks(paired: Paired) -> list[Check]:
    """Whether the first two reports of a person are equal as often as independent ones are."""
    names, logs = [], []
    for column in paired.columns[:MOST_COLUMNS]:
        try:
            channel = paired.channel_over([column.axis]).coarsen([column.cells])
        except NotLumpableError:
            continue
        truth = np.bincount(column.truth[:: paired.copies], minlength=column.cells.size)
        if not channel.settled:
            channel = channel.settle(truth)
        equal = (channel.to_dense() ** 2).sum(axis=0)  # of two reports, for each truth
        same = column.report[:: paired.copies] == column.report[1 :: paired.copies]
        names.append(column.name)
        logs.append(bounded(same.sum() - truth @ equal, truth @ (equal * (1 - equal))))
    if not logs:
        return []
    name = "reports of one person are equal no more often than by chance"
    return [worst_log(name, logs, len(logs), lambda place: f"'{names[place]}'")]


def _basket_checks(paired: Paired) -> list[Check]:
    fit = BasketFit(paired)
    labels = paired.mechanism.private_reports.attributes[0].labels
    items = np.argsort(-fit.truth.counts(), kind="stable")[:JUDGED_ITEMS]
    names = [labels[item] for item in items]
    found, mean, alone = _joint_reports(fit, items)
    singles = bounded(np.diagonal(found) - np.diagonal(mean), alone)
    checks = [
        worst_log(
            "every item is reported as often as the counts of the truth say",
            singles,
            len(items),
            lambda place: f"item '{names[place]}'",
        )
    ]
    first, second = np.triu_indices(len(items), 1)
    if len(first):
        pairs = bounded((found - mean)[first, second], mean[first, second])
        checks.append(
            worst_log(
                "items are reported together as often as the counts of the truth say",
                pairs,
                len(pairs),
                lambda place: f"'{names[first[place]]}' and '{names[second[place]]}'",
            )
        )
    return checks


def _joint_reports(fit: BasketFit, items: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Of every two items: how often both are reported, how often they should be; and the variance
    of each item alone.
    """
    count = len(items)
    found, mean, alone = np.zeros((count, count)), np.zeros((count, count)), np.zeros(count)
    truth, report = fit.truth.select(items), fit.report.select(items)
    ones, zeros, pairs = fit.law.ones[items], fit.law.zeros[items], fit.law.pairs
    for start in range(0, truth.rows, CHUNK):
        stop = min(start + CHUNK, truth.rows)
        true = truth.slice(start, stop).to_dense().astype(np.float64)
        shown = report.slice(start, stop).to_dense().astype(np.float64)
        sizes = fit.sizes[start:stop]
        place = sizes if ones.shape[1] > 1 else np.zeros(len(sizes), dtype=np.intp)
        chance = np.where(true > 0, ones[:, place].T, zeros)
        tied = pairs[sizes] if len(pairs) > 1 else np.zeros(len(sizes))
        found += shown.T @ shown
        mean += chance.T @ chance + (true * tied[:, None]).T @ true
        alone += (chance * (1 - chance)).sum(axis=0)
        # An item meets itself with its own probability, not with its square.
        mean[np.diag_indices(count)] += (chance * (1 - chance) - true * tied[:, None]).sum(axis=0)
    return found, mean, alone
