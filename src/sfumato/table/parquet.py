"""Columns of typed values: Parquet files, folders of them, and frames in memory."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

from sfumato.domain import Columns, Domain
from sfumato.errors import DataError, FileError, SfumatoError, first_line
from sfumato.table.describing import parts_digest
from sfumato.table.limits import (
    BATCH_ROWS,
    MOST_HELD,
    MOST_ROWS,
    RUN_ROWS,
    SMALL_ROWS,
    SMALL_TABLE,
    check_held,
)
from sfumato.table.readers import (
    RecordReader,
    Writer,
    batch_rows_of,
    other_rows,
)
from sfumato.table.table import (
    METADATA_KEY,
    RELEASE_KEY,
    Provenance,
    Table,
    arrow_schema,
    arrow_stream,
)
from sfumato.untrusted import check_file, parsed_json, read_text

SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
FOLDER_DESCRIPTION = "_sfumato.json"  # beside the parts of a table that an engine wrote as a folder


def is_records(data: Any) -> bool:
    """Whether these are records as dictionaries, one a person."""
    listed = isinstance(data, list | tuple) and bool(data)
    return listed and all(isinstance(each, Mapping) for each in data)


@dataclass(eq=False)
class FrameReader(RecordReader):
    """Records in memory: an Arrow table, or any data frame that speaks the Arrow C stream."""

    frame: pa.Table
    where: str = "this table"

    @classmethod
    def of(cls, data: Any) -> FrameReader:
        """The reader of columns by name, of a list of records (dictionaries), or of a frame."""
        if is_records(data):
            names = dict.fromkeys(name for record in data for name in record)
            data = {name: [record.get(name) for record in data] for name in names}
        if isinstance(data, Mapping):
            try:
                data = pa.table(dict(data))
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise DataError(
                    f"these columns make no table: {first_line(error)}",
                    hint='give lists of one length, as in {"smoker": ["no", "yes"]}',
                ) from None
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
            raise other_rows(self.where, self.frame.num_rows, found["rows"])
        return {**found, "rows": self.frame.num_rows}

    def _checked(self, provenance: Provenance) -> Provenance:
        # Whoever hands a frame over may have changed it: what is made of it is a release anew.
        return replace(provenance, release=None)

    def arrow_batches(
        self, names: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        yield from self.frame.select(list(names)).to_batches(batch_rows)


@dataclass(eq=False)
class ParquetReader(RecordReader):
    """A Parquet file, read row group by row group."""

    path: Path | BinaryIO
    where: str
    _read: int = field(default=0, init=False)

    @cached_property
    def parts(self) -> tuple[ParquetReader, ...]:
        """The files that hold the rows, in the order of their names."""
        return (self,)

    @cached_property
    def _file(self) -> Any:
        """The file, once what its metadata say it unfolds to is known to be in proportion."""
        file = self._opened(())
        said, where = file.metadata, f"{self.where} has {self.size:,} bytes"
        if said.num_rows > max(SMALL_ROWS, MOST_ROWS * self.size):
            raise FileError(f"{where} and says it has {said.num_rows:,} rows")
        for group in map(said.row_group, range(said.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                if chunk.total_uncompressed_size > max(SMALL_TABLE, MOST_HELD * self.size):
                    unpacked = f"{chunk.total_uncompressed_size:,}"
                    raise FileError(f"{where}, and a column of it unpacks to {unpacked} at once")
        return file

    @cached_property
    def _words(self) -> Any:
        """The file, its words read as numbers into a list of different ones."""
        return self._opened(
            [
                place.name
                for place in self._file.schema_arrow
                if pa.types.is_string(place.type) or pa.types.is_large_string(place.type)
            ]
        )

    def _opened(self, words: Sequence[str]) -> Any:
        import pyarrow.parquet as pq

        if isinstance(self.path, Path):  # a part of a folder, say, that is a pipe
            check_file(self.path, self.where)
        with _readable_parquet(self.where):
            return pq.ParquetFile(self.path, buffer_size=1 << 20, read_dictionary=list(words))

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
        """How many rows it holds."""
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
        """The release id that the rows carry: as Sfumato writes it, or as Spark does, with the
        schema of its rows.
        """
        metadata = self._file.metadata.metadata or {}
        if RELEASE_KEY in metadata:
            return str(metadata[RELEASE_KEY].decode("utf-8", "replace"))
        try:
            fields = parsed_json(metadata[SPARK_SCHEMA_KEY], "Spark's schema")["fields"]
            return str(fields[0]["metadata"][RELEASE_KEY.decode()])
        except (KeyError, IndexError, TypeError, FileError):
            return None

    def _checked(self, provenance: Provenance) -> Provenance:
        provenance.check_rows(self.release, self.where)
        return provenance

    def arrow_batches(
        self, names: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        self._read = 0
        for part in self.parts:
            with _readable_parquet(part.where):
                for groups in _runs_of_groups(part._words.metadata):
                    for batch in part._words.iter_batches(
                        batch_rows, row_groups=groups, columns=list(names), use_threads=False
                    ):
                        self._read += batch.num_rows
                        yield batch

    def as_stored(self, name: str, column: pa.Array) -> pa.Array:
        return column.cast(self.parts[0]._file.schema_arrow.field(name).type)

    @property
    def fraction(self) -> float | None:
        return self._read / self.rows if self.rows else None


@dataclass(eq=False)
class FolderReader(ParquetReader):
    """A folder of Parquet parts, as Spark writes them, with the description of a perturbed table
    beside them.
    """

    path: Path

    def __post_init__(self) -> None:
        if not self.parts:
            raise FileError(f"{self.where} is a folder, not a file, and holds no .parquet parts")

    @cached_property
    def parts(self) -> tuple[ParquetReader, ...]:
        found = sorted(
            path for path in self.path.glob("*.parquet") if not path.name.startswith(("_", "."))
        )
        return tuple(ParquetReader(path, f"'{path}'") for path in found)

    @property
    def names(self) -> Sequence[str]:
        return self.parts[0].names

    @property
    def rows(self) -> int:
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
            raise other_rows(self.where, self.rows, found.get("rows"), "a part was lost or added")
        return found

    def _checked(self, provenance: Provenance) -> Provenance:
        if provenance.release is not None and self.description is not None:
            names = parts_digest(entry.name for entry in self.path.iterdir())
            same = names == self.description.get("parts", names)
            for part in self.parts:
                provenance.check_rows(part.release if same else None, part.where)
        return provenance


@contextmanager
def _readable_parquet(where: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, SfumatoError):
            raise
        raise FileError(
            f"{where} is not a readable Parquet file: {first_line(error)}",
            hint="it may be truncated; write it again",
        ) from None


def _from_metadata(metadata: Mapping[bytes, bytes] | None, where: str) -> Mapping[str, Any] | None:
    if not metadata or METADATA_KEY not in metadata:
        return None
    return parsed_json(metadata[METADATA_KEY], f"the description in {where}")


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
