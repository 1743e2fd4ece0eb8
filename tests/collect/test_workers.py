"""Several workers that share a PostgreSQL database: one store, one set of figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

from tests.collect.speaking import Answer, Speaker, first_token, some_reports

from sfumato.collect.campaign_file import CampaignFile

PATIENCE = 120.0  # seconds: of a machine that does much else at the same time
T = TypeVar("T")


def eventually(look: Callable[[], T], wanted: Callable[[T], Any], what: str) -> T:
    """What is seen once it is as wanted; a worker that is being started or stopped may hang up."""
    end, seen = time.monotonic() + PATIENCE, None
    while time.monotonic() < end:
        with suppress(OSError, HTTPException):
            seen = look()
            if wanted(seen):
                return seen
        time.sleep(0.1)
    raise AssertionError(f"{what}: {seen}")


def delivered(speaker: Speaker, reports: list[dict[str, Any]]) -> Answer:
    """The answer to reports that are sent, as every client does, until they are taken."""
    return eventually(lambda: speaker.send(reports), lambda a: a.status == 200, "not taken")


@contextmanager
def workers(campaign: Path, store: str, number: int) -> Iterator[tuple[Speaker, int]]:
    command = [sys.executable, "-m", "sfumato", "serve", str(campaign), "--store", store]
    process = subprocess.Popen(
        [*command, "--workers", str(number), "--port", "0", "--no-limit", "--json"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        found = CampaignFile.load(campaign).campaign
        speaker = Speaker(address, found.name, found.hash)
        eventually(lambda: speaker.get("/readyz"), lambda a: a.status == 200, "not ready")
        yield speaker, process.pid
    finally:
        process.terminate()
        process.wait(60)


def children(process: int) -> set[int]:
    """The workers of a server: its children that listen."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    found = set()
    for child in map(int, text.split()):
        with suppress(OSError):  # it has gone
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.add(child)
    return found


def figures(speaker: Speaker, token: str, wanted: int) -> dict:
    """The figures once they count so many reports: workers count anew after a second."""

    def look() -> dict:
        return speaker.get(speaker.campaign("/figures"), authorization=f"Bearer {token}").json

    return eventually(look, lambda found: found["reports"] == wanted, f"not {wanted} reports")


def test_workers_share_what_they_take(postgres_database, campaign_path):
    token = first_token(postgres_database)
    with workers(campaign_path, postgres_database, 2) as (speaker, process):
        batches = [some_reports(25, seed) for seed in range(12)]

        def send(batch: list[dict[str, Any]]) -> int:
            """The same three times, to whichever worker is free; how many were stored."""
            return sum(delivered(speaker, batch).json["stored"] for _ in range(3))

        with ThreadPoolExecutor(len(batches)) as senders:
            assert list(senders.map(send, batches)) == [25] * len(batches)
        gone = {"id": batches[0][0]["id"]}
        reply = speaker.ask("POST", speaker.campaign("/withdrawals"), gone)
        assert reply.json == {"withdrawn": True}
        seen = [figures(speaker, token, 299)["questions"] for _ in range(6)]
        assert all(each == seen[0] for each in seen)

        before = eventually(lambda: children(process), lambda found: len(found) == 2, "workers")
        killed = min(before)
        os.kill(killed, signal.SIGKILL)  # another takes its place
        later = some_reports(10, 99)
        delivered(speaker, later)
        eventually(
            lambda: children(process),
            lambda found: len(found) == 2 and killed not in found,
            "no other worker",
        )
        assert delivered(speaker, later).json["repeated"] == 10
        figures(speaker, token, 309)


def test_a_worker_says_when_the_database_is_away(postgres_database, campaign_path):
    import psycopg

    with workers(campaign_path, postgres_database, 1) as (speaker, _):
        assert speaker.send(some_reports(5)).json["stored"] == 5
        start, _, query = postgres_database.partition("?")
        name = start.rpartition("/")[2]
        main = f"{start.rpartition('/')[0]}/postgres" + (f"?{query}" if query else "")
        with psycopg.connect(main, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            refused = speaker.send(some_reports(5))
            assert refused.status == 503 and "retry-after" in refused.headers
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert delivered(speaker, some_reports(5, 7)).json["stored"] == 5
