"""The file of a ledger: an SQLite database made once, opened by its one real path, and its rows."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sfumato.errors import FileError
from sfumato.printable import json_number
from sfumato.privacy.account import Account, Entry
from sfumato.privacy.json_ledger import read_json_ledger
from sfumato.untrusted import (
    MOST_LEDGER_BYTES,
    has_tables,
    parsed_list,
    read_text,
    refuse_malformed,
)

APPLICATION = 0x5366_6C67  # "Sflg": tells a ledger from any other SQLite file
VERSION = 2
PATIENCE = 30.0  # seconds to wait for another process that is spending
SQLITE = b"SQLite format 3\0"  # how such a file begins

# An epsilon without bound is NULL. `spent` counts the entries of a key by their cost, so that a sum
# over 100,000 of them is a sum over a few costs, and an exact one.
SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE budget(epsilon REAL CHECK (epsilon >= 0));
CREATE TABLE entry(
  number INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  release TEXT NOT NULL,
  epsilon REAL CHECK (epsilon >= 0),
  attributes TEXT NOT NULL,
  at TEXT NOT NULL,
  report TEXT,
  state TEXT NOT NULL CHECK (state IN ('charged', 'pending', 'sent', 'forgotten')),
  CHECK ((report IS NULL) = (state IN ('charged', 'forgotten')))
);
CREATE INDEX entry_of ON entry(key, release);
CREATE UNIQUE INDEX one_report ON entry(key, release) WHERE state IN ('pending', 'sent');
CREATE INDEX unsent ON entry(state) WHERE state = 'pending';
CREATE TABLE spent(key TEXT, epsilon REAL, times INTEGER NOT NULL, PRIMARY KEY (key, epsilon));
CREATE TRIGGER spending AFTER INSERT ON entry BEGIN
  INSERT INTO spent VALUES (new.key, coalesce(new.epsilon, 9e999), 1)
  ON CONFLICT (key, epsilon) DO UPDATE SET times = times + 1;
END;
CREATE TABLE dealt(key TEXT, release TEXT, value TEXT NOT NULL, PRIMARY KEY (key, release));
"""


COLUMNS = "key, release, epsilon, attributes, at, report, state"


def create_file(path: str | Path, account: Account) -> Path:
    """A new ledger file that holds this account, for its owner's eyes alone; where it now is."""
    place = Path(os.path.realpath(path))
    try:
        _check_no_log(place)
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise _taken(place) from None
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"the ledger cannot be kept in {place.parent}: {error.strerror}") from error
    try:
        _write(place, account)
        _sync(place.parent)
    except BaseException:
        place.unlink(missing_ok=True)
        raise
    return place


def ensure_file(path: str | Path, account: Account) -> Path:
    """The ledger file at a place, made to hold this account where there is none; where it now is.

    It is written under another name first, so that a kill leaves no ledger rather than half of one,
    and under a lock, so that of two who begin at once the second finds the ledger of the first.
    """
    place = Path(os.path.realpath(path))
    try:
        if place.exists():
            return place
        with open(f"{place}.lock", "a+", opener=_for_its_owner) as lock:
            _wait_for(lock)
            if not place.exists():
                _create_aside(place, account)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"the ledger cannot be kept in {place.parent}: {error.strerror}") from error
    return place


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _create_aside(place: Path, account: Account) -> None:
    aside = place.with_name(place.name + ".new")
    for left in ("", "-wal", "-shm", "-journal"):  # by a kill
        aside.with_name(aside.name + left).unlink(missing_ok=True)
    _check_no_log(place)
    os.replace(create_file(aside, account), place)
    _sync(place.parent)


def real_place(path: str | Path) -> Path:
    """The one path of a ledger that is there, however it was reached: a link to it is the ledger
    itself.
    """
    place = Path(os.path.realpath(path))
    try:
        found = place.stat()
    except OSError as error:
        raise FileError(
            f"no ledger can be read at '{place}': {error.strerror}",
            hint="check the path; a new one is made by --new-ledger, in Python by Ledger.create",
        ) from None
    if not place.is_file():
        raise _not_a_ledger(place)
    if found.st_nlink > 1:
        raise FileError(
            f"the ledger '{place}' has {found.st_nlink} names (hard links), and each would keep "
            "an account of its own",
            hint="remove all but one, or use a symbolic link",
        )
    return place


