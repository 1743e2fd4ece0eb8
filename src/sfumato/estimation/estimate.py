"""Estimate: reconstructed counts of cells, and any weighted sum of them, each with its standard
error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.domain import Cells
from sfumato.errors import (
    EstimationError,
    ParameterError,
    SchemaError,
    Unanswerable,
    listing,
    near_miss,
)
from sfumato.estimation.answer import Answer, Ends, reach
from sfumato.estimation.evidence import CountEvidence, Evidence
from sfumato.estimation.likelihood import (
    MostLikely,
    clip_and_scale,
    maximum_likelihood,
    project_simplex,
)
from sfumato.estimation.limits import DRAWN_CELLS
from sfumato.estimation.ratio import Parts, RatioAnswer, mediants
from sfumato.privacy.probability import check_places
from sfumato.renderers.frames import free_name
from sfumato.renderers.picture import draw, estimates
from sfumato.result import Result
from sfumato.view import Chart, ColumnView, TableView, View

COUNT_COLUMNS = ("count", "count_stderr", "count_low", "count_high")  # of every table of counts


@checked
@dataclass(frozen=True, eq=False)
class Estimate(Result):
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
        return self.evidence.estimated / self.copies

    @cached_property
    def stderr(self) -> NDArray[Any]:
        """The standard error of each cell, with the true rows held fixed."""
        return np.sqrt(np.maximum(self.evidence.cell_variances, 0.0)) / self.copies

    @property
    def names(self) -> tuple[str, ...]:
        """The axes: attributes or items."""
        return tuple(part.name for part in self.cells)

    def dot(self, weights: NDArray[Any], *, sampling: bool = False) -> Answer:
        """The estimate of Σ weights·counts."""
        weights = self._per_cell(weights)
        value, error = float((weights * self.value).sum()), self._variance(weights, sampling)
        plain = Answer(
            value,
            math.sqrt(max(error, 0.0)),
            sampling or self.evidence.samples,
            self.evidence.assumes,
            possible=(float(self.rows * weights.min()), float(self.rows * weights.max())),
        )
        return self.evidence.answered(plain, lambda: weights)

    def _variance(self, weights: NDArray[Any], sampling: bool) -> float:
        fixed = float(self.variances(weights[..., None])[0])
        if not sampling or self.evidence.samples:
            return fixed
        spread = float((weights**2 * self.value).sum())
        return fixed + spread - float((weights * self.value).sum()) ** 2 / self.rows

    def variances(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (n,)
        """The variances of n weighted sums, with the true rows held fixed."""
        return self.evidence.variances(self._fitting(weights)) / self.copies**2

    def covariance_matrix(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (n, n)
        """The covariances of n weighted sums with one another, the true rows held fixed."""
        return self.evidence.covariance_matrix(self._fitting(weights)) / self.copies**2

    def _per_cell(self, weights: NDArray[Any]) -> NDArray[np.float64]:
        try:
            return np.broadcast_to(np.asarray(weights, dtype=np.float64), self.value.shape)
        except ValueError:
            raise _misshapen(np.asarray(weights), self.value.shape) from None

    def _fitting(self, weights: NDArray[Any]) -> NDArray[Any]:
        weights = np.asarray(weights)
        if weights.shape[:-1] != self.value.shape:
            raise _misshapen(weights, (*self.value.shape, "n"))
        return weights

    def cell_covariance(
        self, cells: NDArray[Any], *, sampling: bool = False
    ) -> NDArray[Any]:  # n flat indices -> (n, n)
        """The covariances of the estimates of n cells with one another."""
        cells = np.asarray(cells)
        if cells.ndim != 1 or not cells.size or cells.dtype.kind not in "iu":
            raise ParameterError("cells are the numbers of one or more cells", hint="as in [0, 1]")
        check_places("cells", (int(cells.min()), int(cells.max())), self.value.size)
        fixed = self.evidence.cell_covariance(cells) / self.copies**2
        if not sampling or self.evidence.samples:
            return fixed
        value = self.value.ravel()[cells]
        return fixed + np.diag(value) - np.outer(value, value) / self.rows

    def coarsen(self, cells: Sequence[Cells]) -> Estimate:
        """The estimate over some of the columns, or coarser cells of them, from the
        same reports.
        """
        axes = [self._axis(part.name) for part in cells]
        merges = [part.within(self.cells[axis]) for part, axis in zip(cells, axes, strict=True)]
        return replace(self, cells=tuple(cells), evidence=self.evidence.merged(axes, merges))

    def _axis(self, name: str) -> int:
        if name not in self.names:
            raise SchemaError(
                f"this estimate has no column '{name}' ({listing(self.names)})",
                hint=near_miss(name, self.names),
            )
        return self.names.index(name)

    def where(self, *, sampling: bool = False, **values: Any) -> Answer:
        """The count of the rows with these values: a label, or a list of labels, for some of the
        columns.

        Columns not named are summed over. True and False stand for the labels of a yes-no column.
        """
        return self.dot(self.indicator(**values), sampling=sampling)

    def indicator(self, **values: Any) -> NDArray[Any]:
        """1 for the cells with these values, else 0."""
        for name in values:
            self._axis(name)
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
        """The estimate of (Σ numerator·counts) / (Σ denominator·counts), with an interval by
        Fieller's method; without a value where the denominator may be nothing.
        """
        pair = [self._per_cell(each) for each in (numerator, denominator)]
        weights = np.stack(pair, axis=-1)
        top, bottom = (float((each * self.value).sum()) for each in pair)
        if bottom == 0:
            raise EstimationError("this ratio has an estimated denominator of 0")
        matrix = self.covariance_matrix(weights)
        if sampling and not self.evidence.samples:
            sums = np.array([top, bottom])
            flat, value = weights.reshape(-1, 2), self.value.ravel()
            matrix = matrix + flat.T @ (flat * value[:, None]) - np.outer(sums, sums) / self.rows
        found = RatioAnswer.of(Parts.of(top, bottom, matrix), mediants(*pair))
        sampled = sampling or self.evidence.samples
        found = replace(found, sampling=sampled, assumes=self.evidence.assumes)
        if not math.isfinite(found.value):
            return found
        return self.evidence.answered(found, lambda: (pair[0] - found.value * pair[1]) / bottom)

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

    def likelihood(self, **options: Any) -> MostLikely:
        """The non-negative counts that make the reports most likely (iterative Bayes at its fixed
        point).
        """
        if not isinstance(self.evidence, CountEvidence) or self.evidence.channel.repeats:
            raise Unanswerable(
                "maximum likelihood needs reports that are counted once, cell by cell; use the "
                "inversion"
            )
        found = maximum_likelihood(self.evidence.settled, self.evidence.counts, **options)
        return replace(found, value=found.value / self.copies)

    def view(self) -> View:
        """A line for each cell: its labels, its count with its error and interval. A column that is
        called like one of these is numbered in frames: count_2.
        """
        places = np.unravel_index(np.arange(self.value.size), self.value.shape)
        counts = ColumnView(
            "count",
            self.value.ravel().tolist(),
            self.stderr.ravel().tolist(),
            level=0.95,
            counts=True,
            ends=self._ends(),
            field=COUNT_COLUMNS,
            kind="double",
        )
        taken = {*COUNT_COLUMNS}
        columns = []
        for part, place in zip(self.cells, places, strict=True):
            name = free_name(part.name, taken)
            taken.add(name)
            labels = [part.labels[i] for i in place]
            columns.append(ColumnView(part.name, labels, field=name, kind="string"))
        charts = (self._chart(),) if self.value.size <= DRAWN_CELLS else ()
        return View(repr(self), charts=charts, tables=(TableView([*columns, counts]),))

    def _ends(self) -> list[Ends]:
        """The interval of each cell: between nobody and everyone."""
        half = reach(0.95) * self.stderr
        low, high = (np.clip(self.value + d, 0.0, self.rows).ravel() for d in (-half, half))
        return [*zip(low.tolist(), high.tolist(), strict=True)]

    def _chart(self, truth: Any = None) -> Chart:
        labels = [", ".join(labels) for labels in product(*(part.labels for part in self.cells))]
        value, stderr = self.value.ravel(), self.stderr.ravel()
        return Chart(estimates(", ".join(self.names), labels, value, stderr, truth))

    def plot(self, truth: Estimate | NDArray[Any] | None = None, *, axes: Any = None) -> Any:
        """The counts as points with 95 % intervals, the true ones as bars where they are given; the
        axes they were drawn on.
        """
        if self.value.size > DRAWN_CELLS:
            raise ParameterError(
                f"{self.value.size:,} cells are too many for one picture; at most {DRAWN_CELLS}",
                hint="ask about fewer columns, or coarser cells",
            )
        true = truth.value if isinstance(truth, Estimate) else truth
        if true is not None and np.shape(true) != self.value.shape:
            raise ParameterError(
                f"the truth has the shape {np.shape(true)}, the estimate {self.value.shape}"
            )
        return draw(self._chart(None if true is None else np.ravel(true)), axes)

    def __repr__(self) -> str:
        shape = " × ".join(f"{part.name} ({part.size})" for part in self.cells)
        return f"Estimate of {self.rows:,} rows over {shape}"


def _misshapen(weights: NDArray[Any], wanted: tuple[Any, ...]) -> ParameterError:
    return ParameterError(f"weights of the shape {weights.shape} do not fit", hint=f"use {wanted}")


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
    held = isinstance(label, Iterable) and not isinstance(label, str)
    return cells.code(shown(label) if held else str(label))
