"""Supports of itemsets from reports whose vote depends only on how many of the items they show:
cut-and-paste.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.cut import differences
from sfumato.estimation.supports.supports import Floats, Integers, Measured
from sfumato.observation import ItemsetCounter


@dataclass(frozen=True, eq=False)
class PartialSupports:
    """Each report votes on each itemset by how many of its items it shows; the votes have mean 1
    where the record holds it and 0 where not.

    A report that shows l of the k items votes w_l = Σ_j C(l,j)·a_j with a_j = Σ_i (-1)^(j-i)
    C(j,i)·w_i, so the votes add up to Σ_j a_j·T_j, T_j the observed counts of all subsets of j
    items together. A subset of j < k items lies in k-j of the itemsets one shorter, so T_j is the
    sum of theirs over k-j, and a candidate costs one new intersection. Votes depend on the size of
    the true basket: where sizes differ, each is counted apart, its reports being those that hold
    the item which stands for that size.
    """

    shrunk: ClassVar[bool] = False

    names: tuple[str, ...]
    groups: Integers
    rows: int
    baskets: ItemsetCounter
    votes: Callable[[int, int], NDArray[Any]]  # length, size -> of a report that shows 0, 1, … k
    sizes: tuple[tuple[int, int | None], ...]  # a size, and the item that stands for it
    longest: int | None = None  # itemsets with more items leave no trace in the reports
    copies: int = 1  # reports of each of the rows
    exact: bool = False

    def empty(self) -> Measured:
        everyone = np.array([float(self.rows)])
        return Measured(everyone, everyone, np.zeros(1), (self._people[:, None, None],))

    @cached_property
    def _people(self) -> Floats:
        """How many reports there are of baskets of each size."""
        return self._observed(np.zeros((1, 0), dtype=np.int32))[:, 0]

    def _observed(self, itemsets: NDArray[np.int32]) -> Floats:  # (n, k) -> (sizes, n)
        counts = []
        for _, item in self.sizes:
            mark = np.full((len(itemsets), 0 if item is None else 1), item or 0, dtype=np.int32)
            counts.append(self.baskets.counts(np.hstack([itemsets, mark])))
        return np.array(counts, dtype=np.float64)

    def _weights(self, length: int) -> Floats:  # (sizes, length + 1)
        """The votes of every size; a basket smaller than the itemset does not hold it."""
        rows = [
            self.votes(length, size) if size >= length else np.zeros(length + 1)
            for size, _ in self.sizes
        ]
        return np.array(rows, dtype=np.float64)

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        length = itemsets.shape[1]
        totals = np.empty((len(self.sizes), length + 1, len(itemsets)))
        totals[:, length] = self._observed(itemsets)
        for size in range(length):
            known = shorter.memory[0][:, size]
            totals[:, size] = known[:, subsets].sum(axis=2) / (length - size)
        weights = self._weights(length)
        count = _added(weights, totals)
        squares = _added(weights**2, totals)
        stderr = np.sqrt(np.maximum(squares - count, 0.0)) / self.copies
        return Measured(totals[:, length].sum(axis=0), count / self.copies, stderr, (totals,))

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        """From how many reports show exactly which of the items, size by size."""
        length = itemsets.shape[1]
        patterns = np.arange(1 << length)
        held = np.bitwise_count(patterns[:, None] & patterns[None, :])  # (shown, subset)
        shape = len(itemsets), len(patterns)
        with_whole, with_rest = np.zeros(shape), np.zeros(shape)
        for place, exactly in enumerate(self._exactly(itemsets)):
            tables = [self._weights(size)[place] for size in range(length + 1)]
            vote = np.stack([tables[s.bit_count()][held[:, s]] for s in patterns.tolist()], axis=1)
            both = exactly @ (vote * vote[:, -1:])  # votes on a subset, and on the whole
            rest = exactly @ (vote * vote[:, ::-1])
            whole = (exactly @ vote[:, -1])[:, None]
            with_whole += both - whole
            with_rest += rest - whole
        return with_whole / self.copies**2, with_rest / self.copies**2

    def _exactly(self, itemsets: NDArray[np.int32]) -> list[Floats]:  # sizes × (n, 2^k)
        """How many reports of each size show exactly each subset of the items."""
        length = itemsets.shape[1]
        counts = np.empty((len(self.sizes), len(itemsets), 1 << length))
        for subset in range(1 << length):
            chosen = [position for position in range(length) if subset >> position & 1]
            counts[:, :, subset] = self._observed(itemsets[:, chosen])
        for position in range(length):  # from "at least these" to "exactly these"
            pairs = counts.reshape(len(self.sizes), len(itemsets), -1, 2, 1 << position)
            pairs[:, :, :, 0] -= pairs[:, :, :, 1]
        return list(counts)


def _added(weights: Floats, totals: Floats) -> Floats:
    """Σ over sizes and lengths of a_j·T_j."""
    steps = np.array([differences(row) for row in weights])
    return np.einsum("sj,sjn->n", steps, totals)
