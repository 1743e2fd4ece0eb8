"""Supports of the itemsets that people could report as one symbol."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.supports.supports import Floats, Integers, Measured

WITHIN = 2.5  # errors within which lies what may be anything up to all


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
    kept: Floats  # what caps left: no fewer hold each, but for its noise

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
        taken = np.maximum(self.count - self.kept, 0) / WITHIN
        lower = np.minimum(self.stderr, np.hypot(self.noise, taken))
        down = np.where(places < 0, 0.0, lower[places])
        for place, longer in self._only_longer(itemsets, places):
            count[place], stderr[place] = self.count[longer], self._at_least(longer)
            noise[place], down[place] = self.noise[longer], self.stderr[longer]
        return Measured(count, count, stderr, noise=noise, down=down)

    def _errors(self, itemsets: NDArray[np.int32]) -> Floats:
        places = self._found(itemsets)
        errors = np.where(places < 0, 0.0, self.stderr[places])
        for place, longer in self._only_longer(itemsets, places):
            errors[place] = self._at_least(longer)
        return errors

    def _at_least(self, longer: int) -> float:
        """The error of an itemset of which no more is known than that it is held by at least as
        many as a longer one, and by all at most.
        """
        return math.hypot(self.stderr[longer], max(self.rows - self.count[longer], 0) / WITHIN)

    def _only_longer(
        self, itemsets: NDArray[np.int32], places: Integers
    ) -> Iterator[tuple[int, int]]:
        """Itemsets that were not asked about but are part of longer ones that were, and of these
        the one that most hold.
        """
        length = itemsets.shape[1]
        if length >= self.longest:
            return
        longer = self._longer_than(length)
        for place in np.flatnonzero(places < 0).tolist():
            if (found := longer.get(tuple(itemsets[place].tolist()))) is not None:
                yield place, found

    def _longer_than(self, length: int) -> dict[tuple[int, ...], int]:
        """The itemset that most hold, of those that such a part is in."""
        found: dict[tuple[int, ...], int] = {}
        for place in np.argsort(self.count, kind="stable").tolist():
            if len(self.itemsets[place]) > length:
                found |= dict.fromkeys(combinations(self.itemsets[place], length), place)
        return found
