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
from sfumato.privacy.probability import ONE, check_number


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
    _check_masses(table)
    scaled = _shares(table) * ONE
    weights = np.floor(scaled).astype(np.int64)
    possible = table > 0
    _give_largest_remainders(weights, np.where(possible, scaled - weights, -1.0))
    np.maximum(weights, possible, out=weights)
    _take_surplus(weights)
    check_weights(weights)
    return weights.astype(np.uint64).reshape(masses.shape)


def simple_below(gamma: Fraction, fineness: int) -> Fraction:
    """The largest fraction not above gamma whose denominator is small: gamma itself where that is
    at most `fineness`, which else is the denominator.

    >>> simple_below(Fraction(19), 4096), simple_below(Fraction(1001, 999), 100)
    (Fraction(19, 1), Fraction(1, 1))
    """
    if gamma.denominator <= fineness:
        return gamma
    return Fraction(math.floor(gamma * fineness), fineness)


def check_weights(weights: NDArray[Any] | Sequence[int]) -> None:  # (codes,) or (codes, columns)
    """Refuse what is not a distribution in units of 2^-32: a weight that wrapped below 0, a sum
    that is off.

    >>> check_weights([ONE // 2, ONE // 2])
    """
    table = np.asarray(weights)
    if table.min(initial=0) < 0 or table.max(initial=0) > ONE:
        raise ParameterError("a weight lies outside 0 to 2^32, so it is no probability")
    sums = np.atleast_1d(table.sum(axis=0, dtype=np.int64))
    if (sums != ONE).any():
        raise ParameterError(
            f"weights must sum to 2^32 = {ONE}; these sum to {int(sums[sums != ONE][0])}"
        )


def _check_masses(table: NDArray[Any]) -> None:
    if not np.isfinite(table).all() or (table < 0).any() or not (table > 0).any(axis=0).all():
        raise ParameterError("masses must be finite and not negative, some of them above 0")
    if len(table) > ONE:
        raise ParameterError(f"{len(table)} masses cannot all be multiples of 2^-32")


def _shares(table: NDArray[Any]) -> NDArray[Any]:
    """Each mass as a share of its column; a power of two first, which loses nothing, brings the
    largest near 1, so that no sum overflows.
    """
    _, exponents = np.frexp(table.max(axis=0))
    near = np.ldexp(table, -exponents)
    return near / near.sum(axis=0)


def _give_largest_remainders(weights: NDArray[np.int64], remainders: NDArray[Any]) -> None:
    """Add 1 where the remainder is largest until each column sums to 2^32; changes its first
    argument.
    """
    lacking = ONE - weights.sum(axis=0)
    order = np.argsort(-remainders, axis=0, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(weights))[:, None], axis=0)
    weights += rank < lacking


def _take_surplus(weights: NDArray[np.int64]) -> None:
    """Where a column sums to more than 2^32, take the surplus from all that is above 1, by size;
    changes its argument.

    What is taken from one is never more than it has above 1: there are at most 2^32 positive
    weights, so all that lies above 1 together is at least the surplus.
    """
    for column in np.flatnonzero(weights.sum(axis=0) > ONE):
        own = weights[:, column]
        surplus, spare = int(own.sum()) - ONE, np.maximum(own - 1, 0)
        taken, rest = np.divmod(spare * surplus, spare.sum())
        more = np.argsort(-rest, kind="stable")[: surplus - int(taken.sum())]
        own -= taken
        own[more] -= 1


def threshold(name: str, keep: float | Fraction) -> Fraction:
    """The keep probability as a multiple of 2^-32, rounded down: rounding goes towards privacy.

    >>> threshold("keep", 0.5), threshold("keep", 1)
    (Fraction(1, 2), Fraction(1, 1))
    """
    check_number(name, keep)
    if not math.isfinite(keep) or not 0 <= keep <= 1:
        raise ParameterError(f"{name}={float(keep):g} is not a probability; use 0 < keep <= 1")
    rounded = Fraction(math.floor(Fraction(keep) * ONE), ONE)
    if rounded == 0:
        found = "replaces every record" if keep == 0 else "keeps less than one value in 2^32"
        raise ParameterError(
            f"{name}={float(keep):g} {found}, so nothing can be reconstructed; use 0 < keep <= 1"
        )
    return rounded
