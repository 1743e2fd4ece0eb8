"""Counts by SQL: each question is one statement, run by the engine that holds the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.counting.arrays import REMEMBERED_CELLS, REMEMBERED_QUESTIONS, checked_cells
from sfumato.counting.spreads import combined
from sfumato.counting.sql.partitions import by_value, joined, merged, rest_of, stated_cells
from sfumato.counting.sql.writing import StatementWriter, Tree
from sfumato.domain import Cells, Columns, Domain, Items
from sfumato.errors import DataError, SfumatoError, Unanswerable
from sfumato.observation import ItemsetCounter, ItemSource

# A table of at most so many cells is counted cell by cell, without GROUP BY; of a larger one, so
# many two-celled columns are counted beside the groups (bench/cube.py). PostgreSQL computes a
# condition again for every count that names it.
LISTED_CELLS, LISTED_BESIDE = {"postgres": 4}, {"postgres": 1}
MANY_LISTED_CELLS, MANY_LISTED_BESIDE = 16, 3
JOINED_CELLS = (
    1 << 12
)  # questions whose columns together have at most this many cells are summed from one table
GROUPED_AXES = 30  # columns in one GROUPING SETS; PostgreSQL numbers at most 31
ITEMSETS = 256  # itemsets counted by one statement


class Relation(Protocol):
    """Rows that stand in an engine, in columns named as the attributes and holding
    decoded values.
    """

    @property
    def dialect(self) -> str:
        """The name by which sqlglot knows the engine's SQL."""

    @property
    def rows_from(self) -> Tree:
        """What stands after FROM."""

    @property
    def flags(self) -> bool:
        """Whether a basket is one column of '0' and '1' an item (CSV); else it is one list of
        items.
        """

    def fetch(self, statement: str) -> pa.Table:
        """The rows that a SELECT gives."""


