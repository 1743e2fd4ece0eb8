"""Decoded: whether an item is held, behind symbols for whole baskets, undone by all of them
together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import Channel, Counts, Dealt, to_tally, to_truths


@dataclass(frozen=True, eq=False)
class Decoded(Dealt):
    """From (not held, held) to the symbols reported; `own` is how often the item's symbol is
    reported where it is held, `other` where not.

    What the other symbols are depends on the other items of a basket, so they count as evenly
    spread; `decode` undoes a whole tally, what the cap left out included.
    """

    way_back = "evidence:DecodedEvidence"
    shape: tuple[int, ...]  # of the tally
    told: NDArray[np.bool_]  # the symbol of the item, where it is one entry of the tally
    own: float
    other: float
    decode: Callable[[NDArray[Any]], tuple[float, float]]  # people who hold it, and variance
    robust: Callable[[NDArray[Any]], tuple[float, float]] | None = (
        None  # the same with bounded gain
    )
    whole: bool = False  # whether no basket is capped, so that its own symbol's chance is `own`
    assumes: str | None = None  # what undoing a cap supposes
    groups: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        return (*self.groups, 2)

    @property
    def outputs(self) -> tuple[int, ...]:
        return (*self.groups, *self.shape)

    @property
    def closed(self) -> NDArray[np.bool_]:
        return np.broadcast_to(self.told & self.whole, self.outputs)

    @property
    def bounding(self) -> Decoded:
        """The channel undone so that one report sent again and again moves little, if it can."""
        return self if self.robust is None else replace(self, decode=self.robust)

    def beside(self, shape: tuple[int, ...]) -> Channel:
        return replace(self, groups=(*shape, *self.groups))

    @property
    def _matrix(self) -> NDArray[Any]:  # (entries, 2)
        told = self.told.ravel()
        if not told.any():
            return np.full((told.size, 2), 1 / told.size)
        chance = np.where(told[:, None], [self.other, self.own], 0.0)
        return chance + np.where(told[:, None], 0.0, (1 - chance.sum(axis=0)) / (~told).sum())

    def _times(self, matrix: NDArray[Any], table: Counts) -> Counts:
        own = table.reshape(math.prod(self.groups), matrix.shape[1], -1)
        return np.einsum("ij,gjb->gib", matrix, own)

    @to_tally
    def apply(self, table: Counts) -> Counts:
        return self._times(self._matrix, table)

    @to_truths
    def adjoint(self, table: Counts) -> Counts:
        return self._times(self._matrix.T, table)

    @to_truths
    def solve(self, table: Counts) -> Counts:
        return self._times(np.linalg.pinv(self._matrix), table)

    @to_tally
    def solve_adjoint(self, table: Counts) -> Counts:
        return self._times(np.linalg.pinv(self._matrix).T, table)
