"""Formats: every form that records and baskets are read from and written to, and how it is
recognised.

A format is known by the ending of a file's name, or by the first bytes of what came down a pipe. A
layout says how baskets stand in records: the data tell, or `--form` does. What is written appears
under its name when it is complete.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, BinaryIO, cast

from sfumato.address import redacted
from sfumato.domain import Domain
from sfumato.errors import FileError, ParameterError, SfumatoError, listing, near_miss
from sfumato.files import appearing, in_the_way, settle, written
from sfumato.table.baskets import BasketReader, BasketWriter, LineReader, LongReader
from sfumato.table.delimited import CsvReader, CsvWriter
from sfumato.table.describing import Digested, side_file, switching, unfinished
from sfumato.table.limits import BATCH_ROWS
from sfumato.table.parquet import FolderReader, FrameReader, ParquetReader, ParquetWriter
from sfumato.table.readers import Reader, RecordReader, Writer
from sfumato.table.table import Provenance, Table

STANDARD_STREAM = "-"
ALIKE = 0.75  # of the letters of two files' names, where one may have been meant


@dataclass(frozen=True)
class Format:
    """The form of a file: how its name ends, what reads and what writes it."""

    kind: str
    suffixes: tuple[str, ...]
    reader: Callable[[Any, str], Reader]  # of a path, or of bytes; and how messages call it
    writer: type[Writer]


CSV = Format("csv", (".csv", ".csv.gz"), CsvReader, CsvWriter)
PARQUET = Format("parquet", (".parquet",), ParquetReader, ParquetWriter)
FIMI = Format("dat", (".dat", ".dat.gz"), BasketReader, BasketWriter)
FORMATS = (CSV, PARQUET, FIMI)
SUFFIXES = tuple(suffix for each in FORMATS for suffix in each.suffixes)
# Layouts that say themselves how they are recognised: a line of names, a row an item.
LAYOUTS: dict[str, type[LineReader | LongReader]] = {"lines": LineReader, "long": LongReader}
FLAGS = {"flags": True, "records": False}  # whether each column of records is an item of baskets
FORMS = (*LAYOUTS, *FLAGS)


def format_of(path: Path) -> Format:
    """The format that a file's name stands for."""
    name = path.name.lower()
    for each in FORMATS:
        if name.endswith(each.suffixes):
            return each
    hint = f"Sfumato reads and writes {listing(SUFFIXES)}"
    if name.endswith(".toml"):
        raise FileError(
            f"'{path}' is called like a schema or a campaign, and records or reports belong here",
            hint=f"{hint}; a schema is named beside true records (--schema FILE, schema='FILE')",
        )
    if name.endswith(".json"):
        hint += "; a model is opened by open_model, and mine, query and classify take it as it is"
    raise FileError(f"'{path}' has a name of an unknown kind", hint=hint)


def reader_of(source: Any, form: str | None = None) -> Reader:
    """The reader for a file name ('-' is standard input), or for a data frame; a reader is its own.

    `form` says how baskets stand in it: `lines` of names, `long` with a row an item, `flags` with a
    column an item, or `records` that are no baskets; where it is left out, lines of different
    lengths and columns called like tid,item tell the first two.
    """
    if form is not None and form not in FORMS:
        raise ParameterError(f"no form '{form}' ({', '.join(FORMS)})", hint=near_miss(form, FORMS))
    reader = _plain_reader(source)
    if reader.description is not None:  # a perturbed file says itself what it holds
        return reader
    if isinstance(reader, BasketReader) and form is not None:
        raise ParameterError(
            f"{reader.where} is a basket file of item ids already", hint="leave --form out"
        )
    for name, layout in LAYOUTS.items():
        if form == name or (form is None and layout.recognises(reader)):
            return layout.of(reader)
    if isinstance(reader, RecordReader):
        reader.flags = FLAGS.get(form or "")
    return reader


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
    path, where = Path(source), f"'{source}'"
    try:
        if path.is_dir():
            return FolderReader(path, where)
        check_there(str(path))
        if not path.is_file():  # a pipe or a device may never end
            raise FileError(f"'{path}' is not a file", hint="give - to read from standard input")
        if not path.stat().st_size:
            raise FileError(f"'{path}' is empty")
        return format_of(path).reader(path, where)
    except OSError as error:
        if isinstance(error, SfumatoError):
            raise
        raise FileError(f"cannot read {where}: {error.strerror or error}") from None


