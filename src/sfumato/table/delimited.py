"""Delimited text, plain or gzipped: CSV files of records.

What separates the fields is told by the first lines; where it is a semicolon, a comma may stand
before the decimals.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.bits import Bits
from sfumato.domain import Attribute, Bins, Codes, Columns, Distinct, Items
from sfumato.domain.attributes import number_words
from sfumato.errors import FileError, SfumatoError, first_line
from sfumato.table.describing import description_of
from sfumato.table.limits import (
    BATCH_ROWS,
    BLOCK_BYTES,
    HEAD_BYTES,
    MOST_COLUMNS,
    MOST_HEADER,
    SMALL_TEXT,
    Unzipped,
    check_unzipped,
    most_unzipped,
)
from sfumato.table.readers import (
    Reader,
    RecordReader,
    Writer,
    bits_of_flags,
    flat_names,
    other_rows,
)

GZIP_MARK = b"\x1f\x8b"
COMMA, SEMICOLON = ",", ";"
DELIMITER_NAMES = {COMMA: "a comma", SEMICOLON: "a semicolon", "\t": "a tab", "|": "a bar"}
WITH_COMMA = r"^[+-]?\d+(,\d+)?$"  # a number whose decimals, if any, follow a comma


def delimiter_of(text: str, lines: int | None = 1) -> str:
    """What takes the first lines (None: all) apart into the most fields; a comma where nothing
    does.

    >>> delimiter_of("age;wage;town, country"), delimiter_of("age")
    (';', ',')
    """
    return max(
        DELIMITER_NAMES, key=lambda mark: sum(map(len, islice(fields_of(text, mark), lines)))
    )


def fields_of(text: str, mark: str) -> Iterator[list[str]]:
    """The fields of the lines that hold anything, up to one that is not readable."""
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


@dataclass(eq=False)
class TextReader(Reader):
    """A text file, plain or gzipped, with the side file that describes it if it was perturbed."""

    path: Path | bytes  # the file, or its whole contents where they came down a pipe
    where: str
    _raw: Any = field(default=None, init=False)  # what is being read, to tell how far it has come

    @contextmanager
    def opened_by_arrow(self) -> Iterator[Any]:
        """The text from its beginning, decompressed. Arrow, which reads ahead in a thread of its
        own, does not need the interpreter to do so.
        """
        with _readable_text(self.where):
            inside = isinstance(self.path, bytes)
            with pa.BufferReader(self.path) if inside else pa.OSFile(str(self.path)) as raw:
                self._raw = raw
                zipped = raw.read(2) == GZIP_MARK
                raw.seek(0)
                yield pa.CompressedInputStream(raw, "gzip") if zipped else raw

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The same, as long as it stays in proportion to the file."""
        with self.opened_by_arrow() as stream:
            zipped = stream is not self._raw
            yield cast(BinaryIO, Unzipped(stream, self._raw, self.where)) if zipped else stream

    def head(self) -> str:
        """Its first lines, by which its form is told; the last one is whole."""
        with self.opened() as stream:
            head = stream.read(HEAD_BYTES)
        whole, newline, _ = head.rpartition(b"\n")
        cut = newline and len(head) == HEAD_BYTES
        return (whole if cut else head).decode("utf-8-sig", "replace")

    @property
    def size(self) -> int:
        return len(self.path) if isinstance(self.path, bytes) else self.path.stat().st_size

    @property
    def fraction(self) -> float | None:
        if self._raw is None or self._raw.closed:
            return None
        return self._raw.tell() / self.size if self.size else None

    @cached_property
    def description(self) -> Mapping[str, Any] | None:
        return None if isinstance(self.path, bytes) else description_of(self.path)

    @property
    def described_rows(self) -> int:
        rows = super().described_rows
        with self.opened() as stream:
            most = most_unzipped(self.size) if isinstance(stream, Unzipped) else self.size
        if rows > most:  # a row takes a byte or more
            raise FileError(
                f"{self.where} has {self.size:,} bytes, but its description speaks of {rows:,} "
                "rows",
                hint="it was cut short or changed after it was perturbed",
            )
        return rows

    def _check_rows(self, rows: int) -> None:
        if self.description is not None and rows != self.described_rows:
            raise other_rows(self.where, rows, self.described_rows)


