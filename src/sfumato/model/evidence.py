"""What a fitted law says of the cells of a question, as evidence like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Cells
from sfumato.estimation.evidence import Evidence, gathered

KNOWN = 0.25  # the relative error up to which a share is known well enough for its slope


@dataclass(frozen=True, eq=False)
class LawEvidence(Evidence):
    """Expected counts under a law, and columns whose products are their covariances.

    The covariances count the people as a sample.
    """

    counts: NDArray[Any]  # the shape of the cells
    spread: NDArray[Any]  # (*cells, coefficients and bends)
    supposed: str | None = None
    bends: int = 0  # the last columns: what is left open beyond the slope at the law found

    @property
    def samples(self) -> bool:
        return True

    @property
    def assumes(self) -> str | None:
        return self.supposed

    @cached_property
    def total(self) -> NDArray[Any]:
        return self.counts

    @cached_property
    def squares(self) -> NDArray[Any]:
        scaled = self._scaled(self.spread.reshape(self.counts.size, -1).T, self.counts.ravel())
        return np.asarray((scaled**2).sum(axis=0)).reshape(self.counts.shape)

    def covariance(self, first: NDArray[Any], second: NDArray[Any]) -> float:
        return float(self._summed(first[..., None])[:, 0] @ self._summed(second[..., None])[:, 0])

    def covariances(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        return np.asarray((self._summed(first) * self._summed(second)).sum(axis=0))

    def covariance_matrix(self, weights: NDArray[Any]) -> NDArray[Any]:
        summed = self._summed(weights)
        return summed.T @ summed

    def cell_covariance(self, cells: NDArray[Any]) -> NDArray[Any]:
        chosen = self.spread.reshape(self.counts.size, -1)[cells]
        scaled = self._scaled(chosen.T, self.counts.ravel()[cells])
        return scaled.T @ scaled

    def by_chance(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The covariance of some cells that chance gives the law found, what else the reports
        leave open not counted.
        """
        known = self.spread.shape[-1] - self.bends
        chosen = self.spread.reshape(self.counts.size, -1)[cells, :known]
        return chosen @ chosen.T

    def _summed(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (coefficients, n)
        flat = np.broadcast_to(weights, (*self.counts.shape, weights.shape[-1]))
        flat = flat.reshape(self.counts.size, -1)
        summed = self.spread.reshape(self.counts.size, -1).T @ flat
        return self._scaled(summed, self.counts.ravel() @ np.abs(flat))

    def _scaled(self, summed: NDArray[Any], size: NDArray[Any]) -> NDArray[Any]:
        """Sums of the spread, (coefficients and bends, n), with as much of the bends as counts:
        all where the error is half of its size or more, nothing where it is a quarter or less.
        Draws of all coefficients move what is well known by more than the reports allow.
        """
        known = len(summed) - self.bends
        error = np.sqrt((summed[:known] ** 2).sum(axis=0)) / np.maximum(size, 1e-300)
        counted = np.clip((error - KNOWN) / KNOWN, 0.0, 1.0)
        return np.concatenate([summed[:known], summed[known:] * counted])

    def merged(self, axes: Sequence[int], merges: Sequence[Cells]) -> Evidence:
        columns = np.moveaxis(self.spread, -1, 0)
        spread = np.stack([gathered(column, axes, merges) for column in columns], axis=-1)
        return LawEvidence(gathered(self.counts, axes, merges), spread, self.supposed, self.bends)
