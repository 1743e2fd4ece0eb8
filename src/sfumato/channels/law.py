"""Law: the public distribution from which a replaced value is drawn, and how it sums over cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Cells
from sfumato.errors import EstimationError


@dataclass(frozen=True, eq=False)
class Law:
    """A distribution on the codes 0..size-1 of one axis; `masses` None is uniform, so that a fine
    grid costs nothing.
    """

    size: int
    masses: NDArray[np.float64] | None = None

    @property
    def known(self) -> bool:
        """Whether the masses can be stated before any report is seen."""
        return True

    @property
    def uniform(self) -> bool:
        """Whether every code has the same mass."""
        return self.known and self.masses is None

    def vector(self) -> NDArray[np.float64]:
        """The masses, one a code."""
        return np.full(self.size, 1 / self.size) if self.masses is None else self.masses

    def coarsen(self, cells: Cells) -> Law:
        """The law of merged cells: masses are summed."""
        if self.masses is None:
            return Law(cells.size, cells.counts() / self.size)
        return Law(cells.size, cells.sum(self.masses))

    @property
    def least(self) -> float:
        """The smallest mass."""
        return 1 / self.size if self.masses is None else float(self.masses.min())

    @property
    def square(self) -> float:
        """The sum of squared masses."""
        return 1 / self.size if self.masses is None else float(self.masses @ self.masses)


@dataclass(frozen=True, eq=False)
class OwnLaw(Law):
    """The column's own distribution (identity perturbation, permuting), read off the reports: their
    marginal is unchanged.

    `permuted` says that the replaced values were permuted among themselves, so that the column's
    counts have no error at all.
    """

    permuted: bool = False

    @property
    def known(self) -> bool:
        return False

    def vector(self) -> NDArray[np.float64]:
        raise EstimationError(
            "this law is the column's own distribution; settle the channel with the observed "
            "counts first"
        )

    def coarsen(self, cells: Cells) -> Law:
        return OwnLaw(cells.size, permuted=self.permuted)

    @property
    def least(self) -> float:
        return 0.0  # nothing is promised about a value that no one else holds

    @property
    def square(self) -> float:
        return float(self.vector() @ self.vector())


class Replacement(NamedTuple):
    """A value is kept with this probability, else drawn from a law."""

    keep: float
    law: Law
    alone: bool  # whether it is drawn on its own, or never: else together with other axes
