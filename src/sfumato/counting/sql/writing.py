"""Statements that count: written once as a tree, and put into the dialect of whoever holds the
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.bits import Bits
from sfumato.counting.sql.dialect import Dialect, Tree
from sfumato.counting.sql.partitions import (
    PACKED,
    by_value,
    ones,
    packed_axes,
    rest_of,
    runs_of,
    stated_cells,
)
from sfumato.domain import Attribute, Cells, Items, Numeric

FEW_LABELS = 8  # up to which comparing with each is quicker than looking up a list
BYTE, INT = exp.DataType.Type.UTINYINT, exp.DataType.Type.INT
CARRY = 1 << 7  # the highest bit of a byte, into which a code of seven bits may carry
LONG = "DECIMAL(38, 0)"  # whole numbers that no sum of squares of a column overflows
HALF_BITS = 32  # bits of the lower half of a square
CENTRE = "c"  # the mean of a group


@dataclass(frozen=True, eq=False)
class StatementWriter:
    """Writes the statements over one relation."""

    dialect: Dialect
    rows_from: Tree
    flags: bool = False

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

    def _count_where(self, events: Sequence[Tree]) -> Tree:
        if not events:
            return _count()
        if self.dialect.filters:
            every = exp.and_(*events, copy=False)
            return exp.Filter(this=_count(), expression=exp.Where(this=every))
        return exp.CountIf(
            this=exp.and_(*events, copy=False)
        )  # many FILTERs in one statement are quadratic in DuckDB

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
        packed = packed_axes(axes, self.dialect)
        keys = {
            f"k{axis}": self.key(part)
            for axis, part in axes.items()
            if part.size > 1 and axis not in packed
        }
        if packed:
            keys[PACKED] = _byte([self.key(axes[axis]) for axis in packed])
        rows = self._inner([*(_named(key, name) for name, key in keys.items()), *inner])
        if centred:
            mean = exp.Window(this=exp.Avg(this=_column("x")), partition_by=[*map(_column, keys)])
            beside = exp.select(exp.Star(), _named(mean, CENTRE), copy=False)
            rows = beside.from_(rows, copy=False).subquery("s", copy=False)
        statement = exp.select(*map(_column, keys), *selected, copy=False).from_(rows, copy=False)
        return statement.group_by(*map(_column, keys), copy=False) if keys else statement

    def bits(self, halves: Sequence[Cells], code: Tree | None, first: int) -> exp.Select:
        """For every row one byte: the code of a column, and from a bit on the truth values of
        others.
        """
        byte = _byte([self.key(part) for part in halves], first) if halves else None
        both = [part for part in (code, byte) if part is not None]
        return exp.select(_named(reduce(_xor, both), PACKED)).from_(self.rows_from.copy())

    def code(self, attribute: Attribute, *, listed: bool) -> Tree:
        """The number of a word: among those that the type of its column lists, else among those of
        the domain, from 1 on.
        """
        column = _column(attribute.name)
        if listed:
            return exp.cast(exp.Anonymous(this="ENUM_CODE", expressions=[column]), BYTE)
        words = exp.Array(expressions=[exp.Literal.string(word) for word in attribute.labels])
        return exp.cast(exp.Anonymous(this="LIST_POSITION", expressions=[words, column]), BYTE)

    def fields(self, ranges: Sequence[tuple[Numeric, int, int]]) -> exp.Select:
        """For every row one number of four bytes, each of which has its highest bit, and no other,
        where the code of a column lies in a range from start to end.

        To the codes of all columns at once is added what carries those from their start on into
        that bit, and what carries those from their end on: the two sums differ in it where a code
        lies between. DuckDB knows the extremes of its columns, and adds without a check where no
        sum can overflow.
        """
        codes, sums = list[Tree](), [0, 0]
        for place, (attribute, *ends) in enumerate(ranges):
            code: Tree = exp.cast(_column(attribute.name), INT)
            unit = 1 << 8 * place
            if attribute.min:
                code = exp.paren(exp.Sub(this=code, expression=_number(attribute.min)))
            codes.append(exp.Mul(this=code, expression=_number(unit)) if place else code)
            # The highest bit of the last byte is the sign: there it stands for what is below 0.
            carried = 0 if place == len(ranges) - 1 else CARRY
            sums = [total + unit * (carried - end) for total, end in zip(sums, ends, strict=True)]
        words = self._inner([_named(reduce(_add, codes), "w")])
        both = _xor(*(_add(_column("w"), _number(total)) for total in sums))
        highest = int.from_bytes(bytes([CARRY] * len(ranges)), "little", signed=True)
        masked = exp.BitwiseAnd(this=both, expression=exp.paren(_number(highest)))
        return exp.select(_named(masked, PACKED)).from_(words)

    def powers(self, cells: Sequence[Cells], name: str, middle: float, half: float) -> exp.Select:
        """Σ z^p, p = 0..4, for every combination of cells that occurs, z = (number - middle) /
        half.
        """
        number = exp.cast(_column(name), exp.DataType.Type.DOUBLE)
        scaled = exp.Div(
            this=exp.paren(exp.Sub(this=number, expression=_number(middle))),
            expression=_number(half),
        )
        power, sums = _column("z"), [_named(_count(), "n")]
        for exponent in range(1, 5):
            sums.append(_named(exp.Sum(this=power), f"s{exponent}"))
            power = exp.Mul(this=power.copy(), expression=_column("z"))
        return self._grouped(dict(enumerate(cells)), sums, [_named(scaled, "z")])

    def spreads(self, cells: Sequence[Cells], attribute: Numeric) -> exp.Select:
        """Rows, sum and sum of squares of a whole number about the middle of its range, all of them
        whole; mean and variance of any other; for every combination of cells that occurs.
        """
        sums: dict[str, Tree]
        number, x = _column(attribute.name), _column("x")
        if attribute.whole:
            whole = exp.cast(number, exp.DataType.Type.BIGINT)
            number = exp.Sub(this=whole, expression=_number(middle_of(attribute)))
            parts = {"s": x, **self._squares(exp.paren(exp.Mul(this=x, expression=x)))}
            sums = {name: exp.Sum(this=part) for name, part in parts.items()}
        elif self.dialect.variance:
            sums = {"m": exp.Avg(this=x), "v": exp.VariancePop(this=x)}
        else:
            away = exp.paren(exp.Sub(this=x, expression=_column(CENTRE)))
            sums = {"m": exp.Avg(this=x), "v": exp.Avg(this=exp.Mul(this=away, expression=away))}
        selected = [_named(_count(), "n"), *(_named(part, name) for name, part in sums.items())]
        centred = not (attribute.whole or self.dialect.variance)
        return self._grouped(
            dict(enumerate(cells)), selected, [_named(number, "x")], centred=centred
        )

    def _squares(self, square: Tree) -> dict[str, Tree]:
        """Squares of at most 63 bits as no sum of them overflows: as decimals, or in two halves."""
        if self.dialect.decimals:
            return {"q": exp.cast(square, LONG)}
        half = _number(HALF_BITS)
        return {
            "high": exp.BitwiseRightShift(this=square, expression=half),
            "low": exp.BitwiseAnd(this=square, expression=_number((1 << HALF_BITS) - 1)),
        }

    def grouping_sets(self, axes: Sequence[Cells], sets: Sequence[Sequence[int]]) -> exp.Select:
        """The counts over several sets of axes, from one scan; `g` tells the sets apart by the axes
        left out.
        """
        columns = [_column(f"k{place}") for place in range(len(axes))]
        inner = self._inner(
            [_named(self.key(part), f"k{place}") for place, part in enumerate(axes)]
        )
        groups = [
            exp.Tuple(expressions=[columns[place].copy() for place in places]) for places in sets
        ]
        grouping = exp.Anonymous(this=self.dialect.grouping, expressions=columns)
        selected = [
            *(column.copy() for column in columns),
            _named(_count(), "n"),
            _named(grouping, "g"),
        ]
        return exp.select(*selected).from_(inner).group_by(exp.GroupingSets(expressions=groups))

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
        return (
            exp.select(_column("item"), _named(_count(), "n"))
            .from_(self._inner([_named(unnested, "item")]))
            .group_by(_column("item"))
        )

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

    def kinds(self, columns: Sequence[str], rows: int = 0) -> exp.Select:
        """No row of these columns, which shows of what type they are; or some."""
        return exp.select(*map(_column, columns)).from_(self.rows_from.copy()).limit(rows)

    def values(self, name: str) -> exp.Select:
        """The different values of a column."""
        return exp.select(_column(name)).distinct().from_(self.rows_from.copy())

    def _inner(self, columns: Sequence[Tree]) -> Tree:
        selected = list(columns) or [_named(exp.Literal.number(1), "one")]
        rows = exp.select(*selected, copy=False).from_(self.rows_from.copy(), copy=False)
        return rows.subquery("r", copy=False)

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
            return self._one_of(attribute, np.flatnonzero(part.group == cell))
        starts, owners = runs_of(part)
        ends = np.r_[starts[1:], attribute.size]
        runs = [
            self._run(part, attribute, starts[place], ends[place])
            for place in np.flatnonzero(owners == cell)
        ]
        return exp.or_(*runs, copy=False) if runs else exp.false()

    def _one_of(self, attribute: Attribute, codes: NDArray[Any]) -> Tree:
        words = [exp.Literal.string(attribute.labels[code]) for code in codes]
        if len(words) > 1:
            return exp.In(this=_column(attribute.name), expressions=words)
        return exp.EQ(this=_column(attribute.name), expression=words[0]) if words else exp.false()

    def _run(self, part: Cells, attribute: Numeric, start: int, end: int) -> Tree:
        """Whether a number's code lies in start..end-1, by its value on the grid."""
        low, high = (_number(number) for number in attribute.numbers(np.array([start, end - 1])))
        column = _column(part.name)
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
                case = case.when(self._one_of(attribute, codes), exp.Literal.number(cell))
        return case


