"""Condition numbers of each mechanism's reconstruction by itemset length: how much it can amplify
relative error.

Sources: FRAPP section 4, appendix and figure 7; OLAP section 4.2.3 and figure 6. The condition
number is the ratio of the largest to the smallest singular value, the factor of FRAPP eq. 9, and
infinite where nothing can be reconstructed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.privacy.probability import check_count, check_probability

Matrix = NDArray[np.float64]


def by_length(condition: Callable[[int], float], longest: int) -> tuple[float, ...]:
    """The condition numbers of itemsets of length 1 to `longest`.

    >>> [round(number) for number in by_length(lambda length: mask_condition(0.561, length), 6)]
    [8, 67, 551, 4514, 37000, 303278]
    """
    return tuple(condition(length) for length in range(1, longest + 1))


def gamma_diagonal_condition(gamma: float, cells: int) -> float:
    """The condition number of the gamma-diagonal matrix, the same on every marginal and so for
    every itemset length.

    1 + n/(γ-1)  (FRAPP eq. 15 and appendix); no symmetric positive-definite matrix under the same γ
    has a smaller one.

    >>> round(gamma_diagonal_condition(gamma=19, cells=2000), 1)
    112.1
    """
    check_count("cells", cells, least=2)
    if not gamma > 1:
        raise ParameterError(
            f"gamma={gamma} makes every report equally likely; use gamma > 1", gamma=gamma
        )
    return 1 + cells / (float(gamma) - 1)


def flip_condition(keep_ones: float, keep_zeros: float) -> float:
    """The condition number of one item's 2×2 channel that keeps ones with keep_ones and zeros with
    keep_zeros.

    >>> round(flip_condition(0.9, 0.9), 6)
    1.25
    """
    check_probability("keep_ones", keep_ones)
    check_probability("keep_zeros", keep_zeros)
    return _condition(np.array([[keep_zeros, 1 - keep_ones], [1 - keep_zeros, keep_ones]]))


def product_condition(conditions: Iterable[float]) -> float:
    """The condition number of a Kronecker product (bit flips, separately replaced columns): the
    product of its factors'.

    >>> product_condition([2.0, 3.0])
    6.0
    """
    return math.prod(conditions)


def mask_condition(keep: float, length: int) -> float:
    """The condition number of MASK for an itemset: |2p-1|^(-length), from its 2^length × 2^length
    matrix (MASK eq. 5).

    >>> round(mask_condition(keep=0.9, length=3), 6)
    1.953125
    """
    check_count("length", length, least=1)
    return product_condition([flip_condition(keep, keep)] * length)


def mask_keep(gamma: float, ones: int) -> float:
    """The largest keep at which MASK amplifies by at most gamma, when each basket has exactly
    `ones` items.

    (p/(1-p))^(2M) = γ, M ones in each one-hot encoded record  (FRAPP section 9.1.4).

    >>> round(1 - mask_keep(gamma=19, ones=6), 3), round(1 - mask_keep(gamma=19, ones=7), 3)
    (0.439, 0.448)
    """
    check_count("ones", ones, least=1)
    if not gamma > 1:
        raise ParameterError(
            f"gamma={gamma} leaves only keep=0.5, which is singular; use gamma > 1", gamma=gamma
        )
    return 1 / (1 + math.exp(-math.log(gamma) / (2 * ones)))


def retention_condition(keep: float, mass: float) -> float:
    """The condition number of one range predicate under retention replacement; multiply over the
    columns.

    The matrix is keep·I + (1-keep)·(1-b, b)ᵀ1ᵀ with b the mass of the replacement law inside the
    range: 1/keep at b = 1/2, so that k columns give p^(-k)  (OLAP section 4.2.3 and figure 6).

    >>> round(retention_condition(keep=0.2, mass=0.5), 6)
    5.0
    """
    check_probability("keep", keep)
    check_probability("mass", mass)
    return flip_condition(keep + (1 - keep) * mass, keep + (1 - keep) * (1 - mass))


def cut_law(size: int, cutoff: int) -> Matrix:
    """The probabilities of keeping 0, 1, … `size` items of a basket: uniform on 0..cutoff, with any
    excess put on `size`.

    >>> cut_law(size=2, cutoff=3)
    array([0.25, 0.25, 0.5 ])
    """
    check_count("size", size, least=0)
    check_count("cutoff", cutoff, least=0)
    return np.bincount(np.minimum(np.arange(cutoff + 1), size), minlength=size + 1) / (cutoff + 1)


def cut_and_paste_partial_supports(size: int, length: int, cutoff: int, insert: float) -> Matrix:
    """The matrix whose column l, row l' is the chance that l of an itemset's items become l' by
    cut-and-paste.

    Σ_j P(j) Σ_a H(a; size, l, j) B(l'-a; length-a, ρ): j items are kept, a of them among the l
    (hypergeometric), and every other item is put in with `insert` ρ (binomial). The same as FRAPP
    eq. 11, where M_b has to be read as the itemset's length. Its rank is at most cutoff + 1:
    supports of itemsets longer than the cutoff do not come back, which is why FRAPP found none
    beyond length 3 with K = 3.

    >>> cut_and_paste_partial_supports(size=2, length=1, cutoff=1, insert=0.5)
    array([[0.5  , 0.375],
           [0.5  , 0.625]])
    """
    check_count("length", length, least=1)
    check_count("size", size, least=length)
    check_probability("insert", insert)
    kept = _kept_inside(size, length, cutoff)
    return _pasted(length, insert) @ kept


def cut_and_paste_condition(size: int, length: int, cutoff: int, insert: float) -> float:
    """The condition number of cut-and-paste for an itemset, from its matrix of partial supports
    (FRAPP figure 7).

    >>> round(cut_and_paste_condition(size=6, length=1, cutoff=3, insert=0.494), 1)
    8.0
    >>> cut_and_paste_condition(size=6, length=4, cutoff=3, insert=0.494)
    inf
    """
    return _condition(cut_and_paste_partial_supports(size, length, cutoff, insert))


def _kept_inside(size: int, length: int, cutoff: int) -> Matrix:
    """P(a of the itemset's items are kept | l of them in the basket), rows a, columns l."""
    law = cut_law(size, cutoff)
    inside = range(length + 1)
    return np.array(
        [[_hypergeometric(law, size, present, kept) for present in inside] for kept in inside]
    )


def _hypergeometric(law: Matrix, size: int, present: int, kept: int) -> float:
    return sum(
        float(chance)
        * math.comb(present, kept)
        * math.comb(size - present, cut - kept)
        / math.comb(size, cut)
        for cut, chance in enumerate(law)
        if cut >= kept
    )


def _pasted(length: int, insert: float) -> Matrix:
    """P(l' items reported | a kept), rows l', columns a: the rest arrives by binomial insertion."""
    after = np.zeros((length + 1, length + 1))
    for kept in range(length + 1):
        for added in range(length - kept + 1):
            chance = (
                math.comb(length - kept, added)
                * insert**added
                * (1 - insert) ** (length - kept - added)
            )
            after[kept + added, kept] = chance
    return after


def _condition(matrix: Matrix) -> float:
    singular = np.linalg.svd(matrix, compute_uv=False)
    singular_to_rounding = singular[-1] <= singular[0] * np.finfo(np.float64).eps * len(matrix)
    return math.inf if singular_to_rounding else float(singular[0] / singular[-1])
