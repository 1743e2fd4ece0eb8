"""Supports of records from contingency tables: one small table for each set of attributes that has
a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Cells
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.supports.base import Floats, Integers, Measured
from sfumato.telling import Telling, silent


@dataclass(frozen=True, eq=False)
class TabulatedSupports:
    """Supports of itemsets `attribute=value` over columns that were not reported as bits.

    An itemset of length k is one cell of the marginal over its k attributes, so all candidates over
    the same attributes share one table, one reconstruction and one pass for the standard errors.
    """

    shrunk: ClassVar[bool] = False

    columns: tuple[Cells, ...]  # the values of each attribute, as they are mined
    rows: int
    marginal: Callable[[Sequence[Cells]], Estimate]
    exact: bool
    longest: int | None = None  # itemsets with more items leave no trace in the reports
    tell: Telling = silent  # hears how many tables have been asked for

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.columns for name in _item_names(part))

    @cached_property
    def groups(self) -> Integers:
        return np.repeat(
            np.arange(len(self.columns)), [len(_item_names(part)) for part in self.columns]
        )

    @cached_property
    def _values(self) -> Integers:
        """The cell of its attribute that each item stands for."""
        return np.concatenate(
            [np.arange(part.size - len(_item_names(part)), part.size) for part in self.columns]
        )

    def empty(self) -> Measured:
        everyone = np.array([float(self.rows)])
        return Measured(everyone, everyone, np.zeros(1))

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        count, stderr = np.empty(len(itemsets)), np.empty(len(itemsets))
        sets = self._by_attributes(itemsets)
        for done, (attributes, places) in enumerate(sets):
            self.tell(f"itemsets over {len(sets)} sets of columns", done / len(sets))
            estimate = self.marginal([self.columns[attribute] for attribute in attributes])
            cells = tuple(self._values[itemsets[places]].T)
            count[places], stderr[places] = estimate.value[cells], estimate.stderr[cells]
        return Measured(count, count, stderr)

    def _by_attributes(self, itemsets: NDArray[np.int32]) -> list[tuple[Integers, Integers]]:
        """The rows of `itemsets` for each set of attributes among them."""
        attributes = self.groups[itemsets]
        order = np.lexsort(attributes.T[::-1])
        ordered = attributes[order]
        if not len(ordered):
            return []
        starts = np.flatnonzero(np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)])
        return [
            (ordered[start], places)
            for start, places in zip(starts, np.split(order, starts[1:]), strict=True)
        ]

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        size = 1 << itemsets.shape[1]
        with_whole, with_rest = np.zeros((len(itemsets), size)), np.zeros((len(itemsets), size))
        if self.exact:
            return with_whole, with_rest
        for attributes, places in self._by_attributes(itemsets):
            estimate = self.marginal([self.columns[attribute] for attribute in attributes])
            for place in places:
                values = self._values[itemsets[place]]
                indicators = self._indicators(estimate, values)
                whole = np.broadcast_to(indicators[..., -1:], indicators.shape)
                part = self._precision(estimate, indicators, attributes, values)
                each = estimate.evidence.covariances(indicators, whole)
                with_whole[place] = part * each / estimate.copies**2
                each = estimate.evidence.covariances(indicators, indicators[..., ::-1])
                with_rest[place] = part * part[::-1] * each / estimate.copies**2
        return with_whole, with_rest

    def _precision(
        self, estimate: Estimate, indicators: Floats, attributes: Integers, values: Integers
    ) -> Floats:  # (2^k,)
        """For each subset of an itemset, the variance of its own estimate as a share of that of the
        table's sum.

        Where a subset is told by more reports than the table is, or exactly, its own estimate is
        the better one and that is what is mined. An estimate of least variance is uncorrelated with
        what others are off from it, so its covariance with a cell is the sum's times this share.
        """
        if estimate.evidence.nested:
            return np.ones(indicators.shape[-1])
        sums = np.maximum(estimate.variances(indicators), 0.0)
        own = np.zeros(len(sums))
        for subset in range(1, len(sums)):
            held = [place for place in range(len(values)) if subset >> place & 1]
            alone = self.marginal([self.columns[attributes[place]] for place in held])
            own[subset] = alone.stderr[tuple(values[held])] ** 2
        return np.divide(own, sums, out=np.ones(len(sums)), where=sums > 0).clip(0.0, 1.0)

    def _indicators(self, estimate: Estimate, cells: Integers) -> Floats:  # (*table, 2^k)
        """For each subset of the itemset, 1 in the cells of the table where all of the subset's
        items hold.
        """
        shape, subsets = estimate.value.shape, np.arange(1 << len(cells))
        weights = np.ones((*shape, len(subsets)))
        for position, cell in enumerate(cells):
            axis = np.ones((shape[position], len(subsets)))
            axis[:, subsets >> position & 1 == 1] = 0
            axis[cell] = 1
            weights *= axis.reshape(
                [shape[position] if other == position else 1 for other in range(len(shape))] + [-1]
            )
        return weights


def _item_names(part: Cells) -> tuple[str, ...]:
    """What is mined of a column: each of its values, but of an item of a basket only that it is
    there.
    """
    return (
        (part.name,)
        if part.item is not None
        else tuple(f"{part.name}={label}" for label in part.labels)
    )
