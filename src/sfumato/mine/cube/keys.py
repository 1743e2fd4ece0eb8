"""Keys: what GROUP BY groups by, each with the labels of its groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Attribute, Bins, Category, Domain, Items, Numeric
from sfumato.errors import QueryError
from sfumato.mine.cube.columns import AskedColumn, Cut, Grid, check_keyed
from sfumato.mine.cube.comparing import are_numbers, comparison, ends, label_numbers
from sfumato.mine.cube.conditions import Condition, case_branches, condition
from sfumato.mine.cube.constants import constant, is_constant, is_number, number, plain
from sfumato.mine.cube.derived import Derived
from sfumato.mine.cube.numbers import column_name


@dataclass(frozen=True, eq=False)
class Key:
    """A grouping: the label of each group, for each cell which group it belongs to, and the cuts
    after which that is the same within a cell.
    """

    labels: tuple[Any, ...]
    cuts: tuple[Cut, ...]
    index: Callable[[Grid], NDArray[Any]]
    ranks: tuple[Any, ...] | None = None  # by which labels are sorted, where not by themselves

    @classmethod
    def of(cls, labels: tuple[Any, ...], cut: Cut, ranks: tuple[Any, ...] | None = None) -> Key:
        """The key that is what a cut tells."""
        return cls(labels, (cut,), lambda grid: cut.tells(grid.axis(cut.axis.name)), ranks)


def key(expression: exp.Expression, domain: Domain) -> Key:
    """The groups that an expression of GROUP BY makes."""
    name = column_name(expression, domain)
    if name is not None:
        return _column_key(AskedColumn.of(domain, name))
    if isinstance(expression, exp.Case):
        return _case_key(expression, domain)
    if isinstance(expression, exp.WidthBucket):
        return _bucket_key(expression, domain)
    if is_constant(expression):
        return Key((plain(constant(expression)),), (), lambda grid: grid.full(0))
    derived = Derived.of(expression, domain)
    if derived is not None:
        return Key.of(*derived.groups())
    holds = condition(expression, domain)
    return Key((False, True), holds.cuts, lambda grid: holds.holds(grid).astype(np.intp))


def _column_key(axis: AskedColumn) -> Key:
    check_keyed(axis)
    attribute = axis.attribute
    labels: tuple[Any, ...] = attribute.labels
    if isinstance(attribute, Items):
        labels = (False, True)
    elif isinstance(attribute, Numeric):
        labels = tuple(attribute.numbers(np.arange(attribute.size)).tolist())
    return Key.of(labels, Cut.by_value(axis), _ranks(attribute))


def _ranks(attribute: Attribute) -> tuple[Any, ...] | None:
    """Bins are sorted as they lie, and words that are numbers as numbers."""
    if isinstance(attribute, Bins):
        return tuple(range(attribute.size))
    if isinstance(attribute, Category) and are_numbers(attribute):
        return tuple(label_numbers(attribute, "order"))
    return None


def _case_key(expression: exp.Case, domain: Domain) -> Key:
    branches = case_branches(expression, domain)
    labels = [None if branch.result is None else _label(branch.result) for branch in branches]
    _check_alike(expression, labels)
    names = list(dict.fromkeys(labels))

    def index(grid: Grid) -> NDArray[Any]:
        parts = zip(labels, branches, strict=True)
        chosen = (names.index(label) * branch.holds.holds(grid) for label, branch in parts)
        return sum(chosen, grid.full(0))

    return Key(tuple(names), tuple(cut for each in branches for cut in each.holds.cuts), index)


def _label(expression: exp.Expression) -> Any:
    if not is_constant(expression):
        raise QueryError(
            f"{expression.sql()} is a result of CASE in GROUP BY, where constants name the groups"
        )
    return plain(constant(expression))


def _check_alike(expression: exp.Case, labels: list[Any]) -> None:
    """Refuse a CASE that results in words here and numbers there: SQL would cast them."""
    kinds = {is_number(label) for label in labels if label is not None}
    truths = {isinstance(label, bool) for label in labels if label is not None}
    if len(kinds) > 1 or len(truths) > 1:
        raise QueryError(f"{expression.sql()} names its groups by values of different types")


def _bucket_key(expression: exp.WidthBucket, domain: Domain) -> Key:
    """WIDTH_BUCKET(x, low, high, n): 1..n for n bins of equal width, 0 below, n+1 from high on."""
    name = column_name(expression.this, domain)
    if name is None:
        raise QueryError(
            f"{expression.this.sql()} is not a column",
            hint="WIDTH_BUCKET takes a column and constants",
        )
    axis = AskedColumn.of(domain, name)
    least, most = ends(axis.attribute)
    low, high, count = _buckets(expression)
    edges = [low + (high - low) * place / count for place in range(count + 1)]
    tests = [Condition.of(comparison(axis, ">=", [edge])) for edge in edges if least < edge <= most]
    below = sum(edge <= least for edge in edges)

    def index(grid: Grid) -> NDArray[Any]:
        return sum((test.holds(grid).astype(np.intp) for test in tests), grid.full(below))

    everyone = Cut(axis, np.zeros_like)
    cuts = (everyone, *(cut for test in tests for cut in test.cuts))
    return Key(tuple(range(count + 2)), cuts, index)


def _buckets(expression: exp.WidthBucket) -> tuple[float, float, int]:
    low, high = (float(number(expression.args[word])) for word in ("min_value", "max_value"))
    count = number(expression.args["num_buckets"])
    if not low < high or not isinstance(count, int) or count < 1:
        raise QueryError(
            f"{expression.sql()} needs a lower end below its upper end and at least one bucket"
        )
    return low, high, count
