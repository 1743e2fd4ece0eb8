"""Reports that live in other columns than the records (one question of many, a hashed symbol, a
number on a wider scale): judged by their tallies, and beside the same records perturbed again.

There is no "same value" to agree on. A report agrees with a record's value if no other value makes
it likelier; how often it should, resampling from the mechanism that the file names tells (a
parametric bootstrap given the truth). A row less the mean of its repeats has mean 0 exactly,
whatever the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.limits import (
    FEW_CELLS,
    FEWEST_DRAWS,
    LEAST_ROWS,
    MOST_COLUMNS,
    MOST_NUMBERS,
    MOST_SETS,
    NEIGHBOUR_ROWS,
    REPEATS,
)
from sfumato.audit.paired import Paired, cells_of, judged_cells
from sfumato.audit.places import shifted, trait_tests
from sfumato.audit.score import Agreements, Check, Floats, RowScores, ScoreTest
from sfumato.bits import Bits
from sfumato.channels.channel import Dealt
from sfumato.counting.in_memory import TableCounter
from sfumato.domain import Attribute, Cells, Columns, Items, as_bits
from sfumato.errors import SfumatoError, Unanswerable
from sfumato.mechanisms.base import Mechanism, spec_of
from sfumato.mechanisms.registry import from_spec
from sfumato.randomness import Keystream

ROUNDING = 1e-9  # of a logarithm


def tally_checks(paired: Paired) -> list[Check]:
    """Whether reports, true cell by true cell, are tallied as the observation says."""
    columns = [part for a in paired.private for part in judged_parts(a)][:MOST_COLUMNS]
    questions: list[Sequence[Cells]] = [(part,) for part in columns]
    together = paired.mechanism.together
    if together is None:
        questions += pairwise(columns)
    else:
        sets = [names for names in together if len(names) > 1]
        questions += [
            [judged_cells(paired.private[name]) for name in names] for names in sets[:MOST_SETS]
        ]
    return [
        check
        for cells in questions
        for names in [" and ".join(f"'{part.name}'" for part in cells)]
        for check in Check.each(
            {f"reports of {names} follow their channel": _tally_tests(paired, cells)}
        )
    ]


def judged_parts(attribute: Attribute) -> list[Cells]:
    """The cells that a column is judged by; of baskets each item on its own."""
    if isinstance(attribute, Items):
        return [attribute.item_cells(item) for item in attribute.labels[:MOST_COLUMNS]]
    return [judged_cells(attribute)]


def _tally_tests(paired: Paired, cells: Sequence[Cells]) -> Iterator[ScoreTest]:
    """The tally of each true cell's reports; none where the observation holds columns of the
    reports only.
    """
    try:
        seen = paired.mechanism.observe(cells)
    except Unanswerable:
        return
    names, channel = paired.mechanism.domain.names, seen.channel
    if any(part.attribute.name not in names for part in seen.cells):
        return
    judged = np.arange(math.prod(channel.outputs))
    if isinstance(channel, Dealt) and channel.closed is not None:
        judged = np.flatnonzero(channel.closed.ravel())
    codes = [cells_of(part, paired.repeated(part.attribute.name)) for part in seen.cells]
    truth = np.ravel_multi_index(tuple(codes), tuple(part.size for part in seen.cells))
    sizes = np.bincount(truth, minlength=math.prod(channel.inputs))
    for cell in np.argsort(-sizes, kind="stable")[:FEW_CELLS]:
        if sizes[cell] < LEAST_ROWS or not judged.size:
            break
        rows = np.flatnonzero(truth == cell)
        tally = seen.tally.count(TableCounter(paired.release.take(rows))).ravel()
        one = np.zeros(channel.inputs)
        one[np.unravel_index(int(cell), channel.inputs)] = 1
        # Probabilities, as each entry counts a report at most once.
        chances = np.clip(np.asarray(channel.apply(one)).ravel(), 0.0, 1.0)
        yield ScoreTest.of(
            (tally - len(rows) * chances)[judged],
            (len(rows) * chances * (1 - chances))[judged],
            [f"true cell {cell + 1}, entry {entry + 1}" for entry in judged],
        )


def sound(mechanism: Mechanism) -> Mechanism:
    """The mechanism that this one's description names: what a file promises is that, whatever code
    wrote it.
    """
    try:
        return from_spec(spec_of(mechanism))
    except SfumatoError:
        return mechanism


@dataclass(frozen=True, eq=False)
class Resampled:
    """A release and, row beside row, fresh reports of the same records."""

    paired: Paired
    rng: Keystream

    @cached_property
    def draws(self) -> list[Columns]:
        """The release first, then its repeats."""
        mechanism, copies = sound(self.paired.mechanism), self.paired.copies
        again = np.repeat(np.arange(self.paired.people), copies)
        truth = self.paired.truth.take(again).columns if copies > 1 else self.paired.truth.columns
        most = max(1, min(REPEATS, 4 * MOST_NUMBERS // self.paired.release.rows))
        repeats = [mechanism.perturb(truth, self.rng) for _ in range(most)]
        return [self.paired.release.columns, *repeats]

    @property
    def more(self) -> float:
        """How much the repeats' own chance adds to the variance: 1 + 1/repeats."""
        return 1 + 1 / (len(self.draws) - 1)

    @cached_property
    def _cells(self) -> list[tuple[Cells, NDArray[np.intp]]]:
        """The columns of the records, and the items most frequent in them, that are followed, with
        the true cell of each row.
        """
        found, left = [], MOST_COLUMNS
        for attribute, column in zip(self.paired.private, self.paired.truths, strict=True):
            if not isinstance(attribute, Items):
                found.append(judged_cells(attribute))
                left -= 1
                continue
            counts = as_bits(column).counts()
            for item in np.argsort(-counts, kind="stable")[: max(left, 1)]:
                found.append(attribute.item_cells(attribute.labels[item]))
        return [(c, cells_of(c, self.paired.repeated(c.attribute.name))) for c in found]

    def agreements(self) -> Agreements | None:
        """Column by column, and all that a report speaks of at once; None if it speaks of none."""
        parts, whole = [], None
        for cells, truth in self._cells:
            try:
                flags = [self._agrees(reports, [cells], truth) for reports in self.draws]
            except Unanswerable:
                continue
            parts.append(self._scores(f"'{cells.name}'", [agree for agree, _ in flags], truth))
            right = [agree | ~speaks for agree, speaks in flags]
            whole = right if whole is None else [a & b for a, b in zip(whole, right, strict=True)]
        if whole is None:
            return None
        joint = self._joint() or whole
        alike = np.zeros(len(joint[0]), dtype=np.intp)
        staying = np.full(len(joint[0]), self._likeliest(joint[1:], alike))
        scores = self._scores("whole reports", joint, alike)
        return Agreements(scores, tuple(parts), joint[0], staying)

    def _likeliest(self, repeats: list[NDArray[np.bool_]], alike: NDArray[np.intp]) -> float:
        """At least the probability of agreeing, whoever the person is: the largest share among the
        holders of any value, and five standard errors.
        """
        agree, most = np.mean(repeats, axis=0), 0.0
        for group in (alike, *(truth for _, truth in self._cells)):
            draws = np.bincount(group) * len(repeats)
            large = draws >= FEWEST_DRAWS
            share = np.bincount(group, agree)[large] * len(repeats) / draws[large]
            above = share + 5 * np.sqrt(share * (1 - share) / draws[large])
            most = max(most, float(above.max(initial=0.0)))
        return min(1.0, most) if most else 1.0

    def _scores(
        self, name: str, flags: list[NDArray[np.bool_]], group: NDArray[np.intp]
    ) -> RowScores:
        """Whether the release agrees, beside its repeats; the variance as in each group."""
        mean = np.mean(flags[1:], axis=0)
        share = (np.bincount(group, mean) / np.maximum(np.bincount(group), 1))[group]
        return RowScores(name, flags[0].astype(np.float64), mean, self.more * share * (1 - share))

    def _agrees(
        self, reports: Columns, cells: list[Cells], truth: NDArray[np.intp]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether no value makes each report likelier than the true one, and whether it says
        anything.
        """
        shares = np.bincount(truth, minlength=math.prod(c.size for c in cells)) / len(truth)
        logs = self.paired.mechanism.likelihood(reports, cells, shares=shares)
        top = logs.max(axis=1)
        speaks = top - logs.min(axis=1) > ROUNDING
        own = np.take_along_axis(logs, truth[:, None], axis=1)[:, 0]
        return speaks & (own >= top - ROUNDING), speaks

    def _joint(self) -> list[NDArray[np.bool_]] | None:
        """The same of whole records, where there are few."""
        paired = self.paired
        if paired.private.cells > 256 or not paired.numbered:
            return None
        cells, truth = [a.cells() for a in paired.private], paired.records(paired.truths)
        try:
            return [self._agrees(reports, cells, truth)[0] for reports in self.draws]
        except Unanswerable:
            return None

    @property
    def _private(self) -> Iterator[tuple[Attribute, list[Any]]]:
        """The private columns of the reports, as drawn each time."""
        for place, attribute in enumerate(self.paired.mechanism.reports):
            if not attribute.public:
                yield attribute, [draw[place] for draw in self.draws]

    def checks(self) -> tuple[list[Check], Floats]:
        """Whether reports follow the channel, and a series of residuals, one a report."""
        return tally_checks(self.paired), self.residuals()

    def coin_checks(self) -> list[Check]:
        """None: which coins a report was drawn by is not seen in other columns."""
        return []

    def neighbour_tests(self, found: Agreements | None) -> Iterator[ScoreTest]:
        """Every column of the record before and of the record after."""
        rows = min(self.paired.release.rows, NEIGHBOUR_ROWS)
        columns = zip(self.paired.private, self.paired.truths, strict=True)
        traits = [(judged_cells(a), column) for a, column in columns if not isinstance(a, Items)]
        coded = [(cells, cells_of(cells, column)) for cells, column in traits]
        for apart in (-1, 1):
            here, there = shifted(rows, apart * self.paired.copies)
            for cells, truth in coded:
                yield from trait_tests(found, apart, here, cells, truth[there])

    def residuals(self) -> Floats:
        """A random score of each report less the mean of its repeats' scores."""
        totals = np.zeros((len(self.draws), self.paired.release.rows))
        for attribute, columns in self._private:
            weights = self.rng.random(attribute.size) - 0.5
            for total, column in zip(totals, columns, strict=True):
                baskets = isinstance(column, Bits)
                total += column.to_dense() @ weights if baskets else weights[np.asarray(column)]
        return np.asarray(totals[0] - totals[1:].mean(axis=0))

    def count_checks(self) -> list[Check]:
        """Whether every kind of report comes as often as the mechanism makes it of these records,
        whichever report is whose.
        """
        rows, tests = self.paired.release.rows, []
        for attribute, columns in self._private:
            labels, counts = _counts(attribute, columns)
            share = counts.mean(axis=0) / rows
            spread = rows * share * (1 - share) * self.more
            words = [f"'{attribute.name}' being {label}" for label in labels]
            tests.append(ScoreTest.of(counts[0] - counts[1:].mean(axis=0), spread, words))
        name = "every kind of report comes as often as the mechanism makes it of these records"
        return [Check.of(name, tests)]


def _counts(
    attribute: Attribute, columns: list[Any]
) -> tuple[tuple[str, ...], NDArray[np.int64]]:  # (columns, values)
    """How often each value of a report's column, or item of a basket, comes in each draw."""
    if isinstance(attribute, Items):
        return attribute.labels, np.stack([column.counts() for column in columns])
    cells = attribute.cells() if attribute.size <= 4096 else judged_cells(attribute)
    codes = [cells_of(cells, column) for column in columns]
    return cells.labels, np.stack([np.bincount(code, minlength=cells.size) for code in codes])
