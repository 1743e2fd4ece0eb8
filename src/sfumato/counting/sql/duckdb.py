"""Rows that DuckDB reads: Parquet and CSV files of any size, and tables of its own database files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from sfumato.domain import Domain, Numeric
from sfumato.errors import FileError, SfumatoError
from sfumato.table.readers import CsvReader, ParquetReader, Reader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VIEW = "release"  # what a file is called inside DuckDB


@dataclass(frozen=True, eq=False)
class DuckRelation:
    """A table or view of a DuckDB connection."""

    connection: DuckDBPyConnection
    table: str
    where: str  # how messages call it
    flags: bool = False
    dialect: ClassVar[str] = "duckdb"

    @property
    def rows_from(self) -> exp.Expression:
        return exp.table_(exp.to_identifier(self.table, quoted=True))

    def fetch(self, statement: str) -> pa.Table:
        with _clear(self.where):
            # A cursor each: a connection serves one thread at a time.
            return self.connection.cursor().sql(statement).to_arrow_table()


def connect(path: Path | None = None, *, writable: bool = False, threads: int | None = None) -> DuckDBPyConnection:
    """A connection to a database file, or to an empty database in memory, that never looks for anything on the network."""
    import duckdb

    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "python_enable_replacements": False}
    if threads is not None:
        settings["threads"] = threads
    with _clear(f"'{path}'"):
        return duckdb.connect(str(path) if path else ":memory:", read_only=path is not None and not writable, config=settings)


def file_relation(reader: Reader, reports: Domain, *, threads: int | None = None) -> DuckRelation:
    """The rows of a Parquet or CSV file, read column by column as they are asked for."""
    connection = connect(threads=threads)
    if not isinstance(reader, ParquetReader | CsvReader) or not isinstance(reader.path, Path):
        raise FileError(f"DuckDB cannot read {reader.where}", hint="use .parquet or .csv, or --engine memory")
    with _clear(reader.where):
        if isinstance(reader, ParquetReader):
            found = connection.read_parquet(_literal(reader.path))
        else:
            found = connection.read_csv(_literal(reader.path), **_csv_options(reader, reports))
        found.create_view(VIEW)
    return DuckRelation(connection, VIEW, reader.where, flags=isinstance(reader, CsvReader))


def _literal(path: Path) -> str:
    """The path as DuckDB takes it: no character of it is a wildcard."""
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in str(path.absolute()))


def _csv_options(reader: CsvReader, reports: Domain) -> dict[str, Any]:
    """How our CSV is written: one header line, double quotes, an empty word quoted and a null not."""
    types = {name: "VARCHAR" for name in reader.names}
    for attribute in reports:
        if isinstance(attribute, Numeric):
            types[attribute.name] = "BIGINT" if attribute.whole else "DOUBLE"
    with reader.path.open("rb") as stream:  # type: ignore[union-attr]
        zipped = stream.read(2) == b"\x1f\x8b"
    return {
        "header": True,
        "sep": ",",
        "quotechar": '"',
        "escapechar": '"',
        "dtype": types,
        "allow_quoted_nulls": False,
        "auto_detect": False,
        "columns": types,
        "compression": "gzip" if zipped else "none",
    }


@contextmanager
def _clear(where: str) -> Iterator[None]:
    """DuckDB's complaints as one line of ours."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        line = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise FileError(f"DuckDB cannot read {where}: {line}") from None
