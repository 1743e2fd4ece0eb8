"""SqliteStore: reports in one SQLite file, keyed by their random ids."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import IO, Any

from sfumato.collect.store.store import (
    CONFLICT,
    VERSION,
    WITHDRAWN,
    Added,
    Batch,
    Done,
    Receipt,
    SqlStore,
    Work,
    tallied,
    utc_today,
)
from sfumato.errors import FileError, StoreError
from sfumato.files import sync_folder
from sfumato.untrusted import check_file, has_tables

PATIENCE = 5.0  # seconds to wait for another writer
CACHE_KILOBYTES = 64 << 10
CHECKPOINT_PAGES = 4000  # pages in the log before they are moved into the database
CHUNK = 1 << 16  # bodies read at a time
BEYOND = b"\xff" * 17  # after every id

SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE campaign(number INTEGER PRIMARY KEY, name TEXT NOT NULL, round INTEGER NOT NULL,
    hash TEXT NOT NULL, frozen TEXT NOT NULL, spec TEXT NOT NULL, shown TEXT, UNIQUE(name, round));
CREATE TABLE report(campaign INTEGER, id BLOB, body BLOB NOT NULL,
    PRIMARY KEY(campaign, id)) WITHOUT ROWID;
CREATE TABLE withdrawn(campaign INTEGER, id BLOB, PRIMARY KEY(campaign, id)) WITHOUT ROWID;
CREATE TABLE daily(campaign INTEGER, day TEXT, outcome TEXT, count INTEGER NOT NULL,
    PRIMARY KEY(campaign, day, outcome)) WITHOUT ROWID;
CREATE TABLE token(hash BLOB PRIMARY KEY, role TEXT NOT NULL, label TEXT NOT NULL,
    expires TEXT) WITHOUT ROWID;
"""
# In a table that stores of earlier versions do not have: they remembered such ids for ever.
UNSEEN = """CREATE TABLE IF NOT EXISTS unseen(campaign INTEGER, id BLOB, day TEXT NOT NULL,
    PRIMARY KEY(campaign, id)) WITHOUT ROWID"""

Connect = Callable[[str], sqlite3.Connection]


