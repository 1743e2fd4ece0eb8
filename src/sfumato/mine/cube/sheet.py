"""Sheet: the linear estimates that one answer is made of, and the quantities computed from them,
which carry their derivatives, so that any expression has a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Axis, Numeric
from sfumato.estimation.answer import Answer
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.moments import PowerSums
from sfumato.estimation.uneven import from_draws, normal_draws, root
from sfumato.mine.cube.cuts import Grid
from sfumato.mine.cube.numbers import Terms

Weights = NDArray[Any]
Number = Callable[[Grid, Axis | None], Terms]  # of each record, one column summed by powers
NONE = math.nan
KNOWN = 1e-4  # records: a count with less error than this has none
ROUNDING = 1e-9


@dataclass(frozen=True)
class Quantity:
    """A value and its derivative by each of the linear estimates it was made of (the delta method,
    carried along); or, where the estimates were drawn again, an array of values without.

    `bends` says that a root was taken on the way, where the derivatives say little. `root` is the
    radicand of a quantity that is itself a root and no more, `ends` are limits that it has.

    >>> ratio = Quantity(6.0, {0: 1.0}) / Quantity(3.0, {1: 1.0})
    >>> ratio.value, ratio.slopes
    (2.0, {0: 0.3333333333333333, 1: -0.6666666666666666})
    """

    value: Any  # a float, or an array of draws
    slopes: Mapping[int, float] = field(default_factory=dict)
    bends: bool = False
    root: Quantity | None = None
    ends: tuple[float, float] | None = None

    def _joined(self, other: Quantity, value: Any, mine: float, theirs: float) -> Quantity:
        slopes = {name: mine * slope for name, slope in self.slopes.items()}
        for name, slope in other.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + theirs * slope
        return Quantity(value, slopes, self.bends or other.bends)

    def __add__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value + other.value, 1.0, 1.0)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value - other.value, 1.0, -1.0)

    def __neg__(self) -> Quantity:
        return self.scaled(-1.0)

    def __mul__(self, other: Quantity) -> Quantity:
        return self._joined(other, self.value * other.value, other.value, self.value)

    def __truediv__(self, other: Quantity) -> Quantity:
        bends = self.bends or other.bends
        if np.ndim(other.value) or np.ndim(self.value):
            below = np.where(other.value == 0, np.nan, other.value)
            return Quantity(self.value / below, bends=bends)
        if other.value == 0:
            return replace(NOTHING, bends=bends)
        value = self.value / other.value
        return self._joined(other, value, 1 / other.value, -value / other.value)

    def sqrt(self) -> Quantity:
        """The square root; of what is estimated below 0 it is 0.

        Draws about an estimate below 0 are moved up to 0 with it, else all their roots would be
        sure to be 0.
        """
        if np.ndim(self.value):
            known = self.value[np.isfinite(self.value)]
            lift = max(0.0, -float(np.median(known))) if len(known) else 0.0
            return Quantity(np.sqrt(np.maximum(self.value + lift, 0.0)), bends=True)
        root = np.sqrt(np.maximum(self.value, 0.0))
        slope = 0.5 / float(root) if root > 0 else 0.0
        slopes = {name: slope * each for name, each in self.slopes.items()}
        return Quantity(float(root), slopes, True, None if self.bends else self)

    def scaled(self, factor: float) -> Quantity:
        """The quantity times a known number."""
        slopes = {name: factor * slope for name, slope in self.slopes.items()}
        return Quantity(self.value * factor, slopes, self.bends)

    def unless_zero(self) -> Quantity:
        """The quantity, and NULL where it is 0."""
        if np.ndim(self.value):
            return replace(self, value=np.where(self.value == 0, np.nan, self.value))
        return NOTHING if self.value == 0 else self

    def above_zero_if_drawn(self) -> Quantity:
        """The quantity; of draws only those above 0."""
        if np.ndim(self.value) == 0:
            return self
        return replace(self, value=np.where(self.value > 0, self.value, np.nan))

    def not_by_rounding_below_zero(self, size: Quantity) -> Quantity:
        """0 where it lies below 0 by no more than rounding, beside numbers of this size."""
        rounded = (self.value < 0) & (self.value > -ROUNDING * size.value)
        value = np.where(rounded, 0.0, self.value)
        return replace(self, value=value if np.ndim(value) else float(value))

    def between(self, low: float, high: float) -> Quantity:
        """The quantity with the limits that it has by its nature."""
        return replace(self, ends=(low, high))


NOTHING = Quantity(math.nan)  # SQL's NULL: an aggregate over no records, or a quotient by 0


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
    fine: Axis | None = None  # the number of the moments
    errors: bool = True  # False where the values are not those of the inversion
    _terms: dict[int, Terms] = field(default_factory=dict)

    def terms(self, number: Number) -> Terms:
        """A number over the cells, evaluated once."""
        if id(number) not in self._terms:
            self._terms[id(number)] = number(self.grid, self.fine)
        return self._terms[id(number)]

    @property
    def range(self) -> tuple[float, float]:
        """Between which ends the number of the moments lies."""
        assert self.fine is not None and isinstance(self.fine.attribute, Numeric)
        return self.fine.attribute.min, self.fine.attribute.max

    def middle(self, weights: Weights) -> float:
        """The mean of the number of the moments over some records, as far as a first look tells:
        about it the squares are summed, since about anything else they would cancel.
        """
        rough = sum(self.range) / 2
        assert self.moments is not None
        table = np.asarray(weights)[..., None] * self.moments.about(rough, squares=False)
        rows, sums, _ = table.reshape(-1, 3).sum(axis=0)
        mean = rough + sums / rows if rows else rough
        return float(np.clip(mean, *self.range)) if math.isfinite(mean) else rough


@dataclass(eq=False)
class Sheet:
    """The linear estimates of one answer, written down as they are met: weighted sums of the
    counts, or of the sums of powers about a centre.
    """

    tables: Tables
    centre: float = 0.0
    weights: list[Weights] = field(default_factory=list)  # (*cells,) each, or (*cells, 3)
    values: list[float] = field(default_factory=list)

    def linear(self, weights: Weights) -> Quantity:
        """The estimate of a weighted sum of the counts."""
        tables = self.tables
        table = np.broadcast_to(np.asarray(weights, dtype=np.float64), tables.grid.shape)
        if tables.counts is None:
            return Quantity(float(table.sum()) * tables.rows)
        if tables.moments is not None:
            return self.powers([table, np.zeros(()), np.zeros(())])
        return self._noted(table, float((table * tables.value).sum()))

    def powers(self, powers: Sequence[Weights]) -> Quantity:
        """The estimate of a weighted sum of the sums of powers 0, 1 and 2 about the centre."""
        assert self.tables.moments is not None
        shape = self.tables.grid.shape
        weights = np.stack([np.broadcast_to(power, shape) for power in powers], axis=-1)
        sums = self.tables.moments.about(self.centre, bool(weights[..., 2].any()))
        return self._noted(weights, float((weights * sums).sum()))

    def _noted(self, weights: Weights, value: float) -> Quantity:
        self.weights.append(weights)
        self.values.append(value)
        return Quantity(value, {len(self.values) - 1: 1.0})

    def variance(self, quantity: Quantity) -> float:
        """The variance of a quantity, by the delta method."""
        names = [name for name, slope in quantity.slopes.items() if slope]
        if not names or self.exact:
            return 0.0
        slopes = np.array([quantity.slopes[name] for name in names])
        return max(0.0, float(slopes @ self._covariances(names) @ slopes))

    def _covariances(self, names: Sequence[int]) -> NDArray[Any]:
        stacked = np.stack([self.weights[name] for name in names], axis=-1)
        if self.tables.moments is not None:
            return self.tables.moments.covariance_matrix(stacked, self.centre)
        assert self.tables.counts is not None
        return self.tables.counts.covariance_matrix(stacked)

    def moved(self, quantity: Quantity) -> Weights:
        """How a quantity moves with the counts."""
        parts = [slope * self.weights[name] for name, slope in quantity.slopes.items()]
        return np.sum(parts, axis=0)

    @property
    def assumes(self) -> str | None:
        """What these estimates suppose beyond the reports."""
        if self.tables.counts is None:
            return None
        if self.tables.moments is None:
            return self.tables.counts.evidence.assumes
        return self.tables.moments.assumes(any(each[..., 2].any() for each in self.weights))

    @property
    def exact(self) -> bool:
        """Whether nothing here has an error."""
        return self.tables.counts is None or self.tables.counts.evidence.exact

    def drawn(self) -> NDArray[Any]:  # (draws, estimates)
        """The linear estimates drawn again, many times."""
        return normal_draws(np.array(self.values), self._covariances(range(len(self.values))))

    def is_nobody(self, count: Quantity) -> bool:
        """Whether a count is surely 0."""
        if abs(count.value) >= 0.5 or not self.tables.errors:
            return False
        return math.sqrt(self.variance(count)) < KNOWN


@dataclass(eq=False)
class Redrawn(Sheet):
    """The same sheet with every linear estimate drawn again, many times."""

    draws: NDArray[Any] = field(default_factory=lambda: np.zeros((1, 0)))  # (draws, estimates)

    def _noted(self, weights: Weights, value: float) -> Quantity:
        self.values.append(value)
        return Quantity(self.draws[:, len(self.values) - 1])

    def is_nobody(self, count: Quantity) -> bool:
        return False  # else there would be no estimate to draw again


@dataclass(frozen=True, eq=False)
class Sums:
    """The records that an aggregate is over, those of them that have all of its numbers, and the
    sums over them that formulas are made of: how often each cell of the grid counts, for this group
    and for all groups that share some of its labels.
    """

    sheet: Sheet
    weights: Weights
    all_groups: Callable[[tuple[int, ...]], Weights]  # places of the keys that must be shared
    numbers: tuple[Terms, ...] = ()

    @property
    def grid(self) -> Grid:
        return self.sheet.tables.grid

    def within(self, mask: Weights) -> Sums:
        """The same records as far as they lie in these cells."""
        return Sums(self.sheet, self.weights * mask, lambda places: self.all_groups(places) * mask)

    def everyone(self, places: tuple[int, ...]) -> Sums:
        """The records of all groups that share these labels."""
        return Sums(self.sheet, self.all_groups(places), self.all_groups)

    def over(self, numbers: Sequence[Number]) -> Sums:
        """The sums of these numbers."""
        terms = tuple(self.sheet.tables.terms(number) for number in numbers)
        weights = self.weights
        for each in terms:
            weights = weights if each.present is None else weights * each.present
        weights = np.broadcast_to(weights, self.grid.shape)
        return Sums(self.sheet, weights, self.all_groups, terms)

    @cached_property
    def count(self) -> Quantity:
        """How many records there are."""
        return self.sheet.linear(self.weights)

    @cached_property
    def records(self) -> Quantity:
        """How many records there are, to divide by: a draw of fewer than none says nothing."""
        return self.count.above_zero_if_drawn()

    @cached_property
    def nobody(self) -> bool:
        """Whether there is surely none."""
        return self.sheet.is_nobody(self.count)

    def total(self) -> Quantity:
        """The sum of the first number."""
        return self._sum([(self.numbers[0], 0.0)])

    def centred(self, *numbers: int) -> Quantity:
        """The sum of the product of these numbers, each less a centre of its own."""
        return self._sum([(self.numbers[number], self._centres[number]) for number in numbers])

    @cached_property
    def _centres(self) -> list[float]:
        """The mean of each number over the group, as far as a first look tells."""
        centres = []
        for number in self.numbers:
            # What is summed here is no part of the answer.
            aside = replace(self, sheet=Sheet(self.sheet.tables, self.sheet.centre))
            records, total = aside.count.value, aside._sum([(number, 0.0)]).value
            ends: Sequence[Weights] = [number.start]
            if number.slope is not None:
                ends = [number.start + number.slope * end for end in self.sheet.tables.range]
            low, high = float(np.min(ends)), float(np.max(ends))
            mean = total / records if records else NONE
            middle = np.clip(mean, low, high) if math.isfinite(mean) else (low + high) / 2
            centres.append(float(middle))
        return centres

    def _sum(self, factors: Sequence[tuple[Terms, float]]) -> Quantity:
        """Σ Π (number - centre) over the group: a polynomial in the fine number, cell by cell."""
        sheet = self.sheet
        if sheet.tables.moments is None:
            return sheet.linear(self.weights * math.prod(each.start - at for each, at in factors))
        none, one, two = self.weights, np.zeros(()), np.zeros(())
        for number, at in factors:
            slope = np.zeros(()) if number.slope is None else number.slope
            start = number.start - at + slope * sheet.centre
            none, one, two = none * start, one * start + none * slope, two * start + one * slope
        return sheet.powers([none, one, two])

    def answer(self, compute: Callable[[Sums], Quantity]) -> Answer:
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
            redrawn = Redrawn(sheet.tables, sheet.centre, draws=sheet.drawn())
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
        return counts.evidence.answered(found, lambda: sheet.moved(quantity)) if plain else found
