"""Perturbing with Spark: every partition from a keystream of its own, written before anyone can
read it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.domain import Columns, Domain
from sfumato.engines.spark.records import Form, Records, map_in_arrow
from sfumato.engines.spark.storage import Place
from sfumato.errors import DataError, FileError, ParameterError, ServerError, SfumatoError
from sfumato.mechanisms.base import Mechanism
from sfumato.randomness import Keystream, secure
from sfumato.table.perturbing import Written, provenance_of, reports_of
from sfumato.table.readers import FOLDER_DESCRIPTION, SUFFIXES
from sfumato.table.table import Table, arrow_schema

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

REFUSED = "sfumato refused: "  # what stands before the JSON of an error that a worker raises
COMPRESSION = "zstd"


@dataclass(frozen=True)
class Work:
    """What every partition must know, all of it public."""

    mechanism: Mechanism
    domain: Domain
    form: Form
    names: tuple[str, ...]  # of the columns
    copies: int

    def reports(self, batch: pa.RecordBatch, first_row: int, rng: Keystream) -> pa.RecordBatch:
        """The reports of a batch of records."""
        columns = self.form.encode(batch.rename_columns(list(self.names)), self.domain, first_row)
        records = Table(self.domain, columns).recode(self.mechanism.domain)
        return decoded(
            reports_of(records.columns, self.mechanism, rng, self.copies), self.mechanism.reports
        )


@dataclass(frozen=True, eq=False)
class PartitionReports:
    """The reports of one partition, drawn from a keystream that depends on the key and the
    partition's number alone.

    A task that is run again repeats its draw. The key travels inside this function, which Spark
    keeps in memory: a broadcast would be written to a file.
    """

    key: bytes = field(repr=False)
    secure: bool
    work: Broadcast[Work]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        part = context.partitionId()
        rng, work, rows = Keystream(self.key, self.secure).derive(part), self.work.value, 0
        for batch in batches:
            with _without_values(part):
                reports = work.reports(batch, rows + 1, rng)
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
    *,
    schema: Domain | None = None,
    copies: int = 1,
    force: bool = False,
) -> Written:
    """Perturb a file or folder into a folder of Parquet parts; records are read by `schema`, else
    the mechanism's domain.
    """
    records = Records.at(session, source)
    return perturb_records(
        records, target, mechanism, rng, schema=schema, copies=copies, force=force
    )


def perturb_frame(
    frame: Any, target: str, mechanism: Mechanism, rng: Keystream | None = None, **options: Any
) -> Written:
    """Perturb a Spark frame into a folder of Parquet parts.

    There is no perturbed frame to be had before it is written: a frame is evaluated anew whenever
    it is read, each time with fresh noise, and the mean of such readings is the truth.
    """
    return perturb_records(Records(frame), target, mechanism, rng, **options)


def perturb_records(
    records: Records,
    target: str,
    mechanism: Mechanism,
    rng: Keystream | None = None,
    *,
    schema: Domain | None = None,
    copies: int = 1,
    force: bool = False,
) -> Written:
    """Perturb true records into a folder of Parquet parts, which appears when all of it
    is written.
    """
    place = Place(records.frame.sparkSession, target)
    _check_possible(records, mechanism)
    check_free(place, force)
    rng = secure() if rng is None else rng
    provenance = provenance_of(mechanism, rng, copies)
    domain = mechanism.domain if schema is None else schema.project(mechanism.domain.names)
    work = Work(mechanism, domain, records.form, records.names(domain), copies)
    with _appearing(place) as temporary, told(records.where):
        _write(records, work, rng, temporary)
        rows = records.frame.sparkSession.read.parquet(temporary.url).count()
        if not rows:
            raise DataError(f"{records.where} has no rows")
        description = {**provenance.describe(), "rows": rows}
        temporary.within(FOLDER_DESCRIPTION).write_text(
            json.dumps(description, indent=1, ensure_ascii=False) + "\n"
        )
    return Written(rows, provenance, records.notes(domain))


def _write(records: Records, work: Work, rng: Keystream, temporary: Place) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    public = records.frame.sparkSession.sparkContext.broadcast(work)
    # A key of its own, drawn from the stream: two frames perturbed from one stream share no noise.
    reports = PartitionReports(rng.words(4).astype(np.uint64).tobytes(), rng.secure, public)
    schema = from_arrow_schema(plain_schema(work.mechanism.reports))
    frame = map_in_arrow(records.selected(work.domain), reports, schema)
    frame.write.parquet(temporary.url, compression=COMPRESSION)
    public.destroy()


def _check_possible(records: Records, mechanism: Mechanism) -> None:
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
        raise FileError(f"'{place.url}' exists already", hint="use --force to overwrite it")


@contextmanager
def _appearing(place: Place) -> Iterator[Place]:
    """A folder under a temporary name, which takes its own at the end of a block that ends well."""
    temporary = place.beside(f".{place.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        yield temporary
        if place.exists:
            place.delete()
        temporary.rename(place)
    except BaseException:
        temporary.delete()
        raise


@contextmanager
def _without_values(part: int) -> Iterator[None]:
    """Errors about records told by row and column alone: a cluster's logs are read by others than
    the owner.
    """
    try:
        yield
    except Exception as error:
        known = error.facts if isinstance(error, SfumatoError) else {"kind": type(error).__name__}
        facts = {name: known[name] for name in ("row", "line", "column", "kind") if name in known}
        raise RuntimeError(REFUSED + json.dumps({"part": part, **facts})) from None


@contextmanager
def told(where: str) -> Iterator[None]:
    """What went wrong in a worker, told in one line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        found = re.search(re.escape(REFUSED) + r"(\{.*?\})", _whole(error))
        if found:
            raise _refusal(where, json.loads(found[1])) from None
        raise ServerError(
            f"Spark failed on {where}: {str(error).strip().splitlines()[0]}"
        ) from None


def _whole(error: BaseException | None) -> str:
    """The messages of an error and of those that caused it."""
    words = []
    while error is not None:
        words.append(str(error))
        error = getattr(error, "_cause", None) or error.__cause__
    return "\n".join(words)


def _refusal(where: str, facts: dict[str, Any]) -> SfumatoError:
    if "kind" in facts:
        return ServerError(
            f"a worker failed on part {facts['part']} of {where} with {facts['kind']}", **facts
        )
    row = facts.get("row") or facts.get("line")
    at = f"row {row} of part {facts['part']}" if row else f"part {facts['part']}"
    column = f", column '{facts['column']}'" if "column" in facts else ""
    return DataError(
        f"{at} of {where}{column}: a value that the schema does not take",
        hint=(
            "it is not shown here because Spark keeps a log; perturb a sample without --engine "
            "to see it"
        ),
        **facts,
    )
