"""Disks that are full, fail to flush, or lose power: the contract of the store holds."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.store import Batch, Work
from sfumato.collect.store.sqlite_store import SqliteStore
from sfumato.collect.writer import BusyError, ReportWriter
from sfumato.errors import StoreError

pytest.importorskip("apsw", reason="apsw, which lets a disk fail on purpose, is not installed")

from tests.collect.failing import FailingDisk, Kept
from tests.collect.speaking import Speaker, some_reports


def open_on(disk: FailingDisk, path: Path) -> SqliteStore:
    return SqliteStore.open(path, create=True, connect=disk.connect)


def stored(path: Path, number: int = 1) -> bytes:
    """What is there after a restart, looked at by Python's own SQLite."""
    store = SqliteStore.open(path, serve=True)
    assert store._rows("PRAGMA integrity_check") == [("ok",)]
    found = b"".join(store.bodies(number))
    store.close()
    return found


def batch(number: int, rng: random.Random) -> Batch:
    rows = [(rng.randbytes(16), rng.randbytes(2)) for _ in range(rng.choice([1, 3, 30]))]
    return Batch(number, rows)


def power_losses(folder: Path, file: CampaignFile, trials: int, seed: int, spoil: str = "") -> int:
    """Cut the power at random moments of a busy store; how many acknowledged reports are gone."""
    rng, lost = random.Random(seed), 0
    for trial in range(trials):
        disk = FailingDisk()
        here = folder / f"{seed}-{trial}"
        here.mkdir()
        store = open_on(disk, here / "c.db")
        number = store.enrol(file)
        if spoil:
            store._writing.execute(spoil)
        acknowledged: dict[bytes, bytes] = {}
        tried: dict[bytes, bytes] = {}
        cut = disk.operations + rng.randrange(5, 120)
        known: dict[bytes, bytes] = {}
        image = folder / f"{seed}-{trial}-after"

        def moment(
            at: int, cut: int = cut, image: Path = image, disk: FailingDisk = disk,
            known: dict[bytes, bytes] = known, acknowledged: dict[bytes, bytes] = acknowledged,
        ) -> None:  # fmt: skip
            if at == cut:
                disk.after_power_loss(image, rng)
                known.update(acknowledged)

        disk.moment = moment
        while disk.operations < cut:
            work = batch(number, rng)
            tried |= dict(work.reports)
            store.write(Work([work]))
            acknowledged |= dict(work.reports)
            if rng.random() < 0.1:
                store.cut_log()
        store.close()
        lost += _missing(image / "c.db", known, tried)
    return lost


def _missing(path: Path, known: dict[bytes, bytes], tried: dict[bytes, bytes]) -> int:
    store = SqliteStore.open(path, serve=True)
    assert store._rows("PRAGMA integrity_check") == [("ok",)]
    there = {bytes(i): bytes(b) for i, b in store._rows("SELECT id, body FROM report")}
    store.close()
    assert all(tried[identity] == body for identity, body in there.items())  # whole, or absent
    return sum(identity not in there for identity in known)


def test_power_loss_takes_nothing_that_was_acknowledged(tmp_path, campaign_path):
    assert power_losses(tmp_path, CampaignFile.load(campaign_path), 25, seed=1) == 0


def test_a_store_that_does_not_flush_would_be_noticed(tmp_path, campaign_path):
    file = CampaignFile.load(campaign_path)
    assert power_losses(tmp_path, file, 10, seed=2, spoil="PRAGMA synchronous = NORMAL") > 0


@pytest.mark.soak
def test_many_power_losses(tmp_path, campaign_path):
    assert power_losses(tmp_path, CampaignFile.load(campaign_path), 1000, seed=3) == 0


# --- through the writer, as the server sees it


class Taking:
    """A writer over a failing disk, in an event loop."""

    def __init__(self, store: SqliteStore, number: int) -> None:
        self.number = number
        self.landed = 0
        self.writer = ReportWriter(store, self._landed)

    def _landed(self, work, done) -> None:
        self.landed += sum(len(added.bodies) for added in done.added)

    async def add(self, *reports: tuple[bytes, bytes]):
        return await self.writer.add(self.number, reports)

    async def recovered(self) -> None:
        for _ in range(1200):  # a minute, for a busy machine; it takes a moment
            if self.writer.failed is None:
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the writer does not recover")


def with_writer(disk: FailingDisk, path: Path, file: CampaignFile, trial) -> None:
    async def run() -> None:
        store = open_on(disk, path)
        taking = Taking(store, store.enrol(file))
        try:
            await trial(taking)
        finally:
            disk.room, disk.failing_flushes = None, 0
            await taking.writer.stop()
            store.close()

    asyncio.run(run())


def test_a_full_disk_fails_every_waiter_and_writes_nothing(tmp_path, campaign_path, monkeypatch):
    monkeypatch.setattr("sfumato.collect.writer.PROBE_SECONDS", 0.05)
    disk, path = FailingDisk(), tmp_path / "c.db"
    ids = [os.urandom(16) for _ in range(20)]

    async def trial(taking: Taking) -> None:
        await taking.add((ids[0], b"\0\0"))
        disk.room = 100
        waiting = [asyncio.ensure_future(taking.add((i, b"\1\1"))) for i in ids[1:]]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, BusyError) for each in found), found
        assert "full" in (taking.writer.failed or "")
        with pytest.raises(BusyError):
            await taking.add((ids[1], b"\1\1"))
        assert taking.landed == 1
        disk.room = None
        await taking.recovered()
        added = await taking.add(*((identity, b"\1\1") for identity in ids[1:]))
        assert len(added.bodies) == 19 and taking.landed == 20

    with_writer(disk, path, CampaignFile.load(campaign_path), trial)
    assert len(stored(path)) == 40


