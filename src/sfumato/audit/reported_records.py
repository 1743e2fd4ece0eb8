"""Reported records: whether the reports, given the truth, are distributed as the channel says,
column by column, in pairs and as a whole.

These are the tests that catch a mechanism that leaves a column as it is, keeps a little too often,
or draws columns together that should be apart. Each is exact given the truth, so no assumption
about the people is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.limits import (
    JOINT_CELLS,
    MOST_COLUMNS,
    MOST_NUMBERS,
    MOST_TRIPLES,
    NEIGHBOUR_ROWS,
    PAIR_CELLS,
)
from sfumato.audit.paired import Paired, PairedColumn
from sfumato.audit.places import WHOSE, shifted, trait_tests
from sfumato.audit.score import (
    Agreements,
    Check,
    Floats,
    RowScores,
    ScoreTest,
    Where,
)
from sfumato.channels import Channel, NotLumpableError
from sfumato.randomness import Keystream


@dataclass(frozen=True, eq=False)
class RecordFit:
    """Records beside reports of a mechanism that reports every column in its own domain."""

    paired: Paired
    rng: Keystream

    @property
    def columns(self) -> tuple[PairedColumn, ...]:
        """The columns that are followed through the file."""
        return self.paired.columns[:MOST_COLUMNS]

    def checks(self) -> tuple[list[Check], Floats]:
        """Whether reports follow the channel, and a series of residuals, one a report."""
        found = [check for each in self.paired.columns for check in self._column_check(each)]
        found += self._kept_together()
        whole = WholeRecords.of(self.paired)
        if whole is None:
            return found, self._column_residuals()
        scores = whole.scored(_normals(self.rng, whole.cells * whole.scores))
        signs = whole.scored(np.where(self.rng.random(whole.cells * whole.scores) < 0.5, -1.0, 1.0))
        found.append(whole.check("whole records follow the channel", scores, signs))
        return found, whole.residuals(_normals(self.rng, whole.cells))

    def _column_check(self, column: PairedColumn) -> Iterator[Check]:
        """How often each value is reported, for each true value and for all, against the column's
        own channel; and how often the value is the same however fine.
        """
        labels, name = column.cells.labels, f"reports of '{column.name}' follow its channel"
        where = [f"{truth} reported as {label}" for label in labels for truth in labels]
        each = list(self._counted([column], where, classes=column.truth, count=len(labels)))
        if each:
            every = self._counted([column], [f"as {label}" for label in labels])
            yield Check.of(name, [*each, *every, self.agreement([column]).total()])

    def _kept_together(self) -> list[Check]:
        """Whether columns are reported truly together as often as they should: in pairs, and all
        at once.
        """
        if len(self.columns) < 2:
            return []
        try:
            pairs = [self.agreement(pair).total() for pair in combinations(self.columns, 2)]
            whole = self.agreement(self.columns).total()
        except NotLumpableError:
            return []
        return [
            Check.of("pairs of columns are kept together as often as they should", pairs),
            Check.of("whole records are kept as often as they should", [whole]),
        ]

    def agreement(self, columns: Sequence[PairedColumn], name: str = "") -> RowScores:
        """Whether all these columns are reported truly at once."""
        agree = np.logical_and.reduce([column.agree for column in columns])
        axes = [column.axis for column in columns]
        codes = self.paired.codes(axes)
        chance = np.asarray(self.paired.channel_over(axes).chances(codes, codes))
        *first, last = (f"'{column.name}'" for column in columns)
        words = " and ".join([", ".join(first), last][not first :])
        return RowScores.of(name or words, agree, chance)

    def agreements(self) -> Agreements | None:
        """None where the channel says nothing of all columns together."""
        try:
            whole = self.agreement(self.columns, "whole records")
        except NotLumpableError:
            return None
        parts = []
        for column in self.columns if len(self.columns) > 1 else ():
            try:
                parts.append(self.agreement([column]))
            except NotLumpableError:
                continue
        return Agreements(whole, tuple(parts), whole.found > 0, whole.mean)

    def triples(self) -> Iterator[RowScores]:
        """The first columns three by three."""
        most = min(MOST_TRIPLES, max(1, 4 * MOST_NUMBERS // self.paired.release.rows))
        columns = len(self.paired.columns)
        while math.comb(columns, 3) > most:
            columns -= 1
        return map(self.agreement, combinations(self.paired.columns[:columns], 3))

    def coin_checks(self) -> list[Check]:
        """Whether any three columns are kept together as often as they should: a coin that is made
        of two others shows in no pair.
        """
        try:
            tests = [three.total() for three in self.triples()]
        except NotLumpableError:
            return []
        name = "every three columns are kept together as often as they should"
        return [Check.of(name, tests)] if tests else []

    def _column_residuals(self) -> Floats:
        """A score of each report less its mean, column by column and added up: for records too
        many to be numbered.
        """
        total = np.zeros(self.paired.release.rows)
        for column in self.paired.columns:
            score = _normals(self.rng, column.cells.size)
            means = np.asarray(self.paired.channel_of([column]).adjoint(score))
            residual = score[column.report] - means[column.truth]
            total += residual / max(float(np.sqrt(np.mean(residual**2))), 1e-12)
        return total

    def _counted(
        self,
        columns: Sequence[PairedColumn],
        where: Where,
        *,
        rows: slice = slice(None),
        classes: NDArray[np.intp] | None = None,
        count: int = 1,
    ) -> Iterator[ScoreTest]:
        """How often each combination of values is reported, less how often it should be given the
        truths: whichever report is whose, among all these rows or in each of `count` classes of
        them.
        """
        try:
            dense = self.paired.channel_of(columns).to_dense()
        except NotLumpableError:
            return
        shape = tuple(column.cells.size for column in columns)

        def counts(codes: Sequence[NDArray[np.intp]]) -> NDArray[np.int64]:  # (cells, classes)
            joint = np.ravel_multi_index(tuple(each[rows] for each in codes), shape)
            joint = joint if classes is None else joint * count + classes
            return np.bincount(joint, minlength=math.prod(shape) * count).reshape(-1, count)

        found, truth = (
            counts([column.report for column in columns]),
            counts([column.truth for column in columns]),
        )
        most, least = 1 - dense.min(axis=1, keepdims=True), dense.max(axis=1, keepdims=True)
        most, least = (np.broadcast_to(each, found.shape) for each in (most, least))
        spread = (dense * (1 - dense)) @ truth
        yield ScoreTest.of(found - dense @ truth, spread, where, most, least)

    def count_checks(self) -> list[Check]:
        """Whether columns, pairs of them and whole records are reported as often as the counts of
        the truth say, and the first two reports of a person are equal as often as independent ones
        are.
        """
        says = "as often as the counts of the truth say"
        checks: list[Check] = []
        pairs: list[ScoreTest] = []
        for column in self.columns:
            for test in self._counted([column], [f"as {label}" for label in column.cells.labels]):
                checks.append(Check.of(f"'{column.name}' is reported {says}", [test]))
        for a, b in combinations(self.columns, 2):
            if a.cells.size * b.cells.size <= PAIR_CELLS:
                words = [f"'{a.name}' and '{b.name}'"] * (a.cells.size * b.cells.size)
                pairs += self._counted([a, b], words)
        if pairs:
            checks.append(Check.of(f"pairs of columns are reported {says}", pairs))
        whole = WholeRecords.of(self.paired)
        if whole is not None:
            scores = whole.scored(self.rng.random(whole.cells * whole.scores)) - 0.5
            name = "whole records are reported as the counts of the truth say"
            checks.append(whole.check(name, scores, np.ones_like(scores)))
        return checks + self._repeat_checks() if self.paired.copies > 1 else checks

    def _repeat_checks(self) -> list[Check]:
        """Whether the first two reports of a person are equal as often as independent ones are."""
        tests, copies = [], self.paired.copies
        for column in self.columns:
            try:
                dense = self.paired.channel_of([column]).to_dense()
            except NotLumpableError:
                continue
            chance = (dense**2).sum(axis=0)[column.truth[::copies]]
            same = column.report[::copies] == column.report[1::copies]
            words = (f"'{column.name}'",)
            spread = (chance * (1 - chance)).sum()
            tests.append(ScoreTest.of(same.sum() - chance.sum(), spread, words))
        name = "reports of one person are equal no more often than by chance"
        return [Check.of(name, tests)] if tests else []

    def neighbour_tests(self, found: Agreements | None) -> Iterator[ScoreTest]:
        """Every column of the record before, of the person's own and of the record after."""
        rows = min(self.paired.release.rows, NEIGHBOUR_ROWS)
        for apart in WHOSE:
            here, there = shifted(rows, apart * self.paired.copies)
            for trait in self.columns:
                held = trait.truth[there]
                yield from trait_tests(found, apart, here, trait.cells, held)
                for column in self.columns if apart else ():
                    where = [
                        f"'{column.name}' being reported as {label} depends on {WHOSE[apart]} "
                        f"'{trait.name}' being {other}"
                        for label in column.cells.labels
                        for other in trait.cells.labels
                    ]
                    size = trait.cells.size
                    yield from self._counted([column], where, rows=here, classes=held, count=size)


def _normals(rng: Keystream, count: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(rng.random(count), 1e-12, 1 - 1e-12)))


@dataclass(frozen=True, eq=False)
class WholeRecords:
    """The channel of whole records, where there are few enough, and each row's place in it."""

    channel: Channel
    truth: NDArray[np.intp]
    report: NDArray[np.intp]
    scores: int = 16  # random scores of a record

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

    def scored(self, numbers: Floats) -> Floats:  # (cells, scores)
        return numbers.reshape(self.cells, self.scores)

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
        return Check.of(name, [ScoreTest.of(shift, variance, [""] * len(found), 0, 0)])

    def residuals(self, score: Floats) -> Floats:
        """A score of each report less its mean given the truth."""
        return score[self.report] - self.expected(score)[self.truth]