class SqliteStore(SqlStore):
    """One file, one writer at a time; readers are never in its way, nor it in theirs.

    Rows lie in the order of their ids, which are random, so neither time nor order of arrival is
    kept; what SQLite's pages and log tell of it goes with `tidy`.
    """

    shared = False
    meta, octets = "meta", "BLOB"

    def __init__(self, path: Path, connection: sqlite3.Connection, connect: Connect) -> None:
        self.path = path
        self.where = f"'{path}'"
        self._connect = connect
        self._writing = connection
        self._reading = connect(str(path))
        self._lock, self._read_lock = threading.Lock(), threading.Lock()
        self._served: IO[str] | None = None
        self._changed = True  # since the last `tidy`
        self._withdrawn = {
            (campaign, identity)
            for campaign, identity in self._rows(
                "SELECT campaign, id FROM withdrawn UNION ALL SELECT campaign, id FROM unseen"
            )
        }
        self._forgotten = date.min  # the day on which some were last forgotten

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = False,
        serve: bool = False,
        connect: Connect | None = None,
    ) -> SqliteStore:
        """The store in a file; `serve` keeps other servers off it, since they would not see each
        other's reports in their figures.
        """
        path = Path(path)
        if not create and not path.is_file():
            raise FileError(f"no store '{path}'", hint="sfumato serve makes one")
        opened = connect or _connect
        if path.exists():  # what is no store is left as it is, with nothing beside it
            _check(path, create, opened)
        served = _served(path) if serve else None
        if create and not path.exists():
            _create(path)
        with _store_errors(f"'{path}'"):
            connection = opened(str(path))
            _prepare(connection, f"'{path}'", create)
            if serve:  # what a crash left in the log counts as committed now: have it on disk
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            store = cls(path, connection, opened)
        store._served = served
        return store

    # Reports.

    def _written(self, work: Work) -> Done:
        done = self._transacted(work, self._add_new) or self._transacted(work, self._add_some)
        assert done is not None
        self._withdrawn.update(work.withdrawals)
        self._changed = True
        return done

    def _transacted(
        self, work: Work, add: Callable[[sqlite3.Cursor, Sequence[Batch]], list[Added]]
    ) -> Done | None:
        """One transaction; None where an id was known, so that the quick way does not do."""
        try:
            with self._transaction() as cursor:
                added = add(cursor, work.adds)
                gone = [self._withdraw(cursor, *each) for each in work.withdrawals]
                self._count_day(cursor, tallied(work, added, gone))
        except _KnownIdError:
            return None
        return Done(added, gone)

    def _add_new(self, cursor: sqlite3.Cursor, batches: Sequence[Batch]) -> list[Added]:
        """Every report as a new row, in the order of the ids, which is that of the pages."""
        rows = [
            (batch.campaign, identity, body)
            for batch in batches
            for identity, body in batch.reports
        ]
        if self._withdrawn and not self._withdrawn.isdisjoint(row[:2] for row in rows):
            raise _KnownIdError
        rows.sort()
        try:
            cursor.executemany("INSERT INTO report VALUES (?, ?, ?)", rows)
        except sqlite3.IntegrityError:
            raise _KnownIdError from None
        return [Added([body for _, body in batch.reports]) for batch in batches]

    def _add_some(self, cursor: sqlite3.Cursor, batches: Sequence[Batch]) -> list[Added]:
        """Each report looked up first, for when some have come before; then as above."""
        known: dict[tuple[int, bytes], bytes] = {}
        results = []
        for campaign, reports in batches:
            new, repeated, refused = [], 0, []
            for place, (identity, body) in enumerate(reports):
                key = (campaign, identity)
                if key in self._withdrawn:
                    refused.append((place, WITHDRAWN))
                    continue
                there = known.get(key) or self._body(cursor, key)
                if there is None:
                    known[key] = body
                    new.append(body)
                elif there == body:
                    repeated += 1
                else:
                    refused.append((place, CONFLICT))
            results.append(Added(new, repeated, refused))
        rows = sorted((*key, body) for key, body in known.items())
        cursor.executemany("INSERT INTO report VALUES (?, ?, ?)", rows)
        return results

    def _forget(self) -> None:
        with self._transaction() as cursor:
            gone = self._forget_unseen(cursor)
        self._withdrawn.difference_update(gone)
        self._forgotten = utc_today()

    def probe(self) -> None:
        # What a failed flush left in the log may look committed to whoever opens the file next, so
        # it is moved into the database, which writes and flushes it anew.
        self._move_log(PATIENCE)
        super().probe()

    def receipts(self, campaign: int, ids: Sequence[bytes]) -> list[Receipt]:
        return [self._receipt((campaign, identity)) for identity in ids]

    def _receipt(self, key: tuple[int, bytes]) -> Receipt:
        if key in self._withdrawn:
            return "withdrawn"
        found = self._rows("SELECT 1 FROM report WHERE campaign = ? AND id = ?", key)
        return "stored" if found else "unknown"

    def bodies(self, campaign: int) -> Iterator[bytes]:
        with _store_errors(self.where):
            connection = self._connect(str(self.path))
            try:
                connection.execute("BEGIN")  # all parts are of one moment
                start = b""
                while start != BEYOND:
                    end = _after_some(connection, campaign, start)
                    if joined := _joined(connection, campaign, start, end):
                        yield joined
                    start = end
            finally:
                connection.close()

    # Keeping house.

    def cut_log(self) -> None:
        self._move_log(0.0)  # who reads just now must not keep the writer waiting: next time

    def tidy(self) -> None:
        """Write every page anew: cells stand in a page in the order in which they came."""
        if self._new_unseen or self._forgotten != utc_today():
            self._forget()
        with self._lock, _store_errors(self.where):
            if self._changed:
                self._writing.execute("VACUUM")
                self._changed = False
        self.cut_log()

    def _move_log(self, patience: float) -> None:
        """Move what the log holds into the database, and cut the log to nothing."""
        with self._lock, _store_errors(self.where):
            self._writing.execute(f"PRAGMA busy_timeout = {round(1e3 * patience)}").fetchall()
            try:
                self._writing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self._writing.execute(f"PRAGMA busy_timeout = {round(1e3 * PATIENCE)}").fetchall()

    def size(self) -> int:
        files = [self.path, *(self.path.with_name(self.path.name + end) for end in ("-wal",))]
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        if self._served is not None:
            with suppress(StoreError):  # a full disk has no room for it; the next start has
                self.tidy()
        with self._lock, self._read_lock:
            self._reading.close()
            self._writing.close()
        if self._served is not None:
            self._served.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        with self._lock, _store_errors(self.where):
            cursor = self._writing.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite has rolled back by itself on a full disk
                    cursor.execute("ROLLBACK")
                raise

    def _alone(self, cursor: Any) -> None:
        """As every transaction here is."""

    def _do(self, cursor: Any, statement: str, values: Sequence[Any]) -> Any:
        return cursor.execute(statement, values)

    def _rows(self, statement: str, values: Any = ()) -> list[Any]:
        with self._read_lock, _store_errors(self.where):
            return self._reading.execute(statement, values).fetchall()


