"""query: SQL aggregates over a source, each reconstructed and with its standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.errors import EstimationError, ParameterError, QueryError, listing, near_miss
from sfumato.estimation.estimate import Answer, Estimate
from sfumato.estimation.evidence import CountEvidence
from sfumato.estimation.moments import own_factor
from sfumato.mine.cube.aggregates import Comparison, Distribution, Mask, Measures, Sheet, Tables
from sfumato.mine.cube.columns import Columns, Grid
from sfumato.mine.cube.conditions import (
    COMPARISONS,
    Condition,
    Key,
    condition,
    constant,
    is_constant,
    key,
)
from sfumato.mine.cube.grammar import Order, Query, bare, is_aggregate, parse
from sfumato.mine.cube.result import CubeResult, Row
from sfumato.source import Source

KEYED_CELLS = (
    512  # numbers with more values are summed by their powers instead of counted value by value
)
LARGEST_GRID = 1 << 22  # cells
COMPARED_CELLS = 1 << 8  # grids up to this size are also solved by maximum likelihood, to compare
COMPARED_STEPS = 600

Entry = Callable[["Group"], Any]  # what an output is in a group: an Answer, or a label


def query(source: Source, sql: str, *, method: str = "invert") -> CubeResult:
    """The answer to one SELECT of aggregates over a source, perturbed or true.

    COUNT, COUNT_IF, FILTER, SUM, AVG, VAR, STDDEV, MEDIAN, PERCENTILE_CONT and arithmetic of these;
    WHERE with any Boolean combination of comparisons with constants; GROUP BY columns, items, CASE,
    WIDTH_BUCKET, CUBE, ROLLUP; HAVING, ORDER BY, LIMIT on the reconstructed result. Every column is
    cut just where the question cuts it, the cells are counted in one scan and undone factor by
    factor (OLAP §4); `method="em"` takes the counts of maximum likelihood (iterative Bayes).
    """
    if method not in ("invert", "em"):
        raise ParameterError(
            f"no method '{method}' (invert, em)", hint=near_miss(method, ("invert", "em"))
        )
    return _Question(
        source, parse(sql, [axis.name for axis in source.domain.axes]), method
    ).answer()


@dataclass(frozen=True)
class Group:
    """One group of a grouping: which label each of its keys has, by position."""

    labels: dict[int, int]


@dataclass(eq=False)
class Frame:
    """The columns that one output needs beside those of WHERE and GROUP BY, and what was counted
    over them.
    """

    columns: Columns
    where: Condition | None
    keys: list[Key]
    measure: str | None = None  # a number whose sums are needed
    tables: Tables | None = None

    @cached_property
    def grid(self) -> Grid:
        """The joint cells; asked for only when all conditions are known."""
        return Grid.of(self.columns.found.values())

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What tells the cells of this frame from those of another."""
        return tuple(part.key for part in self.grid.cells)

    @property
    def inside(self) -> Mask:
        """The cells for which WHERE holds."""
        return (
            np.ones((1,) * len(self.grid.columns), dtype=bool)
            if self.where is None
            else self.where(self.grid)
        )

    def mask(self, group: Group) -> Mask:
        """The cells of a group."""
        mask = self.inside
        for place, label in group.labels.items():
            mask = mask & (self.keys[place].index(self.grid) == label)
        return mask

    def counted(self) -> Tables:
        """What was counted."""
        assert self.tables is not None
        return self.tables


