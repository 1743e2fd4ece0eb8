"""The one Spark of all tests that need one: a process has one Java machine, and what it was started
with stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BATCH = 250  # rows of an Arrow batch


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Spark writes, of its own and of a test's."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def session(folder: Path) -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from sfumato.engines.spark import spark_session

    (folder / "events").mkdir()
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",  # planning again costs more than a few thousand rows
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH),
        "spark.local.dir": str(folder / "local"),
        "spark.io.encryption.enabled": "false",  # what a key must not be in can be read
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }
    running = spark_session("local[2,4]", settings)  # two threads; a task may fail three times
    yield running
    running.stop()
