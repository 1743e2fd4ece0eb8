"""Margin-consistent ways back: sums over a column are what the other columns say by themselves.

Consistency of marginals as in Barak et al. (2007), here by taking each interaction from the part of
the tally that is its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.channels.channel import Channel, Counts, Repeating, batched, unbatched
from sfumato.channels.cut import CutRecords
from sfumato.channels.product import Product
from sfumato.channels.unary_bits import ValueBits

Axes = tuple[int, ...]


def margin_consistent(channel: Channel) -> Channel:
    """The channel with a way back whose sums over a column are what the other columns say by
    themselves; itself where they are so anyhow. Of a product it is that of its factors.
    """
    if isinstance(channel, Product):
        return replace(channel, factors=tuple(map(margin_consistent, channel.factors)))
    if isinstance(channel, ValueBits) and not channel.shape:
        return MarginConsistent(channel, {(0,): channel})
    if isinstance(channel, CutRecords):
        places, shape = range(len(channel.shape)), channel.shape
        every = [axes for n in places for axes in combinations(places, n + 1)]
        parts = {axes: replace(channel, shape=tuple(shape[a] for a in axes)) for axes in every}
        return MarginConsistent(channel, parts)
    return channel


@dataclass(frozen=True, eq=False)
class MarginConsistent(Repeating):
    """A channel whose tally counts everyone at entry 0 of each axis, undone by all that it holds.

    Cells reconstructed from bits do not add up to what is known of fewer columns: each sum over a
    column of k values gathers the noise of k bits, where entry 0 has none. Here what some columns
    say together beyond fewer of them comes from the part of the tally that is theirs alone:
    x̂ = Σ_A C_A·(A's own x̂) / cells of the others, C_A taking off the means along each axis of A.

    >>> from sfumato.channels.unary_bits import Unary
    >>> coin = Unary(np.array([0.9, 0.9]), np.array([0.9, 0.9]))
    >>> tally = np.array([[100.0, 60, 50], [60, 36, 32], [50, 30, 25]])
    >>> margin_consistent(Product.of(coin, coin)).solve(tally).sum(axis=1)
    array([56.25, 43.75])
    """

    plain: Repeating
    parts: Mapping[Axes, Channel]  # the channel of each few of the axes alone

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.plain.inputs

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.plain.outputs

    @property
    def everyone(self) -> Counts:
        return self.plain.everyone

    def apply(self, counts: Counts) -> Counts:
        return self.plain.apply(counts)

    def adjoint(self, weights: Counts) -> Counts:
        return self.plain.adjoint(weights)

    def second_moment(self, first: Counts, other: Counts) -> Counts:
        return self.plain.second_moment(first, other)

    def sqrt_factors(self, weights: Counts) -> Counts:
        return self.plain.sqrt_factors(weights)

    def moments(self, counts: Counts) -> Counts:
        return self.plain.moments(counts)

    def solve(self, counts: Counts) -> Counts:
        table = batched(counts, self.outputs)
        total = np.zeros((*self.inputs, table.shape[-1]))
        for axes, part, rest, cells in self._each():
            own = table[self._place(axes)].reshape(*part.outputs, -1)
            total += np.expand_dims(_beyond(part.solve(own), len(axes)), rest) / cells
        total += table[(0,) * len(self.outputs)] / math.prod(self.inputs)
        return unbatched(total, counts, self.outputs, self.inputs)

    def solve_adjoint(self, weights: Counts) -> Counts:
        table = batched(weights, self.inputs)
        result = np.zeros((*self.outputs, table.shape[-1]))
        for axes, part, rest, cells in self._each():
            summed = _beyond(table.sum(axis=rest) / cells, len(axes))
            result[self._place(axes)] += part.solve_adjoint(summed)
        result[(0,) * len(self.outputs)] += table.reshape(-1, table.shape[-1]).mean(axis=0)
        return unbatched(result, weights, self.inputs, self.outputs)

    def inverse_squared(self, counts: Counts) -> Counts:
        """What was not counted, bits of several values together, comes from the channel."""
        size = math.prod(self.inputs)
        influence = self.solve_adjoint(np.eye(size).reshape(*self.inputs, size))
        squares = self.second_moment(influence, influence).reshape(size, size)  # (truths, cells)
        found = batched(self.solve(counts), self.inputs).reshape(size, -1)
        return unbatched(squares.T @ found, counts, self.outputs, self.inputs)

    def _each(self) -> Iterator[tuple[Axes, Channel, Axes, int]]:
        """Some axes, their own channel, the other axes and the cells of these."""
        for axes, part in self.parts.items():
            rest = tuple(axis for axis in range(len(self.inputs)) if axis not in axes)
            yield axes, part, rest, math.prod(self.inputs[axis] for axis in rest)

    def _place(self, axes: Axes) -> tuple[Any, ...]:
        """Where the tally of some axes alone stands."""
        every = range(len(self.outputs))
        return tuple(slice(None) if axis in axes else 0 for axis in every)


def _beyond(table: Counts, axes: int) -> Counts:
    """A table less its means along each of the first axes."""
    for axis in range(axes):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
