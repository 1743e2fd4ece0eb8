"""What an owner holds: true records or baskets as a table, each column as it was found, numbers cut
into bins where that is asked for, and what an intruder may know (keys) kept apart from what is
confidential.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.domain import Codes, Distinct, Domain, Items
from sfumato.errors import DataError, ParameterError, SchemaError, listing, near_miss
from sfumato.publish.limits import MOST_BINS
from sfumato.publish.verdict import Judged
from sfumato.table import Table, propose, read_items, reader_of, save
from sfumato.table.baskets import BasketReader
from sfumato.table.formats import STANDARD_STREAM, check_target, format_of
from sfumato.table.parquet import is_records
from sfumato.table.readers import ITEMS_NAME, RecordReader
from sfumato.table.table import plain_array


def records_of(data: Any) -> Table:
    """All columns of a file, an Arrow table, a data frame or a table of true records, words as
    they stand there.

    >>> people = records_of({"age": [31, 52, 31], "town": ["Lyon", None, "Lyon"]})
    >>> [attribute.values for attribute in people.domain]
    [(31, 52), ('Lyon', None)]
    """
    if isinstance(data, Table) and data.provenance is None:
        if all(isinstance(attribute, Distinct) for attribute in data.domain):
            return data
        data = data.to_arrow()
    reader = reader_of(data)
    frame = getattr(reader, "frame", None)
    lists = frame is not None and all(pa.types.is_nested(field.type) for field in frame.schema)
    if not isinstance(reader, RecordReader) or lists:
        raise ParameterError(
            f"{reader.where} holds baskets, not records", hint="hide is for baskets"
        )
    if reader.description is not None:
        raise ParameterError(
            f"{reader.where} is itself a perturbed file", hint="give the true records"
        )
    twice = sorted({name for name in reader.names if list(reader.names).count(name) > 1})
    if twice:
        raise DataError(f"{reader.where} has more than one column '{twice[0]}'")
    batches = list(_batches(reader))
    if not sum(batch.num_rows for batch in batches):
        raise DataError(f"{reader.where} has no rows")
    table = pa.Table.from_batches(batches)
    for field in table.schema:
        if pa.types.is_nested(field.type):
            raise DataError(
                f"column '{field.name}' of {reader.where} should hold single values; it holds "
                f"{field.type}"
            )
    return _coded(Distinct.of(name, table[name]) for name in table.column_names)


def baskets_of(data: Any, items: str | Path | None = None) -> Table:
    """The true baskets as a table with one column of items.

    >>> table = baskets_of([["tea", "milk"], ["tea"]])
    >>> table.rows, table.domain["items"].labels
    (2, ('milk', 'tea'))
    """
    data = framed(data)
    if isinstance(data, Table):
        domain, where = data.domain, "this table"
        perturbed = data.provenance is not None
    else:
        reader = reader_of(data)
        perturbed, where = reader.description is not None, reader.where
    if perturbed:
        raise ParameterError(f"{where} is itself a perturbed file", hint="give the true baskets")
    if not isinstance(data, Table):
        if items is not None and not reader.baskets:
            raise ParameterError("an items file is for basket files", hint="leave it out")
        named = not isinstance(reader, BasketReader)
        domain = propose(reader).domain if items is None else read_items(items, named=named)
    if not domain.baskets:
        raise ParameterError(f"{where} holds records, not baskets", hint="swap is for records")
    table = data if isinstance(data, Table) else reader.table(domain)
    if not table.rows:
        raise DataError("there is no basket")
    return table


def framed(data: Any) -> Any:
    """Plain lists of items as an Arrow table; anything else as it is."""
    if (
        isinstance(data, str | Path)
        or hasattr(data, "__arrow_c_stream__")
        or not isinstance(data, Iterable)
        or is_records(data)
    ):
        return data
    lists = []
    for place, basket in enumerate(data, 1):
        if isinstance(basket, str | Mapping) or not isinstance(basket, Iterable):
            raise DataError(
                f"basket {place} is {shown(basket)}, not a list of items",
                hint='give lists, as in [["tea", "milk"], ["tea"]]',
            )
        lists.append(sorted({str(item) for item in basket}))
    names = tuple(sorted({item for basket in lists for item in basket}))
    if not names:
        raise DataError("no basket holds an item")
    domain = Domain((Items(ITEMS_NAME, names),))
    return Table.from_arrow(pa.table({ITEMS_NAME: pa.array(lists, pa.list_(pa.string()))}), domain)


def _batches(reader: RecordReader) -> Iterator[pa.RecordBatch]:
    """The batches of a reader, which tells how far it has come, without string views (which polars
    hands over and Arrow cannot sort) and without the row labels of pandas.
    """
    names = [name for name in reader.names if not name.startswith("__index_level_")]
    for batch in reader.arrow_batches(names):
        reader.told()
        stored = map(reader.as_stored, batch.schema.names, batch.columns)
        columns = [plain_array(column) for column in stored]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _coded(columns: Iterable[tuple[Distinct, Codes]]) -> Table:
    attributes, found = zip(*columns, strict=True)
    return Table(Domain(attributes), found)


@dataclass(frozen=True, eq=False)
class Keyed:
    """Records with numbers cut as asked, the names of their keys (what an intruder may know) and
    those of the confidential columns.

    >>> people = {"age": [31, 31, 52], "town": ["Lyon"] * 3, "ill": ["no", "yes", "no"]}
    >>> found = Keyed.of(people, "ill", bins={"age": "40"})
    >>> found.keys, found.secret, found.table.domain["age"].labels
    (('age', 'town'), ('ill',), ('[31,40)', '[40,52]'))
    """

    records: Table  # as they were found
    table: Table  # numbers in bins
    keys: tuple[str, ...]
    secret: tuple[str, ...]

    @classmethod
    def of(
        cls,
        data: Any,
        confidential: str | Sequence[str] | None,
        *,
        keys: Sequence[str] | None = None,
        bins: Mapping[str, str] | None = None,
        beside: Sequence[str] = (),
        keys_needed: bool = True,
        values_needed: int = 2,
    ) -> Keyed:
        """A column that is not confidential is a key, unless `keys` names them or it stands
        `beside` (a sampling weight). Of a confidential column `values_needed` different values are
        asked for.
        """
        records = records_of(data)
        secret = columns_named("confidential", () if confidential is None else confidential)
        if values_needed and not secret:
            raise ParameterError(
                "no confidential column was named",
                hint='name one or more, as in confidential="income"',
            )
        chosen = None if keys is None else columns_named("keys", keys)
        check_names(records, [*secret, *(chosen or ()), *beside])
        table = cut(records, bins)
        for name in chosen or ():
            if name in secret or name in beside:
                role = "confidential" if name in secret else "a weight"
                raise ParameterError(
                    f"'{name}' is named a key and {role}; a column is one of them",
                    hint="leave it out of one",
                )
        apart = {*secret, *beside}
        known = tuple(name for name in (chosen or table.domain.names) if name not in apart)
        for name in secret:
            if table.domain[name].size < values_needed:
                raise DataError(
                    f"confidential column '{name}' has {table.domain[name].size} value(s), so "
                    "there is nothing to exchange",
                    hint="name a column with two or more values",
                )
        if not known and keys_needed:
            raise ParameterError(
                "every column is confidential, so no record can be told apart by the others"
            )
        return cls(records, table, known, secret)

    @cached_property
    def known(self) -> list[Codes]:
        """The codes of the keys."""
        return columns_of(self.table, self.keys)

    @cached_property
    def pattern(self) -> NDArray[np.int64]:
        """The number of each record's combination of keys."""
        return patterns(self.known)

    def views(self, jointly: bool) -> list[tuple[str, ...]]:
        """The confidential columns as they are treated: as one, or each on its own."""
        return [self.secret] if jointly else [(name,) for name in self.secret]

    def released(
        self, shown: Mapping[str, Codes], *, raw: bool = False
    ) -> tuple[Table, NDArray[np.bool_]]:
        """The records with these codes in place of the confidential ones, the other columns in
        their bins or `raw`; and which records differ from the truth.
        """
        columns = {name: (attribute_of(self.table, name), shown[name]) for name in shown}
        changed = np.any([shown[name] != self.table.column(name) for name in shown], axis=0)
        return replaced(self.records if raw else self.table, columns), changed


