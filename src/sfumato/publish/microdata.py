"""An owner's true records with every column coded by small integers: what identifying and swapping
work on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.errors import DataError, ParameterError, SchemaError, listing, near_miss
from sfumato.publish.records import read_records
from sfumato.table import Reader

__all__ = ["Binning", "Coded", "Microdata", "decoded", "microdata_of", "pattern_numbers"]

_LARGEST_KEY = 1 << 62
_MOST_BINS = 10_000


@checked
@dataclass(frozen=True)
class Binning:
    """How a numeric column is cut into classes: `width` or `frequency` into `count` bins, or at
    given `cuts`.

    >>> Binning.parse("frequency:3").edges(np.arange(9.0)).tolist()
    [3.0, 6.0]
    >>> Binning.parse("35,55,75").cuts
    (35.0, 55.0, 75.0)
    """

    method: Literal["width", "frequency", "cuts"]
    count: int = 0
    cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.method not in ("width", "frequency", "cuts"):
            raise ParameterError(
                f"no way of binning called {shown(self.method)}",
                hint="use width, frequency or cuts",
            )
        if self.method == "cuts" and (
            not np.isfinite(self.cuts or np.nan).all() or not (np.diff(self.cuts) > 0).all()
        ):
            raise ParameterError(f"cuts must be one or more ascending numbers; found {self.cuts}")
        if self.method != "cuts" and self.count < 2:
            raise ParameterError(f"a column is cut into 2 bins or more; found {self.count}")
        if self.count > _MOST_BINS:
            raise ParameterError(
                f"a column is cut into {_MOST_BINS:,} bins at most; found {self.count:,}"
            )

    @classmethod
    def parse(cls, text: str) -> Binning:
        """The binning written as `frequency:5`, `width:5` or `35,55,75`."""
        method, colon, count = text.partition(":")
        try:
            if colon:
                # A method that is none is refused where the binning is made.
                return cls(method.strip(), int(count))  # type: ignore[arg-type]
            return cls("cuts", cuts=tuple(float(part) for part in text.split(",")))
        except ValueError as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(
                f"cannot read the binning '{text}'", hint="write frequency:5, width:5 or 35,55,75"
            ) from None

    def edges(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inner edges of the bins; each belongs to the bin above it."""
        numbers = np.asarray(numbers)
        if not numbers.size:
            raise DataError("there are no numbers to cut into bins")
        if self.method == "cuts":
            return np.asarray(self.cuts)
        if self.method == "width":
            return np.linspace(numbers.min(), numbers.max(), self.count + 1)[1:-1]
        return _equal_frequency(numbers, self.count)


