"""Statements that count: written once as a tree, and put into the words of whoever holds the rows
by what its engine declares that it can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import xor
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.bits import Bits
from sfumato.counting.limits import WIDE_RANGE
from sfumato.domain import Attribute, Cells, Items, Numeric

Tree = Any  # an expression; sqlglot's name for their base class is not the same in all its versions

BYTE = exp.DataType.Type.UTINYINT
CENTRE = "c"  # the mean of a group
PACKED, PACKED_AXES = "bits", 8  # the key that stands for up to so many columns of two cells
FEW_LABELS = 8  # up to which comparing with each is quicker than looking up a list
CASE_RUNS = 64  # a number cut more often is grouped by its values, which are then cut here


@dataclass(frozen=True)
class Dialect:
    """The capabilities of an engine, without which statements are written in another way.

    Quantiles are none of them: they are read off counts, which every engine gives. Nor are
    transactions: a database that has none holds no release.
    """

    name: str  # by which sqlglot knows the engine's SQL
    grouping: str | None = None  # what numbers the GROUPING SETS of a statement; None: it has none
    unnest: str | None = None  # what takes a list apart; None: a basket is a column for each item
    any_of_list: bool = False  # item = ANY(list), where ARRAY_CONTAINS is not known
    filters: bool = True  # COUNT(*) FILTER (WHERE …); else COUNT_IF
    variance: bool = True  # VAR_POP; else the squares about the mean that a window computes
    typed: bool = True  # a column has one type; else every value may have its own
    finite: str | None = None  # what knows finite numbers, where comparisons pass over the others
    # Truth values are compared and packed as small numbers, the extremes of blocks of rows are
    # known without reading them, and every value is counted as soon as a few cells are.
    columnar: bool = False
    # A table of at most so many cells is counted cell by cell, without GROUP BY; of a larger one,
    # so many two-celled columns are counted beside the groups (bench/cube.py). Few where a
    # condition is computed again for every count that names it.
    listed_cells: int = 16
    listed_beside: int = 3

    def word(self, text: str) -> str:
        """A word as a value of a statement."""
        return self.text(exp.Literal.string(text))

    def text(self, statement: Tree, *, copy: bool = True) -> str:
        """A statement in this engine's words; a tree that is nobody else's need not be copied."""
        return str(statement.sql(dialect=self.name, copy=copy))

    def listed(self, cells: Sequence[Cells]) -> list[int]:
        """The axes whose cells are counted by conditions, not by GROUP BY: all of a small table, a
        few narrow ones of a large.
        """
        if np.prod([part.size for part in cells], dtype=float) <= self.listed_cells:
            return list(range(len(cells)))
        narrow = [axis for axis, part in enumerate(cells) if part.size == 2]
        packed = self.columnar and len(narrow) > self.listed_beside
        return [] if packed else narrow[: self.listed_beside]

    def packed(self, axes: Mapping[int, Cells]) -> list[int]:
        """The axes of two cells that are grouped by one byte: DuckDB counts by one small number in
        less than half the time that eight truth values take.
        """
        narrow = [axis for axis, part in axes.items() if part.size == 2]
        return narrow[:PACKED_AXES] if self.columnar and len(narrow) > 1 else []


# Partitions as SQL sees them.


def runs_of(part: Cells) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Where each run of codes in one cell starts, and which cell that is.

    >>> starts, cells = runs_of(Numeric("age", 0, 9).cells_by_values(["3"], ["7", "8"]))
    >>> starts.tolist(), cells.tolist()
    ([0, 3, 4, 7, 9], [2, 0, 2, 1, 2])
    """
    codes, owners = np.arange(len(part.group)), part.group
    if part.starts is not None:
        last = np.r_[part.starts[1:] != part.starts[:-1], True] & (
            part.starts < part.attribute.size
        )
        codes, owners = part.starts[last], part.group[last]
    changes = np.r_[True, owners[1:] != owners[:-1]]
    return codes[changes].astype(np.int64), owners[changes]


def rest_of(part: Cells) -> int:
    """The cell that takes the most words to state; its rows are those that lie in no other cell.

    >>> rest_of(Numeric("age", 0, 9).cells_by_values(["3"], ["7", "8"]))
    2
    """
    if part.item is not None:
        return 0
    owners = runs_of(part)[1] if isinstance(part.attribute, Numeric) else part.group
    return int(np.bincount(owners, minlength=part.size).argmax())


def stated_cells(part: Cells) -> list[int]:
    """Every cell but the rest."""
    rest = rest_of(part)
    return [cell for cell in range(part.size) if cell != rest]


