"""Plan: what a parsed question needs counted, how each of its outputs follows, and the counting:
one scan for the counts of all outputs and one for each number that is summed.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Domain
from sfumato.errors import ConvergenceWarning, EstimationError, QueryError
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import Evidence, with_known_laws
from sfumato.estimation.quantiles import Wanted
from sfumato.mine import limits
from sfumato.mine.cube.aggregates import is_aggregate
from sfumato.mine.cube.columns import AskedColumn, Cut, Grid, Mask
from sfumato.mine.cube.compiler import Compiler, Compute, Holds, Key, everywhere
from sfumato.mine.cube.expressions import COMPARISONS, bare, compare, constant, is_constant, plain
from sfumato.mine.cube.grammar import Query
from sfumato.mine.cube.sheet import Tables
from sfumato.source import Source

Group = Mapping[int, int]  # the place of the label that each key of a grouping has
Truth = bool | None  # None is SQL's unknown


@dataclass(frozen=True, eq=False)
class Frame:
    """The cells that one output needs: those of WHERE and GROUP BY, and its own."""

    where: Holds
    keys: tuple[Key, ...]
    cuts: tuple[Cut, ...]
    fine: AskedColumn | None = None  # a number whose sums are needed

    @cached_property
    def grid(self) -> Grid:
        """The joint cells."""
        return Grid.of(self.cuts)

    @cached_property
    def inside(self) -> Mask:
        """The cells for which WHERE holds."""
        return self.where(self.grid)

    @cached_property
    def indices(self) -> list[NDArray[Any]]:
        """For each key, the place of the label that each cell has."""
        return [each.index(self.grid) for each in self.keys]

    def mask(self, group: Group) -> Mask:
        """The cells of a group."""
        mask = self.inside
        for place, label in group.items():
            mask = mask & (self.indices[place] == label)
        return mask

    def cut(self, more: Sequence[Cut], fine: AskedColumn | None = None) -> Frame:
        """The same frame with further cuts; itself where there are none."""
        if not more and fine is None:
            return self
        return Frame(self.where, self.keys, (*self.cuts, *more), fine)


@dataclass(frozen=True, eq=False)
class Label:
    """An output that is known of its group, and by what it is sorted."""

    of: Callable[[Group], Any]
    rank: Callable[[Group], Any]


@dataclass(frozen=True, eq=False)
class Estimated:
    """An output that is computed from counts and sums."""

    frame: Frame
    compute: Compute


@dataclass(frozen=True, eq=False)
class Quantile:
    """An output that is a quantile of a number, among the records for which a condition holds."""

    frame: Frame
    axis: AskedColumn
    wanted: Wanted
    holds: Holds


Entry = Label | Estimated | Quantile


@dataclass(frozen=True, eq=False)
class QuestionPlan:
    """A question in terms of the domain: what every output is, group by group."""

    asked: Query
    base: Frame
    entries: Mapping[exp.Expression, Entry]
    compared: Mapping[int, Entry]  # what HAVING compares, by the id of its node

    @classmethod
    def of(cls, asked: Query, domain: Domain) -> QuestionPlan:
        """The plan of a question; whatever cannot be answered is refused here."""
        compiler = Compiler(domain)
        where = everywhere(True) if asked.where is None else compiler.condition(asked.where)
        keys = tuple(compiler.key(each) for each in asked.keys)
        base = Frame(where, keys, tuple(compiler.cuts))
        entries: dict[exp.Expression, Entry] = {}

        def entry(expression: exp.Expression) -> Entry:
            expression = bare(expression)
            if expression not in entries:
                entries[expression] = _entry(expression, asked, base, domain)
            return entries[expression]

        for listed in (asked.outputs, asked.order):
            for each in listed:
                entry(each.expression)
        compared: dict[int, Entry] = {}
        if asked.having is not None:  # nothing is known yet: every part of it is met
            _truth(asked.having, asked.keys, lambda each: compared.update({id(each): entry(each)}))
        return cls(asked, base, entries, compared)

    def entry(self, expression: exp.Expression) -> Entry:
        """What an expression of the question is."""
        return self.entries[bare(expression)]

    @property
    def frames(self) -> list[Frame]:
        """What must be counted before anything else."""
        measured = [each.frame for each in self.entries.values() if isinstance(each, Estimated)]
        return [self.base, *measured]

    def has(self, values: Mapping[Entry, Any]) -> bool:
        """Whether HAVING holds in a group where what it compares has these values."""
        having = self.asked.having
        return having is None or (
            _truth(having, self.asked.keys, lambda each: values[self.compared[id(each)]]) is True
        )


def _entry(expression: exp.Expression, asked: Query, base: Frame, domain: Domain) -> Entry:
    """What an expression is in a group: a label where it is a key, itself where it is constant,
    else an estimate.
    """
    if expression in asked.keys:
        place = asked.keys.index(expression)
        labels, ranks = base.keys[place].labels, base.keys[place].ranks or base.keys[place].labels
        return Label(
            lambda group: labels[group[place]] if place in group else None,
            lambda group: ranks[group[place]] if place in group else None,
        )
    if is_constant(expression):
        value = plain(constant(expression))
        return Label(lambda group: value, lambda group: value)
    if isinstance(expression, exp.Column):
        AskedColumn.of(domain, expression.name)  # an unknown column says so, with its near miss
        raise QueryError(
            f"column '{expression.name}' is neither grouped nor aggregated",
            hint="add it to GROUP BY",
        )
    if not is_aggregate(expression):
        raise QueryError(f"{expression.sql()} is neither grouped nor an aggregate")
    compiler = Compiler(domain, asked.keys)
    quantile = compiler.quantile(expression)
    if quantile is not None:
        return Quantile(base.cut(compiler.cuts), *quantile)
    compute, fine = compiler.measure(expression)
    return Estimated(base.cut(compiler.cuts, fine), compute)


def _truth(
    expression: exp.Expression,
    keys: Sequence[exp.Expression],
    value: Callable[[exp.Expression], Any],
) -> Truth:
    """A condition on the answers of a group, in SQL's three-valued logic."""
    inner = bare(expression)
    if isinstance(inner, exp.Not):
        return _negated(_truth(inner.this, keys, value))
    if isinstance(inner, exp.And | exp.Or):
        sides = [_truth(part, keys, value) for part in (inner.this, inner.expression)]
        return _all(sides) if isinstance(inner, exp.And) else _any(sides)
    if inner in keys or isinstance(inner, exp.Boolean):
        truth: Truth = value(inner)
        if truth is not None and not isinstance(truth, bool):
            raise QueryError(f"HAVING needs a condition, and {truth!r} is none")
        return truth
    if isinstance(inner, exp.Between):
        this, low, high = (value(inner.args[word]) for word in ("this", "low", "high"))
        return _all([compare(">=", this, low), compare("<=", this, high)])
    if isinstance(inner, exp.In) and inner.expressions:
        this, *listed = (value(each) for each in (inner.this, *inner.expressions))
        return _any([compare("=", this, each) for each in listed])
    if type(inner) in COMPARISONS:
        return compare(COMPARISONS[type(inner)], value(inner.this), value(inner.expression))
    raise QueryError(f"HAVING {inner.sql()} is not a comparison")


