"""Integer programmes: a sparse matrix by its entries, and the least of a cost under rows of it, by
branch and cut (HiGHS, Huangfu and Hall 2018).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Entries = tuple[Any, Any, Any]  # rows, columns and what stands there, broadcast
Rows = tuple[Any, Any, Any]  # a matrix, and between what its product must lie


def sparse(entries: Iterable[Entries], shape: tuple[int, int]) -> Any:
    """The matrix with these entries, those of one place added; HiGHS in SciPy 1.13 takes 32-bit
    indices alone.

    >>> sparse([([0, 1], [1, 0], 5.0), (1, 0, 2.0)], (2, 2)).toarray().tolist()
    [[0.0, 5.0], [7.0, 0.0]]
    """
    from scipy.sparse import csc_array

    blocks = [[part.ravel() for part in np.broadcast_arrays(*block)] for block in entries]
    row, column, value = map(np.concatenate, zip(*blocks, strict=True))
    where = row.astype(np.int32), column.astype(np.int32)
    return csc_array((value.astype(np.float64), where), shape=shape)


def least(
    cost: NDArray[np.float64],
    rows: Sequence[Rows],
    *,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = np.inf,
    whole: ArrayLike = True,
    seconds: float,
    presolve: bool = True,
) -> Any:
    """What SciPy found of the programme: `x` (None without an answer in time), `fun`, and `status`,
    0 where it is proved and 2 where nothing meets the rows.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    return milp(
        cost,
        constraints=[LinearConstraint(*each) for each in rows],
        bounds=Bounds(lower, upper),
        integrality=np.broadcast_to(whole, len(cost)).astype(int),
        options={"mip_rel_gap": 0.0, "time_limit": seconds, "presolve": presolve},
    )
