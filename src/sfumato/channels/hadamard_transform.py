"""Hadamard: each truth has a public set of symbols, the rows of a Hadamard matrix in one of several
blocks, and reports one of its own γ times as often as any other (Acharya, Sun and Zhang 2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class HadamardSets:
    """The symbols of each of `truths` values: blocks of `width` symbols, half of them own.

    Truth x lies in block x // (width−1); its own symbols are those of the block at which row
    x mod (width−1) + 1 of the Hadamard matrix is +1. Two truths of one block share a quarter of it.

    >>> HadamardSets.suited(5, 19.0)
    HadamardSets(truths=5, blocks=5, width=2)
    """

    truths: int
    blocks: int
    width: int  # a power of 2

    @classmethod
    def suited(cls, truths: int, gamma: float) -> HadamardSets:
        """As many blocks as the paper takes: 2^(⌈log₂ min(γ, 2·truths)⌉ − 1), or what is needed."""
        wanted = 2 ** max(0, math.ceil(math.log2(max(1.0, min(gamma, 2 * truths)))) - 1)
        width = 2
        while width - 1 < truths / wanted:
            width *= 2
        return cls(truths, math.ceil(truths / (width - 1)), width)

    @property
    def symbols(self) -> int:
        """How many symbols there are."""
        return self.blocks * self.width

    @property
    def own(self) -> int:
        """How many symbols each truth has."""
        return self.width // 2

    def sets(self) -> NDArray[np.intp]:  # (truths, own)
        """The symbols of each truth, ascending."""
        signs = hadamard(self.width)
        block, row = np.divmod(np.arange(self.truths), self.width - 1)
        inside = np.stack([np.flatnonzero(signs[place + 1] > 0) for place in row])
        return inside + (block * self.width)[:, None]

    def matrix(self, gamma: float) -> NDArray[np.float64]:  # (symbols, truths)
        """P(symbol | truth)."""
        weights = np.ones((self.symbols, self.truths))
        weights[self.sets().T, np.arange(self.truths)] = gamma
        return weights / (self.own * gamma + self.symbols - self.own)


def hadamard(size: int) -> NDArray[np.int64]:
    """Sylvester's matrix of a power of 2: entries ±1, rows orthogonal, the first all 1.

    >>> hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    result = np.ones((1, 1), dtype=np.int64)
    while len(result) < size:
        result = np.block([[result, result], [result, -result]])
    return result
