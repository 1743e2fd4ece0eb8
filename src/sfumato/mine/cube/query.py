"""query: SQL aggregates over a source, each reconstructed and with its standard error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.arguments import shown
from sfumato.domain import Numeric
from sfumato.errors import ParameterError, QueryError, listing, near_miss
from sfumato.estimation.answer import Answer
from sfumato.estimation.evidence import keeps_of
from sfumato.estimation.noise import is_lost, too_noisy
from sfumato.estimation.quantiles import NumberCounts, quantiles
from sfumato.estimation.smooth import resolution
from sfumato.mine import limits
from sfumato.mine.cube.aggregates import is_aggregate
from sfumato.mine.cube.columns import Codes, Cut
from sfumato.mine.cube.cube_result import CubeResult, Row
from sfumato.mine.cube.expressions import bare
from sfumato.mine.cube.grammar import MANY, TOO_DEEP, Order, parse
from sfumato.mine.cube.query_plan import (
    Entry,
    Estimated,
    Frame,
    Group,
    Label,
    Quantile,
    QuestionPlan,
    check_size,
    counted,
    is_outside,
    most_likely,
)
from sfumato.mine.cube.sheet import Scope, Sheet, Tables
from sfumato.source import Release, Source

METHODS = ("invert", "em")


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
        plan = QuestionPlan.of(parse(sql, names), source.domain)
    except RecursionError:  # of reading: beyond it the same would be a fault of ours
        raise QueryError(TOO_DEEP, hint=MANY) from None
    return _Answering(source, plan, method, *counted(source, plan.frames, method)).result()


@dataclass(frozen=True, eq=False)
class _Answering:
    """A question whose cells have been counted, on its way to an answer."""

    source: Source
    plan: QuestionPlan
    method: str
    tables: Mapping[Frame, Tables]  # what was counted for each output
    count_notes: Sequence[str]  # what is to be said of the counts

    def result(self) -> CubeResult:
        """Group, filter, sort, and say what is to be said."""
        groups = self._sorted(self._kept(list(self._groups())))
        asked = self.plan.asked
        stop = None if asked.limit is None else asked.offset + asked.limit
        shown = groups[asked.offset : stop]
        columns = [
            self._values(self.plan.entry(each.expression), shown, groups) for each in asked.outputs
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
        base = self.plan.base
        grid, tables = base.grid, self.tables[base]
        inside = np.broadcast_to(base.inside, grid.shape)
        records = inside * (tables.rows if tables.counts is None else tables.value)
        for grouping in self.plan.asked.sets:
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

    def _kept(self, groups: list[Group]) -> list[Group]:
        """The groups for which HAVING holds."""
        if self.plan.asked.having is None:
            return groups
        compared = dict.fromkeys(self.plan.compared.values())
        known = {entry: self._values(entry, groups, groups) for entry in compared}
        values = [{entry: _plain(known[entry][at]) for entry in known} for at in range(len(groups))]
        return [group for group, own in zip(groups, values, strict=True) if self.plan.has(own)]

    def _sorted(self, groups: list[Group]) -> list[Group]:
        for order in reversed(self.plan.asked.order):
            entry = self.plan.entry(order.expression)
            if isinstance(entry, Label):
                values = list(map(entry.rank, groups))
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
        tables, frame, answers = self.tables[entry.frame], entry.frame, []
        for group in groups:
            shared = partial(self._sharing, frame, group, all_groups)
            scope = Scope(Sheet(tables), frame.mask(group), shared)
            answers.append(scope.answer(entry.compute))
        return answers

    def _sharing(
        self, frame: Frame, group: Group, all_groups: Sequence[Group], places: tuple[int, ...]
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

    def _quantiles(self, entry: Quantile, groups: Sequence[Group]) -> list[Answer]:
        axis, number = entry.axis, entry.axis.attribute
        assert isinstance(number, Numeric)

        def count(starts: Codes, chosen: Sequence[int]) -> NumberCounts:
            def tells(codes: Codes) -> Codes:
                return np.searchsorted(starts, codes, side="right")

            frame = entry.frame.cut([Cut(axis, tells, starts)])
            check_size(frame)
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
        counts = self.tables[self.plan.base].counts
        outputs = [output.expression for output in self.plan.asked.outputs]
        estimates = [each for each in outputs if is_aggregate(each)]
        if counts is None or not all(isinstance(each, exp.Count) for each in estimates):
            return None
        perturbed = [keep for keep in keeps_of(counts.evidence) if keep != 1]
        return perturbed[0] if len(perturbed) == 1 else None

    def _check_errors(self, rows: tuple[Row, ...]) -> None:
        """Refuse a question whose every count is lost in its error."""
        outputs = self.plan.asked.outputs
        names = [each.name for each in outputs if isinstance(bare(each.expression), exp.Count)]
        answers = [row[name] for row in rows for name in names]
        if not answers or not all(is_lost(each.stderr, self.source.rows) for each in answers):
            return
        counts, axes = self.tables[self.plan.base].counts, self.plan.base.grid.axes
        number, step = axes[0].attribute if len(axes) == 1 else None, 0.0
        if counts is not None and isinstance(number, Numeric):
            resolved = resolution(counts.evidence, number)
            step = resolved if resolved > number.grid_step * (1 + 1e-9) else 0.0
        least = min(answer.stderr for answer in answers)
        raise too_noisy([axis.name for axis in axes], least, self.source.rows, step)

    def _notes(self, groups: Sequence[Group], columns: Sequence[list[Any]]) -> Iterator[str]:
        yield from self.count_notes
        turn = self.source.provenance.turn if isinstance(self.source, Release) else None
        if turn is not None:
            yield (
                f"this is round {turn.round} of {len(turn.shares)}: counts are of the "
                f"{self.source.rows:,} people whom it asked, not of all"
            )
        entries = self.plan.entries.values()
        if self.method == "em" and any(isinstance(entry, Quantile) for entry in entries):
            yield "quantiles are those of the inversion, whose errors are known"
        counts = (tables.counts for tables in self.tables.values())
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

    def _by_value(self, groups: Sequence[Group]) -> Iterator[str]:
        """How to group a number as a release in its bins does, whose groups have other names."""
        known = {each.name: each for each in self.source.domain if isinstance(each, Numeric)}
        for key in self.plan.asked.keys:
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
        counts = self.tables[self.plan.base].counts
        if self.method != "invert" or counts is None or not is_outside(counts):
            return
        likely = most_likely(counts) if counts.value.size <= limits.COMPARED_CELLS else None
        if likely is None:
            yield (
                "some cells are estimated well below 0, so that maximum likelihood may differ "
                "(try --method em)"
            )
            return
        keys, labels = self.plan.asked.keys, [key.labels for key in self.plan.base.keys]
        for group in groups:
            mask = np.broadcast_to(self.plan.base.mask(group), counts.value.shape).astype(float)
            inverted, other = counts.dot(mask), float((likely * mask).sum())
            if abs(other - inverted.value) > inverted.stderr > 0:
                named = [f"{keys[at].sql()} = {labels[at][place]}" for at, place in group.items()]
                yield (
                    f"{listing(named) or 'the whole'}: inversion counts {inverted.value:,.1f} ± "
                    f"{inverted.stderr:,.1f}, maximum likelihood {other:,.1f}; some cells were "
                    "estimated below 0 (try --method em)"
                )


def _is_count(expression: exp.Expression) -> bool:
    inner = bare(expression)
    inner = inner.this if isinstance(inner, exp.Filter) else inner
    return isinstance(inner, exp.Count | exp.CountIf)


def _sortable(value: Any, order: Order) -> tuple[bool, int, Any]:
    plain = _plain(value)
    if plain is None:
        return (order.nulls_first == order.descends, 0, 0)
    rank = (order.nulls_first != order.descends, int(isinstance(plain, str)))
    return (*rank, plain)


def _plain(value: Any) -> Any:
    """The number or the label; None for a total over a key, and for an answer without a value."""
    if isinstance(value, Answer):
        return value.value if math.isfinite(value.value) else None
    return value
