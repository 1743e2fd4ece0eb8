"""The collector under load: CPU of the server a report, alone and in batches, and how long senders
wait; beside it the same server with an endpoint that stores nothing. Then a start with many reports
in the store, and how long the figures take.

    python -m bench.collector [REPORTS [STORED]]

Each load is measured a few times and the least CPU is shown: on a machine that does other things as
well, all else that moves the figure makes it larger.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONNECTIONS = 64
TRIES = 3
REPORTS_WAITING = 16_000  # at once, of all connections: beyond 20,000 the server says 503
CAMPAIGN = """
name = "bench"
title = { en = "Bench" }
[promise]
gamma = 19
[mechanism]
name = "gamma-diagonal"
"""
COLUMNS, VALUES = 6, 3


def campaign(folder: Path) -> Path:
    """A campaign of six questions with three answers each."""
    blocks = [
        f'[[attribute]]\nname = "q{place}"\ntype = "category"\n'
        f"values = {json.dumps([str(value) for value in range(VALUES)])}\n"
        for place in range(COLUMNS)
    ]
    path = folder / "bench.toml"
    path.write_text(CAMPAIGN + "".join(blocks), encoding="utf-8")
    return path


def serve(folder: str, port: str, storing: str) -> None:
    """The server that is measured, in a process of its own."""
    from sfumato.collect.server.application import App
    from sfumato.collect.server.protocol import GuardedServer
    from sfumato.collect.server.running import ServerSettings, _bound, _config, collector_of
    from sfumato.collect.store import Added, Done

    settings = ServerSettings(
        [str(campaign(Path(folder)))], f"{folder}/bench.db", port=int(port), limited=False
    )
    collector = collector_of(settings)
    if storing == "nothing":
        collector.store.write = lambda work: Done(  # type: ignore[method-assign]
            [Added([body for _, body in batch.reports]) for batch in work.adds], []
        )
    GuardedServer(_config(App.of(collector))).run(sockets=[_bound("127.0.0.1", int(port))])


@contextmanager
def running(folder: Path, storing: str) -> Iterator[tuple[int, int]]:
    """The port and the process number of a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.collector", "--serve", str(folder), str(port), storing]
    process = subprocess.Popen(command)
    try:
        _wait_for(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server does not start")


def cpu_seconds(process: int) -> float:
    """The CPU time that a process has used, its own and the system's for it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def requests(port: int, reports: int, batch: int) -> list[bytes]:
    """Whole requests, made before the clock starts."""
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/v1/campaigns/bench")
    found = json.loads(connection.getresponse().read())["hash"]
    made = []
    for _ in range(reports // batch):
        ids = [base64.urlsafe_b64encode(os.urandom(16))[:22].decode() for _ in range(batch)]
        values = [[octet % VALUES for octet in os.urandom(COLUMNS)] for _ in range(batch)]
        rows = [{"id": i, "values": v} for i, v in zip(ids, values, strict=True)]
        body = json.dumps({"campaign": found, "reports": rows}, separators=(",", ":")).encode()
        head = (
            "POST /v1/campaigns/bench/reports HTTP/1.1\r\nhost: bench\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


async def send(port: int, waiting: list[bytes], times: list[float]) -> None:
    """One connection that sends one request after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while waiting:
        request = waiting.pop()
        start = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - start)
    writer.close()


