"""The compiler: every expression of a question as a function of the cells of its grid.

A condition becomes the cells in which it holds, a key the group of each cell, a number its value in
each cell, an aggregate a quantity of a group. The cuts after which all of these are the same within
a cell are noted on the way: they say which cells must be counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Axis, Bins, Category, Domain, Items, Numeric
from sfumato.errors import QueryError, SchemaError
from sfumato.estimation.quantiles import Wanted
from sfumato.mine import limits
from sfumato.mine.cube.aggregates import AGGREGATES, CENTRED, QUANTILES, WORDS, is_aggregate
from sfumato.mine.cube.cuts import Cut, Derived, Grid, buckets, comparison, likeness
from sfumato.mine.cube.numbers import (
    COMPARISONS,
    FLIPPED,
    Kind,
    Mask,
    NotLinearError,
    Terms,
    are_numbers,
    axis_numbers,
    bare,
    check_casts,
    column_of,
    compare,
    constant,
    evaluated,
    is_arithmetic,
    is_constant,
    is_number,
    label_numbers,
    number,
    plain,
)
from sfumato.mine.cube.sheet import Number, Quantity, Sums
from sfumato.mine.cube.statement import refusal

COUNTED_TYPES = ("DOUBLE", "INT", "BIGINT", "INT128", "DECIMAL")  # that leave a count as it is

Holds = Callable[[Grid], Mask]
Compute = Callable[[Sums], Quantity]
Branch = tuple[Holds, exp.Expression | None]  # where a result of CASE applies; None for NULL

JOINS: dict[type[exp.Expression], Callable[[Quantity, Quantity], Quantity]] = {
    exp.Add: Quantity.__add__,
    exp.Sub: Quantity.__sub__,
    exp.Mul: Quantity.__mul__,
    exp.Div: Quantity.__truediv__,
}
CHANGES: dict[type[exp.Expression], Callable[[Quantity], Quantity]] = {
    exp.Neg: Quantity.__neg__,
    exp.Sqrt: Quantity.sqrt,
    exp.Nullif: Quantity.unless_zero,
}


def _counted(name: str) -> bool:
    return False


@dataclass(frozen=True, eq=False)
class Key:
    """A grouping: the label of each group, and for each cell which group it belongs to."""

    labels: tuple[Any, ...]
    index: Callable[[Grid], NDArray[Any]]
    ranks: tuple[Any, ...] | None = None  # by which labels are sorted, where not by themselves


def everywhere(truth: bool) -> Holds:
    """The condition that holds for everyone, or for no one."""
    return lambda grid: grid.full(truth)


def _negated(holds: Holds) -> Holds:
    return lambda grid: ~holds(grid)


def _both(first: Holds, second: Holds) -> Holds:
    return lambda grid: first(grid) & second(grid)


@dataclass(eq=False)
class Compiler:
    """Compiles the expressions of one grid, and notes the cuts that they need."""

    domain: Domain
    keys: Sequence[exp.Expression] = ()  # what GROUP BY groups by
    sums: Callable[[str], bool] = _counted  # whether a number's sum needs no counts of its values
    cuts: list[Cut] = field(default_factory=list)
    _sums: list[tuple[list[Axis], Number, bool]] = field(default_factory=list)

    def _cut(self, cut: Cut) -> Callable[[Grid], NDArray[Any]]:
        """What a cut says of each cell; the grid must make it."""
        self.cuts.append(cut)
        return lambda grid: np.asarray(cut.tells(grid.codes[cut.axis.name]))

    # conditions

    def condition(self, expression: exp.Expression) -> Holds:
        """Where a Boolean expression holds."""
        inner = bare(expression)
        if isinstance(inner, exp.And):
            return _both(self.condition(inner.this), self.condition(inner.expression))
        if isinstance(inner, exp.Or):
            left, right = self.condition(inner.this), self.condition(inner.expression)
            return lambda grid: left(grid) | right(grid)
        if isinstance(inner, exp.Not):
            return _negated(self.condition(inner.this))
        if isinstance(inner, exp.Boolean):
            return everywhere(bool(inner.this))
        if isinstance(inner, exp.Is | exp.EQ | exp.NEQ) and isinstance(
            inner.expression, exp.Boolean
        ):  # a condition, and TRUE or FALSE; of a column these may be labels
            labelled = isinstance(bare(inner.this), exp.Column | exp.Boolean)
            if isinstance(inner, exp.Is) or not labelled:
                wanted = bool(inner.expression.this) != isinstance(inner, exp.NEQ)
                tested = self.condition(inner.this)
                return tested if wanted else _negated(tested)
        if isinstance(inner, exp.Like | exp.ILike | exp.Escape):
            return self._like(inner)
        if isinstance(inner, exp.Between | exp.In | exp.Column):
            return self._among(inner)
        if type(inner) not in COMPARISONS:
            raise QueryError(
                f"{inner.sql()} is not a comparison of a column with constants",
                hint="use =, <>, <, <=, >, >=, BETWEEN, IN, LIKE, NOT, AND, OR",
            )
        operator, left_side, right_side = COMPARISONS[type(inner)], inner.this, inner.expression
        if left_side.find(exp.Column) is None:  # the constant may stand on either side
            if right_side.find(exp.Column) is None:
                same = compare(operator, constant(left_side), constant(right_side))
                return everywhere(same is True)
            operator = FLIPPED.get(operator, operator)
            left_side, right_side = right_side, left_side
        if operator in ("=", "<>"):
            equal = self._compared(left_side, "in", [constant(right_side)])
            return equal if operator == "=" else _negated(equal)
        return self._compared(left_side, operator, [constant(right_side)])

    def _like(self, expression: exp.Expression) -> Holds:
        like, escape = expression, None
        if isinstance(expression, exp.Escape):
            like, escape = bare(expression.this), constant(expression.expression)
        if not isinstance(like, exp.Like | exp.ILike) or not (
            escape is None or (isinstance(escape, str) and len(escape) == 1)
        ):
            raise refusal(expression)
        pattern, axis = constant(like.expression), column_of(like.this, self.domain)
        if axis is None or not isinstance(pattern, str):
            raise QueryError(f"{like.sql()} does not compare a column with a pattern in quotes")
        folded = isinstance(like, exp.ILike)
        found = self._cut(likeness(axis, pattern, escape=escape, folded=folded))
        return _negated(found) if like.args.get("negate") else found

    def _among(self, expression: exp.Expression) -> Holds:
        """A column, or a number computed from one, between two constants or among some."""
        if isinstance(expression, exp.Column):
            return self._compared(expression, "in", [True])
        if isinstance(expression, exp.In):
            if not expression.expressions:
                raise QueryError(f"{expression.sql()} lists no values")
            return self._compared(expression.this, "in", [*map(constant, expression.expressions)])
        this, low, high = (expression.args[word] for word in ("this", "low", "high"))
        if is_constant(low) and is_constant(high) and not is_constant(this):
            return self._compared(this, "between", [constant(low), constant(high)])
        above = exp.GTE(this=this.copy(), expression=low.copy())
        below = exp.LTE(this=this.copy(), expression=high.copy())
        return _both(self.condition(above), self.condition(below))

    def _compared(self, expression: exp.Expression, operator: str, values: list[Any]) -> Holds:
        """A column, or a number computed from one, compared with constants."""
        axis = column_of(expression, self.domain)
        if axis is not None:
            return self._cut(comparison(axis, operator, values))
        derived = Derived.of(expression, self.domain)
        if derived is None:
            raise QueryError(
                f"{expression.sql()} is not a column", hint="compare a column with constants"
            )
        return self._cut(derived.condition(operator, values))

    def _branches(self, expression: exp.Case) -> list[Branch]:
        """The results of a CASE, that of ELSE last, each with where it is the first to apply."""
        rest, branches = everywhere(True), []
        for branch in expression.args["ifs"]:
            test = branch.this
            if expression.this is not None:
                test = exp.EQ(this=expression.this.copy(), expression=test.copy())
            holds = self.condition(test)
            branches.append((_both(rest, holds), branch.args["true"]))
            rest = _both(rest, _negated(holds))
        branches.append((rest, expression.args.get("default")))
        bared = [(holds, result and bare(result)) for holds, result in branches]
        return [(holds, None if isinstance(each, exp.Null) else each) for holds, each in bared]

    # keys

    def key(self, expression: exp.Expression) -> Key:
        """The groups that an expression of GROUP BY makes."""
        axis = column_of(expression, self.domain)
        if axis is not None:
            return self._column_key(axis)
        if isinstance(expression, exp.Case):
            return self._case_key(expression)
        if isinstance(expression, exp.WidthBucket):
            return self._bucket_key(expression)
        if is_constant(expression):
            return Key((plain(constant(expression)),), lambda grid: grid.full(0))
        derived = Derived.of(expression, self.domain)
        if derived is not None:
            labels, cut = derived.groups()
            return Key(labels, self._cut(cut))
        holds = self.condition(expression)
        return Key((False, True), lambda grid: holds(grid).astype(np.intp))

    def _column_key(self, axis: Axis) -> Key:
        """A group for every value; bins are sorted as they lie, words that are numbers so."""
        attribute = axis.attribute
        labels: tuple[Any, ...] = attribute.labels
        ranks: tuple[Any, ...] | None = None
        if isinstance(attribute, Numeric):
            if axis.size > limits.KEYED_VALUES:
                raise SchemaError(
                    f"'{axis.name}' has {axis.size:,} values, too many for a group each",
                    hint="group by WIDTH_BUCKET or CASE",
                )
            labels = tuple(attribute.numbers(np.arange(attribute.size)).tolist())
        elif isinstance(attribute, Items):
            labels = (False, True)
        elif isinstance(attribute, Bins):
            ranks = tuple(range(attribute.size))
        elif isinstance(attribute, Category) and are_numbers(attribute):
            ranks = tuple(label_numbers(attribute, "order"))
        return Key(labels, self._cut(Cut.by_value(axis)), ranks)

    def _case_key(self, expression: exp.Case) -> Key:
        branches = self._branches(expression)
        for _, result in branches:
            if result is not None and not is_constant(result):
                raise QueryError(
                    f"{result.sql()} is a result of CASE in GROUP BY, where constants name the "
                    "groups"
                )
        labels = [None if result is None else plain(constant(result)) for _, result in branches]
        kinds = {(is_number(each), isinstance(each, bool)) for each in labels if each is not None}
        if len(kinds) > 1:  # SQL would cast them
            raise QueryError(f"{expression.sql()} names its groups by values of different types")
        names = list(dict.fromkeys(labels))
        places = map(names.index, labels)
        parts = [(place, holds) for place, (holds, _) in zip(places, branches, strict=True)]
        return Key(
            tuple(names),
            lambda grid: sum((place * holds(grid) for place, holds in parts), grid.full(0)),
        )

    def _bucket_key(self, expression: exp.WidthBucket) -> Key:
        """WIDTH_BUCKET(x, low, high, n): 1..n for n bins of equal width, 0 below, n+1 from high
        on.
        """
        axis = column_of(expression.this, self.domain)
        if axis is None:
            raise QueryError(
                f"{expression.this.sql()} is not a column",
                hint="WIDTH_BUCKET takes a column and constants",
            )
        low, high = (float(number(expression.args[word])) for word in ("min_value", "max_value"))
        count = number(expression.args["num_buckets"])
        if not low < high or not isinstance(count, int) or not 1 <= count <= limits.KEYED_VALUES:
            raise QueryError(
                f"{expression.sql()} needs a lower end below its upper end and 1 to "
                f"{limits.KEYED_VALUES:,} buckets"
            )
        edges = [low + (high - low) * place / count for place in range(count + 1)]
        return Key(tuple(range(count + 2)), self._cut(buckets(axis, edges)))

    # numbers of a record

    def _number(self, expression: exp.Expression, *, counted: bool = False) -> Number:
        """A number of each record: a column, a constant, arithmetic, a condition, or a CASE of
        these; words only where they are counted.
        """
        inner = bare(expression)
        if isinstance(inner, exp.Case):
            branches = self._branches(inner)
            results = [(holds, result) for holds, result in branches if result is not None]
            parts = [(holds, self._number(each, counted=counted)) for holds, each in results]
            return lambda grid, fine: _chosen(
                [(holds(grid), part(grid, fine)) for holds, part in parts], grid
            )
        if counted and isinstance(inner, exp.Literal) and inner.is_string:
            return lambda grid, fine: Terms(grid.full(0.0))
        if is_aggregate(inner):
            raise QueryError(f"{inner.sql()} is an aggregate within an aggregate")
        if is_arithmetic(inner):
            return self._arithmetic(inner, counted)
        if inner.find(exp.Case) is not None:
            raise QueryError(
                f"{inner.sql()} computes with a CASE", hint="put the arithmetic into its branches"
            )
        return self._truth(inner)

    def _arithmetic(self, expression: exp.Expression, counted: bool) -> Number:
        if column_of(expression, self.domain) is None:
            check_casts(expression, self.domain)
        names = dict.fromkeys(each.name for each in expression.find_all(exp.Column, bfs=False))
        axes = [self.domain.axis_named(name) for name in names]
        for axis in axes:
            axis_numbers(axis, np.arange(1))  # a column of words or bins is refused here

        def terms(grid: Grid, fine: Axis | None) -> Terms:
            line = Terms(grid.full(0.0), Kind.DOUBLE, grid.full(1.0))
            columns = {
                axis.name: line if axis == fine else axis_numbers(axis, grid.codes[axis.name])
                for axis in axes
            }
            found = evaluated(expression, columns)
            if not np.isfinite(found.start).all():
                raise QueryError(f"{expression.sql()} has no value for some records")
            return found

        self._sums.append((axes, terms, counted))
        return terms

    def _truth(self, expression: exp.Expression) -> Number:
        """A condition as a number: 1 where it holds."""
        inner = expression.this if isinstance(expression, exp.Cast) else expression
        if isinstance(expression, exp.Cast) and expression.to.this.name not in ("INT", "BIGINT"):
            raise refusal(expression)
        holds = self.condition(inner)
        return lambda grid, fine: Terms(holds(grid).astype(np.float64))

    # aggregates

    def measure(self, expression: exp.Expression) -> tuple[Compute, Axis | None]:
        """An expression of aggregates, and the one number in it that is summed by its powers: that
        with the most values, where these are too many to be counted one by one.
        """
        compute = self._quantity(expression)
        summed = [axis for axes, _, counted in self._sums if not counted for axis in axes]
        numbers = [axis for axis in summed if isinstance(axis.attribute, Numeric)]
        fine = max(numbers, key=lambda axis: axis.size, default=None)
        if fine is None or not self._is_summed(fine, expression):
            fine, beside = None, ""
        else:
            beside = f" beside the sums of '{fine.name}'"
            self.cuts.append(Cut(fine, np.zeros_like))
        for axes, terms, _ in self._sums:
            for axis in axes:
                if axis != fine and axis.size > limits.COUNTED_VALUES:
                    raise QueryError(
                        f"'{axis.name}' has too many values to count each{beside}",
                        hint="ask for each on its own",
                    )
            self.cuts += [Cut.by_value(axis) for axis in axes if axis != fine]
            if fine is not None and not _is_line(axes, terms, fine):
                raise QueryError(
                    f"{expression.sql()} is not a·{fine.name} + b, and {fine.name} has too "
                    "many values to count each",
                    hint="sum the column itself, or CASE of its ranges",
                )
        return compute, fine

    def _is_summed(self, fine: Axis, expression: exp.Expression) -> bool:
        """Whether a number is summed by its powers: it has too many values to count each, or its
        sum comes straight from its reports, and no more is asked of it.
        """
        if fine.size > limits.SUMMED_VALUES:
            return True
        alone = expression.find(*CENTRED) is None and all(cut.axis != fine for cut in self.cuts)
        lines = all(_is_line(axes, terms, fine) for axes, terms, _ in self._sums)
        return alone and lines and self.sums(fine.name)

    def _quantity(self, expression: exp.Expression) -> Compute:
        """An expression of aggregates and constants."""
        inner = bare(expression)
        if is_constant(inner):
            value = Quantity(float(number(inner)))
            return lambda sums: value
        if isinstance(inner, exp.WithinGroup | exp.Filter) and inner.find(*QUANTILES) is not None:
            raise _alone(inner)
        if isinstance(inner, exp.Filter):
            part, where = self._quantity(inner.this), self.condition(inner.expression.this)
            return lambda sums: part(sums.within(where(sums.grid)))
        if isinstance(inner, exp.Window):
            return self._window(inner)
        if type(inner) in AGGREGATES:
            return self._aggregate(inner)
        if isinstance(inner, exp.Cast | exp.Round | exp.Floor | exp.Ceil):
            # A cast may change nothing; what would round an estimate is refused.
            counted = isinstance(bare(inner.this), exp.Count)
            kept = COUNTED_TYPES if counted else ("DOUBLE",)
            if not isinstance(inner, exp.Cast) or inner.to.this.name not in kept:
                raise QueryError(
                    f"{inner.sql()} would round an estimate",
                    hint="leave it out: rounding is for display",
                )
            return self._quantity(inner.this)
        if isinstance(inner, exp.Nullif) and constant(inner.expression) != 0:
            raise QueryError(f"{inner.sql()} is answered for 0 only")
        if type(inner) in CHANGES:
            part, change = self._quantity(inner.this), CHANGES[type(inner)]
            return lambda sums: change(part(sums))
        if type(inner) in JOINS:
            join = JOINS[type(inner)]
            left, right = self._quantity(inner.this), self._quantity(inner.expression)
            return lambda sums: join(left(sums), right(sums))
        raise QueryError(
            f"{inner.sql()} is not an aggregate that can be answered",
            hint=f"{WORDS}, and arithmetic of these",
        )

    def _window(self, expression: exp.Window) -> Compute:
        """SUM(…) OVER (): a sum over all groups of the answer, or over those that share a key."""
        summed = bare(expression.this)
        inner: Any = bare(summed.this) if isinstance(summed, exp.Sum) else None
        bottom: Any = inner.this if isinstance(inner, exp.Filter) else inner
        if type(bottom) not in AGGREGATES or not AGGREGATES[type(bottom)].adds:
            raise refusal(expression)
        partition = [bare(key) for key in expression.args.get("partition_by") or []]
        for key in partition:
            if key not in self.keys:
                raise QueryError(f"PARTITION BY {key.sql()} is not in GROUP BY")
        places = tuple(self.keys.index(key) for key in partition)
        part = self._quantity(inner)
        return lambda sums: part(sums.everyone(places))

    def _aggregate(self, expression: exp.Expression) -> Compute:
        aggregate = AGGREGATES[type(expression)]
        if aggregate.formula is None:
            raise _alone(expression)
        formula = aggregate.formula
        arguments = [expression.this, expression.args.get("expression")][: aggregate.numbers]
        numbers = [self._number(each) for each in arguments]
        if isinstance(expression, exp.CountIf):
            numbers = [self._truth(expression.this)]
        elif isinstance(expression, exp.Count):
            # Of a column or a constant it counts every record; of a CASE those with a result.
            counted = expression.this and bare(expression.this)
            if isinstance(counted, exp.Case):
                numbers = [self._number(counted, counted=True)]
            elif not (
                counted is None
                or isinstance(counted, exp.Star)
                or is_constant(counted)
                or column_of(counted, self.domain) is not None
            ):
                raise QueryError(
                    f"{expression.sql()} counts neither rows, a column, nor a CASE",
                    hint="use COUNT(*), or COUNT_IF for a condition",
                )
        return lambda sums: formula(sums.over(numbers))

    # quantiles

    def quantile(self, expression: exp.Expression) -> tuple[Axis, Wanted, Holds] | None:
        """The quantile that an expression asks for: of which number, which, and of which records;
        None where it asks for something else.
        """
        inner, ordered, where = expression, None, None
        if isinstance(inner, exp.Filter):
            inner, where = inner.this, inner.expression.this
        if isinstance(inner, exp.WithinGroup):
            entries = inner.expression.expressions
            if len(entries) != 1:
                raise QueryError("WITHIN GROUP orders by one column")
            inner, ordered = inner.this, entries[0]
        if not isinstance(inner, QUANTILES):
            return None
        axis = column_of(inner.this if ordered is None else ordered.this, self.domain)
        if axis is None:
            raise QueryError(f"{expression.sql()} needs a column of numbers")
        if not isinstance(axis.attribute, Numeric):
            raise QueryError(f"'{axis.name}' has no quantiles: it was not perturbed as a number")
        holds = everywhere(True) if where is None else self.condition(where)
        return axis, _wanted(expression, inner, ordered), holds


def _wanted(
    expression: exp.Expression, inner: exp.Expression, ordered: exp.Expression | None
) -> Wanted:
    """The share of a quantile, and between which records it lies."""
    if isinstance(inner, exp.Median):
        if ordered is not None:
            raise QueryError(f"{expression.sql()} needs no order", hint="write MEDIAN(column)")
        return Wanted(0.5)
    named = inner.args.get("quantile") or inner.args.get("expression")
    share = named if ordered is None else inner.this
    if share is None or (ordered is not None and named) or not is_constant(share):
        raise QueryError(f"{expression.sql()} needs a column and a share")
    value = constant(share)
    if not is_number(value) or not 0 < value < 1:
        raise QueryError(f"{expression.sql()} needs a share strictly between 0 and 1")
    descending = ordered is not None and bool(ordered.args.get("desc"))
    return Wanted(float(value), isinstance(inner, exp.PercentileCont), descending)


def _chosen(parts: Sequence[tuple[Mask, Terms]], grid: Grid) -> Terms:
    """The number that is each part's where the part applies, and NULL where none does."""
    start, slope, present = grid.full(0.0), grid.full(0.0), grid.full(False)
    for holds, terms in parts:
        here = holds if terms.present is None else holds & terms.present
        start = start + np.where(here, terms.start, 0.0)
        present = present | here
        if terms.slope is not None:
            slope = slope + np.where(here, terms.slope, 0.0)
    kind = max((terms.kind for _, terms in parts), default=Kind.WHOLE)
    moving = any(terms.slope is not None for _, terms in parts)
    return Terms(start, kind, slope if moving else None, present)


def _is_line(axes: Sequence[Axis], terms: Number, fine: Axis) -> bool:
    """Whether a number is a·x + b in one that is summed: that shows without counting anything."""
    if fine not in axes:
        return True
    try:
        terms(Grid.of(Cut(axis, np.zeros_like) for axis in axes), fine)
    except NotLinearError:
        return False
    return True


def _alone(expression: exp.Expression) -> QueryError:
    return QueryError(
        f"{expression.sql()} cannot be part of an expression", hint="ask for it on its own"
    )
