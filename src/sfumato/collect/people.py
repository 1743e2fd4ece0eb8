"""People: the true records of a file that is to be answered from, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.domain import Domain
from sfumato.errors import DataError, SchemaError, near_miss
from sfumato.table import Table, reader_of


def named_records(data: str, domain: Domain, key: str | None) -> tuple[Table, Sequence[str] | None]:
    """The records of a file by a domain, and the column that names each person."""
    reader = reader_of(data)
    if key is None:
        return reader.table(domain), None
    names = _names(data, key)
    table = reader_of(data).table(domain)
    if len(names) != table.rows:
        raise DataError(f"column '{key}' has {len(names)} values for {table.rows} records")
    return replace(table, notes=()), names


def _names(data: str, key: str) -> list[str]:
    """One column of a file, as words."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    column: pa.ChunkedArray
    try:
        table = pq.read_table(data) if data.endswith(".parquet") else pc.read_csv(data)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"column '{key}' of '{data}' cannot be read: {error}") from None
    if key not in table.column_names:
        raise SchemaError(f"no column '{key}' in '{data}'", hint=near_miss(key, table.column_names))
    column = table.column(key).cast(pa.string())
    if column.null_count:
        raise DataError(f"column '{key}' has empty values, which name nobody")
    return [str(value) for value in column.to_pylist()]
