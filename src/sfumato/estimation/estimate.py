"""Estimate and Answer: reconstructed counts of cells, and any weighted sum of them, each with its
standard error.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, NotLumpableError, OwnLaw, Product, Retain
from sfumato.domain import Cells
from sfumato.errors import EstimationError, ParameterError, SchemaError, listing, near_miss
from sfumato.estimation.adjust import clip_and_scale, project_simplex
from sfumato.estimation.likelihood import Likelihood, maximum_likelihood


@dataclass(frozen=True)
class Answer:
    """A number that was estimated and its standard error; `sampling` says whether the rows count as
    a sample themselves.

    >>> [round(end, 2) for end in Answer(100.0, 10.0).interval(0.95)]
    [80.4, 119.6]
    """

    value: float
    stderr: float
    sampling: bool = False

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The normal interval that covers the truth at this level."""
        if not 0 < level < 1:
            raise ParameterError(f"level={level} is not between 0 and 1")
        reach = NormalDist().inv_cdf((1 + level) / 2) * self.stderr
        return self.value - reach, self.value + reach

    def scaled(self, factor: float) -> Answer:
        """The answer times a known number."""
        return replace(self, value=self.value * factor, stderr=self.stderr * abs(factor))

    def clip(self, low: float = 0.0, high: float = math.inf) -> float:
        """The value moved into its possible range: no longer unbiased."""
        return min(max(self.value, low), high)

    def __repr__(self) -> str:
        return f"Answer(value={self.value:.6g}, stderr={self.stderr:.4g})"


