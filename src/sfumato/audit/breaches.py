"""Breaches: beliefs that a report raised further than promised, found by counting who really holds
what was reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.observed import report_tables
from sfumato.audit.paired import Paired
from sfumato.privacy.guarantee import Guarantee

SHOWN = 5  # breaches named
RECORDS = 64  # possible records of which beliefs about whole ones are looked at


@dataclass(frozen=True)
class Breach:
    """A value, how common it is, and how common it is among those with one kind of report."""

    value: str
    report: str
    prior: float
    posterior: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "report": self.report,
            "prior": self.prior,
            "posterior": self.posterior,
        }


@dataclass(frozen=True)
class Breaches:
    """What was found of beliefs at most rho1 before that are at least rho2 after, and of beliefs
    beyond the promise.
    """

    rho1: float
    rho2: float
    ruled_out: bool  # whether the guarantee of one report rules a rho1-to-rho2 breach out
    found: int
    beyond: int  # beliefs that certainly exceed what gamma allows for their prior
    examples: tuple[Breach, ...]

    @property
    def violated(self) -> bool:
        return self.beyond > 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "rho1": self.rho1,
            "rho2": self.rho2,
            "ruled_out": self.ruled_out,
            "found": self.found,
            "beyond_promise": self.beyond,
            "examples": [example.to_dict() for example in self.examples],
        }


def least_shares(held: NDArray[Any], reported: NDArray[Any], level: float) -> NDArray[np.float64]:
    """The share that counts out of so many reports are sure to come from but once in 1/level
    (Clopper and Pearson).
    """
    from scipy.special import betaincinv

    low = betaincinv(np.maximum(held, 1), reported - held + 1, level)
    return np.where(held > 0, low, 0.0)


def breaches(paired: Paired, rho1: float, rho2: float, *, false_alarm: float = 1e-3) -> Breaches:
    """Count who holds each value among those whose report has each value, with lower bounds that
    hold for all at once.
    """
    guarantee = paired.mechanism.guarantee
    tables = list(_tables(paired))
    level = false_alarm / max(1, sum(table.counts.size for table in tables))
    found, beyond, examples = 0, 0, []
    for table in tables:
        reported = table.counts.sum(axis=1, keepdims=True)
        prior = np.broadcast_to(table.prior, table.counts.shape)
        held = table.counts
        low = least_shares(held, reported, level)
        sure = (prior <= rho1) & (low >= rho2)
        most = _worst_posteriors(guarantee, prior)
        past = low > most
        found, beyond = found + int(sure.sum()), beyond + int(past.sum())
        for report, value in np.argwhere(sure | past)[:SHOWN]:
            share = float(held[report, value] / reported[report, 0])
            examples.append(
                Breach(
                    table.values[value], table.reports[report], float(prior[report, value]), share
                )
            )
    examples.sort(key=lambda breach: breach.prior - breach.posterior)
    ruled_out = guarantee.gamma <= Guarantee.from_breach(rho1, rho2).gamma
    return Breaches(rho1, rho2, ruled_out, found, beyond, tuple(examples[:SHOWN]))


@dataclass(frozen=True, eq=False)
class _Table:
    """How many rows of each report hold each value."""

    counts: NDArray[np.int64]  # (reports, values)
    prior: NDArray[np.float64]  # (values,)
    reports: list[str]
    values: list[str]

    @classmethod
    def of(cls, report: NDArray[Any], truth: NDArray[Any], labels: list[str]) -> _Table:
        size = len(labels)
        counts = np.bincount(report * size + truth, minlength=size * size).reshape(size, size)
        return cls(counts, counts.sum(axis=0) / counts.sum(), labels, labels)


def _tables(paired: Paired) -> Iterator[_Table]:
    if paired.in_baskets:
        yield from _item_tables(paired)
        return
    if not paired.in_place:
        for counts, reports, values in report_tables(paired):
            yield _Table(counts, counts.sum(axis=0) / max(int(counts.sum()), 1), reports, values)
        return
    for column in paired.columns:
        labels = [f"{column.name}={label}" for label in column.cells.labels]
        yield _Table.of(column.report, column.truth, labels)
    sizes = [column.cells.size for column in paired.columns]
    if len(sizes) > 1 and math.prod(sizes) <= RECORDS:
        yield _whole_table(paired, sizes)


def _whole_table(paired: Paired, sizes: list[int]) -> _Table:
    """Beliefs about whole records, which a mechanism for whole records raises furthest."""
    columns = paired.columns
    words = ([f"{c.name}={label}" for label in c.cells.labels] for c in columns)
    report = np.ravel_multi_index(tuple(c.report.astype(np.intp) for c in columns), sizes)
    truth = np.ravel_multi_index(tuple(c.truth.astype(np.intp) for c in columns), sizes)
    return _Table.of(report, truth, [", ".join(each) for each in product(*words)])


def _item_tables(paired: Paired) -> Iterator[_Table]:
    truth, report = paired.true_baskets, paired.reported_baskets
    both = np.bitwise_count(truth.words & report.words).sum(axis=1, dtype=np.int64)
    ones, shown = truth.counts(), report.counts()
    for item, label in enumerate(paired.mechanism.private_reports.attributes[0].labels):
        held = np.array([[ones[item] - both[item]], [both[item]]])
        reported = np.array([[truth.rows - shown[item]], [shown[item]]])
        counts = np.concatenate([held, reported - held], axis=1)
        yield _Table(
            counts, counts.sum(axis=0) / truth.rows, [f"no {label}", label], [label, f"no {label}"]
        )


def _worst_posteriors(guarantee: Guarantee, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """γρ/(γρ + 1 - ρ) for every prior ρ, a hair above it against rounding."""
    held = prior * np.exp(min(guarantee.epsilon, 700.0))
    with np.errstate(invalid="ignore"):
        return np.where(prior > 0, held / (held + 1 - prior), 1.0) + 1e-12
