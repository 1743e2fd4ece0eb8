"""Supports of all itemsets from what people said who were asked in rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.baskets.asking import least_of
from sfumato.estimation.baskets.pooled import PooledRounds
from sfumato.estimation.supports.supports import Floats, Integers, Measured
from sfumato.estimation.supports.symbols import ToldBySymbols

SUPPOSED = 0.5  # of all that baskets hold: who leaves so much open does not tell it


@dataclass(frozen=True, eq=False)
class AskedSupports(ToldBySymbols):
    """Estimated counts of any itemset: what was found of it where it was asked about, weighed
    against what classes of baskets predict.
    """

    names: tuple[str, ...]
    rows: int
    rounds: PooledRounds
    shrunk: ClassVar[bool] = True  # to what the classes predict

    @property
    def longest(self) -> int | None:
        return None

    @cached_property
    def _assumes(self) -> str | None:
        """What no round told of how much large baskets hold."""
        least = min(each.supposed for each in self.rounds.tallies)
        if least <= SUPPOSED:
            return None
        return (
            "that few baskets are far above the caps: reports alone leave how much is left out of "
            f"them open by {100 * least:.0f} % of what all hold"
        )

    def assumed(self, itemsets: NDArray[np.int32]) -> list[str | None]:
        """What the support of each itemset assumes beyond the reports."""
        return [self._assumes] * len(itemsets)

    @cached_property
    def groups(self) -> Integers:
        """Items that no round asked about by name are not joined with each other: nobody told
        anything of two of them, and each is rarer than all that was worth a question.
        """
        named = self.rounds.named
        return np.where(named, np.arange(len(named)), len(named)) if named.any() else super().groups

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

    def _errors(self, itemsets: NDArray[np.int32]) -> Floats:
        nothing = np.zeros((len(itemsets), 0), dtype=np.int32)
        return self.measure(itemsets, nothing, self.empty()).stderr
