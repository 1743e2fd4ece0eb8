"""Distributions: the quantiles that a question asks for, group by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlglot import exp

from sfumato.domain import Domain, Numeric
from sfumato.errors import QueryError
from sfumato.estimation.quantiles import Wanted
from sfumato.mine.cube.aggregates import QUANTILES
from sfumato.mine.cube.columns import AskedColumn, Codes, Cut
from sfumato.mine.cube.conditions import Condition, condition
from sfumato.mine.cube.constants import constant, is_constant, is_number
from sfumato.mine.cube.numbers import column_name


@dataclass(frozen=True, eq=False)
class Distribution:
    """A quantile of a number, among the records of a group for which a condition holds."""

    axis: AskedColumn
    wanted: Wanted
    holds: Condition | None = None  # FILTER

    @property
    def attribute(self) -> Numeric:
        """The number."""
        assert isinstance(self.axis.attribute, Numeric)
        return self.axis.attribute

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The cuts that it needs beside those of its own number."""
        return () if self.holds is None else self.holds.cuts

    def cut(self, starts: Codes) -> Cut:
        """Its number cut at these codes."""
        return Cut(self.axis, lambda codes: np.searchsorted(starts, codes, side="right"), starts)


def distribution(expression: exp.Expression, domain: Domain) -> Distribution | None:
    """The quantile that an expression asks for; None where it asks for something else."""
    inner, ordered, where = expression, None, None
    if isinstance(inner, exp.Filter):
        inner, where = inner.this, inner.expression.this
    if isinstance(inner, exp.WithinGroup):
        inner, ordered = inner.this, _only(inner.expression.expressions)
    if not isinstance(inner, QUANTILES):
        return None
    name = column_name(inner.this if ordered is None else ordered.this, domain)
    if name is None:
        raise QueryError(f"{expression.sql()} needs a column of numbers")
    axis = AskedColumn.of(domain, name)
    if not isinstance(axis.attribute, Numeric):
        raise QueryError(f"'{name}' has no quantiles: it was not perturbed as a number")
    holds = None if where is None else condition(where, domain)
    return Distribution(axis, _wanted(expression, inner, ordered), holds)


def _only(entries: list[exp.Expression]) -> exp.Expression:
    if len(entries) != 1:
        raise QueryError("WITHIN GROUP orders by one column")
    return entries[0]


def _wanted(
    expression: exp.Expression, inner: exp.Expression, ordered: exp.Expression | None
) -> Wanted:
    if isinstance(inner, exp.Median):
        if ordered is not None:
            raise QueryError(f"{expression.sql()} needs no order", hint="write MEDIAN(column)")
        return Wanted(0.5)
    share = _share(expression, inner, ordered)
    descending = ordered is not None and bool(ordered.args.get("desc"))
    return Wanted(share, isinstance(inner, exp.PercentileCont), descending)


def _share(
    expression: exp.Expression, inner: exp.Expression, ordered: exp.Expression | None
) -> float:
    named = inner.args.get("quantile") or inner.args.get("expression")
    share = named if ordered is None else inner.this
    if share is None or (ordered is not None and named) or not is_constant(share):
        raise QueryError(f"{expression.sql()} needs a column and a share")
    value = constant(share)
    if not is_number(value) or not 0 < value < 1:
        raise QueryError(f"{expression.sql()} needs a share strictly between 0 and 1")
    return float(value)
