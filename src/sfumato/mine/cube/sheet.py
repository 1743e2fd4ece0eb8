"""Sheet: the linear estimates that one answer is made of, and from them its standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Numeric
from sfumato.estimation.answer import Answer
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.moments import PowerSums
from sfumato.estimation.uneven import from_draws, normal_draws, root
from sfumato.mine.cube.columns import AskedColumn, Grid
from sfumato.mine.cube.expressions import Terms
from sfumato.mine.cube.quantity import Quantity

Weights = NDArray[Any]
Number = Callable[[Grid, AskedColumn | None], Terms]  # of each record, one column summed by powers
NONE = math.nan

KNOWN = 1e-4  # records: a count with less error than this has none


@dataclass(frozen=True, eq=False)
class Tables:
    """What was counted for one output: the counts over its grid, or the sums of powers of the one
    number that is too fine for it.
    """

    grid: Grid
    rows: int
    counts: Estimate | None  # None where the question has no column at all
    value: NDArray[Any]  # of the counts: by inversion, or by maximum likelihood
    moments: PowerSums | None = None
    fine: AskedColumn | None = None  # the number of the moments
    errors: bool = True  # False where the values are not those of the inversion
    _terms: dict[int, Terms] = field(default_factory=dict)

    def terms(self, number: Number) -> Terms:
        """A number over the cells, evaluated once."""
        if id(number) not in self._terms:
            self._terms[id(number)] = number(self.grid, self.fine)
        return self._terms[id(number)]


@dataclass(frozen=True, eq=False)
class Line:
    """A linear estimate: weights of the counts, or of the sums of powers about a centre."""

    weights: Weights
    centre: float = 0.0
    value: float = 0.0

    def about(self, centre: float) -> Weights:
        """The weights of the sums about another centre that make the same sum."""
        if centre == self.centre:
            return self.weights
        shift = centre - self.centre
        none, one, two = np.moveaxis(self.weights, -1, 0)
        moved = [none + shift * (one + shift * two), one + 2 * shift * two, two]
        return np.stack(moved, axis=-1)


@dataclass(eq=False)
class Sheet:
    """The linear estimates of one answer, written down as they are met."""

    tables: Tables
    lines: list[Line] = field(default_factory=list)
    _about: dict[tuple[float, bool], NDArray[Any]] = field(default_factory=dict)

    def sums(self, centre: float, squares: bool) -> NDArray[Any]:  # (*cells, 3)
        """The sums of powers about a centre; of the squares where they are needed."""
        assert self.tables.moments is not None
        if (centre, squares) not in self._about:
            self._about[centre, squares] = self.tables.moments.about(centre, squares)
        return self._about[centre, squares]

    def linear(self, weights: Weights) -> Quantity:
        """The estimate of a weighted sum of the counts."""
        table = np.broadcast_to(np.asarray(weights, dtype=np.float64), self.tables.grid.shape)
        if self.tables.counts is None:
            return Quantity(float(table.sum()) * self.tables.rows)
        if self.tables.moments is not None:
            return self.powers(np.stack([table, 0 * table, 0 * table], axis=-1), 0.0)
        return self._noted(Line(table, 0.0, float((table * self.tables.value).sum())))

    def powers(self, weights: Weights, centre: float) -> Quantity:  # (*cells, 3)
        """The estimate of a weighted sum of the sums of powers about a centre."""
        value = float((weights * self.sums(centre, bool(weights[..., 2].any()))).sum())
        return self._noted(Line(weights, centre, value))

    def _noted(self, line: Line) -> Quantity:
        self.lines.append(line)
        return Quantity(line.value, {len(self.lines) - 1: 1.0})

    def variance(self, quantity: Quantity) -> float:
        """The variance of a quantity, by the delta method."""
        names = [name for name, slope in quantity.slopes.items() if slope]
        if not names or self.exact:
            return 0.0
        slopes = np.array([quantity.slopes[name] for name in names])
        return max(0.0, float(slopes @ self._covariances(names) @ slopes))

    def _covariances(self, names: Sequence[int]) -> NDArray[Any]:
        lines, tables = [self.lines[name] for name in names], self.tables
        if tables.moments is not None:
            centre = max((line.centre for line in lines), key=abs)  # of squares, if there are any
            stacked = np.stack([line.about(centre) for line in lines], axis=-1)
            return tables.moments.covariance_matrix(stacked, centre)
        assert tables.counts is not None
        stacked = np.stack([line.weights for line in lines], axis=-1)
        return tables.counts.covariance_matrix(stacked)

    def weights(self, quantity: Quantity) -> Weights:
        """How a quantity moves with the counts."""
        moved = [slope * self.lines[name].weights for name, slope in quantity.slopes.items()]
        return np.sum(moved, axis=0)

    @property
    def assumes(self) -> str | None:
        """What these estimates suppose beyond the reports."""
        if self.tables.counts is None:
            return None
        if self.tables.moments is None:
            return self.tables.counts.evidence.assumes
        return self.tables.moments.assumes(any(line.weights[..., 2].any() for line in self.lines))

    @property
    def exact(self) -> bool:
        """Whether nothing here has an error."""
        return self.tables.counts is None or self.tables.counts.evidence.exact

    def drawn(self) -> NDArray[Any]:  # (draws, lines)
        """The linear estimates drawn again, many times."""
        values = np.array([line.value for line in self.lines])
        return normal_draws(values, self._covariances(range(len(self.lines))))

    def is_nobody(self, count: Quantity) -> bool:
        """Whether a count is surely 0."""
        if abs(count.value) >= 0.5 or not self.tables.errors:
            return False
        return math.sqrt(self.variance(count)) < KNOWN


@dataclass(eq=False)
class Redrawn(Sheet):
    """The same sheet with every linear estimate drawn again, many times."""

    draws: NDArray[Any] = field(default_factory=lambda: np.zeros((1, 0)))  # (draws, lines)

    def _noted(self, line: Line) -> Quantity:
        self.lines.append(line)
        return Quantity(self.draws[:, len(self.lines) - 1])

    def is_nobody(self, count: Quantity) -> bool:
        return False  # else there would be no estimate to draw again


@dataclass(frozen=True, eq=False)
class Scope:
    """The records that an aggregate is over: how often each cell of the grid counts, for this group
    and for all groups that share some of its labels.
    """

    sheet: Sheet
    weights: Weights
    all_groups: Callable[[tuple[int, ...]], Weights]  # places of the keys that must be shared

    @property
    def grid(self) -> Grid:
        return self.sheet.tables.grid

    def answer(self, compute: Callable[[Scope], Quantity]) -> Answer:
        """What is computed from linear estimates, with its standard error; without one where the
        method gives none; and with what a model supposed on the way.

        Where a root bends it, the interval is read off the same computation on estimates drawn
        again from a normal distribution; where a draw has no value, it may be anything.
        """
        sheet, quantity = self.sheet, compute(self)
        if not math.isfinite(quantity.value) and (sheet.exact or not quantity.bends):
            found = Answer(NONE, NONE)  # NULL; where a root bends it, only if it is surely so
        elif not sheet.tables.errors and quantity.slopes:
            found = Answer(quantity.value, NONE)
        elif quantity.root is not None:
            radicand, stderr = quantity.root, math.sqrt(sheet.variance(quantity.root))
            found = root(Answer(radicand.value, stderr)) if stderr else Answer(quantity.value, 0.0)
        elif quantity.bends and not sheet.exact:
            redrawn = Redrawn(sheet.tables, draws=sheet.drawn())
            with np.errstate(all="ignore"):
                values = np.asarray(compute(replace(self, sheet=redrawn)).value)
            found = from_draws(quantity.value, values, quantity.ends)
        else:
            found = Answer(quantity.value, math.sqrt(sheet.variance(quantity)))
        counts = sheet.tables.counts
        if counts is None:
            return found
        found = replace(found, sampling=counts.evidence.samples, assumes=sheet.assumes)
        plain = type(found) is Answer and found.stderr > 0 and sheet.tables.moments is None
        if not plain:
            return found
        return counts.evidence.answered(found, lambda: sheet.weights(quantity))

    def within(self, mask: Weights) -> Scope:
        """The same records as far as they lie in these cells."""
        return Scope(self.sheet, self.weights * mask, lambda places: self.all_groups(places) * mask)

    def everyone(self, places: tuple[int, ...]) -> Scope:
        """The records of all groups that share these labels."""
        return Scope(self.sheet, self.all_groups(places), self.all_groups)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """The sums over a group that the formulas of aggregates are made of (`aggregates.Sums`)."""

    scope: Scope
    numbers: tuple[Terms, ...] = ()

    @cached_property
    def _weights(self) -> Weights:
        """Of the records that have all the numbers."""
        weights = self.scope.weights
        for number in self.numbers:
            if number.present is not None:
                weights = weights * number.present
        return np.broadcast_to(weights, self.scope.grid.shape)

    @cached_property
    def count(self) -> Quantity:
        return self.scope.sheet.linear(self._weights)

    @cached_property
    def records(self) -> Quantity:
        return self.count.above_zero_if_drawn()

    @cached_property
    def nobody(self) -> bool:
        return self.scope.sheet.is_nobody(self.count)

    def total(self) -> Quantity:
        return self._sum([self.numbers[0]], [0.0])

    def centred(self, *numbers: int) -> Quantity:
        return self._sum([self.numbers[n] for n in numbers], [self._centres[n] for n in numbers])

    @cached_property
    def _centres(self) -> list[float]:
        """The mean of each number over the group, as far as a first look tells."""
        return [self._mean(number) for number in self.numbers]

    def _mean(self, number: Terms) -> float:
        sheet = Sheet(self.scope.sheet.tables)  # what is summed here is no part of the answer
        records = sheet.linear(self._weights).value
        total = GroupSums(Scope(sheet, self._weights, self.scope.all_groups), (number,)).total()
        mean = total.value / records if records else NONE
        ends: Sequence[Weights] = [number.start]
        if number.slope is not None:
            ends = [number.start + number.slope * end for end in self._fine_range]
        low, high = float(np.min(ends)), float(np.max(ends))
        return float(np.clip(mean, low, high)) if math.isfinite(mean) else (low + high) / 2

    @cached_property
    def _fine_range(self) -> tuple[float, float]:
        fine = self.scope.sheet.tables.fine
        assert fine is not None and isinstance(fine.attribute, Numeric)
        return fine.attribute.min, fine.attribute.max

    @cached_property
    def _fine_mean(self) -> float:
        """The mean of the number that is too fine, about which its powers are summed."""
        rough = sum(self._fine_range) / 2
        table = self._weights[..., None] * self.scope.sheet.sums(rough, squares=False)
        sums = table.reshape(-1, 3).sum(axis=0)
        mean = rough + sums[1] / sums[0] if sums[0] else rough
        return float(np.clip(mean, *self._fine_range)) if math.isfinite(mean) else rough

    def _sum(self, numbers: Sequence[Terms], centres: Sequence[float]) -> Quantity:
        """Σ Π (number - centre) over the group: a polynomial in the fine number, cell by cell."""
        sheet, shape = self.scope.sheet, self.scope.grid.shape
        if all(number.slope is None for number in numbers):
            factors = [number.start - at for number, at in zip(numbers, centres, strict=True)]
            return sheet.linear(self._weights * math.prod(factors))
        middle = 0.0 if centres == [0.0] else self._fine_mean
        powers = [self._weights, np.zeros(()), np.zeros(())]
        for number, at in zip(numbers, centres, strict=True):
            slope = np.zeros(()) if number.slope is None else number.slope
            start = number.start - at + slope * middle
            powers = [
                powers[0] * start,
                powers[1] * start + powers[0] * slope,
                powers[2] * start + powers[1] * slope,
            ]
        weights = np.stack([np.broadcast_to(power, shape) for power in powers], axis=-1)
        return sheet.powers(weights, middle)