def test_a_failed_flush_is_no_commit_and_what_it_left_is_flushed_anew(
    tmp_path, campaign_path, monkeypatch
):
    """After a failed flush the kernel calls the pages clean: only what is written again is safe."""
    monkeypatch.setattr("sfumato.collect.writer.PROBE_SECONDS", 0.05)
    file = CampaignFile.load(campaign_path)
    for seed in range(8):
        disk, path = FailingDisk(), tmp_path / f"{seed}.db"
        rng = random.Random(seed)
        first, second = rng.randbytes(16), rng.randbytes(16)
        image = tmp_path / f"after-{seed}"

        async def trial(
            taking: Taking, disk=disk, first=first, second=second, image=image, rng=rng
        ):
            disk.failing_flushes = 1 + rng.randrange(3)
            with pytest.raises(BusyError):
                await taking.add((first, b"\0\1"))
            await taking.recovered()
            again = await taking.add((first, b"\0\1"), (second, b"\1\1"))
            assert len(again.bodies) + again.repeated == 2
            disk.after_power_loss(image, rng)

        with_writer(disk, path, file, trial)
        assert sorted(stored(image / path.name)) == sorted(b"\0\1\1\1")


def test_a_process_that_dies_after_a_failed_flush_leaves_nothing_half(tmp_path, campaign_path):
    """What the log kept in memory counts as committed for whoever opens the file next, so opening
    it must put it on disk before anyone is told "repeated".
    """
    file = CampaignFile.load(campaign_path)
    disk, path = FailingDisk(), tmp_path / "c.db"
    store = open_on(disk, path)
    number = store.enrol(file)
    disk.failing_flushes = 1
    with pytest.raises(StoreError):
        store.write(Work([Batch(number, [(b"i" * 16, b"\0\1")])]))
    # The process dies, and with it what readers of the log shared; another opens the files as the
    # kernel shows them, which is not how the disk holds them.
    second, moved = FailingDisk(), tmp_path / "second" / "c.db"
    moved.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{moved}{end}")
        second.files[f"{moved}{end}"] = Kept(bytearray(disk.files[f"{path}{end}"].durable))
    again = SqliteStore.open(moved, serve=True, connect=second.connect)
    done = again.write(Work([Batch(number, [(b"i" * 16, b"\0\1")])]))
    assert (list(done.added[0].bodies), done.added[0].repeated) == ([], 1)  # the kernel had it
    second.after_power_loss(tmp_path / "after", random.Random(1))
    assert stored(tmp_path / "after" / "c.db") == b"\0\1"


def test_a_locked_store_is_busy_and_not_broken(tmp_path, campaign_path, monkeypatch):
    import sqlite3

    monkeypatch.setattr("sfumato.collect.store.sqlite_store.PATIENCE", 0.05)
    monkeypatch.setattr("sfumato.collect.writer.PROBE_SECONDS", 0.05)
    path = tmp_path / "c.db"

    async def trial() -> None:
        store = SqliteStore.open(path, create=True)
        taking = Taking(store, store.enrol(CampaignFile.load(campaign_path)))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError):
            await taking.add((b"i" * 16, b"\0\0"))
        other.execute("ROLLBACK")
        other.close()
        await taking.recovered()
        assert (await taking.add((b"i" * 16, b"\0\0"))).bodies == [b"\0\0"]
        await taking.writer.stop()
        store.close()

    asyncio.run(trial())


def test_a_queue_without_end_is_refused(tmp_path, campaign_path, monkeypatch):
    monkeypatch.setattr("sfumato.collect.writer.MOST_WAITING", 10)

    async def trial() -> None:
        store = SqliteStore.open(tmp_path / "c.db", create=True)
        taking = Taking(store, store.enrol(CampaignFile.load(campaign_path)))
        rows = [(os.urandom(16), b"\0\0") for _ in range(6)]
        first = taking.writer.add(taking.number, rows)
        with pytest.raises(BusyError, match="waiting"):
            taking.writer.add(taking.number, rows)
        assert len((await first).bodies) == 6
        assert taking.writer.waiting == 0
        await taking.writer.stop()
        with pytest.raises(BusyError, match="stopping"):
            taking.writer.add(taking.number, rows)
        store.close()

    asyncio.run(trial())


@pytest.mark.skipif(sys.platform != "linux", reason="limits a file's size as Linux does")
def test_the_server_says_503_while_the_disk_is_full(tmp_path, campaign_path):
    """A real server whose files may not grow: nothing is lost, and it takes reports again."""
    command = [
        sys.executable, "-m", "sfumato", "serve", str(campaign_path), "--store",
        str(tmp_path / "c.db"), "--port", "0", "--no-limit", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        import json

        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        campaign = CampaignFile.load(campaign_path).campaign
        speaker = Speaker(address, campaign.name, campaign.hash)
        assert speaker.send(some_reports(10)).status == 200
        size = (tmp_path / "c.db-wal").stat().st_size
        _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, most))
        refused = speaker.send(some_reports(1000))
        assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
        assert refused.json["error"]["kind"] == "busy"
        assert speaker.get("/readyz").status == 503 and speaker.get("/healthz").status == 200
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
        for _ in range(600):
            if speaker.get("/readyz").status == 200:
                break
            time.sleep(0.1)
        assert speaker.send(some_reports(1000)).json["stored"] == 1000
    finally:
        process.terminate()
        process.wait(30)
    assert len(stored(tmp_path / "c.db")) == 2 * 1010
