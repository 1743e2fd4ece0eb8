"""query: SQL aggregates over a source, each reconstructed and with its standard error.

A question is planned (what is counted, and how each output follows), counted in one scan for the
counts of all outputs and one for each number that is summed, and answered group by group.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import NormalDist
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.arguments import shown
from sfumato.domain import Axis, Codes, Numeric
from sfumato.errors import (
    ConvergenceWarning,
    EstimationError,
    ParameterError,
    QueryError,
    listing,
    near_miss,
)
from sfumato.estimation.answer import Answer
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import Evidence, keeps_of, with_known_laws
from sfumato.estimation.noise import is_lost, too_noisy
from sfumato.estimation.quantiles import NumberCounts, Wanted, quantiles
from sfumato.estimation.smooth import resolution
from sfumato.mine import limits
from sfumato.mine.cube.aggregates import CENTRED, is_aggregate
from sfumato.mine.cube.compiler import Compiler, Compute, Holds, Key, everywhere
from sfumato.mine.cube.cube_result import CubeResult, Row
from sfumato.mine.cube.cuts import Cut, Grid
from sfumato.mine.cube.numbers import (
    COMPARISONS,
    Mask,
    bare,
    compare,
    constant,
    is_constant,
    plain,
)
from sfumato.mine.cube.sheet import Sheet, Sums, Tables
from sfumato.mine.cube.statement import MANY, TOO_DEEP, Order, Query, parse
from sfumato.release import Release
from sfumato.source import Source

METHODS = ("invert", "em")

Group = Mapping[int, int]  # the place of the label that each key of a grouping has
Truth = bool | None  # None is SQL's unknown


def query(source: Source, sql: str, *, method: str = "invert") -> CubeResult:
    """The answer to one SELECT of aggregates over a source, perturbed or true.

    COUNT, COUNT_IF, SUM, AVG, VAR, STDDEV, COVAR, CORR, MEDIAN, PERCENTILE, FILTER and arithmetic
    of these; WHERE with any Boolean combination of comparisons with constants; GROUP BY columns,
    items, CASE, WIDTH_BUCKET, CUBE, ROLLUP; SUM(…) OVER () for shares of a total; HAVING, ORDER BY,
    LIMIT on the reconstructed result. Every column is cut just where the question cuts it, the
    cells are counted in one scan and undone factor by factor (OLAP §4); `method="em"` takes the
    counts of maximum likelihood (iterative Bayes).
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ParameterError(
            f"no method {shown(method)} (invert, em)", hint=near_miss(method, METHODS)
        )
    names = [axis.name for axis in source.domain.axes]
    try:
        question = CubeQuestion.of(source, parse(sql, names), method)
    except RecursionError:  # of reading: beyond it the same would be a fault of ours
        raise QueryError(TOO_DEEP, hint=MANY) from None
    return question.result()


# The plan.


@dataclass(frozen=True, eq=False)
class Frame:
    """The cells that one output needs: those of WHERE and GROUP BY, and its own."""

    where: Holds
    keys: tuple[Key, ...]
    cuts: tuple[Cut, ...]
    fine: Axis | None = None  # a number whose sums are needed

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

    def cut(self, more: Sequence[Cut], fine: Axis | None = None) -> Frame:
        """The same frame with further cuts; itself where there are none."""
        if not more and fine is None:
            return self
        return Frame(self.where, self.keys, (*self.cuts, *more), fine)

    def check_size(self) -> None:
        """Refuse a question with too many cells."""
        most = limits.CELLS if self.fine is None else limits.SUMMED_CELLS
        if self.grid.size > most:
            raise QueryError(
                f"this question needs {self.grid.size:,} cells, more than {most:,}",
                hint="group by fewer columns, or coarser bins",
            )


@dataclass(frozen=True, eq=False)
class Label:
    """An output that is known of its group, and by what it is sorted: that of a key by its place,
    or the same in every group.
    """

    place: int | None
    labels: Sequence[Any]
    ranks: Sequence[Any]

    def of(self, group: Group, *, ranked: bool = False) -> Any:
        """The label of a group, or its rank; None in a total over the key."""
        known = self.ranks if ranked else self.labels
        if self.place is None:
            return known[0]
        return known[group[self.place]] if self.place in group else None


