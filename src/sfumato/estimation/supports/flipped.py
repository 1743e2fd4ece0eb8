"""Estimated counts of itemsets, one length after the other: what a level-wise miner asks of any
source of baskets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.bits import Bits
from sfumato.counting.bitmaps import itemset_counts
from sfumato.errors import EstimationError, ParameterError
from sfumato.estimation.supports.supports import Floats, Integers, Measured
from sfumato.observation import ItemsetCounter


@dataclass(frozen=True, eq=False)
class FlippedSupports:
    """Supports from baskets whose items were flipped one by one: ones kept with `keep_ones`, zeros
    with `keep_zeros`.

    With d = p + q - 1 of an item (p = keep_ones, q = keep_zeros), a report v stands for g(v) true
    ones, g(1) = q/d and g(0) = -(1-q)/d, and an itemset's count is the sum over the rows of the
    product of its items' g (MASK, Rizvi and Haritsa 2002, with one p for all). The sum of the
    squared product less the estimate is its variance, rows held fixed. Both follow from observed
    supports of subsets: with the first j items reconstructed and the others still observed,
    G[j+1](I) = G[j](I)/d + g(0)·G[j](I without item j), so a candidate costs one new intersection
    and one step an item.

    >>> baskets = Bits.from_dense(np.array([[True, True], [True, False]]))
    >>> supports = FlippedSupports(baskets, ("tea", "milk"))
    >>> supports.exact, supports.rows
    (True, 2)
    """

    shrunk: ClassVar[bool] = False

    bits: Bits | ItemsetCounter
    names: tuple[str, ...]
    keep_ones: ArrayLike = 1.0  # one for all, or one an item
    keep_zeros: ArrayLike = 1.0
    attributes: Integers | None = None  # for one-hot records: the attribute each item is a value of
    copies: int = 1  # reports a record, each with noise of its own

    def __post_init__(self) -> None:
        if len(self.names) != self.bits.items:
            raise ParameterError(
                f"{len(self.names)} item names for {self.bits.items} items; give one name an item"
            )
        for word in ("keep_ones", "keep_zeros"):
            object.__setattr__(
                self, word, _probabilities(word, getattr(self, word), self.bits.items)
            )
        lost = np.flatnonzero(np.abs(self._determinant) < 1e-12)
        if len(lost):
            name, keep = self.names[lost[0]], self._keep_ones[lost[0]]
            raise EstimationError(
                f"item '{name}' is reported alike whether present or not (ones kept with "
                f"{keep:g}, zeros with {1 - keep:g})",
                hint="keep_ones + keep_zeros must differ from 1",
            )

    @property
    def rows(self) -> int:
        """The number of true baskets."""
        return self.bits.rows // self.copies

    @property
    def longest(self) -> None:
        """Itemsets of every length leave their trace."""
        return None

    @property
    def groups(self) -> Integers:
        """Every item for itself, unless items are values of attributes: any two may be in one
        basket.
        """
        return np.arange(self.bits.items) if self.attributes is None else self.attributes

    @cached_property
    def exact(self) -> bool:
        """Whether no item was ever flipped."""
        return bool(np.all(self._keep_ones == 1) and np.all(self._keep_zeros == 1))

    def empty(self) -> Measured:
        """The empty itemset, in every basket."""
        reports = np.array([float(self.bits.rows)])
        memory = () if self.exact else (reports[None, :], reports[None, :])
        return Measured(reports, reports / self.copies, np.zeros(1), memory)

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        """Count each itemset once and reconstruct it from the counts of its subsets."""
        observed = self._observed(itemsets).astype(np.float64)
        if self.exact:
            return Measured(observed, observed / self.copies, np.zeros(len(observed)))
        linear, squared = self._weights
        estimates = _fold(observed, itemsets, subsets, shorter.memory[0], *linear)
        squares = _fold(observed, itemsets, subsets, shorter.memory[1], *squared)
        stderr = np.sqrt(np.maximum(squares[-1] - estimates[-1], 0))
        return Measured(
            observed, estimates[-1] / self.copies, stderr / self.copies, (estimates, squares)
        )

    def _observed(self, itemsets: NDArray[np.int32]) -> Integers:
        return (
            itemset_counts(self.bits, itemsets)
            if isinstance(self.bits, Bits)
            else self.bits.counts(itemsets)
        )

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        """cov(S, I) = sum over rows of the product of g² over S and g over the rest of I, less the
        estimate of I.

        Items are flipped independently, so the estimates of disjoint itemsets have covariance 0.
        """
        none = np.zeros_like(observed)
        if self.exact:
            return none, none
        (step, base), (squared_step, squared_base) = self._weights
        table = observed
        for position in range(itemsets.shape[1]):
            item = itemsets[:, position, None]
            pairs = table.reshape(len(table), -1, 2, 1 << position)
            without, present = (
                pairs[:, :, 0].reshape(len(table), -1),
                pairs[:, :, 1].reshape(len(table), -1),
            )
            folded = np.stack(
                [
                    step[item] * present + base[item] * without,
                    squared_step[item] * present + squared_base[item] * without,
                ],
                axis=-1,
            )
            folded = folded.reshape(len(table), -1, 1 << position, 2)
            table = np.swapaxes(folded, 2, 3).reshape(len(table), -1)
        return table / self.copies**2 - count[:, -1:] / self.copies, none

    @property
    def _keep_ones(self) -> Floats:
        return np.asarray(self.keep_ones, dtype=np.float64)

    @property
    def _keep_zeros(self) -> Floats:
        return np.asarray(self.keep_zeros, dtype=np.float64)

    @property
    def _determinant(self) -> Floats:
        return self._keep_ones + self._keep_zeros - 1

    @cached_property
    def _weights(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """For g and for g²: its rise from an absent to a present report, and its value at an absent
        one.
        """
        present = self._keep_zeros / self._determinant
        absent = (self._keep_zeros - 1) / self._determinant
        return (present - absent, absent), (present**2 - absent**2, absent**2)


def _probabilities(word: str, values: ArrayLike, items: int) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != items):
        raise ParameterError(
            f"{word} has shape {array.shape}; give one probability, or one for each of {items} "
            "items"
        )
    if np.any((array < 0) | (array > 1) | np.isnan(array)):
        raise ParameterError(f"{word} must lie in 0..1; found {array.min():g}..{array.max():g}")
    return np.broadcast_to(array, (items,)).copy()


def _fold(
    observed: Floats,
    itemsets: NDArray[np.int32],
    subsets: NDArray[np.int32],
    shorter: Floats,
    step: Floats,
    base: Floats,
) -> Floats:
    """Row j: the weighted sum over rows with the first j items weighted and the others
    observed.
    """
    length = itemsets.shape[1]
    folded = np.empty((length + 1, len(itemsets)))
    folded[0] = observed
    for position in range(length):
        item = itemsets[:, position]
        folded[position + 1] = (
            step[item] * folded[position] + base[item] * shorter[position, subsets[:, position]]
        )
    return folded
