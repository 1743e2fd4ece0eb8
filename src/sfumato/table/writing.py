"""Writers: CSV, Parquet and FIMI files, a batch at a time, under a temporary name until they are
complete.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.bits import Bits
from sfumato.domain import Attribute, Codes, Columns, Distinct, Domain, as_bits
from sfumato.errors import FileError
from sfumato.files import appearing, in_the_way, settle, written
from sfumato.mechanisms.base import rows_of
from sfumato.table.baskets import Universe, format_baskets
from sfumato.table.describing import Digested, side_file, switching, unfinished
from sfumato.table.readers import BATCH_ROWS, STANDARD_STREAM, batch_rows_of, flat_names, kind_of
from sfumato.table.table import RELEASE_KEY, Provenance, Table, arrow_schema


@dataclass(eq=False)
class Writer(ABC):
    """Something that batches of records over one domain can be written to."""

    stream: BinaryIO
    domain: Domain
    provenance: Provenance | None
    rows: int = field(default=0, init=False)
    describes_itself: ClassVar[bool] = False

    def write(self, columns: Columns) -> None:
        """Append a batch of records."""
        self._append(columns)
        self.rows += rows_of(columns)

    @abstractmethod
    def _append(self, columns: Columns) -> None:
        """Write the values of a batch."""

    def finish(self) -> None:
        """Write what comes after the last batch: nothing, unless the form has an end of its own."""
        return

    def abandon(self) -> None:
        """Let go of what is being written after an error: nothing, unless the form holds something
        open.
        """
        return


@dataclass(eq=False)
class ParquetWriter(Writer):
    """Parquet, with the description of a perturbed table in the schema's metadata.

    Batches end where a block of the true file's text did, so their sizes tell how long true records
    are. Row groups therefore have a number of rows that depends on the domain alone, and what they
    hold is joined before it is cut into pages.
    """

    describes_itself: ClassVar[bool] = True

    def __post_init__(self) -> None:
        import pyarrow.parquet as pq

        self._schema = arrow_schema(self.domain, self.provenance)
        self._file = pq.ParquetWriter(self.stream, self._schema, compression="zstd")
        self._waiting = self._schema.empty_table()
        self._group_rows = min(batch_rows_of(attribute) for attribute in self.domain)

    def _append(self, columns: Columns) -> None:
        arrays = [
            attribute.decode(column) for attribute, column in zip(self.domain, columns, strict=True)
        ]
        self._waiting = pa.concat_tables([self._waiting, pa.table(arrays, schema=self._schema)])
        while self._waiting.num_rows >= self._group_rows:
            self._write_group(self._waiting.slice(0, self._group_rows))
            self._waiting = self._waiting.slice(self._group_rows)

    def _write_group(self, rows: pa.Table) -> None:
        self._file.write_table(rows.combine_chunks(), row_group_size=self._group_rows)

    def finish(self) -> None:
        if self._waiting.num_rows:
            self._write_group(self._waiting)
        if self.provenance is not None and self.provenance.release is not None:
            # Beside the schema, where whoever writes other rows under this schema does not take it.
            self._file.add_key_value_metadata({RELEASE_KEY: self.provenance.release})
        self._file.close()

    def abandon(self) -> None:
        # Left open, it would be closed by the garbage collector, which complains aloud where that
        # fails.
        with suppress(Exception):
            self._file.close()
        self._file.is_open = False


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


@dataclass(eq=False)
class BasketWriter(Writer):
    """FIMI: one basket a line."""

    def __post_init__(self) -> None:
        Universe.of(self.domain)  # refuses what FIMI cannot hold
        self._names = pa.array(self.domain.attributes[0].labels, pa.string())

    def _append(self, columns: Columns) -> None:
        (baskets,) = columns
        self.stream.write(format_baskets(self._names, as_bits(baskets)))


def csv_fields(attribute: Attribute, column: Codes | Bits) -> list[pa.Array]:
    """The values of a column as CSV fields."""
    if isinstance(column, Bits):
        digits = pa.array(["0", "1"])
        return [
            digits.take(pa.array(column.column(item).view(np.uint8)))
            for item in range(column.items)
        ]
    if isinstance(attribute, Distinct):
        listed = zip(attribute.values, attribute.labels, strict=True)
        words = ["" if value is None else _quoted(label) for value, label in listed]
        return [pa.array(words, pa.string()).take(pa.array(column))]
    values = attribute.decode(column)
    if pa.types.is_dictionary(values.type):
        fields = pa.array([_quoted(label) for label in attribute.labels], pa.string())
        return [fields.take(values.indices)]
    return [values.cast(pa.string())]


def _quoted(word: str) -> str:
    """A CSV field; an empty word is quoted so that it is not read back as a null."""
    if word and not any(mark in word for mark in ',"\r\n'):
        return word
    return '"' + word.replace('"', '""') + '"'


_WRITERS: dict[str, type[Writer]] = {
    "parquet": ParquetWriter,
    "csv": CsvWriter,
    "dat": BasketWriter,
}


@contextmanager
def writer_to(
    target: str | Path, domain: Domain, provenance: Provenance | None = None, *, force: bool = False
) -> Iterator[Writer]:
    """A writer to a file, which appears under its name when the block ends well and not at all when
    it does not.

    '-' is standard output: Parquet for a perturbed table, which must carry its mechanism, else CSV
    or FIMI.
    """
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
        kind = _WRITERS[kind_of(path)]
        digested = Digested(raw)
        text = _compressed(cast(BinaryIO, digested), path)
        with nullcontext(raw) if kind.describes_itself else text as stream:
            writer = kind(stream, domain, provenance and provenance.named)
            with _finished(writer):
                yield writer
        settle(raw)  # a disk that is full says so here, before the description changes
        if not kind.describes_itself:
            switch.announce(_side_description(writer), digested.digest)


def _side_description(writer: Writer) -> dict[str, Any] | None:
    """What the side file of what was written says; None for the truth, which has none."""
    if writer.provenance is None:
        return None
    return {**writer.provenance.describe(), "rows": writer.rows}


def _to_standard_output(domain: Domain, provenance: Provenance | None) -> Iterator[Writer]:
    if provenance and sys.stdout.isatty():
        raise FileError(
            "a perturbed table goes to standard output as Parquet, which a terminal cannot show",
            hint="use -o FILE",
        )
    kind = "parquet" if provenance else "dat" if domain.baskets else "csv"
    with _whole(sys.stdout.buffer) if provenance else nullcontext(sys.stdout.buffer) as stream:
        writer = _WRITERS[kind](stream, domain, provenance and provenance.named)
        with _finished(writer):
            yield writer
    sys.stdout.buffer.flush()


@contextmanager
def _whole(target: BinaryIO) -> Iterator[BinaryIO]:
    """A temporary file that is copied to the target when the block ends well: a Parquet file cut
    short may look complete.
    """
    with tempfile.TemporaryFile() as stream:
        yield stream
        stream.seek(0)
        shutil.copyfileobj(stream, target)


@contextmanager
def _finished(writer: Writer) -> Iterator[None]:
    """A writer that is finished when the block ends well, and abandoned when it does not."""
    try:
        yield
        writer.finish()
    except BaseException:
        writer.abandon()
        raise


def check_target(target: str | Path, force: bool) -> None:
    """Refuse an output that could not be written, before any work is done for it."""
    if str(target) != STANDARD_STREAM:
        kind_of(Path(target))
        check_free(Path(target), force)


def write_text(text: str, path: Path, *, force: bool = True) -> None:
    """Write a text file, which is there whole or not at all."""
    with written(path), appearing(path, force=force) as stream:
        stream.write(text.encode())


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


@contextmanager
def _compressed(stream: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    if path.suffix.lower() != ".gz":
        yield stream
        return
    with gzip.GzipFile(fileobj=stream, filename="", mode="wb", mtime=0, compresslevel=6) as zipped:
        yield cast(BinaryIO, zipped)


def save(table: Table, target: str | Path, *, force: bool = False) -> None:
    """Write a table to a file; a perturbed one carries its mechanism, in the Parquet metadata or a
    side file.
    """
    with writer_to(target, table.domain, table.provenance, force=force) as writer:
        for start in range(0, table.rows, BATCH_ROWS):
            writer.write(table.slice(start, start + BATCH_ROWS).columns)
