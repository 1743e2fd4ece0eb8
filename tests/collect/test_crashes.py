"""Kill -9 under load, again and again: what was acknowledged is there, once, and
nothing is lost.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest
from tests.collect.speaking import identity

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.server.parsing import identities
from sfumato.collect.tally import CampaignTally

ROOT = Path(__file__).resolve().parent.parent.parent
SENDERS = 6
FEWEST = 11  # reports that are acknowledged between two deaths: the server is under load
PATIENCE = 60.0  # seconds for them, on a machine that does much else at the same time


@dataclass
class Killed:
    """The server's life: started, killed, started again."""

    process: subprocess.Popen[str]
    port: int
    child: int = 0

    def start(self) -> None:
        self._say("start")
        told = self._heard()
        assert told.isdigit(), f"the server does not start: {told}"
        self.child = int(told)

    def kill(self) -> None:
        """Kill the server; its parent has not waited for it yet, so the number is still its own."""
        child, self.child = self.child, 0
        assert child > 1
        os.kill(child, signal.SIGKILL)
        self._say(str(child))
        assert self._heard() == "gone"

    def _say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def _heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def killable(campaign: Path, store: Path, *kind: str) -> Iterator[Killed]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.collect.killable", str(campaign), str(store), str(port)]
    process = subprocess.Popen(
        [*command, *kind], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    server = Killed(process, port)
    try:
        yield server
    finally:
        if server.child:
            server.kill()
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


@dataclass
class Sender:
    """Sends batches, and the same bytes again until they are acknowledged."""

    port: int
    hash: str
    rng: random.Random
    bodies: dict[str, list[int]] = field(default_factory=dict)  # every report ever sent
    acknowledged: set[str] = field(default_factory=set)
    waiting: list[Any] = field(default_factory=list)
    stop: bool = False

    def run(self) -> None:
        connection: HTTPConnection | None = None
        while not self.stop:
            batch = self.waiting[0] if self.waiting else self._batch()
            if not self.waiting:
                self.waiting.append(batch)
            try:
                connection = connection or HTTPConnection("127.0.0.1", self.port, timeout=10)
                self._send(connection, batch)
            except (OSError, HTTPException):
                connection = None
                time.sleep(0.005)
        if connection is not None:
            connection.close()

    def settle(self) -> None:
        """Send what was never acknowledged."""
        for batch in list(self.waiting):
            self._send(HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE), batch)

    def _batch(self) -> list[dict[str, Any]]:
        new = [
            {"id": identity(), "values": [self.rng.randrange(3), self.rng.randrange(3)]}
            for _ in range(self.rng.choice([1, 1, 5, 40]))
        ]
        self.bodies |= {report["id"]: report["values"] for report in new}
        known = self.rng.sample(sorted(self.acknowledged), min(3, len(self.acknowledged)))
        old = [{"id": each, "values": self.bodies[each]} for each in known]
        batch = [*new, *old, *new[:1]]  # some of before, one of them twice
        self.rng.shuffle(batch)
        return batch

    def _send(self, connection: HTTPConnection, batch: list[dict[str, Any]]) -> None:
        body = json.dumps({"campaign": self.hash, "reports": batch})
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/campaigns/health/reports", body, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        if answer.status == 200:
            assert found["refused"] == [], found
            assert found["stored"] + found["repeated"] == len(batch)
            self.acknowledged |= {report["id"] for report in batch}
            self.waiting.remove(batch)


def stored_reports(store: Path) -> dict[bytes, bytes]:
    connection = sqlite3.connect(store)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rows = connection.execute("SELECT id, body FROM report").fetchall()
    connection.close()
    assert len({key for key, _ in rows}) == len(rows)
    return dict(rows)


def lost_after(campaign: Path, store: Path, kills: int, *kind: str) -> int:
    """Kill a server under load so many times; how many acknowledged reports are gone."""
    found = CampaignFile.load(campaign).campaign
    rng = random.Random(kills)
    with killable(campaign, store, *kind) as server:
        server.start()
        senders = [Sender(server.port, found.hash, random.Random(seed)) for seed in range(SENDERS)]
        # Daemons: where the trial fails, they must not keep the process alive.
        threads = [threading.Thread(target=sender.run, daemon=True) for sender in senders]
        for thread in threads:
            thread.start()
        lost = 0
        for _ in range(kills):
            wanted = _acknowledged(senders) + FEWEST
            time.sleep(rng.uniform(0.02, 0.25))
            end = time.monotonic() + PATIENCE
            while _acknowledged(senders) < wanted and time.monotonic() < end:
                time.sleep(0.005)
            before = [set(sender.acknowledged) for sender in senders]
            server.kill()
            server.start()
            if kind:  # the mutant is caught by what is missing right after the restart
                there = stored_reports(store)
                ids = [i for each in before for i in each]
                lost += sum(key not in there for key in identities(ids) or [])
        for sender in senders:
            sender.stop = True
        for thread in threads:
            thread.join()
        if not kind:
            for sender in senders:
                sender.settle()
        server.kill()
    there = stored_reports(store)
    for sender in senders:
        for text, key in zip(sender.bodies, identities(list(sender.bodies)) or [], strict=True):
            if text in sender.acknowledged and key not in there:
                lost += 1
            if key in there:
                assert there[key] == bytes(sender.bodies[text])
    if not kind:
        assert set(there) == {k for s in senders for k in identities(list(s.bodies)) or []}
        _check_totals(campaign, store, there)
        assert len(there) >= FEWEST * kills
    return lost


def _acknowledged(senders: list[Sender]) -> int:
    return sum(len(sender.acknowledged) for sender in senders)


def _check_totals(campaign: Path, store: Path, there: dict[bytes, bytes]) -> None:
    """The totals of the days and the figures are those of the rows."""
    connection = sqlite3.connect(store)
    stored = connection.execute("SELECT sum(count) FROM daily WHERE outcome = 'stored'")
    assert stored.fetchone() == (len(there),)
    connection.close()
    tally = CampaignTally(CampaignFile.load(campaign).campaign.mechanism)
    tally.recount([b"".join(there.values())])
    assert tally.rows == len(there)


def test_nothing_acknowledged_is_lost_and_nothing_is_doubled(campaign_path, tmp_path):
    assert lost_after(campaign_path, tmp_path / "c.db", 12) == 0


def test_acknowledging_before_the_commit_would_be_noticed(campaign_path, tmp_path):
    """Whether a death falls between the two is chance: there are many, until one does."""
    stores = (tmp_path / f"{number}.db" for number in range(10))
    assert any(lost_after(campaign_path, store, 12, "hasty") for store in stores)


@pytest.mark.soak
def test_a_thousand_kills(campaign_path, tmp_path):
    for round_ in range(10):  # ten stores of a hundred kills, so that none grows without end
        assert lost_after(campaign_path, tmp_path / f"{round_}.db", 100) == 0
