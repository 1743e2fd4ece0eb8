"""Supports of itemsets from reports that vote row by row: cut-and-paste, where an item's fate
depends on the whole basket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.supports.base import Floats, Integers, Measured


@dataclass(frozen=True, eq=False)
class VotedSupports:
    """Each report votes on each itemset; the votes have mean 1 where the record holds it and 0
    where not.

    Their sum is the estimate, the sum of their squares less the estimate its variance (rows held
    fixed). Every candidate costs a pass over the rows, so this is for mechanisms that offer nothing
    faster.
    """

    names: tuple[str, ...]
    groups: Integers
    rows: int
    votes: Callable[[Sequence[int]], NDArray[Any]]
    exact: bool = False
    copies: int = 1  # reports of each of the rows
    longest: int | None = None  # itemsets with more items leave no trace in the reports

    def empty(self) -> Measured:
        everyone = np.array([float(self.rows)])
        return Measured(everyone, everyone, np.zeros(1))

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        count, squares = np.empty(len(itemsets)), np.empty(len(itemsets))
        for place, items in enumerate(itemsets.tolist()):
            votes = self.votes(items)
            count[place], squares[place] = votes.sum(), votes @ votes
        return Measured(
            count / self.copies,
            count / self.copies,
            np.sqrt(np.maximum(squares - count, 0.0)) / self.copies,
        )

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        size = 1 << itemsets.shape[1]
        with_whole, with_rest = np.empty((len(itemsets), size)), np.empty((len(itemsets), size))
        for place, items in enumerate(itemsets.tolist()):
            votes = np.stack([self._subset_votes(items, subset) for subset in range(size)])
            with_whole[place] = votes @ votes[-1] - votes[-1].sum()
            with_rest[place] = (votes * votes[::-1]).sum(axis=1) - votes[-1].sum()
        return with_whole / self.copies**2, with_rest / self.copies**2

    def _subset_votes(self, items: Sequence[int], subset: int) -> NDArray[Any]:
        chosen = [item for position, item in enumerate(items) if subset >> position & 1]
        return self.votes(chosen) if chosen else np.ones(self.rows * self.copies)
