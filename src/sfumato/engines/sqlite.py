"""Releases and campaigns in SQLite files: read-only unless written, and nothing in them trusted."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import pyarrow as pa

from sfumato.counting.sql import Dialect
from sfumato.counting.sql.database import DESCRIPTIONS, FileDatabase, TableName, fetched
from sfumato.domain import Attribute, Numeric
from sfumato.errors import FileError
from sfumato.table import Table
from sfumato.table.delimited import flat_columns
from sfumato.table.limits import BATCH_ROWS

SQLITE = Dialect("sqlite", variance=False, typed=False)
NOTE = re.compile(r"\(-- (.*)\n")  # in the text of a table, which moves with it when it is renamed


@dataclass(frozen=True, eq=False)
class SqliteDatabase(FileDatabase):
    """A SQLite file: releases, a table each, or a collector's store of campaigns."""

    dialect: ClassVar[Dialect] = SQLITE
    journal: ClassVar[str] = "-wal"
    stores_alone: ClassVar[bool] = True

    @staticmethod
    def opened(path: Path, *, writable: bool) -> sqlite3.Connection:
        with _clear(f"'{path}'"):
            return _opened(str(path)) if writable else _to_be_read(path)

    def check_plain(self) -> None:
        """Refuse a file that holds nothing of ours, too."""
        if not self.is_store() and DESCRIPTIONS not in self.tables():
            raise FileError(
                f"{self.where} is no store of campaigns, and holds no release",
                hint="sfumato serve makes the one, sfumato perturb -o sqlite://PATH#TABLE the "
                "other",
            )
        super().check_plain()

    def computed(self) -> pa.Table:
        return self.fetch(
            "SELECT m.name AS t, x.name AS c FROM sqlite_master m, pragma_table_xinfo(m.name) x"
            " WHERE m.type = 'table' AND x.hidden > 1"
        )

    def is_store(self) -> bool:
        # Its tables must be tables, and not views that compute.
        return {"campaign", "report"} <= set(self.tables())

    def current_schema(self) -> str:
        return "main"

    def catalogue(self) -> list[tuple[str, str, bool]]:
        # A virtual table runs code of its own, and is none.
        found = self.fetch(
            "SELECT name, type = 'table' AND rootpage > 0 AND sql NOT LIKE 'CREATE VIRTUAL%'"
            " FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND substr(name, 1, 7) <> 'sqlite_'"
        )
        names, plain = (column.to_pylist() for column in found.columns)
        return [("main", str(name), bool(its)) for name, its in zip(names, plain, strict=True)]

    def comment(self, table: TableName) -> str | None:
        with _clear(self.where):
            found = self.connection.execute(
                "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table.table,)
            ).fetchone()
        note = NOTE.search(str(found[0])) if found else None
        return note[1] if note else None

    def fetch(self, statement: str) -> pa.Table:
        with _clear(self.where):
            return fetched(self.connection.execute(statement))

    def pieces(self, statement: str, rows: int) -> Iterator[list[Any]]:
        with _clear(self.where):
            found = self.connection.execute(statement)
            while piece := found.fetchmany(rows):
                yield piece

    def execute(self, statement: str) -> None:
        with _clear(self.where):
            self.connection.execute(statement)

    def type_of(self, attribute: Attribute) -> str:
        if not isinstance(attribute, Numeric):
            return "TEXT NOT NULL"
        return "INTEGER NOT NULL" if attribute.whole else "REAL NOT NULL"

    def create(self, name: TableName, table: Table, note: str) -> None:
        columns = self.columns_of(table.domain)
        self.execute(f"CREATE TABLE {name.text(SQLITE)} (-- {note}\n{columns})")
        self.fill(name, table)

    def fill(self, name: TableName, table: Table) -> None:
        for start in range(0, table.rows, BATCH_ROWS):
            part = table.slice(start, start + BATCH_ROWS)
            columns = [
                column.to_pylist()
                for pair in zip(part.domain, part.columns, strict=True)
                for column in flat_columns(*pair)
            ]
            marks = ", ".join("?" * len(columns))
            with _clear(self.where):
                self.connection.executemany(
                    f"INSERT INTO {name.text(SQLITE)} VALUES ({marks})",
                    zip(*columns, strict=True),
                )


def _to_be_read(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing and trusts nothing in the file."""
    address = f"file:{quote(str(path.absolute()))}"
    try:
        return _opened(f"{address}?mode=ro", "query_only = ON")
    except sqlite3.OperationalError:
        # A folder that cannot be written has no room for what readers of a log share.
        if path.with_name(path.name + "-wal").exists():
            raise
        return _opened(f"{address}?immutable=1", "query_only = ON")


def _opened(address: str, *settings: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    for setting in (*settings, "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


@contextmanager
def _clear(where: str) -> Iterator[None]:
    """SQLite's complaints as one line of ours."""
    try:
        yield
    except pa.ArrowException:
        # Its own words quote the value, which may be someone's true one.
        raise FileError(
            f"SQLite cannot read {where}: it holds a value that is not of its column's type",
            hint="it was changed after it was perturbed",
        ) from None
    except sqlite3.Error as error:
        raise FileError(f"SQLite cannot read {where}: {error}") from None
