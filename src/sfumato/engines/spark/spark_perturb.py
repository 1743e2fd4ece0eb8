"""Perturbing with Spark: every partition from a keystream of its own, written before anyone can
read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.domain import Columns, Domain
from sfumato.engines.spark.session import in_one_line, without_values
from sfumato.engines.spark.spark_records import Form, SparkRecords, map_in_arrow, quoted
from sfumato.engines.spark.storage import Place, appearing
from sfumato.errors import DataError, FileError, ParameterError
from sfumato.files import OVERWRITE
from sfumato.mechanisms.base import Mechanism
from sfumato.randomness import Keystream, drawing
from sfumato.table.formats import SUFFIXES
from sfumato.table.parquet import FOLDER_DESCRIPTION
from sfumato.table.perturbing import Written, provenance_of, reports_of
from sfumato.table.table import RELEASE_KEY, Table, arrow_schema

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

COMPRESSION = "zstd"
ORDER = "sfumato order"  # the column of random numbers that the reports are sorted by


@dataclass(frozen=True)
class PartitionWork:
    """What every partition must know, all of it public."""

    mechanism: Mechanism
    domain: Domain
    form: Form
    names: tuple[str, ...]  # of the columns
    copies: int
    keep_order: bool = False

    def reports(
        self, batch: pa.RecordBatch, first_row: int, rng: Keystream, order: Keystream
    ) -> pa.RecordBatch:
        """The reports of a batch of records, with a random number to sort each record by."""
        sound = self.form.sound(batch, first_row)
        columns = self.form.encode(sound.rename_columns(list(self.names)), self.domain, first_row)
        records = Table(self.domain, columns).recode(self.mechanism.domain)
        drawn = reports_of(records.columns, self.mechanism, rng, self.copies)
        reports = decoded(drawn, self.mechanism.reports)
        if self.keep_order:
            return reports
        numbers = np.repeat(order.words(records.rows).view(np.int64), self.copies)
        return reports.append_column(self.order_name, pa.array(numbers))

    @property
    def order_name(self) -> str:
        """The column to sort by: a name that no report has."""
        taken = max((len(name) for name in self.mechanism.reports.names), default=0)
        return ORDER.ljust(taken + 1, "_")


@dataclass(frozen=True, eq=False)
class PartitionReports:
    """The reports of one partition, drawn from a keystream that depends on the key and the
    partition's number alone.

    A task that is run again repeats its draw. The key travels inside this function, which Spark
    keeps in memory: a broadcast would be written to a file.
    """

    key: bytes = field(repr=False)
    work: Broadcast[PartitionWork]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None  # without a number every part would draw the same noise
        rng, rows = Keystream(self.key).derive(context.partitionId()), 0
        work = self.work.value
        order = rng.derive(0)
        for batch in batches:
            with without_values():
                reports = work.reports(batch, rows + 1, rng, order)
            rows += batch.num_rows
            yield reports


def decoded(columns: Columns, domain: Domain) -> pa.RecordBatch:
    """Reports as Arrow columns of types that Spark has."""
    arrays = [attribute.decode(column) for attribute, column in zip(domain, columns, strict=True)]
    plain = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for array in arrays
    ]
    return pa.record_batch(plain, schema=plain_schema(domain))


def plain_schema(domain: Domain) -> pa.Schema:
    """The Arrow types of a domain's columns without dictionaries, which Spark does not have."""
    fields = arrow_schema(domain, None)
    return pa.schema(
        [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in fields]
    )


def perturb_with_spark(
    session: SparkSession,
    source: str,
    target: str,
    mechanism: Mechanism,
    rng: Keystream | None = None,
    **options: Any,
) -> Written:
    """Perturb a file or folder into a folder of Parquet parts; records are read by `schema`, else
    the mechanism's domain.
    """
    return perturb_records(SparkRecords.at(session, source), target, mechanism, rng, **options)


