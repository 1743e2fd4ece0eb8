"""A warm start: a process that has loaded what other people wrote, and runs pytest in children of
its own, so that a planted mistake does not cost the loading of all libraries anew.

It reads orders, one line of JSON each: the arguments of pytest, words of the environment, and the
seconds to wait; and answers with whether all tests passed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time

import pytest

LOADED = (
    "numpy",
    "numpy.testing",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.special",
    "scipy.stats",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "pandas",
    "duckdb",
    "sqlglot",
    "hypothesis.extra.numpy",
    "cryptography.hazmat.primitives.ciphers",
    "rich.table",
    "typer.testing",
    "xdist",
)


def load() -> None:
    for name in LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def child(arguments: list[str], environment: dict[str, str]) -> None:
    """Run pytest in a session of its own, silently, and end with its code."""
    code = 70
    try:
        os.setsid()
        os.environ.update(environment)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        code = int(pytest.main(arguments))
    finally:
        os._exit(code)


def passed(pid: int, patience: float) -> bool:
    """Whether a child ends well in time; what it started is ended with it."""
    until = time.monotonic() + patience
    ended, status = 0, 1
    while not ended and time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not ended:
        os.waitpid(pid, 0)
    return bool(ended) and os.waitstatus_to_exitcode(status) == 0


def serve() -> None:
    load()
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(order["arguments"], order["environment"])
        print(json.dumps(passed(pid, order["patience"])), flush=True)


if __name__ == "__main__":
    serve()
