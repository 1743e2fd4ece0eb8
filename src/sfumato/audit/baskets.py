"""Goodness of fit of reported baskets: each item, items two by two, and how many items a report
holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.check import Check, counted, two_sided, worst_of
from sfumato.audit.paired import Paired
from sfumato.bits import Bits
from sfumato.channels.cut import kept_inside
from sfumato.observation import CutLaw
from sfumato.randomness import Keystream

JUDGED_ITEMS = 64  # the most frequent items, judged two by two
CHUNK = 1 << 15  # rows at a time
ITEMS_AT_ONCE = 128  # items unpacked together: their sum fits a byte

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BasketLaw:
    """The probability that an item is reported, when true (by the size of the true basket) and when
    not, and of pairs.
    """

    ones: Floats  # (items, sizes)
    zeros: Floats  # (items,)
    pairs: Floats  # (sizes,): the covariance of two reported items that are both true
    size_mean: Floats  # (sizes,) or (rows,): the expected number of reported items
    size_variance: Floats
    by_row: bool  # whether the two above are given row by row

    @classmethod
    def of(cls, paired: Paired, sizes: NDArray[np.int64]) -> BasketLaw:
        """The law of a mechanism that flips items on their own, or of cut-and-paste."""
        law = paired.mechanism.item_law
        if isinstance(law, CutLaw):
            return _cut_law(law, int(sizes.max(initial=0)))
        assert law is not None
        ones, zeros = law.keeps(0)
        noise = zeros * (1 - zeros)
        mean = (1 - zeros).sum() + weighed(paired.true_baskets, ones + zeros - 1)
        variance = noise.sum() + weighed(paired.true_baskets, ones * (1 - ones) - noise)
        return cls(ones[:, None], 1 - zeros, np.zeros(1), mean, variance, by_row=True)


def _cut_law(law: CutLaw, largest: int) -> BasketLaw:
    insert, universe = law.insert, law.items
    sizes = range(largest + 1)
    laws = [np.array(kept_inside(size, size, law.cutoff)) for size in sizes]
    kept = [np.arange(len(law)) for law in laws]
    mean_kept = np.array([law @ k for law, k in zip(laws, kept, strict=True)])
    var_kept = np.array([law @ k**2 for law, k in zip(laws, kept, strict=True)]) - mean_kept**2
    one = np.array([mean_kept[size] / max(size, 1) for size in sizes])
    both = np.array(
        [
            (laws[size] @ (kept[size] * (kept[size] - 1))) / max(size * (size - 1), 1)
            for size in sizes
        ]
    )
    ones = one + (1 - one) * insert
    # Both reported: both kept, one kept and the other put in, or both put in.
    together = both + 2 * (one - both) * insert + (1 - 2 * one + both) * insert**2
    mean = insert * universe + (1 - insert) * mean_kept
    variance = (universe - mean_kept) * insert * (1 - insert) + (1 - insert) ** 2 * var_kept
    return BasketLaw(
        np.tile(ones, (universe, 1)),
        np.full(universe, insert),
        together - ones**2,
        mean,
        variance,
        by_row=False,
    )


@dataclass(frozen=True, eq=False)
class BasketFit:
    """True and reported baskets under the law that should join them."""

    paired: Paired

    @cached_property
    def truth(self) -> Bits:
        return self.paired.true_baskets

    @cached_property
    def report(self) -> Bits:
        return self.paired.reported_baskets

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many items each true basket holds."""
        return self.truth.sizes()

    @cached_property
    def law(self) -> BasketLaw:
        return BasketLaw.of(self.paired, self.sizes)

    @cached_property
    def _size_place(self) -> NDArray[np.int64]:
        """Which column of the law each row has."""
        return (
            self.sizes if self.law.ones.shape[1] > 1 else np.zeros(len(self.sizes), dtype=np.int64)
        )

    def checks(self, rng: Keystream) -> tuple[list[Check], Floats]:
        """All checks of the baskets, and a series of residuals, one a report."""
        judged = np.argsort(-self.truth.counts(), kind="stable")[:JUDGED_ITEMS]
        pairs, residuals = self._two_by_two(judged, rng)
        return [self.item_check(), *pairs, self.size_check()], residuals

    def item_check(self) -> Check:
        """Each item is reported as often when true, and as often when not, as the channel says."""
        ones, both, reported = self._tallies
        zeros, alone = self.truth.rows - ones, reported - both
        mean, variance = self._expected_ones()
        shown = counted(both, ones, mean, variance)
        put_in = counted(
            alone, zeros, zeros * self.law.zeros, zeros * self.law.zeros * (1 - self.law.zeros)
        )
        impossible = (alone > 0) & (self.law.zeros == 0)
        labels = [
            f"item '{label}'"
            for label in self.paired.mechanism.private_reports.attributes[0].labels
        ]
        values = np.concatenate([shown, np.where(impossible, 0.0, put_in)])
        details = [f"{label} where true" for label in labels] + [
            f"{label} where not true" for label in labels
        ]
        return worst_of("every item is reported as often as its channel says", values, details)

    @cached_property
    def _tallies(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of each item: rows where it is true, true and reported, reported."""
        both = np.bitwise_count(self.truth.words & self.report.words).sum(axis=1, dtype=np.int64)
        return self.truth.counts(), both, self.report.counts()

    def _expected_ones(self) -> tuple[Floats, Floats]:
        chance = self.law.ones
        if chance.shape[1] == 1:
            ones = self._tallies[0]
            return ones * chance[:, 0], ones * chance[:, 0] * (1 - chance[:, 0])
        offsets, items = self.truth.to_csr()
        each = chance[items, np.repeat(self.sizes, np.diff(offsets))]
        count = self.truth.items
        mean, variance = (
            np.bincount(items, values, count).astype(np.float64)
            for values in (each, each * (1 - each))
        )
        return mean, variance

    def _two_by_two(self, judged: NDArray[Any], rng: Keystream) -> tuple[list[Check], Floats]:
        """Whether the deviations of two items go together only where the channel lets them."""
        truth, report = self.truth.select(judged), self.report.select(judged)
        count = len(judged)
        products, spreads, allowed = (
            np.zeros((count, count)),
            np.zeros((count, count)),
            np.zeros((count, count)),
        )
        weights = rng.random(count) + 0.5
        residuals = np.empty(truth.rows)
        for start in range(0, truth.rows, CHUNK):
            part = slice(start, min(start + CHUNK, truth.rows))
            true = truth.slice(part.start, part.stop).to_dense().astype(np.float64)
            place = self._size_place[part]
            chance = np.where(true > 0, self.law.ones[judged][:, place].T, self.law.zeros[judged])
            left = report.slice(part.start, part.stop).to_dense() - chance
            noise = chance * (1 - chance)
            products += left.T @ left
            spreads += noise.T @ noise
            allowed += (true * self.law.pairs[place % len(self.law.pairs)][:, None]).T @ true
            residuals[part] = left @ weights
        first, second = np.triu_indices(count, 1)
        if not len(first):
            return [], residuals
        score = (products - allowed)[first, second] / np.sqrt(
            np.maximum(spreads[first, second], 1.0)
        )
        names = [
            self.paired.mechanism.private_reports.attributes[0].labels[item] for item in judged
        ]
        details = [f"'{names[a]}' and '{names[b]}'" for a, b in zip(first, second, strict=True)]
        return [
            worst_of("items are reported independently of each other", two_sided(score), details)
        ], residuals

    def size_check(self) -> Check:
        """The number of reported items: right on average, whatever the truth, and neither too even
        nor too uneven.
        """
        law, sizes = self.law, self.sizes
        mean, variance = (
            (law.size_mean, law.size_variance)
            if law.by_row
            else (law.size_mean[sizes], law.size_variance[sizes])
        )
        left = held(self.report, np.arange(self.report.items)) - mean
        total = np.maximum(variance.sum(), 1e-12)
        scores, words = [left.sum() / np.sqrt(total)], ["on average"]
        for name, trait in self._traits():
            centred = trait - trait.mean()
            if centred.any():
                scores.append(
                    float(left @ centred / np.sqrt(max(float(variance @ centred**2), 1e-12)))
                )
                words.append(f"depending on {name}")
        square = left**2 / np.maximum(variance, 1e-12)
        known = variance > 1e-9
        if known.sum() > 100:
            # What was found spreads least where its mean is small; the normal law's √2 keeps such a
            # chance from looking like a finding.
            spread = max(float(square[known].std()), 2**0.5)
            scores.append(float((square[known].mean() - 1) / spread * np.sqrt(known.sum())))
            words.append("in how much it varies")
        return worst_of(
            "the length of a report tells no more than the channel does", two_sided(scores), words
        )

    def _traits(self) -> list[tuple[str, Floats]]:
        """What a report's length might wrongly depend on: the size of the basket, or each column of
        a record.
        """
        if self.paired.private.baskets:
            return [("the size of the true basket", self.sizes.astype(np.float64))]
        pairs = zip(self.paired.private.names, self.paired.truths, strict=True)
        return [
            (f"the true '{name}'", np.asarray(column).astype(np.float64)) for name, column in pairs
        ]


def held(bits: Bits, items: NDArray[Any]) -> NDArray[np.intp]:
    """How many of these items each basket holds: `Bits.sizes` for baskets that are not sparse."""
    count = np.zeros(bits.rows, dtype=np.intp)
    for start in range(0, len(items), ITEMS_AT_ONCE):
        octets = bits.words[items[start : start + ITEMS_AT_ONCE]].view(np.uint8)
        ones = np.unpackbits(octets, axis=1, count=bits.rows, bitorder="little")
        count += ones.sum(axis=0, dtype=np.uint8)
    return count


def weighed(bits: Bits, weights: Floats) -> Floats:
    """For each basket the sum of its items' weights."""
    offsets, items = bits.to_csr()
    sums = np.concatenate([[0.0], np.cumsum(weights[items])])
    return sums[offsets[1:]] - sums[offsets[:-1]]
