"""Statements that count: SQL as every engine reads it, but for what its dialect declares otherwise.

Names of columns and words are quoted by the dialect; all other names in a statement are ours.
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

from sfumato.bits import Bits
from sfumato.counting.limits import WIDE_RANGE
from sfumato.domain import Attribute, Cells, Items, Numeric

COUNT = "COUNT(*)"
PACKED, PACKED_AXES = "bits", 8  # the key that stands for up to so many columns of two cells
FEW_LABELS = 8  # up to which comparing with each is quicker than looking up a list
CASE_RUNS = 64  # a number cut more often is grouped by its values, which are then cut here


@dataclass(frozen=True)
class Dialect:
    """The capabilities of an engine, without which statements are written in another way.

    Quantiles are none of them: they are read off counts, which every engine gives. Nor are
    transactions: a database that has none holds no release.
    """

    name: str
    quote: str = '"'  # around the name of a column
    backslash: bool = False  # whether a backslash in a word says how the next letter is meant
    double: str = "DOUBLE"  # what the type of doubles is called
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

    def quoted(self, name: str) -> str:
        """A name in a statement, whatever it holds."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def word(self, text: str) -> str:
        """A word as a value of a statement.

        >>> print(Dialect("sqlite").word("it's"), Dialect("spark", backslash=True).word("it's"))
        'it''s' 'it\\'s'
        """
        if self.backslash:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"

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
    rows_from: str
    flags: bool = False

    # What is counted.

    def counted(self, cells: Sequence[Cells], listed: Sequence[int]) -> str:
        """Rows grouped by the cells of some axes, each group with the counts of all combinations of
        cells of the listed axes.

        Of a listed axis one cell is never stated, so its place holds the rows of all its cells
        together.
        """
        rests = [rest_of(cells[axis]) for axis in listed]
        counts = []
        for number, choice in enumerate(product(*(range(cells[axis].size) for axis in listed))):
            chosen = zip(listed, choice, rests, strict=True)
            stated = [f"e{axis}_{cell}" for axis, cell, rest in chosen if cell != rest]
            counts.append(f"{self._count_where(stated)} AS n{number}")
        events = [
            f"{self.event(cells[axis], cell)} AS e{axis}_{cell}"
            for axis in listed
            for cell in stated_cells(cells[axis])
        ]
        grouped = {axis: part for axis, part in enumerate(cells) if axis not in listed}
        return self._grouped(grouped, counts, events)

    def powers(self, cells: Sequence[Cells], name: str, middle: float, half: float) -> str:
        """Σ z^p, p = 0..4, for every combination of cells that occurs, z = (number - middle) /
        half.
        """
        number = f"CAST({self.dialect.quoted(name)} AS {self.dialect.double})"
        scaled = f"({number} - {_number(middle)}) / {_number(half)} AS z"
        powers = [" * ".join("z" * power) for power in range(1, 5)]
        sums = [f"SUM({power}) AS s{place}" for place, power in enumerate(powers, 1)]
        return self._grouped(dict(enumerate(cells)), [f"{COUNT} AS s0", *sums], [scaled])

    def spreads(self, cells: Sequence[Cells], attribute: Numeric) -> str:
        """Rows, mean and variance of a number for every combination of cells that occurs; of a
        whole number its sum beside the middle of its range, which is exact, and not its mean.
        """
        number, total = self.dialect.quoted(attribute.name), "AVG(x)"
        if attribute.whole:
            number, total = f"CAST({number} AS BIGINT) - {_number(middle_of(attribute))}", "SUM(x)"
        # A running variance loses as many digits as its numbers lie deviations from 0.
        wide = attribute.whole and attribute.max - attribute.min >= WIDE_RANGE
        centred = wide or not self.dialect.variance
        variance = f"VAR_POP(CAST(x AS {self.dialect.double}))"
        if centred:
            variance = "AVG((x - c) * (x - c))"
        selected = [f"{COUNT} AS n", f"{total} AS s", f"{variance} AS v"]
        return self._grouped(dict(enumerate(cells)), selected, [f"{number} AS x"], centred=centred)

    def grouping_sets(self, axes: Sequence[Cells], sets: Sequence[Sequence[int]]) -> str:
        """The counts over several sets of axes, from one scan; `g` tells the sets apart by the axes
        left out.
        """
        keys = ", ".join(f"k{place}" for place in range(len(axes)))
        inner = self._inner([f"{self.key(part)} AS k{at}" for at, part in enumerate(axes)])
        groups = ", ".join(f"({', '.join(f'k{at}' for at in places)})" for places in sets)
        selected = f"{keys}, {COUNT} AS n, {self.dialect.grouping}({keys}) AS g"
        return f"SELECT {selected} FROM {inner} GROUP BY GROUPING SETS ({groups})"

    def itemsets(self, items: Sequence[tuple[Cells, int]], itemsets: NDArray[np.int32]) -> str:
        # (n, k)
        """How many rows hold each itemset, an item being one cell of a column: one row, one column
        an itemset, and one for all rows.
        """
        events = [f"{self.event(*items[item])} AS i{item}" for item in np.unique(itemsets).tolist()]
        counts = [
            f"{self._count_where([f'i{item}' for item in row])} AS n{place}"
            for place, row in enumerate(itemsets.tolist())
        ]
        return f"SELECT {', '.join([*counts, f'{COUNT} AS n'])} FROM {self._inner(events)}"

    def items(self, attribute: Attribute) -> str:
        """How many baskets hold each item, from one pass over the lists."""
        unnested = f"{self.dialect.unnest}({self.dialect.quoted(attribute.name)}) AS item"
        return f"SELECT item, {COUNT} AS n FROM {self._inner([unnested])} GROUP BY item"

    def _count_where(self, events: Sequence[str]) -> str:
        if not events:
            return COUNT
        every = " AND ".join(events)
        # Many FILTERs in one statement are quadratic in DuckDB.
        return f"{COUNT} FILTER (WHERE {every})" if self.dialect.filters else f"COUNT_IF({every})"

    def _grouped(
        self,
        axes: Mapping[int, Cells],
        selected: Sequence[str],
        inner: Sequence[str],
        *,
        centred: bool = False,
    ) -> str:
        """What is selected for every combination of cells of these axes that occurs; several axes
        of two cells are one key, whose bits they are. `centred` puts the mean of its group beside
        every number x, as c.
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
            shifted = [
                f"(CAST({ones(place)} AS UTINYINT) >> CAST({self.key(axes[axis])} AS UTINYINT))"
                for place, axis in enumerate(packed)
            ]
            keys[PACKED] = reduce("XOR({}, {})".format, shifted)
        rows = self._inner([*(f"{key} AS {name}" for name, key in keys.items()), *inner])
        if centred:
            partition = f"PARTITION BY {', '.join(keys)}" if keys else ""
            rows = f"(SELECT *, AVG(x) OVER ({partition}) AS c FROM {rows}) AS s"
        statement = f"SELECT {', '.join([*keys, *selected])} FROM {rows}"
        return f"{statement} GROUP BY {', '.join(keys)}" if keys else statement

    def _inner(self, columns: Sequence[str]) -> str:
        return f"(SELECT {', '.join(columns) or '1 AS one'} FROM {self.rows_from}) AS r"

    # What shows whether the rows are reports.

    def absent(self, attribute: Attribute) -> str:
        """How many rows hold no list at all."""
        return self._how_many(f"{self.dialect.quoted(attribute.name)} IS NULL")

    def _how_many(self, condition: str) -> str:
        return f"SELECT {COUNT} AS n FROM {self.rows_from} WHERE {condition}"

    def strangers(self, columns: Mapping[str, Attribute], kinds: pa.Schema) -> str:
        """Column by column, a number above 0 where some row holds what no report does: a null, or a
        value outside the domain. A column is known by the name it has among the rows.
        """
        counts = [
            f"{self._strangers(name, attribute, kinds)} AS s{place}"
            for place, (name, attribute) in enumerate(columns.items())
        ]
        return f"SELECT {', '.join([*counts, f'{COUNT} AS n'])} FROM {self.rows_from}"

    def _strangers(self, name: str, attribute: Attribute, kinds: pa.Schema) -> str:
        column, tests = self.dialect.quoted(name), self._strange(name, attribute, kinds)
        plain = not self.dialect.columnar or self.flags  # of text, no extremes are known
        least, most = (column, column) if plain else (f"MIN({column})", f"MAX({column})")
        ends = []
        if isinstance(attribute, Numeric):
            ends = [f"{least} < {_number(attribute.min)}", f"{most} > {_number(attribute.max)}"]
        if plain:
            return self._count_where([" OR ".join([f"{column} IS NULL", *tests, *ends])])
        # Of nulls and extremes DuckDB keeps account for every block, and then reads no row.
        held = " OR ".join([f"COUNT({column}) < {COUNT}", *ends])
        found = [f"CASE WHEN {held} THEN 1 ELSE 0 END"]
        return " + ".join([*found, *(f"({self._how_many(test)})" for test in tests)])

    def _strange(self, name: str, attribute: Attribute, kinds: pa.Schema) -> list[str]:
        """The ways in which a value between the extremes may be none of the domain's."""
        column = self.dialect.quoted(name)
        if not isinstance(attribute, Numeric):
            labels = ("0", "1") if isinstance(attribute, Items) else attribute.labels
            words = [*map(self.dialect.word, labels)]
            if len(words) > FEW_LABELS:
                return [f"{column} NOT IN ({', '.join(words)})"]
            return [f"({' AND '.join(f'{column} <> {word}' for word in words)})"]
        if not self.dialect.typed:
            wanted = "('integer')" if attribute.whole else "('integer', 'real')"
            return [f"TYPEOF({column}) NOT IN {wanted}"]
        kind, tests = kinds.field(name).type, []
        if attribute.whole and not pa.types.is_integer(kind):
            tests.append(f"FLOOR({column}) <> {column}")
        if pa.types.is_floating(kind):  # a number that is none is no extreme, so it is looked for
            # DuckDB takes ISNAN for a comparison, and a block whose extremes are numbers for sound.
            finite = self.dialect.finite
            tests.append(f"NOT {finite}({column})" if finite else f"ISNAN({column})")
        return tests

    def kinds(self, columns: Sequence[str]) -> str:
        """No row of these columns, which shows of what type they are."""
        names = ", ".join(map(self.dialect.quoted, columns))
        return f"SELECT {names} FROM {self.rows_from} LIMIT 0"

    def values(self, name: str) -> str:
        """The different values of a column."""
        return f"SELECT DISTINCT {self.dialect.quoted(name)} FROM {self.rows_from}"

    # Conditions and keys of a row.

    def holds(self, attribute: Items, item: int) -> str:
        """Whether a basket holds an item."""
        label = attribute.labels[item]
        if self.flags:
            return f"{self.dialect.quoted(label)} = '1'"
        value = label if whole_items(attribute) else self.dialect.word(label)
        baskets = self.dialect.quoted(attribute.name)
        if self.dialect.any_of_list:
            return f"{value} = ANY({baskets})"
        return f"ARRAY_CONTAINS({baskets}, {value})"

    def event(self, part: Cells, cell: int) -> str:
        """Whether a row lies in one cell."""
        attribute = part.attribute
        if isinstance(attribute, Items):
            assert part.item is not None
            held = self.holds(attribute, part.item)
            return held if cell else f"NOT {held}"
        if not isinstance(attribute, Numeric):
            return self._one_of(attribute, np.flatnonzero(part.group == cell))
        starts, owners = runs_of(part)
        ends = np.r_[starts[1:], attribute.size]
        runs = [
            self._run(part.name, attribute, starts[place], ends[place])
            for place in np.flatnonzero(owners == cell)
        ]
        return " OR ".join(runs) or "FALSE"

    def _run(self, name: str, attribute: Numeric, start: int, end: int) -> str:
        """Whether a number's code lies in start..end-1, by its value on the grid."""
        low, high = (_number(number) for number in attribute.numbers(np.array([start, end - 1])))
        column = self.dialect.quoted(name)
        if start == 0:
            return f"{column} <= {high}" if end < attribute.size else "TRUE"
        if end == attribute.size:
            return f"{column} >= {low}"
        if end == start + 1:
            return f"{column} = {low}"
        if not self.dialect.columnar:  # elsewhere one BETWEEN is cheaper than two comparisons
            return f"{column} BETWEEN {low} AND {high}"
        return f"(({column} >= {low}) > ({column} > {high}))"

    def key(self, part: Cells) -> str:
        """What rows are grouped by: a condition for two cells, the value itself, or the number of
        the cell.
        """
        attribute, stated = part.attribute, stated_cells(part)
        if part.size <= 2:
            return self.event(part, stated[0]) if stated else "TRUE"
        if by_value(part):
            return self.dialect.quoted(attribute.name)
        if isinstance(attribute, Numeric):
            starts, owners = runs_of(part)
            return _halved(self.dialect.quoted(part.name), attribute.numbers(starts), owners)
        codes = [np.flatnonzero(part.group == cell) for cell in range(part.size)]
        cases = [
            f"WHEN {self._one_of(attribute, held)} THEN {cell}"
            for cell, held in enumerate(codes)
            if len(held)
        ]
        return f"CASE {' '.join(cases)} END"

    def _one_of(self, attribute: Attribute, codes: NDArray[Any]) -> str:
        """Whether a word is one of these."""
        words = [self.dialect.word(attribute.labels[code]) for code in codes]
        column = self.dialect.quoted(attribute.name)
        if len(words) > 1:
            return f"{column} IN ({', '.join(words)})"
        return f"{column} = {words[0]}" if words else "FALSE"


def _halved(column: str, numbers: NDArray[Any], owners: NDArray[Any]) -> str:
    """The cell of a number by halving: a row meets as many comparisons as the logarithm of the
    number of cuts.
    """
    if len(owners) == 1:
        return str(int(owners[0]))
    middle = len(owners) // 2
    below = _halved(column, numbers[:middle], owners[:middle])
    above = _halved(column, numbers[middle:], owners[middle:])
    return f"CASE WHEN {column} < {_number(numbers[middle])} THEN {below} ELSE {above} END"


def _number(value: Any) -> str:
    """A number that every engine reads as this very one: with an exponent where it is a double, not
    a decimal.
    """
    number = value.item() if isinstance(value, np.generic) else value
    text = repr(number) if isinstance(number, int) else repr(float(number))
    return text if isinstance(number, int) or "e" in text else text + "e0"
