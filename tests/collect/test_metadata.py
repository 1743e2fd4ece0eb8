"""Nothing about who sent a report, when, or in which order, is left anywhere."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pytest
from tests.collect.speaking import Speaker, identity

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.server.parsing import identities
from sfumato.collect.store.sqlite import SqliteStore

REPORTS = 10_000
AGENT = "SpiderMonkeyTestAgent/7.31"
SENDER = "2001:db8:7a3c:51e9:b64d:2f18:93c5:e07b"
COOKIE = "session=4be1c0ffee"


def send_all(speaker: Speaker) -> list[str]:
    """Ten thousand reports, a few single ones with tell-tale headers among them."""
    ids = []
    headers = {
        "user-agent": AGENT, "x-forwarded-for": SENDER, "cookie": COOKIE,
        "referer": "https://example.org/tell-tale-page", "accept-language": "xx-tell-tale",
    }  # fmt: skip
    for start in range(0, REPORTS, 200):
        some = [identity() for _ in range(200)]
        reports = [{"id": each, "values": [(start // 200) % 3, 0]} for each in some]
        for part in (reports[:1], reports[1:]):
            body = {"campaign": speaker.hash, "reports": part}
            found = speaker.ask("POST", speaker.campaign("/reports"), body, headers)
            assert found.json["stored"] == len(part)
        ids += some
    return ids


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory):
    """The folder of a store after ten thousand reports, its logs, and the ids as they came."""
    from tests.collect.speaking import CAMPAIGN

    folder = tmp_path_factory.mktemp("traces")
    (folder / "c.toml").write_text(CAMPAIGN, encoding="utf-8")
    command = [sys.executable, "-m", "sfumato", "serve", "c.toml", "--store", "c.db"]
    with (folder / "out.log").open("w") as out, (folder / "err.log").open("w") as err:
        process = subprocess.Popen(
            [*command, "--port", "0", "--no-limit", "--trust-proxy", "--json"],
            cwd=folder, stdout=out, stderr=err, text=True,
        )  # fmt: skip
        for _ in range(600):
            if (folder / "out.log").read_text().endswith("\n"):
                break
            time.sleep(0.1)
        told = json.loads((folder / "out.log").read_text())
        campaign = CampaignFile.load(folder / "c.toml").campaign
        start = datetime.now(UTC)
        ids = send_all(Speaker(told["address"], campaign.name, campaign.hash))
        before = (folder / "c.db-wal").read_bytes()  # while the server runs
        process.terminate()
        process.wait(60)
    (folder / "out.log").write_text("")  # our own word about the address and the first token
    return folder, ids, before, start


def everything(folder: Path, before: bytes) -> dict[str, bytes]:
    files = [path for path in folder.iterdir() if path.name != "c.toml"]
    return {path.name: path.read_bytes() for path in files} | {"log while running": before}


def test_the_store_and_the_logs_hold_no_address_agent_or_cookie(traces):
    folder, _, before, _ = traces
    for name, data in everything(folder, before).items():
        for mark in (AGENT, SENDER, COOKIE, "tell-tale", "127.0.0.1", "SpiderMonkey"):
            assert mark.encode() not in data, (name, mark)
        # Whole, or the part that a household shares. The four bytes of an older address would stand
        # in 160,000 random bytes of ids by chance, once in 13,000 runs; seven do once in 10^11.
        sender = ip_address(SENDER).packed
        for packed in (sender, sender[::-1], sender[:7], sender[:7][::-1]):
            assert packed not in data, name
    assert (folder / "err.log").read_text() == ""


def test_no_time_is_kept_but_the_day(traces):
    folder, _, before, start = traces
    for name, data in everything(folder, before).items():
        assert not re.search(rb"\d\d:\d\d:\d\d", data), name
        for moment in range(int(start.timestamp()), int(start.timestamp()) + 60):
            for text in (
                str(moment).encode(),
                moment.to_bytes(8, "big"),
                moment.to_bytes(8, "little"),
            ):
                assert text not in data, (name, moment)
    connection = sqlite3.connect(folder / "c.db")
    days = connection.execute("SELECT DISTINCT day FROM daily").fetchall()
    connection.close()
    assert len(days) <= 2 and all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for (day,) in days)


def test_the_order_of_arrival_is_not_kept(traces):
    from scipy.stats import spearmanr

    folder, ids, _, _ = traces
    connection = sqlite3.connect(folder / "c.db")
    stored = [bytes(row) for (row,) in connection.execute("SELECT id FROM report")]
    connection.close()
    arrival = {key: place for place, key in enumerate(identities(ids) or [])}
    order = [arrival[key] for key in stored]
    assert len(order) == REPORTS
    bound = 5 / np.sqrt(REPORTS)
    assert abs(spearmanr(np.arange(REPORTS), order).statistic) < bound
    # The judge can tell: an order that leans a little towards that of arrival is seen.
    kept = np.argsort(np.array(order) + np.arange(REPORTS) * 0.2)
    assert abs(spearmanr(np.arange(REPORTS), np.array(order)[kept]).statistic) > bound


PAGE = 4096


def ids_in(page: bytes, known: set[bytes]) -> list[bytes]:
    """The ids in a leaf of a table, in the order in which SQLite has filled it."""
    if page[:1] != b"\x0a":
        return []
    cells = int.from_bytes(page[3:5], "big")
    places = (int.from_bytes(page[8 + 2 * c : 10 + 2 * c], "big") for c in range(cells))
    parts = (page[place : place + 28] for place in sorted(places, reverse=True))
    found = (
        next((p[s : s + 16] for s in range(12) if p[s : s + 16] in known), None) for p in parts
    )
    return [each for each in found if each is not None]


def order_in_log(log: bytes, known: set[bytes]) -> list[bytes]:
    """The ids that a thief of the log can put in order: each is what one image of a page has and
    the image before it has not.
    """
    before: dict[bytes, set[bytes]] = {}
    order: list[bytes] = []
    for start in range(32, len(log), 24 + PAGE):
        number, page = log[start : start + 4], log[start + 24 : start + 24 + PAGE]
        if found := ids_in(page, known):
            new = set(found) - before.get(number, set(found)) - set(order)
            order += new if len(new) == 1 else ()
            before[number] = set(found)
    return order


def in_order(order: list[bytes], rank: dict[bytes, int]) -> float:
    """The share of neighbours that came one after the other: half of them where nothing is told."""
    return float(np.mean(np.diff([rank[each] for each in order]) > 0))


def test_a_thief_of_a_live_store_finds_the_order_of_its_last_commits_alone(
    campaign_path, tmp_path, monkeypatch
):
    from tests.collect.speaking import speaking

    from sfumato.collect import writer

    path = tmp_path / "c.db"

    def stolen() -> tuple[bytes, bytes]:
        return path.read_bytes(), (tmp_path / "c.db-wal").read_bytes()

    def sent(speaker: Speaker, number: int) -> list[bytes]:
        texts = [identity() for _ in range(number)]
        for each in texts:
            assert speaker.send([{"id": each, "values": [0, 0]}]).status == 200
        return identities(texts) or []

    with speaking(campaign_path, str(path)) as speaker:
        ids = sent(speaker, 300)
        _, log = stolen()
        assert len(order_in_log(log, set(ids))) <= writer.LOGGED_COMMITS
        for _ in range(100):  # once nothing has come for a moment
            time.sleep(0.1)
            database, log = stolen()
            found = [
                ids_in(database[s : s + PAGE], set(ids)) for s in range(0, len(database), PAGE)
            ]
            pages = [page for page in found if len(page) > 1]
            told = [
                in_order(page, {each: place for place, each in enumerate(ids)}) for page in pages
            ]
            if not log and max(told) < 0.7:
                break
        assert log == b"" and sum(map(len, pages)) > 290 and max(told) < 0.7
        # What a server that never cuts its log would tell.
        monkeypatch.setattr(writer, "LOGGED_COMMITS", 10**9)
        monkeypatch.setattr(writer, "LOGGED_SECONDS", 1e3)
        monkeypatch.setattr(SqliteStore, "tidy", lambda store: None)
        time.sleep(1.5)
        more = sent(speaker, 100)
        order = order_in_log(stolen()[1], set(more))
        assert len(order) > 80
        assert (
            in_order(order, {each: place for place, each in enumerate(more)}) > 0.9
        )  # a page that splits
        monkeypatch.undo()


def test_what_was_deleted_is_overwritten(campaign_path, tmp_path):
    from tests.collect.speaking import speaking

    given = identity()
    with speaking(campaign_path, str(tmp_path / "c.db")) as speaker:
        speaker.send([{"id": given, "values": [2, 1]}])
        speaker.ask("POST", speaker.campaign("/withdrawals"), {"id": given})
    ((key),) = identities([given]) or []
    connection = sqlite3.connect(tmp_path / "c.db")
    assert connection.execute("SELECT count(*) FROM report").fetchone() == (0,)
    connection.close()
    data = (tmp_path / "c.db").read_bytes()
    assert data.count(key) == 1  # its tombstone alone
    assert not (tmp_path / "c.db-wal").exists()
    assert key + b"\2\1" not in data
