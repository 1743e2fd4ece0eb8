"""Supports of the itemsets that people could report as one symbol."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.supports.base import Floats, Integers, Measured


@dataclass(frozen=True, eq=False)
class SymbolSupports:
    """Estimated counts of the itemsets asked about; of any other the reports say nothing, and it is
    never frequent.
    """

    names: tuple[str, ...]
    rows: int
    itemsets: tuple[tuple[int, ...], ...]
    count: Floats  # (itemsets,)
    stderr: Floats
    exact: bool = False

    @property
    def groups(self) -> Integers:
        return np.arange(len(self.names))

    @property
    def longest(self) -> int:
        return max(map(len, self.itemsets))

    def empty(self) -> Measured:
        everyone = np.array([float(self.rows)])
        return Measured(everyone, everyone, np.zeros(1))

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {each: place for place, each in enumerate(self.itemsets)}

    def _found(self, itemsets: NDArray[np.int32]) -> Integers:  # (n,): -1 where not asked about
        return np.array([self._places.get(tuple(each), -1) for each in itemsets.tolist()], np.int64)

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        places = self._found(itemsets)
        count = np.where(places < 0, 0.0, self.count[places])
        stderr = np.where(places < 0, 0.0, self.stderr[places])
        if itemsets.shape[1] == 1 and self.longest > 1:
            # An item that only longer itemsets name is held by at least as many as they.
            for place in np.flatnonzero(places < 0):
                held = [c for c, each in enumerate(self.itemsets) if itemsets[place, 0] in each]
                if held:
                    best = max(held, key=lambda c: self.count[c])
                    count[place], stderr[place] = self.count[best], self.stderr[best]
        return Measured(count, count, stderr)

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        """Different symbols are nearly uncorrelated, a report being one of very many: an itemset's
        covariance with itself is all that counts.
        """
        size = 1 << itemsets.shape[1]
        with_whole, with_rest = (np.zeros((len(itemsets), size)) for _ in range(2))
        places = self._found(itemsets)
        own = np.where(places < 0, 0.0, self.stderr[places] ** 2)
        with_whole[:, -1] = own
        return with_whole, with_rest