def by_value(part: Cells) -> bool:
    """Whether rows are best grouped by the value itself: where that makes few more groups, or saves
    very many comparisons.
    """
    if part.size <= 2:
        return False
    if isinstance(part.attribute, Numeric):
        return len(runs_of(part)[0]) > CASE_RUNS
    return part.attribute.size <= 2 * part.size


def joined(parts: Sequence[Cells]) -> Cells:
    """The coarsest partition of one axis that refines all of these.

    >>> age = Numeric("age", 0, 9)
    >>> joined([age.cells_by_cuts([3]), age.cells_by_cuts([3, 7])]).size
    3
    """
    first = parts[0]
    if first.item is not None or all(part.key == first.key for part in parts):
        return first
    codes = np.arange(first.attribute.size)
    if isinstance(first.attribute, Numeric):
        codes = np.unique(np.concatenate([runs_of(part)[0] for part in parts]))
    cells = np.stack([part.assign(codes).astype(np.intp) for part in parts])
    distinct, group = np.unique(cells, axis=1, return_inverse=True)
    labels = tuple(map(str, range(distinct.shape[1])))
    starts = codes if isinstance(first.attribute, Numeric) else None
    return Cells(first.attribute, labels, np.asarray(group).reshape(-1), starts)


def packed_base(places: int) -> int:
    """The byte of so many columns, none of whose conditions is true: each condition turns the bit
    of its own, and no other.

    A condition shifts a number of ones to the right, by which it loses its highest; joined by XOR,
    they are a byte.

    >>> [bin(packed_base(places)) for places in (1, 2, 3)]
    ['0b1', '0b10', '0b101']
    """
    return reduce(xor, (ones(place) for place in range(places)), 0)


def ones(place: int) -> int:
    """The number whose bits up to a place are all set.

    >>> [ones(place) for place in range(3)]
    [1, 3, 7]
    """
    return (2 << place) - 1


