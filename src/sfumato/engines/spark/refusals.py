"""Refusals: what goes wrong in a worker, told without any value, for a cluster's logs are read by
others than the owner.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sfumato.errors import DataError, ServerError, SfumatoError

REFUSED = "sfumato refused: "  # what stands before the JSON of an error that a worker raises
SHOWN = ("row", "line", "column", "kind", "found")  # the facts that hold no value of a record


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
        found = re.search(re.escape(REFUSED) + r"(\{.*?\})", _whole(error))
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
        f"{at} of {where}{column}: {facts.get('found', 'a value that the schema does not take')}",
        hint=(
            "it is not shown here because Spark keeps a log; perturb a sample without --engine "
            "to see it"
        ),
        **facts,
    )
