"""Readers: CSV, Parquet and FIMI files and data frames, a batch at a time."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.bits import WORD_BITS, Bits
from sfumato.domain import Attribute, Bins, Category, Codes, Columns, Domain, Items, Numeric
from sfumato.domain.attributes import number_words
from sfumato.errors import DataError, FileError, SfumatoError, listing
from sfumato.received import Received, check_file, parsed_json, read_text
from sfumato.table.baskets import Universe, basket_domain, ids_in, iterate_baskets, no_items
from sfumato.table.delimiters import COMMA, DELIMITER_NAMES, SEMICOLON, delimiter_of, with_points
from sfumato.table.describing import description_of, parts_digest
from sfumato.table.expansion import (
    SMALL_TEXT,
    Unzipped,
    check_held,
    check_rows,
    check_unpacked,
    check_unzipped,
    most_unzipped,
)
from sfumato.table.table import (
    METADATA_KEY,
    RELEASE_KEY,
    Provenance,
    Table,
    arrow_stream,
    check_names,
    dropped_notes,
    encode_batch,
    join_columns,
)
from sfumato.telling import Telling, silent

P = TypeVar("P")  # a part of a file

BATCH_ROWS = 1 << 16
CSV_BLOCK_BYTES = 1 << 20
MANY_ITEMS = 20_000  # a line of two bytes may then take more than a thousand times as many
BATCH_BITS = 1 << 28  # the most bits a batch of baskets takes: 32 MB
STANDARD_STREAM = "-"
HEAD_BYTES = 1 << 16  # of a text file, by which its form is told
MOST_HEADER = 1 << 22  # bytes of the header line of a CSV file
MOST_COLUMNS = 1 << 15  # of a CSV file
GZIP_MARK = b"\x1f\x8b"
RUN_ROWS = 1 << 20  # of row groups of Parquet that are opened at once
SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
FOLDER_DESCRIPTION = "_sfumato.json"  # beside the parts of a table that an engine wrote as a folder
SUFFIXES = (".csv", ".csv.gz", ".parquet", ".dat", ".dat.gz")
# What data frames write for no and yes, in turn: a column of them is one item of a basket.
FLAG_WORDS = ("0", "1", "false", "true", "False", "True", "FALSE", "TRUE", "0.0", "1.0")


class Reader(ABC):
    """Something that records can be read from, as often as needed, in batches."""

    where: str  # how messages call it
    baskets: ClassVar[bool] = False  # whether it holds baskets and nothing else, by its form
    tell: Telling = staticmethod(silent)  # hears how much of the file has been read

    # What every reader must say.

    @abstractmethod
    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        """The records over this domain, a batch at a time; none is empty."""

    @property
    @abstractmethod
    def description(self) -> Mapping[str, Any] | None:
        """What a perturbed file says about itself; None for the truth."""

    # What may be overridden.

    @property
    def found(self) -> Domain | None:
        """The items of data that hold baskets and nothing else; None where a domain is proposed."""
        return None

    def notes(self, domain: Domain) -> tuple[str, ...]:
        """What the owner should know about how these data were read over this domain."""
        return ()

    @property
    def size(self) -> int | None:
        """The bytes of the file; None for what stands in memory already."""
        return None

    @property
    def fraction(self) -> float | None:
        """How much of the data the batches drawn so far took, from 0 to 1, where that is known."""
        return None

    # What follows.

    @cached_property
    def provenance(self) -> Provenance | None:
        """The mechanism that perturbed these data; None for the truth."""
        if self.description is None:
            return None
        try:
            found = Provenance.from_description(self.description)
        except SfumatoError as error:
            raise FileError(f"{self.where}: {error.message}", hint=error.hint) from None
        return self._checked(found)

    def _checked(self, provenance: Provenance) -> Provenance:
        """The provenance, once the rows are known to be those that it speaks of."""
        return provenance

    @property
    def described_rows(self) -> int:
        """How many rows a perturbed file says it has."""
        return Received(self.description, f"the description of {self.where}")["rows"].whole()

    def table(self, domain: Domain) -> Table:
        """All records over this domain."""
        # A report is a value of the domain as it stands; only of the truth a schema may say what
        # other values, missing ones and those beyond a range are taken for.
        wanted = domain if self.provenance is None else strict(domain)
        with self._no_true_value_told():
            columns = join_columns(domain, list(self._in_proportion(self.batches(wanted))))
        return Table(domain, columns, self.provenance, self.notes(domain))

    def _in_proportion(self, batches: Iterator[Columns]) -> Iterator[Columns]:
        """The batches, as long as together they stay in proportion to what they are read from."""
        held = 0
        for batch in batches:
            held += sum(column.nbytes for column in batch)
            check_held(held, self.size, self.where)
            self.told()
            yield batch

    def told(self) -> None:
        """Tell who listens how much of the file the batches drawn so far took."""
        self.tell(f"reading {self.where}", self.fraction)

    def passing(self, parts: Iterable[P]) -> Iterator[P]:
        """The parts of a pass over the file; who listens is told how far it has come."""
        for part in parts:
            self.told()
            yield part

    @contextmanager
    def _no_true_value_told(self) -> Iterator[None]:
        """Errors in a perturbed file say where, not what: a value that no mechanism reports may be
        someone's true one.
        """
        try:
            yield
        except DataError as error:
            place = error.facts.get("row", error.facts.get("line"))
            if self.provenance is None or place is None:
                raise
            raise FileError(
                f"row {place} of {self.where} is no report of {self.provenance.mechanism.name}",
                hint="the file was changed after it was perturbed",
            ) from None


class RecordReader(Reader):
    """Records in named columns that Arrow can read."""

    flags: bool | None = None  # whether each column says if an item is there; None: the data tell

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of the columns."""

    @abstractmethod
    def arrow_batches(
        self, names: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The values of these columns, a batch at a time."""

    def word_batches(self, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The same, words in whatever form is encoded fastest."""
        return self.arrow_batches(names, batch_rows)

    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        names = self._columns_of(domain)
        first_row = 1
        for batch in self.word_batches(names, batch_rows):
            if batch.num_rows:
                yield self._encode(batch, domain, first_row)
            first_row += batch.num_rows
        if first_row == 1:
            raise DataError(f"{self.where} has no rows")

    def notes(self, domain: Domain) -> tuple[str, ...]:
        wanted = set(self._columns_of(domain))
        return dropped_notes(domain, [name for name in self.names if name not in wanted])

    def _columns_of(self, domain: Domain) -> list[str]:
        wanted = [name for attribute in domain for name in self._names_of(attribute)]
        check_names(wanted, self.names, self.where)
        return wanted

    def _names_of(self, attribute: Attribute) -> tuple[str, ...]:
        """The columns that hold an attribute: one, or for baskets that no column lists one
        an item.
        """
        return (attribute.name,) if attribute.name in self.names else flat_names(attribute)

    def _encode(self, batch: pa.RecordBatch, domain: Domain, first_row: int) -> Columns:
        flags = {a.name: a for a in domain if isinstance(a, Items) and a.name not in self.names}
        if not flags:
            return encode_batch(batch, domain, first_row)
        return tuple(
            _bits_of_flags(batch, flags[attribute.name], first_row)
            if attribute.name in flags
            else encode_batch(batch, Domain((attribute,)), first_row)[0]
            for attribute in domain
        )


@dataclass(eq=False)
class FrameReader(RecordReader):
    """Records in memory: an Arrow table, or any data frame that speaks the Arrow C stream."""

    frame: pa.Table
    where: str = "this table"

    @classmethod
    def of(cls, data: Any) -> FrameReader:
        if isinstance(data, Mapping):  # columns by name
            data = _of_columns(data)
        return cls(data if isinstance(data, pa.Table) else arrow_stream(data).read_all())

    @property
    def names(self) -> Sequence[str]:
        return self.frame.schema.names

    @cached_property
    def description(self) -> Mapping[str, Any] | None:
        found = _from_metadata(self.frame.schema.metadata, self.where)
        if found is None:
            return None
        if found.get("rows", self.frame.num_rows) != self.frame.num_rows:
            raise _other_rows(self.where, self.frame.num_rows, found["rows"])
        return {**found, "rows": self.frame.num_rows}

    def _checked(self, provenance: Provenance) -> Provenance:
        # Whoever hands a frame over may have changed it: what is made of it is a release anew.
        return replace(provenance, release=None)

    def arrow_batches(
        self, names: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        yield from self.frame.select(list(names)).to_batches(batch_rows)


def _of_columns(data: Mapping[str, Any]) -> pa.Table:
    try:
        return pa.table(dict(data))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"these columns make no table: {str(error).splitlines()[0]}",
            hint='give lists of one length, as in {"smoker": ["no", "yes"]}',
        ) from None


@dataclass(eq=False)
class ParquetReader(RecordReader):
    """A Parquet file, read row group by row group."""

    path: Path | BinaryIO
    where: str
    _read: int = field(default=0, init=False)

    @cached_property
    def _file(self) -> Any:
        file = self._opened(())
        self._check_size(file.metadata)
        return file

    def _opened(self, words: Sequence[str]) -> Any:
        import pyarrow.parquet as pq

        if isinstance(self.path, Path):  # a part of a folder, say, that is a pipe
            check_file(self.path, self.where)
        with _readable_parquet(self.where):
            return pq.ParquetFile(self.path, buffer_size=1 << 20, read_dictionary=list(words))

    def _check_size(self, metadata: Any) -> None:
        check_rows(metadata.num_rows, self.size, self.where)
        for group in range(metadata.num_row_groups):
            chunks = metadata.row_group(group)
            for place in range(chunks.num_columns):
                unpacked = chunks.column(place).total_uncompressed_size
                check_unpacked(unpacked, self.size, self.where)

    @cached_property
    def size(self) -> int:
        if isinstance(self.path, Path):
            return self.path.stat().st_size
        return self.path.seek(0, io.SEEK_END)

    @cached_property
    def names(self) -> Sequence[str]:
        return tuple(self._file.schema_arrow.names)

    @property
    def rows(self) -> int:
        return int(self._file.metadata.num_rows)

    @cached_property
    def description(self) -> Mapping[str, Any] | None:
        found = _from_metadata(self._file.schema_arrow.metadata, self.where)
        return None if found is None else {**found, "rows": self.rows}

    def table(self, domain: Domain) -> Table:
        check_held(self.rows * len(domain), self.size, self.where)  # a code takes a byte or more
        return super().table(domain)

    @property
    def release(self) -> str | None:
        """The release id that the rows carry."""
        return release_in(self._file.metadata.metadata or {})

    def _checked(self, provenance: Provenance) -> Provenance:
        provenance.check_rows(self.release, self.where)
        return provenance

    def arrow_batches(
        self, names: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        yield from self._batches_of(self._file, names, batch_rows)

    def word_batches(self, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        yield from self._batches_of(self._words, names, batch_rows)

    @cached_property
    def _words(self) -> Any:
        """The file, its words read as numbers into a list of different ones."""
        words = [
            place.name
            for place in self._file.schema_arrow
            if pa.types.is_string(place.type) or pa.types.is_large_string(place.type)
        ]
        return self._opened(words)

    def _batches_of(
        self, file: Any, names: Sequence[str], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        self._read = 0
        with _readable_parquet(self.where):
            for groups in _runs_of_groups(file.metadata):
                for batch in file.iter_batches(
                    batch_rows, row_groups=groups, columns=list(names), use_threads=False
                ):
                    self._read += batch.num_rows
                    yield batch

    @property
    def fraction(self) -> float | None:
        return self._read / self.rows if self.rows else None


@dataclass(eq=False)
class FolderReader(RecordReader):
    """A folder of Parquet parts, as Spark writes them, with the description of a perturbed table
    beside them.
    """

    path: Path
    where: str
    _read: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise FileError(f"{self.where} is a folder, not a file, and holds no .parquet parts")

    @cached_property
    def parts(self) -> tuple[ParquetReader, ...]:
        """The parts in the order of their names."""
        found = sorted(
            path for path in self.path.glob("*.parquet") if not path.name.startswith(("_", "."))
        )
        return tuple(ParquetReader(path, f"'{path}'") for path in found)

    @property
    def names(self) -> Sequence[str]:
        return self.parts[0].names

    @property
    def rows(self) -> int:
        """How many rows the parts hold."""
        return sum(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @cached_property
    def description(self) -> Mapping[str, Any] | None:
        side = self.path / FOLDER_DESCRIPTION
        if not side.exists():
            return None
        found = parsed_json(read_text(side, f"'{side}'"), f"'{side}'")
        if found.get("rows") != self.rows:
            raise FileError(
                f"{self.where} has {self.rows} rows, but its description speaks of "
                f"{found.get('rows')}",
                hint="a part was lost or added after it was perturbed",
            )
        return found

    def _checked(self, provenance: Provenance) -> Provenance:
        if provenance.release is not None and self.description is not None:
            names = parts_digest(entry.name for entry in self.path.iterdir())
            same = names == self.description.get("parts", names)
            for part in self.parts:
                provenance.check_rows(part.release if same else None, part.where)
        return provenance

    def arrow_batches(
        self, names: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        yield from self._counted(part.arrow_batches(names, batch_rows) for part in self.parts)

    def word_batches(self, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        yield from self._counted(part.word_batches(names, batch_rows) for part in self.parts)

    def _counted(self, parts: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        self._read = 0
        for batch in chain.from_iterable(parts):
            self._read += batch.num_rows
            yield batch

    @property
    def fraction(self) -> float | None:
        return self._read / self.rows if self.rows else None


@contextmanager
def _readable_parquet(where: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, SfumatoError):
            raise
        raise FileError(
            f"{where} is not a readable Parquet file: {_first_line(error)}",
            hint="it may be truncated; write it again",
        ) from None


@dataclass(eq=False)
class TextReader(Reader):
    """A text file, plain or gzipped, with the side file that describes it if it was perturbed."""

    path: Path | bytes  # the file, or its whole contents where they came down a pipe
    where: str
    _raw: Any = field(default=None, init=False)  # what is being read, to tell how far it has come

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The text from its beginning, decompressed."""
        with _readable_text(self.where):
            raw: BinaryIO = (
                io.BytesIO(self.path) if isinstance(self.path, bytes) else self.path.open("rb")
            )
            with raw:
                self._raw = raw
                zipped = raw.read(2) == GZIP_MARK
                raw.seek(0)
                yield cast(BinaryIO, Unzipped(raw, self.where)) if zipped else raw

    @contextmanager
    def _opened_by_arrow(self) -> Iterator[Any]:
        """The same for Arrow, which reads ahead in a thread of its own and must not need the
        interpreter to do so.
        """
        with _readable_text(self.where):
            raw = (
                pa.BufferReader(self.path)
                if isinstance(self.path, bytes)
                else pa.OSFile(str(self.path))
            )
            with raw:
                self._raw = raw
                zipped = raw.read(2) == GZIP_MARK
                raw.seek(0)
                yield pa.CompressedInputStream(raw, "gzip") if zipped else raw

    def head(self) -> str:
        """Its first lines, by which its form is told; the last one is whole."""
        with self._opened() as stream:
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
        with self._opened() as stream:
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
            raise _other_rows(self.where, rows, self.described_rows)


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
        with self._opened() as stream:
            names = _header(stream, self.where, self.delimiter)
            if isinstance(stream, Unzipped):  # an engine may read on without us
                stream.read(SMALL_TEXT)
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
        with self._opened_by_arrow() as stream, _readable_csv(self.where, ragged, self.delimiter):
            options = ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES)
            for batch in open_csv(
                stream, read_options=options, parse_options=parse, convert_options=convert
            ):
                rows += batch.num_rows
                blocks += 1
                check_unzipped(blocks * CSV_BLOCK_BYTES, self._raw.tell(), self.where)
                yield self._with_points(batch)
        self._check_rows(rows)

    def _with_points(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.delimiter != SEMICOLON:
            return batch
        return pa.record_batch(list(map(with_points, batch.columns)), batch.schema.names)

    def _names_of(self, attribute: Attribute) -> tuple[str, ...]:
        return flat_names(attribute)

    def _encode(self, batch: pa.RecordBatch, domain: Domain, first_row: int) -> Columns:
        return tuple(encode_words(batch, attribute, first_row) for attribute in domain)


def _header(stream: BinaryIO, where: str, delimiter: str) -> list[str]:
    """The names of the columns, from a first line of bounded length."""
    head = stream.read(MOST_HEADER)
    text = io.TextIOWrapper(io.BytesIO(head), encoding="utf-8-sig", newline="")
    try:
        names = next((row for row in csv.reader(text, delimiter=delimiter) if row), None)
    except csv.Error as error:
        raise FileError(f"the header of {where} is not readable: {_first_line(error)}") from None
    if len(head) == MOST_HEADER and not text.read(1):
        raise FileError(f"the header of {where} does not end within {MOST_HEADER >> 20} MB")
    if names is None:
        raise FileError(f"{where} is empty; a CSV file starts with a header line")
    return names


def flat_names(attribute: Attribute) -> tuple[str, ...]:
    """The columns that an attribute has in a CSV file: its own, or for baskets one of 0 and 1 for
    every item.
    """
    return attribute.labels if isinstance(attribute, Items) else (attribute.name,)


def encode_words(batch: pa.RecordBatch, attribute: Attribute, first_row: int) -> Codes | Bits:
    """The codes of an attribute whose values a CSV file holds as words."""
    if isinstance(attribute, Items):
        return _bits_of_flags(batch, attribute, first_row)
    words = batch.column(attribute.name)
    if isinstance(attribute, Bins):
        words = words if words[0].as_py() in attribute.labels else _numbers_or_labels(words)
    return attribute.encode(words, first_row)


def _numbers_or_labels(words: pa.Array) -> pa.Array:
    try:
        return number_words(words).cast(pa.float64())
    except pa.ArrowInvalid:
        return words


def _bits_of_flags(batch: pa.RecordBatch, attribute: Items, first_row: int) -> Bits:
    flags = np.empty((batch.num_rows, attribute.size), dtype=bool)
    for place, name in enumerate(attribute.labels):
        column = batch.column(name)
        codes = _flags(column)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            message = (
                f"row {row + first_row}, column '{name}': '{column[row].as_py()}' is "
                "neither 0 nor 1"
            )
            raise DataError(message, row=row + first_row)
        flags[:, place] = codes
    return Bits.from_dense(flags)


def _flags(column: pa.Array) -> NDArray[Any]:
    """1 where a column of flags says yes, 0 where it says no, -1 where it says something else."""
    words = column if pa.types.is_string(column.type) else column.cast(pa.string())
    places = pc.index_in(words, value_set=pa.array(FLAG_WORDS)).fill_null(-1)
    codes = np.asarray(places.to_numpy(zero_copy_only=False))
    return np.where(codes < 0, -1, codes % 2)


@contextmanager
def _readable_text(where: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:
        raise _not_utf8(where) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(
            f"{where} is not readable gzip: {_first_line(error)}", hint="it may be truncated"
        ) from None
    except OSError as error:
        if isinstance(error, SfumatoError):
            raise
        if "zlib" in str(error) or "Truncated compressed" in str(error):
            raise FileError(f"{where} is not readable gzip", hint="it may be truncated") from None
        raise FileError(f"cannot read {where}: {error.strerror or _first_line(error)}") from None


@contextmanager
def _readable_csv(where: str, ragged: list[Any], delimiter: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        if ragged:
            raise _ragged(where, ragged[0], delimiter) from None
        if "UTF8" in str(error):
            raise _not_utf8(where) from None
        if "straddling" in str(error):
            raise FileError(
                f"{where} has a row of more than {CSV_BLOCK_BYTES >> 20} MB",
                hint="is a quote left open?",
            ) from None
        raise FileError(f"{where} is not a readable CSV file: {_first_line(error)}") from None


def _ragged(where: str, row: Any, delimiter: str) -> FileError:
    at = f"line {row.number} of {where}" if row.number else f"a line of {where}"
    return FileError(
        f"{at} has {row.actual_columns} fields where the header has {row.expected_columns}",
        hint=f"a field that holds {DELIMITER_NAMES[delimiter]} needs quotes around it; baskets, a "
        "line of names each, are read with --form lines",
        line=row.number,
    )


def _not_utf8(where: str) -> FileError:
    return FileError(
        f"{where} is not UTF-8 text", hint="convert it first, as in iconv -f latin1 -t utf-8"
    )


@dataclass(eq=False)
class BasketReader(TextReader):
    """A FIMI file of baskets."""

    baskets = True

    @cached_property
    def found(self) -> Domain:
        """The items of the baskets, by a first pass over the file."""
        with self._opened() as stream:
            ids = ids_in(self.passing(iterate_baskets(stream, self.where)))
        if not len(ids):
            raise no_items(self.where)
        return basket_domain(ids)

    def table(self, domain: Domain) -> Table:
        size = domain.attributes[0].size
        if size > MANY_ITEMS:  # then a short line may take much: looked at before any is packed
            check_held(self._lines() * size // 8, self.size, self.where)
        return super().table(domain)

    def _lines(self) -> int:
        with self._opened() as stream:
            return sum(part.count(b"\n") for part in iter(lambda: stream.read(SMALL_TEXT), b""))

    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        universe = Universe.of(domain)
        most = min(batch_rows, batch_rows_of(domain.attributes[0]))
        rows = held = 0
        with self._opened() as stream:
            for block in iterate_baskets(stream, self.where):
                held += len(block.ids)
                for batch in block.split(most):
                    yield (universe.encode(batch, rows + 1),)
                    rows += len(batch)
        if not rows or not (held or self.description):  # reports may all be empty
            raise no_items(self.where)
        self._check_rows(rows)


def batch_rows_of(attribute: Attribute) -> int:
    """The most rows at once: fewer where a basket has many items."""
    if not isinstance(attribute, Items):
        return BATCH_ROWS
    return min(BATCH_ROWS, max(BATCH_BITS // attribute.size // WORD_BITS, 1) * WORD_BITS)


def kind_of(path: Path) -> str:
    """csv, parquet or dat, by the file's name."""
    name = path.name.lower()
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return suffix.split(".")[1]
    hint = f"Sfumato reads and writes {listing(SUFFIXES)}"
    if name.endswith(".toml"):
        raise FileError(
            f"'{path}' is called like a schema or a campaign, and records or reports belong here",
            hint=f"{hint}; a schema is named beside true records (--schema FILE, schema='FILE')",
        )
    if name.endswith(".json"):
        hint += "; a model is opened by open_model, and mine, query and classify take it as it is"
    raise FileError(f"'{path}' has a name of an unknown kind", hint=hint)


def _from_metadata(metadata: Mapping[bytes, bytes] | None, where: str) -> Mapping[str, Any] | None:
    if not metadata or METADATA_KEY not in metadata:
        return None
    return parsed_json(metadata[METADATA_KEY], f"the description in {where}")


def release_in(metadata: Mapping[bytes, bytes]) -> str | None:
    """The release id that a Parquet file's metadata hold: as Sfumato writes it, or as Spark does,
    with the schema of its rows.
    """
    if RELEASE_KEY in metadata:
        return metadata[RELEASE_KEY].decode("utf-8", "replace")
    try:
        fields = parsed_json(metadata[SPARK_SCHEMA_KEY], "Spark's schema")["fields"]
        return str(fields[0]["metadata"][RELEASE_KEY.decode()])
    except (KeyError, IndexError, TypeError, FileError):
        return None


def _runs_of_groups(metadata: Any) -> Iterator[list[int]]:
    """Row groups in runs of about a million rows: Arrow opens the columns of all groups that it is
    asked for at once, and would hold more the longer a file is.
    """
    run: list[int] = []
    rows = 0
    for group in range(metadata.num_row_groups):
        run.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= RUN_ROWS:
            yield run
            run, rows = [], 0
    if run:
        yield run


def strict(domain: Domain) -> Domain:
    """The same domain without leave to take one value for another."""
    return Domain(tuple(map(_strict, domain)), domain.title)


def _strict(attribute: Attribute) -> Attribute:
    if isinstance(attribute, Category):
        return replace(attribute, other=None, missing=None)
    if isinstance(attribute, Bins | Numeric):
        return replace(attribute, missing=None, clip=False)
    return attribute


def _other_rows(where: str, found: int, described: object) -> FileError:
    return FileError(
        f"{where} has {found} rows, but its description speaks of {described}",
        hint="it was cut short or changed after it was perturbed",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
