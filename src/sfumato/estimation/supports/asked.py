"""Supports of all itemsets from what people said who were asked in rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.rounds import Rounds, least_of
from sfumato.estimation.supports.base import Floats, Integers, Measured


@dataclass(frozen=True, eq=False)
class AskedSupports:
    """Estimated counts of any itemset: what was found of it where it was asked about, weighed
    against what kinds of baskets predict.
    """

    names: tuple[str, ...]
    rows: int
    rounds: Rounds
    exact: bool = False

    @property
    def groups(self) -> Integers:
        return np.arange(len(self.names))

    @property
    def longest(self) -> int | None:
        return None

    def empty(self) -> Measured:
        everyone = np.array([float(self.rows)])
        return Measured(everyone, everyone, np.zeros(1))

    def least(self, top: int) -> float:
        """The support of the last of so many itemsets of largest support, of any length."""
        return least_of(self.rounds, top)

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        if itemsets.shape[1] == 1:
            found = self.rounds.singles.take(itemsets[:, 0])
        else:
            found = self.rounds.supports([tuple(each) for each in itemsets.tolist()])
        return Measured(self.rows * found.mean, self.rows * found.mean, self.rows * found.stderr)

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        """Different symbols are nearly uncorrelated, a report being one of very many: an itemset's
        covariance with itself is all that counts.
        """
        size = 1 << itemsets.shape[1]
        with_whole, with_rest = (np.zeros((len(itemsets), size)) for _ in range(2))
        nothing = np.zeros((len(itemsets), 0), dtype=np.int32)
        own = self.measure(itemsets, nothing, self.empty()).stderr
        with_whole[:, -1] = own**2
        return with_whole, with_rest
