"""Expansion: how much more than its file a table may take.

A few kilobytes can unfold to gigabytes, by compression, by repetition, or by many items times many
empty baskets. What grows far beyond its file is a mistake or an attack, and is refused while it is
still small.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from sfumato.errors import FileError

SMALL_TEXT = 1 << 24  # bytes that any file may unzip to
MOST_UNZIPPED = 400  # times its size; rows of zeros unzip to 350 times, an attack to 1,000 times
SMALL_TABLE = 1 << 27  # bytes that the table of any file may hold in memory
MOST_HELD = 175  # times its size; the basket file kosarak takes 160 times
SMALL_ROWS = 10_000_000  # rows that any Parquet file may say it has
MOST_ROWS = 1000  # rows a byte


class Unzipped(io.RawIOBase):
    """The text of a gzip stream, as long as it stays in proportion to what was read."""

    def __init__(self, text: BinaryIO, raw: BinaryIO, where: str) -> None:
        self._text, self._raw, self._where = text, raw, where
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        text = self._text.read(len(buffer))
        buffer[: len(text)] = text
        self._given += len(text)
        check_unzipped(self._given, self._raw.tell(), self._where)
        return len(text)


def most_unzipped(zipped: int) -> int:
    """The bytes that a gzip file of so many may unfold to."""
    return max(SMALL_TEXT, MOST_UNZIPPED * zipped)


def check_unzipped(text: int, zipped: int, where: str) -> None:
    """Refuse a gzip stream of which so few bytes gave so many."""
    if text > most_unzipped(zipped):
        raise FileError(
            f"{where} unzips to more than {MOST_UNZIPPED} times its size",
            hint="if it is meant so, unzip it first",
        )


def check_held(held: int, size: int | None, where: str) -> None:
    """Refuse a table that takes so many bytes and comes from a file of so few."""
    if size is not None and held > max(SMALL_TABLE, MOST_HELD * size):
        raise FileError(
            f"{where} has {size:,} bytes and would take more than {held:,} in memory",
            hint="has it many items, and empty baskets or equal rows without number?",
        )


def check_rows(rows: int, size: int, where: str) -> None:
    """Refuse a Parquet file that says it has so many rows in so few bytes."""
    if rows > max(SMALL_ROWS, MOST_ROWS * size):
        raise FileError(f"{where} says it has {rows:,} rows in {size:,} bytes")


def check_unpacked(unpacked: int, size: int, where: str) -> None:
    """Refuse a Parquet file of which one column of one group unpacks to so much."""
    if unpacked > max(SMALL_TABLE, MOST_HELD * size):
        raise FileError(
            f"{where} has {size:,} bytes, and a column of it unpacks to {unpacked:,} at once"
        )
