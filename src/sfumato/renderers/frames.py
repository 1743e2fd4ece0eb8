"""A view's tables as Arrow, and any result's fields as JSON."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from sfumato.errors import MissingExtraError
from sfumato.printable import json_number
from sfumato.view import ColumnView, TableView


def arrow(table: TableView) -> Any:
    """The columns of a table that programs read; what is undefined is null, exact counts are whole,
    and a name that is taken is numbered.
    """
    import pyarrow as pa

    made: dict[str, Any] = {}
    for column in table.columns:
        for name, values, kind in _fields(column):
            hidden = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
            plain = values.data if hidden is not None else values
            made[free_name(name, made)] = pa.array(plain, kind and _type(kind), mask=hidden)
    return pa.table(made)


def _fields(column: ColumnView) -> Iterable[tuple[str, Any, str | None]]:
    """Name, values and kind of what a column is in a frame."""
    if column.stderr is None or len(column.fields) <= 1:
        yield from ((name, column.values, column.kind) for name in column.fields)
        return
    value, error = (np.asarray(part, dtype=float) for part in (column.values, column.stderr))
    half = column.reach * error
    ends = [value - half, value + half]
    if column.ends is not None:
        ends = [*np.asarray(column.ends, dtype=float).reshape(-1, 2).T]
    known = np.isfinite(value)
    whole = column.counts and column.kind is None and known.all() and not error.any()
    for name, part in zip(column.fields, (value, error, *ends), strict=False):
        if whole and part is value:
            yield name, np.rint(value).astype(np.int64), None
        else:
            yield name, np.ma.masked_array(part, ~(known & np.isfinite(part))), "double"


def _type(kind: str) -> Any:
    import pyarrow as pa

    return pa.list_(pa.string()) if kind == "names" else pa.type_for_alias(kind)


def free_name(name: str, taken: Container[str]) -> str:
    """The name, or the first numbered one that is free: a column may be called count_low itself.

    >>> free_name("n", ["n", "n_2"])
    'n_3'
    """
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def as_polars(table: Any) -> Any:
    """An Arrow table as a Polars data frame."""
    try:
        import polars
    except ImportError:
        raise MissingExtraError(
            "Polars is not installed", extra="polars", instead="use to_arrow()"
        ) from None
    return polars.from_arrow(table)


def json_value(value: Any) -> Any:
    """A value as JSON holds it: a dataclass by its fields (and the properties that it names in
    `also`, without those in `apart`), what has a `to_dict` by that, sequences as lists.

    >>> json_value({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return json_number(value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return json_fields(value)
    if isinstance(value, Mapping):
        return {str(name): json_value(each) for name, each in value.items()}
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return json_value(value.tolist())
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        return [json_value(each) for each in value]
    return str(value)


def json_fields(record: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON holds them."""
    apart = getattr(record, "apart", ())
    names = [field.name for field in fields(record) if field.name not in apart]
    names += getattr(record, "also", ())
    return {name: json_value(getattr(record, name)) for name in names}
