"""Counts by SQL: each question is one statement, run by the engine that holds the rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.counting.in_memory import Key, checked_cells, combined
from sfumato.counting.limits import (
    GROUPED_AXES,
    ITEMSETS,
    JOINED_CELLS,
    LISTED_LABELS,
    REMEMBERED_CELLS,
)
from sfumato.counting.sql.kept import KeptCounts
from sfumato.counting.sql.statements import (
    PACKED,
    Dialect,
    StatementWriter,
    by_value,
    joined,
    middle_of,
    packed_base,
    rest_of,
    stated_cells,
)
from sfumato.domain import Attribute, Cells, Domain, Items, Numeric, coarsened
from sfumato.errors import DataError, SfumatoError
from sfumato.observation import ItemsetCounter, ItemSource
from sfumato.table.readers import flat_names

FEW_GROUPS = 8  # up to which a column is sooner read by Python than cast by Arrow


class Relation(ABC):
    """Rows that stand in an engine, in columns named as the attributes and holding
    decoded values.
    """

    dialect: Dialect  # what the engine's SQL can do
    rows_from: str  # what stands after FROM
    # Whether a basket is one column of '0' and '1' for each item (CSV, or an engine without
    # lists); else it is one list of items.
    flags: bool

    @abstractmethod
    def fetch(self, statement: str) -> pa.Table:
        """The rows that a SELECT gives."""

    def row(self, statement: str) -> Sequence[Any]:
        """The one row that a SELECT gives, which some engines hand out sooner than a table."""
        return [column[0].as_py() for column in self.fetch(statement).columns]

    def beside(self, other: Relation, reports: Domain) -> Relation | None:
        """These rows where one statement reaches them together with another relation's; None where
        none does.
        """
        return None

    def over(self, rows_from: str, flags: bool) -> Relation:
        """Other rows that the same engine reaches in the same way; relations are dataclasses."""
        return replace(self, rows_from=rows_from, flags=flags)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class SqlCounter:
    """Counts over rows that stand in an engine; only the counts come back."""

    domain: Domain  # of the reports
    relation: Relation
    # Where the release says how many rows it has, every table counted is held against it: a
    # description may be a stranger's.
    stated_rows: int | None = None
    kept: KeptCounts | None = None  # where counts are kept from one time to the next
    _held: dict[str, dict[str, int]] = field(default_factory=dict, repr=False)  # items of baskets

    # What the rows are.

    @cached_property
    def rows(self) -> int:
        """How many; all columns of all of them are looked at once, and a value outside its domain
        refused, whatever is asked: who reads them into memory refuses them whole.
        """
        return self._check_rows(int(self.once(["rows"], self._looked_at)))

    def _looked_at(self) -> NDArray[Any]:
        """The number of rows, where all columns hold reports only."""
        lists = [a for a in self.domain if isinstance(a, Items) and not self.relation.flags]
        for attribute in lists:
            self.item_counts(attribute)
        columns = {name: a for a in self.domain if a not in lists for name in flat_names(a)}
        kinds = (
            self.relation.fetch(self._writer.kinds(list(columns))).schema
            if columns
            else pa.schema([])
        )
        missing = [name for name in columns if name not in kinds.names]
        if missing and not self.relation.dialect.typed:  # SQLite takes such a name for a word
            raise DataError(f"this release has no column '{missing[0]}'")
        # Of many labels, to list the values is shorter than a statement that lists the labels.
        words = [a for a in columns.values() if not isinstance(a, Numeric | Items)]
        for name in [a.name for a in words if a.size > LISTED_LABELS]:
            found = self.relation.fetch(self._writer.values(name)).column(0).to_pylist()
            if not set(found) <= set(columns.pop(name).labels):
                raise _outside(name)
        *strange, rows = self.relation.row(self._writer.strangers(columns, kinds))
        for name, found in zip(columns, strange, strict=True):
            if found:
                raise _outside(name)
        return np.asarray(int(rows))

    def _check_rows(self, found: int) -> int:
        if self.stated_rows is not None and found != self.stated_rows:
            raise DataError(
                f"this release has {found:,} rows, but its description speaks of "
                f"{self.stated_rows:,}",
                hint="it was cut short or changed after it was perturbed",
            )
        return found

    def item_counts(self, attribute: Attribute) -> Mapping[str, int]:
        """How many baskets of a column of lists hold each item; one of another universe is
        refused.
        """
        if attribute.name not in self._held:
            found = self.relation.fetch(self._writer.items(attribute))
            names = [str(name) for name in found.column("item").to_pylist()]
            (absent,) = self.relation.row(self._writer.absent(attribute))
            if absent or not set(names) <= set(attribute.labels):
                raise _outside(attribute.name)
            self._held[attribute.name] = dict(
                zip(names, found.column("n").to_pylist(), strict=True)
            )
        return self._held[attribute.name]

    # How they are asked.

    @cached_property
    def _writer(self) -> StatementWriter:
        return StatementWriter(self.relation.dialect, self.relation.rows_from, self.relation.flags)

    def statement(self, cells: Sequence[Cells]) -> str:
        """The statement that counts these cells."""
        return self._writer.counted(cells, self.relation.dialect.listed(cells))

    def once(self, question: Sequence[Any], count: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """What is kept for a question, else counted now and kept."""
        if self.kept is None:
            return count()
        known = self.kept.find(question)
        if known is None:
            known = count()
            self.kept.keep(question, known)
        return known

    # Counts of cells.

    def count(self, cells: Sequence[Cells]) -> NDArray[Any]:
        return self.count_many([cells])[0]

    def count_many(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        """What is kept of these questions; the others from one scan."""
        keys = [tuple(part.key for part in cells) for cells in questions]
        asked, known = dict(zip(keys, questions, strict=True)), dict[Key, NDArray[Any]]()
        for key, cells in asked.items():
            table = None if self.kept is None else self.kept.find_cells(cells)
            if table is not None:
                self._check_rows(int(table.sum()))
                known[key] = table
        fresh = {key: cells for key, cells in asked.items() if key not in known}
        if len(fresh) == 1:
            ((key, cells),) = fresh.items()
            fine = self._finer(cells)
            table = self._keep(fine, self._counted(fine))
            known[key] = coarsened(table, fine, cells)
        elif fresh:
            tables = self._count_together(list(fresh.values()))
            for (key, cells), table in zip(fresh.items(), tables, strict=True):
                known[key] = self._keep(cells, table)
        return [known[key] for key in keys]

    def _finer(self, cells: Sequence[Cells]) -> tuple[Cells, ...]:
        """Every value of these columns, where that is a small table that will be kept: to count it
        costs no more than to count what is asked, and whatever else is asked of them costs no
        scan; else the cells themselves.
        """
        fine = tuple(
            part
            if part.item is not None or isinstance(part.attribute, Numeric)
            else part.attribute.cells()
            for part in cells
        )
        small = math.prod(part.size for part in fine) <= REMEMBERED_CELLS
        worthwhile = self.kept is not None and self.relation.dialect.columnar and small
        return fine if worthwhile else tuple(cells)

    def _keep(self, cells: Sequence[Cells], table: NDArray[Any]) -> NDArray[Any]:
        self._check_rows(int(table.sum()))
        if self.kept is not None:
            self.kept.keep_cells(cells, table)
        return table

    def _counted(self, cells: Sequence[Cells]) -> NDArray[np.int64]:
        """The table of these cells by one statement."""
        checked_cells([part.size for part in cells])
        self._check_rows(self.rows)
        listed = self.relation.dialect.listed(cells)
        grouped = {axis: part for axis, part in enumerate(cells) if axis not in listed}
        sizes = [cells[axis].size for axis in listed]
        statement = self._writer.counted(cells, listed)
        if any(part.size > 1 for part in grouped.values()):
            found = self.relation.fetch(statement)
            counts = [_integers(found.column(f"n{n}")) for n in range(math.prod(sizes))]
            table = self._spread(found, grouped, np.stack(counts, 1).reshape(-1, *sizes))
        else:
            # DuckDB's COUNT_IF of no rows is NULL
            row = np.array([int(number or 0) for number in self.relation.row(statement)])
            table = row.reshape([*(1 for _ in grouped), *sizes])
        # In the place of a cell that was not stated, which holds all of them, leave its own rows.
        for place, axis in enumerate(listed, len(grouped)):
            along, rest = np.moveaxis(table, place, 0), rest_of(cells[axis])
            along[rest] -= along.sum(axis=0) - along[rest]
        return table.transpose(np.argsort([*grouped, *listed]))

    def _spread(
        self, found: pa.Table, axes: Mapping[int, Cells], numbers: NDArray[Any]
    ) -> NDArray[Any]:
        """Numbers that came with the keys of their cells, in their places; several groups may be of
        one cell.
        """
        sizes = [part.size for part in axes.values()]
        if not axes:
            return numbers.sum(axis=0)
        table = np.zeros([*sizes, *numbers.shape[1:]], dtype=numbers.dtype)
        np.add.at(table, self._places(found, axes), numbers)
        return table

    def _places(self, found: pa.Table, axes: Mapping[int, Cells]) -> tuple[NDArray[Any], ...]:
        """The cell of each group on each axis."""
        keys = dict(zip(found.column_names, found.columns, strict=True))
        if PACKED in keys:
            packed = self.relation.dialect.packed(axes)
            base = pa.scalar(packed_base(len(packed)), pa.uint8())
            bits = pc.bit_wise_xor(keys[PACKED], base)
            keys |= {
                f"k{axis}": pc.bit_wise_and(pc.shift_right(bits, place), 1)
                for place, axis in enumerate(packed)
            }
        return tuple(
            _cells_of_keys(keys[f"k{axis}"], part)
            if part.size > 1
            else np.zeros(found.num_rows, dtype=np.intp)
            for axis, part in axes.items()
        )

    def _count_together(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        """Several tables from one scan: one small table behind them all, or GROUPING SETS."""
        by_axis: dict[str, list[Cells]] = {}
        for part in {part.key: part for cells in questions for part in cells}.values():
            by_axis.setdefault(part.name, []).append(part)
        fine = tuple(map(joined, by_axis.values()))
        if math.prod(cells.size for cells in fine) <= JOINED_CELLS:
            whole = self.count(fine)
            return [coarsened(whole, fine, cells) for cells in questions]
        if self.relation.dialect.grouping is None:
            return [self.count(cells) for cells in questions]
        # In runs whose columns one GROUPING SETS can number.
        batches: list[list[Sequence[Cells]]] = [[]]
        keys: set[Any] = set()
        for cells in questions:
            more = {part.key for part in cells}
            if batches[-1] and len(keys | more) > GROUPED_AXES:
                batches.append([])
                keys = set()
            keys |= more
            batches[-1].append(cells)
        return [table for batch in batches for table in self._count_in_sets(batch)]

    def _count_in_sets(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        if len(questions) == 1:
            return [self.count(questions[0])]
        for cells in questions:
            checked_cells([part.size for part in cells])
        self._check_rows(self.rows)
        parts = {part.key: part for cells in questions for part in cells}
        places = {key: place for place, key in enumerate(parts)}
        sets = [[places[part.key] for part in cells] for cells in questions]
        different = list({tuple(sorted(own)): own for own in sets}.values())
        found = self.relation.fetch(self._writer.grouping_sets(list(parts.values()), different))
        groups, tables = _integers(found.column("g")), []
        for cells, own in zip(questions, sets, strict=True):
            left_out = sum(
                1 << len(parts) - 1 - place for place in range(len(parts)) if place not in own
            )
            rows = found.filter(pa.array(groups == left_out))
            keys = {f"k{axis}": rows.column(f"k{place}") for axis, place in enumerate(own)}
            counts = _integers(rows.column("n"))
            tables.append(self._spread(pa.table(keys), dict(enumerate(cells)), counts))
        return tables

    # Sums of a number.

    def power_sums(
        self, cells: Sequence[Cells], axis: int, middle: float, half: float
    ) -> NDArray[Any]:  # (*cells, 5)
        def summed() -> NDArray[Any]:
            found = self.relation.fetch(self._writer.powers(cells, cells[axis].name, middle, half))
            sums = np.stack([_floats(found.column(f"s{power}")) for power in range(5)], axis=1)
            self._check_rows(int(sums[:, 0].sum()))
            return self._spread(found, dict(enumerate(cells)), sums)

        return self._summed(("powers", axis, middle, half), cells, summed)

    def spreads(self, cells: Sequence[Cells], axis: int) -> NDArray[Any]:  # (*cells, 4)
        sizes, attribute = [part.size for part in cells], cells[axis].attribute
        assert isinstance(attribute, Numeric)

        def summed() -> NDArray[Any]:
            found = self.relation.fetch(self._writer.spreads(cells, attribute))
            index = np.ravel_multi_index(self._places(found, dict(enumerate(cells))), sizes)
            rows, variance = (_floats(found.column(name)) for name in "nv")
            self._check_rows(int(rows.sum()))
            if attribute.whole:  # rounded once, from a sum that is exact
                middle, sums = middle_of(attribute), found.column("s").to_pylist()
                pairs = zip(sums, rows.tolist(), strict=True)
                total = np.array([float(int(s or 0) + middle * int(n)) for s, n in pairs])
                centre = np.array([float(s or 0) for s in sums]) / np.maximum(rows, 1) + middle
            else:
                centre = _floats(found.column("s"))
                total = rows * centre
            spreads = np.stack([rows, total, centre, rows * variance], axis=1)
            return combined(spreads, index, checked_cells(sizes)).reshape(*sizes, 4)

        return self._summed(("spreads", axis), cells, summed)

    def _summed(
        self, question: tuple[Any, ...], cells: Sequence[Cells], sums: Callable[[], NDArray[Any]]
    ) -> NDArray[Any]:
        """What a question finds in the rows, once they were looked at."""
        checked_cells([part.size for part in cells])

        def asked() -> NDArray[Any]:
            self._check_rows(self.rows)
            return sums()

        return self.once((*question, *(piece for part in cells for piece in part.key)), asked)

    def baskets(self, sources: Sequence[ItemSource]) -> ItemsetCounter:
        pairs = [
            [(source.item_cells(label), 1) for label in source.labels]
            if isinstance(source, Items)
            else [(source, cell) for cell in range(source.size)]
            for source in sources
        ]
        return RelationItemsets([pair for each in pairs for pair in each], self)


@dataclass(frozen=True, eq=False)
class RelationItemsets:
    """Counts of itemsets among the rows of a relation, some hundred itemsets a scan; an item is one
    cell of a column.
    """

    cells: Sequence[tuple[Cells, int]]
    counter: SqlCounter

    @property
    def items(self) -> int:
        """The number of items."""
        return len(self.cells)

    @property
    def rows(self) -> int:
        """The number of baskets."""
        return self.counter.rows

    def counts(self, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
        """The number of baskets that hold each itemset (n, k)."""
        if itemsets.shape[1] == 0:
            return np.full(len(itemsets), self.rows, dtype=np.int64)
        single = itemsets.shape[1] == 1 and not self.counter.relation.flags
        pieces = [piece for part, cell in self.cells for piece in (*part.key, cell)]
        return self.counter.once(
            ("itemsets", *pieces, itemsets.shape, itemsets.tobytes()),
            lambda: self._single[itemsets[:, 0]] if single else self._listed(itemsets),
        )

    @cached_property
    def _single(self) -> NDArray[np.int64]:
        """The count of every item: those of baskets from one pass over the lists."""
        total = np.zeros(self.items, dtype=np.int64)
        for place, (part, _) in enumerate(self.cells):
            if part.item is not None:
                total[place] = self.counter.item_counts(part.attribute).get(part.name, 0)
        others = [place for place, (part, _) in enumerate(self.cells) if part.item is None]
        total[others] = self._listed(np.array(others, dtype=np.int32)[:, None])
        return total

    def _listed(self, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
        counter, total = self.counter, np.empty(len(itemsets), dtype=np.int64)
        for start in range(0, len(itemsets), ITEMSETS):
            some = itemsets[start : start + ITEMSETS]
            counter._check_rows(counter.rows)
            *counts, rows = counter.relation.row(counter._writer.itemsets(self.cells, some))
            counter._check_rows(int(rows))
            total[start : start + ITEMSETS] = counts
        return total


def _cells_of_keys(keys: pa.ChunkedArray, part: Cells) -> NDArray[Any]:
    """The cells that the keys of groups stand for."""
    if keys.null_count:
        raise _outside(part.name)
    if part.size == 2:
        flags = np.asarray(keys.combine_chunks().cast(pa.int8()))
        return np.where(flags == 1, stated_cells(part)[0], rest_of(part))
    if not by_value(part):
        return _integers(keys)
    try:
        return part.assign(part.attribute.encode(keys))
    except SfumatoError:
        raise _outside(part.name) from None


def _outside(name: str) -> DataError:
    """The refusal of a column; the value is not told, for it may be someone's true one."""
    return DataError(
        f"column '{name}' of this release holds values that are not in its domain",
        hint="it was changed after it was perturbed",
    )


def _integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    if len(column) <= FEW_GROUPS:  # of all counts at once, most are of a few groups or one
        return np.array([int(value or 0) for value in column.to_pylist()], dtype=np.int64)
    whole = column.cast(pa.int64()).fill_null(0)  # DuckDB's COUNT_IF of no rows is NULL
    return np.asarray(whole.combine_chunks())


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64()).fill_null(0.0).combine_chunks())
