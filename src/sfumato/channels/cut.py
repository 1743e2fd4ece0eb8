"""Cut: the channels of cut-and-paste, over a record's columns and over a few items of baskets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import Channel, Counts, Repeating, batched, unbatched
from sfumato.channels.dense import Dense
from sfumato.channels.product import Product, sqrt_factors
from sfumato.channels.unary_bits import ValueBits
from sfumato.errors import Unanswerable

Floats = NDArray[np.float64]


class Sizes(Dense):
    """Partial supports: entry [l', l] is the probability that l' of the k items are reported when l
    of them are true (Evfimievski et al. 2002; FRAPP eq. 11), one channel a basket size.

    Enough to recover the support of an itemset (all k present), as its items are treated alike.
    """

    @classmethod
    @lru_cache(maxsize=256)  # a plan asks for the same few hundreds of times
    def cut_and_paste(cls, length: int, basket: int, cutoff: int, insert: float) -> Sizes:
        """A basket of `basket` items: min(uniform 0..cutoff, basket) of them are kept, then every
        other item is put in with `insert`: of the l true ones q are kept by the hypergeometric law,
        each of the other k-q is put in with probability ρ = insert.
        """
        truths = min(length, basket) + 1
        matrix = np.zeros((truths, length + 1))
        for true, column in enumerate(matrix):
            for draw in range(cutoff + 1):
                cut = min(draw, basket)
                for kept in range(max(0, cut - (basket - true)), min(true, cut) + 1):
                    ways = comb(true, kept) * comb(basket - true, cut - kept) / comb(basket, cut)
                    column[kept:] += ways / (cutoff + 1) * _binomial(length - kept, insert)
        return cls(matrix.T, (truths,), (length + 1,))


def _binomial(trials: int, chance: float) -> Floats:
    return np.array(
        [comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)]
    )


@dataclass(frozen=True, eq=False)
class CutRecords(Repeating):
    """From the cells of k of a record's M columns to itemsets with at most one item of each.

    Which of the k items are kept is drawn first; given that, every item is reported on its own (a
    kept one surely, any other with ρ = insert). So the channel is a mixture over kept patterns of
    products of bits. What comes back depends only on how many of the k items a report shows:
    x̂_v = Σ_{S ⊆ v} a_|S|·y_S, a the differences of the last row of the inverse of `Sizes`.
    """

    shape: tuple[int, ...]
    record: int  # M
    cutoff: int
    insert: float

    def __post_init__(self) -> None:
        if len(self.shape) > self.cutoff:
            raise beyond_cutoff(len(self.shape), self.cutoff)

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.shape

    @property
    def outputs(self) -> tuple[int, ...]:
        return tuple(size + 1 for size in self.shape)

    @property
    def everyone(self) -> Counts:
        weights = np.zeros(self.outputs)
        weights[(0,) * len(self.shape)] = 1  # whatever each column shows
        return weights

    @cached_property
    def votes(self) -> Floats:  # (k + 1,)
        """What a report that shows 0, 1, … k of an itemset's items says about its presence."""
        sizes = Sizes.cut_and_paste(len(self.shape), self.record, self.cutoff, self.insert)
        return sizes.inverse[-1]

    @cached_property
    def _mixture(self) -> list[tuple[float, Channel]]:
        """Each pattern of kept columns: its probability, and the bits it leaves."""
        kept = kept_inside(self.record, len(self.shape), self.cutoff)
        terms = []
        for pattern in product((False, True), repeat=len(self.shape)):
            number = sum(pattern)
            chance = kept[number] / comb(len(self.shape), number)
            factors = [
                ValueBits(
                    np.full(size, 1.0 if keep else self.insert), np.full(size, 1 - self.insert)
                )
                for size, keep in zip(self.shape, pattern, strict=True)
            ]
            terms.append((chance, Product.of(*factors)))
        return [term for term in terms if term[0] > 0]

    def apply(self, counts: Counts) -> Counts:
        return sum((c * part.apply(counts) for c, part in self._mixture), np.zeros(()))

    def adjoint(self, weights: Counts) -> Counts:
        return sum((c * part.adjoint(weights) for c, part in self._mixture), np.zeros(()))

    def second_moment(self, first: Counts, other: Counts) -> Counts:
        terms = (c * part.second_moment(first, other) for c, part in self._mixture)
        return sum(terms, np.zeros(()))

    def moments(self, counts: Counts) -> Counts:
        return sum((c * part.moments(counts) for c, part in self._mixture), np.zeros(()))

    def sqrt_factors(self, weights: Counts) -> Counts:
        flat = weights.reshape(*self.outputs, -1)
        terms = [
            math.sqrt(chance) * np.moveaxis(_spread(part, flat), -1, 1)
            for chance, part in self._mixture
        ]
        table = np.concatenate(terms, axis=1)
        return table.reshape(*table.shape[:2], *weights.shape[1:])

    def _folded(self, counts: Counts, votes: Floats) -> Counts:
        table, weights = batched(counts, self.outputs), differences(votes)
        total = np.zeros((*self.inputs, table.shape[-1]))
        for pattern in product((False, True), repeat=len(self.shape)):
            place = tuple(slice(1, None) if there else slice(0, 1) for there in pattern)
            total = total + weights[sum(pattern)] * table[place]
        return unbatched(total, counts, self.outputs, self.inputs)

    def solve(self, counts: Counts) -> Counts:
        return self._folded(counts, self.votes)

    def inverse_squared(self, counts: Counts) -> Counts:
        return self._folded(counts, self.votes**2)

    def solve_adjoint(self, weights: Counts) -> Counts:
        table, votes = batched(weights, self.inputs), differences(self.votes)
        result = np.empty((*self.outputs, table.shape[-1]))
        for pattern in product((False, True), repeat=len(self.shape)):
            place = tuple(slice(1, None) if there else slice(0, 1) for there in pattern)
            rest = tuple(axis for axis, there in enumerate(pattern) if not there)
            result[place] = votes[sum(pattern)] * table.sum(axis=rest, keepdims=True)
        return unbatched(result, weights, self.inputs, self.outputs)


def _spread(
    part: Channel, weights: Counts
) -> Counts:  # (outputs…, batch) -> (inputs, batch, terms)
    assert isinstance(part, Product)
    repeating = [factor for factor in part.factors if isinstance(factor, Repeating)]
    return np.moveaxis(sqrt_factors(repeating, part._repeating_first(weights))[:, :, 0], 0, 1)


@dataclass(frozen=True, eq=False)
class CutBaskets(Channel):
    """From which of k items a basket of each size holds to which of them it shows.

    inputs and outputs: (sizes, 2, …, 2). A basket of m items, those in u among the k: κ ⊆ u is
    kept by the hypergeometric law, any other item is put in with ρ. "All of T are there" comes
    back by the votes of `Sizes` for |T| items in baskets of m; single cells by inclusion and
    exclusion. The blocks of sizes that do not occur are never computed (`settle`).
    """

    sizes: int  # baskets of 0, 1, …, sizes - 1 items
    items: int
    cutoff: int
    insert: float
    occurring: tuple[int, ...] | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.sizes, *(2,) * self.items)

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.inputs

    def settle(self, counts: Counts) -> CutBaskets:
        held = np.asarray(counts).reshape(self.sizes, -1).sum(axis=1)
        return replace(self, occurring=tuple(np.flatnonzero(held).tolist()))

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(range(self.sizes)) if self.occurring is None else self.occurring

    @cached_property
    def _patterns(self) -> NDArray[np.int64]:  # (2^k, k)
        return np.array(list(product((0, 1), repeat=self.items)), dtype=np.int64)

    @cached_property
    def _forward(self) -> Floats:  # (occurring sizes, shown, true)
        patterns = self._patterns
        held = patterns.sum(axis=1)
        blocks = np.zeros((len(self._sizes), len(patterns), len(patterns)))
        for place, size in enumerate(self._sizes):
            for true in np.flatnonzero(held <= size):
                kept = kept_inside(size, int(held[true]), self.cutoff)
                for keep in np.flatnonzero((patterns <= patterns[true]).all(axis=1)):
                    number = int(held[keep])
                    chance = kept[number] / comb(int(held[true]), number)
                    shows = (patterns >= patterns[keep]).all(axis=1)
                    put = (patterns - patterns[keep]).sum(axis=1)
                    left = self.items - number - put
                    law = self.insert ** np.maximum(put, 0) * (1 - self.insert) ** left
                    blocks[place, :, true] += chance * np.where(shows, law, 0.0)
        return blocks

    @cached_property
    def _backward(self) -> Floats:  # (occurring sizes, true, shown)
        patterns = self._patterns
        held, overlap = patterns.sum(axis=1), patterns @ patterns.T
        blocks = np.zeros((len(self._sizes), len(patterns), len(patterns)))
        for place, size in enumerate(self._sizes):
            for subset in np.flatnonzero(held <= size):
                length = int(held[subset])
                if length > self.cutoff:
                    raise beyond_cutoff(length, self.cutoff)
                sizes = Sizes.cut_and_paste(length, size, self.cutoff, self.insert)
                votes = sizes.inverse[-1][overlap[subset]]
                for true in np.flatnonzero((patterns <= patterns[subset]).all(axis=1)):
                    blocks[place, true] += (-1.0) ** (length - held[true]) * votes
        return blocks

    def _times(self, blocks: Floats, counts: Counts) -> Counts:
        table = batched(counts, self.inputs).reshape(self.sizes, len(self._patterns), -1)
        result = np.zeros_like(table)
        chosen = list(self._sizes)
        result[chosen] = blocks @ table[chosen]
        return unbatched(result, counts, self.inputs, self.outputs)

    def apply(self, counts: Counts) -> Counts:
        return self._times(self._forward, counts)

    def adjoint(self, weights: Counts) -> Counts:
        return self._times(np.swapaxes(self._forward, 1, 2), weights)

    def solve(self, counts: Counts) -> Counts:
        return self._times(self._backward, counts)

    def solve_adjoint(self, weights: Counts) -> Counts:
        return self._times(np.swapaxes(self._backward, 1, 2), weights)

    def inverse_squared(self, counts: Counts) -> Counts:
        return self._times(self._backward**2, counts)


