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

Condition = Callable[[Grid], NDArray[np.bool_]]

COMPARISONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.LT: ("<", ">"), exp.LTE: ("<=", ">="), exp.GT: (">", "<"), exp.GTE: (">=", "<="),
    exp.EQ: ("in", "in"), exp.NEQ: ("not in", "not in"),
}  # fmt: skip  # with what they become when the constant stands on the left


@dataclass(frozen=True)
class Key:
    """A grouping: the label of each group, and for each cell which group it belongs to."""

    labels: tuple[Any, ...]
    index: Callable[[Grid], NDArray[Any]]


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
        return lambda grid: np.full((1,) * len(grid.columns), bool(expression.this))
    return _comparison(expression, columns)


def _comparison(expression: exp.Expression, columns: Columns) -> Condition:
    if isinstance(expression, exp.Between):
        low, high = constant(expression.args["low"]), constant(expression.args["high"])
        return columns.condition(_column(expression.this), "between", [low, high])
    if isinstance(expression, exp.In):
        if not expression.expressions:
            raise QueryError(f"{expression.sql()} lists no values")
        return columns.condition(_column(expression.this), "in", [constant(value) for value in expression.expressions])
    if isinstance(expression, exp.Column):
        return columns.condition(expression.name, "in", [True])
    for kind, (forward, backward) in COMPARISONS.items():
        if type(expression) is kind:
            left, right = _unwrapped(expression.this), _unwrapped(expression.expression)
            if isinstance(left, exp.Column):
                return columns.condition(left.name, forward, [constant(right)])
            if isinstance(right, exp.Column):
                return columns.condition(right.name, backward, [constant(left)])
            truth = _constants_compare(forward, constant(left), constant(right))
            return lambda grid: np.full((1,) * len(grid.columns), truth)
    raise QueryError(
        f"{expression.sql()} is not a comparison of a column with constants",
        hint="use =, <>, <, <=, >, >=, BETWEEN, IN, NOT, AND, OR",
    )


def _unwrapped(expression: exp.Expression) -> exp.Expression:
    while isinstance(expression, exp.Paren | exp.Cast):
        expression = expression.this
    return expression


def _constants_compare(operator: str, left: Any, right: Any) -> bool:
    return {
        "in": left == right, "not in": left != right,
        "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
    }[operator]  # fmt: skip


def _column(expression: exp.Expression) -> str:
    inner = _unwrapped(expression)
    if not isinstance(inner, exp.Column):
        raise QueryError(f"{expression.sql()} is not a column", hint="compare a column with constants")
    return inner.name


def constant(expression: exp.Expression) -> Any:
    """The value of a literal."""
    inner = _unwrapped(expression)
    if isinstance(inner, exp.Neg):
        return -constant(inner.this)
    if isinstance(inner, exp.Boolean):
        return bool(inner.this)
    if isinstance(inner, exp.Literal):
        if inner.is_string:
            return inner.name
        number = float(inner.name)
        return int(number) if number.is_integer() and "." not in inner.name and "e" not in inner.name.lower() else number
    if isinstance(inner, exp.Column):
        raise QueryError(
            f"{inner.sql()} is compared with another column", hint="compare a column with constants; words go in single quotes"
        )
    raise QueryError(f"{expression.sql()} is not a constant")


def key(expression: exp.Expression, columns: Columns) -> Key:
    """The groups that an expression of GROUP BY makes."""
    inner = _unwrapped(expression)
    if isinstance(inner, exp.Column):
        return _column_key(inner.name, columns)
    if isinstance(inner, exp.Case):
        return _case_key(inner, columns)
    if isinstance(inner, exp.WidthBucket):
        return _bucket_key(inner, columns)
    holds = condition(inner, columns)
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
    tests, labels = case_branches(expression, columns)
    names = list(dict.fromkeys(labels))
    return Key(tuple(names), lambda grid: choose(grid, tests, [names.index(label) for label in labels]).astype(np.intp))


def case_branches(expression: exp.Case, columns: Columns) -> tuple[list[Condition], list[Any]]:
    """The conditions of a CASE and its results, that of ELSE last (None where there is none)."""
    if expression.this is not None:
        tests = [
            condition(exp.EQ(this=expression.this.copy(), expression=branch.this.copy()), columns)
            for branch in expression.args["ifs"]
        ]
    else:
        tests = [condition(branch.this, columns) for branch in expression.args["ifs"]]
    default = expression.args.get("default")
    results = [constant(branch.args["true"]) for branch in expression.args["ifs"]]
    return tests, [*results, None if default is None else constant(default)]


def choose(grid: Grid, tests: list[Condition], results: list[Any]) -> NDArray[Any]:
    """The result of the first condition that holds, cell by cell; of none, the last."""
    return np.select([np.broadcast_to(test(grid), grid.shape) for test in tests], results[:-1], results[-1])


def _bucket_key(expression: exp.WidthBucket, columns: Columns) -> Key:
    """WIDTH_BUCKET(x, low, high, n): 1..n for n bins of equal width, 0 below, n+1 from high on."""
    column = columns.column(_column(expression.this))
    low, high = (float(constant(expression.args[word])) for word in ("min_value", "max_value"))
    count = int(constant(expression.args["num_buckets"]))
    if not low < high or count < 1:
        raise QueryError(f"{expression.sql()} needs a lower end below its upper end and at least one bucket")
    edges = [low + (high - low) * place / count for place in range(count + 1)]
    tests = [columns.condition(column.name, ">=", [edge]) for edge in edges if _inside(column.attribute, edge)]
    if not tests:
        numbers_of(column, np.arange(1))

    def index(grid: Grid) -> NDArray[Any]:
        below = sum(1 for edge in edges if _before(column.attribute, edge))
        return below + sum((test(grid).astype(np.intp) for test in tests), np.zeros((1,) * len(grid.columns), np.intp))

    return Key(tuple(range(count + 2)), index)


def _ends(attribute: Any) -> tuple[float, float]:
    return (attribute.min, attribute.max) if isinstance(attribute, Numeric) else (attribute.edges[0], attribute.edges[-1])


def _inside(attribute: Any, edge: float) -> bool:
    if not hasattr(attribute, "min") and not hasattr(attribute, "edges"):
        raise QueryError(f"'{attribute.name}' holds no numbers, so it has no buckets")
    low, high = _ends(attribute)
    return low < edge <= high


def _before(attribute: Any, edge: float) -> bool:
    return edge <= _ends(attribute)[0]
