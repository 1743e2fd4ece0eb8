"""Dense: a channel known only as its matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import (
    Channel,
    Counts,
    NotLumpableError,
    to_tally,
    to_truths,
)
from sfumato.domain import Cells
from sfumato.errors import ParameterError


@dataclass(frozen=True, eq=False)
class Dense(Channel):
    """Any column-stochastic matrix of full column rank; with more reports than truths, least
    squares undoes it.

    >>> Dense.square([[0.9, 0.2], [0.1, 0.8]]).solve([65.0, 35.0])
    array([64.28571429, 35.71428571])
    """

    matrix: NDArray[Any]  # (outputs, inputs), flattened
    truths: tuple[int, ...]  # the shape of the inputs
    reports: tuple[int, ...]  # the shape of the outputs

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, dtype=np.float64)
        object.__setattr__(self, "matrix", matrix)
        if matrix.shape != (math.prod(self.outputs), math.prod(self.inputs)):
            raise ParameterError(
                f"a matrix of shape {matrix.shape} does not map {self.inputs} to {self.outputs}"
            )
        check_stochastic(matrix)

    @classmethod
    def square(cls, matrix: Sequence[Sequence[float]] | NDArray[Any]) -> Dense:
        """The channel of a square matrix over one axis."""
        array = np.asarray(matrix, dtype=np.float64)
        return cls(array, (array.shape[1],), (array.shape[0],))

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.truths

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.reports

    @cached_property
    def inverse(self) -> NDArray[Any]:  # (inputs, outputs)
        """A⁻¹, or the least-squares left inverse of a tall matrix."""
        if not np.isfinite(self.condition) or self.condition > 1e14:
            raise ParameterError(
                "this matrix is singular (smallest singular value "
                f"{self.smallest_singular_value:.3g}), "
                "so different truths give the same reports and nothing can be reconstructed"
            )
        square = self.matrix.shape[0] == self.matrix.shape[1]
        return np.linalg.inv(self.matrix) if square else np.linalg.pinv(self.matrix)

    @to_tally
    def apply(self, table: Counts) -> Counts:
        return self.matrix @ table.reshape(math.prod(self.inputs), -1)

    @to_truths
    def adjoint(self, table: Counts) -> Counts:
        return self.matrix.T @ table.reshape(math.prod(self.outputs), -1)

    @to_truths
    def solve(self, table: Counts) -> Counts:
        return self.inverse @ table.reshape(math.prod(self.outputs), -1)

    @to_tally
    def solve_adjoint(self, table: Counts) -> Counts:
        return self.inverse.T @ table.reshape(math.prod(self.inputs), -1)

    @to_truths
    def inverse_squared(self, table: Counts) -> Counts:
        return np.asarray(self.inverse**2 @ table.reshape(math.prod(self.outputs), -1))

    def to_dense(self) -> NDArray[np.float64]:
        return self.matrix

    @cached_property
    def _singular_values(self) -> NDArray[Any]:
        return np.linalg.svd(self.matrix, compute_uv=False)

    @property
    def condition(self) -> float:
        least = self.smallest_singular_value
        return float(self._singular_values[0] / least) if least > 0 else math.inf

    @property
    def smallest_singular_value(self) -> float:
        """How near the matrix is to one that cannot be undone."""
        rank_deficient = self.matrix.shape[0] < self.matrix.shape[1]
        return 0.0 if rank_deficient else float(self._singular_values[-1])

    def marginal(self, axes: Sequence[int]) -> Dense:
        if self.inputs == self.outputs and list(axes) == list(range(len(self.inputs))):
            return self
        merges = [
            np.eye(size) if axis in axes else np.ones((1, size))
            for axis, size in enumerate(self.inputs)
        ]
        kept, wanted = sorted(axes), tuple(self.inputs[axis] for axis in axes)
        shape, order = [self.inputs[axis] for axis in kept], [kept.index(axis) for axis in axes]
        twice = (*order, *(len(shape) + place for place in order))
        turned = self._lump(merges).reshape(*shape, *shape).transpose(twice)
        return Dense(turned.reshape(math.prod(wanted), -1), wanted, wanted)

    def coarsen(self, cells: Sequence[Cells]) -> Dense:
        if all(part.trivial for part in cells):
            return self
        shape = tuple(part.size for part in cells)
        pairs = zip(cells, self.inputs, strict=True)
        groups = [part.assign(np.arange(size)).astype(np.intp) for part, size in pairs]
        merges = [np.eye(size)[:, group] for size, group in zip(shape, groups, strict=True)]
        return Dense(self._lump(merges), shape, shape)

    def _lump(self, merges: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Rows summed by cell; the columns of one cell must then agree, else the merged report
        depends on the lost detail.
        """
        if self.inputs != self.outputs:
            raise NotLumpableError(
                "a channel between different domains has no marginals of its own"
            )
        merge: NDArray[Any] = np.ones((1, 1))
        for part in merges:
            merge = np.kron(merge, part)
        rows = merge @ self.matrix
        mean = rows @ merge.T / merge.sum(axis=1)
        if np.abs(rows - mean @ merge).max() > 1e-9:
            raise NotLumpableError(
                "these cells cannot be merged: their reports depend on which of the merged "
                "values is true"
            )
        return mean


def check_stochastic(matrix: NDArray[Any], labels: Sequence[str] | None = None) -> None:
    """Refuse a matrix whose entries are not probabilities or whose columns do not sum to 1."""
    if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
        raise ParameterError("a channel is a two-dimensional matrix of finite numbers")
    if matrix.min() < 0:
        row, column = (int(place) for place in np.argwhere(matrix < 0)[0])
        raise ParameterError(
            f"entries are probabilities; row {row + 1}, column {column + 1} is "
            f"{matrix[row, column]:g}"
        )
    sums = matrix.sum(axis=0)
    wrong = np.abs(sums - 1) > 1e-9
    if wrong.any():
        column = int(np.argmax(wrong))
        name = f" ({labels[column]})" if labels else ""
        raise ParameterError(
            f"each column must sum to 1; column {column + 1}{name} sums to {sums[column]:.6g}"
        )
