"""MASK's privacy: the probability with which a true one or zero of a basket can be guessed back
from its report.

Sources: MASK (Rizvi and Haritsa 2002) section 3; FP/NFP (Rao and Chiranjeevi 2012) section 3.4.
Every function takes one support or an array of them, one an item; keep_zeros defaults to keep_ones
(MASK's symmetric flip).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from papers.probability import probabilities
from sfumato.errors import ParameterError
from sfumato.privacy.probability import check_probability

Vector = NDArray[np.float64]


def one_given_one(
    support: ArrayLike, keep_ones: ArrayLike, keep_zeros: ArrayLike | None = None
) -> Vector:
    """The probability that an item was in the basket, given that the report has it.

    P(1|1) = s p / (s p + (1-s)(1-q)), Bayes' rule with support s, keep_ones p, keep_zeros q (MASK
    section 3.2: p = q).

    >>> float(one_given_one(0.01, 0.9)).__round__(4)
    0.0833
    """
    share, ones, zeros = _flips(support, keep_ones, keep_zeros)
    return _share(share * ones, (1 - share) * (1 - zeros))


def one_given_zero(
    support: ArrayLike, keep_ones: ArrayLike, keep_zeros: ArrayLike | None = None
) -> Vector:
    """The probability that an item was in the basket, given that the report lacks it.

    P(1|0) = s(1-p) / (s(1-p) + (1-s)q).

    >>> float(one_given_zero(0.01, 0.9)).__round__(5)
    0.00112
    """
    share, ones, zeros = _flips(support, keep_ones, keep_zeros)
    return _share(share * (1 - ones), (1 - share) * zeros)


def recovered_ones(
    support: ArrayLike, keep_ones: ArrayLike, keep_zeros: ArrayLike | None = None
) -> Vector:
    """The probability that a true one is guessed back from its report, for each item.

    R1 = p·P(1|1) + (1-p)·P(1|0); for p = q this is s p²/(s p+(1-s)(1-p)) + s(1-p)²/(s(1-p)+(1-s)p)
    (MASK eq. 2).

    >>> float(recovered_ones(0.01, 0.9)).__round__(4)
    0.0751
    """
    ones = np.asarray(keep_ones, dtype=np.float64)
    given_one = one_given_one(support, keep_ones, keep_zeros)
    given_zero = one_given_zero(support, keep_ones, keep_zeros)
    return np.asarray(ones * given_one + (1 - ones) * given_zero)


def recovered_zeros(
    support: ArrayLike, keep_ones: ArrayLike, keep_zeros: ArrayLike | None = None
) -> Vector:
    """The probability that a true zero is guessed back from its report, for each item.

    R0 = q·P(0|0) + (1-q)·P(0|1): R1 with ones and zeros exchanged (MASK section 3.3).

    >>> float(recovered_zeros(0.01, 0.9)).__round__(4)
    0.9907
    """
    share, ones, zeros = _flips(support, keep_ones, keep_zeros)
    return recovered_ones(1 - share, zeros, ones)


def recovered_bits(
    support: ArrayLike, keep_ones: ArrayLike, keep_zeros: ArrayLike | None = None, *, weight: float
) -> Vector:
    """The probability that a bit is guessed back when ones weigh `weight` and zeros the rest, for
    each item.

    R = a·R1 + (1-a)·R0  (MASK eq. 3, weight a). Privacy in per cent is 100(1-R)  (MASK eq. 4).

    >>> float(100 * (1 - recovered_bits(0.01, 0.9, weight=0.9))).__round__(1)
    83.3
    """
    check_probability("weight", weight)
    ones = recovered_ones(support, keep_ones, keep_zeros)
    return np.asarray(
        weight * ones + (1 - weight) * recovered_zeros(support, keep_ones, keep_zeros)
    )


def recovered_ones_over(
    supports: ArrayLike, keep_ones: ArrayLike, keep_zeros: ArrayLike | None = None
) -> float:
    """The probability that a one drawn at random from all baskets is guessed back.

    Σ s_i R1_i / Σ s_i over all items together  (MASK eq. 1). FP/NFP's eq. 17 adds the averages of
    its frequent and of its infrequent items instead, and so can exceed 1; given each item's own
    keep_ones and keep_zeros, this is its right form.

    >>> round(recovered_ones_over([0.5, 0.01], [0.95, 0.95], [1.0, 0.7]), 4)
    0.9343
    """
    share = probabilities("supports", supports)
    return _average(
        recovered_ones(share, keep_ones, keep_zeros),
        share,
        "no item occurs, so there is no one to guess",
    )


def _flips(
    support: ArrayLike, keep_ones: ArrayLike, keep_zeros: ArrayLike | None
) -> tuple[Vector, Vector, Vector]:
    ones = probabilities("keep_ones", keep_ones)
    zeros = ones if keep_zeros is None else probabilities("keep_zeros", keep_zeros)
    return probabilities("support", support), ones, zeros


def _share(part: Vector, rest: Vector) -> Vector:
    """part / (part + rest), 0 where neither occurs: such a report never arrives, so its value is
    never used.
    """
    total = np.asarray(part + rest)
    return np.divide(part, total, out=np.zeros(total.shape), where=total > 0)


def _average(values: Vector, weights: Vector, otherwise: str) -> float:
    if not weights.sum() > 0:
        raise ParameterError(otherwise)
    return float(np.average(np.broadcast_to(values, weights.shape), weights=weights))
