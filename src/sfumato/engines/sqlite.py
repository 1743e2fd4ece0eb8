"""Campaigns in the collector's stores: sqlite://campaign.db#NAME, or #NAME/ROUND.

Reports are packed in a store, and in the order of their random ids, so they are read into memory;
ten million of them take some seconds. A store that is being served can be read at the same time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sfumato.errors import DataError, FileError, SfumatoError, near_miss
from sfumato.source import Release
from sfumato.table import Provenance, Table
from sfumato.table.packing import Packing
from sfumato.table.table import join_columns

CHUNK = 1 << 16  # reports read at a time
LATEST = "SELECT number, spec FROM campaign WHERE name = ? ORDER BY round DESC LIMIT 1"
ONE_ROUND = "SELECT number, spec FROM campaign WHERE name = ? AND round = ?"
BODIES = "SELECT body FROM report WHERE campaign = ? ORDER BY id"


def open_campaign(path: Path, name: str) -> Release:
    """The reports of a campaign in a store, with the mechanism that made them."""
    where = f"'{path}'"
    if not path.is_file():
        raise FileError(f"no database file {where}")
    with _told(where), closing(_connected(path)) as connection:
        _check_store(connection, where)
        number, spec = _campaign(connection, name, where)
        provenance = _provenance(spec, name, where)
        packing = Packing(provenance.mechanism.reports)
        parts = [packing.unpack(part) for part in _bodies(connection, number, packing, where)]
    reports = provenance.mechanism.reports
    return Release.of(Table(reports, join_columns(reports, parts), provenance))


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


def _campaign(connection: sqlite3.Connection, name: str, where: str) -> tuple[int, str]:
    plain, _, wanted = name.partition("/")
    if wanted:
        found = connection.execute(ONE_ROUND, (plain, wanted)).fetchone()
    else:
        found = connection.execute(LATEST, (plain,)).fetchone()
    if found is None:
        rows = connection.execute("SELECT name, round FROM campaign").fetchall()
        known = [f"{known}/{number}" if wanted else known for known, number in rows]
        raise FileError(f"no campaign '{name}' in {where}", hint=near_miss(name, known))
    return int(found[0]), str(found[1])


def _provenance(spec: str, name: str, where: str) -> Provenance:
    try:
        return Provenance.from_description(json.loads(spec))
    except (ValueError, SfumatoError) as error:
        told = error.message if isinstance(error, SfumatoError) else "it is not JSON"
        raise FileError(f"campaign '{name}' of {where} has no description: {told}") from None


def _bodies(
    connection: sqlite3.Connection, number: int, packing: Packing, where: str
) -> Iterator[bytes]:
    found = connection.execute(BODIES, (number,))
    while rows := found.fetchmany(CHUNK):
        bodies: list[Any] = [body for (body,) in rows]
        if any(type(body) is not bytes or len(body) != packing.width for body in bodies):
            raise DataError(f"a report in {where} is not of the length that its campaign has")
        yield b"".join(bodies)


@contextmanager
def _told(where: str) -> Iterator[None]:
    """SQLite's complaints as one line of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise FileError(f"SQLite cannot read {where}: {error}") from None
