"""Agreement: whether each report has the true value, beside the probability that it should.

Given the truths, the deviations 1[agrees] - P(agrees) of a sound mechanism are independent, of mean
0 and known variance, whoever the people are. So wherever in the file they add up, the mechanism
lets the truth through there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.baskets import BasketFit, held
from sfumato.audit.paired import Paired, PairedColumn
from sfumato.bits import Bits
from sfumato.channels import NotLumpableError
from sfumato.domain import as_bits

MOST_COLUMNS = 24  # columns, or items, whose agreement is followed through the file
MOST_TRIPLES = 220  # of columns: those of the first twelve, of fewer for many rows
MOST_NUMBERS = 1 << 22  # of all series together: for many rows there are fewer series

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Agreement:
    """How much of something each report has true: a series, its mean and its variance, row by
    row.
    """

    name: str
    found: Floats
    mean: Floats
    variance: Floats
    most: float = 1.0  # how far one term can lie above its mean, and below
    least: float = 1.0
    top: float = 1.0  # what a report that is its record has

    @cached_property
    def left(self) -> Floats:
        """What chance left: found less expected."""
        return self.found - self.mean

    @property
    def rows(self) -> int:
        return len(self.found)


@dataclass(frozen=True, eq=False)
class Agreements:
    """The series of a release: everything at once, then column by column or item by item."""

    whole: Agreement
    parts: tuple[Agreement, ...]
    unchanged: NDArray[np.bool_]  # whether the report is the record
    staying: Floats  # at least the probability of that, row by row

    @classmethod
    def of(cls, paired: Paired) -> Agreements | None:
        """None where the channel says nothing of single columns or of all together."""
        if paired.in_baskets:
            return _of_baskets(paired)
        try:
            return _of_records(paired)
        except NotLumpableError:
            return None

    @cached_property
    def series(self) -> tuple[Agreement, ...]:
        """The whole and as many parts as can be followed through so many rows."""
        return (self.whole, *self.parts)[: max(1, MOST_NUMBERS // max(1, self.whole.rows))]


def _of_records(paired: Paired) -> Agreements:
    columns = list(paired.columns[:MOST_COLUMNS])
    whole = agreement(paired, columns, "whole records")
    parts = tuple(_single(paired, columns)) if len(columns) > 1 else ()
    return Agreements(whole, parts, whole.found > 0, whole.mean)


def _single(paired: Paired, columns: list[PairedColumn]) -> Iterator[Agreement]:
    for column in columns:
        try:
            yield agreement(paired, [column], f"'{column.name}'")
        except NotLumpableError:
            continue


def agreement(paired: Paired, columns: list[PairedColumn], name: str) -> Agreement:
    """Whether all these columns are reported truly at once."""
    agree = np.logical_and.reduce([column.agree for column in columns])
    channel = paired.channel_over([column.axis for column in columns])
    codes = [_codes(paired, column) for column in columns]
    chance = np.asarray(channel.chances(codes, codes))
    return _of_chance(name, agree, chance)


def _of_chance(name: str, agree: NDArray[np.bool_], chance: Floats) -> Agreement:
    most, least = 1 - float(chance.min()), float(chance.max())
    return Agreement(
        name, agree.astype(np.float64), chance, chance * (1 - chance), max(most, 1e-9), least
    )


def _codes(paired: Paired, column: PairedColumn) -> NDArray[Any]:
    axis = paired.private.axes[column.axis]
    values = paired.truths[axis.attribute]
    single = np.asarray(values) if axis.item is None else as_bits(values).column(axis.item)
    return single.astype(np.intp)


def triples(paired: Paired) -> Iterator[Agreement]:
    """The first columns three by three."""
    most = min(MOST_TRIPLES, max(1, 4 * MOST_NUMBERS // paired.release.rows))
    columns = len(paired.columns)
    while comb(columns, 3) > most:
        columns -= 1
    for three in combinations(paired.columns[:columns], 3):
        names = [f"'{column.name}'" for column in three]
        yield agreement(paired, list(three), f"{names[0]}, {names[1]} and {names[2]}")


def _of_baskets(paired: Paired) -> Agreements:
    fit = BasketFit(paired)
    labels = paired.mechanism.private_reports.attributes[0].labels
    judged = np.argsort(-fit.truth.counts(), kind="stable")[:MOST_COLUMNS]
    parts = tuple(_item(fit, int(item), f"item '{labels[item]}'") for item in judged)
    whole, staying = _whole_baskets(fit)
    same = np.logical_and.reduce([_same(fit, item) for item in range(fit.truth.items)])
    return Agreements(whole, parts, same, staying)


def _same(fit: BasketFit, item: int) -> NDArray[np.bool_]:
    return fit.truth.column(item) == fit.report.column(item)


def _item(fit: BasketFit, item: int, name: str) -> Agreement:
    return _of_chance(name, _same(fit, item), item_chance(fit, item))


def item_chance(fit: BasketFit, item: int) -> Floats:  # (rows,)
    """The probability that a report has this item right."""
    ones = fit.law.ones[item]
    when_true = ones[fit.sizes] if len(ones) > 1 else ones[0]
    return np.where(fit.truth.column(item), when_true, 1 - fit.law.zeros[item])


def _whole_baskets(fit: BasketFit) -> tuple[Agreement, Floats]:
    """How many items each report has right, and at least the probability that it has all."""
    law, truth, every = fit.law, fit.truth, np.arange(fit.truth.items)
    both = held(Bits(truth.words & fit.report.words, truth.rows), every)
    found = truth.items - fit.sizes - held(fit.report, every) + 2.0 * both
    offsets, items = truth.to_csr()
    sizes = np.repeat(fit.sizes, np.diff(offsets)) if law.ones.shape[1] > 1 else 0
    ones, zeros = law.ones[items, sizes], 1 - law.zeros

    def total(when_true: Floats, when_not: Floats) -> Floats:  # (true items,), (items,) -> (rows,)
        return when_not.sum() + _sums(when_true - when_not[items], offsets)

    mean = total(ones, zeros)
    variance = total(ones * (1 - ones), zeros * (1 - zeros))
    if not law.pairs.any():
        staying = np.exp(total(_logs(ones), _logs(zeros)))
        return Agreement("whole baskets", found, mean, variance, top=truth.items), staying
    variance += fit.sizes * (fit.sizes - 1) * law.pairs[fit.sizes]
    most, least = float((truth.items - mean).max()), float(mean.max())
    # All items are right at most as often as a single one is.
    single = np.where(fit.sizes > 0, law.ones.max(axis=0)[fit.sizes], zeros.max())
    whole = Agreement(
        "whole baskets", found, mean, variance, max(most, 1e-9), least, top=truth.items
    )
    return whole, single


def _sums(values: Floats, offsets: NDArray[np.int64]) -> Floats:
    """The sums of consecutive stretches."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def _logs(chances: Floats) -> Floats:
    return np.log(np.maximum(chances, 1e-300))
