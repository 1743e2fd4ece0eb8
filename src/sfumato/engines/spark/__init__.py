"""Spark, for data that outgrow a machine: sessions, files, and perturbing partition by
partition.
"""

from sfumato.engines.spark.session import is_spark, spark_session
from sfumato.engines.spark.spark_perturb import perturb_frame, perturb_records, perturb_with_spark
from sfumato.engines.spark.spark_records import Form, SparkRecords
from sfumato.engines.spark.storage import Place

__all__ = [
    "Form",
    "Place",
    "SparkRecords",
    "is_spark",
    "perturb_frame",
    "perturb_records",
    "perturb_with_spark",
    "spark_session",
]
