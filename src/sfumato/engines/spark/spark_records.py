"""True records in a Spark frame, and how a batch of them is encoded."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.domain import Attribute, Columns, Domain
from sfumato.engines.spark.session import in_one_line, without_values
from sfumato.engines.spark.storage import Place
from sfumato.errors import DataError
from sfumato.table.baskets import basket_domain, encode_baskets, ids_of, parse_baskets
from sfumato.table.delimited import COMMA, delimiter_of, encode_words
from sfumato.table.formats import CSV, FIMI
from sfumato.table.perturbing import check_truth
from sfumato.table.readers import flat_names, no_items
from sfumato.table.table import check_names, dropped_notes, encode_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKEN = "sfumato broken line"  # the column in which Spark puts a line that it cannot take apart
LINES = "value"  # the column in which Spark puts the lines of a text file


class Form(Enum):
    """What the columns of a frame hold: typed values, the words of a CSV file, or lines of item
    ids.
    """

    VALUES = "values"
    WORDS = "words"
    BASKETS = "baskets"

    def sound(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """A batch without its last column, which says of the words of a CSV file whether a line had
        as many fields as the header.
        """
        if self is not Form.WORDS:
            return batch
        sound = np.asarray(batch.columns[-1].to_numpy(zero_copy_only=False), dtype=bool)
        if not sound.all():
            row = int(np.argmin(sound)) + first_row
            found = "a line with more or fewer fields than the header"
            raise DataError(f"row {row} is {found}", row=row, found=found)
        return batch.select(list(range(batch.num_columns - 1)))

    def encode(self, batch: pa.RecordBatch, domain: Domain, first_row: int) -> Columns:
        """The codes of a batch."""
        if self is Form.VALUES:
            return encode_batch(batch, domain, first_row)
        if self is Form.WORDS:
            return tuple(encode_words(batch, attribute, first_row) for attribute in domain)
        baskets = parse_baskets(_text(batch), first_row)
        return (encode_baskets(baskets, ids_of(domain), first_row),)


def _text(batch: pa.RecordBatch) -> bytes:
    return bytes(
        pc.binary_join_element_wise(batch.column(LINES).cast(pa.string()), "\n", "").buffers()[2]
        or b""
    )


@dataclass(frozen=True, eq=False)
class SparkRecords:
    """A Spark frame of true records."""

    frame: DataFrame
    form: Form = Form.VALUES
    where: str = "this frame"

    @classmethod
    def at(cls, session: SparkSession, url: str) -> SparkRecords:
        """The records in a file or folder that Spark can reach; Parquet where the name does not say
        CSV or FIMI.
        """
        check_truth(f"'{url}'", Place(session, url).provenance())
        return cls(*frame_at(session, url), f"'{url}'")

    def names(self, domain: Domain) -> tuple[str, ...]:
        """The columns that a domain is read from."""
        if self.form is Form.BASKETS:
            return (LINES,)
        return tuple(name for attribute in domain for name in self._names(attribute))

    def selected(self, domain: Domain) -> DataFrame:
        """Those columns, under their numbers: Spark hands no column with a dot in its name to
        Python.
        """
        names = self.names(domain)
        check_names(names, self.frame.columns, self.where)
        columns = [quoted(name) for name in names]
        if self.form is Form.WORDS:
            columns.append(f"isnull({quoted(BROKEN)})")
        return self.frame.selectExpr(*columns).toDF(*map(str, range(len(columns))))

    def _names(self, attribute: Attribute) -> tuple[str, ...]:
        return flat_names(attribute) if self.form is Form.WORDS else (attribute.name,)

    def notes(self, domain: Domain) -> tuple[str, ...]:
        """What the owner should know about how these records are read."""
        if self.form is Form.BASKETS:
            return ()
        wanted = {*self.names(domain), BROKEN}
        return dropped_notes(domain, [name for name in self.frame.columns if name not in wanted])

    def found_items(self) -> Domain:
        """The domain of the item ids that occur in baskets, found by the engine."""
        with in_one_line(self.where):
            found = map_in_arrow(self.frame, _ids, "id bigint").distinct().toArrow()
        if not found.num_rows:
            raise no_items(self.where)
        return basket_domain(np.sort(found.column("id").to_numpy()))


def frame_at(session: SparkSession, url: str) -> tuple[DataFrame, Form]:
    """What stands in a file or folder: Parquet where the name does not say CSV or FIMI."""
    name = url.lower()
    if name.endswith(CSV.suffixes):
        return read_csv(session, url), Form.WORDS
    if name.endswith(FIMI.suffixes):
        return session.read.text(url), Form.BASKETS
    return session.read.parquet(url), Form.VALUES


def read_csv(session: SparkSession, url: str) -> DataFrame:
    """The words of a CSV file; an empty field is a null, a quoted empty one is an empty word. A
    line that cannot be read is put whole into the column BROKEN: to fail would put it into Spark's
    log.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    first = session.read.text(url).first()
    mark = delimiter_of(first.value) if first is not None else COMMA
    # Spark takes whatever equals nullValue for a null, quoted or not, so that must be something
    # that no field holds.
    reader = session.read.options(header=True, sep=mark, escape='"', nullValue="\0", emptyValue="")
    names = [*reader.csv(url).columns, BROKEN]
    schema = StructType([StructField(name, StringType()) for name in names])
    # Only a line that is taken apart whole is known to have as many fields as the header.
    whole = reader.options(columnPruning=False, columnNameOfCorruptRecord=BROKEN)
    return whole.schema(schema).csv(url, mode="PERMISSIVE")


def _ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    lines = 0
    for batch in batches:
        with without_values():
            ids = np.unique(parse_baskets(_text(batch), lines + 1).flatten())
        lines += batch.num_rows
        yield pa.record_batch([pa.array(ids)], ["id"])


def map_in_arrow(frame: DataFrame, function: Callable[..., Any], schema: Any) -> DataFrame:
    """The frame that a function makes of each partition's Arrow batches."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # Spark doubts the newest pandas, which is not used here
        return frame.mapInArrow(function, schema)


def quoted(name: str) -> str:
    """A column's name as Spark reads it whatever it holds."""
    return "`" + name.replace("`", "``") + "`"