def _equal_frequency(numbers: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Inner edges that share the records evenly; a value held by many is a bin of its own and the
    rest is shared anew.
    """
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


@dataclass(frozen=True, eq=False)
class Coded:
    """One column as integers: record i has `values[codes[i]]`."""

    name: str
    codes: NDArray[np.int32]
    values: tuple[Any, ...]

    @property
    def size(self) -> int:
        """How many values the column takes."""
        return len(self.values)

    def counts(self) -> NDArray[np.int64]:
        """How many records have each value."""
        return np.bincount(self.codes, minlength=self.size)


@checked
@dataclass(frozen=True, eq=False)
class Microdata:
    """True records split into keys (what an intruder may know of a person) and confidential
    columns.
    """

    table: pa.Table
    keys: tuple[Coded, ...]
    confidential: tuple[Coded, ...]
    binned: tuple[Coded, ...] = ()  # the columns that were cut, keys or not
    source: str = "this table"

    @classmethod
    def read(
        cls,
        data: Any,
        confidential: str | Sequence[str],
        *,
        keys: Sequence[str] | None = None,
        bins: Mapping[str, Binning | str] | None = None,
        nulls: Literal["value", "error"] = "value",
        beside: Sequence[str] = (),
        with_secret: bool = True,
        keyless: bool = False,
    ) -> Microdata:
        """The records of a file, an Arrow table or a data frame; a column that is not confidential
        is a key, unless `keys` names them or it stands `beside` (a sampling weight).

        >>> people = pa.table({"age": [31, 31, 52], "town": ["Lyon", "Lyon", "Turin"],
        ...     "ill": ["no", "yes", "no"]})
        >>> data = Microdata.read(people, "ill", bins={"age": "40"})
        >>> [(key.name, key.values) for key in data.keys]
        [('age', ('[31,40)', '[40,52]')), ('town', ('Lyon', 'Turin'))]
        """
        table = read_records(data)
        cuts = _cuts(bins)
        confidential = columns_named("confidential", confidential)
        chosen = None if keys is None else columns_named("keys", keys)
        if nulls not in ("value", "error"):
            raise ParameterError(
                f"no way of treating nulls called {shown(nulls)}", hint="use value or error"
            )
        _check_names(table, [*confidential, *(chosen or ()), *cuts, *beside])
        if with_secret and not confidential:
            raise ParameterError("no confidential column was named", hint="name one or more")
        apart = {*confidential, *beside}
        _check_keys(chosen or (), confidential, beside)
        names = [name for name in (chosen or table.column_names) if name not in apart]
        coded = {
            name: _encode(name, table[name], cuts.get(name), nulls)
            for name in dict.fromkeys([*names, *confidential, *cuts])
        }
        for name in confidential:
            if with_secret and coded[name].size < 2:
                raise DataError(
                    f"confidential column '{name}' has {coded[name].size} value(s), so there is "
                    "nothing to exchange",
                    hint="name a column with two or more values",
                )
        if not names and not keyless:
            raise ParameterError(
                "every column is confidential, so no record can be told apart by the others"
            )
        return cls(
            table,
            tuple(coded[name] for name in names),
            tuple(coded[name] for name in confidential),
            tuple(coded[name] for name in cuts),
            _called(data),
        )

    @property
    def rows(self) -> int:
        """The number of records."""
        return int(self.table.num_rows)

    def released(self, columns: Mapping[str, Coded], *, raw: bool = False) -> pa.Table:
        """The table with these columns in place of its own, and those that were cut in their bins
        unless they are wanted `raw`.
        """
        cut = {} if raw else {column.name: column for column in self.binned}
        table = self.table
        for name, column in {**cut, **columns}.items():
            place = table.column_names.index(name)
            table = table.set_column(place, name, decoded(self.table, column))
        return table

    def check_column(self, name: str) -> None:
        """Refuse a name that is no column."""
        _check_names(self.table, [name])

    def combined(self) -> Microdata:
        """The same records with all confidential columns joined into one, whose values are the
        combinations that occur.
        """
        numbers = pattern_numbers(self.confidential)
        _, first = np.unique(numbers, return_index=True)
        values = tuple(
            tuple(column.values[column.codes[row]] for column in self.confidential) for row in first
        )
        name = " × ".join(column.name for column in self.confidential)
        return replace(self, confidential=(Coded(name, numbers.astype(np.int32), values),))

    def parts(self) -> tuple[NDArray[np.intp], ...]:
        """For each confidential column the code that it has in every value of `combined`."""
        _, first = np.unique(pattern_numbers(self.confidential), return_index=True)
        return tuple(column.codes[first].astype(np.intp) for column in self.confidential)

    def alone(self, position: int) -> Microdata:
        """The same records with one of the confidential columns; the others are neither key nor
        confidential.
        """
        return replace(self, confidential=(self.confidential[position],))


def _called(data: Any) -> str:
    """How messages call the data."""
    if isinstance(data, Reader):
        return data.where
    return f"'{data}'" if isinstance(data, str | Path) else "this table"


def decoded(table: pa.Table, column: Coded) -> pa.Array:
    """A column as an Arrow array, of the original type unless the column was binned."""
    original = table.schema.field(column.name).type
    kind = original.value_type if pa.types.is_dictionary(original) else original
    try:
        choices = pa.array(column.values, type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        choices = pa.array(column.values, type=pa.string())  # a binned number goes out as its bin
    return choices.take(pa.array(column.codes))


def microdata_of(data: Any, confidential: str | Sequence[str] | None, **how: Any) -> Microdata:
    """The microdata themselves, or those that a file, table or frame holds."""
    if isinstance(data, Microdata):
        given = [
            name for name, value in {"confidential": confidential, **how}.items() if _said(value)
        ]
        if given:
            raise ParameterError(
                f"these microdata were read already, so {listing(given)} cannot be chosen now",
                hint="say it to Microdata.read, or give the file or frame itself",
            )
        return data
    if confidential is None:
        raise ParameterError(
            "no confidential column was named", hint='name one or more, as in confidential="income"'
        )
    chosen = {name: value for name, value in how.items() if _said(value)}
    return Microdata.read(data, confidential, **chosen)


def _said(value: Any) -> bool:
    """Whether something was asked for: an empty list asks for nothing."""
    stated = value is not None and value is not False
    return stated and (not isinstance(value, Sized) or len(value) > 0)


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


def _cuts(bins: Any) -> dict[str, Binning]:
    """How each named column is cut; nothing where nothing is said."""
    if bins is not None and not isinstance(bins, Mapping):
        raise ParameterError(
            f"bins={shown(bins)} does not say which column is cut",
            hint='as in bins={"age": "frequency:5"}',
        )
    return {name: _binning(how) for name, how in (bins or {}).items()}


def _binning(how: Binning | str) -> Binning:
    if isinstance(how, Binning):
        return how
    if isinstance(how, str):
        return Binning.parse(how)
    found = "a list" if isinstance(how, list | tuple) else shown(how)
    raise ParameterError(
        f"bins={found} does not say how to cut a column",
        hint='write "frequency:5", "width:5" or "35,55"',
    )


def pattern_numbers(columns: Sequence[Coded]) -> NDArray[np.int64]:
    """A number 0, 1, … for each record's combination of values, equal combinations having equal
    numbers.

    Mixed radix, renumbered whenever the next column could overflow 62 bits.
    """
    key = np.zeros(len(columns[0].codes), dtype=np.int64)
    size = 1
    for column in columns:
        if size * column.size >= _LARGEST_KEY:
            key, size = _renumbered(key)
        key = key * column.size + column.codes
        size *= column.size
    return _renumbered(key)[0]


def _renumbered(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    new = np.empty(len(key), dtype=np.int64)
    starts = (
        np.concatenate([[False], ordered[1:] != ordered[:-1]])
        if len(key)
        else np.zeros(0, dtype=bool)
    )
    ranks = np.cumsum(starts)
    new[order] = ranks
    return new, int(ranks[-1]) + 1 if len(key) else 0


def _check_keys(keys: Sequence[str], confidential: Sequence[str], beside: Sequence[str]) -> None:
    for name in keys:
        if name in confidential or name in beside:
            role = "confidential" if name in confidential else "a weight"
            raise ParameterError(
                f"'{name}' is named a key and {role}; a column is one of them",
                hint="leave it out of one",
            )


def _check_names(table: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        if not isinstance(name, str) or name not in table.column_names:
            raise SchemaError(
                f"no column {shown(name)} in this table ({listing(table.column_names)})",
                hint=near_miss(name, table.column_names),
            )


def _encode(name: str, column: pa.ChunkedArray, binning: Binning | None, nulls: str) -> Coded:
    if column.null_count and nulls == "error":
        raise DataError(
            f"column '{name}' has {column.null_count} nulls",
            hint="fill them, or let null be a value of its own",
        )
    if binning is not None:
        return _encode_binned(name, column, binning)
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    encoded = plain.combine_chunks().dictionary_encode(null_encoding="encode")
    array = encoded if isinstance(encoded, pa.DictionaryArray) else encoded.combine_chunks()
    # Sorted values, null last, make codes independent of the order of the records.
    order = pc.sort_indices(array.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    codes = rank[array.indices.to_numpy(zero_copy_only=False)]
    return Coded(name, codes, tuple(array.dictionary.take(pa.array(order)).to_pylist()))


def _encode_binned(name: str, column: pa.ChunkedArray, binning: Binning) -> Coded:
    try:
        column = column.cast(
            pa.float64()
        )  # words that read as numbers, as a CSV file has them, will do
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"column '{name}' does not hold numbers only, so it cannot be cut into bins"
        ) from None
    missing = column.is_null().to_numpy()
    numbers = pc.fill_null(column, 0.0).to_numpy()
    present = numbers[~missing]
    if not len(present):
        raise DataError(f"column '{name}' holds nulls only, so it cannot be cut into bins")
    edges = binning.edges(present)
    codes = np.searchsorted(edges, numbers, side="right").astype(np.int32)
    labels: list[str | None] = _labels(edges, float(present.min()), float(present.max()))
    if missing.any():
        codes[missing] = len(labels)
        labels.append(None)
    occurring, codes = np.unique(codes, return_inverse=True)
    return Coded(name, codes.astype(np.int32), tuple(labels[code] for code in occurring))


def _labels(edges: NDArray[np.float64], low: float, high: float) -> list[str | None]:
    ends = (min(low, edges[0]), max(high, edges[-1])) if len(edges) else (low, high)
    bounds = [f"{bound:g}" for bound in (ends[0], *edges, ends[1])]
    closing = [")"] * (len(bounds) - 2) + ["]"]
    return [f"[{a},{b}{end}" for a, b, end in zip(bounds, bounds[1:], closing, strict=False)]
