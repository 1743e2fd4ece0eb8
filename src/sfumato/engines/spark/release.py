"""SparkRelease: a release whose rows Spark reads, on this machine or a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato.counting.base import Baskets
from sfumato.counting.sql import SqlCounter
from sfumato.domain import Items
from sfumato.engines.release import EngineRelease
from sfumato.engines.spark.counting import Packing, SparkBaskets, SparkRelation, spark_release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, eq=False)
class SparkRelease(EngineRelease):
    """A release that Spark counts: cells by SQL, itemsets by the bitmaps that each
    partition keeps.
    """

    @cached_property
    def _baskets(self) -> Baskets:
        relation, items = self.counter.relation, self.mechanism.private_reports.attributes[0]
        assert isinstance(relation, SparkRelation) and isinstance(items, Items)
        if relation.flags:  # a CSV file holds one column an item, which SQL counts as they are
            return super()._baskets
        return SparkBaskets(relation.frame, Packing(self.mechanism.reports, (items, *self._public)))


def open_with_spark(session: SparkSession, place: str) -> SparkRelease:
    """The release in a perturbed file or folder that Spark can reach."""
    relation, provenance, rows = spark_release(session, place)
    return SparkRelease(SqlCounter(provenance.mechanism.reports, relation, rows), provenance)
