"""Bits of values: a report is counted at every bit it shows, each drawn on its own (unary encoding)
or as one of a set of fixed size (subset selection).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import (
    Channel,
    Counts,
    NotLumpableError,
    Repeating,
    batched,
    to_tally,
    to_truths,
    unbatched,
)
from sfumato.channels.limits import SMALL
from sfumato.domain import Cells
from sfumato.errors import ParameterError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ValueBits(Repeating):
    """From the n values of a column to (everyone, the reports that show value 1, …, value n).

    The bit of the true value is reported with `ones[v]`, that of any other value v with
    1 - `zeros[v]`, each on its own. x̂_v = (y_v - (1-q_v)·y_0) / (p_v+q_v-1) needs no other bit.
    """

    ones: Floats
    zeros: Floats
    shape: tuple[
        int, ...
    ] = ()  # of the table of truths, where they are the cells of several columns

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.shape or (len(self.ones),)

    def _truths(self, counts: Counts) -> Floats:  # (values, batch)
        return batched(counts, self.inputs).reshape(len(self.ones), -1)

    @property
    def outputs(self) -> tuple[int, ...]:
        return (len(self.ones) + 1,)

    @property
    def everyone(self) -> Counts:
        return (np.arange(len(self.ones) + 1) == 0).astype(float)  # the entry that counts all

    @cached_property
    def gain(self) -> Floats:
        """How much oftener a bit is shown for its own value than for another: p + q - 1."""
        return self.ones + self.zeros - 1

    @cached_property
    def _false(self) -> Floats:
        """How often the bit of another value is shown."""
        return 1 - self.zeros

    @to_tally
    def apply(self, table: Counts) -> Counts:
        people = table.reshape(len(self.ones), -1)
        total = people.sum(axis=0)
        shown = self.gain[:, None] * people + self._false[:, None] * total
        return np.concatenate([total[None], shown])

    @to_truths
    def adjoint(self, table: Counts) -> Counts:
        anyone = table[0] + self._false @ table[1:]
        return np.asarray(anyone + self.gain[:, None] * table[1:])

    @to_truths
    def solve(self, table: Counts) -> Counts:
        return np.asarray((table[1:] - self._false[:, None] * table[0]) / self.gain[:, None])

    @to_tally
    def solve_adjoint(self, table: Counts) -> Counts:
        weights = table.reshape(len(self.ones), -1) / self.gain[:, None]
        return np.concatenate([-(self._false @ weights)[None], weights])

    @to_truths
    def inverse_squared(self, table: Counts) -> Counts:
        """((b - c)/d)² = (b(1-2c) + c²)/d² for a bit b, so the tally itself gives the sum."""
        false = self._false[:, None]
        squares = table[1:] * (1 - 2 * false) + false**2 * table[0]
        return np.asarray(squares / self.gain[:, None] ** 2)

    def second_moment(self, first: Counts, other: Counts) -> Counts:
        """Bits are independent given the truth: the product of the means and the bits'
        variances.
        """
        spread = self._variances
        both = batched(first * other, self.outputs)[1:]
        noise = unbatched(spread.T @ both, first, self.outputs, self.inputs)
        return self.adjoint(first) * self.adjoint(other) + noise

    def sqrt_factors(self, weights: Counts) -> Counts:
        """The mean, and each bit with the root of its variance."""
        rest = weights.shape[1:]
        mean = self.adjoint(weights).reshape(len(self.ones), 1, *rest)
        roots = np.sqrt(self._variances).T.reshape(*self._variances.T.shape, *(1,) * len(rest))
        return np.concatenate([mean, roots * weights[None, 1:]], axis=1)

    @cached_property
    def _variances(self) -> Floats:  # (bits, truths)
        """The variance of each bit under each truth."""
        others = np.repeat((self._false * self.zeros)[:, None], len(self.ones), axis=1)
        np.fill_diagonal(others, self.ones * (1 - self.ones))
        return others

    def moments(self, counts: Counts) -> Counts:
        """Bits are independent given the truth: products of means, and variances besides."""
        table, means = self._truths(counts), self.to_dense()
        if len(means) > SMALL:
            found = np.stack([(means * people) @ means.T for people in table.T], axis=-1)
        else:
            pairs = (means[:, None] * means[None]).reshape(-1, means.shape[1])
            found = (pairs @ table).reshape(len(means), len(means), -1)
        bits = np.arange(1, len(means))
        found[bits, bits] += self._variances @ table
        return found

    def marginal(self, axes: Sequence[int]) -> Channel:
        if list(axes) == list(range(len(self.inputs))):
            return self
        raise NotLumpableError("bits of whole records say which record is true; sum afterwards")

    def coarsen(self, cells: Sequence[Cells]) -> Channel:
        if all(part.trivial for part in cells):
            return self
        raise NotLumpableError("bits of merged values say which value is true; merge afterwards")


@dataclass(frozen=True, eq=False)
class Unary(ValueBits):
    """Bits that tell values apart: MASK on a record's column, unary encoding (OUE, RAPPOR).

    >>> Unary(np.array([0.9, 0.9]), np.array([0.8, 0.8])).solve([100.0, 55.0, 55.0])
    array([50., 50.])
    """

    def __post_init__(self) -> None:
        if np.any(np.abs(self.gain) < 1e-12):
            raise ParameterError(
                "a bit is shown as often for its value as for any other, so nothing can be "
                "reconstructed; keep_ones + keep_zeros must differ from 1"
            )


@dataclass(frozen=True, eq=False)
class SubsetBits(ValueBits):
    """From n values to (everyone, the reports that hold value 1, …, value n): sets of `chosen`.

    Given the truth u, a set holds u with P = ones[u], and its k−1 (or k) other members are drawn
    evenly without replacement, so that bits of one report depend on each other: u and v are both
    held with P·(k−1)/(n−1), two others with (P(k−1)(k−2) + (1−P)k(k−1)) / ((n−1)(n−2)).
    """

    chosen: int = 1

    @cached_property
    def _pairs(self) -> tuple[float, float]:
        """How often the true value and another are held together, and two others."""
        size, chosen, own = len(self.ones), self.chosen, float(self.ones[0])
        rest = size - 1
        with_own = own * (chosen - 1) / rest if rest else 0.0
        if rest < 2:
            return with_own, 0.0
        inside = own * (chosen - 1) * (chosen - 2) + (1 - own) * chosen * (chosen - 1)
        return with_own, inside / (rest * (rest - 1))

    def second_moment(self, first: Counts, other: Counts) -> Counts:
        """E[(g·tally)(h·tally) | truth], the bits of one set being dependent."""
        g, h = batched(first, self.outputs), batched(other, self.outputs)
        with_own, others = self._pairs
        left, right = g[1:], h[1:]
        both = left * right
        rest_left, rest_right = left.sum(axis=0) - left, right.sum(axis=0) - right
        crossed = with_own * (left * rest_right + right * rest_left)
        crossed += others * (rest_left * rest_right - (both.sum(axis=0) - both))
        held_left = self._held(left)
        held_right = self._held(right)
        result = g[0] * h[0] + g[0] * held_right + h[0] * held_left + self._held(both) + crossed
        return unbatched(result, first, self.outputs, self.inputs)

    def moments(self, counts: Counts) -> Counts:
        """Two values are held together as often as the truths among them make it."""
        people, shown = self._truths(counts), batched(self.apply(counts), self.outputs)
        with_own, others = self._pairs
        either = people[:, None] + people[None]
        found = np.empty((len(shown), *shown.shape))
        found[1:, 1:] = with_own * either + others * (people.sum(axis=0) - either)
        found[0], found[:, 0] = shown, shown
        every = np.arange(len(shown))
        found[every, every] = shown
        return found

    def _held(self, weights: Floats) -> Floats:  # (values, batch) -> (values, batch)
        """For each truth, the expected weight of the set's members."""
        return np.asarray(self._false @ weights + self.gain[:, None] * weights)

    def sqrt_factors(self, weights: Counts) -> Counts:
        """The root of the second moments of each truth."""
        roots = self._roots  # (truths, entries, entries)
        return np.einsum("uij,i...->uj...", roots, np.asarray(weights, dtype=np.float64))

    @cached_property
    def _roots(self) -> Floats:
        size = len(self.ones) + 1
        units = np.eye(size)
        moments = np.empty((len(self.ones), size, size))
        for place in range(size):
            one = np.repeat(units[:, place : place + 1], size, axis=1)
            moments[:, place] = np.asarray(self.second_moment(one, units)).reshape(
                len(self.ones), size
            )
        values, vectors = np.linalg.eigh(moments)
        return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
