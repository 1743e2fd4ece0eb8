"""Reported records: whether the reports, given the truth, are distributed as the channel says,
column by column, in pairs and as a whole.

These are the tests that catch a mechanism that leaves a column as it is, keeps a little too often,
or draws columns together that should be apart. Each is exact given the truth, so no assumption
about the people is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.agreement import MOST_COLUMNS, RowScores, agreement, triples
from sfumato.audit.paired import Paired, PairedColumn
from sfumato.audit.score import Check, Floats, ScoreTest, Where, counted, fit
from sfumato.channels import Channel, NotLumpableError
from sfumato.randomness import Keystream

JOINT_CELLS = 1 << 16  # whole records are scored where there are at most so many different ones
PAIR_CELLS = 512  # of two columns, up to which their reports are counted together
SCORES = 16  # random scores of whole records


def fit_checks(paired: Paired, rng: Keystream) -> tuple[list[Check], Floats]:
    """The checks of a mechanism that reports every column in its own domain, and a series of
    residuals, one a report.
    """
    checks = [_column_check(paired, column) for column in paired.columns]
    found = [check for check in checks if check is not None] + _together(paired)
    whole = WholeRecords.of(paired)
    if whole is None:
        return found, _column_residuals(paired, rng)
    scores = _normals(rng, whole.cells * SCORES).reshape(whole.cells, SCORES)
    signs = np.where(rng.random(whole.cells * SCORES) < 0.5, -1.0, 1.0).reshape(scores.shape)
    found.append(whole.check("whole records follow the channel", scores, signs))
    return found, whole.residuals(_normals(rng, whole.cells))


def _column_check(paired: Paired, column: PairedColumn) -> Check | None:
    """The table of reports by truth against the column's own channel, and how often the value is
    the same however fine.
    """
    try:
        dense = paired.channel_of([column]).to_dense()
    except NotLumpableError:
        return None
    size = column.cells.size
    pairs = np.bincount(column.report * size + column.truth, minlength=size * size)
    table = pairs.reshape(size, size)
    return Check.of(
        f"reports of '{column.name}' follow its channel",
        [
            ScoreTest.of(
                [fit(table, dense * table.sum(axis=0)), _kept(agreement(paired, [column]))],
                ["the values reported for each true value", "how often the true value is reported"],
            )
        ],
    )


def _kept(one: RowScores) -> float:
    """The p-value of how often something is reported truly."""
    return float(counted(one.found.sum(), one.rows, one.mean.sum(), one.variance.sum()))


def _together(paired: Paired) -> list[Check]:
    """Whether columns are reported truly together as often as they should: in pairs, and all at
    once.
    """
    columns = paired.columns[:MOST_COLUMNS]
    if len(columns) < 2:
        return []
    try:
        pairs = (agreement(paired, pair) for pair in combinations(columns, 2))
        tests = [ScoreTest.of(_kept(pair), (pair.name,)) for pair in pairs]
        whole = _kept(agreement(paired, columns))
    except NotLumpableError:
        return []
    return [
        Check.of("pairs of columns are kept together as often as they should", tests),
        Check("whole records are kept as often as they should", whole),
    ]


def triple_checks(paired: Paired) -> list[Check]:
    """Whether any three columns are kept together as often as they should: a coin that is made of
    two others shows in no pair.
    """
    try:
        tests = [three.total() for three in triples(paired)]
    except NotLumpableError:
        return []
    name = "every three columns are kept together as often as they should"
    return [Check.of(name, tests)] if tests else []


@dataclass(frozen=True, eq=False)
class WholeRecords:
    """The channel of whole records, where there are few enough, and each row's place in it."""

    channel: Channel
    truth: NDArray[np.intp]
    report: NDArray[np.intp]

    @classmethod
    def of(cls, paired: Paired) -> WholeRecords | None:
        """None where records are too many to be numbered, or hold baskets."""
        if paired.private.cells > JOINT_CELLS or not paired.numbered:
            return None
        channel = paired.channel_over(range(len(paired.private)))
        return cls(channel, paired.records(paired.truths), paired.reported(paired.release))

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

    def check(self, name: str, scores: Floats, signs: Floats) -> Check:  # (cells, scores) each
        """Random scores of reports, with a random sign for each truth: wrong joint chances shift
        some of their sums.
        """
        means = self.expected(scores)
        variance = self._counts @ np.maximum(self.expected(scores**2) - means**2, 0.0)
        found = [
            float((sign[self.truth] * score[self.report]).sum())
            for sign, score in zip(signs.T, scores.T, strict=True)
        ]
        shift = found - self._counts @ (signs * means)
        return Check.of(name, [ScoreTest.normal(shift, variance, [""] * len(found))])

    def residuals(self, score: Floats) -> Floats:
        """A score of each report less its mean given the truth."""
        return score[self.report] - self.expected(score)[self.truth]