def columns_named(role: str, names: str | Sequence[str]) -> tuple[str, ...]:
    """One name, or several, as several, each once; what is no name is refused."""
    if isinstance(names, str):
        return (names,)
    found = tuple(names) if isinstance(names, Iterable) else (names,)
    wrong = [name for name in found if not isinstance(name, str)]
    if wrong:
        raise ParameterError(
            f"{role}={shown(wrong[0])} is not the name of a column", hint="give one name, or a list"
        )
    return tuple(dict.fromkeys(found))


def check_names(table: Table, names: Iterable[Any]) -> None:
    """Refuse a name that is no column."""
    for name in names:
        if name not in table.domain:
            raise SchemaError(
                f"no column {shown(name)} in this table ({listing(table.domain.names)})",
                hint=near_miss(name, table.domain.names),
            )


def attribute_of(table: Table, name: str) -> Distinct:
    """A column's values as they were found."""
    attribute = table.domain[name]
    assert isinstance(attribute, Distinct)
    return attribute


def columns_of(table: Table, names: Iterable[str]) -> list[Codes]:
    """The codes of several columns."""
    return [np.asarray(table.column(name)) for name in names]


def replaced(table: Table, columns: Mapping[str, tuple[Distinct, Codes]]) -> Table:
    """The table with other values in these columns."""
    kept = zip(table.domain.names, columns_of(table, table.domain.names), strict=True)
    return _coded(columns.get(name) or (attribute_of(table, name), codes) for name, codes in kept)