def _after_some(connection: sqlite3.Connection, campaign: int, start: bytes) -> bytes:
    """The id that follows so many from `start` on; BEYOND where no more than these are left."""
    found = connection.execute(
        "SELECT id FROM report WHERE campaign = ? AND id >= ? ORDER BY id LIMIT 1 OFFSET ?",
        (campaign, start, CHUNK),
    ).fetchone()
    return BEYOND if found is None else bytes(found[0])


def _joined(
    connection: sqlite3.Connection, campaign: int, start: bytes, end: bytes
) -> bytes | None:
    """The bodies from one id up to another in the order of the ids, joined by SQLite itself, so
    that no report becomes an object of Python; None where there are none.
    """
    (joined,) = connection.execute(
        "SELECT CAST(group_concat(body, '') AS BLOB) FROM report WHERE campaign = ? AND id >= ?"
        " AND id < ?",
        (campaign, start, end),
    ).fetchone()
    return None if joined is None else bytes(joined)


class _KnownIdError(Exception):
    """One of the ids to add has been seen before."""


def _connect(path: str) -> sqlite3.Connection:
    # Autocommit: transactions are begun by hand. Any thread may use a connection, one at a time.
    for beside in ("", "-journal", "-wal", "-shm"):  # SQLite opens these too
        check_file(Path(path + beside), f"'{path}{beside}'")
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def _prepare(connection: sqlite3.Connection, where: str, create: bool) -> None:
    """Set up a connection for writing, and a new file's tables."""
    for setting in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        f"cache_size = -{CACHE_KILOBYTES}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {setting}").fetchall()
    if _is_new(connection, where, create):
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    connection.execute(UNSEEN)


def _check(path: Path, create: bool, connect: Connect) -> None:
    """Refuse a file that is no store, before anything is set or written."""
    with _store_errors(f"'{path}'"), closing(connect(str(path))) as connection:
        _is_new(connection, f"'{path}'", create)


def _is_new(connection: sqlite3.Connection, where: str, create: bool) -> bool:
    """Whether a store is still without its tables; refused where it is none."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version == 0 and tables == 0 and create:
        return True
    if version != VERSION:
        raise StoreError(
            f"{where} is no store of campaigns"
            + (f" that this Sfumato reads (version {version})" if version else "")
        )
    known = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'unseen'")
    if not has_tables(connection, SCHEMA + UNSEEN * known.fetchone()[0]):
        raise StoreError(f"{where} is no store of campaigns: its tables are not as Sfumato's are")
    return False


def _create(path: Path) -> None:
    """An empty file that its owner alone can read, and whose name survives a power cut."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"cannot make a store '{path}': {error.strerror}") from None


def _served(path: Path) -> IO[str]:
    """Keep other servers away from a file for as long as this process lives."""
    try:
        place = os.open(path.with_name(path.name + "-lock"), os.O_CREAT | os.O_RDWR, 0o600)
        os.chmod(path.with_name(path.name + "-lock"), 0o600)  # one made by an earlier version
        handle = os.fdopen(place, "a+")
    except OSError as error:
        raise FileError(f"cannot keep a store at '{path}': {error.strerror}") from None
    try:
        _lock(handle)
    except OSError:
        handle.close()
        raise StoreError(
            f"'{path}' is being served by another process",
            hint="stop that one, or use PostgreSQL for several",
        ) from None
    return handle


def _lock(handle: IO[str]) -> None:
    """Lock an open file for as long as it is open, or raise OSError."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def _store_errors(where: str) -> Iterator[None]:
    """SQLite's complaints as one line of ours."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # it may complain in what is no text
        reason = str(error)
        if "full" in reason:
            raise StoreError(f"the disk of {where} is full", hint="make room") from None
        if "locked" in reason or "busy" in reason:
            raise StoreError(f"{where} is locked by another program", hint="end it") from None
        raise StoreError(f"{where} cannot be used: {reason}") from None
