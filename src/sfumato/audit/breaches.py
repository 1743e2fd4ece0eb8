"""Breaches: beliefs that a report raised further than promised, found by counting who really holds
what was reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.limits import FEW_CELLS
from sfumato.audit.paired import Paired, cells_of
from sfumato.audit.resampled import judged_parts
from sfumato.bits import Bits
from sfumato.privacy.guarantee import Guarantee
from sfumato.renderers.frames import json_value


@dataclass(frozen=True)
class Breach:
    """A value, how common it is, and how common it is among those with one kind of report."""

    value: str
    report: str
    prior: float
    posterior: float


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
            "examples": json_value(self.examples),
        }


def least_shares(held: NDArray[Any], reported: NDArray[Any], level: float) -> NDArray[np.float64]:
    """The share that counts out of so many reports are sure to come from but once in 1/level
    (Clopper and Pearson).
    """
    from scipy.special import betaincinv

    low = betaincinv(np.maximum(held, 1), reported - held + 1, level)
    return np.where(held > 0, low, 0.0)


def breaches(
    paired: Paired, rho1: float, rho2: float, *, false_alarm: float = 1e-3, named: int = 5
) -> Breaches:
    """Count who holds each value among those whose report has each value, with lower bounds that
    hold for all at once.
    """
    guarantee = paired.mechanism.guarantee
    tables = list(_tables(paired))
    level = false_alarm / max(1, sum(table.counts.size for table in tables))
    found, beyond, examples = 0, 0, []
    for table in tables:
        reported, prior = table.counts.sum(axis=1, keepdims=True), table.prior
        low = least_shares(table.counts, reported, level)
        sure = (prior <= rho1) & (low >= rho2)
        past = low > _worst_posteriors(guarantee, prior)
        found, beyond = found + int(sure.sum()), beyond + int(past.sum())
        for place in map(tuple, np.argwhere(sure | past)[:named]):
            words = table.values[place[1]], table.reports[place[0]]
            share = float(table.counts[place] / reported[place[0], 0])
            examples.append(Breach(*words, float(prior[place]), share))
    examples.sort(key=lambda breach: breach.prior - breach.posterior)
    ruled_out = guarantee.gamma <= Guarantee.from_breach(rho1, rho2).gamma
    return Breaches(rho1, rho2, ruled_out, found, beyond, tuple(examples[:named]))


@dataclass(frozen=True, eq=False)
class _Table:
    """How many rows of each report hold each value."""

    counts: NDArray[np.int64]  # (reports, values)
    reports: Sequence[str]
    values: Sequence[str]

    @classmethod
    def of(
        cls,
        report: NDArray[Any],
        truth: NDArray[Any],
        reports: Sequence[str],
        values: Sequence[str],
    ) -> _Table:
        shape = len(reports), len(values)
        counts = np.bincount(report * shape[1] + truth, minlength=shape[0] * shape[1])
        return cls(counts.reshape(shape), reports, values)

    @property
    def prior(self) -> NDArray[np.float64]:
        """How common each value is, whatever is reported; of shape (reports, values) too."""
        shares = self.counts.sum(axis=0) / max(int(self.counts.sum()), 1)
        return np.broadcast_to(shares, self.counts.shape)


def _tables(paired: Paired) -> Iterator[_Table]:
    if paired.in_baskets:
        yield from _item_tables(paired)
        return
    if not paired.in_place:
        yield from _report_tables(paired)
        return
    columns = paired.columns
    labels = [[f"{c.name}={label}" for label in c.cells.labels] for c in columns]
    for column, values in zip(columns, labels, strict=True):
        yield _Table.of(column.report, column.truth, values, values)
    sizes = [column.cells.size for column in columns]
    if len(sizes) > 1 and math.prod(sizes) <= FEW_CELLS:
        # Beliefs about whole records, which a mechanism for whole records raises furthest.
        report, truth = (
            np.ravel_multi_index(tuple(codes), sizes)
            for codes in ([c.report for c in columns], [c.truth for c in columns])
        )
        records = [", ".join(each) for each in product(*labels)]
        yield _Table.of(report, truth, records, records)


def _item_tables(paired: Paired) -> Iterator[_Table]:
    truth, report = paired.true_baskets, paired.reported_baskets
    both = np.bitwise_count(truth.words & report.words).sum(axis=1, dtype=np.int64)
    ones, shown = paired.true_items, report.counts()
    held = np.stack([ones - both, both], axis=1)  # (items, not reported or reported)
    reported = np.stack([truth.rows - shown, shown], axis=1)
    counts = np.stack([held, reported - held], axis=2)
    for label, table in zip(paired.item_names, counts, strict=True):
        yield _Table(table, (f"no {label}", label), (label, f"no {label}"))


def _report_tables(paired: Paired) -> Iterator[_Table]:
    """Each column of reports, or item of a basket, beside each private column."""
    for attribute, column in zip(paired.release.domain, paired.release.columns, strict=True):
        if attribute.public:
            continue
        shown: list[tuple[Sequence[str], NDArray[Any]]]
        if isinstance(column, Bits):
            items = enumerate(attribute.labels[:FEW_CELLS])
            shown = [((f"no {label}", label), column.column(item)) for item, label in items]
        else:
            shown = [(attribute.labels, np.asarray(column))]
        for private, truths in zip(paired.private, paired.truths, strict=True):
            for cells in judged_parts(private):
                truth = cells_of(cells, truths)
                values = [f"{cells.name}={label}" for label in cells.labels]
                for reports, codes in shown:
                    yield _Table.of(codes.astype(np.intp), truth, reports, values)


def _worst_posteriors(guarantee: Guarantee, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """γρ/(γρ + 1 - ρ) for every prior ρ, a hair above it against rounding."""
    held = prior * np.exp(min(guarantee.epsilon, 700.0))
    with np.errstate(invalid="ignore"):
        return np.where(prior > 0, held / (held + 1 - prior), 1.0) + 1e-12