@dataclass(frozen=True, eq=False)
class SqlCounter:
    """Counts over rows that stand in an engine; only the counts come back."""

    domain: Domain  # of the reports
    relation: Relation
    stated_rows: int | None = (
        None  # where the release says how many it has; every table counted is held against it
    )
    _asked: dict[Any, NDArray[Any]] = field(default_factory=dict, repr=False)

    @cached_property
    def rows(self) -> int:
        if self.stated_rows is not None:
            return self.stated_rows
        return int(self._fetch(self._writer.total()).column("n")[0].as_py())

    @cached_property
    def _writer(self) -> StatementWriter:
        return StatementWriter(self.relation.dialect, self.relation.rows_from, self.relation.flags)

    def _fetch(self, statement: Tree) -> pa.Table:
        return self.relation.fetch(statement.sql(dialect=self.relation.dialect))

    def statement(self, cells: Sequence[Cells]) -> str:
        """The statement that counts these cells."""
        return self._writer.counted(cells, listed_axes(cells, self.relation.dialect)).sql(
            dialect=self.relation.dialect
        )

    def count(self, cells: Sequence[Cells]) -> NDArray[Any]:
        question = tuple(part.key for part in cells)
        if question in self._asked:
            return self._asked[question]
        return self._remembered(
            question, self._counted(cells, listed_axes(cells, self.relation.dialect))
        )

    def _remembered(self, question: Any, table: NDArray[Any]) -> NDArray[Any]:
        self._check_rows(int(table.sum()))
        if table.size <= REMEMBERED_CELLS and len(self._asked) < REMEMBERED_QUESTIONS:
            self._asked[question] = table
        return table

    def _check_rows(self, found: int) -> None:
        if self.stated_rows is not None and found != self.stated_rows:
            raise DataError(
                f"this release has {found:,} rows, but its description speaks of "
                f"{self.stated_rows:,}",
                hint="it was cut short or changed after it was perturbed",
            )

    def _counted(self, cells: Sequence[Cells], listed: Sequence[int]) -> NDArray[np.int64]:
        checked_cells([part.size for part in cells])
        grouped = [axis for axis in range(len(cells)) if axis not in listed]
        found = self._fetch(self._writer.counted(cells, listed))
        sizes = [cells[axis].size for axis in listed]
        counts = np.stack(
            [_integers(found.column(f"n{number}")) for number in range(math.prod(sizes))], axis=1
        )
        table = self._spread(
            found, {axis: cells[axis] for axis in grouped}, counts.reshape(-1, *sizes)
        )
        for place, axis in enumerate(listed, len(grouped)):
            along = np.moveaxis(
                table, place, 0
            )  # the place of the cell that was not stated holds all of them
            along[rest_of(cells[axis])] -= along[stated_cells(cells[axis])].sum(axis=0)
        return table.transpose(np.argsort([*grouped, *listed]))

    def _spread(
        self, found: pa.Table, axes: Mapping[int, Cells], numbers: NDArray[Any]
    ) -> NDArray[Any]:
        """Numbers that came with the keys of their cells, in their places; several groups may be of
        one cell.
        """
        places = self._places(found, axes)
        table = np.zeros(
            [*(part.size for part in axes.values()), *numbers.shape[1:]], dtype=numbers.dtype
        )
        if axes:
            np.add.at(table, places, numbers)
            return table
        return table + numbers.sum(axis=0)

    @staticmethod
    def _places(found: pa.Table, axes: Mapping[int, Cells]) -> tuple[NDArray[Any], ...]:
        """The cell of each group on each axis."""
        return tuple(
            _cells_of_keys(found.column(f"k{axis}"), part)
            if part.size > 1
            else np.zeros(found.num_rows, dtype=np.intp)
            for axis, part in axes.items()
        )

    def power_sums(
        self, cells: Sequence[Cells], axis: int, middle: float, half: float
    ) -> NDArray[Any]:  # (*cells, 5)
        checked_cells([part.size for part in cells])
        found = self._fetch(self._writer.powers(cells, cells[axis].name, middle, half))
        sums = np.stack(
            [_floats(found.column(name)) for name in ("n", "s1", "s2", "s3", "s4")], axis=1
        )
        return self._spread(found, dict(enumerate(cells)), sums)

    def spreads(self, cells: Sequence[Cells], axis: int) -> NDArray[Any]:  # (*cells, 4)
        sizes = [part.size for part in cells]
        found = self._fetch(self._writer.spreads(cells, cells[axis].name))
        rows, total, centre, variance = (
            _floats(found.column(name)) for name in ("n", "s", "m", "v")
        )
        places = self._places(found, dict(enumerate(cells)))
        spreads = np.stack([rows, total, centre, rows * variance], axis=1)
        index = np.ravel_multi_index(places, sizes)
        return combined(spreads, index, checked_cells(sizes)).reshape(*sizes, 4)

    def baskets(self, sources: Sequence[ItemSource]) -> ItemsetCounter:
        return RelationItemsets(
            [
                pair
                for source in sources
                for pair in (
                    [(source.item_cells(label), 1) for label in source.labels]
                    if isinstance(source, Items)
                    else [(source, cell) for cell in range(source.size)]
                )
            ],
            self,
        )

    def batches(self) -> Iterator[Columns]:
        raise Unanswerable(
            "these reports are read row by row, which no engine but the memory does",
            hint="use --engine memory",
        )

    def count_many(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        """One scan for all questions that were not asked before: one small table behind them all,
        or GROUPING SETS.
        """
        fresh = {
            key: cells
            for cells in questions
            if (key := tuple(part.key for part in cells)) not in self._asked
        }
        tables = (
            self._count_fresh(list(fresh.values()))
            if len(fresh) > 1
            else [self.count(cells) for cells in fresh.values()]
        )
        known = {
            key: self._remembered(key, table) for key, table in zip(fresh, tables, strict=True)
        }
        return [
            known[key] if (key := tuple(part.key for part in cells)) in known else self._asked[key]
            for cells in questions
        ]

    def _count_fresh(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        by_axis: dict[str, dict[Any, Cells]] = {}
        for part in (part for cells in questions for part in cells):
            by_axis.setdefault(part.name, {})[part.key] = part
        fine = {name: joined(list(parts.values())) for name, parts in by_axis.items()}
        if math.prod(cells.size for cells, _ in fine.values()) > JOINED_CELLS:
            return self._count_in_sets(questions)
        whole = self.count([cells for cells, _ in fine.values()])
        owners = {
            key: owner
            for name, (_, groups) in fine.items()
            for key, owner in zip(by_axis[name], groups, strict=True)
        }
        axes = {name: axis for axis, name in enumerate(fine)}
        return [_margin(whole, cells, axes, owners) for cells in questions]

    def _count_in_sets(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        tables: list[NDArray[Any]] = []
        for batch in _batches(questions):
            tables += self._count_batch(batch)
        return tables

    def _count_batch(self, questions: Sequence[Sequence[Cells]]) -> list[NDArray[Any]]:
        if len(questions) == 1:
            return [self.count(questions[0])]
        parts = {part.key: part for cells in questions for part in cells}
        axes, places = list(parts.values()), {key: place for place, key in enumerate(parts)}
        sets = [[places[part.key] for part in cells] for cells in questions]
        for cells in questions:
            checked_cells([part.size for part in cells])
        found = self._fetch(
            self._writer.grouping_sets(
                axes, list({tuple(sorted(own)): own for own in sets}.values())
            )
        )
        groups = _integers(found.column("g"))
        return [
            self._of_set(found, groups, cells, own, len(axes))
            for cells, own in zip(questions, sets, strict=True)
        ]

    def _of_set(
        self,
        found: pa.Table,
        groups: NDArray[Any],
        cells: Sequence[Cells],
        places: Sequence[int],
        axes: int,
    ) -> NDArray[Any]:
        left_out = sum(1 << axes - 1 - axis for axis in range(axes) if axis not in places)
        rows = found.filter(pa.array(groups == left_out))
        renamed = pa.table(
            {f"k{axis}": rows.column(f"k{place}") for axis, place in enumerate(places)}
        )
        return self._spread(renamed, dict(enumerate(cells)), _integers(rows.column("n")))


@dataclass(frozen=True, eq=False)
class RelationItemsets:
    """Counts of itemsets among the rows of a relation, some hundred itemsets a scan; an item is one
    cell of a column.
    """

    cells: Sequence[tuple[Cells, int]]
    counter: SqlCounter

    @classmethod
    def of(cls, attribute: Items, counter: SqlCounter) -> RelationItemsets:
        """The itemsets of one column of baskets."""
        return cls([(attribute.item_cells(label), 1) for label in attribute.labels], counter)

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
        if itemsets.shape[1] == 1 and not self.counter.relation.flags:
            return self._single[itemsets[:, 0]]
        return self._listed(itemsets)

    @cached_property
    def _single(self) -> NDArray[np.int64]:
        """The count of every item: those of baskets from one pass over the lists."""
        total = np.zeros(self.items, dtype=np.int64)
        for attribute in {
            part.attribute.name: part.attribute for part, _ in self.cells if part.item is not None
        }.values():
            found = self.counter._fetch(self.counter._writer.items(attribute))
            held = dict(
                zip(
                    map(str, found.column("item").to_pylist()),
                    found.column("n").to_pylist(),
                    strict=True,
                )
            )
            for place, (part, _) in enumerate(self.cells):
                if part.item is not None and part.attribute is attribute:
                    total[place] = held.get(part.name, 0)
        others = np.array(
            [place for place, (part, _) in enumerate(self.cells) if part.item is None],
            dtype=np.int32,
        )
        total[others] = self._listed(others[:, None])
        return total

    def _listed(self, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
        total = np.empty(len(itemsets), dtype=np.int64)
        for start in range(0, len(itemsets), ITEMSETS):
            found = self.counter._fetch(
                self.counter._writer.itemsets(self.cells, itemsets[start : start + ITEMSETS])
            )
            total[start : start + ITEMSETS] = [column[0].as_py() for column in found.columns]
        return total


def listed_axes(cells: Sequence[Cells], dialect: str) -> list[int]:
    """The axes whose cells are counted by conditions, not by GROUP BY: all of a small table, a few
    narrow ones of a large.
    """
    if math.prod(part.size for part in cells) <= LISTED_CELLS.get(dialect, MANY_LISTED_CELLS):
        return list(range(len(cells)))
    narrow = [axis for axis, part in enumerate(cells) if part.size == 2]
    return narrow[: LISTED_BESIDE.get(dialect, MANY_LISTED_BESIDE)]


def _cells_of_keys(keys: pa.ChunkedArray, part: Cells) -> NDArray[Any]:
    """The cells that the keys of groups stand for."""
    if keys.null_count:
        raise DataError(
            f"column '{part.name}' of this release holds values that are not in its domain; it "
            "was changed"
        )
    if part.size == 2:
        flags = np.asarray(keys.combine_chunks().cast(pa.int8()))
        return np.where(flags == 1, stated_cells(part)[0], rest_of(part))
    if not by_value(part):
        return _integers(keys)
    try:
        return part.assign(part.attribute.encode(keys))
    except SfumatoError:
        raise DataError(
            f"column '{part.name}' of this release holds values that are not in its domain; it "
            "was changed"
        ) from None


def _integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.cast(pa.int64()).combine_chunks())


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64()).fill_null(0.0).combine_chunks())


def _margin(
    whole: NDArray[Any],
    cells: Sequence[Cells],
    axes: dict[str, int],
    owners: dict[Any, NDArray[np.intp]],
) -> NDArray[Any]:
    """One question's table, from the table over every column and in the finest cells that any
    question asks for.
    """
    wanted = [axes[part.name] for part in cells]
    rest = tuple(axis for axis in range(whole.ndim) if axis not in wanted)
    table = whole.sum(axis=rest).transpose(*np.argsort(np.argsort(wanted)))
    for axis, part in enumerate(cells):
        table = merged(table, axis, owners[part.key], part.size)
    return table


def _batches(questions: Sequence[Sequence[Cells]]) -> list[list[Sequence[Cells]]]:
    """The questions in runs whose columns one GROUPING SETS can number."""
    batches: list[list[Sequence[Cells]]] = [[]]
    keys: set[Any] = set()
    for cells in questions:
        more = {part.key for part in cells}
        if batches[-1] and len(keys | more) > GROUPED_AXES:
            batches.append([])
            keys = set()
        keys |= more
        batches[-1].append(cells)
    return batches
