"""Conditions and groups of a question, turned into functions on its grid of cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Items, Numeric
from sfumato.errors import QueryError
from sfumato.mine.cube.columns import Columns, Grid, check_keyed, numbers_of
from sfumato.mine.cube.derived import STEPS, Derived, is_whole_type, keeps_numbers
from sfumato.mine.cube.grammar import bare

Condition = Callable[[Grid], NDArray[np.bool_]]

COMPARISONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.EQ: ("in", "in"),
    exp.NEQ: ("not in", "not in"),
}  # with what they become when the constant stands on the left


@dataclass(frozen=True)
class Key:
    """A grouping: the label of each group, and for each cell which group it belongs to."""

    labels: tuple[Any, ...]
    index: Callable[[Grid], NDArray[Any]]


@dataclass(frozen=True)
class Branch:
    """One result of a CASE, and the cells where it is the one that applies."""

    holds: Condition
    result: exp.Expression | None  # None for NULL


def condition(expression: exp.Expression, columns: Columns) -> Condition:
    """Where a Boolean expression holds, cell by cell; each comparison cuts its column."""
    if isinstance(expression, exp.Paren):
        return condition(expression.this, columns)
    if isinstance(expression, exp.And | exp.Or):
        left, right = condition(expression.this, columns), condition(expression.expression, columns)
        join = np.logical_and if isinstance(expression, exp.And) else np.logical_or
        return lambda grid: join(left(grid), right(grid))
    if isinstance(expression, exp.Not):
        inner = condition(expression.this, columns)
        return lambda grid: ~inner(grid)
    if isinstance(expression, exp.Boolean):
        return _everywhere(bool(expression.this))
    if _compares_truth(expression):
        wanted = bool(expression.expression.this) != isinstance(expression, exp.NEQ)
        inner = condition(expression.this, columns)
        return lambda grid: inner(grid) == wanted
    return _comparison(expression, columns)


def _compares_truth(expression: exp.Expression) -> bool:
    """Whether a condition is compared with TRUE or FALSE; of a column these may be labels."""
    if not isinstance(expression, exp.Is | exp.EQ | exp.NEQ) or not isinstance(
        expression.expression, exp.Boolean
    ):
        return False
    return isinstance(expression, exp.Is) or not isinstance(
        bare(expression.this), exp.Column | exp.Boolean
    )


def _everywhere(truth: bool) -> Condition:
    return lambda grid: np.full((1,) * len(grid.columns), truth)


def _comparison(expression: exp.Expression, columns: Columns) -> Condition:
    if isinstance(expression, exp.Between):
        return _between(expression, columns)
    if isinstance(expression, exp.In):
        if not expression.expressions:
            raise QueryError(f"{expression.sql()} lists no values")
        return _compared(
            expression.this, "in", [constant(value) for value in expression.expressions], columns
        )
    if isinstance(expression, exp.Column):
        return columns.condition(expression.name, "in", [True])
    for kind, (forward, backward) in COMPARISONS.items():
        if type(expression) is kind:
            left, right = expression.this, expression.expression
            if left.find(exp.Column) is not None:
                return _compared(left, forward, [constant(right)], columns)
            if right.find(exp.Column) is not None:
                return _compared(right, backward, [constant(left)], columns)
            return _everywhere(
                _constants_compare(expression, forward, constant(left), constant(right))
            )
    raise QueryError(
        f"{expression.sql()} is not a comparison of a column with constants",
        hint="use =, <>, <, <=, >, >=, BETWEEN, IN, NOT, AND, OR",
    )


def _between(expression: exp.Between, columns: Columns) -> Condition:
    low, high = expression.args["low"], expression.args["high"]
    if low.find(exp.Column) is None and high.find(exp.Column) is None:
        return _compared(expression.this, "between", [constant(low), constant(high)], columns)
    above = exp.GTE(this=expression.this.copy(), expression=low.copy())
    return condition(
        exp.And(
            this=above, expression=exp.LTE(this=expression.this.copy(), expression=high.copy())
        ),
        columns,
    )


def _compared(
    expression: exp.Expression, operator: str, values: list[Any], columns: Columns
) -> Condition:
    """A column, or a number computed from one, compared with constants."""
    name = _column_name(expression, columns)
    if name is not None:
        return columns.condition(name, operator, values)
    derived = Derived.of(expression, columns)
    if derived is None:
        raise QueryError(
            f"{expression.sql()} is not a column", hint="compare a column with constants"
        )
    return derived.condition(operator, values)


def _column_name(expression: exp.Expression, columns: Columns) -> str | None:
    """The column that an expression is, bare or in parentheses or cast to a type that leaves it as
    it is.
    """
    inner = bare(expression)
    if isinstance(inner, exp.Cast):
        name = _column_name(inner.this, columns)
        attribute = None if name is None else columns.column(name).attribute
        fractions = isinstance(attribute, Numeric) and not attribute.whole
        return name if keeps_numbers(inner) or (is_whole_type(inner) and not fractions) else None
    return inner.name if isinstance(inner, exp.Column) else None


def _unwrapped(expression: exp.Expression) -> exp.Expression:
    while isinstance(expression, exp.Paren | exp.Cast):
        expression = expression.this
    return expression


def _constants_compare(expression: exp.Expression, operator: str, left: Any, right: Any) -> bool:
    try:
        return {
            "in": lambda: left == right,
            "not in": lambda: left != right,
            "<": lambda: left < right,
            "<=": lambda: left <= right,
            ">": lambda: left > right,
            ">=": lambda: left >= right,
        }[operator]()
    except TypeError:
        raise QueryError(f"{expression.sql()} compares a word with a number") from None


def is_constant(expression: exp.Expression) -> bool:
    """Whether an expression has no column, so that it is the same for everyone."""
    return expression.find(exp.Column, exp.Star, exp.AggFunc) is None


def constant(expression: exp.Expression) -> Any:
    """The value of a literal, or of arithmetic of literals; None of NULL."""
    inner = _unwrapped(expression)
    if isinstance(inner, exp.Null):
        return None
    if isinstance(inner, exp.Boolean):
        return bool(inner.this)
    if isinstance(inner, exp.Literal):
        if inner.is_string:
            return inner.name
        number = float(inner.name)
        return (
            int(number)
            if number.is_integer() and "." not in inner.name and "e" not in inner.name.lower()
            else number
        )
    if isinstance(inner, exp.Neg):
        return -_number(inner.this)
    if inner.find(exp.Column) is None and type(inner) in STEPS:
        return _folded(inner)
    if inner.find(exp.Column) is None and type(inner) in COMPARISONS:
        return _constants_compare(
            inner, COMPARISONS[type(inner)][0], constant(inner.this), constant(inner.expression)
        )
    if inner.find(exp.Column) is not None:
        raise QueryError(
            f"{inner.sql()} is compared with another column",
            hint="compare a column with constants; words go in single quotes",
        )
    raise QueryError(f"{expression.sql()} is not a constant")


def _folded(expression: exp.Expression) -> Any:
    left, right = _number(expression.this), _number(expression.expression)
    with np.errstate(all="ignore"):
        value = float(STEPS[type(expression)](np.asarray(left), np.asarray(right)))
    if not np.isfinite(value):
        raise QueryError(f"{expression.sql()} has no value")
    return (
        int(value)
        if isinstance(left, int) and isinstance(right, int) and value.is_integer()
        else value
    )


def _number(expression: exp.Expression) -> Any:
    value = constant(expression)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueryError(f"{expression.sql()} is not a number")
    return value


def key(expression: exp.Expression, columns: Columns) -> Key:
    """The groups that an expression of GROUP BY makes."""
    name = _column_name(expression, columns)
    if name is not None:
        return _column_key(name, columns)
    if isinstance(expression, exp.Case):
        return _case_key(expression, columns)
    if isinstance(expression, exp.WidthBucket):
        return _bucket_key(expression, columns)
    if is_constant(expression):
        return Key(
            (constant(expression),), lambda grid: np.zeros((1,) * len(grid.columns), np.intp)
        )
    derived = Derived.of(expression, columns)
    if derived is not None:
        return Key(*derived.groups())
    holds = condition(expression, columns)
    return Key((False, True), lambda grid: holds(grid).astype(np.intp))


def _column_key(name: str, columns: Columns) -> Key:
    column = columns.column(name)
    check_keyed(column)
    column.keyed = True
    attribute = column.attribute
    labels: tuple[Any, ...] = attribute.labels
    if isinstance(attribute, Items):
        labels = (False, True)
    elif isinstance(attribute, Numeric):
        labels = tuple(attribute.numbers(np.arange(attribute.size)).tolist())
    return Key(labels, lambda grid: grid.axis(column.name))


def _case_key(expression: exp.Case, columns: Columns) -> Key:
    branches = case_branches(expression, columns)
    labels = [None if branch.result is None else constant(branch.result) for branch in branches]
    names = list(dict.fromkeys(labels))

    def index(grid: Grid) -> NDArray[Any]:
        places = (
            (names.index(label), branch.holds(grid))
            for label, branch in zip(labels, branches, strict=True)
        )
        return sum(
            (place * holds for place, holds in places), np.zeros((1,) * len(grid.columns), np.intp)
        )

    return Key(tuple(names), index)


def case_branches(expression: exp.Case, columns: Columns) -> list[Branch]:
    """The results of a CASE, that of ELSE last, each with the cells where it is the first that
    applies.
    """
    rest: Condition = _everywhere(True)
    branches = []
    for branch in expression.args["ifs"]:
        test = branch.this
        if expression.this is not None:
            test = exp.EQ(this=expression.this.copy(), expression=test.copy())
        holds = condition(test, columns)
        branches.append(Branch(_both(rest, holds), _result(branch.args["true"])))
        rest = _both(rest, holds, negated=True)
    return [*branches, Branch(rest, _result(expression.args.get("default")))]


def _both(first: Condition, second: Condition, *, negated: bool = False) -> Condition:
    return lambda grid: first(grid) & (second(grid) != negated)


def _result(expression: exp.Expression | None) -> exp.Expression | None:
    inner = None if expression is None else bare(expression)
    return None if isinstance(inner, exp.Null) else inner


def _bucket_key(expression: exp.WidthBucket, columns: Columns) -> Key:
    """WIDTH_BUCKET(x, low, high, n): 1..n for n bins of equal width, 0 below, n+1 from high on."""
    column = columns.column(_bucketed(expression.this, columns))
    low, high = (float(constant(expression.args[word])) for word in ("min_value", "max_value"))
    count = int(constant(expression.args["num_buckets"]))
    if not low < high or count < 1:
        raise QueryError(
            f"{expression.sql()} needs a lower end below its upper end and at least one bucket"
        )
    edges = [low + (high - low) * place / count for place in range(count + 1)]
    tests = [
        columns.condition(column.name, ">=", [edge])
        for edge in edges
        if _inside(column.attribute, edge)
    ]
    if not tests:
        numbers_of(column, np.arange(1))

    def index(grid: Grid) -> NDArray[Any]:
        below = sum(1 for edge in edges if _before(column.attribute, edge))
        return below + sum(
            (test(grid).astype(np.intp) for test in tests),
            np.zeros((1,) * len(grid.columns), np.intp),
        )

    return Key(tuple(range(count + 2)), index)


def _bucketed(expression: exp.Expression, columns: Columns) -> str:
    name = _column_name(expression, columns)
    if name is None:
        raise QueryError(
            f"{expression.sql()} is not a column", hint="WIDTH_BUCKET takes a column and constants"
        )
    return name


def _ends(attribute: Any) -> tuple[float, float]:
    return (
        (attribute.min, attribute.max)
        if isinstance(attribute, Numeric)
        else (attribute.edges[0], attribute.edges[-1])
    )


def _inside(attribute: Any, edge: float) -> bool:
    if not hasattr(attribute, "min") and not hasattr(attribute, "edges"):
        raise QueryError(f"'{attribute.name}' holds no numbers, so it has no buckets")
    low, high = _ends(attribute)
    return low < edge <= high


def _before(attribute: Any, edge: float) -> bool:
    return edge <= _ends(attribute)[0]