def middle_of(attribute: Numeric) -> int:
    """A whole number in the middle of a range: sums of whole numbers less it stay small."""
    return int((attribute.min + attribute.max) // 2)


def whole_items(attribute: Items) -> bool:
    """Whether files and tables hold the items of a column as whole numbers, since all of them
    are.
    """
    held = attribute.decode(Bits.zeros(0, attribute.size)).type.value_type
    return bool(pa.types.is_integer(held))


@dataclass(frozen=True, eq=False)
class StatementWriter:
    """Writes the statements over one relation."""

    dialect: Dialect
    rows_from: Tree
    flags: bool = False

    # What is counted.

    def counted(self, cells: Sequence[Cells], listed: Sequence[int]) -> exp.Select:
        """Rows grouped by the cells of some axes, each group with the counts of all combinations of
        cells of the listed axes.

        Of a listed axis one cell is never stated, so its place holds the rows of all its cells
        together.
        """
        rests = [rest_of(cells[axis]) for axis in listed]
        events = {
            (axis, cell): f"e{axis}_{cell}" for axis in listed for cell in stated_cells(cells[axis])
        }
        counts = []
        for number, choice in enumerate(product(*(range(cells[axis].size) for axis in listed))):
            pairs = zip(listed, choice, rests, strict=True)
            stated = [_column(events[axis, cell]) for axis, cell, rest in pairs if cell != rest]
            counts.append(_named(self._count_where(stated), f"n{number}"))
        named = [
            _named(self.event(cells[axis], cell), name) for (axis, cell), name in events.items()
        ]
        return self._grouped(
            {axis: part for axis, part in enumerate(cells) if axis not in listed}, counts, named
        )

    def powers(self, cells: Sequence[Cells], name: str, middle: float, half: float) -> exp.Select:
        """Σ z^p, p = 0..4, for every combination of cells that occurs, z = (number - middle) /
        half.
        """
        number = exp.cast(_column(name), exp.DataType.Type.DOUBLE)
        scaled = exp.Div(
            this=exp.paren(exp.Sub(this=number, expression=_number(middle))),
            expression=_number(half),
        )
        power, sums = _column("z"), [_named(_count(), "s0")]
        for exponent in range(1, 5):
            sums.append(_named(exp.Sum(this=power), f"s{exponent}"))
            power = exp.Mul(this=power.copy(), expression=_column("z"))
        return self._grouped(dict(enumerate(cells)), sums, [_named(scaled, "z")])

    def spreads(self, cells: Sequence[Cells], attribute: Numeric) -> exp.Select:
        """Rows, mean and variance of a number for every combination of cells that occurs; of a
        whole number its sum beside the middle of its range, which is exact, and not its mean.
        """
        number, x = _column(attribute.name), _column("x")
        if attribute.whole:
            whole = exp.cast(number, exp.DataType.Type.BIGINT)
            number = exp.Sub(this=whole, expression=_number(middle_of(attribute)))
        sums: dict[str, Tree] = {"s": exp.Sum(this=x) if attribute.whole else exp.Avg(this=x)}
        # A running variance loses as many digits as its numbers lie deviations from 0.
        wide = attribute.whole and attribute.max - attribute.min >= WIDE_RANGE
        centred = wide or not self.dialect.variance
        if not centred:
            sums["v"] = exp.VariancePop(this=exp.cast(x, exp.DataType.Type.DOUBLE))
        else:
            away = exp.paren(exp.Sub(this=x, expression=_column(CENTRE)))
            sums["v"] = exp.Avg(this=exp.Mul(this=away, expression=away))
        selected = [_named(_count(), "n"), *(_named(part, name) for name, part in sums.items())]
        inner = [_named(number, "x")]
        return self._grouped(dict(enumerate(cells)), selected, inner, centred=centred)

    def grouping_sets(self, axes: Sequence[Cells], sets: Sequence[Sequence[int]]) -> exp.Select:
        """The counts over several sets of axes, from one scan; `g` tells the sets apart by the axes
        left out.
        """
        columns = [_column(f"k{place}") for place in range(len(axes))]
        inner = self._inner([_named(self.key(part), f"k{at}") for at, part in enumerate(axes)])
        groups = [exp.Tuple(expressions=[columns[at].copy() for at in places]) for places in sets]
        grouping = exp.Anonymous(this=self.dialect.grouping, expressions=columns)
        counts = [_named(_count(), "n"), _named(grouping, "g")]
        selected = exp.select(*(column.copy() for column in columns), *counts)
        return selected.from_(inner).group_by(exp.GroupingSets(expressions=groups))

    def itemsets(
        self, items: Sequence[tuple[Cells, int]], itemsets: NDArray[np.int32]
    ) -> exp.Select:  # (n, k)
        """How many rows hold each itemset, an item being one cell of a column: one row, one column
        an itemset, and one for all rows.
        """
        events = [
            _named(self.event(*items[item]), f"i{item}") for item in np.unique(itemsets).tolist()
        ]
        counts = [
            _named(self._count_where([_column(f"i{item}") for item in row]), f"n{place}")
            for place, row in enumerate(itemsets.tolist())
        ]
        # Thousands of trees that are nobody else's: to copy them took longer than to count.
        selected = exp.select(*counts, _named(_count(), "n"), copy=False)
        return selected.from_(self._inner(events), copy=False)

    def items(self, attribute: Attribute) -> exp.Select:
        """How many baskets hold each item, from one pass over the lists."""
        unnested = exp.Anonymous(this=self.dialect.unnest, expressions=[_column(attribute.name)])
        counted = exp.select(_column("item"), _named(_count(), "n"))
        return counted.from_(self._inner([_named(unnested, "item")])).group_by(_column("item"))

    def _count_where(self, events: Sequence[Tree]) -> Tree:
        if not events:
            return _count()
        every = exp.and_(*events, copy=False)
        if self.dialect.filters:
            return exp.Filter(this=_count(), expression=exp.Where(this=every))
        return exp.CountIf(this=every)  # many FILTERs in one statement are quadratic in DuckDB

    def _grouped(
        self,
        axes: Mapping[int, Cells],
        selected: Sequence[Tree],
        inner: Sequence[Tree],
        *,
        centred: bool = False,
    ) -> exp.Select:
        """What is selected for every combination of cells of these axes that occurs; several axes
        of two cells are one key, whose bits they are. `centred` puts the mean of its group beside
        every number x.
        """
        packed = self.dialect.packed(axes)
        keys = {
            f"k{axis}": self.key(part)
            for axis, part in axes.items()
            if part.size > 1 and axis not in packed
        }
        if packed:
            # DuckDB checks every sum, product and shift to the left for overflow, row by row; a
            # shift of a constant to the right it does not.
            shifted: list[Tree] = [
                exp.BitwiseRightShift(
                    this=exp.cast(exp.Literal.number(ones(place)), BYTE),
                    expression=exp.cast(self.key(axes[axis]), BYTE, copy=False),
                )
                for place, axis in enumerate(packed)
            ]
            keys[PACKED] = reduce(lambda a, b: exp.BitwiseXor(this=a, expression=b), shifted)
        rows = self._inner([*(_named(key, name) for name, key in keys.items()), *inner])
        if centred:
            mean = exp.Window(this=exp.Avg(this=_column("x")), partition_by=[*map(_column, keys)])
            beside = exp.select(exp.Star(), _named(mean, CENTRE), copy=False)
            rows = beside.from_(rows, copy=False).subquery("s", copy=False)
        statement = exp.select(*map(_column, keys), *selected, copy=False).from_(rows, copy=False)
        return statement.group_by(*map(_column, keys), copy=False) if keys else statement

    def _inner(self, columns: Sequence[Tree]) -> Tree:
        selected = list(columns) or [_named(exp.Literal.number(1), "one")]
        rows = exp.select(*selected, copy=False).from_(self.rows_from.copy(), copy=False)
        return rows.subquery("r", copy=False)

    # What shows whether the rows are reports.

    def absent(self, attribute: Attribute) -> exp.Select:
        """How many rows hold no list at all."""
        absent = exp.Is(this=_column(attribute.name), expression=exp.null())
        return exp.select(_named(_count(), "n")).from_(self.rows_from.copy()).where(absent)

    def strangers(self, columns: Mapping[str, Attribute], kinds: pa.Schema) -> exp.Select:
        """Column by column, a number above 0 where some row holds what no report does: a null, or a
        value outside the domain. A column is known by the name it has among the rows.
        """
        counts = [
            _named(self._strangers(name, attribute, kinds), f"s{place}")
            for place, (name, attribute) in enumerate(columns.items())
        ]
        return exp.select(*counts, _named(_count(), "n")).from_(self.rows_from.copy())

    def _strangers(self, name: str, attribute: Attribute, kinds: pa.Schema) -> Tree:
        tests = _strange(name, attribute, kinds, self.dialect)
        if not self.dialect.columnar or self.flags:  # of text, no extremes are known
            absent = exp.Is(this=_column(name), expression=exp.null())
            return self._count_where([exp.or_(absent, *tests, *_beyond(attribute, _column(name)))])
        # Of nulls and extremes DuckDB keeps account for every block, and then reads no row.
        ends = _beyond(attribute, exp.Min(this=_column(name)), exp.Max(this=_column(name)))
        held = exp.LT(this=exp.Count(this=_column(name)), expression=_count())
        found: Tree = exp.Case().when(exp.or_(held, *ends), "1").else_("0")
        for test in tests:
            rows = exp.select(_count()).from_(self.rows_from.copy()).where(test)
            found = exp.Add(this=found, expression=rows.subquery())
        return found

    def kinds(self, columns: Sequence[str]) -> exp.Select:
        """No row of these columns, which shows of what type they are."""
        return exp.select(*map(_column, columns)).from_(self.rows_from.copy()).limit(0)

    def values(self, name: str) -> exp.Select:
        """The different values of a column."""
        return exp.select(_column(name)).distinct().from_(self.rows_from.copy())

    # Conditions and keys of a row.

    def holds(self, attribute: Items, item: int) -> Tree:
        """Whether a basket holds an item."""
        label = attribute.labels[item]
        if self.flags:
            return exp.EQ(this=_column(label), expression=exp.Literal.string("1"))
        literal = exp.Literal.number if whole_items(attribute) else exp.Literal.string
        value = literal(label)
        if self.dialect.any_of_list:
            return exp.EQ(this=value, expression=exp.Any(this=exp.paren(_column(attribute.name))))
        return exp.ArrayContains(this=_column(attribute.name), expression=value)

    def event(self, part: Cells, cell: int) -> Tree:
        """Whether a row lies in one cell."""
        attribute = part.attribute
        if isinstance(attribute, Items):
            assert part.item is not None
            held = self.holds(attribute, part.item)
            return held if cell else exp.not_(held)
        if not isinstance(attribute, Numeric):
            return _one_of(attribute, np.flatnonzero(part.group == cell))
        starts, owners = runs_of(part)
        ends = np.r_[starts[1:], attribute.size]
        runs = [
            self._run(part.name, attribute, starts[place], ends[place])
            for place in np.flatnonzero(owners == cell)
        ]
        return exp.or_(*runs, copy=False) if runs else exp.false()

    def _run(self, name: str, attribute: Numeric, start: int, end: int) -> Tree:
        """Whether a number's code lies in start..end-1, by its value on the grid."""
        low, high = (_number(number) for number in attribute.numbers(np.array([start, end - 1])))
        column = _column(name)
        if start == 0:
            return exp.LTE(this=column, expression=high) if end < attribute.size else exp.true()
        if end == attribute.size:
            return exp.GTE(this=column, expression=low)
        if end == start + 1:
            return exp.EQ(this=column, expression=low)
        if not self.dialect.columnar:  # elsewhere one BETWEEN is cheaper than two comparisons
            return exp.Between(this=column, low=low, high=high)
        reached = exp.paren(exp.GTE(this=column, expression=low), copy=False)
        passed = exp.paren(exp.GT(this=column.copy(), expression=high), copy=False)
        return exp.paren(exp.GT(this=reached, expression=passed), copy=False)

    def key(self, part: Cells) -> Tree:
        """What rows are grouped by: a condition for two cells, the value itself, or the number of
        the cell.
        """
        attribute, stated = part.attribute, stated_cells(part)
        if part.size <= 2:
            return self.event(part, stated[0]) if stated else exp.true()
        if by_value(part):
            return _column(attribute.name)
        if isinstance(attribute, Numeric):
            starts, owners = runs_of(part)
            return _tree(part.name, attribute.numbers(starts), owners)
        case = exp.Case()
        for cell in range(part.size):
            codes = np.flatnonzero(part.group == cell)
            if len(codes):
                case = case.when(_one_of(attribute, codes), exp.Literal.number(cell))
        return case


def _one_of(attribute: Attribute, codes: NDArray[Any]) -> Tree:
    """Whether a word is one of these."""
    words = [exp.Literal.string(attribute.labels[code]) for code in codes]
    if len(words) > 1:
        return exp.In(this=_column(attribute.name), expressions=words)
    return exp.EQ(this=_column(attribute.name), expression=words[0]) if words else exp.false()


def _tree(name: str, numbers: NDArray[Any], owners: NDArray[Any]) -> Tree:
    """The cell of a number by halving: a row meets as many comparisons as the logarithm of the
    number of cuts.
    """
    if len(owners) == 1:
        return exp.Literal.number(int(owners[0]))
    middle = len(owners) // 2
    below = exp.LT(this=_column(name), expression=_number(numbers[middle]))
    return exp.Case(
        ifs=[exp.If(this=below, true=_tree(name, numbers[:middle], owners[:middle]))],
        default=_tree(name, numbers[middle:], owners[middle:]),
    )


def _beyond(attribute: Attribute, least: Tree, most: Tree | None = None) -> list[Tree]:
    """Whether a number, or the least or the most of several, lies beyond its range."""
    if not isinstance(attribute, Numeric):
        return []
    return [
        exp.LT(this=least.copy(), expression=_number(attribute.min)),
        exp.GT(this=(most or least).copy(), expression=_number(attribute.max)),
    ]


def _strange(name: str, attribute: Attribute, kinds: pa.Schema, dialect: Dialect) -> list[Tree]:
    """The ways in which a value between the extremes may be none of the domain's."""
    column, tests = _column(name), list[Tree]()
    if not isinstance(attribute, Numeric):
        labels = ("0", "1") if isinstance(attribute, Items) else attribute.labels
        words = [exp.Literal.string(label) for label in labels]
        if len(words) > FEW_LABELS:
            return [exp.not_(exp.In(this=column, expressions=words))]
        return [exp.and_(*(exp.NEQ(this=column.copy(), expression=word) for word in words))]
    if not dialect.typed:
        wanted = ("integer",) if attribute.whole else ("integer", "real")
        kinds_of = [exp.Literal.string(each) for each in wanted]
        found = exp.Anonymous(this="TYPEOF", expressions=[column])
        return [exp.not_(exp.In(this=found, expressions=kinds_of))]
    kind = kinds.field(name).type
    if attribute.whole and not pa.types.is_integer(kind):
        tests.append(exp.NEQ(this=exp.Floor(this=column.copy()), expression=column.copy()))
    if pa.types.is_floating(kind):  # a number that is none is no extreme, so it is looked for
        # DuckDB takes ISNAN for a comparison, and a block whose extremes are numbers for sound.
        finite = exp.Anonymous(this=dialect.finite or "", expressions=[column.copy()])
        tests.append(exp.not_(finite) if dialect.finite else exp.IsNan(this=column.copy()))
    return tests


def _column(name: str) -> Tree:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def _named(expression: Tree, name: str) -> Tree:
    return exp.Alias(this=expression, alias=exp.Identifier(this=name, quoted=True))


def _count() -> Tree:
    return exp.Count(this=exp.Star(), big_int=True)


def _number(value: Any) -> Tree:
    """A literal that every engine reads as this very number: with an exponent where it is a double,
    not a decimal.
    """
    number = value.item() if isinstance(value, np.generic) else value
    text = str(abs(number)) if isinstance(number, int) else repr(abs(float(number)))
    if not isinstance(number, int) and "e" not in text:
        text += "e0"
    literal = exp.Literal.number(text)
    return exp.Neg(this=literal) if number < 0 else literal
