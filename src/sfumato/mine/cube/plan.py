"""Plan: what a parsed question needs counted, and how each of its outputs follows; a value, made
before anything is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.mine.cube.aggregates import is_aggregate
from sfumato.mine.cube.columns import AskedColumn, Cut, Grid, Mask
from sfumato.mine.cube.conditions import Condition, condition
from sfumato.mine.cube.constants import COMPARISONS, bare, compare, constant, is_constant, plain
from sfumato.mine.cube.distributions import Distribution, distribution
from sfumato.mine.cube.grammar import Query
from sfumato.mine.cube.keys import Key, key
from sfumato.mine.cube.measures import Measure, measure


@dataclass(frozen=True)
class Group:
    """One group of a grouping: the place of the label that each of its keys has."""

    labels: tuple[tuple[int, int], ...] = ()

    @cached_property
    def at(self) -> dict[int, int]:
        """The label of each key, by the place of the key."""
        return dict(self.labels)


@dataclass(frozen=True, eq=False)
class Frame:
    """The cells that one output needs: those of WHERE and GROUP BY, and its own."""

    where: Condition | None
    keys: tuple[Key, ...]
    cuts: tuple[Cut, ...] = ()  # of the output itself
    fine: AskedColumn | None = None  # a number whose sums are needed

    @cached_property
    def grid(self) -> Grid:
        """The joint cells."""
        where = () if self.where is None else self.where.cuts
        keys = (cut for each in self.keys for cut in each.cuts)
        return Grid.of((*where, *keys, *self.cuts))

    @cached_property
    def inside(self) -> Mask:
        """The cells for which WHERE holds."""
        return self.grid.full(True) if self.where is None else self.where.holds(self.grid)

    @cached_property
    def indices(self) -> list[NDArray[Any]]:
        """For each key, the place of the label that each cell has."""
        return [each.index(self.grid) for each in self.keys]

    def mask(self, group: Group) -> Mask:
        """The cells of a group."""
        mask = self.inside
        for place, label in group.labels:
            mask = mask & (self.indices[place] == label)
        return mask

    def cut(self, more: Sequence[Cut], fine: AskedColumn | None = None) -> Frame:
        """The same frame with further cuts; itself where there are none."""
        if not more and fine is None:
            return self
        return Frame(self.where, self.keys, (*self.cuts, *more), fine)


@dataclass(frozen=True, eq=False)
class KeyEntry:
    """An output that is the label of its group; None where the grouping leaves the key out."""

    place: int


@dataclass(frozen=True, eq=False)
class Fixed:
    """An output that is the same in every group."""

    value: Any


@dataclass(frozen=True, eq=False)
class Estimated:
    """An output that is computed from counts and sums."""

    frame: Frame
    measure: Measure


@dataclass(frozen=True, eq=False)
class Quantile:
    """An output that is a quantile."""

    frame: Frame
    distribution: Distribution


Entry = KeyEntry | Fixed | Estimated | Quantile
Values = Callable[[Entry], Any]
Truth = bool | None  # None is SQL's unknown
Predicate = Callable[[Values], Truth]


@dataclass(frozen=True, eq=False)
class QuestionPlan:
    """A question in terms of the domain: what every output is, group by group."""

    asked: Query
    base: Frame
    entries: Mapping[exp.Expression, Entry]
    having: Predicate | None
    conditions: tuple[Entry, ...] = ()  # what HAVING compares

    @classmethod
    def of(cls, asked: Query, domain: Domain) -> QuestionPlan:
        """The plan of a question; whatever cannot be answered is refused here."""
        where = None if asked.where is None else condition(asked.where, domain)
        base = Frame(where, tuple(key(each, domain) for each in asked.keys))
        entries: dict[exp.Expression, Entry] = {}

        def entry(expression: exp.Expression) -> Entry:
            expression = bare(expression)
            if expression not in entries:
                entries[expression] = _entry(expression, asked, base, domain)
            return entries[expression]

        for expression in (*(each.expression for each in asked.outputs), *_sorted_by(asked)):
            entry(expression)
        if asked.having is None:
            return cls(asked, base, entries, None)
        compared: list[Entry] = []
        having = _predicate(asked.having, asked.keys, lambda each: _listed(entry(each), compared))
        return cls(asked, base, entries, having, tuple(compared))

    def entry(self, expression: exp.Expression) -> Entry:
        """What an expression of the question is."""
        return self.entries[bare(expression)]

    @property
    def frames(self) -> list[Frame]:
        """What must be counted before anything else."""
        measured = [each.frame for each in self.entries.values() if isinstance(each, Estimated)]
        return [self.base, *measured]


def _listed(entry: Entry, listed: list[Entry]) -> Entry:
    listed.append(entry)
    return entry


def _sorted_by(asked: Query) -> list[exp.Expression]:
    return [order.expression for order in asked.order]


def _entry(expression: exp.Expression, asked: Query, base: Frame, domain: Domain) -> Entry:
    """What an expression is in a group: a label where it is a key, itself where it is constant,
    else an estimate.
    """
    if expression in asked.keys:
        return KeyEntry(asked.keys.index(expression))
    if is_constant(expression):
        return Fixed(plain(constant(expression)))
    if isinstance(expression, exp.Column) or not is_aggregate(expression):
        raise _not_grouped(expression, domain)
    quantile = distribution(expression, domain)
    if quantile is not None:
        return Quantile(base.cut(quantile.cuts), quantile)
    found = measure(expression, domain, asked.keys)
    return Estimated(base.cut(found.cuts, found.fine), found)


def _not_grouped(expression: exp.Expression, domain: Domain) -> Exception:
    if isinstance(expression, exp.Column):
        AskedColumn.of(domain, expression.name)  # an unknown column says so, with its near miss
        return QueryError(
            f"column '{expression.name}' is neither grouped nor aggregated",
            hint="add it to GROUP BY",
        )
    return QueryError(f"{expression.sql()} is neither grouped nor an aggregate")


def _predicate(
    expression: exp.Expression,
    keys: Sequence[exp.Expression],
    entry: Callable[[exp.Expression], Entry],
) -> Predicate:
    """A condition on the answers of a group, in SQL's three-valued logic."""
    inner = bare(expression)
    if isinstance(inner, exp.Not):
        denied = _predicate(inner.this, keys, entry)
        return lambda values: _negated(denied(values))
    if isinstance(inner, exp.And | exp.Or):
        left, right = (_predicate(part, keys, entry) for part in (inner.this, inner.expression))
        if isinstance(inner, exp.And):
            return lambda values: _least(left(values), right(values))
        return lambda values: _negated(_least(_negated(left(values)), _negated(right(values))))
    if inner in keys or isinstance(inner, exp.Boolean):
        truth = entry(inner)
        return lambda values: _as_truth(values(truth))
    comparisons = [
        (operator, entry(first), entry(second)) for operator, first, second in _compared(inner)
    ]
    if isinstance(inner, exp.Between):
        return lambda values: _all(_compares(values, *each) for each in comparisons)
    return lambda values: _negated(_all(_negated(_compares(values, *each)) for each in comparisons))


def _compared(
    expression: exp.Expression,
) -> list[tuple[str, exp.Expression, exp.Expression]]:
    """The comparisons that a condition of HAVING is made of."""
    if isinstance(expression, exp.Between):
        value, low, high = (expression.args[word] for word in ("this", "low", "high"))
        return [(">=", value, low), ("<=", value, high)]
    if isinstance(expression, exp.In) and expression.expressions:
        return [("in", expression.this, entry) for entry in expression.expressions]
    if type(expression) in COMPARISONS:
        return [(COMPARISONS[type(expression)][0], expression.this, expression.expression)]
    raise QueryError(f"HAVING {expression.sql()} is not a comparison")


def _compares(values: Values, operator: str, first: Entry, second: Entry) -> Truth:
    return compare(operator, values(first), values(second))


def _negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _least(first: Truth, second: Truth) -> Truth:
    """AND: false if one is, else unknown if one is."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def _all(truths: Any) -> Truth:
    found: Truth = True
    for truth in truths:
        found = _least(found, truth)
    return found


def _as_truth(value: Any) -> Truth:
    if value is not None and not isinstance(value, bool):
        raise QueryError(f"HAVING needs a condition, and {value!r} is none")
    return value