def cut(records: Table, bins: Mapping[str, str] | None) -> Table:
    """The records with these numbers in bins, nulls in one of their own: equal in width or in
    frequency, or at given cuts.

    >>> ages = cut(records_of({"age": [3, 5, 8, None]}), {"age": "frequency:2"})
    >>> ages.domain["age"].values, ages.column("age").tolist()
    (('[3,5)', '[5,8]', None), [0, 1, 1, 2])
    """
    if bins is not None and not isinstance(bins, Mapping):
        raise ParameterError(
            f"bins={shown(bins)} does not say which column is cut",
            hint='as in bins={"age": "frequency:5"}',
        )
    check_names(records, bins or ())
    return replaced(
        records, {name: cut_column(records, name, how) for name, how in (bins or {}).items()}
    )


def cut_column(records: Table, name: str, how: str) -> tuple[Distinct, Codes]:
    """One column in bins, and its codes."""
    if not isinstance(how, str):
        found = "a list" if isinstance(how, list | tuple) else shown(how)
        raise ParameterError(
            f"bins={found} does not say how to cut a column",
            hint='write "frequency:5", "width:5" or "35,55"',
        )
    method, count, cuts = binning(how)
    known = numbers_of(attribute_of(records, name))
    if known is None:
        raise DataError(
            f"column '{name}' does not hold numbers only, so it cannot be cut into bins"
        )
    numbers = known[columns_of(records, [name])[0]]
    missing = np.isnan(numbers)
    present = numbers[~missing]
    if not len(present):
        raise DataError(f"column '{name}' holds nulls only, so it cannot be cut into bins")
    edges = np.asarray(cuts) if method == "cuts" else edges_of(method, count, present)
    ends = min(present.min(), *edges), max(present.max(), *edges)
    bounds = [f"{bound:g}" for bound in (ends[0], *edges, ends[1])]
    closing = [")"] * len(edges) + ["]"]
    labels = [f"[{a},{b}{end}" for a, b, end in zip(bounds, bounds[1:], closing, strict=False)]
    # A null, which is nan here, comes after all edges: one more moves it past the last bin.
    place = np.searchsorted(edges, numbers, side="right") + missing
    occurring, place = np.unique(place, return_inverse=True)
    values = tuple((*labels, None)[code] for code in occurring)
    return Distinct(name, values, pa.string()), place.astype(np.int32)


def numbers_of(attribute: Distinct) -> NDArray[np.float64] | None:
    """The values as numbers, words that read as numbers (as a CSV file has them) included, nulls as
    nan; None if one is no number.
    """
    try:
        numbers = attribute.array.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def binning(text: str) -> tuple[str, int, tuple[float, ...]]:
    """How to cut, written as `frequency:5`, `width:5` or `35,55,75`: the method, the number of
    bins, the cuts.

    >>> binning("frequency:5"), binning("35,55")
    (('frequency', 5, ()), ('cuts', 0, (35.0, 55.0)))
    """
    method, colon, number = (part.strip() for part in text.partition(":"))
    try:
        count, cuts = (int(number), ()) if colon else (0, tuple(map(float, text.split(","))))
    except ValueError:
        raise ParameterError(
            f"cannot read the binning '{text}'", hint="write frequency:5, width:5 or 35,55,75"
        ) from None
    if colon and method not in ("width", "frequency"):
        raise ParameterError(
            f"no way of binning called {shown(method)}", hint="use width, frequency or cuts"
        )
    if cuts and (not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all()):
        raise ParameterError(f"cuts must be one or more ascending numbers; found {cuts}")
    if colon and count < 2:
        raise ParameterError(f"a column is cut into 2 bins or more; found {count}")
    if count > MOST_BINS:
        raise ParameterError(f"a column is cut into {MOST_BINS:,} bins at most; found {count:,}")
    return method if colon else "cuts", count, cuts