@dataclass(eq=False)
class CsvReader(RecordReader, TextReader):
    """A CSV file with a header line; an empty field is a null, a quoted empty one is an
    empty word.
    """

    @cached_property
    def delimiter(self) -> str:
        """What separates its fields: a comma in what we wrote, else what its header is told by."""
        return COMMA if self.description is not None else delimiter_of(self.head())

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of the columns, from a first line of bounded length."""
        with self.opened() as stream:
            head = stream.read(MOST_HEADER)
            if isinstance(stream, Unzipped):  # an engine may read on without us
                stream.read(SMALL_TEXT)
            text = io.TextIOWrapper(io.BytesIO(head), encoding="utf-8-sig", newline="")
            try:
                rows = csv.reader(text, delimiter=self.delimiter)
                names = next(filter(None, rows), None)
            except csv.Error as error:
                raise FileError(
                    f"the header of {self.where} is not readable: {first_line(error)}"
                ) from None
            if len(head) == MOST_HEADER and not text.read(1):
                raise FileError(
                    f"the header of {self.where} does not end within {MOST_HEADER >> 20} MB"
                )
        if names is None:
            raise FileError(f"{self.where} is empty; a CSV file starts with a header line")
        if len(names) > MOST_COLUMNS:
            raise FileError(
                f"{self.where} has {len(names):,} columns; at most {MOST_COLUMNS:,} are read"
            )
        twice, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise FileError(f"{self.where} has more than one column '{twice}' in its header")
        return names

    def arrow_batches(
        self, names: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

        ragged: list[Any] = []

        def refuse(row: Any) -> str:
            ragged.append(row)
            return "error"

        convert = ConvertOptions(
            column_types={name: pa.string() for name in self.names},
            include_columns=list(names),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = ParseOptions(
            delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=refuse
        )
        rows, blocks = 0, 0
        with self.opened_by_arrow() as stream, _readable_csv(self.where, ragged, self.delimiter):
            options = ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
            for batch in open_csv(
                stream, read_options=options, parse_options=parse, convert_options=convert
            ):
                rows += batch.num_rows
                blocks += 1
                check_unzipped(blocks * BLOCK_BYTES, self._raw.tell(), self.where)
                if self.delimiter == SEMICOLON:
                    batch = pa.record_batch([*map(with_points, batch.columns)], batch.schema.names)
                yield batch
        self._check_rows(rows)

    def encode(self, batch: pa.RecordBatch, attribute: Attribute, first_row: int) -> Codes | Bits:
        return encode_words(batch, attribute, first_row)

    def _in_flags(self, attribute: Attribute) -> bool:
        return isinstance(attribute, Items)  # no field of a CSV file lists a basket


def encode_words(batch: pa.RecordBatch, attribute: Attribute, first_row: int) -> Codes | Bits:
    """The codes of an attribute whose values a CSV file holds as words."""
    if isinstance(attribute, Items):
        return bits_of_flags(batch, attribute, first_row)
    words = batch.column(attribute.name)
    if isinstance(attribute, Bins) and words[0].as_py() not in attribute.labels:
        with suppress(pa.ArrowInvalid):
            words = number_words(words).cast(pa.float64())
    return attribute.encode(words, first_row)


@contextmanager
def _readable_text(where: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:
        raise _not_utf8(where) from None
    except OSError as error:
        if isinstance(error, SfumatoError):
            raise
        if "zlib" in str(error) or "Truncated compressed" in str(error):
            raise FileError(f"{where} is not readable gzip", hint="it may be truncated") from None
        cause = os.strerror(error.errno) if error.errno else first_line(error)
        raise FileError(f"cannot read {where}: {cause}") from None


@contextmanager
def _readable_csv(where: str, ragged: list[Any], delimiter: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        if ragged:
            row = ragged[0]
            at = f"line {row.number} of {where}" if row.number else f"a line of {where}"
            raise FileError(
                f"{at} has {row.actual_columns} fields where the header has {row.expected_columns}",
                hint=f"a field that holds {DELIMITER_NAMES[delimiter]} needs quotes around it; "
                "baskets, a line of names each, are read with --form lines",
                line=row.number,
            ) from None
        if "UTF8" in str(error):
            raise _not_utf8(where) from None
        if "straddling" in str(error):
            raise FileError(
                f"{where} has a row of more than {BLOCK_BYTES >> 20} MB",
                hint="is a quote left open?",
            ) from None
        raise FileError(f"{where} is not a readable CSV file: {first_line(error)}") from None


def _not_utf8(where: str) -> FileError:
    return FileError(
        f"{where} is not UTF-8 text", hint="convert it first, as in iconv -f latin1 -t utf-8"
    )


@dataclass(eq=False)
class CsvWriter(Writer):
    """CSV with a header line; words are quoted where they need it; baskets become one column of 0
    and 1 an item.
    """

    def __post_init__(self) -> None:
        names = [name for attribute in self.domain for name in flat_names(attribute)]
        self.stream.write((",".join(map(_quoted, names)) + "\n").encode())

    def _append(self, columns: Columns) -> None:
        words = [
            part for pair in zip(self.domain, columns, strict=True) for part in csv_fields(*pair)
        ]
        ended = pc.binary_join_element_wise(words[-1], "\n", "")
        lines = pc.binary_join_element_wise(*words[:-1], ended, ",")
        self.stream.write(memoryview(lines.buffers()[2]))


def csv_fields(attribute: Attribute, column: Codes | Bits) -> list[pa.Array]:
    """The values of a column as CSV fields."""
    if isinstance(column, Bits):
        return flat_columns(attribute, column)
    if isinstance(attribute, Distinct):
        listed = zip(attribute.values, attribute.labels, strict=True)
        words = ["" if value is None else _quoted(label) for value, label in listed]
        return [pa.array(words, pa.string()).take(pa.array(column))]
    values = attribute.decode(column)
    if pa.types.is_dictionary(values.type):
        fields = pa.array([_quoted(label) for label in attribute.labels], pa.string())
        return [fields.take(values.indices)]
    return [values.cast(pa.string())]


def flat_columns(attribute: Attribute, column: Codes | Bits) -> list[pa.Array]:
    """The values of a column; of baskets one column of '0' and '1' for each item (`flat_names`)."""
    if not isinstance(column, Bits):
        return [attribute.decode(column)]
    digits = pa.array(["0", "1"])
    return [
        digits.take(pa.array(column.column(item).view(np.uint8))) for item in range(column.items)
    ]


def _quoted(word: str) -> str:
    """A CSV field; an empty word is quoted so that it is not read back as a null."""
    if word and not any(mark in word for mark in ',"\r\n'):
        return word
    return '"' + word.replace('"', '""') + '"'
