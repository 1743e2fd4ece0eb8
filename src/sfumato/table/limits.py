"""Limits: how much of a file is read at once, and how much more than its file a table may take.

A few kilobytes can unfold to gigabytes, by compression, by repetition, or by many items times many
empty baskets. What grows far beyond its file is a mistake or an attack, and is refused while it is
still small.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from sfumato.errors import FileError

# Memory: what is held of a file at a time.
BATCH_ROWS = 1 << 16
BATCH_BITS = 1 << 28  # the most bits a batch of baskets takes: 32 MB
BLOCK_BYTES = 1 << 20  # text parsed at once
RUN_ROWS = 1 << 20  # of row groups of Parquet that are opened at once
HEAD_BYTES = 1 << 16  # of a text file, by which its form is told
# Rows that are shuffled, with their sort keys: those held before they are thrown into buckets. A
# quarter of them is thrown at once, and a half put in order at once.
HELD_BYTES = 1 << 23
# One line: a quote that was left open takes the rest of the file for a field.
MOST_HEADER = 1 << 22  # bytes of the header line of a CSV file
MOST_COLUMNS = 1 << 15  # of a CSV file
MOST_LINE_BYTES = 1 << 21  # of one basket
MOST_DIGITS = 18  # of an item id, so that it fits 64 bits
# What unfolds.
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
