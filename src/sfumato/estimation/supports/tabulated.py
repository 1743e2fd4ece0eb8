"""Supports of records from contingency tables: one small table for each set of attributes that has
a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.limits import ENTRIES
from sfumato.domain import Cells
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import is_nested
from sfumato.estimation.supports.supports import Floats, Integers, Measured
from sfumato.progress import Progress, silent

Errors = dict[tuple[int, ...], Floats]  # of the cells of some columns


def nothing(columns: tuple[int, ...]) -> None:
    """What is supposed of columns that were reported."""


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
    tell: Progress = silent  # hears how many tables have been asked for
    supposed: Callable[[tuple[int, ...]], str | None] = nothing  # of columns: what a law assumes

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

    def assumed(self, itemsets: NDArray[np.int32]) -> list[str | None]:
        """What the support of each itemset assumes beyond the reports."""
        result: list[str | None] = [None] * len(itemsets)
        for attributes, places in self._by_attributes(itemsets):
            supposed = self.supposed(tuple(sorted(attributes.tolist())))
            for place in places if supposed is not None else ():
                result[place] = supposed
        return result

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
            count[places], stderr[places] = self._measured(attributes, itemsets[places])
        return Measured(count, count, stderr)

    def _table(self, attributes: Integers) -> Estimate | None:
        """The table of some columns; None where there is none."""
        return self.marginal([self.columns[attribute] for attribute in attributes])

    def _measured(self, attributes: Integers, itemsets: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """The counts of itemsets over the same columns, and their errors."""
        estimate = self._table(attributes)
        if estimate is None:
            return self._joined(attributes, itemsets)
        cells = tuple(self._values[itemsets].T)
        return estimate.value[cells], estimate.stderr[cells]

    def _joined(self, attributes: Integers, itemsets: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """The same from those without one item and without two: where two are independent given
        the rest, P(X) = P(X∖a)·P(X∖b) / P(X∖ab), of which the geometric mean over all pairs is
        taken (Kirkwood's superposition); its error is at most the mean of theirs.
        """
        places = range(len(attributes))

        def without(*gone: int) -> tuple[Floats, Floats]:
            kept = np.delete(np.arange(len(attributes)), gone)
            count, stderr = self._measured(attributes[kept], itemsets[:, kept])
            held = np.maximum(count, 1e-9)
            return np.log(held), stderr / np.maximum(count, 1.0)

        one = [without(place) for place in places]
        logs, errors = [], []
        for first, second in combinations(places, 2):
            parts = one[first], one[second], without(first, second)
            logs.append(parts[0][0] + parts[1][0] - parts[2][0])
            errors.append(np.sqrt(sum(error**2 for _, error in parts)))
        least = np.min([log for log, _ in one], axis=0)
        count = np.exp(np.minimum(np.mean(logs, axis=0), least))
        return count, np.maximum(count, 1.0) * np.mean(errors, axis=0)

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
        errors: Errors = {}
        for attributes, places in self._by_attributes(itemsets):
            estimate = self._table(attributes)
            if estimate is None:  # with others as if independent: their sum is no surer then
                with_whole[places, -1] = self._joined(attributes, itemsets[places])[1] ** 2
                continue
            step = max(1, ENTRIES // (estimate.value.size * size))
            for start in range(0, len(places), step):
                block = places[start : start + step]
                values = self._values[itemsets[block]]
                found = self._crossed(estimate, attributes, values, errors)
                with_whole[block], with_rest[block] = found
        return with_whole, with_rest

    def _crossed(
        self, estimate: Estimate, attributes: Integers, values: Integers, errors: Errors
    ) -> tuple[Floats, Floats]:  # (itemsets, 2^k) each
        """What `covariances` says of itemsets over the same columns."""
        indicators = _indicators(estimate.value.shape, values)
        flat = indicators.reshape(*estimate.value.shape, -1)
        whole = np.broadcast_to(indicators[..., -1:], indicators.shape).reshape(flat.shape)
        rest = indicators[..., ::-1].reshape(flat.shape)
        part = self._precision(estimate, flat, attributes, values, errors)
        with_whole, with_rest = (
            estimate.evidence.covariances(flat, other).reshape(part.shape) / estimate.copies**2
            for other in (whole, rest)
        )
        return part * with_whole, part * part[:, ::-1] * with_rest

    def _precision(
        self,
        estimate: Estimate,
        indicators: Floats,
        attributes: Integers,
        values: Integers,
        errors: Errors,
    ) -> Floats:  # (itemsets, 2^k)
        """For each subset of an itemset, the variance of its own estimate as a share of that of the
        table's sum.

        Where a subset is told by more reports than the table is, or exactly, its own estimate is
        the better one and that is what is mined. An estimate of least variance is uncorrelated with
        what others are off from it, so its covariance with a cell is the sum's times this share.
        """
        subsets = 1 << values.shape[1]
        if is_nested(estimate.evidence):
            return np.ones((len(values), subsets))
        sums = np.maximum(estimate.variances(indicators), 0.0).reshape(-1, subsets)
        own = np.zeros(sums.shape)
        for subset in range(1, subsets):
            held = [place for place in range(values.shape[1]) if subset >> place & 1]
            table = self._errors_of(tuple(attributes[held].tolist()), errors)
            own[:, subset] = table[tuple(values[:, held].T)] ** 2
        return np.divide(own, sums, out=np.ones(sums.shape), where=sums > 0).clip(0.0, 1.0)

    def _errors_of(self, attributes: tuple[int, ...], errors: Errors) -> Floats:
        """The error of each cell of some columns, worked out once."""
        if attributes not in errors:
            errors[attributes] = self.marginal([self.columns[a] for a in attributes]).stderr
        return errors[attributes]


def _indicators(
    shape: tuple[int, ...], values: Integers
) -> Floats:  # (itemsets, k) -> (*table, itemsets, 2^k)
    """For each subset of an itemset, 1 in the cells of the table where all of the subset's items
    hold.
    """
    number, subsets = len(values), np.arange(1 << len(shape))
    weights = np.ones((*shape, number, len(subsets)))
    for position, size in enumerate(shape):
        axis = np.ones((size, number, len(subsets)))
        axis[:, :, subsets >> position & 1 == 1] = 0
        axis[values[:, position], np.arange(number)] = 1
        others = [size if other == position else 1 for other in range(len(shape))]
        weights *= axis.reshape(*others, number, len(subsets))
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
