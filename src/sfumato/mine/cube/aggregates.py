"""Aggregates over the cells of a question: counts, sums, averages, variances and quantiles of a group."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Numeric
from sfumato.errors import ConvergenceWarning, QueryError
from sfumato.estimation.estimate import Answer, Estimate
from sfumato.estimation.moments import Moments
from sfumato.mine.cube.columns import FINE_CELLS, Columns, Grid, numbers_of
from sfumato.mine.cube.conditions import Condition, case_branches, choose, condition, constant
from sfumato.mine.cube.quantity import Quantity

Mask = NDArray[np.bool_]
MEASURED = (
    exp.Sum, exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop,
)  # fmt: skip
DISTRIBUTIONS = (exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Quantile)


@dataclass
class Tables:
    """What was counted for a question: a table of counts over its grid, and sums of powers for numbers too fine for it."""

    grid: Grid
    rows: int
    counts: Estimate | None  # None where the question has no column at all
    moments: dict[str, Moments]
    value: NDArray[Any]  # of the counts: by inversion, or by maximum likelihood

    def covariances(self, weights: NDArray[Any], measure: str | None = None) -> NDArray[Any]:  # (*cells, n) -> (n, n)
        """The covariances of n weighted sums of the counts, or of the sums of one number."""
        if measure is not None:
            return self.moments[measure].covariance_matrix(weights)
        assert self.counts is not None
        return self.counts.evidence.covariance_matrix(weights) / self.counts.copies**2


@dataclass
class Sheet:
    """The linear estimates that one answer is made of, all from the counts or all from the sums of one number."""

    tables: Tables
    measure: str | None
    weights: list[NDArray[Any]] = field(default_factory=list)

    def linear(self, weights: NDArray[Any], power: int = 0) -> Quantity:
        """The estimate of a weighted sum over the cells (of z^power, where a number is measured)."""
        shape = self.tables.grid.shape
        table = np.broadcast_to(np.asarray(weights, dtype=np.float64), shape)
        if self.measure is not None:
            table = table[..., None] * (np.arange(3) == power)
        if self.tables.counts is None:
            return Quantity(float(table.sum()) * self.tables.rows)
        values = self.tables.value if self.measure is None else self.tables.moments[self.measure].value
        self.weights.append(table)
        return Quantity(float((table * values).sum()), {len(self.weights) - 1: 1.0})

    def answer(self, quantity: Quantity) -> Answer:
        """The quantity with its standard error."""
        if not quantity.slopes or not math.isfinite(quantity.value):
            return Answer(quantity.value, 0.0 if math.isfinite(quantity.value) else math.nan)
        names = list(quantity.slopes)
        stacked = np.stack([self.weights[name] for name in names], axis=-1)
        slopes = np.array([quantity.slopes[name] for name in names])
        covariances = self.tables.covariances(stacked, self.measure)
        return Answer(quantity.value, math.sqrt(max(0.0, float(slopes @ covariances @ slopes))))


Compute = Callable[[Sheet, Mask], Quantity]


@dataclass
class Measures:
    """The aggregates of a question as functions of a group, and the numbers they measure."""

    columns: Columns
    keyed_cells: int  # numbers with at most so many values are counted value by value

    def compute(self, expression: exp.Expression) -> Compute:
        """An expression of aggregates and constants."""
        if isinstance(expression, exp.Paren | exp.Cast):
            return self.compute(expression.this)
        if isinstance(expression, exp.Neg):
            inner = self.compute(expression.this)
            return lambda sheet, mask: inner(sheet, mask).scaled(-1.0)
        if isinstance(expression, exp.Add | exp.Sub | exp.Mul | exp.Div):
            return self._arithmetic(expression)
        if isinstance(expression, exp.Literal):
            number = float(constant(expression))
            return lambda sheet, mask: Quantity(number)
        if isinstance(expression, exp.Filter):
            inner, holds = self.compute(expression.this), condition(expression.expression.this, self.columns)
            return lambda sheet, mask: inner(sheet, mask & holds(sheet.tables.grid))
        return self._aggregate(expression)

    def _arithmetic(self, expression: exp.Expression) -> Compute:
        left, right = self.compute(expression.this), self.compute(expression.expression)
        kind = type(expression)

        def result(sheet: Sheet, mask: Mask) -> Quantity:
            first, second = left(sheet, mask), right(sheet, mask)
            if kind is exp.Add:
                return first + second
            return first - second if kind is exp.Sub else first * second if kind is exp.Mul else first / second

        return result

    def _aggregate(self, expression: exp.Expression) -> Compute:
        if isinstance(expression, exp.Count):
            if isinstance(expression.this, exp.Column):
                self.columns.domain.axis(self.columns._exact(expression.this.name))
            return lambda sheet, mask: sheet.linear(mask)
        if isinstance(expression, exp.CountIf):
            holds = condition(expression.this, self.columns)
            return lambda sheet, mask: sheet.linear(mask & holds(sheet.tables.grid))
        if isinstance(expression, MEASURED):
            return self._measured(expression)
        raise QueryError(
            f"{expression.sql()} is not an aggregate that can be answered",
            hint="COUNT, SUM, AVG, VAR, STDDEV, MEDIAN, PERCENTILE_CONT, and arithmetic of these",
        )

    def _measured(self, expression: exp.Expression) -> Compute:
        power_sum = self._power_sum(expression.this)
        kind = type(expression)

        def result(sheet: Sheet, mask: Mask) -> Quantity:
            first = power_sum(sheet, mask, 1)
            if kind is exp.Sum:
                return first
            count = sheet.linear(mask)
            mean = first / count
            if kind is exp.Avg:
                return mean
            spread = power_sum(sheet, mask, 2) / count - mean * mean
            if kind in (exp.Variance, exp.Stddev, exp.StddevSamp):
                spread = spread * (count / (count - Quantity(1.0)))
            return spread if kind in (exp.Variance, exp.VariancePop) else spread.sqrt()

        return result

    def _power_sum(self, expression: exp.Expression) -> Callable[[Sheet, Mask, int], Quantity]:
        """Σ x^power over a group, x being a number, a category of numbers, an item, a condition or a CASE of constants."""
        if isinstance(expression, exp.Paren | exp.Cast):
            return self._power_sum(expression.this)
        if isinstance(expression, exp.Column):
            return self._column_sum(expression.name)
        value: Callable[[Grid], NDArray[Any]]
        if isinstance(expression, exp.Case):
            tests, results = case_branches(expression, self.columns)
            numbers = [0.0 if result is None else float(result) for result in results]
            value = lambda grid: choose(grid, tests, numbers).astype(np.float64)  # noqa: E731
        elif isinstance(expression, exp.Literal):
            number = float(constant(expression))
            value = lambda grid: np.full((1,) * len(grid.columns), number)  # noqa: E731
        else:
            holds: Condition = condition(expression, self.columns)
            value = lambda grid: holds(grid).astype(np.float64)  # noqa: E731
        return lambda sheet, mask, power: sheet.linear(mask * value(sheet.tables.grid) ** power)

    def _column_sum(self, name: str) -> Callable[[Sheet, Mask, int], Quantity]:
        column = self.columns.column(name)
        numbers_of(column, np.arange(1))  # a column of words or bins is refused here
        if not isinstance(column.attribute, Numeric) or column.attribute.size <= self.keyed_cells:
            column.keyed = True
            return lambda sheet, mask, power: sheet.linear(
                mask * numbers_of(column, sheet.tables.grid.axis(column.name)) ** power
            )

        def total(sheet: Sheet, mask: Mask, power: int) -> Quantity:
            assert sheet.measure == column.name
            scale = sheet.tables.moments[column.name].scale
            parts = [math.comb(power, p) * scale.half**p * scale.middle ** (power - p) for p in range(power + 1)]
            terms = [sheet.linear(mask, p).scaled(part) for p, part in enumerate(parts)]
            return sum(terms[1:], terms[0])

        return total

    def measure(self, expression: exp.Expression) -> str | None:
        """The number whose sums an expression needs, where it is too fine to be counted value by value."""
        names = {
            self.columns.column(column.name).name
            for kind in MEASURED
            for found in expression.find_all(kind)
            for column in [_plain_column(found.this)]
            if column is not None
        }
        fine = [name for name in names if self._too_fine(name)]
        if len(fine) > 1:
            raise QueryError(
                f"sums of {' and '.join(sorted(fine))} cannot be mixed in one expression", hint="ask for each on its own"
            )
        return fine[0] if fine else None

    def _too_fine(self, name: str) -> bool:
        attribute = self.columns.column(name).attribute
        return isinstance(attribute, Numeric) and attribute.size > self.keyed_cells


def _plain_column(expression: exp.Expression) -> exp.Column | None:
    while isinstance(expression, exp.Paren | exp.Cast):
        expression = expression.this
    return expression if isinstance(expression, exp.Column) else None


@dataclass(frozen=True)
class Distribution:
    """A quantile of a number in a group, read off its reconstructed distribution."""

    name: str
    share: float

    @classmethod
    def of(cls, expression: exp.Expression, columns: Columns) -> Distribution | None:
        """The quantile that an expression asks for; None where it asks for something else."""
        inner, ordered = expression, None
        if isinstance(expression, exp.WithinGroup):
            inner, ordered = expression.this, expression.expression.expressions[0].this
        if not isinstance(inner, DISTRIBUTIONS):
            return None
        target = inner.this if ordered is None else ordered
        share = 0.5
        if not isinstance(inner, exp.Median):
            share = float(constant(inner.this if ordered is not None else inner.args.get("quantile") or inner.expression))
        if not 0 < share < 1:
            raise QueryError(f"{expression.sql()} needs a share strictly between 0 and 1")
        column = _plain_column(target)
        if column is None:
            raise QueryError(f"{expression.sql()} needs a column of numbers")
        found = columns.column(column.name)
        if not isinstance(found.attribute, Numeric):
            raise QueryError(f"'{found.name}' has no quantiles: it was not perturbed as a number")
        step = max(1, found.attribute.size // FINE_CELLS)
        found.cuts |= set(range(0, found.attribute.size, step))
        return cls(found.name, share)

    def answer(self, tables: Tables, mask: Mask) -> Answer:
        """The quantile, and by Woodruff's method its error: where the distribution reaches the share ± its own error."""
        assert tables.counts is not None
        place = tables.grid.place(self.name)
        attribute = tables.grid.columns[place].attribute
        assert isinstance(attribute, Numeric)
        inside = np.broadcast_to(mask, tables.grid.shape)
        others = tuple(axis for axis in range(inside.ndim) if axis != place)
        total = float((tables.value * inside).sum())
        if total <= 0:
            return Answer(math.nan, math.nan)
        shares = np.cumsum((tables.value * inside).sum(axis=others)) / total
        rising = (np.maximum.accumulate(shares) + np.minimum.accumulate(shares[::-1])[::-1]) / 2
        starts = tables.grid.codes[place]
        ends = np.append(starts[1:], attribute.size) - 1
        value = self._inverse(attribute, starts, ends, rising, self.share)
        error = self._share_error(tables, inside, place, int(np.searchsorted(rising, self.share)), total)
        if error <= 1e-12:
            return Answer(value, 0.0)
        wide = attribute.grid_step  # a value stands for the step around it, else the error would be 0 or a whole step
        high, low = (self._inverse(attribute, starts, ends, rising, self.share + sign * error, wide) for sign in (1, -1))
        return Answer(value, (high - low) / 2)

    def _share_error(self, tables: Tables, inside: Mask, place: int, cell: int, total: float) -> float:
        below = np.arange(tables.grid.shape[place]) <= cell
        lower = inside * below.reshape([-1 if axis == place else 1 for axis in range(inside.ndim)])
        pair = np.stack([lower.astype(float), inside.astype(float)], axis=-1)
        slopes = np.array([1.0, -self.share]) / total
        return math.sqrt(max(0.0, float(slopes @ tables.covariances(pair) @ slopes)))

    @staticmethod
    def _inverse(attribute: Numeric, starts: Any, ends: Any, rising: NDArray[Any], share: float, wide: float = 0.0) -> float:
        cell = int(np.clip(np.searchsorted(rising, share - 1e-12), 0, len(rising) - 1))
        before = rising[cell - 1] if cell else 0.0
        part = (share - before) / (rising[cell] - before) if rising[cell] > before else 0.5
        low, high = attribute.numbers(np.array([starts[cell], ends[cell]])).astype(float)
        return float(low - wide / 2 + np.clip(part, 0, 1) * (high - low + wide))


@dataclass
class Comparison:
    """Inversion beside maximum likelihood, where the inversion leaves the simplex."""

    estimate: Estimate

    @cached_property
    def outside(self) -> bool:
        """Whether some cell is estimated below 0 by more than two of its standard errors."""
        return bool((self.estimate.value < -2 * self.estimate.stderr - 1e-9).any())

    def likely(self, steps: int) -> NDArray[Any] | None:
        """The counts of maximum likelihood; None where the iteration did not arrive."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = self.estimate.likelihood(steps=steps)
        return found.value if found.converged else None