def perturb_frame(
    frame: Any, target: str, mechanism: Mechanism, rng: Keystream | None = None, **options: Any
) -> Written:
    """Perturb a Spark frame into a folder of Parquet parts.

    There is no perturbed frame to be had before it is written: a frame is evaluated anew whenever
    it is read, each time with fresh noise, and the mean of such readings is the truth.
    """
    return perturb_records(SparkRecords(frame), target, mechanism, rng, **options)


def perturb_records(
    records: SparkRecords,
    target: str,
    mechanism: Mechanism,
    rng: Keystream | None = None,
    *,
    schema: Domain | None = None,
    copies: int = 1,
    keep_order: bool = False,
    order: object = None,
    force: bool = False,
) -> Written:
    """Perturb true records into a folder of Parquet parts, which appears when all of it
    is written.
    """
    place = Place(records.frame.sparkSession, target)
    _check_possible(records, mechanism, order)
    check_free(place, force)
    rng = drawing(rng)
    provenance = replace(provenance_of(mechanism, rng, copies), shuffled=not keep_order)
    domain = mechanism.domain if schema is None else schema.project(mechanism.domain.names)
    work = PartitionWork(mechanism, domain, records.form, records.names(domain), copies, keep_order)
    with appearing(place) as temporary, in_one_line(records.where):
        _write(records, work, rng, temporary, provenance.release)
        rows = records.frame.sparkSession.read.parquet(temporary.url).count()
        if not rows:
            raise DataError(f"{records.where} has no rows")
        description = {**provenance.describe(), "rows": rows, "parts": temporary.parts}
        temporary.within(FOLDER_DESCRIPTION).write_text(
            json.dumps(description, indent=1, ensure_ascii=False) + "\n"
        )
    return Written(rows, provenance, records.notes(domain))


def _write(
    records: SparkRecords,
    work: PartitionWork,
    rng: Keystream,
    temporary: Place,
    release: str | None,
) -> None:
    public = records.frame.sparkSession.sparkContext.broadcast(work)
    # A key of its own, drawn from the stream: two frames perturbed from one stream share no noise.
    reports = PartitionReports(rng.words(4).astype(np.uint64).tobytes(), public)
    frame = map_in_arrow(records.selected(work.domain), reports, _schema(work, release))
    if not work.keep_order:
        # Where a report goes, and how large a part is, depends on random numbers alone; the parts
        # of the truth follow the bytes of its records.
        order = quoted(work.order_name)
        frame = frame.repartition(frame[order]).sortWithinPartitions(order).drop(work.order_name)
    frame.write.parquet(temporary.url, compression=COMPRESSION)
    public.destroy()


def _schema(work: PartitionWork, release: str | None) -> Any:
    """The types of the reports, the first of which carries the release id into every part."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import LongType

    schema = from_arrow_schema(plain_schema(work.mechanism.reports))
    schema.fields[0].metadata = {RELEASE_KEY.decode(): release}
    return schema if work.keep_order else schema.add(work.order_name, LongType(), False)


def _check_possible(records: SparkRecords, mechanism: Mechanism, order: object) -> None:
    if order is not None:
        raise ParameterError(
            "Spark's workers see parts of the records and not their rows, so they know no order",
            hint="perturb without --engine to write one",
        )
    if mechanism.needs_all_rows:
        raise ParameterError(
            f"{mechanism.name} must see all records at once, and Spark gives each worker a part "
            "of them",
            hint=(
                "perturb without --engine, or use a mechanism that randomises each record on its "
                "own"
            ),
        )
    if records.frame.isStreaming:
        raise ParameterError(
            "a stream has no end, so its reports cannot be written before they are read"
        )


def check_free(place: Place, force: bool) -> None:
    """Refuse a target that is no folder of Parquet parts, or that exists and may not be
    overwritten.
    """
    if place.url == "-" or any(
        place.url.lower().endswith(suffix) for suffix in SUFFIXES if suffix != ".parquet"
    ):
        raise FileError(
            f"Spark writes a folder of Parquet parts, and '{place.url}' is not one",
            hint="use -o NAME.parquet",
        )
    if place.exists and not force:
        raise FileError(f"'{place.url}' exists already", hint=OVERWRITE)
