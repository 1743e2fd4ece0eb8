"""Counts by Spark: cells by SQL, itemsets by bitmaps that each partition packs once and keeps; only
counts reach the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.counting.bitmaps import itemset_counts
from sfumato.counting.in_memory import TableCounter
from sfumato.counting.sql import Dialect, Relation, SqlCounter
from sfumato.counting.sql.kept import KeptCounts
from sfumato.domain import Cells, Domain, Items, Numeric
from sfumato.engines.limits import PACKED_BITS
from sfumato.engines.spark.session import in_one_line, without_values
from sfumato.engines.spark.spark_records import Form, frame_at, map_in_arrow, quoted
from sfumato.engines.spark.storage import Place
from sfumato.errors import FileError
from sfumato.observation import ItemsetCounter, ItemSource
from sfumato.release import Release
from sfumato.table.readers import flat_names
from sfumato.table.table import Table, check_names, encode_batch

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

SPARK = Dialect(
    "spark", quote="`", backslash=True, grouping="GROUPING_ID", unnest="EXPLODE", filters=False
)
PACKED, COUNTED = "rows bigint, words binary", "itemset bigint, count bigint"


@dataclass(frozen=True, eq=False)
class SparkRelation(Relation):
    """The rows of a Spark frame, under a name that SQL knows."""

    frame: DataFrame
    where: str = "this frame"
    flags: bool = False
    dialect: Dialect = SPARK

    @cached_property
    def rows_from(self) -> str:  # type: ignore[override]
        name = f"sfumato_{uuid.uuid4().hex}"
        self.frame.createOrReplaceTempView(name)
        return name

    def fetch(self, statement: str) -> pa.Table:
        with in_one_line(self.where):
            return self.frame.sparkSession.sql(statement).toArrow()


def spark_relation(session: SparkSession, url: str, domain: Domain) -> SparkRelation:
    """The rows of a file or folder over a domain: Parquet, CSV or FIMI by its name."""
    with in_one_line(f"'{url}'"):
        frame, form = frame_at(session, url)
        if form is Form.WORDS:
            return SparkRelation(_typed(frame, domain), url, flags=True)
        if form is Form.BASKETS:  # lines of item ids
            words = r"filter(split(value, '\\s+'), word -> word <> '')"
            ids = f"transform({words}, word -> TRY_CAST(word AS BIGINT))"
            lists = frame.selectExpr(f"{ids} AS {quoted(domain.names[0])}")
            return SparkRelation(lists, url)
    check_names(domain.names, frame.columns, f"'{url}'")
    return SparkRelation(frame, url)


def _typed(frame: DataFrame, domain: Domain) -> DataFrame:
    """The words of a CSV file with the numbers made numbers."""
    columns = []
    for attribute in domain:
        for name in flat_names(attribute):
            column = quoted(name)
            if isinstance(attribute, Numeric):
                column = (
                    f"TRY_CAST({column} AS {'BIGINT' if attribute.whole else 'DOUBLE'}) AS {column}"
                )
            columns.append(column)
    return frame.selectExpr(*columns)


@dataclass(frozen=True, eq=False)
class PackedBaskets:
    """Baskets as blocks of packed bits: the items of a column, then one bit a cell of each further
    partition.
    """

    domain: Domain
    parts: tuple[Items | Cells, ...]

    @property
    def items(self) -> int:
        """How many bits a row has."""
        return sum(part.size for part in self.parts)

    @property
    def columns(self) -> Domain:
        """The attributes that are read."""
        names = (p.name if isinstance(p, Items) else p.attribute.name for p in self.parts)
        return self.domain.project(dict.fromkeys(names))

    def pack(self, batch: pa.RecordBatch) -> Bits:
        """The bits of a batch of rows."""
        domain = self.columns
        columns = encode_batch(batch.rename_columns(list(domain.names)), domain, 1)
        return TableCounter(Table(domain, columns)).baskets(self.parts).bits

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        most = max(64, PACKED_BITS // max(self.items, 1))
        for batch in batches:
            for start in range(0, batch.num_rows, most):
                with without_values():
                    bits = self.pack(batch.slice(start, most))
                yield pa.record_batch(
                    [pa.array([bits.rows]), pa.array([bits.words.tobytes()])], ["rows", "words"]
                )


@dataclass(frozen=True, eq=False)
class SparkBaskets:
    """Counts of itemsets among the baskets of a Spark frame.

    Each partition packs its baskets once and Spark keeps them, in memory or on disk; a candidate is
    counted block by block where the blocks are, and the counts of all partitions are added up by
    the engine before the driver sees them.
    """

    frame: DataFrame
    packing: PackedBaskets
    rows: int  # how many baskets there are

    @property
    def items(self) -> int:
        """The number of items."""
        return self.packing.items

    @cached_property
    def _packed(self) -> DataFrame:
        from pyspark import StorageLevel

        names = self.packing.columns.names
        numbered = self.frame.select([quoted(name) for name in names]).toDF(
            *map(str, range(len(names)))
        )
        return map_in_arrow(numbered, self.packing, PACKED).persist(StorageLevel.MEMORY_AND_DISK)

    def counts(self, itemsets: NDArray[np.int32]) -> NDArray[np.int64]:
        """The number of baskets that hold each itemset (n, k)."""
        if not len(itemsets) or not itemsets.shape[1]:
            return np.full(len(itemsets), self.rows, dtype=np.int64)
        wanted = self.frame.sparkSession.sparkContext.broadcast(
            np.ascontiguousarray(itemsets, dtype=np.int32)
        )
        counted = map_in_arrow(self._packed, PartitionCounts(wanted, self.items), COUNTED)
        with in_one_line("the baskets"):
            found = counted.groupBy("itemset").sum("count").toArrow()
        wanted.destroy()
        counts = np.zeros(len(itemsets), dtype=np.int64)
        counts[found.column(0).to_numpy()] = found.column(1).to_numpy()
        return counts

    def release(self) -> None:
        """Let Spark forget the packed baskets."""
        self._packed.unpersist()


@dataclass(frozen=True, eq=False)
class PartitionCounts:
    """The counts of the wanted itemsets in the blocks of one partition."""

    wanted: Broadcast[NDArray[np.int32]]
    items: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        itemsets = self.wanted.value
        total = np.zeros(len(itemsets), dtype=np.int64)
        for batch in batches:
            for rows, words in zip(
                batch.column("rows").to_pylist(), batch.column("words"), strict=True
            ):
                block = np.frombuffer(words.as_buffer(), dtype=np.uint64).reshape(self.items, -1)
                total += itemset_counts(Bits(block, rows), itemsets)
        held = np.flatnonzero(total)
        yield pa.record_batch([pa.array(held), pa.array(total[held])], ["itemset", "count"])


@dataclass(frozen=True, eq=False)
class SparkCounter(SqlCounter):
    """Counts by Spark: cells by SQL, itemsets by the bitmaps that each partition keeps."""

    def baskets(self, sources: Sequence[ItemSource]) -> ItemsetCounter:
        assert isinstance(self.relation, SparkRelation)
        if self.relation.flags:  # a CSV file holds one column an item, which SQL counts as they are
            return super().baskets(sources)
        packing = PackedBaskets(self.domain, tuple(sources))
        return SparkBaskets(self.relation.frame, packing, self.rows)


def open_with_spark(session: SparkSession, place: str, *, cache: bool = False) -> Release:
    """The release in a perturbed file or folder that Spark can reach."""
    there = Place(session, place)
    description, provenance = there.description(), there.provenance()
    if description is None or provenance is None:
        raise FileError(
            f"'{place}' carries no mechanism, so how it was perturbed, or whether, is not known",
            hint="perturb it first: sfumato perturb … --engine",
        )
    reports = provenance.mechanism.reports
    kept = KeptCounts.of(provenance.release, reports, there.state) if cache else None
    relation = spark_relation(session, place, reports)
    return Release(SparkCounter(reports, relation, description.get("rows"), kept), provenance)
