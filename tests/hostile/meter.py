"""A meter: runs commands one after the other and says what each took.

It is a small process of its own, because a child's largest memory counts what its parent held when
it was started.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60  # seconds of CPU after which a command is taken to hang, and is ended

PROGRAM = """
import json, os, resource, sys
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (order["patience"], order["patience"]))
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # idle threads would burn what others load it with
        os.chdir(order["folder"])
        for number, name in enumerate((os.devnull, "out", "err")):
            mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(name, mode), number)
        os.execv(order["command"][0], order["command"])
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    print(json.dumps([os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss << 10]))
    sys.stdout.flush()
"""


@dataclass(frozen=True)
class Reading:
    """How a command ended, what it said on standard error, and what it took of CPU and memory."""

    code: int
    said: str
    seconds: float
    memory: int


class Meter:
    """Runs our commands in folders."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-S", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: list[str], folder: Path) -> Reading:
        """Run a command of ours in this folder."""
        command = [sys.executable, "-m", "sfumato", *arguments]
        order = {"command": command, "folder": str(folder), "patience": PATIENCE}
        assert self._server.stdin is not None and self._server.stdout is not None
        print(json.dumps(order), file=self._server.stdin, flush=True)
        code, seconds, memory = json.loads(self._server.stdout.readline())
        said = (folder / "err").read_text(encoding="utf-8", errors="replace")
        return Reading(code, said, seconds, memory)

    def close(self) -> None:
        """Let the process end."""
        self._server.communicate()
