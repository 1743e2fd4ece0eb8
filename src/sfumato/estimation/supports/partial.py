"""Supports of itemsets from reports whose vote depends only on how many of the items they show:
cut-and-paste on records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import comb

import numpy as np
from numpy.typing import NDArray

from sfumato.counting.base import Baskets
from sfumato.estimation.supports.base import Floats, Measured
from sfumato.estimation.supports.voted import VotedSupports


@dataclass(frozen=True, eq=False)
class PartialSupports(VotedSupports):
    """The same estimates as by votes, from counts of subsets instead of passes over the rows.

    A report that shows l of the k items votes w_l = Σ_j C(l,j)·a_j with a_j = Σ_i (-1)^(j-i)
    C(j,i)·w_i, so the votes add up to Σ_j a_j·T_j, T_j the observed counts of all subsets of j
    items together. A subset of j < k items lies in k-j of the itemsets one shorter, so T_j is the
    sum of theirs over k-j, and a candidate costs one new intersection.
    """

    baskets: Baskets = field(kw_only=True)
    weights: Callable[[int], Floats | None] = field(
        kw_only=True
    )  # of a report that shows 0, 1, … k of k items

    def empty(self) -> Measured:
        everyone = np.array([float(self.rows)])
        return Measured(everyone, everyone, np.zeros(1), (self.copies * everyone[None, :],))

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        length = itemsets.shape[1]
        totals = np.empty((length + 1, len(itemsets)))
        totals[length] = self.baskets.counts(itemsets)
        for size in range(length):
            totals[size] = shorter.memory[0][size][subsets].sum(axis=1) / (length - size)
        weights = np.asarray(self.weights(length), dtype=np.float64)
        count, squares = differences(weights) @ totals, differences(weights**2) @ totals
        stderr = np.sqrt(np.maximum(squares - count, 0.0)) / self.copies
        return Measured(totals[length], count / self.copies, stderr, (totals,))


def differences(values: Floats) -> Floats:
    """The a_j with values[l] = Σ_j C(l,j)·a_j.

    >>> differences(np.array([1.0, 3.0, 7.0])).tolist()
    [1.0, 2.0, 2.0]
    """
    size = len(values)
    matrix = np.array(
        [
            [(-1.0) ** (row - column) * comb(row, column) for column in range(size)]
            for row in range(size)
        ]
    )
    return matrix @ values
