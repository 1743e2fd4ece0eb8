"""Subset: a set of values of fixed size, in which the true one is likelier than any other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.channels.channel import Counts, batched, unbatched
from sfumato.channels.unary_bits import Floats, ValueBits


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
