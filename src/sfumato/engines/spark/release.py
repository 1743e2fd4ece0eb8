"""Opening a release that Spark reads, on this machine or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.counting.sql import SqlCounter
from sfumato.counting.sql.kept import KeptCounts
from sfumato.engines.spark.counting import PackedBaskets, SparkBaskets, SparkRelation, spark_release
from sfumato.engines.spark.storage import Place
from sfumato.observation import ItemsetCounter, ItemSource
from sfumato.source import Release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    relation, provenance, rows = spark_release(session, place)
    reports = provenance.mechanism.reports
    kept = None
    if cache:
        kept = KeptCounts.of(provenance.release, reports, Place(session, place).state)
    return Release(SparkCounter(reports, relation, rows, kept), provenance)
