"""Measures: an expression of aggregates as a function of a group, with the cuts that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from sqlglot import exp

from sfumato.domain import Domain, Numeric
from sfumato.errors import QueryError
from sfumato.mine.cube.accepted import refusal
from sfumato.mine.cube.aggregates import (
    AGGREGATES,
    KINDS,
    QUANTILES,
    WORDS,
    Aggregate,
    is_aggregate,
)
from sfumato.mine.cube.columns import AskedColumn, Cut, Grid, Mask
from sfumato.mine.cube.conditions import case_branches, condition
from sfumato.mine.cube.constants import bare, constant, is_constant, number
from sfumato.mine.cube.numbers import (
    Kind,
    NotLinearError,
    Terms,
    axis_numbers,
    check_casts,
    column_name,
    evaluated,
    is_arithmetic,
)
from sfumato.mine.cube.quantity import Quantity
from sfumato.mine.cube.sheet import GroupSums, Scope

COUNTED_TYPES = ("DOUBLE", "INT", "BIGINT", "INT128", "DECIMAL")  # that leave a count as it is
COUNTED_VALUES = 1 << 18  # of a number that is counted by value beside one that is summed
KEYED_CELLS = 512  # numbers with more values are summed by their powers, not counted by value

Compute = Callable[[Scope], Quantity]

JOINS: dict[type[exp.Expression], Callable[[Quantity, Quantity], Quantity]] = {
    exp.Add: Quantity.__add__,
    exp.Sub: Quantity.__sub__,
    exp.Mul: Quantity.__mul__,
    exp.Div: Quantity.__truediv__,
}


@dataclass(frozen=True, eq=False)
class Measure:
    """An expression of aggregates: how it is computed for a group, the cuts it needs, and the one
    number among them that is summed instead of cut value by value.
    """

    compute: Compute
    cuts: tuple[Cut, ...]
    fine: AskedColumn | None


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of a measure."""

    compute: Compute
    cuts: tuple[Cut, ...] = ()


@dataclass(frozen=True, eq=False)
class _Numbered:
    """A number of each record: what it is over a grid, and the cuts it needs."""

    terms: Callable[[Grid], Terms]
    cuts: tuple[Cut, ...] = ()


def measure(
    expression: exp.Expression, domain: Domain, keys: Sequence[exp.Expression] = ()
) -> Measure:
    """The measure that an expression of aggregates is; `keys` are what GROUP BY groups by."""
    fine = _fine(_summed(expression, domain))
    try:
        part = _Translator(domain, fine, tuple(keys)).part(expression)
    except NotLinearError:
        assert fine is not None
        raise QueryError(
            f"{expression.sql()} is not a·{fine.name} + b, and {fine.name} has too many values to "
            "count each",
            hint="sum the column itself, or CASE of its ranges",
        ) from None
    whole = () if fine is None else (Cut(fine, np.zeros_like),)
    return Measure(part.compute, (*whole, *part.cuts), fine)


def _fine(axes: Iterable[AskedColumn]) -> AskedColumn | None:
    """The number with the most values, where these are too many to be counted one by one."""
    numbers = [axis for axis in axes if isinstance(axis.attribute, Numeric)]
    largest = max(numbers, key=lambda axis: axis.size, default=None)
    return largest if largest is not None and largest.size > KEYED_CELLS else None


def _summed(expression: exp.Expression, domain: Domain) -> list[AskedColumn]:
    """The columns whose numbers an expression sums, not only compares."""
    found = []
    for node in expression.find_all(*KINDS):
        if AGGREGATES[type(node)].numbers and not is_aggregate(node.this):
            parts = [part for part in (node.this, node.args.get("expression")) if part]
            found += [axis for part in parts for axis in _leaves(part, domain)]
    return found


def _leaves(expression: exp.Expression, domain: Domain) -> list[AskedColumn]:
    inner = bare(expression)
    if isinstance(inner, exp.Column):
        return [AskedColumn.of(domain, inner.name)]
    if isinstance(inner, exp.Case):
        branches = [branch.args["true"] for branch in inner.args["ifs"]]
        results = [*branches, inner.args.get("default")]
        return [axis for part in results if part is not None for axis in _leaves(part, domain)]
    if not is_arithmetic(inner) and inner.find(exp.Case) is None:
        return []  # a condition
    parts = [each for each in (inner.this, inner.args.get("expression")) if _is_tree(each)]
    return [axis for part in parts for axis in _leaves(part, domain)]


def _is_tree(part: Any) -> TypeGuard[exp.Expression]:
    return isinstance(part, exp.Expression)


