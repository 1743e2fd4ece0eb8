"""An owner's true records as files hold them: read with every word as it stands, and written
whole.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import DataError, ParameterError
from sfumato.files import write_whole, written
from sfumato.table import Table, reader_of
from sfumato.table.formats import STANDARD_STREAM, check_target, kind_of
from sfumato.table.readers import RecordReader
from sfumato.table.table import plain_array

__all__ = ["check_record_target", "csv_text", "read_records", "write_json", "write_records"]


def read_records(data: Any) -> pa.Table:
    """All columns of a file, an Arrow table, a data frame or a table of true records, words as
    they stand there.
    """
    if isinstance(data, Table) and data.provenance is None:
        data = data.to_arrow()
    reader = reader_of(data)
    if not isinstance(reader, RecordReader) or _holds_lists(reader):
        raise ParameterError(
            f"{reader.where} holds baskets, not records", hint="hide is for baskets"
        )
    if reader.description is not None:
        raise ParameterError(
            f"{reader.where} is itself a perturbed file", hint="give the true records"
        )
    _check_named_once(reader)
    # pandas hands its row labels over as a column of this name; nobody meant them as data.
    names = [name for name in reader.names if not name.startswith("__index_level_")]
    batches = list(_told(reader, names))
    if not sum(batch.num_rows for batch in batches):
        raise DataError(f"{reader.where} has no rows")
    _check_single_values(batches[0].schema, reader.where)
    return pa.Table.from_batches(batches)


def _told(reader: RecordReader, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The plain batches of a reader, which tells how far it has come."""
    for batch in reader.arrow_batches(names):
        reader.told()
        yield _plain(batch)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same values without string views, which polars hands over and Arrow cannot sort."""
    columns = [plain_array(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _check_single_values(schema: pa.Schema, where: str) -> None:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise DataError(
                f"column '{field.name}' of {where} should hold single values; it holds {field.type}"
            )


def _holds_lists(reader: RecordReader) -> bool:
    frame = getattr(reader, "frame", None)
    return frame is not None and all(pa.types.is_nested(field.type) for field in frame.schema)


def _check_named_once(reader: RecordReader) -> None:
    twice = sorted({name for name in reader.names if list(reader.names).count(name) > 1})
    if twice:
        raise DataError(f"{reader.where} has more than one column '{twice[0]}'")


def check_record_target(target: str | Path, *, force: bool = False) -> None:
    """Refuse what records cannot be written to, before any work is done for it."""
    check_target(target, force)
    if str(target) != STANDARD_STREAM and kind_of(Path(target)) == "dat":
        raise ParameterError(
            f"'{target}' is a name for baskets", hint="end it in .csv, .csv.gz or .parquet"
        )


def write_records(table: pa.Table, target: str | Path, *, force: bool = False) -> None:
    """The records as CSV or Parquet, as the file's name says, there whole or not at all; '-' is
    standard output.
    """
    check_record_target(target, force=force)
    if str(target) == STANDARD_STREAM:
        sys.stdout.buffer.write(csv_text(table))
        return
    path = Path(target)
    content = _parquet(table) if kind_of(path) == "parquet" else csv_text(table)
    if path.suffix.lower() == ".gz":
        content = gzip.compress(content, 6, mtime=0)
    _write(path, content, force)


def write_json(content: dict[str, Any], target: str | Path, *, force: bool = False) -> None:
    """A small JSON file, there whole or not at all."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)
    _write(Path(target), (text + "\n").encode(), force)


def _write(path: Path, content: bytes, force: bool) -> None:
    with written(path):
        write_whole(path, content, force=force)


def _parquet(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def csv_text(table: pa.Table) -> bytes:
    """The records as CSV; a field is quoted where it must be, and an empty word so that it is not
    read back as a null.

    >>> csv_text(pa.table({"name": ["a, b", ""], "age": [3, None]}))
    b'name,age\\n"a, b",3\\n"",\\n'
    """
    header = _fields(pa.array(table.column_names, pa.string())).to_pylist()
    columns = [_fields(table[name].cast(pa.string())) for name in table.column_names]
    lines = pc.binary_join_element_wise(*columns, ",") if len(columns) > 1 else columns[0]
    return "".join(f"{line}\n" for line in (",".join(header), *lines.to_pylist())).encode()


def _fields(words: Any) -> Any:
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(words, '"', '""'), '"', "")
    delicate = pc.or_(pc.match_substring_regex(words, '[",\\r\\n]'), pc.equal(words, ""))
    return pc.fill_null(pc.if_else(delicate, quoted, words), "")