@dataclass(frozen=True, eq=False)
class Estimated:
    """An output that is computed from counts and sums."""

    frame: Frame
    compute: Compute
    centred: bool  # whether squares are summed, which would cancel about anything but a mean


@dataclass(frozen=True, eq=False)
class Quantile:
    """An output that is a quantile of a number, among the records for which a condition holds."""

    frame: Frame
    axis: Axis
    wanted: Wanted
    holds: Holds


Entry = Label | Estimated | Quantile


def _entry(expression: exp.Expression, asked: Query, base: Frame, first: Compiler) -> Entry:
    """What an expression is in a group: a label where it is a key, itself where it is constant,
    else an estimate.
    """
    if expression in asked.keys:
        place = asked.keys.index(expression)
        labels = base.keys[place].labels
        return Label(place, labels, base.keys[place].ranks or labels)
    if is_constant(expression):
        value = (plain(constant(expression)),)
        return Label(None, value, value)
    if isinstance(expression, exp.Column):
        first.domain.axis_named(expression.name)  # an unknown column is refused there
        raise QueryError(
            f"column '{expression.name}' is neither grouped nor aggregated",
            hint="add it to GROUP BY",
        )
    if not is_aggregate(expression):
        raise QueryError(f"{expression.sql()} is neither grouped nor an aggregate")
    compiler = Compiler(first.domain, asked.keys, first.sums)
    quantile = compiler.quantile(expression)
    if quantile is not None:
        return Quantile(base.cut(compiler.cuts), *quantile)
    compute, fine = compiler.measure(expression)
    centred = fine is not None and expression.find(*CENTRED) is not None
    return Estimated(base.cut(compiler.cuts, fine), compute, centred)


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


_LIKELY: WeakKeyDictionary[Evidence, NDArray[Any] | None] = WeakKeyDictionary()


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


# The answer.


