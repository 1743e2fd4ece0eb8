"""Runs commands, each in a process of its own, and says what it took: a process that has loaded all
commands is forked for each, so that what is measured is the reading and not the loading.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sfumato.untrusted import LONGEST_WAIT

PATIENCE = 10  # seconds after which a command is taken to wait for ever, and is ended

PROGRAM = """
import json, os, signal, sys, time
import sfumato.cli, sfumato.cli.commands as commands
for name in commands.COMMANDS:
    commands.loaded(name)
import sfumato.collect.client, sfumato.collect.campaign_file, sfumato.collect.store
import sfumato.api, pyarrow.csv, pyarrow.parquet, uvicorn, duckdb
if os.fork() == 0:
    os._exit(0)
ready = os.wait4(-1, 0)[2].ru_maxrss
print(time.process_time(), flush=True)
for line in sys.stdin:
    order, start = json.loads(line), time.monotonic()
    child = os.fork()
    if child == 0:
        signal.alarm(order["patience"])
        os.chdir(order["folder"])
        for number, name in enumerate((os.devnull, "out", "err")):
            mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(name, mode), number)
        try:
            sfumato.cli.app(order["arguments"])
        except SystemExit as end:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(end.code or 0)
        finally:
            os._exit(77)
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    busy, whole = used.ru_utime + used.ru_stime, time.monotonic() - start
    above = max(0, used.ru_maxrss - ready) << 10
    print(json.dumps([code, min(whole, busy + order["wait"]), above]), flush=True)
"""


class Forked:
    """Runs commands, each in a process forked from one that is ready."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._server.stdout is not None
        self.loading = float(self._server.stdout.readline())  # seconds of CPU

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        patience: int = PATIENCE,
        wait: float = LONGEST_WAIT,
    ) -> tuple[int, str, float, int]:
        """How a command ended, what it said, and what it took of time (of CPU, and at most so much
        of waiting) and of memory.
        """
        assert self._server.stdin is not None and self._server.stdout is not None
        order = {
            "arguments": list(arguments),
            "folder": str(folder),
            "patience": patience,
            "wait": wait,
        }
        print(json.dumps(order), file=self._server.stdin, flush=True)
        code, seconds, memory = json.loads(self._server.stdout.readline())
        said = (folder / "err").read_text(encoding="utf-8", errors="replace")
        return code, said, seconds, memory

    def close(self) -> None:
        self._server.communicate()
