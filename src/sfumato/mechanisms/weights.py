"""Probabilities as integers: a distribution becomes weights that sum to 2^32, a keep probability a
threshold below it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError

ONE = 1 << 32  # what the weights of a distribution sum to: one 32-bit draw decides


def integer_weights(
    masses: NDArray[Any] | Sequence[float],
) -> NDArray[np.uint64]:  # (codes,) or (codes, columns)
    """The weights nearest to these masses that sum to 2^32 along the first axis, by largest
    remainder.

    A positive mass keeps at least the weight 1, so that rounding never makes a possible report
    impossible: that would turn a finite gamma into an infinite one. Masses that are multiples of
    2^-32 come back unchanged.

    >>> integer_weights([1, 1, 2]).tolist() == [ONE // 4, ONE // 4, ONE // 2]
    True
    >>> integer_weights([1e-30, 1.0]).tolist() == [1, ONE - 1]
    True
    """
    masses = np.asarray(masses, dtype=np.float64)
    table = masses.reshape(len(masses), -1)
    scaled = table / table.sum(axis=0) * ONE
    weights = np.floor(scaled)
    _give_largest_remainders(weights, scaled)
    _lift_zeros(weights, table > 0)
    return weights.astype(np.uint64).reshape(masses.shape)


def _give_largest_remainders(weights: NDArray[Any], scaled: NDArray[Any]) -> None:
    """Add 1 where the remainder is largest until each column sums to 2^32; changes its first
    argument.
    """
    lacking = (ONE - weights.sum(axis=0)).astype(np.int64)
    order = np.argsort(weights - scaled, axis=0, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(weights))[:, None], axis=0)
    weights += rank < lacking


def _lift_zeros(weights: NDArray[Any], possible: NDArray[np.bool_]) -> None:
    """Give 1 to what was possible and came out 0, taken from the largest of its column; changes its
    first argument.
    """
    lost = possible & (weights == 0)
    weights += lost
    columns = np.arange(weights.shape[1])
    weights[weights.argmax(axis=0), columns] -= lost.sum(axis=0)


def threshold(name: str, keep: float | Fraction) -> Fraction:
    """The keep probability as a multiple of 2^-32, rounded down: rounding goes towards privacy.

    >>> threshold("keep", 0.5), threshold("keep", 1)
    (Fraction(1, 2), Fraction(1, 1))
    """
    if not math.isfinite(keep) or not 0 <= keep <= 1:
        raise ParameterError(f"{name}={float(keep):g} is not a probability; use 0 < keep <= 1")
    rounded = Fraction(math.floor(Fraction(keep) * ONE), ONE)
    if rounded == 0:
        found = "replaces every record" if keep == 0 else "keeps less than one value in 2^32"
        raise ParameterError(
            f"{name}={float(keep):g} {found}, so nothing can be reconstructed; use 0 < keep <= 1"
        )
    return rounded
