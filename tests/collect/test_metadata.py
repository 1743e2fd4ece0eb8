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
