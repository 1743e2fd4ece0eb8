"""What separates the fields of a text file, told by its first line, and numbers with a comma."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

COMMA, SEMICOLON = ",", ";"
DELIMITER_NAMES = {COMMA: "a comma", SEMICOLON: "a semicolon", "\t": "a tab", "|": "a bar"}
# Where a semicolon separates fields, a comma stands before the decimals.
WITH_COMMA = r"^[+-]?\d+(,\d+)?$"


def delimiter_of(text: str) -> str:
    """What takes the first line apart into the most fields; a comma where nothing does.

    >>> delimiter_of("age;wage;town, country"), delimiter_of("age")
    (';', ',')
    """
    return max(DELIMITER_NAMES, key=lambda mark: len(next(rows_of(text, mark), [])))


def commonest_delimiter(text: str) -> str:
    """What takes all lines together apart into the most fields."""
    return max(DELIMITER_NAMES, key=lambda mark: sum(map(len, rows_of(text, mark))))


def rows_of(text: str, mark: str) -> Iterator[list[str]]:
    """The lines that hold anything, up to one that is not readable."""
    try:
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    except csv.Error:
        return


def with_points(words: pa.Array) -> pa.Array:
    """A column of numbers with a point before their decimals; any other as it is.

    >>> with_points(pa.array(["1,5", "20", None])).to_pylist()
    ['1.5', '20', None]
    """
    if not pc.all(pc.match_substring_regex(words, WITH_COMMA)).as_py():
        return words
    return pc.replace_substring(words, COMMA, ".", max_replacements=1)