def _reader_of_bytes(data: bytes, where: str) -> Reader:
    """The reader for bytes whose format must be told by their beginning: text that is not all
    numbers is CSV.
    """
    if not data:
        raise FileError(f"{where} is empty")
    if data.startswith(b"PAR1"):
        return ParquetReader(io.BytesIO(data), where)
    with CsvReader(data, where).opened() as stream:
        words = stream.read(1 << 12).strip(b"0123456789 \t\r\n")
    return (CSV if words else FIMI).reader(data, where)


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


@contextmanager
def writer_to(
    target: str | Path, domain: Domain, provenance: Provenance | None = None, *, force: bool = False
) -> Iterator[Writer]:
    """A writer to a file, which appears under its name when the block ends well and not at all when
    it does not.

    '-' is standard output: Parquet for a perturbed table, which must carry its mechanism, else CSV
    or FIMI.
    """
    provenance = provenance and provenance.named
    if str(target) == STANDARD_STREAM:
        with written(Path("standard output")):
            yield from _to_standard_output(domain, provenance)
        return
    check_target(target, force)
    path = Path(target)
    with (
        written(path),
        switching(path, force=force) as switch,
        appearing(path, force=force) as raw,
    ):
        kind = format_of(path).writer
        digested = Digested(raw)
        plain = raw if kind.describes_itself else cast(BinaryIO, digested)
        with (
            # Gzipped with nothing of when and where it was written.
            gzip.GzipFile(fileobj=plain, filename="", mode="wb", mtime=0, compresslevel=6)
            if path.suffix.lower() == ".gz"
            else nullcontext(plain) as zipped,
            kind(cast(BinaryIO, zipped), domain, provenance) as writer,
        ):
            yield writer
        settle(raw)  # a disk that is full says so here, before the description changes
        if not kind.describes_itself:
            said = None if provenance is None else provenance.describe() | {"rows": writer.rows}
            switch.announce(said, digested.digest)


def _to_standard_output(domain: Domain, provenance: Provenance | None) -> Iterator[Writer]:
    if provenance and sys.stdout.isatty():
        raise FileError(
            "a perturbed table goes to standard output as Parquet, which a terminal cannot show",
            hint="use -o FILE",
        )
    target = sys.stdout.buffer
    form = PARQUET if provenance else FIMI if domain.baskets else CSV
    # A Parquet file cut short may look complete, so it is copied once it is.
    with tempfile.TemporaryFile() if provenance else nullcontext(target) as stream:
        with form.writer(cast(BinaryIO, stream), domain, provenance) as writer:
            yield writer
        if stream is not target:
            stream.seek(0)
            shutil.copyfileobj(stream, target)
    target.flush()


def save(table: Table, target: str | Path, *, force: bool = False) -> None:
    """Write a table to a file; a perturbed one carries its mechanism, in the Parquet metadata or a
    side file.
    """
    with writer_to(target, table.domain, table.provenance, force=force) as writer:
        for start in range(0, table.rows, BATCH_ROWS):
            writer.write(table.slice(start, start + BATCH_ROWS).columns)


def write_text(text: str, path: Path, *, force: bool = True) -> None:
    """Write a text file, which is there whole or not at all."""
    with written(path), appearing(path, force=force) as stream:
        stream.write(text.encode())


def check_target(target: str | Path, force: bool) -> None:
    """Refuse an output that could not be written, before any work is done for it."""
    if str(target) != STANDARD_STREAM:
        format_of(Path(target))
        check_free(Path(target), force)


def check_free(path: Path, force: bool) -> None:
    """Refuse a target that cannot be written, or that exists and may not be overwritten."""
    if path.is_dir():
        raise FileError(f"'{path}' is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise FileError(f"no folder '{path.parent}' to write '{path.name}' to")
    if force:
        return
    side = side_file(path)
    if os.path.exists(path) or (os.path.exists(side) and not unfinished(path)):
        raise in_the_way(path if os.path.exists(path) else side)
