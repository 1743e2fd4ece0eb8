"""Supports: estimated counts of itemsets, one length after the other, whatever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Measured:
    """Estimated counts of n itemsets of one length, and whatever the longer ones need of them."""

    observed: Floats  # (n,): rows whose report shows the whole itemset
    count: Floats  # (n,): unbiased estimate of the true rows
    stderr: Floats  # (n,)
    memory: tuple[Floats, ...] = ()  # each (..., n)
    noise: Floats | None = None  # (n,): the own part of each error, where all may be off together
    down: Floats | None = None  # (n,): how far each may be below its estimate, where that is less
    parts: tuple[Measured, ...] = ()  # of which it is the sum: the same itemsets, other people

    def take(self, rows: Integers) -> Measured:
        """The same of some of the itemsets."""
        memory = tuple(array[..., rows] for array in self.memory)
        noise, down = (None if each is None else each[rows] for each in (self.noise, self.down))
        shown = self.observed[rows], self.count[rows], self.stderr[rows]
        return Measured(*shown, memory, noise, down, tuple(each.take(rows) for each in self.parts))

    @classmethod
    def concatenate(cls, parts: Sequence[Measured]) -> Measured:
        """The itemsets of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        own = [part.noise for part in parts if part.noise is not None]
        down = [part.down for part in parts if part.down is not None]
        return cls(
            np.concatenate([part.observed for part in parts]),
            np.concatenate([part.count for part in parts]),
            np.concatenate([part.stderr for part in parts]),
            tuple(
                np.concatenate(arrays, axis=-1)
                for arrays in zip(*(part.memory for part in parts), strict=True)
            ),
            np.concatenate(own) if len(own) == len(parts) else None,
            np.concatenate(down) if len(down) == len(parts) else None,
            tuple(map(cls.concatenate, zip(*(part.parts for part in parts), strict=True))),
        )

    @classmethod
    def added(cls, parts: Sequence[Measured]) -> Measured:
        """The same itemsets among different people: counts and variances add."""
        observed, count, variance = (
            np.sum(each, axis=0)
            for each in zip(*((p.observed, p.count, p.stderr**2) for p in parts), strict=True)
        )
        return cls(observed, count, np.sqrt(variance), parts=tuple(parts))


class Supports(Protocol):
    """What a miner asks: the items, and for each length the estimated counts of
    candidate itemsets.
    """

    shrunk: ClassVar[bool]  # whether a law has drawn the counts together already

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every item."""

    @property
    def groups(self) -> Integers:
        """A number for each item; two items with one number (values of one attribute) are never
        joined.
        """

    @property
    def rows(self) -> int:
        """The number of baskets or records."""

    @property
    def exact(self) -> bool:
        """Whether counts are the truth, so that every standard error is 0."""

    @property
    def longest(self) -> int | None:
        """The most items whose joint presence leaves a trace in the reports; None for no limit."""

    def empty(self) -> Measured:
        """The one itemset of length 0, which every row holds."""

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        """Estimates for sorted itemsets (n, k); row `subsets[r, j]` of `shorter` is itemset r
        without its item j.
        """

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        """Covariances between the estimates of itemsets (n, k) and of their subsets, each (n,
        2**k).

        Column s stands for the subset S of the items whose bits are set in s; `observed` and
        `count` hold its counts. The first result is cov(S, whole itemset), the second cov(S, the
        rest of the itemset).
        """


@runtime_checkable
class Assuming(Protocol):
    """Supports that rest on more than the reports."""

    def assumed(self, itemsets: NDArray[np.int32]) -> list[str | None]:
        """What the support of each itemset (n, k) assumes; None for nothing."""