def kept_inside(size: int, part: int, cutoff: int) -> list[float]:
    """The law of how many of `part` of a basket's `size` items are kept: min(uniform 0..cutoff,
    size) are, drawn without replacement.

    >>> kept_inside(2, 1, 1)
    [0.75, 0.25]
    """
    law = [0.0] * (part + 1)
    for draw in range(cutoff + 1):
        kept = min(draw, size)
        for inside in range(max(0, kept - (size - part)), min(part, kept) + 1):
            ways = comb(part, inside) * comb(size - part, kept - inside) / comb(size, kept)
            law[inside] += ways / (cutoff + 1)
    return law


def differences(values: Floats) -> Floats:
    """The a_j with values[l] = Σ_j C(l,j)·a_j.

    >>> differences(np.array([1.0, 3.0, 7.0])).tolist()
    [1.0, 2.0, 2.0]
    """
    size = len(values)
    matrix: NDArray[Any] = np.array(
        [
            [(-1.0) ** (row - column) * comb(row, column) for column in range(size)]
            for row in range(size)
        ]
    )
    return matrix @ values


def beyond_cutoff(length: int, cutoff: int) -> Unanswerable:
    """What is said to a question about more items than a report can keep."""
    return Unanswerable(
        f"itemsets of {length} items cannot be recovered: at most cutoff={cutoff} items of a "
        "basket are kept",
        hint=f"ask for itemsets of at most {cutoff} items",
    )
