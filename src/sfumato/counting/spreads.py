"""Spreads: rows, their sum, their centre and the squares about it, cell by cell, so that variances
never cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def combined(spreads: NDArray[Any], cells: NDArray[Any], size: int) -> NDArray[Any]:  # (size, 4)
    """Groups of rows put together: `spreads` (n, 4) of each, and the cell that each belongs to.

    >>> pair = np.array([[1, 5.0, 5.0, 0.0], [1, 7.0, 7.0, 0.0]])
    >>> combined(pair, np.array([0, 0]), 1).tolist()
    [[2.0, 12.0, 6.0, 2.0]]
    """
    rows, total, centre, squares = spreads.T
    all_rows, all_total = (np.bincount(cells, each, minlength=size) for each in (rows, total))
    middle = all_total / np.maximum(all_rows, 1)
    shift = centre - middle[cells]
    moved = squares + shift * (2 * (total - centre * rows) + shift * rows)
    all_squares = np.bincount(cells, moved, minlength=size)
    return np.stack([all_rows, all_total, middle, all_squares], axis=1)
