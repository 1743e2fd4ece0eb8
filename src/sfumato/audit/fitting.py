"""Goodness of fit: whether the reports, given the truth, are distributed as the mechanism's channel
says.

These are the tests that catch a mechanism that leaves a column as it is, keeps a little too often,
or draws columns together that should be apart. Each is exact given the truth, so no assumption
about the people is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.check import Check, counted, fit, two_sided, worst_of
from sfumato.audit.paired import Paired, PairedColumn
from sfumato.channels import Channel, NotLumpableError
from sfumato.domain import as_bits
from sfumato.randomness import Keystream

JOINT_CELLS = 1 << 16  # whole records are scored where there are at most so many different ones
SCORES = 16  # random scores of whole records
MOST_COLUMNS = 24  # columns judged two by two

Floats = NDArray[np.float64]


def fit_checks(paired: Paired, rng: Keystream) -> tuple[list[Check], Floats]:
    """The checks of a mechanism that reports every column in its own domain, and a series of
    residuals, one a report.
    """
    judged = (_column_check(paired, column) for column in paired.columns)
    checks = [check for check in judged if check is not None]
    checks += _together(paired)
    whole = WholeRecords.of(paired)
    if whole is None:
        return checks, _column_residuals(paired, rng)
    return [*checks, whole.check(rng)], whole.residuals(rng)


def _column_check(paired: Paired, column: PairedColumn) -> Check | None:
    """The table of reports by truth against the column's own channel, and how often the value is
    the same however fine.
    """
    try:
        channel = paired.channel_over([column.axis]).coarsen([column.cells])
    except NotLumpableError:
        return None
    if not channel.settled:
        channel = channel.settle(np.bincount(column.truth, minlength=column.cells.size))
    size = column.cells.size
    table = np.bincount(column.report * size + column.truth, minlength=size * size).reshape(
        size, size
    )
    expected = channel.to_dense() * table.sum(axis=0)
    return worst_of(
        f"reports of '{column.name}' follow its channel",
        [fit(table, expected), _agreement(paired, [column])],
        ["the values reported for each true value", "how often the true value is reported"],
    )


def _agreement(paired: Paired, columns: list[PairedColumn]) -> float:
    """The p-value of how often all these columns report the truth at once."""
    agree = np.logical_and.reduce([column.agree for column in columns])
    codes = _fine_codes(paired, columns)
    chances = paired.channel_over([column.axis for column in columns]).chances(codes, codes)
    variance = float((chances * (1 - chances)).sum())
    return float(counted(int(agree.sum()), len(agree), float(chances.sum()), variance))


def _fine_codes(paired: Paired, columns: list[PairedColumn]) -> list[NDArray[Any]]:
    axes = [paired.private.axes[column.axis] for column in columns]
    codes = (paired.truths[axis.attribute] for axis in axes)
    return [
        (np.asarray(code) if axis.item is None else as_bits(code).column(axis.item)).astype(np.intp)
        for axis, code in zip(axes, codes, strict=True)
    ]


def _together(paired: Paired) -> list[Check]:
    """Whether columns are reported truly together as often as they should: in pairs, and all at
    once.
    """
    columns = list(paired.columns[:MOST_COLUMNS])
    if len(columns) < 2:
        return []
    try:
        pairs = list(combinations(columns, 2))
        values = [_agreement(paired, list(pair)) for pair in pairs]
        details = [f"'{first.name}' and '{second.name}'" for first, second in pairs]
        everything = _agreement(paired, columns)
    except NotLumpableError:
        return []
    return [
        worst_of("pairs of columns are kept together as often as they should", values, details),
        Check("whole records are kept as often as they should", everything),
    ]


@dataclass(frozen=True, eq=False)
class WholeRecords:
    """The channel of whole records, where there are few enough, and each row's place in it."""

    channel: Channel
    truth: NDArray[np.intp]
    report: NDArray[np.intp]

    @classmethod
    def of(cls, paired: Paired) -> WholeRecords | None:
        """None where records are too many to be numbered, or hold baskets."""
        if paired.private.cells > JOINT_CELLS or any(
            axis.item is not None for axis in paired.private.axes
        ):
            return None
        shape = paired.private.shape
        columns = [paired.release.column(name) for name in paired.private.names]
        return cls(
            paired.channel_over(list(range(len(shape)))),
            _joint(paired.truths, shape),
            _joint(columns, shape),
        )

    @property
    def cells(self) -> int:
        return math.prod(self.channel.inputs)

    def expected(self, score: Floats) -> Floats:  # (cells, …) -> (cells, …)
        """The mean of a score of the report, for each truth."""
        shaped = score.reshape(*self.channel.outputs, *score.shape[1:])
        return np.asarray(self.channel.adjoint(shaped)).reshape(self.cells, *score.shape[1:])

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.bincount(self.truth, minlength=self.cells)

    def check(self, rng: Keystream) -> Check:
        """Random scores of reports, with a random sign for each truth: a wrong joint law shifts
        some of their sums.
        """
        scores = _normals(rng, self.cells * SCORES).reshape(self.cells, SCORES)
        signs = np.where(
            rng.random(self.cells * SCORES).reshape(self.cells, SCORES) < 0.5, -1.0, 1.0
        )
        means = self.expected(scores)
        spread = np.maximum(self.expected(scores**2) - means**2, 0.0)
        variance = self._counts @ spread
        found = np.array(
            [float((signs[self.truth, k] * scores[self.report, k]).sum()) for k in range(SCORES)]
        )
        shift = found - self._counts @ (signs * means)
        return worst_of(
            "whole records follow the channel",
            two_sided(shift / np.sqrt(np.maximum(variance, 1e-12))),
        )

    def residuals(self, rng: Keystream) -> Floats:
        """A random score of each report less its mean given the truth."""
        score = _normals(rng, self.cells)
        return score[self.report] - self.expected(score)[self.truth]


def _column_residuals(paired: Paired, rng: Keystream) -> Floats:
    """The same, column by column and added up: for records too many to be numbered."""
    total = np.zeros(paired.release.rows)
    for column in paired.columns:
        channel = paired.channel_over([column.axis]).coarsen([column.cells])
        score = _normals(rng, column.cells.size)
        residual = score[column.report] - np.asarray(channel.adjoint(score))[column.truth]
        total += residual / max(float(np.sqrt(np.mean(residual**2))), 1e-12)
    return total


def _joint(columns: Any, shape: tuple[int, ...]) -> NDArray[np.intp]:
    return np.ravel_multi_index(
        tuple(np.asarray(column).astype(np.intp) for column in columns), shape
    )


def _normals(rng: Keystream, count: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(rng.random(count), 1e-12, 1 - 1e-12)))
