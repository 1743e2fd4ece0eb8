"""Statements that count: written once as a tree, and put into the dialect of whoever holds the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.bits import Bits
from sfumato.counting.sql.partitions import by_value, rest_of, runs_of, stated_cells
from sfumato.domain import Attribute, Cells, Items, Numeric

Tree = Any  # an expression; sqlglot's name for their base class is not the same in all its versions


@dataclass(frozen=True, eq=False)
class Writer:
    """Writes the statements over one relation."""

    dialect: str
    rows_from: Tree
    flags: bool = False

    def listed(self, cells: Sequence[Cells]) -> exp.Select:
        """Counts of rows in all combinations of all but one cell of each column: one row, from which the table follows."""
        rests = [rest_of(part) for part in cells]
        names = {(place, cell): f"e{place}_{cell}" for place, part in enumerate(cells) for cell in stated_cells(part)}
        events = [_named(self.event(cells[place], cell), name) for (place, cell), name in names.items()]
        counts = []
        for number, choice in enumerate(product(*(range(part.size) for part in cells))):
            stated = [names[place, cell] for place, cell in enumerate(choice) if cell != rests[place]]
            counts.append(_named(self._count_where([_column(name) for name in stated]), f"n{number}"))
        return exp.select(*counts).from_(self._inner(events))

    def _count_where(self, events: Sequence[Tree]) -> Tree:
        if not events:
            return _count()
        if self.dialect == "postgres":
            return exp.Filter(this=_count(), expression=exp.Where(this=exp.and_(*events)))
        return exp.CountIf(this=exp.and_(*events))  # many FILTERs in one statement are quadratic in DuckDB

    def grouped(self, cells: Sequence[Cells], sums: Sequence[Tree] = (), extra: Sequence[Any] = ()) -> exp.Select:
        """The count, and the given sums, of every combination of cells that occurs."""
        keys = [(f"k{place}", self.key(part)) for place, part in enumerate(cells) if part.size > 1]
        columns = [_column(name) for name, _ in keys]
        inner = self._inner([*(_named(key, name) for name, key in keys), *extra])
        statement = exp.select(*columns, _named(_count(), "n"), *sums).from_(inner)
        return statement.group_by(*columns) if columns else statement

    def powers(self, cells: Sequence[Cells], name: str, middle: float, half: float) -> exp.Select:
        """Σ z^p, p = 0..4, for every combination of cells that occurs, z = (number - middle) / half."""
        number = exp.cast(self.column(name), exp.DataType.Type.DOUBLE)
        scaled = exp.Div(this=exp.paren(exp.Sub(this=number, expression=_number(middle))), expression=_number(half))
        power, sums = _column("z"), []
        for exponent in range(1, 5):
            sums.append(_named(exp.Sum(this=power), f"s{exponent}"))
            power = exp.Mul(this=power.copy(), expression=_column("z"))
        return self.grouped(cells, sums, [_named(scaled, "z")])

    def grouping_sets(self, axes: Sequence[Cells], sets: Sequence[Sequence[int]]) -> exp.Select:
        """The counts over several sets of axes, from one scan; `g` tells the sets apart by the axes left out."""
        columns = [_column(f"k{place}") for place in range(len(axes))]
        inner = self._inner([_named(self.key(part), f"k{place}") for place, part in enumerate(axes)])
        groups = [exp.Tuple(expressions=[columns[place].copy() for place in places]) for places in sets]
        grouping = exp.Anonymous(this="GROUPING_ID" if self.dialect == "spark" else "GROUPING", expressions=columns)
        selected = [*(column.copy() for column in columns), _named(_count(), "n"), _named(grouping, "g")]
        return exp.select(*selected).from_(inner).group_by(exp.GroupingSets(expressions=groups))

    def itemsets(self, items: Sequence[tuple[Cells, int]], itemsets: NDArray[np.int32]) -> exp.Select:  # (n, k)
        """How many rows hold each itemset, an item being one cell of a column: one row, one column an itemset."""
        events = [_named(self.event(*items[item]), f"i{item}") for item in np.unique(itemsets).tolist()]
        counts = [
            _named(self._count_where([_column(f"i{item}") for item in row]), f"n{place}")
            for place, row in enumerate(itemsets.tolist())
        ]
        return exp.select(*counts).from_(self._inner(events))

    def total(self) -> exp.Select:
        """How many rows there are."""
        return exp.select(_named(_count(), "n")).from_(self.rows_from.copy())

    def _inner(self, columns: Sequence[Tree]) -> Tree:
        selected = list(columns) or [_named(exp.Literal.number(1), "one")]
        return exp.select(*selected).from_(self.rows_from.copy()).subquery("r")

    def column(self, name: str) -> Tree:
        """A column of the rows."""
        return _column(name)

    def holds(self, attribute: Items, item: int) -> Tree:
        """Whether a basket holds an item."""
        label = attribute.labels[item]
        if self.flags:
            return exp.EQ(this=_column(label), expression=exp.Literal.string("1"))
        value = _item_literal(attribute, label)
        if self.dialect == "postgres":
            return exp.EQ(this=value, expression=exp.Any(this=exp.paren(_column(attribute.name))))
        return exp.ArrayContains(this=_column(attribute.name), expression=value)

    def event(self, part: Cells, cell: int) -> Tree:
        """Whether a row lies in one cell."""
        attribute = part.attribute
        if isinstance(attribute, Items):
            assert part.item is not None
            held = self.holds(attribute, part.item)
            return held if cell else exp.not_(held)
        if isinstance(attribute, Numeric):
            return self._between(part, attribute, cell)
        return self._one_of(attribute, np.flatnonzero(part.group == cell))

    def _one_of(self, attribute: Attribute, codes: NDArray[Any]) -> Tree:
        words = [exp.Literal.string(attribute.labels[code]) for code in codes]
        if len(words) > 1:
            return exp.In(this=_column(attribute.name), expressions=words)
        return exp.EQ(this=_column(attribute.name), expression=words[0]) if words else exp.false()

    def _between(self, part: Cells, attribute: Numeric, cell: int) -> Tree:
        starts, owners = runs_of(part)
        numbers = attribute.numbers(starts)
        intervals = []
        for place in np.flatnonzero(owners == cell):
            ends: list[Tree] = []
            if starts[place] > 0:
                ends.append(exp.GTE(this=_column(part.name), expression=_number(numbers[place])))
            if place + 1 < len(starts):
                ends.append(exp.LT(this=_column(part.name), expression=_number(numbers[place + 1])))
            intervals.append(exp.and_(*ends) if ends else exp.true())
        return exp.or_(*intervals) if intervals else exp.false()

    def key(self, part: Cells) -> Tree:
        """What rows are grouped by: a condition for two cells, the value itself, or the number of the cell."""
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


def _tree(name: str, numbers: NDArray[Any], owners: NDArray[Any]) -> Tree:
    """The cell of a number by halving: a row meets as many comparisons as the logarithm of the number of cuts."""
    if len(owners) == 1:
        return exp.Literal.number(int(owners[0]))
    middle = len(owners) // 2
    below = exp.LT(this=_column(name), expression=_number(numbers[middle]))
    return exp.Case(
        ifs=[exp.If(this=below, true=_tree(name, numbers[:middle], owners[:middle]))],
        default=_tree(name, numbers[middle:], owners[middle:]),
    )


def _column(name: str) -> Tree:
    return exp.column(exp.to_identifier(name, quoted=True))


def _named(expression: Tree, name: str) -> Tree:
    return exp.alias_(expression, name, quoted=True)


def _count() -> Tree:
    return exp.Count(this=exp.Star(), big_int=True)


def _number(value: Any) -> Tree:
    """A literal that every engine reads as this very number: with an exponent where it is a double, not a decimal."""
    number = value.item() if isinstance(value, np.generic) else value
    text = str(abs(number)) if isinstance(number, int) else repr(abs(float(number)))
    if not isinstance(number, int) and "e" not in text:
        text += "e0"
    literal = exp.Literal.number(text)
    return exp.Neg(this=literal) if number < 0 else literal


def _item_literal(attribute: Items, label: str) -> Tree:
    """An item as files hold it: a whole number where all items are."""
    held = attribute.decode(Bits.zeros(0, attribute.size)).type.value_type
    return exp.Literal.number(label) if pa.types.is_integer(held) else exp.Literal.string(label)
