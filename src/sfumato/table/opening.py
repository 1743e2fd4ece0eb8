"""Opening: the reader for a file or a data frame, by its name and its first lines."""

from __future__ import annotations

import io
import sys
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from sfumato.address import redacted
from sfumato.errors import FileError, ParameterError, SfumatoError, listing, near_miss
from sfumato.table.delimiters import rows_of
from sfumato.table.lines import LineReader
from sfumato.table.long import LongReader, long_columns
from sfumato.table.readers import (
    STANDARD_STREAM,
    SUFFIXES,
    BasketReader,
    CsvReader,
    FolderReader,
    FrameReader,
    ParquetReader,
    Reader,
    RecordReader,
    kind_of,
)

# How baskets may stand in a file: a line of names, a row an item, a column an item; or not at all.
FORMS = ("lines", "long", "flags", "records")
ALIKE = 0.75  # of the letters of two files' names, where one may have been meant


def reader_of(source: Any, form: str | None = None) -> Reader:
    """The reader for a file name ('-' is standard input), or for a data frame; a reader is its own.

    `form` says how baskets stand in it: `lines` of names, `long` with a row an item, `flags` with a
    column an item, or `records` that are no baskets; where it is left out, lines of different
    lengths and columns called like tid,item tell the first two.
    """
    if form is not None and form not in FORMS:
        raise ParameterError(f"no form '{form}' ({', '.join(FORMS)})", hint=near_miss(form, FORMS))
    return _in_form(_plain_reader(source), form)


def _plain_reader(source: Any) -> Reader:
    if isinstance(source, Reader):
        return source
    if not isinstance(source, str | Path):
        return FrameReader.of(source)
    if str(source) == STANDARD_STREAM:
        return _reader_of_bytes(sys.stdin.buffer.read(), "standard input")
    if "://" in str(source):
        raise FileError(
            f"'{redacted(str(source))}' is an address, and records are read from a file here",
            hint=f"Sfumato reads {listing(SUFFIXES)}",
        )
    path = Path(source)
    where = f"'{source}'"
    try:
        if path.is_dir():
            return FolderReader(path, where)
        _check_readable(path)
        kind = kind_of(path)
    except OSError as error:
        if isinstance(error, SfumatoError):
            raise
        raise FileError(f"cannot read {where}: {error.strerror or error}") from None
    if kind == "parquet":
        return ParquetReader(path, where)
    return CsvReader(path, where) if kind == "csv" else BasketReader(path, where)


def _in_form(reader: Reader, form: str | None) -> Reader:
    if reader.description is not None:  # a perturbed file says itself what it holds
        return reader
    if isinstance(reader, BasketReader) and form is not None:
        raise ParameterError(
            f"{reader.where} is a basket file of item ids already", hint="leave --form out"
        )
    if form == "lines" or (form is None and isinstance(reader, CsvReader) and _ragged(reader)):
        if not isinstance(reader, CsvReader):
            raise ParameterError(f"lines of names are text, and {reader.where} is not")
        return LineReader(reader.path, reader.where)
    if isinstance(reader, RecordReader):
        if form == "long" or (form is None and _is_long(reader)):
            return LongReader.of(reader)
        reader.flags = {"flags": True, "records": False}.get(form or "")
    return reader


def _ragged(reader: CsvReader) -> bool:
    """Whether most lines have another number of fields than the first: no header of records."""
    fields = [len(row) for row in rows_of(reader.head(), reader.delimiter)]
    return len(fields) > 1 and 2 * fields.count(fields[0]) < len(fields)


def _is_long(reader: RecordReader) -> bool:
    names = [name for name in reader.names if not name.startswith("__index_level_")]
    return len(names) == 2 and long_columns(names) is not None


def check_there(source: str) -> None:
    """Refuse a file that is not there; what is there is looked at where it is read."""
    path = Path(source)
    if source == STANDARD_STREAM or "://" in source or path.exists():
        return
    folder = path.parent
    known = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    near = [name for name in known if _alike(name, path.name)]
    raise FileError(f"no file '{path}'", hint=near_miss(path.name, near))


def _alike(name: str, other: str) -> bool:
    """Whether two files are called alike but for their endings, which many files share.

    >>> _alike("survey.csv", "survy.csv.gz"), _alike("head.csv", "data.csv")
    (True, False)
    """
    one, two = (each.casefold().partition(".")[0] for each in (name, other))
    return SequenceMatcher(None, one, two).ratio() >= ALIKE


def _check_readable(path: Path) -> None:
    check_there(str(path))
    if not path.is_file():  # a pipe or a device may never end
        raise FileError(f"'{path}' is not a file", hint="give - to read from standard input")
    if not path.stat().st_size:
        raise FileError(f"'{path}' is empty")


def _reader_of_bytes(data: bytes, where: str) -> Reader:
    """The reader for bytes whose kind must be told by their beginning."""
    if not data:
        raise FileError(f"{where} is empty")
    if data.startswith(b"PAR1"):
        return ParquetReader(io.BytesIO(data), where)
    text = CsvReader(data, where)
    with text._opened() as stream:
        head = stream.read(1 << 12)
    return text if head.strip(b"0123456789 \t\r\n") else BasketReader(data, where)