def _byte(events: Sequence[Tree], first: int = 0) -> Tree:
    """Truth values as the bits of one byte, from a bit on (`packed_base`). DuckDB checks every sum,
    product and shift to the left for overflow, row by row; a shift of a constant to the right it
    does not.
    """
    shifted: list[Tree] = [
        exp.BitwiseRightShift(
            this=exp.cast(exp.Literal.number(ones(place)), BYTE),
            expression=exp.cast(event, BYTE, copy=False),
        )
        for place, event in enumerate(events, first)
    ]
    return reduce(_xor, shifted)


def _add(first: Tree, second: Tree) -> Tree:
    return exp.Add(this=first, expression=second)


def _xor(first: Tree, second: Tree) -> Tree:
    return exp.BitwiseXor(this=first, expression=second)


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


def middle_of(attribute: Numeric) -> int:
    """A whole number in the middle of a range: beside it every square has 63 bits at most."""
    return int((attribute.min + attribute.max) // 2)


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


def _column(name: str) -> Tree:
    return exp.Column(this=_identifier(name))


def _named(expression: Tree, name: str) -> Tree:
    return exp.Alias(this=expression, alias=_identifier(name))


def _identifier(name: str) -> Tree:
    return exp.Identifier(this=name, quoted=True)


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


def whole_items(attribute: Items) -> bool:
    """Whether files and tables hold the items of a column as whole numbers, since all of them
    are.
    """
    held = attribute.decode(Bits.zeros(0, attribute.size)).type.value_type
    return bool(pa.types.is_integer(held))