def edges_of(method: str, count: int, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inner edges of bins of equal width or frequency; each belongs to the bin above it.

    Of equal frequency: edges that share the records evenly; a value held by many is a bin of its
    own and the rest is shared anew.

    >>> edges_of("frequency", 3, np.arange(9.0)).tolist()
    [3.0, 6.0]
    """
    if method == "width":
        return np.linspace(numbers.min(), numbers.max(), count + 1)[1:-1]
    values, times = np.unique(numbers, return_counts=True)
    ends = np.cumsum(times)
    edges: list[int] = []
    start = 0  # place of the first value of the bin
    for left in range(count, 1, -1):
        taken = ends[start - 1] if start else 0
        target = taken + (len(numbers) - taken) / left
        stop = int(np.searchsorted(ends, target))
        before = ends[stop - 1] if stop else 0
        if stop <= start or ends[stop] - target < target - before:
            stop += 1
        if stop >= len(values):
            break
        edges.append(stop)
        start = stop
    return values[edges]


def patterns(columns: Sequence[Codes]) -> NDArray[np.int64]:
    """A number 0, 1, … for each record's combination of codes, equal combinations having equal
    numbers.

    Mixed radix, renumbered whenever the next column could overflow 62 bits.
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        values = int(column.max(initial=-1)) + 1
        if size * values >= (1 << 62):
            key = _renumbered(key)
            size = int(key.max(initial=-1)) + 1
        key = key * values + column
        size *= values
    return _renumbered(key)


def _renumbered(key: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.argsort(key, kind="stable")
    new = np.empty_like(key)
    new[order] = np.cumsum(np.diff(key[order], prepend=key[order[:1]]) != 0)
    return new


def joined(table: Table, names: Sequence[str]) -> tuple[Distinct, Codes, list[NDArray[np.intp]]]:
    """Columns as one, whose values are the combinations that occur; its codes; and for each column
    the code that it has in every combination.
    """
    attributes = [attribute_of(table, name) for name in names]
    columns = columns_of(table, names)
    if len(names) == 1:
        return attributes[0], columns[0], [np.arange(attributes[0].size)]
    numbers = patterns(columns)
    _, first = np.unique(numbers, return_index=True)
    parts = [column[first].astype(np.intp) for column in columns]
    pairs = zip(attributes, parts, strict=True)
    values = zip(*([each.values[code] for code in part] for each, part in pairs), strict=True)
    attribute = Distinct(" × ".join(names), tuple(values), pa.null())  # which no file holds
    return attribute, numbers.astype(np.int32), parts


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedRecords(Judged):
    """Records to hand out; `changed` says which differ from the truth and is for the owner
    alone.
    """

    records: Table
    changed: NDArray[np.bool_]

    @cached_property
    def table(self) -> pa.Table:
        """The records to hand out, as Arrow."""
        return self.records.to_arrow()

    def to_arrow(self) -> pa.Table:
        """The records to hand out; what was done is in `to_dict` and the report."""
        return self.table

    def revealed(self) -> dict[str, list[Any]]:
        """Which rows (from 1) were changed: for the owner alone."""
        return {"changed_rows": (np.flatnonzero(self.changed) + 1).tolist()}

    @checked
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the records to hand out: .csv, .csv.gz or .parquet, by the name."""
        check_record_target(path, force=force)
        save(self.records, path, force=force)


def check_record_target(target: str | Path, *, force: bool = False) -> None:
    """Refuse what records cannot be written to, before any work is done for it."""
    check_target(target, force)
    if str(target) != STANDARD_STREAM and format_of(Path(target)).kind == "dat":
        raise ParameterError(
            f"'{target}' is a name for baskets", hint="end it in .csv, .csv.gz or .parquet"
        )
