"""Unary: one bit a value, each reported on its own; a report is counted at every bit it shows."""

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

    def apply(self, counts: Counts) -> Counts:
        table = self._truths(counts)
        total = table.sum(axis=0)
        shown = self.gain[:, None] * table + self._false[:, None] * total
        return unbatched(np.concatenate([total[None], shown]), counts, self.inputs, self.outputs)

    def adjoint(self, weights: Counts) -> Counts:
        table = batched(weights, self.outputs)
        anyone = table[0] + self._false @ table[1:]
        result = anyone + self.gain[:, None] * table[1:]
        return unbatched(result, weights, self.outputs, self.inputs)

    def solve(self, counts: Counts) -> Counts:
        table = batched(counts, self.outputs)
        result = (table[1:] - self._false[:, None] * table[0]) / self.gain[:, None]
        return unbatched(result, counts, self.outputs, self.inputs)

    def solve_adjoint(self, weights: Counts) -> Counts:
        table = self._truths(weights) / self.gain[:, None]
        result = np.concatenate([-(self._false @ table)[None], table])
        return unbatched(result, weights, self.inputs, self.outputs)

    def inverse_squared(self, counts: Counts) -> Counts:
        """((b - c)/d)² = (b(1-2c) + c²)/d² for a bit b, so the tally itself gives the sum."""
        table, false = batched(counts, self.outputs), self._false[:, None]
        result = (table[1:] * (1 - 2 * false) + false**2 * table[0]) / self.gain[:, None] ** 2
        return unbatched(result, counts, self.outputs, self.inputs)

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