@dataclass(frozen=True, eq=False)
class CubeQuestion:
    """A question in terms of the domain: what every output is, group by group; and its answer."""

    source: Source
    asked: Query
    method: str
    base: Frame
    entries: Mapping[exp.Expression, Entry]
    compared: Mapping[int, Entry]  # what HAVING compares, by the id of its node

    @classmethod
    def of(cls, source: Source, asked: Query, method: str) -> CubeQuestion:
        """The question; whatever cannot be answered is refused here."""
        compiler = Compiler(source.domain)
        if method == "invert":
            compiler.sums = source.sums
        where = everywhere(True) if asked.where is None else compiler.condition(asked.where)
        keys = tuple(compiler.key(each) for each in asked.keys)
        base = Frame(where, keys, tuple(compiler.cuts))
        entries: dict[exp.Expression, Entry] = {}

        def entry(expression: exp.Expression) -> Entry:
            expression = bare(expression)
            if expression not in entries:
                entries[expression] = _entry(expression, asked, base, compiler)
            return entries[expression]

        for listed in (asked.outputs, asked.order):
            for each in listed:
                entry(each.expression)
        compared: dict[int, Entry] = {}
        if asked.having is not None:  # nothing is known yet: every part of it is met
            _truth(asked.having, asked.keys, lambda each: compared.update({id(each): entry(each)}))
        return cls(source, asked, method, base, entries, compared)

    def entry(self, expression: exp.Expression) -> Entry:
        """What an expression of the question is."""
        return self.entries[bare(expression)]

    @cached_property
    def counted(self) -> dict[Frame, tuple[Tables, list[str]]]:
        """What was counted for the groups and for each output, and what is to be said of it."""
        measured = [each.frame for each in self.entries.values() if isinstance(each, Estimated)]
        frames = dict.fromkeys([self.base, *measured])
        for frame in frames:
            frame.check_size()
        asked = {frame.grid.key: frame.grid.cells for frame in frames if frame.grid.axes}
        found = dict(zip(asked, self.source.marginals(list(asked.values())), strict=True))
        return {frame: self._counted(frame, found.get(frame.grid.key)) for frame in frames}

    def _counted(self, frame: Frame, counts: Estimate | None) -> tuple[Tables, list[str]]:
        """The counts of a frame by the method asked for, or the sums of the powers of a number."""
        grid, rows = frame.grid, self.source.rows
        if counts is None:
            return Tables(grid, rows, None, np.zeros(())), []
        if frame.fine is not None:
            name = frame.fine.name
            if self.method == "em":
                raise QueryError(
                    f"em needs counts, and '{name}' has too many values to count each",
                    hint="use --method invert",
                )
            moments = self.source.moments(grid.cells, grid.place(name))
            return Tables(grid, rows, counts, counts.value, moments, frame.fine), []
        # Where the inversion has no cell below 0 it is the most likely itself; elsewhere the most
        # likely has no standard error that would be its own.
        if self.method == "invert" or counts.value.min(initial=0.0) >= 0:
            return Tables(grid, rows, counts, counts.value), []
        found = counts.likelihood()
        notes = [
            "cells estimated below 0 were moved to what is most likely, which has no standard "
            "error of its own; use --method invert for one"
        ]
        if not found.converged:
            notes.append(
                f"iterative Bayes stopped after {found.steps} steps, within {found.gap:.2g} a "
                "report of its goal"
            )
        return Tables(grid, rows, counts, found.value, errors=False), notes

    def tables(self, frame: Frame) -> Tables:
        """What was counted for an output."""
        return self.counted[frame][0]

    # The answer.

    def result(self) -> CubeResult:
        """Group, filter, sort, and say what is to be said."""
        asked, having, groups = self.asked, self.asked.having, list(self._groups())
        if having is not None:
            compared = dict.fromkeys(self.compared.values())
            known = {entry: self._values(entry, groups, groups) for entry in compared}

            def holds(at: int) -> bool:
                values = {entry: _plain(known[entry][at]) for entry in compared}
                return _truth(having, asked.keys, lambda e: values[self.compared[id(e)]]) is True

            groups = [group for at, group in enumerate(groups) if holds(at)]
        groups = self._sorted(groups)
        stop = None if asked.limit is None else asked.offset + asked.limit
        shown = groups[asked.offset : stop]
        columns = [
            self._values(self.entry(each.expression), shown, groups) for each in asked.outputs
        ]
        names = tuple(output.name for output in asked.outputs)
        rows = tuple(dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        self._check_errors(rows)
        return CubeResult(
            names,
            rows,
            self.method,
            self.source.rows,
            tuple(dict.fromkeys(self._notes(shown, columns))),
            self._keep(),
            frozenset(each.name for each in asked.outputs if _is_count(each.expression)),
        )

    def _groups(self) -> Iterator[Group]:
        """Every group that may occur; one that surely does not is left out, as in SQL."""
        base = self.base
        grid, tables = base.grid, self.tables(base)
        inside = np.broadcast_to(base.inside, grid.shape)
        records = inside * (tables.rows if tables.counts is None else tables.value)
        for grouping in self.asked.sets:
            if not grouping:
                yield {}
                continue
            sizes = [len(base.keys[place].labels) for place in grouping]
            indices = [np.broadcast_to(base.indices[place], grid.shape) for place in grouping]
            number = np.asarray(np.ravel_multi_index(indices, sizes))
            counts = np.bincount(number.ravel(), records.ravel(), minlength=math.prod(sizes))
            for each in np.unique(number[inside]).tolist():
                group = dict(zip(grouping, map(int, np.unravel_index(each, sizes)), strict=True))
                sheet = Sheet(tables)
                occurs = abs(counts[each]) >= 0.5
                if occurs or not sheet.is_nobody(sheet.linear(base.mask(group))):
                    yield group

    def _sorted(self, groups: list[Group]) -> list[Group]:
        for order in reversed(self.asked.order):
            entry = self.entry(order.expression)
            if isinstance(entry, Label):
                values = [entry.of(group, ranked=True) for group in groups]
            else:
                values = self._values(entry, groups, groups)
            keys = [_sortable(value, order) for value in values]
            places = sorted(range(len(groups)), key=keys.__getitem__, reverse=order.descends)
            groups = [groups[place] for place in places]
        return groups

    def _values(
        self, entry: Entry, groups: Sequence[Group], all_groups: Sequence[Group]
    ) -> list[Any]:
        """What an output is in some of the groups of the answer."""
        if isinstance(entry, Label):
            return [entry.of(group) for group in groups]
        if isinstance(entry, Quantile):
            return self._quantiles(entry, groups)
        tables, frame, answers = self.tables(entry.frame), entry.frame, []
        for group in groups:
            mask, shared = frame.mask(group), partial(_sharing, frame, group, all_groups)
            sheet = Sheet(tables, tables.middle(mask) if entry.centred else 0.0)
            answers.append(Sums(sheet, mask, shared).answer(entry.compute))
        return answers

    def _quantiles(self, entry: Quantile, groups: Sequence[Group]) -> list[Answer]:
        axis, number = entry.axis, entry.axis.attribute
        assert isinstance(number, Numeric)

        def count(starts: Codes, chosen: Sequence[int]) -> NumberCounts:
            def tells(codes: Codes) -> Codes:
                return np.searchsorted(starts, codes, side="right")

            frame = entry.frame.cut([Cut(axis, tells, starts)])
            frame.check_size()
            grid = frame.grid
            (estimate,) = self.source.marginals([grid.cells])
            filtered = entry.holds(grid)
            masks = [frame.mask(groups[each]) & filtered for each in chosen]
            weights = [np.broadcast_to(mask, grid.shape).astype(float) for mask in masks]
            owner = tells(grid.codes[axis.name].ravel()) - 1
            return NumberCounts(estimate, grid.place(axis.name), owner, weights)

        others = max(1, entry.frame.grid.size)
        return list(quantiles(number, entry.wanted, len(groups), others, count))

    def _keep(self) -> float | None:
        """The keep of the one perturbed column, where all that is asked are counts by one."""
        counts = self.tables(self.base).counts
        outputs = [output.expression for output in self.asked.outputs]
        estimates = [each for each in outputs if is_aggregate(each)]
        if counts is None or not all(isinstance(each, exp.Count) for each in estimates):
            return None
        perturbed = [keep for keep in keeps_of(counts.evidence) if keep != 1]
        return perturbed[0] if len(perturbed) == 1 else None

    def _check_errors(self, rows: tuple[Row, ...]) -> None:
        """Refuse a question whose every count is lost in its error."""
        outputs = self.asked.outputs
        names = [each.name for each in outputs if isinstance(bare(each.expression), exp.Count)]
        answers = [row[name] for row in rows for name in names]
        if not answers or not all(is_lost(each.stderr, self.source.rows) for each in answers):
            return
        counts, axes = self.tables(self.base).counts, self.base.grid.axes
        number, step = axes[0].attribute if len(axes) == 1 else None, 0.0
        if counts is not None and isinstance(number, Numeric):
            resolved = resolution(counts.evidence, number)
            step = resolved if resolved > number.grid_step * (1 + 1e-9) else 0.0
        least = min(answer.stderr for answer in answers)
        raise too_noisy([axis.name for axis in axes], least, self.source.rows, step)

    # What is to be said.

    def _notes(self, groups: Sequence[Group], columns: Sequence[list[Any]]) -> Iterator[str]:
        yield from (note for _, notes in self.counted.values() for note in notes)
        yield from self._unknown(columns)
        turn = self.source.provenance.turn if isinstance(self.source, Release) else None
        if turn is not None:
            yield (
                f"this is round {turn.round} of {len(turn.shares)}: counts are of the "
                f"{self.source.rows:,} people whom it asked, not of all"
            )
        entries = self.entries.values()
        if self.method == "em" and any(isinstance(entry, Quantile) for entry in entries):
            yield "quantiles are those of the inversion, whose errors are known"
        counts = (tables.counts for tables, _ in self.counted.values())
        supposed = [each.evidence.assumes for each in counts if each is not None]
        answers = (each for column in columns for each in column if isinstance(each, Answer))
        supposed += [answer.assumes for answer in answers]  # quantiles count for themselves
        yield from (f"model-based: it assumes {each}" for each in supposed if each)
        for entry in entries:  # numbers read on a grid which no one stated are not the file's own
            axis = entry.frame.fine if isinstance(entry, Estimated) else None
            axis = entry.axis if isinstance(entry, Quantile) else axis
            number = None if axis is None else axis.attribute
            if isinstance(number, Numeric) and not number.whole and number.step is None:
                yield (
                    f"'{number.name}' is read in steps of {number.grid_step:.4g}; state a step in "
                    "the schema if its values lie closer"
                )
        yield from self._by_value(groups)
        yield from self._comparison(groups)

    def _unknown(self, columns: Sequence[list[Any]]) -> Iterator[str]:
        """Which quotients have no value, since what they are divided by may be nothing."""
        for output, column in zip(self.asked.outputs, columns, strict=True):
            entry = self.entry(output.expression)
            if isinstance(entry, Estimated) and output.expression.find(exp.Div, exp.Avg, *CENTRED):
                counts = self.tables(entry.frame).counts
                lost = sum(not math.isfinite(answer.value) for answer in column)
                if lost and counts is not None and not counts.evidence.exact:
                    where = "" if len(column) == 1 else f" in {lost} of {len(column)} groups"
                    yield (
                        f"cannot be estimated: {output.name}{where}, for what it is divided by may "
                        "be nothing; ask about more people at once"
                    )

    def _by_value(self, groups: Sequence[Group]) -> Iterator[str]:
        """How to group a number as a release in its bins does, whose groups have other names."""
        known = {each.name: each for each in self.source.domain if isinstance(each, Numeric)}
        for key in self.asked.keys:
            number = known.get(key.name) if isinstance(key, exp.Column) else None
            if number is not None and 0 < len(number.cuts) < len(groups) - 1:
                name = exp.column(number.name, quoted=not number.name.isidentifier()).sql()
                labels = number.bins().labels
                pairs = zip(number.cuts, labels, strict=False)
                cases = [f"WHEN {name} < {cut:.12g} THEN '{label}'" for cut, label in pairs]
                yield (
                    f"'{number.name}' is grouped value by value; by the bins of its schema: GROUP "
                    f"BY CASE {' '.join(cases)} ELSE '{labels[-1]}' END"
                )

    def _comparison(self, groups: Sequence[Group]) -> Iterator[str]:
        """Say where inversion and maximum likelihood disagree, if the inversion left
        the simplex.
        """
        counts = self.tables(self.base).counts
        if self.method != "invert" or counts is None or not is_outside(counts):
            return
        likely = most_likely(counts) if counts.value.size <= limits.COMPARED_CELLS else None
        if likely is None:
            yield (
                "some cells are estimated well below 0, so that maximum likelihood may differ "
                "(try --method em)"
            )
            return
        keys, labels = self.asked.keys, [key.labels for key in self.base.keys]
        for group in groups:
            mask = np.broadcast_to(self.base.mask(group), counts.value.shape).astype(float)
            inverted, other = counts.dot(mask), float((likely * mask).sum())
            if abs(other - inverted.value) > inverted.stderr > 0:
                named = [f"{keys[at].sql()} = {labels[at][place]}" for at, place in group.items()]
                yield (
                    f"{listing(named) or 'the whole'}: inversion counts {inverted.value:,.1f} ± "
                    f"{inverted.stderr:,.1f}, maximum likelihood {other:,.1f}; some cells were "
                    "estimated below 0 (try --method em)"
                )


def _sharing(
    frame: Frame, group: Group, all_groups: Sequence[Group], places: tuple[int, ...]
) -> NDArray[Any]:
    """How often each cell counts in the groups that share these labels with a group, for
    windows.
    """

    def labels(of: Group) -> list[Any]:  # NULL is one, whether of a value or of a total
        keys = {place: frame.keys[place].labels for place in places}
        return [label[of[place]] if place in of else None for place, label in keys.items()]

    wanted = labels(group)
    masks = (frame.mask(each).astype(float) for each in all_groups if labels(each) == wanted)
    return sum(masks, frame.grid.full(0.0))


def _is_count(expression: exp.Expression) -> bool:
    inner = bare(expression)
    inner = inner.this if isinstance(inner, exp.Filter) else inner
    return isinstance(inner, exp.Count | exp.CountIf)


def _sortable(value: Any, order: Order) -> tuple[bool, int, Any]:
    known = _plain(value)
    if known is None:
        return (order.nulls_first == order.descends, 0, 0)
    return (order.nulls_first != order.descends, int(isinstance(known, str)), known)


def _plain(value: Any) -> Any:
    """The number or the label; None for a total over a key, and for an answer without a value."""
    if isinstance(value, Answer):
        return value.value if math.isfinite(value.value) else None
    return value
