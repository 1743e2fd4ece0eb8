"""The records that a swap may change, every unique one and one of each group that gives a value
away, and the optimisation problem that they make.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes, Distinct
from sfumato.publish.conditional import simple_bayes
from sfumato.publish.exchange import Exchange
from sfumato.publish.feasible import PosteriorCap
from sfumato.publish.identify import status_of
from sfumato.publish.owned import Keyed, columns_of, joined
from sfumato.randomness import Keystream


@dataclass(frozen=True, eq=False)
class Units:
    """The records that may be changed: all of U, and one member drawn from each group of V, in
    random order.

    Where several columns are swapped as one, a group counts as soon as one of them is the same for
    all its members; `pure` says which.
    """

    keyed: Keyed
    names: Sequence[str]  # of the confidential columns that are swapped as one
    rows: NDArray[np.int64]
    may_stay: NDArray[np.bool_]  # True for U
    pure: NDArray[np.bool_]  # (units, columns)

    @classmethod
    def of(cls, keyed: Keyed, names: Sequence[str], rng: Keystream) -> Units:
        """The records of U and a random member of each group of V, shuffled so that no tie depends
        on the order of the table.
        """
        columns = columns_of(keyed.table, names)
        statuses = [status_of(keyed.pattern, codes) for codes in columns]
        pure = np.stack([status.collective for status in statuses], axis=1)
        unique = statuses[0].unique
        members = np.flatnonzero(pure.any(axis=1))
        members = members[rng.permutation(len(members))]
        _, drawn = np.unique(keyed.pattern[members], return_index=True)
        rows = np.concatenate([np.flatnonzero(unique), members[drawn]])
        rows = rows[rng.permutation(len(rows))]
        return cls(keyed, names, rows, unique[rows], pure[rows])

    @property
    def unique(self) -> int:
        """|U|."""
        return int(self.may_stay.sum())

    @property
    def groups(self) -> int:
        """The number of groups in V."""
        return len(self.rows) - self.unique

    @cached_property
    def joined(self) -> tuple[Distinct, Codes, list[NDArray[np.intp]]]:
        """The columns as one, its codes of all records, and each column's part in its values."""
        return joined(self.keyed.table, self.names)

    def changes(self, proportion: float) -> tuple[int, tuple[str, ...]]:
        """p·|U| rounded up, but never all of U where the column has two values and flipping back
        would undo it; with a note where that is so.
        """
        changes = math.ceil(proportion * self.unique - 1e-9)
        if self.joined[0].size == 2 and changes == self.unique and changes:
            return changes - 1, (
                f"one unique record is left as it is, or flipping all {changes} back would undo "
                "the swap",
            )
        return changes, ()

    def exchange(self, changes: int, limit: float = 1.0, fewest: int = 0) -> Exchange:
        """The optimisation problem, guesses surer than the `limit` forbidden of values that
        `fewest` unique records or more hold.
        """
        attribute, codes, parts = self.joined
        values, several = attribute.size, len(parts) > 1
        true = codes[self.rows].astype(np.intp)
        holders = np.bincount(true[self.may_stay], minlength=values)
        views = [np.arange(values), *(parts if several else ())]
        return Exchange(
            simple_bayes(self.keyed.known, codes, values, self.rows),
            true,
            self.may_stay,
            changes,
            None if limit == 1 else PosteriorCap.of(limit, views, holders, fewest),
            self._barred(true, parts) if several else None,
        )

    def _barred(
        self, true: NDArray[np.intp], parts: Sequence[NDArray[np.intp]]
    ) -> NDArray[np.bool_]:  # (units, values)
        """The combined values that a unit must not take: those that leave a column as it is in
        which its whole group is alike.

        Where no combination that occurs differs in all of these columns, those that differ in most
        of them are open.
        """
        kept = np.zeros((len(true), len(parts[0])), dtype=np.int64)
        for place, part in enumerate(parts):
            same = part[None, :] == part[true][:, None]
            kept += same & self.pure[:, place, None]
        # A value that changes nothing is barred even where it is as good as any other.
        kept[np.arange(len(true)), true] += (~self.may_stay) * (len(parts) + 1)
        return kept > kept.min(axis=1, keepdims=True)
