"""Sizes: the channel from "how many of these k items are present" in the truth to how many are
present in the report.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.dense import Dense


class Sizes(Dense):
    """Partial supports: entry [l', l] is the probability that l' of the k items are reported when l
    of them are true.

    Enough to recover the support of an itemset (all k present) when the mechanism treats its items
    alike: MASK with one flip probability (its n+1 counters, §5), and cut-and-paste (Evfimievski et
    al. 2002; FRAPP eq. 11), one a basket size.

    >>> Sizes.flips(1, keep_ones=0.9, keep_zeros=0.8).to_dense()
    array([[0.8, 0.1],
           [0.2, 0.9]])
    """

    @classmethod
    def flips(cls, length: int, keep_ones: float, keep_zeros: float) -> Sizes:
        """Each of the k bits flipped on its own: l' = Binomial(l, p) + Binomial(k-l, 1-q)."""
        columns = [
            np.convolve(_binomial(true, keep_ones), _binomial(length - true, 1 - keep_zeros))
            for true in range(length + 1)
        ]
        return cls._of(np.stack(columns, axis=1))

    @classmethod
    @lru_cache(maxsize=256)  # a plan asks for the same few hundreds of times
    def cut_and_paste(cls, length: int, basket: int, cutoff: int, insert: float) -> Sizes:
        """A basket of `basket` items: cut min(uniform 0..cutoff, basket) of them, then put in every
        other item with `insert`.

        Of the l true items, q are cut with the hypergeometric law; each of the other k-q is put in
        with probability ρ = insert.
        """
        columns = [
            _cut_column(length, true, basket, cutoff, insert)
            for true in range(min(length, basket) + 1)
        ]
        return cls._of(np.stack(columns, axis=1))

    @classmethod
    def _of(cls, matrix: NDArray[np.float64]) -> Sizes:
        return cls(matrix, (matrix.shape[1],), (matrix.shape[0],))


def _cut_column(
    length: int, true: int, basket: int, cutoff: int, insert: float
) -> NDArray[np.float64]:
    column = np.zeros(length + 1)
    for draw in range(cutoff + 1):
        cut = min(draw, basket)
        for kept in range(max(0, cut - (basket - true)), min(true, cut) + 1):
            chance = comb(true, kept) * comb(basket - true, cut - kept) / comb(basket, cut)
            column[kept:] += chance / (cutoff + 1) * _binomial(length - kept, insert)
    return column


def _binomial(trials: int, chance: float) -> NDArray[np.float64]:
    return np.array(
        [comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)]
    )
