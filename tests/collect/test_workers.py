"""Several workers that share a PostgreSQL database: one store, one set of figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.collect.speaking import Speaker, first_token, some_reports

from sfumato.collect.campaign_file import CampaignFile


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
        for _ in range(300):
            try:
                if speaker.get("/readyz").status == 200:
                    break
            except OSError:
                time.sleep(0.1)
        yield speaker, process.pid
    finally:
        process.terminate()
        process.wait(60)


def children(process: int) -> list[int]:
    """The workers of a server: its children that listen."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    found = [int(word) for word in text.split()]
    return [
        child for child in found
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]  # fmt: skip


def figures(speaker: Speaker, token: str, wanted: int) -> dict:
    """The figures once they count so many reports: workers count anew after a second."""
    for _ in range(100):
        found = speaker.get(speaker.campaign("/figures"), authorization=f"Bearer {token}").json
        if found["reports"] == wanted:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{found['reports']} reports are counted, not {wanted}")


def test_workers_share_what_they_take(postgres_database, campaign_path):
    token = first_token(postgres_database)
    with workers(campaign_path, postgres_database, 2) as (speaker, process):
        batches = [some_reports(25, seed) for seed in range(12)]

        def send(batch) -> None:
            for _ in range(3):  # the same again, to whichever worker is free
                assert speaker.send(batch).status == 200

        threads = [threading.Thread(target=send, args=(batch,)) for batch in batches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gone = batches[0][0]["id"]
        speaker.ask("POST", speaker.campaign("/withdrawals"), {"id": gone})
        seen = [figures(speaker, token, 299)["questions"] for _ in range(6)]
        assert all(each == seen[0] for each in seen)
        assert len(children(process)) == 2

        os.kill(children(process)[0], signal.SIGKILL)  # another takes its place
        later = some_reports(10, 99)
        for _ in range(100):
            try:
                if speaker.send(later).status == 200 and len(children(process)) == 2:
                    break
            except OSError:
                time.sleep(0.1)
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
        for _ in range(100):
            answer = speaker.send(some_reports(5, 7))
            if answer.status == 200:
                break
            time.sleep(0.1)
        assert answer.json["stored"] == 5
