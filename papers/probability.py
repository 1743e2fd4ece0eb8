"""Checks that arrays are probabilities, or a distribution, with the message a caller can act on."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError

TOTAL_TOLERANCE = 1e-9


def probabilities(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The values as an array, each checked to lie between 0 and 1.

    >>> probabilities("support", [0.25, 0.5])
    array([0.25, 0.5 ])
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        outside = array[~((array >= 0) & (array <= 1))].flat[0]
        raise ParameterError(
            f"{name} holds {outside:g}, which is not a probability; use numbers from 0 to 1"
        )
    return array


def distribution(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The values as an array, checked to be probabilities that sum to 1.

    >>> distribution("prior", [0.25, 0.75])
    array([0.25, 0.75])
    """
    array = probabilities(name, values)
    if abs(array.sum() - 1) > TOTAL_TOLERANCE:
        raise ParameterError(f"{name} sums to {array.sum():.6g}; a distribution sums to 1")
    return array
