"""Reported baskets: each item, items two by two and three by three, and how many items a report
holds, against the chances that the mechanism gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.limits import (
    FEW_CELLS,
    MOST_COLUMNS,
    MOST_UNPACKED,
    NEIGHBOUR_ROWS,
    PAIRED_ITEMS,
    ROWS_AT_ONCE,
)
from sfumato.audit.paired import Paired
from sfumato.audit.places import WHOSE, shifted
from sfumato.audit.score import Agreements, Check, Floats, RowScores, ScoreTest
from sfumato.bits import Bits
from sfumato.channels.cut import kept_inside
from sfumato.mechanisms.base import Mechanism
from sfumato.observation import CutLaw
from sfumato.randomness import Keystream


@dataclass(frozen=True, eq=False)
class ItemChances:
    """The probability that an item is reported, when true (by the size of the true basket) and when
    not, and of pairs.
    """

    ones: Floats  # (items, sizes), or (items, 1) where the size does not matter
    zeros: Floats  # (items,)
    pairs: Floats  # (sizes,) or (1,): the covariance of two reported items that are both true

    @classmethod
    def of(cls, mechanism: Mechanism, largest: int) -> ItemChances:
        """Of a mechanism that flips items on their own, or of cut-and-paste, for baskets up to the
        largest.
        """
        law = mechanism.item_law
        assert law is not None
        if not isinstance(law, CutLaw):
            ones, absent = law.keeps(0)
            return cls(ones[:, None], 1 - absent, np.zeros(1))
        insert, size = law.insert, np.arange(largest + 1)
        kept = [np.array(kept_inside(n, n, law.cutoff)) for n in size.tolist()]
        mean, square = (
            np.array([chance @ np.arange(len(chance)) ** power for chance in kept])
            for power in (1, 2)
        )
        one, both = mean / np.maximum(size, 1), (square - mean) / np.maximum(size * (size - 1), 1)
        reported = one + (1 - one) * insert
        # Both reported: both kept, one kept and the other put in, or both put in.
        together = both + 2 * (one - both) * insert + (1 - 2 * one + both) * insert**2
        ones, zeros = np.tile(reported, (law.items, 1)), np.full(law.items, insert)
        return cls(ones, zeros, together - reported**2)


@dataclass(frozen=True, eq=False)
class ItemRows:
    """Some items in some rows: whether true, whether reported, and the chance of that."""

    truth: Floats  # (rows, items)
    report: Floats
    chance: Floats
    tied: Floats  # (rows,): the covariance that the mechanism gives two true items
    names: tuple[str, ...]

    @cached_property
    def left(self) -> Floats:
        """Reported less the chance of that."""
        return self.report - self.chance

    @cached_property
    def variance(self) -> Floats:
        return self.chance * (1 - self.chance)

    @cached_property
    def flips(self) -> Floats:
        """Flipped less the probability of that."""
        return self.left * (1 - 2 * self.truth)

    @property
    def allowed(self) -> Floats:  # (items, items)
        """The covariance of every two items' reports that is the mechanism's own."""
        return (self.truth * self.tied[:, None]).T @ self.truth


@dataclass(frozen=True, eq=False)
class BasketFit:
    """True and reported baskets beside the chances that should join them."""

    paired: Paired
    rng: Keystream

    @property
    def truth(self) -> Bits:
        return self.paired.true_baskets

    @property
    def report(self) -> Bits:
        return self.paired.reported_baskets

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many items each true basket holds."""
        return self.truth.sizes()

    @cached_property
    def chances(self) -> ItemChances:
        return ItemChances.of(self.paired.mechanism, int(self.sizes.max(initial=0)))

    @cached_property
    def _column(self) -> NDArray[np.int64]:
        """Which column of the chances each row has."""
        return self.sizes if self.chances.ones.shape[1] > 1 else np.zeros_like(self.sizes)

    @cached_property
    def _held(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The items of all true baskets, as offsets and items."""
        return self.truth.to_csr()

    @cached_property
    def _kept(self) -> Floats:
        """The chance that each of them is reported."""
        offsets, items = self._held
        return self.chances.ones[items, np.repeat(self._column, np.diff(offsets))]

    @cached_property
    def variance(self) -> Floats:  # (rows,)
        """Of the number of items that each report holds, which is that of the number it has
        right.
        """
        kept, put_in = self._kept, self.chances.zeros
        own = totals(self._held, kept * (1 - kept), put_in * (1 - put_in))
        return own + self.sizes * (self.sizes - 1) * self.chances.pairs[self._column]

    def rows_of(self, items: NDArray[np.intp], start: int, stop: int) -> ItemRows:
        """These items in a stretch of rows."""
        chances, column = self.chances, self._column[start:stop]
        truth, report = (
            bits.slice(start, stop).select(items).to_dense().astype(np.float64)
            for bits in (self.truth, self.report)
        )
        chance = np.where(truth > 0, chances.ones[items][:, column].T, chances.zeros[items])
        names = tuple(self.paired.item_names[item] for item in items)
        tied = chances.pairs[column]
        return ItemRows(truth, report, chance, tied, names)

    def first_rows(self, items: NDArray[np.intp], most: int) -> ItemRows:
        """These items in as many rows as may be unpacked at once."""
        return self.rows_of(
            items, 0, min(self.truth.rows, most, max(1, MOST_UNPACKED // max(1, len(items))))
        )

    def chunks(self, items: NDArray[np.intp]) -> Iterator[ItemRows]:
        """These items in all rows, some at a time."""
        for start in range(0, self.truth.rows, ROWS_AT_ONCE):
            yield self.rows_of(items, start, min(start + ROWS_AT_ONCE, self.truth.rows))

    def checks(self) -> tuple[list[Check], Floats]:
        """Whether reports follow the channel, and a series of residuals, one a report."""
        pairs, residuals = self._two_by_two()
        return [self.item_check(), *pairs, self.size_check()], residuals

    def item_check(self) -> Check:
        """Each item is reported as often when true, and as often when not, as the channel says."""
        put_in, (_, items), each = self.chances.zeros, self._held, self._kept
        both = np.bitwise_count(self.truth.words & self.report.words).sum(axis=1, dtype=np.int64)
        absent = self.truth.rows - self.paired.true_items
        mean, variance = (
            np.bincount(items, values, self.truth.items) for values in (each, each * (1 - each))
        )
        added, spread = absent * put_in, absent * put_in * (1 - put_in)
        where, elsewhere = (
            [f"item '{name}' where {true}" for name in self.paired.item_names]
            for true in ("true", "not true")
        )
        ones = self.chances.ones
        most, least = 1 - ones.min(axis=1), ones.max(axis=1)
        alone = self.report.counts() - both
        return Check.of(
            "every item is reported as often as its channel says",
            [
                ScoreTest.of(both - mean, variance, where, most, least),
                ScoreTest.of(alone - added, spread, elsewhere, 1 - put_in, put_in),
            ],
        )

    def _two_by_two(self) -> tuple[list[Check], Floats]:
        """Whether the deviations of two items go together only where the channel lets them."""
        items = self.paired.most_frequent(FEW_CELLS)
        weights = self.rng.random(len(items)) + 0.5
        products, spread = np.zeros((2, len(items), len(items)))
        residuals, largest, names = [], 0.0, tuple(self.paired.item_names[item] for item in items)
        for part in self.chunks(items):
            products += part.left.T @ part.left - part.allowed
            spread += part.variance.T @ part.variance
            largest = max(largest, float(np.abs(part.left).max()))
            residuals.append(part.left @ weights)
        pairs = np.triu_indices(len(items), 1)
        test = ScoreTest.of(
            products[pairs], spread[pairs], _pair_words(names), largest**2, largest**2
        )
        found = Check.each({"items are reported independently of each other": [test]})
        return found, np.concatenate(residuals)

    def size_check(self) -> Check:
        """The number of reported items: right on average, whatever the truth, and neither too even
        nor too uneven.
        """
        variance, every = self.variance, np.arange(self.report.items)
        left = held(self.report, every) - totals(self._held, self._kept, self.chances.zeros)
        tests = [ScoreTest.of(left.sum(), variance.sum(), ["on average"], 0, 0)]
        # What a report's length might wrongly depend on.
        traits: list[tuple[str, Any]] = [("the size of the true basket", self.sizes)]
        if not self.paired.private.baskets:
            names = [f"the true '{name}'" for name in self.paired.private.names]
            traits = list(zip(names, self.paired.truths, strict=True))
        for name, trait in traits:
            values = np.asarray(trait).astype(np.float64)
            centred = values - values.mean()
            if centred.any():
                words = [f"depending on {name}"]
                tests.append(ScoreTest.of(left @ centred, variance @ centred**2, words, 0, 0))
        known = variance > 1e-9
        if known.sum() > 100:
            square = left[known] ** 2 / variance[known]
            # What was found spreads least where its mean is small; the normal distribution's √2
            # keeps such a chance from looking like a finding.
            spread = max(float(square.std()), 2**0.5) ** 2 / len(square)
            tests.append(ScoreTest.of(square.mean() - 1, spread, ["in how much it varies"], 0, 0))
        return Check.of("the length of a report tells no more than the channel does", tests)

    def coin_checks(self) -> list[Check]:
        """Whether every item is flipped by a coin of its own.

        Two items that share one coin flip together. Signed deviations hide it, since their signs
        cancel where the two truths differ; flips show it. A third coin that is made of two others
        is independent of each, and shows three by three.
        """
        items = self.paired.most_frequent(PAIRED_ITEMS)
        rows = self.first_rows(items, self.truth.rows)
        pairs = np.triu_indices(len(items), 1)
        products = rows.flips.T @ rows.flips
        if self.chances.pairs.any():
            products -= rows.allowed
        spread = rows.variance.T @ rows.variance
        two = ScoreTest.of(products[pairs], spread[pairs], _pair_words(rows.names))
        # The joint chances of three items that the mechanism itself ties together are not written
        # down here.
        three = () if self.chances.pairs.any() else _triples(rows)
        return Check.each(
            {
                "every two items are flipped by coins of their own": [two],
                "every three items are flipped by coins of their own": three,
            }
        )

    def agreements(self) -> Agreements:
        """How many items each report has right, and whether it has each of the most frequent."""
        whole, staying = self._whole()
        parts = tuple(self._right(int(item)) for item in self.paired.most_frequent(MOST_COLUMNS))
        same = np.logical_and.reduce([self._same(item) for item in range(self.truth.items)])
        return Agreements(whole, parts, same, staying)

    def _same(self, item: int) -> NDArray[np.bool_]:
        return self.truth.column(item) == self.report.column(item)

    def _right(self, item: int) -> RowScores:
        true, name = self.truth.column(item), f"item '{self.paired.item_names[item]}'"
        chance = np.where(true, self.chances.ones[item][self._column], 1 - self.chances.zeros[item])
        return RowScores.of(name, self._same(item), chance)

    def _whole(self) -> tuple[RowScores, Floats]:
        """How many items each report has right, and at least the probability that it has all."""
        chances, truth, every = self.chances, self.truth, np.arange(self.truth.items)
        both = held(Bits(truth.words & self.report.words, truth.rows), every)
        found = truth.items - self.sizes - held(self.report, every) + 2.0 * both
        csr, ones, zeros = self._held, self._kept, 1 - chances.zeros
        mean, variance = totals(csr, ones, zeros), self.variance
        if not chances.pairs.any():
            logs = (np.log(np.maximum(chance, 1e-300)) for chance in (ones, zeros))
            staying = np.exp(totals(csr, *logs))
            return RowScores("whole baskets", found, mean, variance, top=truth.items), staying
        most, least = max(float((truth.items - mean).max()), 1e-9), float(mean.max())
        # All items are right at most as often as a single one is.
        staying = np.where(self.sizes > 0, chances.ones.max(axis=0)[self.sizes], zeros.max())
        return RowScores("whole baskets", found, mean, variance, most, least, truth.items), staying

    def neighbour_tests(self, found: Agreements | None) -> Iterator[ScoreTest]:
        """Flips and reported items beside the items of the basket before and after."""
        items = self.first_rows(self.paired.most_frequent(MOST_COLUMNS), NEIGHBOUR_ROWS)
        for apart in (-1, 1):
            here, there = shifted(len(items.truth), apart * self.paired.copies)
            truth, variance = items.truth[there], items.variance[here]
            for what, left in (("flipped", items.flips[here]), ("reported", items.left[here])):
                words = [
                    f"whether '{own}' is {what} depends on {WHOSE[apart]} holding '{other}'"
                    for own in items.names
                    for other in items.names
                ]
                yield ScoreTest.of(left.T @ truth, variance.T @ truth, words)

    def count_checks(self) -> list[Check]:
        """Whether items are reported, alone and two by two, as often as the counts of the truth
        say: whichever report is whose.
        """
        items = self.paired.most_frequent(FEW_CELLS)
        names = [self.paired.item_names[item] for item in items]
        together, mean = np.zeros((2, len(items), len(items)))
        left, variance = np.zeros((2, len(items)))
        for part in self.chunks(items):
            together += part.report.T @ part.report
            mean += part.chance.T @ part.chance + part.allowed
            left += part.left.sum(axis=0)
            variance += part.variance.sum(axis=0)
        each = ScoreTest.of(left, variance, lambda place: f"item '{names[place]}'")
        pairs = np.triu_indices(len(items), 1)
        two = ScoreTest.of((together - mean)[pairs], mean[pairs], _pair_words(names))
        says = "as often as the counts of the truth say"
        return Check.each(
            {
                f"every item is reported {says}": [each],
                f"items are reported together {says}": [two],
            }
        )


def _triples(rows: ItemRows) -> Iterator[ScoreTest]:
    """Items three by three: the first with every two after it."""
    names = rows.names[:MOST_COLUMNS]
    flips, variance = (values[:, : len(names)] for values in (rows.flips, rows.variance))
    for first in range(len(names) - 2):
        rest = slice(first + 1, None)
        products, spread = (
            (values[:, rest] * values[:, [first]]).T @ values[:, rest]
            for values in (flips, variance)
        )
        pairs = np.triu_indices(len(products), 1)
        words = _pair_words(names[rest], f"'{names[first]}', ")
        yield ScoreTest.of(products[pairs], spread[pairs], words)


def _pair_words(names: Sequence[str], before: str = "") -> Callable[[int], str]:
    """What every two of these are called, in the order of `np.triu_indices`."""

    def words(place: int) -> str:
        first, second = (each[place] for each in np.triu_indices(len(names), 1))
        return f"{before}'{names[first]}' and '{names[second]}'"

    return words


def held(bits: Bits, items: NDArray[Any]) -> NDArray[np.intp]:
    """How many of these items each basket holds: `Bits.sizes` for baskets that are not sparse. The
    sum of 128 items fits a byte.
    """
    count = np.zeros(bits.rows, dtype=np.intp)
    for start in range(0, len(items), 128):
        octets = bits.words[items[start : start + 128]].view(np.uint8)
        ones = np.unpackbits(octets, axis=1, count=bits.rows, bitorder="little")
        count += ones.sum(axis=0, dtype=np.uint8)
    return count


def totals(truth: tuple[NDArray[Any], NDArray[Any]], when_true: Floats, when_not: Floats) -> Floats:
    """For each basket, as offsets and items, the sum of what its items give and of what the others
    do; the first given entry by entry, the second item by item.
    """
    offsets, items = truth
    sums = np.concatenate([[0.0], np.cumsum(when_true - when_not[items])])
    return np.asarray(when_not.sum() + sums[offsets[1:]] - sums[offsets[:-1]])