def _negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _all(truths: Sequence[Truth]) -> Truth:
    """AND: false if one is, else unknown if one is."""
    if False in truths:
        return False
    return None if None in truths else True


def _any(truths: Sequence[Truth]) -> Truth:
    return _negated(_all([_negated(truth) for truth in truths]))


_LIKELY: WeakKeyDictionary[Evidence, NDArray[Any] | None] = WeakKeyDictionary()


def counted(
    source: Source, frames: Sequence[Frame], method: str
) -> tuple[dict[Frame, Tables], list[str]]:
    """The tables behind the outputs of a question, by their frames, and what is to be said of
    them.
    """
    for frame in frames:
        check_size(frame)
    asked = {frame.grid.key: frame.grid.cells for frame in frames if frame.grid.axes}
    found = dict(zip(asked, source.marginals(list(asked.values())), strict=True))
    tables: dict[Frame, Tables] = {}
    notes: list[str] = []
    for frame in frames:
        counts = found.get(frame.grid.key)
        if counts is None:
            tables[frame] = Tables(frame.grid, source.rows, None, np.zeros(()))
        elif frame.fine is not None:
            tables[frame] = _summed(source, frame, counts, method)
        else:
            value, note = _value(counts, method)
            errors = value is counts.value
            tables[frame] = Tables(frame.grid, source.rows, counts, value, errors=errors)
            notes += note
    return tables, notes


def check_size(frame: Frame) -> None:
    """Refuse a question with too many cells."""
    most = limits.CELLS if frame.fine is None else limits.SUMMED_CELLS
    if frame.grid.size > most:
        raise QueryError(
            f"this question needs {frame.grid.size:,} cells, more than {most:,}",
            hint="group by fewer columns, or coarser bins",
        )


def _summed(source: Source, frame: Frame, counts: Estimate, method: str) -> Tables:
    assert frame.fine is not None
    name = frame.fine.name
    if method == "em":
        raise QueryError(
            f"em needs counts, and '{name}' has too many values to count each",
            hint="use --method invert",
        )
    moments = source.moments(frame.grid.cells, frame.grid.place(name))
    return Tables(frame.grid, source.rows, counts, counts.value, moments, frame.fine)


def _value(counts: Estimate, method: str) -> tuple[NDArray[Any], list[str]]:
    """The counts by the method asked for. Where the inversion has no cell below 0 it is the most
    likely itself; elsewhere the most likely has no standard error that would be its own.
    """
    if method == "invert" or counts.value.min(initial=0.0) >= 0:
        return counts.value, []
    found = counts.likelihood()
    notes = [
        "cells estimated below 0 were moved to what is most likely, which has no standard error of "
        "its own; use --method invert for one"
    ]
    if not found.converged:
        notes.append(
            f"iterative Bayes stopped after {found.steps} steps, within {found.gap:.2g} a report "
            "of its goal"
        )
    return found.value, notes


def is_outside(estimate: Estimate) -> bool:
    """Whether some cell is estimated below 0 by more than chance would explain, the replacing
    distributions taken as known.

    Two standard errors for one cell; more for many, of which some are always far out.
    """
    value = estimate.value
    if value.min(initial=0.0) >= 0:
        return False
    reach = -NormalDist().inv_cdf(0.0228 / max(1.0, value.size / 64))
    variances = with_known_laws(estimate.evidence).cell_variances
    stderr = np.sqrt(np.maximum(variances, 0.0)) / estimate.copies
    return bool((value < -reach * stderr - 1e-9).any())


def most_likely(estimate: Estimate) -> NDArray[Any] | None:
    """The counts of maximum likelihood; None where there is none, or it was not reached. They are
    worked out once for a table, however often it is asked.
    """
    if estimate.evidence not in _LIKELY:
        found = None
        with warnings.catch_warnings(), contextlib.suppress(EstimationError):
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = estimate.likelihood(steps=limits.COMPARED_STEPS)
        _LIKELY[estimate.evidence] = found.value if found and found.converged else None
    return _LIKELY[estimate.evidence]