@dataclass(frozen=True)
class _Translator:
    """Turns expressions into measures."""

    domain: Domain
    fine: AskedColumn | None
    keys: tuple[exp.Expression, ...]

    def part(self, expression: exp.Expression) -> _Part:
        """An expression of aggregates and constants."""
        inner = bare(expression)
        if is_constant(inner):
            value = Quantity(float(number(inner)))
            return _Part(lambda scope: value)
        if isinstance(inner, exp.Filter):
            return self._filter(inner)
        if isinstance(inner, exp.Window):
            return self._window(inner)
        if type(inner) in AGGREGATES:
            return self._aggregate(inner)
        if isinstance(inner, exp.Cast | exp.Round | exp.Floor | exp.Ceil):
            return self._held(inner)
        if isinstance(inner, exp.Neg | exp.Sqrt | exp.Nullif):
            return self._unary(inner)
        if type(inner) in JOINS:
            return self._arithmetic(inner)
        if isinstance(inner, exp.WithinGroup):
            raise _alone(inner)
        raise QueryError(
            f"{inner.sql()} is not an aggregate that can be answered",
            hint=f"{WORDS}, and arithmetic of these",
        )

    def _held(self, expression: exp.Expression) -> _Part:
        """A cast of an estimate, where it changes nothing."""
        if isinstance(expression, exp.Cast):
            counted = isinstance(bare(expression.this), exp.Count)
            if expression.to.this.name in (COUNTED_TYPES if counted else ("DOUBLE",)):
                return self.part(expression.this)
        raise QueryError(
            f"{expression.sql()} would round an estimate",
            hint="leave it out: rounding is for display",
        )

    def _unary(self, expression: exp.Expression) -> _Part:
        inner = self.part(expression.this)
        if isinstance(expression, exp.Neg):
            return _Part(lambda scope: inner.compute(scope).scaled(-1.0), inner.cuts)
        if isinstance(expression, exp.Sqrt):
            return _Part(lambda scope: inner.compute(scope).sqrt(), inner.cuts)
        if constant(expression.expression) != 0:
            raise QueryError(f"{expression.sql()} is answered for 0 only")
        return _Part(lambda scope: inner.compute(scope).unless_zero(), inner.cuts)

    def _arithmetic(self, expression: exp.Expression) -> _Part:
        left, right = self.part(expression.this), self.part(expression.expression)
        join = JOINS[type(expression)]
        return _Part(
            lambda scope: join(left.compute(scope), right.compute(scope)), left.cuts + right.cuts
        )

    def _filter(self, expression: exp.Filter) -> _Part:
        if isinstance(expression.this, (exp.WithinGroup, *QUANTILES)):
            raise _alone(expression)
        inner = self.part(expression.this)
        where = condition(expression.expression.this, self.domain)
        return _Part(
            lambda scope: inner.compute(scope.within(where.holds(scope.grid))),
            inner.cuts + where.cuts,
        )

    def _window(self, expression: exp.Window) -> _Part:
        """SUM(…) OVER (): a sum over all groups of the answer, or over those that share a key."""
        summed = bare(expression.this)
        if not isinstance(summed, exp.Sum):
            raise refusal(expression)
        inner: Any = bare(summed.this)
        bottom: Any = inner.this if isinstance(inner, exp.Filter) else inner
        if type(bottom) not in AGGREGATES or not AGGREGATES[type(bottom)].adds:
            raise refusal(expression)
        places = tuple(self._place(key) for key in expression.args.get("partition_by") or [])
        part = self.part(inner)
        return _Part(lambda scope: part.compute(scope.everyone(places)), part.cuts)

    def _place(self, key: exp.Expression) -> int:
        if bare(key) not in self.keys:
            raise QueryError(f"PARTITION BY {key.sql()} is not in GROUP BY")
        return self.keys.index(bare(key))

    def _aggregate(self, expression: exp.Expression) -> _Part:
        aggregate = AGGREGATES[type(expression)]
        if aggregate.formula is None:
            raise _alone(expression)
        formula = aggregate.formula
        numbers = self._arguments(expression, aggregate)
        terms = [each.terms for each in numbers]
        return _Part(
            lambda scope: formula(
                GroupSums(scope, tuple(scope.sheet.tables.terms(each) for each in terms))
            ),
            tuple(cut for each in numbers for cut in each.cuts),
        )

    def _arguments(self, expression: exp.Expression, aggregate: Aggregate) -> list[_Numbered]:
        """The numbers that an aggregate is of."""
        if isinstance(expression, exp.CountIf):
            return [self._truth(expression.this)]
        if isinstance(expression, exp.Count):
            self._check_counted(expression)
            counted = [expression.this] if _can_be_null(expression.this) else []
            return [self._number(part, words=True) for part in counted]
        arguments = [expression.this, expression.args.get("expression")][: aggregate.numbers]
        return [self._number(part) for part in arguments]

    def _check_counted(self, expression: exp.Count) -> None:
        """COUNT of a column or a constant counts every record; that of a CASE those with a
        result.
        """
        counted = expression.this
        if counted is None or isinstance(bare(counted), exp.Star) or is_constant(counted):
            return
        name = column_name(counted, self.domain)
        if name is not None:
            AskedColumn.of(self.domain, name)
        elif not _can_be_null(counted):
            raise QueryError(
                f"{expression.sql()} counts neither rows, a column, nor a CASE",
                hint="use COUNT(*), or COUNT_IF for a condition",
            )

    def _number(self, expression: exp.Expression, *, words: bool = False) -> _Numbered:
        """A number of each record: a column, a constant, arithmetic, a condition, or a CASE of
        these; words only where they are counted.
        """
        inner = bare(expression)
        if isinstance(inner, exp.Case):
            return self._case(inner, words)
        if is_aggregate(inner):
            raise QueryError(f"{inner.sql()} is an aggregate within an aggregate")
        if is_arithmetic(inner):
            return self._arithmetic_number(inner)
        if inner.find(exp.Case) is not None:
            raise QueryError(
                f"{inner.sql()} computes with a CASE", hint="put the arithmetic into its branches"
            )
        return self._truth(inner)

    def _arithmetic_number(self, expression: exp.Expression) -> _Numbered:
        if column_name(expression, self.domain) is None:
            check_casts(expression, self.domain)
        names = dict.fromkeys(column.name for column in expression.find_all(exp.Column))
        axes = [AskedColumn.of(self.domain, name) for name in names]
        for axis in axes:
            axis_numbers(axis, np.arange(1))  # a column of words or bins is refused here
            self._check_counted_values(axis)

        def terms(grid: Grid) -> Terms:
            found = evaluated(expression, {axis.name: self._leaf(axis, grid) for axis in axes})
            if not np.isfinite(found.start).all():
                raise QueryError(f"{expression.sql()} has no value for some records")
            return found

        if self.fine in axes:  # whether it is a line shows without counting anything
            terms(Grid.of(Cut(axis, np.zeros_like) for axis in axes))
        cuts = tuple(Cut.by_value(axis) for axis in axes if axis != self.fine)
        return _Numbered(terms, cuts)

    def _check_counted_values(self, axis: AskedColumn) -> None:
        if axis != self.fine and axis.size > COUNTED_VALUES:
            assert self.fine is not None
            raise QueryError(
                f"'{self.fine.name}' and '{axis.name}' have too many values to be summed together",
                hint="ask for each on its own",
            )

    def _leaf(self, axis: AskedColumn, grid: Grid) -> Terms:
        if axis == self.fine:
            return Terms(grid.full(0.0), Kind.DOUBLE, grid.full(1.0))
        return axis_numbers(axis, grid.axis(axis.name))

    def _truth(self, expression: exp.Expression) -> _Numbered:
        """A condition as a number: 1 where it holds."""
        inner = expression.this if isinstance(expression, exp.Cast) else expression
        if isinstance(expression, exp.Cast) and expression.to.this.name not in ("INT", "BIGINT"):
            raise refusal(expression)
        holds = condition(inner, self.domain)
        return _Numbered(lambda grid: Terms(holds.holds(grid).astype(np.float64)), holds.cuts)

    def _case(self, expression: exp.Case, words: bool) -> _Numbered:
        branches = case_branches(expression, self.domain)
        results = [
            (branch.holds, branch.result) for branch in branches if branch.result is not None
        ]
        parts = [(holds, self._result(result, words)) for holds, result in results]

        def terms(grid: Grid) -> Terms:
            return _chosen([(holds.holds(grid), part.terms(grid)) for holds, part in parts], grid)

        cuts = [cut for branch in branches for cut in branch.holds.cuts]
        return _Numbered(terms, (*cuts, *(cut for _, part in parts for cut in part.cuts)))

    def _result(self, expression: exp.Expression, words: bool) -> _Numbered:
        if words and _is_word(expression):
            return _Numbered(lambda grid: Terms(grid.full(0.0)))
        return self._number(expression, words=words)


def _chosen(parts: Sequence[tuple[Mask, Terms]], grid: Grid) -> Terms:
    """The number that is each part's where the part applies, and NULL where none does."""
    start, slope, present = grid.full(0.0), grid.full(0.0), grid.full(False)
    for holds, terms in parts:
        here = holds if terms.present is None else holds & terms.present
        start = start + np.where(here, terms.start, 0.0)
        present = present | here
        if terms.slope is not None:
            slope = slope + np.where(here, terms.slope, 0.0)
    kind = max((terms.kind for _, terms in parts), key=lambda kind: kind.value, default=Kind.WHOLE)
    moving = any(terms.slope is not None for _, terms in parts)
    return Terms(start, kind, slope if moving else None, present)


def _can_be_null(expression: exp.Expression | None) -> bool:
    return expression is not None and isinstance(bare(expression), exp.Case)


def _is_word(expression: exp.Expression | None) -> bool:
    return isinstance(expression, exp.Literal) and expression.is_string


def _alone(expression: exp.Expression) -> QueryError:
    return QueryError(
        f"{expression.sql()} cannot be part of an expression", hint="ask for it on its own"
    )