class _Question:
    """A parsed query on its way to an answer."""

    def __init__(self, source: Source, asked: Query, method: str) -> None:
        self.source, self.asked, self.method = source, asked, method
        self.frames: list[Frame] = []
        self.notes: list[str] = []
        self.base = self._frame()
        self.entries = {output.name: self._entry(output.expression) for output in asked.outputs}
        self.having = self._predicate(asked.having) if asked.having is not None else None
        self.order = [(self._entry(order.expression), order) for order in asked.order]

    def _frame(self) -> Frame:
        columns = Columns(self.source.domain)
        where = condition(self.asked.where, columns) if self.asked.where is not None else None
        self.frames.append(
            Frame(columns, where, [key(expression, columns) for expression in self.asked.keys])
        )
        return self.frames[-1]

    def answer(self) -> CubeResult:
        """Count, reconstruct, group, filter, sort."""
        self._count()
        groups = [group for grouping in self.asked.sets for group in self._groups(grouping)]
        if self.having is not None:
            groups = [group for group in groups if self.having(group)]
        for entry, order in reversed(self.order):
            keys = [_sortable(entry(group), order) for group in groups]
            places = sorted(range(len(groups)), key=keys.__getitem__, reverse=order.descends)
            groups = [groups[place] for place in places]
        stop = None if self.asked.limit is None else self.asked.offset + self.asked.limit
        groups = groups[self.asked.offset : stop]
        rows = tuple(
            {name: entry(group) for name, entry in self.entries.items()} for group in groups
        )
        self._check_errors(rows)
        self._compare(groups)
        names = tuple(output.name for output in self.asked.outputs)
        return CubeResult(
            names,
            rows,
            self.method,
            self.source.rows,
            tuple(dict.fromkeys(self.notes)),
            self._keep(),
        )

    def _keep(self) -> float | None:
        """The keep of the one perturbed column, where all that is asked are counts by one."""
        counts = self.base.counted().counts
        only_counts = all(
            isinstance(expression, exp.Count)
            for _, expression in self._outputs()
            if is_aggregate(expression)
        )
        if counts is None or not only_counts or not isinstance(counts.evidence, CountEvidence):
            return None
        keeps = [own_factor(counts.evidence.channel, axis) for axis in range(len(counts.cells))]
        perturbed = [keep for keep in keeps if keep != 1]
        return perturbed[0] if len(perturbed) == 1 else None

    def _count(self) -> None:
        """One scan for the counts of all outputs, and one for each number that is summed."""
        for frame in self.frames:
            if frame.grid.size > LARGEST_GRID:
                raise QueryError(
                    f"this question needs {frame.grid.size:,} cells, more than {LARGEST_GRID:,}",
                    hint="group by fewer columns, or coarser bins",
                )
        asked = {frame.key: frame.grid.cells for frame in self.frames if frame.columns.found}
        counted = dict(zip(asked, self.source.marginals(list(asked.values())), strict=True))
        for frame in self.frames:
            frame.tables = self._tables(frame, counted.get(frame.key))

    def _tables(self, frame: Frame, counts: Estimate | None) -> Tables:
        if counts is None:
            return Tables(frame.grid, self.source.rows, None, {}, np.zeros(()))
        if frame.measure is None:
            value = counts.value if self.method == "invert" else self._likelihood(counts)
            return Tables(frame.grid, self.source.rows, counts, {}, value)
        if self.method == "em":
            raise QueryError(
                f"em needs counts, and '{frame.measure}' has too many values to count each",
                hint="use --method invert",
            )
        moments = self.source.moments(frame.grid.cells, frame.grid.place(frame.measure))
        return Tables(frame.grid, self.source.rows, counts, {frame.measure: moments}, counts.value)

    def _likelihood(self, counts: Estimate) -> NDArray[Any]:
        found = counts.likelihood()
        if not found.converged:
            self.notes.append(
                f"iterative Bayes stopped after {found.steps} steps, within {found.gap:.2g} a "
                "report of its goal"
            )
        return found.value

    def _groups(self, grouping: tuple[int, ...]) -> Iterator[Group]:
        if not grouping:
            yield Group({})
            return
        grid, keys = self.base.grid, self.base.keys
        sizes = [len(keys[place].labels) for place in grouping]
        indices = [np.broadcast_to(keys[place].index(grid), grid.shape) for place in grouping]
        number = np.ravel_multi_index(indices, sizes)
        for group in np.unique(number[np.broadcast_to(self.base.inside, grid.shape)]):
            places = np.unravel_index(int(group), sizes)
            yield Group({place: int(label) for place, label in zip(grouping, places, strict=True)})

    def _entry(self, expression: exp.Expression) -> Entry:
        """What an expression is in a group: a label where it is a key, itself where it is constant,
        else an estimate.
        """
        expression = bare(expression)
        if expression in self.asked.keys:
            place = self.asked.keys.index(expression)
            labels = self.base.keys[place].labels
            return lambda group: labels[group.labels[place]] if place in group.labels else None
        if is_constant(expression):
            value = constant(expression)
            return lambda group: value
        if isinstance(expression, exp.Column) or not is_aggregate(expression):
            raise self._not_grouped(expression)
        frame = self._frame()
        quantile = Distribution.of(expression, frame.columns)
        if quantile is not None:
            return lambda group: quantile.answer(frame.counted(), frame.mask(group))
        measures = Measures(frame.columns, KEYED_CELLS)
        compute = measures.compute(expression)
        frame.measure = measures.measure()

        def estimate(group: Group) -> Answer:
            sheet = Sheet(frame.counted(), frame.measure)
            return sheet.answer(compute(sheet, frame.mask(group)))

        return estimate

    def _not_grouped(self, expression: exp.Expression) -> Exception:
        if isinstance(expression, exp.Column):
            self.base.columns.column(
                expression.name
            )  # an unknown column says so, with its near miss
            return QueryError(
                f"column '{expression.name}' is neither grouped nor aggregated",
                hint="add it to GROUP BY",
            )
        return QueryError(f"{expression.sql()} is neither grouped nor an aggregate")

    def _predicate(self, expression: exp.Expression) -> Callable[[Group], bool]:
        """A condition on the answers of a group."""
        if isinstance(expression, exp.Paren):
            return self._predicate(expression.this)
        if isinstance(expression, exp.Not):
            inner = self._predicate(expression.this)
            return lambda group: not inner(group)
        if isinstance(expression, exp.And | exp.Or):
            left, right = self._predicate(expression.this), self._predicate(expression.expression)
            both = isinstance(expression, exp.And)
            return lambda group: (
                (left(group) and right(group)) if both else (left(group) or right(group))
            )
        if isinstance(expression, exp.Between):
            value, low, high = (
                self._entry(expression.args[word]) for word in ("this", "low", "high")
            )
            return lambda group: (
                _compares(">=", value(group), low(group))
                and _compares("<=", value(group), high(group))
            )
        if isinstance(expression, exp.In):
            value, listed = (
                self._entry(expression.this),
                [self._entry(entry) for entry in expression.expressions],
            )
            return lambda group: any(
                _compares("in", value(group), entry(group)) for entry in listed
            )
        for kind, (operator, _) in COMPARISONS.items():
            if type(expression) is kind and expression not in self.asked.keys:
                first, second = self._entry(expression.this), self._entry(expression.expression)
                return lambda group, operator=operator: _compares(
                    operator, first(group), second(group)
                )  # type: ignore[misc]
        if expression in self.asked.keys or isinstance(expression, exp.Boolean):
            truth = self._entry(expression)
            return lambda group: truth(group) is True
        raise QueryError(f"HAVING {expression.sql()} is not a comparison")

    def _check_errors(self, rows: tuple[Row, ...]) -> None:
        """Refuse a question whose every count is lost in its error."""
        counts = [name for name, expression in self._outputs() if isinstance(expression, exp.Count)]
        answers = [row[name] for row in rows for name in counts if isinstance(row[name], Answer)]
        if answers and all(answer.stderr > self.source.rows for answer in answers):
            least = min(answer.stderr for answer in answers)
            raise EstimationError(
                f"{len(self.base.columns.found)} columns leave a standard error of {least:,.3g} "
                f"on {self.source.rows:,} rows",
                hint="ask about fewer columns at once, or collect more rows",
            )

    def _outputs(self) -> list[tuple[str, exp.Expression]]:
        return [(output.name, output.expression) for output in self.asked.outputs]

    def _compare(self, groups: list[Group]) -> None:
        """Say where inversion and maximum likelihood disagree, if the inversion left
        the simplex.
        """
        tables = self.base.counted()
        evidence = None if tables.counts is None else tables.counts.evidence
        if (
            self.method != "invert"
            or tables.counts is None
            or not isinstance(evidence, CountEvidence)
        ):
            return
        comparison = Comparison(tables.counts, evidence)
        if not comparison.outside:
            return
        likely = comparison.likely(COMPARED_STEPS) if tables.grid.size <= COMPARED_CELLS else None
        if likely is None:
            self.notes.append(
                "some cells are estimated well below 0, so that maximum likelihood may differ "
                "(try --method em)"
            )
            return
        for group in groups:
            mask = np.broadcast_to(self.base.mask(group), tables.grid.shape).astype(float)
            plain = tables.counts.dot(mask)
            other = float((likely * mask).sum())
            if abs(other - plain.value) > plain.stderr > 0:
                self.notes.append(
                    f"{self._named(group)}: inversion counts {plain.value:,.1f} ± "
                    f"{plain.stderr:,.1f}, maximum likelihood "
                    f"{other:,.1f}; some cells were estimated below 0 (try --method em)"
                )

    def _named(self, group: Group) -> str:
        keys = (
            (self.asked.keys[place].sql(), self.base.keys[place].labels[label])
            for place, label in group.labels.items()
        )
        return listing(f"{name} = {label}" for name, label in keys) or "the whole"


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


def _compares(operator: str, first: Any, second: Any) -> bool:
    """A comparison of two answers or labels; with NULL none holds."""
    left, right = _plain(first), _plain(second)
    if left is None or right is None:
        return False
    if operator in ("in", "not in"):
        return (left == right) == (operator == "in")
    try:
        return bool(
            {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[
                operator
            ]
        )
    except TypeError:
        raise QueryError(f"cannot compare {left!r} with {right!r}") from None


__all__ = ["CubeResult", "Key", "query"]