def opened(place: Path) -> float:
    """The budget of a ledger, once it is seen to be one; a JSON ledger becomes a database first."""
    if not _is_database(place):
        _migrate(place)
    with connected(place) as connection:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise _not_a_ledger(place)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise FileError(
                f"{place.name} is a ledger of version {version}; this program reads versions 1 "
                f"and {VERSION}"
            )
        if not has_tables(connection, SCHEMA):
            raise _not_a_ledger(place)
        budgets = connection.execute("SELECT epsilon FROM budget").fetchall()
    if len(budgets) != 1:
        raise _not_a_ledger(place)
    return _bounded(budgets[0][0], place)


@contextmanager
def connected(place: Path) -> Iterator[sqlite3.Connection]:
    """A connection for one use, so that none is carried into a thread or a forked child;
    transactions are begun and ended by hand.
    """
    address = f"{real_place(place).as_uri()}?mode=rw"
    try:
        connection = sqlite3.connect(address, timeout=PATIENCE, isolation_level=None, uri=True)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # what is forgotten leaves no trace
            yield connection
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        raise FileError(
            f"the ledger {place.name} cannot be used: {error}",
            hint="see that its folder can be written, and try again: nothing is drawn twice",
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # it may complain in no text
        raise _not_a_ledger(place) from error


def insert(connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    """Write entries down, inside a transaction."""
    connection.executemany(
        f"INSERT INTO entry({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", map(_row_of, entries)
    )


def entries_in(
    connection: sqlite3.Connection, which: str, values: dict[str, Any]
) -> tuple[Entry, ...]:
    """The entries for which a condition holds, oldest first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM entry WHERE {which} ORDER BY number", values
    ).fetchall()
    return tuple(
        Entry(
            key,
            release,
            math.inf if epsilon is None else epsilon,
            tuple(parsed_list(attributes, "an entry of this ledger")),
            at,
            None if report is None else _as_written(report),
            state,
        )
        for key, release, epsilon, attributes, at, report, state in rows
    )


def _as_written(text: str) -> Any:
    with refuse_malformed("a report in this ledger"):
        return json.loads(text)


def spent_in(connection: sqlite3.Connection, key: str) -> tuple[float, int]:
    """What a key has spent, and in how many entries."""
    rows = connection.execute("SELECT epsilon, times FROM spent WHERE key = ?", (key,)).fetchall()
    with refuse_malformed("what was spent by this ledger"):
        costs = [float(epsilon) * times for epsilon, times in rows]
        return math.fsum(costs), sum(times for _, times in rows)


def keys_in(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Every key that has spent something or was dealt something."""
    rows = connection.execute("SELECT key FROM spent UNION SELECT key FROM dealt").fetchall()
    return tuple(key for (key,) in rows)


def rename(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Put all that one key spent, reported and was dealt down to another, inside a transaction."""
    keys = {"old": old, "new": new}
    held = "key = :{} AND state IN ('pending', 'sent')"
    for statement in (
        f"UPDATE entry SET state = 'forgotten', report = NULL WHERE {held.format('old')} AND "
        f"release IN (SELECT release FROM entry WHERE {held.format('new')})",
        "UPDATE entry SET key = :new WHERE key = :old",
        "INSERT INTO spent SELECT :new, epsilon, times FROM spent WHERE key = :old "
        "ON CONFLICT (key, epsilon) DO UPDATE SET times = times + excluded.times",
        "DELETE FROM spent WHERE key = :old",
        "UPDATE OR IGNORE dealt SET key = :new WHERE key = :old",
        "DELETE FROM dealt WHERE key = :old",
    ):
        connection.execute(statement, keys)


def take_in(connection: sqlite3.Connection, other: Path) -> None:
    """Copy the entries of another ledger that are not here, and what was dealt. A report of a key
    and release that have one here is not kept, its cost is.
    """
    held = "SELECT 1 FROM entry WHERE key = o.key AND release = o.release"
    second = f"o.report IS NOT NULL AND EXISTS ({held} AND report IS NOT NULL)"
    connection.execute("ATTACH ? AS other", (f"{other.as_uri()}?mode=rw",))
    connection.execute("BEGIN IMMEDIATE")
    for statement in (
        f"INSERT INTO entry({COLUMNS}) SELECT key, release, epsilon, attributes, at, "
        f"iif({second}, NULL, report), iif({second}, 'forgotten', state) FROM other.entry AS o "
        f"WHERE NOT EXISTS ({held} AND epsilon IS o.epsilon AND at = o.at) ORDER BY number",
        "INSERT OR IGNORE INTO dealt SELECT * FROM other.dealt",
    ):
        connection.execute(statement)
    connection.execute("COMMIT")


def _row_of(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.key,
        entry.release,
        json_number(entry.epsilon),
        json.dumps(entry.attributes),
        entry.at,
        None if entry.report is None else json.dumps(entry.report),
        entry.state,
    )


def _bounded(epsilon: Any, place: Path) -> float:
    """A stored budget: NULL for none; a number that only stands for infinity is no budget."""
    if epsilon is None:
        return math.inf
    if not isinstance(epsilon, float) or not math.isfinite(epsilon) or epsilon < 0:
        raise _not_a_ledger(place)
    return epsilon


def _not_a_ledger(place: Path) -> FileError:
    return FileError(
        f"{place.name} is not a ledger", hint="restore it from a copy: it says what was spent"
    )


def _check_no_log(place: Path) -> None:
    """Refuse a place where a deleted ledger left its log: it would be played into the new one."""
    for left in (place.with_name(place.name + end) for end in ("-wal", "-journal")):
        if left.exists():
            raise _taken(left)


def _taken(place: Path) -> FileError:
    return FileError(f"'{place}' exists already", hint="open that ledger, or choose another name")


def _write(place: Path, account: Account) -> None:
    """Make an empty file a ledger, in one transaction."""
    with connected(place) as connection:
        connection.executescript(f"BEGIN;{SCHEMA}")
        connection.execute("INSERT INTO budget VALUES (?)", (json_number(account.budget),))
        insert(connection, account.entries)
        connection.execute("COMMIT")
        # The file remembers it: readers do not wait for a spender, nor it for them.
        connection.execute("PRAGMA journal_mode = WAL")


def _sync(place: Path) -> None:
    """Have a file, or a folder's new entry, survive a power cut; Windows syncs folders by
    itself.
    """
    if sys.platform == "win32" and place.is_dir():
        return
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_database(place: Path) -> bool:
    try:
        with place.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError as error:
        raise FileError(f"the ledger '{place}' cannot be read: {error.strerror}") from None


def _migrate(place: Path) -> None:
    """Put a database in the place of a JSON ledger, under the lock that version 0.1.0 takes."""
    _json_account(place)  # beside what is no ledger nothing is left
    with place.with_name(place.name + ".lock").open("a+") as lock:
        _wait_for(lock)
        if _is_database(place):  # another process was faster
            return
        account = _json_account(place)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        os.close(handle)
        try:
            _write(Path(name), account)
            os.chmod(name, place.stat().st_mode & 0o777)
            _sync(Path(name))
            os.replace(name, place)
            _sync(place.parent)
        finally:
            Path(name).unlink(missing_ok=True)


def _json_account(place: Path) -> Account:
    try:
        return read_json_ledger(read_text(place, f"ledger '{place}'", MOST_LEDGER_BYTES))
    except ValueError as error:
        raise _not_a_ledger(place) from error


def _wait_for(file: IO[str]) -> None:
    """Wait for the lock on an open file; closing it lets go."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
