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
from sfumato.estimation.answer import ANYTHING, Answer, Ends, reach
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.moments import PowerSums
from sfumato.estimation.ratio import Parts, RatioAnswer, mediants
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

    `linear` says that it is linear in the estimates, `over` of which two such it is the quotient,
    `below` what was divided by on the way. `bends` says that a root was taken, where the
    derivatives say little; `root` is the radicand of a quantity that is itself a root and no more,
    `ends` are limits that it has.

    >>> ratio = Quantity(6.0, {0: 1.0}) / Quantity(3.0, {1: 1.0})
    >>> ratio.value, ratio.slopes
    (2.0, {0: 0.3333333333333333, 1: -0.6666666666666666})
    """

    value: Any  # a float, or an array of draws
    slopes: Mapping[int, float] = field(default_factory=dict)
    bends: bool = False
    root: Quantity | None = None
    ends: Ends = ANYTHING
    linear: bool = True
    over: tuple[Quantity, Quantity] | None = None
    below: tuple[Quantity, ...] = ()

    def _joined(
        self, other: Quantity, value: Any, mine: float, theirs: float, linear: bool = False
    ) -> Quantity:
        slopes = {name: mine * slope for name, slope in self.slopes.items()}
        for name, slope in other.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + theirs * slope
        below = (*self.below, *other.below)
        linear = linear and self.linear and other.linear
        return Quantity(value, slopes, self.bends or other.bends, linear=linear, below=below)

    @property
    def known(self) -> bool:
        """Whether it is a number that no estimate moves."""
        return not self.slopes and np.ndim(self.value) == 0

    def __add__(self, other: Quantity) -> Quantity:
        return self._summed(other, 1.0)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._summed(other, -1.0)

    def _summed(self, other: Quantity, sign: float) -> Quantity:
        found = self._joined(other, self.value + sign * other.value, 1.0, sign, True)
        if self.over is not None and other.known:
            top, bottom = self.over
            return replace(found, over=(top + bottom.scaled(sign * other.value), bottom))
        if other.over is not None and self.known:
            top, bottom = other.over
            return replace(found, over=(bottom.scaled(self.value) + top.scaled(sign), bottom))
        return found

    def __neg__(self) -> Quantity:
        return self.scaled(-1.0)

    def __mul__(self, other: Quantity) -> Quantity:
        if other.known:
            return self.scaled(other.value)
        if self.known:
            return other.scaled(self.value)
        return self._joined(other, self.value * other.value, other.value, self.value)

    def __truediv__(self, other: Quantity) -> Quantity:
        bends = self.bends or other.bends
        if np.ndim(other.value) or np.ndim(self.value):
            below = np.where(other.value == 0, np.nan, other.value)
            return Quantity(self.value / below, bends=bends)
        if other.value == 0:
            return replace(NOTHING, bends=bends)
        if other.known:
            return self.scaled(1 / other.value)
        value = self.value / other.value
        found = self._joined(other, value, 1 / other.value, -value / other.value)
        over = (self, other) if self.linear and other.linear else None
        return replace(found, over=over, below=(*found.below, other))

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
        return Quantity(float(root), slopes, True, None if self.bends else self, linear=False)

    def scaled(self, factor: float) -> Quantity:
        """The quantity times a known number."""
        slopes = {name: factor * slope for name, slope in self.slopes.items()}
        over = None if self.over is None else (self.over[0].scaled(factor), self.over[1])
        value, linear = self.value * factor, self.linear
        return Quantity(value, slopes, self.bends, linear=linear, over=over, below=self.below)

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
        return max(0.0, float(self.covariance_matrix([quantity])[0, 0]))

    def covariance_matrix(self, quantities: Sequence[Quantity]) -> NDArray[Any]:
        """The covariances of quantities with one another, by the delta method."""
        if self.exact or not any(any(each.slopes.values()) for each in quantities):
            return np.zeros((len(quantities), len(quantities)))
        return self._covariances([self.moved(each) for each in quantities])

    def possible(self, quantity: Quantity) -> Ends:
        """Between which ends a quantity lies whatever the records are, so many as there are."""
        if quantity.over is not None:
            top, bottom = map(self._spans, quantity.over)
            return (
                ANYTHING if top is None or bottom is None else mediants(top[0], bottom[0], top[1])
            )
        spans = self._spans(quantity) if quantity.linear and quantity.slopes else None
        if spans is None:
            return quantity.ends
        return self.tables.rows * float(spans[0].min()), self.tables.rows * float(spans[1].max())

    def _spans(self, quantity: Quantity) -> tuple[Weights, Weights] | None:
        """What a record of each cell may add to a quantity, at least and at most; None where it
        adds a square.
        """
        if not quantity.slopes:
            return None
        weights = self.moved(quantity)
        if self.tables.moments is None:
            return weights, weights
        if weights[..., 2].any():
            return None
        ends = np.array(self.tables.range) - self.centre
        both = weights[..., :1] + weights[..., 1:2] * ends
        return both.min(axis=-1), both.max(axis=-1)

    def _covariances(self, weights: Sequence[Weights]) -> NDArray[Any]:
        stacked = np.stack(weights, axis=-1)
        if self.tables.moments is not None:
            return self.tables.moments.covariance_matrix(stacked, self.centre)
        assert self.tables.counts is not None
        return self.tables.counts.covariance_matrix(stacked)

    def moved(self, quantity: Quantity) -> Weights:
        """How a quantity moves with the counts."""
        parts = [slope * self.weights[name] for name, slope in quantity.slopes.items()]
        return np.sum(parts, axis=0) if parts else np.zeros_like(self.weights[0])

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

    def answer(self, quantity: Quantity) -> Answer:
        """A quantity with its error by the delta method, and where it is a quotient with an
        interval by Fieller's; without a value where what it is divided by may be nothing.
        """
        below = quantity.below if quantity.over is None else quantity.over
        matrix = self.covariance_matrix([quantity, *below])
        stderr = math.sqrt(max(float(matrix[0, 0]), 0.0))
        plain = Answer(quantity.value, stderr)
        if not stderr or not quantity.slopes:
            return self.noted(plain)
        plain = self.noted(replace(plain, possible=self.possible(quantity)))
        counts, found = self.tables.counts, plain
        if quantity.over is not None:
            top, bottom = quantity.over
            parts = Parts.of(top.value, bottom.value, matrix[1:, 1:])
            found = self.noted(RatioAnswer.of(parts, plain.possible))
        elif (reach(0.95) ** 2 * np.diag(matrix)[1:] >= [each.value**2 for each in below]).any():
            found = self.noted(Answer(NONE, NONE))
        if counts is None or self.tables.moments is not None or not math.isfinite(found.value):
            return found
        own = counts.evidence.answered(plain, lambda: self.moved(quantity))
        return found if own is plain else own

    def noted(self, found: Answer) -> Answer:
        """An answer with what was supposed on the way."""
        counts = self.tables.counts
        if counts is None:
            return found
        return replace(found, sampling=counts.evidence.samples, assumes=self.assumes)

    def drawn(self) -> NDArray[Any]:  # (draws, estimates)
        """The linear estimates drawn again, many times."""
        return normal_draws(np.array(self.values), self._covariances(self.weights))

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
            return sheet.noted(Answer(NONE, NONE))  # NULL; where a root bends it, if surely so
        if not sheet.tables.errors and quantity.slopes:
            return sheet.noted(Answer(quantity.value, NONE))
        if quantity.root is not None:
            radicand, stderr = quantity.root, math.sqrt(sheet.variance(quantity.root))
            found = root(Answer(radicand.value, stderr)) if stderr else Answer(quantity.value, 0.0)
            return sheet.noted(found)
        if quantity.bends and not sheet.exact:
            redrawn = Redrawn(sheet.tables, sheet.centre, draws=sheet.drawn())
            with np.errstate(all="ignore"):
                values = np.asarray(compute(replace(self, sheet=redrawn)).value)
            return sheet.noted(from_draws(quantity.value, values, quantity.ends))
        return sheet.answer(quantity)
