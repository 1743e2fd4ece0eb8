"""Campaigns in the collector's SQLite stores: opened to be read, and nothing in them trusted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sfumato.engines.campaigns import CHUNK, chosen, provenance_of, release_of
from sfumato.errors import FileError
from sfumato.source import Release

CAMPAIGNS = "SELECT name, round, number, spec FROM campaign"
BODIES = "SELECT body FROM report WHERE campaign = ? ORDER BY id"


def open_campaign(path: Path, name: str) -> Release:
    """The reports of a campaign in a store, with the mechanism that made them."""
    where = f"'{path}'"
    if not path.is_file():
        raise FileError(f"no database file {where}")
    with _told(where), closing(_connected(path)) as connection:
        _check_store(connection, where)
        number, spec = chosen(connection.execute(CAMPAIGNS).fetchall(), name, where)
        return release_of(provenance_of(spec, name, where), _bodies(connection, number), where)


def _connected(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing and trusts nothing in the file."""
    address = f"file:{quote(str(path.absolute()))}"
    try:
        return _opened(f"{address}?mode=ro")
    except sqlite3.OperationalError:
        # A folder that cannot be written has no room for what readers of a log share.
        if path.with_name(path.name + "-wal").exists():
            raise
        return _opened(f"{address}?immutable=1")


def _opened(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    for setting in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute("BEGIN")  # one moment for all that is read
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _check_store(connection: sqlite3.Connection, where: str) -> None:
    """Refuse what is not a store: its tables must be tables, and not views that compute."""
    kinds = dict(connection.execute("SELECT name, type FROM sqlite_master").fetchall())
    if kinds.get("campaign") != "table" or kinds.get("report") != "table":
        raise FileError(f"{where} is no store of campaigns", hint="sfumato serve makes one")


def _bodies(connection: sqlite3.Connection, number: int) -> Iterator[list[Any]]:
    found = connection.execute(BODIES, (number,))
    while rows := found.fetchmany(CHUNK):
        yield [body for (body,) in rows]


@contextmanager
def _told(where: str) -> Iterator[None]:
    """SQLite's complaints as one line of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise FileError(f"SQLite cannot read {where}: {error}") from None
