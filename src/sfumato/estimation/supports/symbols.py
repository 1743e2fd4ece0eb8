"""Supports of the itemsets that people could report as one symbol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.supports.base import Floats, Integers, Measured


class ToldBySymbols(ABC):
    """Supports of baskets that were each told by one symbol, whatever the symbols stand for."""

    shrunk: ClassVar[bool] = False

    names: tuple[str, ...]
    rows: int

    @property
    def exact(self) -> bool:
        """Symbols are never the truth."""
        return False

    @property
    def groups(self) -> Integers:
        """Every item may be joined with any other."""
        return np.arange(len(self.names))

    def empty(self) -> Measured:
        """The one itemset of length 0, which every row holds."""
        everyone = np.array([float(self.rows)])
        return Measured(everyone, everyone, np.zeros(1))

    @abstractmethod
    def _errors(self, itemsets: NDArray[np.int32]) -> Floats:  # (n,)
        """The standard error of each count."""

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        """Different symbols are nearly uncorrelated, a report being one of very many: an itemset's
        covariance with itself is all that counts.
        """
        size = 1 << itemsets.shape[1]
        with_whole, with_rest = (np.zeros((len(itemsets), size)) for _ in range(2))
        with_whole[:, -1] = self._errors(itemsets) ** 2
        return with_whole, with_rest


@dataclass(frozen=True, eq=False)
class SymbolSupports(ToldBySymbols):
    """Estimated counts of the itemsets asked about; of any other the reports say nothing, and it is
    never frequent.
    """

    names: tuple[str, ...]
    rows: int
    itemsets: tuple[tuple[int, ...], ...]
    count: Floats  # (itemsets,)
    stderr: Floats
    noise: Floats  # what of that is each itemset's own: what a cap took moves all alike

    @property
    def longest(self) -> int:
        return max(map(len, self.itemsets))

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
        noise = np.where(places < 0, 0.0, self.noise[places])
        if itemsets.shape[1] == 1 and self.longest > 1:
            # An item that only longer itemsets name is held by at least as many as they.
            for place in np.flatnonzero(places < 0):
                held = [c for c, each in enumerate(self.itemsets) if itemsets[place, 0] in each]
                if held:
                    best = max(held, key=lambda c: self.count[c])
                    count[place], stderr[place] = self.count[best], self.stderr[best]
                    noise[place] = self.noise[best]
        return Measured(count, count, stderr, noise=noise)

    def _errors(self, itemsets: NDArray[np.int32]) -> Floats:
        places = self._found(itemsets)
        return np.where(places < 0, 0.0, self.stderr[places])
