"""Crosstab: how many people have each combination of some columns' values, from true records, from
reports that hold the columns together, or from a model; and how sure any sum over them is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sfumato.domain import Bins, Cells, Numeric
from sfumato.errors import ParameterError, Unanswerable, listing
from sfumato.estimation.answer import Answer
from sfumato.estimation.estimate import Estimate
from sfumato.mine import limits
from sfumato.model.fitted import fit_release
from sfumato.model.model import Model
from sfumato.progress import Progress, silent
from sfumato.release import Exact, Release
from sfumato.source import Source

Floats = NDArray[Any]
RECORDS, REPORTS, MODEL = "true records", "reports", "model"


@dataclass(frozen=True, eq=False)
class Crosstab:
    """The people in each cell of some columns: where the cells are, and how many people they hold.

    Cells that nobody has are left out of true records; estimates keep theirs, negative ones too.
    """

    columns: tuple[Cells, ...]
    codes: NDArray[np.intp]  # (cells, columns): the value that each cell has of each column
    numbers: Floats  # (cells, columns): what these values are as numbers; nan where they are none
    value: Floats  # (cells,)
    rows: int
    origin: str
    estimate: Estimate | None = None  # None of true records, which have no error
    rows_fixed: bool = False  # whether errors leave out that the people are a sample

    @classmethod
    def of(
        cls,
        source: Source,
        names: Sequence[str],
        rows_fixed: bool = False,
        tell: Progress = silent,
    ) -> Crosstab:
        """The people by these columns: from true records value by value, from reports where their
        questions hold the columns together, else from a model that is fitted to them.
        """
        if isinstance(source, Exact):
            return cls._of_records(source, names, rows_fixed)
        try:
            return cls._of_estimate(source, names, rows_fixed)
        except Unanswerable:
            if not isinstance(source, Release):
                raise
        return cls._of_estimate(fit_release(source, tell=tell), names, rows_fixed)

    @classmethod
    def _of_records(cls, source: Exact, names: Sequence[str], rows_fixed: bool) -> Crosstab:
        if not source.rows:
            raise ParameterError("there are no records to count")
        parts, known = tuple(cells_of(source, name) for name in names), source.domain.names
        columns = [source.table.columns[known.index(part.attribute.name)] for part in parts]
        fine = [
            np.asarray(column, dtype=np.int64)
            if isinstance(part.attribute, Numeric) and isinstance(column, np.ndarray)
            else np.asarray(part.assign(column), dtype=np.int64)
            for part, column in zip(parts, columns, strict=True)
        ]
        sizes = [1 + int(codes.max()) for codes in fine]
        if math.prod(sizes) >= 1 << 62:
            raise ParameterError("these columns have too many values to be counted together")
        held, counts = np.unique(np.ravel_multi_index(fine, sizes), return_counts=True)
        values = np.unravel_index(held, sizes)
        places, numbers = [], []
        for part, value in zip(parts, values, strict=True):
            attribute = part.attribute
            if isinstance(attribute, Numeric):
                places.append(np.asarray(part.assign(value), dtype=np.intp))
                numbers.append(attribute.numbers(value).astype(np.float64))
            else:
                places.append(value)
                numbers.append(middles(part)[value])
        stacked = np.stack(places, axis=1), np.stack(numbers, axis=1)
        value = counts.astype(np.float64)
        return cls(parts, *stacked, value, source.rows, RECORDS, None, rows_fixed)

    @classmethod
    def _of_estimate(cls, source: Source, names: Sequence[str], rows_fixed: bool) -> Crosstab:
        parts = tuple(cells_of(source, name) for name in names)
        shape = tuple(part.size for part in parts)
        if math.prod(shape) > limits.CELLS:
            raise ParameterError(
                f"these columns have {math.prod(shape):,} cells together; at most "
                f"{limits.CELLS:,} are counted",
                hint="name fewer columns, or give numbers fewer cuts = […] in the schema",
            )
        asked = replace(source, free=True) if isinstance(source, Model) else source
        estimate = asked.marginal(parts)
        value = np.asarray(estimate.value, dtype=np.float64).ravel()
        estimate.dot(np.ones(()))  # refused here where too few people were asked
        codes = np.stack([place.ravel() for place in np.indices(shape)], axis=1)
        table, everyone = value.reshape(shape), range(len(parts))
        numbers = [
            scores(part, table.sum(axis=tuple(a for a in everyone if a != axis)))[codes[:, axis]]
            for axis, part in enumerate(parts)
        ]
        origin = MODEL if isinstance(source, Model) else REPORTS
        origin = RECORDS if estimate.evidence.exact else origin
        columns = np.stack(numbers, axis=1)
        return cls(parts, codes, columns, value, estimate.rows, origin, estimate, rows_fixed)

    @property
    def samples(self) -> bool:
        """Whether errors count the people as a sample of a larger population; a model's always
        do.
        """
        return not self.rows_fixed or (self.estimate is not None and self.estimate.evidence.samples)

    @property
    def assumes(self) -> str | None:
        """What was supposed beyond the reports."""
        return None if self.estimate is None else self.estimate.evidence.assumes

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Where the counts come from, and what their errors hold."""
        said = []
        if self.origin == MODEL:
            said.append(
                "no question held these columns together: from a model fitted to the reports"
                + (f", which assumes {self.assumes}" if self.assumes else "")
            )
        if self.samples and self.rows_fixed:
            said.append("a model's errors count the people as a sample, also with rows fixed")
        elif self.samples:
            said.append(
                "errors count these people as a random sample of a larger population "
                "(--rows-fixed leaves that out)"
            )
        return tuple(said)

    def binned(self, names: Collection[str]) -> list[str]:
        """What is to be said of numbers that are known in bins, of those used among these."""
        parts = [part for part in self.columns if is_number(part) and part.name in names]
        if self.origin == RECORDS or not parts:
            return []
        return [
            "numbers known in bins count as the middle of their bin, in a wide first or last bin "
            f"as the mean of an exponential tail: {listing(part.name for part in parts)}"
        ]

    def column(self, name: str) -> int:
        """The place of a column."""
        return [part.name for part in self.columns].index(name)

    def covariance(self, weights: Floats, *, fixed: bool = False) -> Floats:  # (cells, n) -> (n, n)
        """The covariance of weighted sums of the counts; `fixed` leaves sampling out, where the
        counts' own errors do.
        """
        found = np.zeros((weights.shape[1],) * 2)
        if self.estimate is not None:
            table = weights.reshape(*self.estimate.value.shape, -1)
            found = self.estimate.covariance_matrix(table)
        if fixed or self.rows_fixed or (self.estimate and self.estimate.evidence.samples):
            return found
        mean = weights.T @ self.value
        return found + (weights.T * self.value) @ weights - np.outer(mean, mean) / self.rows

    def answers(self, weights: Floats) -> list[Answer]:  # (cells, n) -> n of them
        """Weighted sums of the counts, each with the interval that its evidence gives it."""
        if self.estimate is None:
            spread = np.sqrt(np.maximum(np.diagonal(self.covariance(weights)), 0.0))
            return [Answer(*each) for each in zip(weights.T @ self.value, spread, strict=True)]
        shape, sampling = self.estimate.value.shape, not self.rows_fixed
        return [self.estimate.dot(row.reshape(shape), sampling=sampling) for row in weights.T]


