"""Twins: the same records perturbed again by the mechanism that the file names, beside which its
reports are judged.

For reports that live in other columns than the records (one question of many, a hashed symbol, a
number on a wider scale) there is no "same value" to agree on. A report agrees with a record's value
if no other value makes it likelier; how often it should, drawing again tells. Given the truths a
row less the mean of its twins has mean 0 exactly, whatever the mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.agreement import MOST_COLUMNS, MOST_NUMBERS, Agreement, Agreements
from sfumato.audit.check import Check, bounded, worst_log
from sfumato.audit.paired import Paired, judged_cells
from sfumato.bits import Bits
from sfumato.domain import Attribute, Cells, Columns, Items, as_bits
from sfumato.errors import SfumatoError, Unanswerable
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.registry import from_spec
from sfumato.randomness import Keystream

TWINS = 8
JOINT_CELLS = 256  # possible records up to which a report is held against whole records
REPORT_CELLS = 4096  # values of a report's column that are counted one by one
SURELY = 5.0  # standard errors by which an estimated probability is raised to be a bound
FEWEST_DRAWS = 1000  # of a group, for its share to say anything
ROUNDING = 1e-9

Floats = NDArray[np.float64]


def sound(mechanism: Mechanism) -> Mechanism:
    """The mechanism that this one's description names: what a file promises is that, whatever code
    wrote it.
    """
    try:
        return from_spec(mechanism.spec())
    except SfumatoError:
        return mechanism


@dataclass(frozen=True, eq=False)
class Twins:
    """A release and, row beside row, fresh reports of the same records."""

    paired: Paired
    rng: Keystream

    @cached_property
    def draws(self) -> list[Columns]:
        """The release first, then its twins."""
        mechanism, copies = sound(self.paired.mechanism), self.paired.copies
        again = np.repeat(np.arange(self.paired.people), copies)
        truth = self.paired.truth.take(again).columns if copies > 1 else self.paired.truth.columns
        most = max(1, min(TWINS, 4 * MOST_NUMBERS // self.paired.release.rows))
        twins = [mechanism.perturb(truth, self.rng) for _ in range(most)]
        return [self.paired.release.columns, *twins]

    @property
    def more(self) -> float:
        """How much the twins' own chance adds to the variance: 1 + 1/twins."""
        return 1 + 1 / (len(self.draws) - 1)

    def agreements(self) -> Agreements | None:
        """Column by column, and all that a report speaks of at once; None if it speaks of none."""
        parts, whole = [], None
        for cells in self._cells():
            try:
                flags = [self._agrees(reports, [cells]) for reports in self.draws]
            except Unanswerable:
                continue
            parts.append(self._series(f"'{cells.name}'", [agree for agree, _ in flags], cells))
            right = [agree | ~speaks for agree, speaks in flags]
            whole = right if whole is None else [a & b for a, b in zip(whole, right, strict=True)]
        if whole is None:
            return None
        joint = self._joint() or whole
        staying = np.full(len(joint[0]), self._likeliest(joint[1:]))
        return Agreements(
            self._series("whole reports", joint, None), tuple(parts), joint[0], staying
        )

    def _likeliest(self, twins: list[NDArray[np.bool_]]) -> float:
        """At least the probability of agreeing, whoever the person is: the largest share among the
        holders of any value, and some standard errors.
        """
        agree = np.mean(twins, axis=0)
        groups = [np.zeros(len(agree), dtype=np.intp), *(self._truth(c) for c in self._cells())]
        most = 0.0
        for group in groups:
            draws = np.bincount(group) * len(twins)
            large = draws >= FEWEST_DRAWS
            share = np.bincount(group, agree)[large] * len(twins) / draws[large]
            above = share + SURELY * np.sqrt(share * (1 - share) / draws[large])
            most = max(most, float(above.max(initial=0.0)))
        return min(1.0, most) if most else 1.0

    def _series(self, name: str, flags: list[NDArray[np.bool_]], cells: Cells | None) -> Agreement:
        mean = np.mean(flags[1:], axis=0)
        group = np.zeros(len(mean), dtype=np.intp) if cells is None else self._truth(cells)
        counts = np.bincount(group)
        share = (np.bincount(group, mean) / np.maximum(counts, 1))[group]
        return Agreement(name, flags[0].astype(np.float64), mean, self.more * share * (1 - share))

    def _agrees(
        self, reports: Columns, cells: list[Cells]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether no value makes each report likelier than the true one, and whether it says
        anything.
        """
        shape = tuple(part.size for part in cells)
        truth = np.ravel_multi_index(tuple(self._truth(part) for part in cells), shape)
        shares = np.bincount(truth, minlength=int(np.prod(shape))) / len(truth)
        logs = self.paired.mechanism.likelihood(reports, cells, shares=shares)
        top = logs.max(axis=1)
        speaks = top - logs.min(axis=1) > ROUNDING
        own = np.take_along_axis(logs, truth[:, None], axis=1)[:, 0]
        return speaks & (own >= top - ROUNDING), speaks

    def _joint(self) -> list[NDArray[np.bool_]] | None:
        """The same of whole records, where there are few."""
        private = self.paired.private
        items = any(axis.item is not None for axis in private.axes)
        if private.cells > JOINT_CELLS or items:
            return None
        cells = [attribute.cells() for attribute in private]
        try:
            return [self._agrees(reports, cells)[0] for reports in self.draws]
        except Unanswerable:
            return None

    def _truth(self, cells: Cells) -> NDArray[np.intp]:
        column = self.paired.truths[self.paired.private.index(cells.attribute.name)]
        return np.asarray(cells.assign(column)).astype(np.intp)

    def _cells(self) -> Iterator[Cells]:
        """The columns of the records, and the items most frequent in them, that are followed."""
        left = MOST_COLUMNS
        for place, attribute in enumerate(self.paired.private):
            if not isinstance(attribute, Items):
                yield judged_cells(attribute)
                left -= 1
                continue
            column = as_bits(self.paired.truths[place])
            for item in np.argsort(-column.counts(), kind="stable")[: max(left, 1)]:
                yield attribute.item_cells(attribute.labels[item])

    def residuals(self) -> Floats:
        """A random score of each report less the mean of its twins' scores."""
        totals = np.zeros((len(self.draws), self.paired.release.rows))
        for place, attribute in enumerate(self.paired.mechanism.reports):
            if attribute.public:
                continue
            weights = self.rng.random(attribute.size) - 0.5
            for total, draw in zip(totals, self.draws, strict=True):
                total += _scored(draw[place], weights)
        return np.asarray(totals[0] - totals[1:].mean(axis=0))

    def count_check(self) -> Check:
        """Whether every kind of report comes as often as the mechanism makes it of these records,
        whichever report is whose.
        """
        rows, logs, words = self.paired.release.rows, [], []
        for place, attribute in enumerate(self.paired.mechanism.reports):
            if attribute.public:
                continue
            labels, counts = _counts(attribute, [draw[place] for draw in self.draws])
            share = counts.mean(axis=0) / rows
            spread = rows * share * (1 - share) * self.more
            logs.append(bounded(counts[0] - counts[1:].mean(axis=0), spread))
            words += [f"'{attribute.name}' being {label}" for label in labels]
        return worst_log(
            "every kind of report comes as often as the mechanism makes it of these records",
            np.concatenate(logs),
            len(words),
            lambda place: words[place],
        )


def _scored(column: Any, weights: Floats) -> Floats:
    if isinstance(column, Bits):
        return np.asarray(column.to_dense() @ weights)
    return weights[np.asarray(column)]


def _counts(
    attribute: Attribute, columns: list[Any]
) -> tuple[tuple[str, ...], NDArray[np.int64]]:  # (columns, values)
    """How often each value of a report's column, or item of a basket, comes in each draw."""
    if isinstance(attribute, Items):
        return attribute.labels, np.stack([column.counts() for column in columns])
    cells = attribute.cells() if attribute.size <= REPORT_CELLS else judged_cells(attribute)
    codes = [np.asarray(cells.assign(column)).astype(np.intp) for column in columns]
    return cells.labels, np.stack([np.bincount(code, minlength=cells.size) for code in codes])