async def load(port: int, waiting: list[bytes], batch: int) -> list[float]:
    """All requests over many connections; how long each took."""
    times: list[float] = []
    connections = min(CONNECTIONS, REPORTS_WAITING // batch)
    await asyncio.gather(*(send(port, waiting, times) for _ in range(connections)))
    return times


def measure(reports: int, batch: int, storing: str, before: int = 0) -> dict[str, Any]:
    """The figures of one kind of load, on a store that holds some reports already."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), storing) as (port, process):
        if before:
            asyncio.run(load(port, requests(port, before, 1000), 1000))
        warm = requests(port, 20 * batch, batch)
        asyncio.run(load(port, warm, batch))
        waiting = requests(port, reports, batch)
        used, start = cpu_seconds(process), time.perf_counter()
        times = sorted(asyncio.run(load(port, waiting, batch)))
        used, wall = cpu_seconds(process) - used, time.perf_counter() - start
    return {
        "batch": batch,
        "storing": storing,
        "before": before,
        "cpu_us": used / reports * 1e6,
        "per_second": reports / wall,
        "median_ms": statistics.median(times) * 1e3,
        "p99_ms": times[int(0.99 * len(times))] * 1e3,
    }


def best(reports: int, batch: int, storing: str, before: int) -> dict[str, Any]:
    """The figures of the try that took the least CPU."""
    tries = [measure(reports, batch, storing, before) for _ in range(1 if before else TRIES)]
    return min(tries, key=lambda found: found["cpu_us"])


def fill(folder: Path, rows: int) -> None:
    """A store that holds so many reports, written without a server."""
    from sfumato.collect.campaign_file import CampaignFile
    from sfumato.collect.store import Batch, Work, open_store

    store = open_store(f"{folder}/bench.db", create=True)
    number = store.enrol(CampaignFile.load(campaign(folder)))
    # Ids in their order: each batch has the next first bytes, so that pages are filled one by one.
    size = 100_000
    for place in range(rows // size):
        ids = sorted(place.to_bytes(4, "big") + os.urandom(12) for _ in range(size))
        codes = [bytes(octet % VALUES for octet in os.urandom(COLUMNS)) for _ in range(size)]
        store.write(Work([Batch(number, list(zip(ids, codes, strict=True)))]))
    store.close()


def restart(rows: int) -> dict[str, Any]:
    """How long a server takes to start on a store, and its figures after a further report."""
    from http.client import HTTPConnection

    from sfumato.collect.store import new_token, open_store

    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), rows)
        secret, token = new_token("read", "bench")
        store = open_store(f"{folder}/bench.db")
        store.add_token(token)
        store.close()
        start = time.perf_counter()
        with running(Path(folder), "sqlite") as (port, process):
            wall, used = time.perf_counter() - start, cpu_seconds(process)
            times = []
            for _ in range(50):
                asyncio.run(load(port, requests(port, 1, 1), 1))
                connection = HTTPConnection("127.0.0.1", port)
                begun = time.perf_counter()
                path = "/v1/campaigns/bench/figures"
                connection.request("GET", path, headers={"authorization": f"Bearer {secret}"})
                assert connection.getresponse().read()
                times.append((time.perf_counter() - begun) * 1e3)
                connection.close()
    return {"start_s": wall, "cpu_s": used, "figures_ms": sorted(times)}


def main(reports: int = 20_000, stored: int = 10_000_000) -> int:
    """Print the tables."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        f"{'batch':>6} {'storing':>8} {'before':>9} {'CPU µs':>8} {'per s':>9} {'median ms':>10} "
        f"{'p99 ms':>8}"
    )
    for batch, storing, before in (
        (1, "nothing", 0),
        (1, "sqlite", 0),
        (1000, "nothing", 0),
        (1000, "sqlite", 0),
        (1000, "sqlite", 1_000_000),
    ):
        found = best(reports if batch == 1 else 10 * reports, batch, storing, before)
        print(
            f"{batch:6} {storing:>8} {before:9,} {found['cpu_us']:8.1f} {found['per_second']:9,.0f}"
            f" {found['median_ms']:10.1f} {found['p99_ms']:8.1f}",
            flush=True,
        )
    found = restart(stored)
    times = found["figures_ms"]
    print(
        f"start with {stored:,} reports: {found['start_s']:.1f} s, {found['cpu_s']:.1f} s of CPU; "
        f"figures: median {statistics.median(times):.0f} ms, longest {times[-1]:.0f} ms"
    )
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:5])
    else:
        sys.exit(main(*map(int, sys.argv[1:3])))