def cells_of(source: Source, name: str) -> Cells:
    """The default cells of a column; zero is one of them where it has a report of its own."""
    part = source.cells(name)
    attribute = part.attribute
    if part.item is None and isinstance(attribute, Numeric) and attribute.zero:
        return attribute.cells_by_cuts((attribute.grid_step, *attribute.cuts))
    return part


def is_number(part: Cells) -> bool:
    """Whether the cells of a column are numbers or intervals of them."""
    return part.item is None and isinstance(part.attribute, Numeric | Bins)


def scores(part: Cells, counts: Floats) -> Floats:  # (cells,), (cells,) -> (cells,)
    """The number that stands for each cell: its middle, and for an interval at either end that is
    wider than its neighbour the mean of an exponential tail.

    The tail begins with the neighbour's density and holds the people of the interval: the usual
    mean of an open-ended class. Where they are as dense as the neighbour, that is the middle.
    """
    found = middles(part)
    attribute = part.attribute
    if part.item is not None or not isinstance(attribute, Bins) or part.size < 3:
        return found
    edges = np.asarray(attribute.edges, dtype=np.float64)
    width = np.diff(edges)
    width[-1] += attribute.step  # closed, and a grid point stands for a step
    for end, beside, side in ((0, 1, -1), (-1, -2, 1)):
        dense = counts[beside] / width[beside]
        if width[end] > width[beside] and 0 < counts[end] < dense * width[end]:
            near = (edges[1] if side < 0 else edges[-2]) - attribute.step / 2
            found[end] = near + side * tail_mean(counts[end] / dense, width[end])
    return found


def tail_mean(mass: float, width: float) -> float:
    """The mean of t in [0, width] under a density exp(-rate·t) whose mass is this, below the width.

    >>> round(tail_mean(2.0, 1e6), 6), round(tail_mean(0.999999, 1.0), 3)
    (2.0, 0.5)
    """
    rate = brentq(lambda r: -math.expm1(-r * width) / r - mass, 1e-9 / width, 2 / mass)
    return float(1 / rate - width * math.exp(-rate * width) / -math.expm1(-rate * width))


def middles(part: Cells) -> Floats:  # (cells,)
    """The number that stands for each cell: the value, the middle of an interval, or what a label
    says; nan throughout where some label is no number.
    """
    attribute = part.attribute
    if part.item is None and isinstance(attribute, Numeric):
        first = np.arange(attribute.size) if part.starts is None else part.starts
        last = np.append(first[1:], attribute.size) - 1
        return (attribute.numbers(first) + attribute.numbers(last)) / 2.0
    if part.item is None and isinstance(attribute, Bins):
        edges = np.asarray(attribute.edges, dtype=np.float64)
        high = edges[1:] - attribute.step
        high[-1] = edges[-1]  # the last interval is closed
        return (edges[:-1] + high) / 2
    try:
        found = np.array([float(label) for label in part.labels])
    except ValueError:
        return np.full(part.size, math.nan)
    return found if np.isfinite(found).all() else np.full(part.size, math.nan)
