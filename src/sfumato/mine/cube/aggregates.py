"""Aggregates over the cells of a question: counts, sums, averages, variances and quantiles of a
group.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Numeric
from sfumato.errors import ConvergenceWarning, QueryError
from sfumato.estimation.estimate import Answer, Estimate
from sfumato.estimation.evidence import CountEvidence
from sfumato.estimation.moments import PowerSums
from sfumato.mine.cube.columns import FINE_CELLS, Column, Columns, Grid, numbers_of
from sfumato.mine.cube.conditions import Condition, case_branches, condition, constant, is_constant
from sfumato.mine.cube.derived import Derived, keeps_numbers
from sfumato.mine.cube.grammar import bare
from sfumato.mine.cube.quantity import Quantity

Mask = NDArray[np.bool_]
MEASURED = (
    exp.Sum,
    exp.Avg,
    exp.Variance,
    exp.VariancePop,
    exp.Stddev,
    exp.StddevSamp,
    exp.StddevPop,
)
DISTRIBUTIONS = (exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Quantile)


@dataclass
class Tables:
    """What was counted for a question: a table of counts over its grid, and sums of powers for
    numbers too fine for it.
    """

    grid: Grid
    rows: int
    counts: Estimate | None  # None where the question has no column at all
    moments: dict[str, PowerSums]
    value: NDArray[Any]  # of the counts: by inversion, or by maximum likelihood

    def covariances(
        self, weights: NDArray[Any], measure: str | None = None
    ) -> NDArray[Any]:  # (*cells, n) -> (n, n)
        """The covariances of n weighted sums of the counts, or of the sums of one number."""
        if measure is not None:
            return self.moments[measure].covariance_matrix(weights)
        assert self.counts is not None
        return self.counts.evidence.covariance_matrix(weights) / self.counts.copies**2


@dataclass
class Sheet:
    """The linear estimates that one answer is made of, all from the counts or all from the sums of
    one number.
    """

    tables: Tables
    measure: str | None
    weights: list[NDArray[Any]] = field(default_factory=list)

    def linear(self, weights: NDArray[Any], power: int = 0) -> Quantity:
        """The estimate of a weighted sum over the cells (of z^power, where a number is
        measured).
        """
        shape = self.tables.grid.shape
        table = np.broadcast_to(np.asarray(weights, dtype=np.float64), shape)
        if self.measure is not None:
            table = table[..., None] * (np.arange(3) == power)
        if self.tables.counts is None:
            return Quantity(float(table.sum()) * self.tables.rows)
        values = (
            self.tables.value if self.measure is None else self.tables.moments[self.measure].value
        )
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


@dataclass(frozen=True)
class Measure:
    """A number of each record: the sums of its powers over a group, and where it is not NULL (None:
    everywhere).
    """

    total: Callable[[Sheet, Mask, int], Quantity]
    present: Condition | None = None

    def inside(self, grid: Grid, mask: Mask) -> Mask:
        """The cells of a group where the number is not NULL."""
        return mask if self.present is None else mask & self.present(grid)


@dataclass
class Measures:
    """The aggregates of a question as functions of a group, and the numbers they measure."""

    columns: Columns
    keyed_cells: int  # numbers with at most so many values are counted value by value
    fine: set[str] = field(default_factory=set)  # the others, whose powers are summed

    def compute(self, expression: exp.Expression) -> Compute:
        """An expression of aggregates and constants."""
        if isinstance(expression, exp.Paren):
            return self.compute(expression.this)
        if isinstance(expression, exp.Cast) and (
            keeps_numbers(expression) or isinstance(expression.this, exp.Count)
        ):
            return self.compute(expression.this)
        if isinstance(expression, exp.Nullif) and constant(expression.expression) == 0:
            return self.compute(expression.this)  # a quotient by 0 has no value anyway
        if isinstance(expression, exp.Neg):
            inner = self.compute(expression.this)
            return lambda sheet, mask: inner(sheet, mask).scaled(-1.0)
        if isinstance(expression, exp.Sqrt):
            radicand = self.compute(expression.this)
            return lambda sheet, mask: radicand(sheet, mask).sqrt()
        if isinstance(expression, exp.Add | exp.Sub | exp.Mul | exp.Div):
            return self._arithmetic(expression)
        if is_constant(expression):
            number = self._number(expression)
            return lambda sheet, mask: Quantity(number)
        if isinstance(expression, exp.Filter):
            inner, holds = (
                self.compute(expression.this),
                condition(expression.expression.this, self.columns),
            )
            return lambda sheet, mask: inner(sheet, mask & holds(sheet.tables.grid))
        return self._aggregate(expression)

    @staticmethod
    def _number(expression: exp.Expression) -> float:
        value = constant(expression)
        if isinstance(value, str):
            raise QueryError(f"{expression.sql()} is not a number")
        return float(value)

    def _arithmetic(self, expression: exp.Expression) -> Compute:
        left, right = self.compute(expression.this), self.compute(expression.expression)
        kind = type(expression)

        def result(sheet: Sheet, mask: Mask) -> Quantity:
            first, second = left(sheet, mask), right(sheet, mask)
            if kind is exp.Add:
                return first + second
            return (
                first - second
                if kind is exp.Sub
                else first * second
                if kind is exp.Mul
                else first / second
            )

        return result

    def _aggregate(self, expression: exp.Expression) -> Compute:
        if isinstance(expression, exp.Count):
            return self._count(expression)
        if isinstance(expression, exp.CountIf):
            holds = condition(expression.this, self.columns)
            return lambda sheet, mask: sheet.linear(mask & holds(sheet.tables.grid))
        if isinstance(expression, MEASURED):
            return self._measured(expression)
        if isinstance(expression, exp.Round | exp.Cast):
            raise QueryError(
                f"{expression.sql()} would round an estimate",
                hint="leave it out: rounding is for display",
            )
        if isinstance(expression, (*DISTRIBUTIONS, exp.WithinGroup)):
            raise QueryError(
                f"{expression.sql()} cannot be part of an expression", hint="ask for it on its own"
            )
        raise QueryError(
            f"{expression.sql()} is not an aggregate that can be answered",
            hint="COUNT, SUM, AVG, VAR, STDDEV, MEDIAN, PERCENTILE_CONT, and arithmetic of these",
        )

    def _count(self, expression: exp.Count) -> Compute:
        """COUNT(*), or COUNT of something that only a CASE can make NULL."""
        counted = bare(expression.this) if expression.this is not None else exp.Star()
        for column in counted.find_all(exp.Column):
            self.columns.domain.axis(column.name)
        if not isinstance(counted, exp.Case):
            return lambda sheet, mask: sheet.linear(mask)
        present = [
            branch.holds
            for branch in case_branches(counted, self.columns)
            if branch.result is not None
        ]
        return lambda sheet, mask: sheet.linear(
            mask & sum((holds(sheet.tables.grid) for holds in present), np.zeros((), dtype=bool))
        )

    def _measured(self, expression: exp.Expression) -> Compute:
        measure = self._measure(expression.this)
        kind = type(expression)

        def result(sheet: Sheet, mask: Mask) -> Quantity:
            inside = measure.inside(sheet.tables.grid, mask)
            first = measure.total(sheet, inside, 1)
            if kind is exp.Sum:
                return first
            count = sheet.linear(inside)
            mean = first / count
            if kind is exp.Avg:
                return mean
            spread = measure.total(sheet, inside, 2) / count - mean * mean
            if kind in (exp.Variance, exp.Stddev, exp.StddevSamp):
                spread = spread * (count / (count - Quantity(1.0)))
            return spread if kind in (exp.Variance, exp.VariancePop) else spread.sqrt()

        return result

    def _measure(self, expression: exp.Expression) -> Measure:
        """A column of numbers or arithmetic of one, an item, a constant, a condition, or a CASE of
        these.
        """
        inner = bare(expression)
        if isinstance(inner, exp.Column):
            return Measure(self._column_sum(inner.name))
        if isinstance(inner, exp.Case):
            return self._case(inner)
        if is_constant(inner):
            number = self._number(inner)
            return Measure(lambda sheet, mask, power: sheet.linear(mask).scaled(number**power))
        derived = Derived.of(inner, self.columns)
        if derived is not None:
            return Measure(self._derived_sum(inner, derived))
        holds = condition(inner.this if isinstance(inner, exp.Cast) else inner, self.columns)
        return Measure(lambda sheet, mask, power: sheet.linear(mask & holds(sheet.tables.grid)))

    def _case(self, expression: exp.Case) -> Measure:
        branches = case_branches(expression, self.columns)
        parts = [
            (branch.holds, self._measure(branch.result))
            for branch in branches
            if branch.result is not None
        ]

        def total(sheet: Sheet, mask: Mask, power: int) -> Quantity:
            grid = sheet.tables.grid
            shares = ((part, part.inside(grid, mask & holds(grid))) for holds, part in parts)
            return sum((part.total(sheet, share, power) for part, share in shares), Quantity(0.0))

        def present(grid: Grid) -> Mask:
            shares = (part.inside(grid, holds(grid)) for holds, part in parts)
            return sum(shares, np.zeros((1,) * len(grid.columns), dtype=bool))

        return Measure(total, present)

    def _column_sum(self, name: str) -> Callable[[Sheet, Mask, int], Quantity]:
        column = self.columns.column(name)
        numbers_of(column, np.arange(1))  # a column of words or bins is refused here
        if not self._too_fine(column):
            column.keyed = True
            return lambda sheet, mask, power: sheet.linear(
                mask * numbers_of(column, sheet.tables.grid.axis(column.name)) ** power
            )
        self.fine.add(name)

        def total(sheet: Sheet, mask: Mask, power: int) -> Quantity:
            assert sheet.measure == column.name
            scale = sheet.tables.moments[column.name].scale
            return _expanded(lambda p: sheet.linear(mask, p), scale.half, scale.middle, power)

        return total

    def _derived_sum(
        self, expression: exp.Expression, derived: Derived
    ) -> Callable[[Sheet, Mask, int], Quantity]:
        column = derived.column
        if not self._too_fine(column):
            column.keyed = True
            return lambda sheet, mask, power: sheet.linear(
                mask * derived.values[sheet.tables.grid.axis(column.name)] ** power
            )
        line = derived.line()
        if line is None:
            raise QueryError(
                f"{expression.sql()} is not a·{column.name} + b, and {column.name} has too many "
                "values to count each",
                hint="sum the column itself, or CASE of its ranges",
            )
        plain = self._column_sum(column.name)
        return lambda sheet, mask, power: _expanded(lambda p: plain(sheet, mask, p), *line, power)

    def measure(self) -> str | None:
        """The number whose sums what was computed needs, where it is too fine to be counted value
        by value.
        """
        if len(self.fine) > 1:
            raise QueryError(
                f"sums of {' and '.join(sorted(self.fine))} cannot be mixed in one expression",
                hint="ask for each on its own",
            )
        return next(iter(self.fine), None)

    def _too_fine(self, column: Column) -> bool:
        return isinstance(column.attribute, Numeric) and column.attribute.size > self.keyed_cells


def _expanded(sums: Callable[[int], Quantity], slope: float, start: float, power: int) -> Quantity:
    """Σ (slope·x + start)^power from the sums of the powers of x."""
    parts = (
        sums(p).scaled(math.comb(power, p) * slope**p * start ** (power - p))
        for p in range(power + 1)
    )
    return sum(parts, Quantity(0.0))


def _plain_column(expression: exp.Expression) -> exp.Column | None:
    while isinstance(expression, exp.Paren | exp.Cast):
        expression = expression.this
    return expression if isinstance(expression, exp.Column) else None


@dataclass(frozen=True)
class Distribution:
    """A quantile of a number in a group, read off its reconstructed distribution."""

    name: str
    share: float
    holds: Condition | None = None  # FILTER

    @classmethod
    def of(cls, expression: exp.Expression, columns: Columns) -> Distribution | None:
        """The quantile that an expression asks for; None where it asks for something else."""
        inner, ordered, where = expression, None, None
        if isinstance(inner, exp.Filter):
            inner, where = inner.this, inner.expression.this
        if isinstance(inner, exp.WithinGroup):
            inner, ordered = inner.this, inner.expression.expressions[0]
        if not isinstance(inner, DISTRIBUTIONS):
            return None
        column = _plain_column(inner.this if ordered is None else ordered.this)
        if column is None:
            raise QueryError(f"{expression.sql()} needs a column of numbers")
        found = columns.column(column.name)
        if not isinstance(found.attribute, Numeric):
            raise QueryError(f"'{found.name}' has no quantiles: it was not perturbed as a number")
        step = max(1, found.attribute.size // FINE_CELLS)
        found.cuts |= set(range(0, found.attribute.size, step))
        found.fine = True
        return cls(
            found.name,
            cls._share(expression, inner, ordered),
            None if where is None else condition(where, columns),
        )

    @staticmethod
    def _share(
        expression: exp.Expression, inner: exp.Expression, ordered: exp.Expression | None
    ) -> float:
        if isinstance(inner, exp.Median):
            return 0.5
        share = constant(
            inner.this if ordered is not None else inner.args.get("quantile") or inner.expression
        )
        if isinstance(share, str | bool) or not 0 < share < 1:
            raise QueryError(f"{expression.sql()} needs a share strictly between 0 and 1")
        return 1 - share if ordered is not None and ordered.args.get("desc") else float(share)

    def answer(self, tables: Tables, mask: Mask) -> Answer:
        """The quantile, and by Woodruff's method its error: where the distribution reaches the
        share ± its own error.
        """
        assert tables.counts is not None
        place = tables.grid.place(self.name)
        attribute = tables.grid.columns[place].attribute
        assert isinstance(attribute, Numeric)
        inside = np.broadcast_to(
            mask if self.holds is None else mask & self.holds(tables.grid), tables.grid.shape
        )
        others = tuple(axis for axis in range(inside.ndim) if axis != place)
        total = float((tables.value * inside).sum())
        if total <= 0:
            return Answer(math.nan, math.nan)
        shares = np.cumsum((tables.value * inside).sum(axis=others)) / total
        rising = (np.maximum.accumulate(shares) + np.minimum.accumulate(shares[::-1])[::-1]) / 2
        starts = tables.grid.codes[place]
        ends = np.append(starts[1:], attribute.size) - 1
        value = self._inverse(attribute, starts, ends, rising, self.share)
        error = self._share_error(
            tables, inside, place, int(np.searchsorted(rising, self.share)), total
        )
        if error <= 1e-12:
            return Answer(value, 0.0)
        wide = (
            attribute.grid_step
        )  # a value stands for the step around it, else the error would be 0 or a whole step
        high, low = (
            self._inverse(attribute, starts, ends, rising, self.share + sign * error, wide)
            for sign in (1, -1)
        )
        return Answer(value, (high - low) / 2)

    def _share_error(
        self, tables: Tables, inside: Mask, place: int, cell: int, total: float
    ) -> float:
        below = np.arange(tables.grid.shape[place]) <= cell
        lower = inside * below.reshape([-1 if axis == place else 1 for axis in range(inside.ndim)])
        pair = np.stack([lower.astype(float), inside.astype(float)], axis=-1)
        slopes = np.array([1.0, -self.share]) / total
        return math.sqrt(max(0.0, float(slopes @ tables.covariances(pair) @ slopes)))

    @staticmethod
    def _inverse(
        attribute: Numeric,
        starts: Any,
        ends: Any,
        rising: NDArray[Any],
        share: float,
        wide: float = 0.0,
    ) -> float:
        cell = int(np.clip(np.searchsorted(rising, share - 1e-12), 0, len(rising) - 1))
        before = rising[cell - 1] if cell else 0.0
        part = (share - before) / (rising[cell] - before) if rising[cell] > before else 0.5
        low, high = attribute.numbers(np.array([starts[cell], ends[cell]])).astype(float)
        return float(low - wide / 2 + np.clip(part, 0, 1) * (high - low + wide))


@dataclass
class Comparison:
    """Inversion beside maximum likelihood, where the inversion leaves the simplex."""

    estimate: Estimate
    evidence: CountEvidence

    @cached_property
    def outside(self) -> bool:
        """Whether some cell is estimated below 0 by more than chance would explain, the laws taken
        as known.

        Two standard errors for one cell; more for many, of which some are always far out.
        """
        least = self.estimate.value.min(initial=0.0)
        if least >= 0:
            return False
        squares = CountEvidence(self.evidence.counts, self.evidence.settled).squares
        reach = -NormalDist().inv_cdf(0.0228 / max(1.0, self.estimate.value.size / 64))
        stderr = np.sqrt(np.maximum(squares, 0.0)) / self.estimate.copies
        return bool((self.estimate.value < -reach * stderr - 1e-9).any())

    def likely(self, steps: int) -> NDArray[Any] | None:
        """The counts of maximum likelihood; None where the iteration did not arrive."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = self.estimate.likelihood(steps=steps)
        return found.value if found.converged else None
