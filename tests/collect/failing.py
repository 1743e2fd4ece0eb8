"""A disk that fails on purpose: it may be full, fail to flush, or lose power with whatever was not
flushed. It stands under SQLite as a VFS of apsw.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
_numbers = count()


@dataclass
class Kept:
    """A file as the disk holds it, and what was written since the last flush."""

    durable: bytearray = field(default_factory=bytearray)
    waiting: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: cut off here

    def flush(self) -> None:
        for change in self.waiting:
            _apply(self.durable, change)
        self.waiting.clear()

    def after_power_loss(self, rng: random.Random) -> bytes:
        """What was flushed, and of the rest whatever happened to reach the disk, in sectors."""
        found = bytearray(self.durable)
        share = rng.choice([0.0, 0.3, 0.7, 1.0])
        for place, data in self.waiting:
            if data is None:
                if rng.random() < share:
                    _apply(found, (place, None))
                continue
            for start in range(0, len(data), SECTOR):
                if rng.random() < share:
                    _apply(found, (place + start, data[start : start + SECTOR]))
        return bytes(found)


def _apply(found: bytearray, change: tuple[int, bytes | None]) -> None:
    place, data = change
    if data is None:
        del found[place:]
        return
    found.extend(bytes(max(0, place + len(data) - len(found))))
    found[place : place + len(data)] = data


class FailingDisk(apsw.VFS):
    """All files of one test; `moment` is called before every write and flush."""

    def __init__(self) -> None:
        self.name = f"failing{next(_numbers)}"
        super().__init__(self.name, "")
        self.files: dict[str, Kept] = {}
        self.room: int | None = None  # bytes that can still be written; None is no limit
        self.failing_flushes = 0
        self.operations = 0
        self.moment = lambda number: None

    # The names are those that SQLite's file system calls (hence N802).

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.files.pop(filename, None)

    def happened(self) -> None:
        self.operations += 1
        self.moment(self.operations)

    def after_power_loss(self, folder: Path, rng: random.Random) -> None:
        """What the disk holds after the power came back, in a folder."""
        folder.mkdir()
        for name, kept in self.files.items():
            if not name.endswith("-shm"):
                (folder / Path(name).name).write_bytes(kept.after_power_loss(rng))

    def connect(self, path: str) -> sqlite3.Connection:
        """A connection that looks like one of Python's own."""
        return _Connection(apsw.Connection(path, vfs=self.name))


class _File(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.disk = disk
        text = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self.own = text
        if text not in disk.files:
            path = Path(text)
            there = path.read_bytes() if path.exists() else b""
            disk.files[text] = Kept(bytearray(there))

    @property
    def kept(self) -> Kept:
        return self.disk.files.setdefault(self.own, Kept())

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self.disk.happened()
        if self.disk.room is not None:
            self.disk.room -= len(data)
            if self.disk.room < 0:
                raise apsw.FullError("no room")
        super().xWrite(data, offset)
        self.kept.waiting.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self.kept.waiting.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.disk.happened()
        if self.disk.failing_flushes:
            self.disk.failing_flushes -= 1
            # As Linux has it: the pages count as clean from here on, and never reach the disk.
            self.kept.waiting.clear()
            raise apsw.IOError("flush failed")
        super().xSync(flags)
        self.kept.flush()


class _Connection:
    """As much of sqlite3.Connection as the store uses."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        connection.setbusytimeout(1000)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> _Cursor:
        return self.cursor().execute(statement, values)

    def cursor(self) -> _Cursor:
        return _Cursor(self._connection.cursor())

    def close(self) -> None:
        with _translated():
            self._connection.close()


class _Cursor:
    def __init__(self, cursor: apsw.Cursor) -> None:
        self._cursor = cursor

    def execute(self, statement: str, values: Sequence[Any] = ()) -> _Cursor:
        with _translated():
            self._cursor.execute(statement, tuple(values))
        return self

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> _Cursor:
        with _translated():
            self._cursor.executemany(statement, [tuple(row) for row in rows])
        return self

    def fetchone(self) -> Any:
        with _translated():
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        with _translated():
            return self._cursor.fetchall()

    def fetchmany(self, number: int) -> list[Any]:
        with _translated():
            return list(islice(self._cursor, number))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except apsw.ConstraintError as error:
        raise sqlite3.IntegrityError(str(error)) from None
    except apsw.FullError:
        raise sqlite3.OperationalError("database or disk is full") from None
    except apsw.BusyError:
        raise sqlite3.OperationalError("database is locked") from None
    except apsw.Error as error:
        raise sqlite3.OperationalError(f"disk I/O error: {error}") from None