def _column_residuals(paired: Paired, rng: Keystream) -> Floats:
    """The same, column by column and added up: for records too many to be numbered."""
    total = np.zeros(paired.release.rows)
    for column in paired.columns:
        score = _normals(rng, column.cells.size)
        means = np.asarray(paired.channel_of([column]).adjoint(score))
        residual = score[column.report] - means[column.truth]
        total += residual / max(float(np.sqrt(np.mean(residual**2))), 1e-12)
    return total


def _normals(rng: Keystream, count: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(rng.random(count), 1e-12, 1 - 1e-12)))


def report_test(
    paired: Paired,
    columns: Sequence[PairedColumn],
    where: Where,
    *,
    rows: slice = slice(None),
    classes: NDArray[np.intp] | None = None,
    count: int = 1,
) -> ScoreTest | None:
    """How often each combination of values is reported, less how often it should be given the
    truths: whichever report is whose, among all these rows or in each of `count` classes of them.
    """
    try:
        dense = paired.channel_of(columns).to_dense()
    except NotLumpableError:
        return None
    shape = tuple(column.cells.size for column in columns)
    found, truth = (
        np.bincount(
            codes if classes is None else codes * count + classes,
            minlength=math.prod(shape) * count,
        ).reshape(-1, count)
        for codes in (
            np.ravel_multi_index(tuple(column.report[rows] for column in columns), shape),
            np.ravel_multi_index(tuple(column.truth[rows] for column in columns), shape),
        )
    )
    return ScoreTest.sums(found - dense @ truth, (dense * (1 - dense)) @ truth, where)


def count_checks(paired: Paired, rng: Keystream) -> list[Check]:
    """Whether columns, pairs of them and whole records are reported as often as the counts of the
    truth say, and the first two reports of a person are equal as often as independent ones are.
    """
    columns, says = paired.columns[:MOST_COLUMNS], "as often as the counts of the truth say"
    checks, pairs = [], []
    for column in columns:
        test = report_test(paired, [column], [f"as {label}" for label in column.cells.labels])
        if test is not None:
            checks.append(Check.of(f"'{column.name}' is reported {says}", [test]))
    for a, b in combinations(columns, 2):
        if a.cells.size * b.cells.size <= PAIR_CELLS:
            words = [f"'{a.name}' and '{b.name}'"] * (a.cells.size * b.cells.size)
            pairs.append(report_test(paired, [a, b], words))
    tests = [test for test in pairs if test is not None]
    if tests:
        checks.append(Check.of(f"pairs of columns are reported {says}", tests))
    whole = WholeRecords.of(paired)
    if whole is not None:
        scores = rng.random(whole.cells * SCORES).reshape(whole.cells, SCORES) - 0.5
        name = "whole records are reported as the counts of the truth say"
        checks.append(whole.check(name, scores, np.ones_like(scores)))
    return checks + _repeat_checks(paired) if paired.copies > 1 else checks


def _repeat_checks(paired: Paired) -> list[Check]:
    """Whether the first two reports of a person are equal as often as independent ones are."""
    tests = []
    for column in paired.columns[:MOST_COLUMNS]:
        try:
            dense = paired.channel_of([column]).to_dense()
        except NotLumpableError:
            continue
        chance = (dense**2).sum(axis=0)[column.truth[:: paired.copies]]
        same = column.report[:: paired.copies] == column.report[1 :: paired.copies]
        deviation, variance = same.sum() - chance.sum(), (chance * (1 - chance)).sum()
        tests.append(ScoreTest.sums(deviation, variance, (f"'{column.name}'",)))
    name = "reports of one person are equal no more often than by chance"
    return [Check.of(name, tests)] if tests else []
