"""How many people hold each value of a grid, by the laws that their reports in windows speak for:
averaged, and how the laws differ is part of the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sfumato.channels.window import Shape
from sfumato.estimation.grid_law import Floats, GridLaw, fitted
from sfumato.estimation.heaping import Heaping
from sfumato.one_thread import one_thread


def _among(found: Floats, variance: Floats) -> Floats:  # (values, values)
    """The covariance of counts where people clump with these variances: whoever is more in one
    place is missing among all others, since how many there are is known.
    """
    share = found / max(float(found.sum()), 1e-300)
    apart = np.outer(variance, share)
    return np.diag(variance) - apart - apart.T + float(variance.sum()) * np.outer(share, share)


@dataclass(frozen=True, eq=False)
class GridCounts:
    """How many people hold each value of the grid, given their reports: mean and covariance.

    x̂_u = Σ_v y_v·P(u | v) at the fitted law; its error is that of the law, carried along, and that
    of who is who once the law is known. The people are those who reported, held fixed. Last, the
    counts are moved, as little as their covariance allows, so that their mean is that of the
    reports undone, which has no bias whatever the law.
    """

    shape: Shape
    counts: Floats  # (reports,)
    heapings: tuple[Heaping, ...] = ()

    @cached_property
    def _laws(self) -> tuple[tuple[float, GridLaw], ...]:
        return fitted(self.shape, self.counts.tobytes(), self.heapings)

    @cached_property
    @one_thread()
    def _moments(self) -> tuple[Floats, Floats]:
        """Averaged over the laws; how their means differ is part of the covariance."""
        parts = [(weight, *self._with_mean(*self._under(law))) for weight, law in self._laws]
        mean = sum((weight * found for weight, found, _ in parts), np.zeros(self.shape.values))
        total = np.zeros((self.shape.values,) * 2)
        for weight, found, covariance in parts:
            total += weight * (covariance + np.outer(found - mean, found - mean))
        return mean, total

    def _under(self, fit: GridLaw) -> tuple[Floats, Floats]:
        """Mean and covariance at one law."""
        matrix = self.shape.matrix
        chances = matrix @ fit.masses
        who = matrix * fit.masses / chances[:, None]  # (reports, values): P(u | v)
        found = self.counts @ who
        drawn = (matrix * (self.counts / chances**2)[:, None]).T @ matrix
        moved = np.diag(matrix.T @ (self.counts / chances)) - fit.masses[:, None] * drawn
        through = moved @ fit.moves
        unsure = np.diag(found) - (who * self.counts[:, None]).T @ who
        clumps = _among(found, self.counts.sum() * fit.hidden @ fit.elsewhere)
        return found, through @ fit.covariance @ through.T + unsure + clumps

    def _with_mean(self, found: Floats, covariance: Floats) -> tuple[Floats, Floats]:
        """The counts, conditioned on the sum of the numbers that the reports give without bias."""
        numbers = np.arange(self.shape.values) - (self.shape.values - 1) / 2
        told = self.shape.number(np.arange(self.shape.reports)) - (self.shape.values - 1) / 2
        along = covariance @ numbers
        spread_out = float(numbers @ along)
        if spread_out <= 1e-12:
            return found, covariance
        error = float(self.counts @ told**2 - found @ numbers**2)
        way = along / spread_out
        moved = found + way * (float(self.counts @ told) - float(found @ numbers))
        kept = covariance - np.outer(along, along) / spread_out
        return moved, kept + max(error, 0.0) * np.outer(way, way)

    @cached_property
    def rounded(self) -> dict[Heaping, Floats]:  # (values,) each
        """Which part of the people of each value is at round numbers, kind by kind."""
        found = {heaping: np.zeros(self.shape.values) for heaping in self.heapings}
        for weight, law in self._laws:
            for heaping, part in law.rounded.items():
                found[heaping] += weight * part
        return found

    @cached_property
    def lumps(self) -> Floats:  # (values,)
        """Which part of the people of each value may be anywhere near it, all alike, or at round
        numbers or not, as a root mean square over the laws.
        """
        nobody = np.zeros(self.shape.values)
        known, squares = sum(self.rounded.values(), nobody), nobody
        for weight, law in self._laws:
            apart = sum(law.rounded.values(), nobody) - known
            squares = squares + weight * (law.lumps**2 + apart**2)
        return np.sqrt(squares)

    @cached_property
    def alike(self) -> Floats:  # (values,)
        """How likely it is that the people of each value are all alike."""
        nobody = np.zeros(self.shape.values)
        return sum((weight * law.lumps for weight, law in self._laws), nobody)

    @property
    def mean(self) -> Floats:  # (values,)
        """The estimated people of each value."""
        return self._moments[0]

    @property
    def covariance(self) -> Floats:  # (values, values)
        """Of the estimates, the people held fixed."""
        return self._moments[1]


@lru_cache(maxsize=64)
def grid_counts(shape: Shape, counts: bytes, heapings: tuple[Heaping, ...] = ()) -> GridCounts:
    """What a tally (float64 counts of the reports) says of the grid, worked out once."""
    return GridCounts(shape, np.frombuffer(counts), heapings)
