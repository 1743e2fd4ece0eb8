"""The records that a swap may change: every unique one, and one of each group that gives a value
away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes
from sfumato.publish.identify import status_of
from sfumato.publish.owned_records import patterns
from sfumato.randomness import Keystream

__all__ = ["Units", "barred_values", "number_of_changes", "units_of"]


@dataclass(frozen=True, eq=False)
class Units:
    """The records that may be changed: all of U, and one member drawn from each group of V, in
    random order.

    Where several columns are swapped as one, a group counts as soon as one of them is the same for
    all its members; `pure` says which.
    """

    rows: NDArray[np.int64]
    may_stay: NDArray[np.bool_]  # True for U
    pure: NDArray[np.bool_]  # (units, columns)

    @property
    def unique(self) -> int:
        """|U|."""
        return int(self.may_stay.sum())

    @property
    def groups(self) -> int:
        """The number of groups in V."""
        return len(self.rows) - self.unique


def units_of(keys: Sequence[Codes], confidential: Sequence[Codes], rng: Keystream) -> Units:
    """The records of U and a random member of each group of V, shuffled so that no tie depends on
    the order of the table.
    """
    pattern = patterns(keys)
    statuses = [status_of(pattern, codes) for codes in confidential]
    pure = np.stack([status.collective for status in statuses], axis=1)
    first = statuses[0]
    members = np.flatnonzero(pure.any(axis=1))
    members = members[rng.permutation(len(members))]
    _, drawn = np.unique(pattern[members], return_index=True)
    rows = np.concatenate([np.flatnonzero(first.unique), members[drawn]])
    rows = rows[rng.permutation(len(rows))]
    return Units(rows, first.unique[rows], pure[rows])


def barred_values(
    units: Units, true: NDArray[np.intp], parts: Sequence[NDArray[np.intp]]
) -> NDArray[np.bool_]:  # (units, values)
    """The combined values that a unit must not take: those that leave a column as it is in which
    its whole group is alike.

    Where no combination that occurs differs in all of these columns, those that differ in most of
    them are open.
    """
    kept = np.zeros((len(true), len(parts[0])), dtype=np.int64)
    for place, part in enumerate(parts):
        same = part[None, :] == part[true][:, None]
        kept += same & units.pure[:, place, None]
    # A value that changes nothing is barred even where it is as good as any other.
    kept[np.arange(len(true)), true] += (~units.may_stay) * (len(parts) + 1)
    return kept > kept.min(axis=1, keepdims=True)


def number_of_changes(units: Units, proportion: float, values: int) -> tuple[int, tuple[str, ...]]:
    """p·|U| rounded up, but never all of U where the column has two values and flipping back would
    undo it.
    """
    changes = math.ceil(proportion * units.unique - 1e-9)
    if values == 2 and changes == units.unique and changes:
        return changes - 1, (
            f"one unique record is left as it is, or flipping all {changes} back would undo the "
            "swap",
        )
    return changes, ()
