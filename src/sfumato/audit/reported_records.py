"""Reported records: whether the reports, given the truth, are distributed as the channel says,
column by column, in pairs and as a whole.

These are the tests that catch a mechanism that leaves a column as it is, keeps a little too often,
or draws columns together that should be apart. Each is exact given the truth, so no assumption
about the people is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
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
    SCORES,
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

    @cached_property
    def _whole(self) -> WholeRecords | None:
        """Whole records, unless they are too many to be numbered or hold baskets."""
        if self.paired.private.cells > JOINT_CELLS or not self.paired.numbered:
            return None
        return WholeRecords.of(self.paired)

    def checks(self) -> tuple[list[Check], Floats]:
        """Whether reports follow the channel, and a series of residuals, one a report."""
        found = [check for each in self.paired.columns for check in self._column_check(each)]
        if len(self.columns) > 1:
            pairs = self._kept(combinations(self.columns, 2))
            found += Check.each(
                {
                    "pairs of columns are kept together as often as they should": pairs,
                    "whole records are kept as often as they should": self._kept([self.columns]),
                }
            )
        whole = self._whole
        if whole is None:
            return found, self._column_residuals()
        scores = _normals(self.rng, whole.cells, SCORES)
        signs = np.where(self.rng.random(scores.size) < 0.5, -1.0, 1.0).reshape(scores.shape)
        tests = [whole.test(scores, signs)]
        found += Check.each({"whole records follow the channel": tests})
        return found, whole.residuals(_normals(self.rng, whole.cells))

    def _column_check(self, column: PairedColumn) -> list[Check]:
        """How often each value is reported, for each true value and for all, against the column's
        own channel; and how often the value is the same however fine.
        """
        labels = column.cells.labels
        where = [f"{truth} reported as {label}" for label in labels for truth in labels]
        tests = [
            *self._counted([column], where, classes=column.truth, count=len(labels)),
            *self._counted([column], [f"as {label}" for label in labels]),
            *self._kept([[column]]),
        ]
        return Check.each({f"reports of '{column.name}' follow its channel": tests})

    def _kept(self, groups: Iterable[Sequence[PairedColumn]]) -> Iterator[ScoreTest]:
        """Whether the columns of each group are reported truly at once as often as they should."""
        for columns in groups:
            with suppress(NotLumpableError):
                yield self.agreement(columns).total()

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
            with suppress(NotLumpableError):
                parts.append(self.agreement([column]))
        return Agreements(whole, tuple(parts), whole.found > 0, whole.mean)

    def triples(self) -> Iterator[Sequence[PairedColumn]]:
        """The first columns three by three."""
        most = min(MOST_TRIPLES, max(1, 4 * MOST_NUMBERS // self.paired.release.rows))
        columns = len(self.paired.columns)
        while math.comb(columns, 3) > most:
            columns -= 1
        return combinations(self.paired.columns[:columns], 3)

    def coin_checks(self) -> list[Check]:
        """Whether any three columns are kept together as often as they should: a coin that is made
        of two others shows in no pair.
        """
        name = "every three columns are kept together as often as they should"
        return Check.each({name: self._kept(self.triples())})

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
        named: dict[str, list[ScoreTest]] = {}
        for column in self.columns:
            where = [f"as {label}" for label in column.cells.labels]
            named[f"'{column.name}' is reported {says}"] = [*self._counted([column], where)]
        pairs = named[f"pairs of columns are reported {says}"] = []
        for a, b in combinations(self.columns, 2):
            if (cells := a.cells.size * b.cells.size) <= PAIR_CELLS:
                pairs += self._counted([a, b], [f"'{a.name}' and '{b.name}'"] * cells)
        if self._whole is not None:
            scores = self.rng.random(self._whole.cells * SCORES).reshape(-1, SCORES) - 0.5
            tests = [self._whole.test(scores, np.ones_like(scores))]
            named["whole records are reported as the counts of the truth say"] = tests
        if self.paired.copies > 1:
            name = "reports of one person are equal no more often than by chance"
            named[name] = [*self._repeated()]
        return Check.each(named)

    def _repeated(self) -> Iterator[ScoreTest]:
        """Whether the first two reports of a person are equal as often as independent ones are."""
        copies = self.paired.copies
        for column in self.columns:
            with suppress(NotLumpableError):
                dense = self.paired.channel_of([column]).to_dense()
                chance = (dense**2).sum(axis=0)[column.truth[::copies]]
                same = column.report[::copies] == column.report[1::copies]
                yield RowScores.of(f"'{column.name}'", same, chance).total()

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


def _normals(rng: Keystream, *shape: int) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(rng.random(math.prod(shape)), 1e-12, 1 - 1e-12))).reshape(shape)


@dataclass(frozen=True, eq=False)
class WholeRecords:
    """The channel of whole records, and each row's place in it."""

    channel: Channel
    truth: NDArray[np.intp]
    report: NDArray[np.intp]

    @classmethod
    def of(cls, paired: Paired) -> WholeRecords:
        channel = paired.channel_over(range(len(paired.private)))
        return cls(channel, paired.records(paired.truths), paired.reported(paired.release))

    @property
    def cells(self) -> int:
        return math.prod(self.channel.inputs)

    def expected(self, score: Floats) -> Floats:  # (cells, …) -> (cells, …)
        """The mean of a score of the report, for each truth."""
        shaped = score.reshape(*self.channel.outputs, *score.shape[1:])
        return np.asarray(self.channel.adjoint(shaped)).reshape(self.cells, *score.shape[1:])

    def test(self, scores: Floats, signs: Floats) -> ScoreTest:  # (cells, scores) each
        """Random scores of reports, with a random sign for each truth: wrong joint chances shift
        some of their sums.
        """
        means, counts = self.expected(scores), np.bincount(self.truth, minlength=self.cells)
        variance = counts @ np.maximum(self.expected(scores**2) - means**2, 0.0)
        found = [
            float((sign[self.truth] * score[self.report]).sum())
            for sign, score in zip(signs.T, scores.T, strict=True)
        ]
        return ScoreTest.of(found - counts @ (signs * means), variance, [""] * len(found), 0, 0)

    def residuals(self, score: Floats) -> Floats:
        """A score of each report less its mean given the truth."""
        return score[self.report] - self.expected(score)[self.truth]
