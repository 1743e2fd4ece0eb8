"""Rows that DuckDB reads: Parquet and CSV files of any size, and tables of its own
database files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread, Timer
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from sfumato.counting.sql import Dialect, Relation
from sfumato.counting.sql.database import COPIED, FileDatabase, TableName
from sfumato.counting.sql.statements import whole_items
from sfumato.domain import Attribute, Domain, Items, Numeric
from sfumato.engines.limits import PROGRESS_SECONDS, STATEMENT_SECONDS
from sfumato.errors import FileError, first_line
from sfumato.progress import Progress, silent
from sfumato.table import Table
from sfumato.table.delimited import CsvReader
from sfumato.table.parquet import ParquetReader
from sfumato.table.readers import Reader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SMALL = 46_340  # the largest number whose square has 32 bits
VIEW = "release"  # what a file is called inside DuckDB
# What has DuckDB say how far a statement is, to us and not to the terminal.
LISTENED = (
    "enable_progress_bar = true",
    "enable_progress_bar_print = false",
    "progress_bar_time = 0",
)
# A database file comes from someone else, and only counts are asked of it: no other file, no
# setting of its own, and little memory.
RECEIVED = {"enable_external_access": False, "lock_configuration": True, "memory_limit": "512MB"}


DUCKDB = Dialect(
    "duckdb",
    grouping="GROUPING",
    unnest="UNNEST",
    filters=False,  # many FILTERs in one statement are quadratic
    finite="ISFINITE",
    columnar=True,
)


@dataclass(frozen=True, eq=False)
class DuckRelation(Relation):
    """A table or view of a DuckDB connection."""

    connection: DuckDBPyConnection
    rows_from: str
    where: str  # how messages call it
    flags: bool = False
    reader: Reader | None = None  # of a file
    store: str = ""  # the database file
    dialect: Dialect = DUCKDB

    def fetch(self, statement: str) -> pa.Table:
        with self._cursor() as cursor:
            return cursor.sql(statement).to_arrow_table()

    def row(self, statement: str) -> Sequence[Any]:
        with self._cursor() as cursor:
            # Planned once; what is asked for as a table is planned twice.
            (found,) = cursor.execute(statement).fetchall()
            return found

    def beside(self, other: Relation, reports: Domain) -> Relation | None:
        if not isinstance(other, DuckRelation) or (self.reader is None) != (other.reader is None):
            return None
        if self.reader is None:
            return self if self.store == other.store else None
        view = DUCKDB.quoted(VIEW)
        if self.rows_from != view or other.rows_from != view:  # one of them was joined before
            return None
        name = f"{VIEW}_beside"
        return file_relation(self.reader, reports, connection=other.connection, name=name)

    @contextmanager
    def _cursor(self) -> Iterator[DuckDBPyConnection]:
        cursor = self.connection.cursor()  # one each: a connection serves one thread at a time
        tell = silent if self.reader is None else self.reader.tell
        with _clear(self.where), _patiently(cursor, self.where), _progress(cursor, tell):
            yield cursor


@dataclass(frozen=True, eq=False)
class DuckDatabase(FileDatabase):
    """A DuckDB database file."""

    dialect: ClassVar[Dialect] = DUCKDB
    journal: ClassVar[str] = ".wal"

    @staticmethod
    def opened(path: Path, *, writable: bool) -> DuckDBPyConnection:
        return connect(path, writable=writable)

    def check_plain(self) -> None:
        """Refuse macros too, which may take the place of any function that a question uses.

        The functions are asked for by their full names, which no macro can take.
        """
        macros = self.fetch(
            "SELECT function_name FROM system.main.duckdb_functions() WHERE NOT internal"
        )
        if macros.num_rows:
            raise FileError(
                f"{self.where} holds macros of its own ({macros.column(0)[0]}), which could take "
                "the place of DuckDB's functions",
                hint=COPIED,
            )
        super().check_plain()

    def computed(self) -> pa.Table:
        return self.fetch(
            "SELECT table_name, column_name FROM information_schema.columns WHERE"
            " coalesce(is_generated = 'ALWAYS', column_default IS NOT NULL)"
        )

    def relation(self, table: TableName) -> DuckRelation:
        where = f"'{table.key}' of {self.where}"
        return DuckRelation(self.connection, table.text(DUCKDB), where, store=self.where)

    def comment(self, table: TableName) -> str | None:
        where = {"schema_name": table.schema, "table_name": table.table}
        same = " AND ".join(f"{name} = {DUCKDB.word(value)}" for name, value in where.items())
        found = self.fetch(
            "SELECT comment FROM system.main.duckdb_tables()"
            f" WHERE database_name = current_database() AND {same}"
        )
        return found.column(0)[0].as_py() if found.num_rows else None

    def fetch(self, statement: str) -> pa.Table:
        with _clear(self.where), _patiently(self.connection, self.where):
            return self.connection.sql(statement).to_arrow_table()

    def execute(self, statement: str) -> None:
        with _clear(self.where):
            self.connection.execute(statement)

    def type_of(self, attribute: Attribute) -> str:
        """Listed words are an ENUM, which is compared and grouped as a small number."""
        if isinstance(attribute, Items):
            return f"{'BIGINT' if whole_items(attribute) else 'VARCHAR'}[] NOT NULL"
        if isinstance(attribute, Numeric):
            if not attribute.whole:
                return "DOUBLE NOT NULL"
            # Of 32 bits where the product of any two has no more: read and compared faster.
            small = max(abs(attribute.min), abs(attribute.max)) <= SMALL
            return "INTEGER NOT NULL" if small else "BIGINT NOT NULL"
        return f"ENUM ({', '.join(map(DUCKDB.word, attribute.labels))}) NOT NULL"

    def fill(self, name: TableName, table: Table) -> None:
        with _clear(self.where):
            self.connection.register("sfumato_rows", table.to_arrow())
            self.connection.execute(f"INSERT INTO {name.text(DUCKDB)} SELECT * FROM sfumato_rows")
            self.connection.unregister("sfumato_rows")


def connect(
    path: Path | None = None, *, writable: bool = False, threads: int | None = None
) -> DuckDBPyConnection:
    """A connection to a database file, or to an empty database in memory, that never looks for
    anything on the network.
    """
    import duckdb

    settings: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "python_enable_replacements": False,
    }
    if threads is not None:
        settings["threads"] = threads
    if path is not None and not writable:
        settings |= RECEIVED
    with _clear(f"'{path}'"):
        return duckdb.connect(
            str(path) if path else ":memory:",
            read_only=path is not None and not writable,
            config=settings,
        )


def files_of(reader: Reader) -> list[Path]:
    """The files that DuckDB can read itself; none where it cannot."""
    parts: Sequence[Any] = (reader,) if isinstance(reader, CsvReader) else ()
    parts = reader.parts if isinstance(reader, ParquetReader) else parts
    return [part.path for part in parts if isinstance(part.path, Path)]


def file_relation(
    reader: Reader,
    reports: Domain,
    *,
    connection: DuckDBPyConnection | None = None,
    name: str = VIEW,
) -> DuckRelation:
    """The rows of a Parquet or CSV file, read column by column as they are asked for."""
    connection = connect() if connection is None else connection
    view = DUCKDB.quoted(name)
    with _clear(reader.where):
        connection.execute(
            f"CREATE VIEW {view} AS SELECT * FROM {_table_function(reader, reports)}"
        )
    return DuckRelation(connection, view, reader.where, isinstance(reader, CsvReader), reader)


def _table_function(reader: Reader, reports: Domain) -> str:
    """What stands after FROM to read a file."""
    files = files_of(reader)
    if not files:
        raise FileError(
            f"DuckDB cannot read {reader.where}", hint="use .parquet or .csv, or --engine memory"
        )
    if isinstance(reader, CsvReader):
        return f"read_csv({_literal(files[0])}, {_csv_options(reader, files[0], reports)})"
    return f"read_parquet([{', '.join(map(_literal, files))}])"


def _literal(path: Path) -> str:
    """The path as DuckDB takes it: no character of it is a wildcard."""
    return DUCKDB.word(
        "".join(f"[{mark}]" if mark in "*?[" else mark for mark in str(path.absolute()))
    )


def _csv_options(reader: CsvReader, path: Path, reports: Domain) -> str:
    """How our CSV is written: one header line, double quotes, an empty word quoted and
    a null not.
    """
    types = {name: "VARCHAR" for name in reader.names}
    for attribute in reports:
        if isinstance(attribute, Numeric):
            types[attribute.name] = "BIGINT" if attribute.whole else "DOUBLE"
    columns = ", ".join(f"{DUCKDB.word(name)}: '{kind}'" for name, kind in types.items())
    with path.open("rb") as stream:
        compression = "gzip" if stream.read(2) == b"\x1f\x8b" else "none"
    return (
        "header = true, auto_detect = false, delim = ',', quote = '\"', escape = '\"', "
        "allow_quoted_nulls = false, "
        f"compression = '{compression}', columns = {{{columns}}}"
    )


@contextmanager
def _patiently(connection: DuckDBPyConnection, where: str) -> Iterator[None]:
    """A block whose statement is interrupted when it takes too long."""
    import duckdb

    timer = Timer(STATEMENT_SECONDS, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except duckdb.InterruptException:
        raise FileError(
            f"DuckDB was still counting {where} after {STATEMENT_SECONDS:.0f} s"
        ) from None
    finally:
        timer.cancel()
        # A thread that holds the connection while Python ends makes DuckDB complain of it.
        timer.join()


@contextmanager
def _progress(connection: DuckDBPyConnection, tell: Progress) -> Iterator[None]:
    """A block whose statement tells how much of the rows it has seen, where somebody listens. A
    database file, whose settings are locked, tells nothing.
    """
    if tell is silent or not hasattr(connection, "query_progress"):
        yield
        return
    for setting in LISTENED:
        connection.execute(f"SET {setting}")
    over = Event()
    listener = Thread(target=_listen, args=(connection, tell, over), daemon=True)
    listener.start()
    try:
        yield
    finally:
        over.set()
        listener.join()


def _listen(connection: DuckDBPyConnection, tell: Progress, over: Event) -> None:
    while not over.wait(PROGRESS_SECONDS):
        percent = connection.query_progress()
        tell("counting", percent / 100 if percent >= 0 else None)


@contextmanager
def _clear(where: str) -> Iterator[None]:
    """DuckDB's complaints as one line of ours."""
    import duckdb

    try:
        yield
    except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.ConstraintException):
        # Its own words quote the value, which may be someone's true one.
        raise FileError(
            f"DuckDB cannot read {where}: it holds a value that is not of its column's type",
            hint="it was changed after it was perturbed",
        ) from None
    except duckdb.Error as error:
        raise FileError(f"DuckDB cannot read {where}: {first_line(error)}") from None
