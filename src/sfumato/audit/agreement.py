"""Agreement: whether each report has the true value, beside the probability that it should.

Given the truths, the deviations 1[agrees] - P(agrees) of a sound mechanism are independent, of mean
0 and known variance, whoever the people are. So wherever in the file they add up, the mechanism
lets the truth through there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.paired import Paired, PairedColumn
from sfumato.audit.score import Floats, ScoreTest, Where
from sfumato.channels import NotLumpableError

MOST_COLUMNS = 24  # columns, or items, whose agreement is followed through the file
MOST_TRIPLES = 220  # of columns: those of the first twelve, of fewer for many rows
MOST_NUMBERS = 1 << 22  # of all scores together: for many rows there are fewer of them


@dataclass(frozen=True, eq=False)
class RowScores:
    """A score a row, such as how much of something its report has true, with its mean and its
    variance given the truth.
    """

    name: str
    found: Floats
    mean: Floats
    variance: Floats
    most: float = 1.0  # how far one term can lie above its mean, and below
    least: float = 1.0
    top: float = 1.0  # what a report that is its record has

    @classmethod
    def of(cls, name: str, agree: NDArray[np.bool_], chance: Floats) -> RowScores:
        """Whether something is so, and how likely it was."""
        most, least = max(1 - float(chance.min()), 1e-9), float(chance.max())
        return cls(name, agree.astype(np.float64), chance, chance * (1 - chance), most, least)

    @cached_property
    def left(self) -> Floats:
        """What chance left: found less expected."""
        return self.found - self.mean

    @property
    def rows(self) -> int:
        return len(self.found)

    def test(self, sums: Callable[[Floats], Floats], where: Where) -> ScoreTest:
        """Whether the sums over some rows are as near to 0 as their variances say."""
        return ScoreTest.sums(sums(self.left), sums(self.variance), where, self.most, self.least)

    def total(self) -> ScoreTest:
        """Whether all rows together have as much as they should."""
        return self.test(np.sum, (self.name,))


@dataclass(frozen=True, eq=False)
class Agreements:
    """What the reports of a release have true: everything at once, then column by column or item
    by item.
    """

    whole: RowScores
    parts: tuple[RowScores, ...]
    unchanged: NDArray[np.bool_]  # whether the report is the record
    staying: Floats  # at least the probability of that, row by row

    @classmethod
    def of_records(cls, paired: Paired) -> Agreements | None:
        """None where the channel says nothing of all columns together."""
        columns = paired.columns[:MOST_COLUMNS]
        try:
            whole = agreement(paired, columns, "whole records")
        except NotLumpableError:
            return None
        parts = []
        for column in columns if len(columns) > 1 else ():
            try:
                parts.append(agreement(paired, [column]))
            except NotLumpableError:
                continue
        return cls(whole, tuple(parts), whole.found > 0, whole.mean)

    @cached_property
    def scores(self) -> tuple[RowScores, ...]:
        """The whole and as many parts as can be followed through so many rows."""
        return (self.whole, *self.parts)[: max(1, MOST_NUMBERS // max(1, self.whole.rows))]


def agreement(paired: Paired, columns: Sequence[PairedColumn], name: str = "") -> RowScores:
    """Whether all these columns are reported truly at once."""
    agree = np.logical_and.reduce([column.agree for column in columns])
    axes = [column.axis for column in columns]
    codes = paired.codes(axes)
    chance = np.asarray(paired.channel_over(axes).chances(codes, codes))
    *first, last = (f"'{column.name}'" for column in columns)
    return RowScores.of(name or " and ".join([", ".join(first), last][not first :]), agree, chance)


def triples(paired: Paired) -> Iterator[RowScores]:
    """The first columns three by three."""
    most = min(MOST_TRIPLES, max(1, 4 * MOST_NUMBERS // paired.release.rows))
    columns = len(paired.columns)
    while comb(columns, 3) > most:
        columns -= 1
    for three in combinations(paired.columns[:columns], 3):
        yield agreement(paired, three)
