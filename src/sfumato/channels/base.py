"""Channel: the column-stochastic matrix that counts pass through when every record is randomised on
its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Cells
from sfumato.errors import EstimationError

Counts = NDArray[Any]


class NotLumpableError(EstimationError):
    """Cells of this channel cannot be merged: what is reported depends on more than the merged
    cell.
    """


class Channel(ABC):
    """A matrix A with A[v, u] = P(report v | truth u), known by its structure and never built
    unless asked for.

    Counts are arrays of shape `inputs` (truths) or `outputs` (reports); any further axes are a
    batch and are carried along.
    """

    # What every channel must say.

    @property
    @abstractmethod
    def inputs(self) -> tuple[int, ...]:
        """The shape of the table of truths."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[int, ...]:
        """The shape of the table of reports."""

    @abstractmethod
    def apply(self, counts: Counts) -> Counts:  # inputs -> outputs
        """A x: the reports to be expected from these truths."""

    @abstractmethod
    def adjoint(self, weights: Counts) -> Counts:  # outputs -> inputs
        """Aᵀ g: for each truth, the expected weight of its report."""

    @abstractmethod
    def solve(self, counts: Counts) -> Counts:  # outputs -> inputs
        """A⁻¹ y: the unbiased estimate of the truths from these reports; it may be negative."""

    @abstractmethod
    def solve_adjoint(self, weights: Counts) -> Counts:  # inputs -> outputs
        """A⁻ᵀ w: what each report contributes to the estimate of w·x."""

    @abstractmethod
    def inverse_squared(self, counts: Counts) -> Counts:  # outputs -> inputs
        """Σ_v (A⁻¹[u, v])² y_v for each truth u: the raw second moment behind the standard errors
        of single cells.
        """

    @property
    @abstractmethod
    def gamma(self) -> float:
        """The largest ratio of one report's probabilities under two truths."""

    @property
    @abstractmethod
    def condition(self) -> float:
        """The 2-norm condition number."""

    @abstractmethod
    def marginal(self, axes: Sequence[int]) -> Channel:
        """The channel of a few axes, the others summed out."""

    @abstractmethod
    def coarsen(self, cells: Sequence[Cells]) -> Channel:
        """The channel of merged cells: one partition an axis."""

    # What may be overridden.

    def settle(self, counts: Counts) -> Channel:
        """The channel with every law that was left to the data read off these reports; most
        channels are settled already.
        """
        return self

    @property
    def settled(self) -> bool:
        """Whether no part of the channel is left to be read off the data."""
        return True

    def to_dense(self) -> NDArray[np.float64]:  # (outputs, inputs) flattened
        """The matrix itself: for judging and for small things."""
        size = math.prod(self.inputs)
        columns = self.apply(np.eye(size).reshape(*self.inputs, size))
        return np.asarray(columns).reshape(math.prod(self.outputs), size)


def batched(array: Counts, shape: tuple[int, ...]) -> Counts:
    """The array with all axes beyond `shape` made one trailing axis."""
    return np.asarray(array, dtype=np.float64).reshape(*shape, -1)


def unbatched(
    result: Counts, like: Counts, before: tuple[int, ...], after: tuple[int, ...]
) -> Counts:
    """The batched result with the trailing axes that `like` had behind its first len(before)."""
    return result.reshape(*after, *np.shape(like)[len(before) :])
