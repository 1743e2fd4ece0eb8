"""How surely the true value of a unique record may follow from the one shown: a limit, as rows of
a linear programme.

Let n_kr unique records truly hold k and be shown as r, M_r = Σ_k n_kr. One who knows the method
and every count guesses k for a person shown r with probability n_kr / M_r. The limit c asks

    n_kr − c·M_r ≤ 0        for every true k and shown r

which is linear in the counts. Where several confidential columns are swapped as one, it is asked
of the combined value and of each column on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError

__all__ = ["CapRow", "PosteriorCap"]

_SLACK = 1e-6  # of a count, for the rounding of c·M_r


class CapRow(NamedTuple):
    """One limit: of the records shown as `shown` in this view, those that truly hold `true`."""

    view: int
    true: int
    shown: int


@dataclass(frozen=True, eq=False)
class PosteriorCap:
    """No shown value lets more than a share `limit` of its unique records be guessed.

    A view maps every value to its number in one column; `exempt` says which numbers of each view
    are held by too few for a rate to be known, and so are not limited.
    """

    limit: float
    views: tuple[NDArray[np.intp], ...]  # each (values,)
    exempt: tuple[NDArray[np.bool_], ...]  # each (numbers of the view,)

    def __post_init__(self) -> None:
        if not 0 < self.limit <= 1:
            raise ParameterError(
                f"max_posterior={self.limit:g} lies outside (0, 1]", hint="use for instance 0.9"
            )

    @classmethod
    def of(
        cls,
        limit: float,
        views: Sequence[NDArray[np.intp]],
        holders: NDArray[np.int64],  # unique records with each value
        fewest: int = 0,
    ) -> PosteriorCap:
        """The limit on every view, leaving out what fewer than `fewest` unique records hold."""
        held = [np.bincount(view, weights=holders) for view in views]
        return cls(limit, tuple(views), tuple(count < fewest for count in held))

    @property
    def values(self) -> int:
        """The number of values."""
        return len(self.views[0])

    def broken(self, flows: NDArray[np.integer]) -> list[CapRow]:
        """The limits that so many records from each value (row) to each shown value break."""
        rows: list[CapRow] = []
        for number, view in enumerate(self.views):
            counts = projected(flows, view)
            over = counts > self.limit * counts.sum(axis=0) + _SLACK
            over[:, self.exempt[number]] = False
            rows.extend(CapRow(number, int(k), int(r)) for k, r in np.argwhere(over))
        return rows

    def coefficients(self, row: CapRow) -> NDArray[np.float64]:  # (values, values): true, shown
        """What one record from a value to a shown value adds to n_kr − c·M_r."""
        view = self.views[row.view]
        share = (view == row.true) - self.limit
        return np.where((view == row.shown)[None, :], share[:, None], 0.0)

    def stacked(self, rows: Sequence[CapRow]) -> NDArray[np.float64]:  # (rows, values, values)
        """The coefficients of several limits."""
        if not rows:
            return np.zeros((0, self.values, self.values))
        return np.stack([self.coefficients(row) for row in rows])


def projected(flows: NDArray[np.integer], view: NDArray[np.intp]) -> NDArray[np.int64]:
    """The flows between the numbers of a view."""
    size = int(view.max(initial=-1)) + 1
    summed = np.zeros((size, size), dtype=np.int64)
    np.add.at(summed, (view[:, None], view[None, :]), flows)
    return summed
