"""Python and JavaScript, each asked in a process of its own what it makes of programs: one that
hangs, breaks or takes all memory is noted, and the next is asked.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import sfumato
from sfumato.errors import SfumatoError
from sfumato.mechanisms.program import Program
from sfumato.mechanisms.steps import Draws

STATIC = Path(sfumato.__file__).parent / "collect" / "static"
RUNNER = Path(__file__).with_name("hostile.mjs")
PATIENCE = 5.0  # seconds of computing for one program, after which a side hangs
MOST_DEATHS = 20  # one after the other
SILENCE = 300  # seconds of nothing, not even computing
MEMORY = 2 << 30  # bytes that a side may take beyond what it began with

Job = dict[str, Any]  # a program, records, streams and reports to try
Answer = dict[str, Any]


def stream(byte: int, count: int, seed: int) -> Callable[[], bytes]:
    """Bytes that are the same everywhere, as in hostile.mjs."""
    state, left = seed, count

    def refill() -> bytes:
        nonlocal state, left
        found = bytearray()
        for _ in range(7):
            left -= 1
            if left >= 0:
                found.append(byte)
                continue
            state = (state * 1664525 + 1013904223) % (1 << 32)
            found.append(state >> 24)
        return bytes(found)

    return refill


def _said(work: Callable[..., Any], *about: Any) -> Any:
    try:
        return work(*about)
    except SfumatoError as error:
        return {"refused": str(error)}
    except Exception as error:
        return {"broke": f"{type(error).__name__}: {str(error)[:200]}"}


def python_says(job: Job) -> Answer:
    """What the Python client makes of a program."""
    begun = time.process_time()
    answer: Answer = _said(lambda: _shown(Program.from_dict(job["program"])))
    program = answer.pop("program", None)
    if program is not None:
        answer["reports"] = [
            [_said(_randomised, program, record, bytes_) for bytes_ in job["streams"]]
            for record in job["records"]
        ]
        answer["gives"] = [_said(program.gives, report) for report in job["asked"]]
        answer["gives_own"] = [
            [_said(program.gives, report) for report in row if isinstance(report, list)]
            for row in answer["reports"]
        ]
    return answer | {"seconds": time.process_time() - begun}


def _shown(program: Program) -> Answer:
    """What is sent as it is, and gamma where nothing, all or one of that is named."""
    as_is = list(program.sent_as_is)
    values = [(place, "value") for place, _ in as_is]
    named = [[], as_is, values, *([each] for each in as_is)]
    gammas = [_ratio(program.gamma_beside(each)) for each in named]
    return {"asIs": as_is, "gammas": gammas, "program": program}


def _randomised(program: Program, record: Any, bytes_: Any) -> Any:
    return program.randomise_one(record, Draws(stream(**bytes_)))


def _ratio(gamma: Fraction | float) -> list[str]:
    return ["1", "0"] if gamma == math.inf else [f"{part:x}" for part in gamma.as_integer_ratio()]


def python_side(jobs: Sequence[Job]) -> list[Answer]:
    """What Python says of each, in a copy of this process, with whatever was changed in it."""

    def begin(first: int) -> tuple[int, int]:
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(writing)
            return child, reading
        try:
            os.close(reading)
            _limit_memory()
            for job in jobs[first:]:
                _write(writing, json.dumps(python_says(job)) + "\n")
        finally:
            os._exit(0)

    return list(_answers(len(jobs), begin))


def javascript_side(jobs: Sequence[Job], folder: Path, static: Path = STATIC) -> list[Answer]:
    """What JavaScript says of each, in Node.js."""
    file = folder / "jobs.jsonl"
    file.write_text("".join(_spelt(job) + "\n" for job in jobs))
    left = []

    def begin(first: int) -> tuple[int, int]:
        command = [
            "node",
            "--max-old-space-size=1500",
            str(RUNNER),
            str(static),
            str(file),
            str(first),
        ]
        errors = (folder / "node.err").open("ab")
        node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        assert node.stdout is not None
        left.append(node)
        return node.pid, node.stdout.fileno()

    try:
        return list(_answers(len(jobs), begin))
    finally:
        for node in left:
            with suppress(Exception):
                node.wait(0.1)


def _answers(count: int, begin: Callable[[int], tuple[int, int]]) -> Iterator[Answer]:
    """The lines of a process; where it falls silent, it is ended and begun anew behind that job."""
    done = deaths = 0
    while done < count:
        assert deaths < MOST_DEATHS, "the client does not even start"
        child, reading = begin(done)
        waiting = b""
        try:
            while done < count:
                more = _heard(child, reading)
                if not more:
                    yield {"hangs" if more is None else "died": True}
                    done += 1
                    deaths += 1
                    break
                *lines, waiting = (waiting + more).split(b"\n")
                for line in lines:
                    yield json.loads(line)
                done += len(lines)
                deaths = 0
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
            with suppress(OSError):
                os.close(reading)


def _heard(child: int, reading: int) -> bytes | None:
    """What comes next; nothing where the process has ended, None where it computes and computes."""
    begun = _computed(child)
    for _ in range(SILENCE):
        if select.select([reading], [], [], 1.0)[0]:
            return os.read(reading, 1 << 20)
        if _computed(child) - begun > PATIENCE:
            return None
    return None


def _computed(process: int) -> float:
    """Seconds that a process has computed: on a busy machine it waits for most of the time."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _write(to: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(to, data) :]


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _spelt(job: Job) -> str:
    """JSON that every reader takes: NaN and the infinities, which it has no words for, are spelt
    out. No string of a job holds these words.
    """
    return re.sub(r"-?\b(NaN|Infinity)\b", r'{"$number": "\g<0>"}', json.dumps(job))
