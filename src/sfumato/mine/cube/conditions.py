"""Conditions of a question: which cells of its grid they hold in, and which cuts they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.mine.cube.accepted import refusal
from sfumato.mine.cube.columns import AskedColumn, Cut, Grid, Mask
from sfumato.mine.cube.comparing import comparison, likeness
from sfumato.mine.cube.constants import COMPARISONS, bare, compare, constant, is_constant
from sfumato.mine.cube.derived import Derived
from sfumato.mine.cube.numbers import column_name


@dataclass(frozen=True, eq=False)
class Condition:
    """A Boolean of each record: the cuts after which it is the same within a cell, and in which
    cells it holds.
    """

    cuts: tuple[Cut, ...]
    holds: Callable[[Grid], Mask]

    @classmethod
    def of(cls, cut: Cut) -> Condition:
        """The condition that is what a cut tells."""
        return cls((cut,), lambda grid: np.asarray(cut.tells(grid.axis(cut.axis.name)), dtype=bool))

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.cuts + other.cuts, lambda grid: self.holds(grid) & other.holds(grid))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.cuts + other.cuts, lambda grid: self.holds(grid) | other.holds(grid))

    def __invert__(self) -> Condition:
        return Condition(self.cuts, lambda grid: ~self.holds(grid))


def everywhere(truth: bool) -> Condition:
    """The condition that holds for everyone, or for no one."""
    return Condition((), lambda grid: grid.full(truth))


@dataclass(frozen=True)
class CaseBranch:
    """One result of a CASE, and where it is the one that applies."""

    holds: Condition
    result: exp.Expression | None  # None for NULL


def condition(expression: exp.Expression, domain: Domain) -> Condition:
    """Where a Boolean expression holds."""
    inner = bare(expression)
    if isinstance(inner, exp.And):
        return condition(inner.this, domain) & condition(inner.expression, domain)
    if isinstance(inner, exp.Or):
        return condition(inner.this, domain) | condition(inner.expression, domain)
    if isinstance(inner, exp.Not):
        return ~condition(inner.this, domain)
    if isinstance(inner, exp.Boolean):
        return everywhere(bool(inner.this))
    if _compares_truth(inner):
        wanted = bool(inner.expression.this) != isinstance(inner, exp.NEQ)
        tested = condition(inner.this, domain)
        return tested if wanted else ~tested
    if isinstance(inner, exp.Like | exp.ILike | exp.Escape):
        return _like(inner, domain)
    return _comparison(inner, domain)


def _compares_truth(expression: exp.Expression) -> bool:
    """Whether a condition is compared with TRUE or FALSE; of a column these may be labels."""
    if not isinstance(expression, exp.Is | exp.EQ | exp.NEQ) or not isinstance(
        expression.expression, exp.Boolean
    ):
        return False
    return isinstance(expression, exp.Is) or not isinstance(
        bare(expression.this), exp.Column | exp.Boolean
    )


def _like(expression: exp.Expression, domain: Domain) -> Condition:
    escape = None
    like = expression
    if isinstance(expression, exp.Escape):
        like, escape = bare(expression.this), constant(expression.expression)
    if not isinstance(like, exp.Like | exp.ILike) or not _is_letter(escape):
        raise refusal(expression)
    pattern, name = constant(like.expression), column_name(like.this, domain)
    if name is None or not isinstance(pattern, str):
        raise QueryError(f"{like.sql()} does not compare a column with a pattern in quotes")
    folded = isinstance(like, exp.ILike)
    found = Condition.of(
        likeness(AskedColumn.of(domain, name), pattern, escape=escape, folded=folded)
    )
    return ~found if like.args.get("negate") else found


def _is_letter(escape: Any) -> bool:
    return escape is None or (isinstance(escape, str) and len(escape) == 1)


def _comparison(expression: exp.Expression, domain: Domain) -> Condition:
    if isinstance(expression, exp.Between):
        return _between(expression, domain)
    if isinstance(expression, exp.In):
        if not expression.expressions:
            raise QueryError(f"{expression.sql()} lists no values")
        listed = [constant(value) for value in expression.expressions]
        return _compared(expression.this, "in", listed, domain)
    if isinstance(expression, exp.Column):
        return Condition.of(comparison(AskedColumn.of(domain, expression.name), "in", [True]))
    if type(expression) in COMPARISONS:
        return _two_sided(expression, domain)
    raise QueryError(
        f"{expression.sql()} is not a comparison of a column with constants",
        hint="use =, <>, <, <=, >, >=, BETWEEN, IN, LIKE, NOT, AND, OR",
    )


def _two_sided(expression: exp.Expression, domain: Domain) -> Condition:
    forward, backward = COMPARISONS[type(expression)]
    left, right = expression.this, expression.expression
    if left.find(exp.Column) is not None:
        return _compared(left, forward, [constant(right)], domain)
    if right.find(exp.Column) is not None:
        return _compared(right, backward, [constant(left)], domain)
    return everywhere(compare(forward, constant(left), constant(right)) is True)


def _between(expression: exp.Between, domain: Domain) -> Condition:
    low, high = expression.args["low"], expression.args["high"]
    if is_constant(low) and is_constant(high) and not is_constant(expression.this):
        return _compared(expression.this, "between", [constant(low), constant(high)], domain)
    above = exp.GTE(this=expression.this.copy(), expression=low.copy())
    below = exp.LTE(this=expression.this.copy(), expression=high.copy())
    return _comparison(above, domain) & _comparison(below, domain)


def _compared(
    expression: exp.Expression, operator: str, values: list[Any], domain: Domain
) -> Condition:
    """A column, or a number computed from one, compared with constants."""
    name = column_name(expression, domain)
    if name is not None:
        return Condition.of(comparison(AskedColumn.of(domain, name), operator, values))
    derived = Derived.of(expression, domain)
    if derived is None:
        raise QueryError(
            f"{expression.sql()} is not a column", hint="compare a column with constants"
        )
    return Condition.of(derived.condition(operator, values))


def case_branches(expression: exp.Case, domain: Domain) -> list[CaseBranch]:
    """The results of a CASE, that of ELSE last, each with where it is the first that applies."""
    rest = everywhere(True)
    branches = []
    for branch in expression.args["ifs"]:
        test = branch.this
        if expression.this is not None:
            test = exp.EQ(this=expression.this.copy(), expression=test.copy())
        holds = condition(test, domain)
        branches.append(CaseBranch(rest & holds, _result(branch.args["true"])))
        rest = rest & ~holds
    return [*branches, CaseBranch(rest, _result(expression.args.get("default")))]


def _result(expression: exp.Expression | None) -> exp.Expression | None:
    inner = None if expression is None else bare(expression)
    return None if isinstance(inner, exp.Null) else inner
