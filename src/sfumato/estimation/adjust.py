"""Adjustments that someone may ask for: counts made non-negative, at the price of a bias."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def clip_and_scale(counts: NDArray[Any], total: float | None = None) -> NDArray[Any]:
    """Negative counts set to zero and the rest scaled to the total (FRAPP §8.2.1).

    >>> clip_and_scale(np.array([-2.0, 6.0, 6.0])).tolist()
    [0.0, 5.0, 5.0]
    """
    wanted = float(np.sum(counts)) if total is None else total
    positive = np.maximum(counts, 0.0)
    mass = float(positive.sum())
    return (
        positive * (max(wanted, 0.0) / mass)
        if mass > 0
        else np.full(np.shape(counts), max(wanted, 0.0) / np.size(counts))
    )


def project_simplex(counts: NDArray[Any], total: float | None = None) -> NDArray[Any]:
    """The nearest non-negative counts with this total, in Euclidean distance: one threshold is
    taken off every cell.

    >>> project_simplex(np.array([-2.0, 6.0, 6.0])).tolist()
    [0.0, 5.0, 5.0]
    """
    wanted = max(float(np.sum(counts)) if total is None else total, 0.0)
    ordered = np.sort(np.ravel(counts))[::-1]
    excess = (np.cumsum(ordered) - wanted) / np.arange(1, ordered.size + 1)
    last = int(np.flatnonzero(ordered - excess >= 0)[-1])
    return np.maximum(np.asarray(counts, dtype=float) - excess[last], 0.0)