class Evidence(ABC):
    """What reports say about the cells of a question: each report contributes t(report, cell) to
    each cell's estimate.
    """

    @cached_property
    @abstractmethod
    def total(self) -> NDArray[Any]:  # shape of the cells
        """The contributions summed over all reports: the estimate times the copies."""

    @cached_property
    @abstractmethod
    def squares(self) -> NDArray[Any]:  # shape of the cells
        """The variance of `total`, cell by cell, with the true rows held fixed."""

    @abstractmethod
    def covariance(self, first: NDArray[Any], second: NDArray[Any]) -> float:
        """The covariance of two weighted sums of `total`, with the true rows held fixed."""

    def covariances(
        self, first: NDArray[Any], second: NDArray[Any]
    ) -> NDArray[Any]:  # (*cells, n) each -> (n,)
        """The covariances of n pairs of weighted sums; overridden where they can share work."""
        return np.array(
            [self.covariance(first[..., i], second[..., i]) for i in range(first.shape[-1])]
        )

    def covariance_matrix(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (n, n)
        """The covariances of n weighted sums with one another; overridden where they can share
        work.
        """
        each = np.moveaxis(weights, -1, 0)
        return np.array([[self.covariance(first, second) for second in each] for first in each])

    def cell_covariance(self, cells: NDArray[Any]) -> NDArray[Any]:  # n flat indices -> (n, n)
        """The covariances of n cells of `total` with one another."""
        units = np.zeros((self.total.size, len(cells)))
        units[cells, np.arange(len(cells))] = 1
        return self.covariance_matrix(units.reshape(*self.total.shape, len(cells)))

    def merged(self, axes: Sequence[int], merges: Sequence[Cells]) -> Evidence:
        """The evidence about merged cells of some of the axes."""
        return MergedEvidence.over(self, axes, merges)


@dataclass(frozen=True, eq=False)
class CountEvidence(Evidence):
    """Reports counted cell by cell, undone through their channel.

    With g = A⁻ᵀw, the estimate of w·x is g·y, with variance Σ_v y_v g_v² - Σ_u x̂_u (Aᵀg)_u² (rows
    held fixed). Where a law was read off the same reports, g also holds how the estimate moves with
    that law.
    """

    counts: NDArray[Any]  # outputs of the channel
    channel: Channel

    @cached_property
    def settled(self) -> Channel:
        """The channel with every law known."""
        return self.channel.settle(self.counts)

    @cached_property
    def total(self) -> NDArray[Any]:
        return np.asarray(self.settled.solve(self.counts))

    @cached_property
    def squares(self) -> NDArray[Any]:
        if self.channel.settled:
            return self.settled.inverse_squared(self.counts) - self.total
        units = np.eye(self.total.size).reshape(self.total.size, *self.total.shape)
        return np.array([self.covariance(unit, unit) for unit in units]).reshape(self.total.shape)

    def covariance(self, first: NDArray[Any], second: NDArray[Any]) -> float:
        left, right = self._influence(first), self._influence(second)
        raw = float((self.counts * left * right).sum())
        return raw - float(
            (self.total * self.settled.adjoint(left) * self.settled.adjoint(right)).sum()
        )

    def covariances(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        if not self.channel.settled:
            return super().covariances(first, second)
        left, right = self.settled.solve_adjoint(first), self.settled.solve_adjoint(second)
        axes = tuple(range(self.counts.ndim))
        raw = (self.counts[..., None] * left * right).sum(axis=axes)
        return raw - (self.total[..., None] * first * second).sum(
            axis=tuple(range(self.total.ndim))
        )

    def covariance_matrix(self, weights: NDArray[Any]) -> NDArray[Any]:
        number = weights.shape[-1]
        influence = self._influences(weights)
        expected = weights if self.channel.settled else self.settled.adjoint(influence)
        influence, expected = influence.reshape(-1, number), expected.reshape(-1, number)
        raw, mean = self.counts.reshape(-1, 1) * influence, self.total.reshape(-1, 1) * expected
        if number == 1:  # too little work for threads
            return np.array([[float((influence * raw).sum() - (expected * mean).sum())]])
        return influence.T @ raw - expected.T @ mean

    def cell_covariance(self, cells: NDArray[Any]) -> NDArray[Any]:
        if isinstance(self.channel, Retain) and self.channel.keep == 1:
            return np.zeros((len(cells), len(cells)))
        return super().cell_covariance(cells)

    def _influences(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*inputs, n) -> (*outputs, n)
        if self.channel.settled:
            return np.asarray(self.settled.solve_adjoint(weights))
        return np.stack(
            [self._influence(weights[..., i]) for i in range(weights.shape[-1])], axis=-1
        )

    def merged(self, axes: Sequence[int], merges: Sequence[Cells]) -> Evidence:
        try:
            channel = self.channel.marginal(axes).coarsen(merges)
        except NotLumpableError:
            return super().merged(axes, merges)
        return CountEvidence(gathered(self.counts, axes, merges), channel)

    def _influence(self, weights: NDArray[Any]) -> NDArray[Any]:
        """What one more report of each kind adds to the estimate of w·x."""
        influence = np.asarray(self.settled.solve_adjoint(weights))
        if self.channel.settled:
            return influence
        for axis, keep in _own_axes(self.channel):
            influence = influence + self._through_law(weights, axis, keep)
        permuted = [axis for axis, _ in _own_axes(self.channel, permuted=True)]
        return _without_margins(influence, self.counts, permuted) if permuted else influence

    def _through_law(self, weights: NDArray[Any], axis: int, keep: float) -> NDArray[Any]:
        """How the estimate moves with the law of one axis, which is that axis's share of the
        reports.
        """
        everyone = _about(self.total, axis).sum(
            axis=1
        )  # the other axes undone: columns of the inverse sum to 1
        slope = np.einsum("ijk,ik->j", _about(weights, axis), everyone)
        shape = [-1 if other == axis else 1 for other in range(weights.ndim)]
        return (-(1 - keep) / (keep * float(self.counts.sum())) * slope).reshape(shape)


def _own_axes(channel: Channel, permuted: bool = False) -> list[tuple[int, float]]:
    """The axes whose law is their own distribution, and their keep."""
    factors = (
        zip(channel.factors, channel.axes, strict=True)
        if isinstance(channel, Product)
        else [(channel, None)]
    )
    found: list[tuple[int, float]] = []
    for factor, axes in factors:
        if isinstance(factor, Retain):
            for place, law in enumerate(factor.laws):
                if isinstance(law, OwnLaw) and (law.permuted or not permuted):
                    found.append((axes[place] if axes else place, factor.keep))
    return found


def _without_margins(
    influence: NDArray[Any], counts: NDArray[Any], axes: Sequence[int]
) -> NDArray[Any]:
    """The influence less its best additive part over these axes.

    A permuted column keeps its counts, so whatever depends on that column alone has no error.
    """
    influence, counts = np.array(influence, order="C"), np.asarray(counts, dtype=np.float64)
    views = [
        (_about(influence, axis), _about(counts, axis)) for axis in axes
    ]  # of the one array that is returned
    masses = [np.maximum(each.sum(axis=(0, 2)), 1e-300) for _, each in views]
    for _ in range(100):
        largest = 0.0
        for (view, each), mass in zip(views, masses, strict=True):
            mean = np.einsum("ijk,ijk->j", view, each) / mass
            view -= mean[:, None]
            largest = max(largest, float(np.abs(mean).max(initial=0.0)))
        if largest < 1e-10:
            break
    return influence


def _about(table: NDArray[Any], axis: int) -> NDArray[Any]:  # (before, axis, after)
    """The axes before and after one axis, each made one: sums over many small axes are slow."""
    return table.reshape(math.prod(table.shape[:axis]), table.shape[axis], -1)


@dataclass(frozen=True, eq=False)
class MergedEvidence(Evidence):
    """Evidence about finer cells, summed to coarser ones: for channels whose cells cannot be merged
    beforehand.
    """

    fine: Evidence
    gather: Callable[[NDArray[Any]], NDArray[Any]]  # fine cells -> cells
    spread: Callable[[NDArray[Any]], NDArray[Any]]  # weights of cells -> weights of fine cells

    @classmethod
    def over(cls, fine: Evidence, axes: Sequence[int], merges: Sequence[Cells]) -> MergedEvidence:
        """The evidence about some of the axes, their cells merged."""
        return cls(
            fine,
            lambda table: gathered(table, axes, merges),
            lambda weights: spread(weights, axes, merges, np.shape(fine.total)),
        )

    @cached_property
    def total(self) -> NDArray[Any]:
        return self.gather(self.fine.total)

    @cached_property
    def squares(self) -> NDArray[Any]:
        units = np.eye(self.total.size).reshape(self.total.size, *self.total.shape)
        return np.array([self.covariance(unit, unit) for unit in units]).reshape(self.total.shape)

    def covariance(self, first: NDArray[Any], second: NDArray[Any]) -> float:
        return self.fine.covariance(self.spread(first), self.spread(second))


@dataclass(frozen=True, eq=False)
class RowEvidence(Evidence):
    """Reports in another domain than the records: each row's contribution to a cell is computed
    from the row itself.

    The contributions t of a row to its cells have mean 1 in the true cell and 0 elsewhere, so the
    sum is unbiased and Σ t² less the estimate is its variance (rows held fixed).
    """

    shape: tuple[int, ...]
    contribution: Callable[[int], NDArray[Any]]  # cell -> (rows,)

    @cached_property
    def total(self) -> NDArray[Any]:
        return np.array(
            [float(self.contribution(cell).sum()) for cell in range(math.prod(self.shape))]
        ).reshape(self.shape)

    @cached_property
    def squares(self) -> NDArray[Any]:
        raw = [float((self.contribution(cell) ** 2).sum()) for cell in range(math.prod(self.shape))]
        return np.array(raw).reshape(self.shape) - self.total

    def covariance(self, first: NDArray[Any], second: NDArray[Any]) -> float:
        raw = float((self._summed(first) * self._summed(second)).sum())
        return raw - float((first * second * self.total).sum())

    def covariance_matrix(self, weights: NDArray[Any]) -> NDArray[Any]:
        number = weights.shape[-1]
        summed = np.stack([self._summed(weights[..., i]) for i in range(number)], axis=-1)
        flat = weights.reshape(-1, number)
        return summed.T @ summed - flat.T @ (self.total.reshape(-1, 1) * flat)

    def _summed(self, weights: NDArray[Any]) -> NDArray[Any]:
        flat = weights.ravel()
        parts = (flat[cell] * self.contribution(int(cell)) for cell in np.flatnonzero(flat))
        return sum(parts, start=np.zeros(1))


def gathered(table: NDArray[Any], axes: Sequence[int], merges: Sequence[Cells]) -> NDArray[Any]:
    """A table summed to some of its axes, in this order, and their cells merged."""
    rest = tuple(axis for axis in range(table.ndim) if axis not in axes)
    table = table.sum(axis=rest).transpose(*np.argsort(np.argsort(axes)))
    for axis, part in enumerate(merges):
        if not part.trivial:
            table = np.moveaxis(
                np.tensordot(_merge_matrix(part, table.shape[axis]), table, axes=(1, axis)), 0, axis
            )
    return table


def spread(
    weights: NDArray[Any], axes: Sequence[int], merges: Sequence[Cells], shape: tuple[int, ...]
) -> NDArray[Any]:
    """Weights of merged cells as weights of the fine ones: the adjoint of `gathered`."""
    for axis, part in enumerate(merges):
        weights = np.moveaxis(
            np.tensordot(_merge_matrix(part, shape[axes[axis]]).T, weights, axes=(1, axis)), 0, axis
        )
    rest = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return np.broadcast_to(np.expand_dims(weights.transpose(*np.argsort(axes)), rest), shape)


def _merge_matrix(cells: Cells, size: int) -> NDArray[Any]:
    merge = np.zeros((cells.size, size))
    merge[cells.assign(np.arange(size)).astype(np.intp), np.arange(size)] = 1
    return merge


@dataclass(frozen=True, eq=False)
class Estimate:
    """Reconstructed counts of the cells of a question: an array of values, each weighted sum of
    which has a standard error.

    The value is the unbiased inversion A⁻¹y; it may be negative and stays so until `clip`,
    `project` or `likelihood` is asked. Standard errors hold the true rows fixed; with
    `sampling=True` the rows count as a sample from a larger population.
    """

    cells: tuple[Cells, ...]
    rows: int
    evidence: Evidence
    copies: int = 1

    @cached_property
    def value(self) -> NDArray[Any]:
        """The estimated counts, one a cell."""
        return self.evidence.total / self.copies

    @cached_property
    def stderr(self) -> NDArray[Any]:
        """The standard error of each cell, with the true rows held fixed."""
        return np.sqrt(np.maximum(self.evidence.squares, 0.0)) / self.copies

    @property
    def names(self) -> tuple[str, ...]:
        """The axes: attributes or items."""
        return tuple(part.name for part in self.cells)

    def dot(self, weights: NDArray[Any], *, sampling: bool = False) -> Answer:
        """The estimate of Σ weights·counts."""
        weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), self.value.shape)
        variance = self._covariance(weights, weights, sampling)
        return Answer(float((weights * self.value).sum()), math.sqrt(max(variance, 0.0)), sampling)

    def _covariance(self, first: NDArray[Any], second: NDArray[Any], sampling: bool) -> float:
        fixed = self.evidence.covariance(first, second) / self.copies**2
        if not sampling:
            return fixed
        spread = float((first * second * self.value).sum())
        return (
            fixed
            + spread
            - float((first * self.value).sum()) * float((second * self.value).sum()) / self.rows
        )

    def cell_covariance(
        self, cells: NDArray[Any], *, sampling: bool = False
    ) -> NDArray[Any]:  # n flat indices -> (n, n)
        """The covariances of the estimates of n cells with one another."""
        fixed = self.evidence.cell_covariance(cells) / self.copies**2
        value = self.value.ravel()[cells]
        return fixed + np.diag(value) - np.outer(value, value) / self.rows if sampling else fixed

    def coarsen(self, cells: Sequence[Cells]) -> Estimate:
        """The estimate over some of the columns, or coarser cells of them, from the
        same reports.
        """
        axes = [self.names.index(part.name) for part in cells]
        merges = [part.within(self.cells[axis]) for part, axis in zip(cells, axes, strict=True)]
        return replace(self, cells=tuple(cells), evidence=self.evidence.merged(axes, merges))

    def where(self, *, sampling: bool = False, **values: Any) -> Answer:
        """The count of the rows with these values: a label, or a list of labels, for some of the
        columns.

        Columns not named are summed over. True and False stand for the labels of a yes-no column.
        """
        return self.dot(self.indicator(**values), sampling=sampling)

    def indicator(self, **values: Any) -> NDArray[Any]:
        """1 for the cells with these values, else 0."""
        for name in values:
            if name not in self.names:
                raise SchemaError(
                    f"this estimate has no column '{name}' ({listing(self.names)})",
                    hint=near_miss(name, self.names),
                )
        weights = np.ones(())
        for part in self.cells:
            axis = np.ones(part.size)
            if part.name in values:
                axis = np.zeros(part.size)
                axis[[_cell(part, label) for label in _listed(values[part.name])]] = 1
            weights = np.multiply.outer(weights, axis)
        return weights

    def ratio(
        self, numerator: NDArray[Any], denominator: NDArray[Any], *, sampling: bool = False
    ) -> Answer:
        """The estimate of (Σ numerator·counts) / (Σ denominator·counts), with its standard error by
        the delta method.
        """
        top, bottom = self.dot(numerator), self.dot(denominator)
        if bottom.value == 0:
            raise EstimationError("this ratio has an estimated denominator of 0")
        value = top.value / bottom.value
        slope = (
            np.asarray(numerator, dtype=float) - value * np.asarray(denominator, dtype=float)
        ) / bottom.value
        slope = np.broadcast_to(slope, self.value.shape)
        variance = self._covariance(slope, slope, sampling)
        return Answer(value, math.sqrt(max(variance, 0.0)), sampling)

    def share(self, *, sampling: bool = False, **values: Any) -> Answer:
        """The share of all rows with these values."""
        return self.where(sampling=sampling, **values).scaled(1 / self.rows)

    def clip(self) -> NDArray[Any]:
        """Counts with the negative ones set to zero and the rest scaled to the rows
        (FRAPP §8.2.1).
        """
        return clip_and_scale(self.value, self.rows)

    def project(self) -> NDArray[Any]:
        """The nearest non-negative counts that sum to the rows."""
        return project_simplex(self.value, self.rows)

    def likelihood(self, **options: Any) -> Likelihood:
        """The non-negative counts that make the reports most likely (iterative Bayes at its fixed
        point).
        """
        if not isinstance(self.evidence, CountEvidence):
            raise EstimationError(
                "maximum likelihood needs reports in the records' own domain; use the inversion"
            )
        found = maximum_likelihood(self.evidence.settled, self.evidence.counts, **options)
        return replace(found, value=found.value / self.copies)

    def to_arrow(self) -> Any:
        """A table with one row a cell: its labels, value and stderr."""
        import pyarrow as pa

        places = np.unravel_index(np.arange(self.value.size), self.value.shape)
        columns = {
            part.name: [part.labels[i] for i in place]
            for part, place in zip(self.cells, places, strict=True)
        }
        return pa.table({**columns, "value": self.value.ravel(), "stderr": self.stderr.ravel()})

    def __repr__(self) -> str:
        shape = " × ".join(f"{part.name} ({part.size})" for part in self.cells)
        return f"Estimate of {self.rows:,} rows over {shape}"


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple | set | frozenset) else [values]


def _cell(cells: Cells, label: Any) -> int:
    if isinstance(label, bool):
        if cells.item is not None:
            return int(label)
        known = [
            word for word in (("yes", "true", "1", "y") if label else ("no", "false", "0", "n"))
        ]
        match = [place for place, name in enumerate(cells.labels) if name.casefold() in known]
        if match:
            return match[0]
    return cells.code(str(label))
