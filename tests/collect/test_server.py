"""What the server answers: every status, in one JSON shape, and nothing that tells who asked."""

from __future__ import annotations

import gzip
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from datetime import date
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.collect.speaking import (
    CAMPAIGN,
    Speaker,
    first_token,
    identity,
    some_reports,
    speaking,
)

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.server import protocol, running
from sfumato.collect.server.limits import PER_MINUTE, RateLimit
from sfumato.collect.server.parsing import identities
from sfumato.collect.server.running import ServerSettings
from sfumato.collect.store import open_store
from sfumato.errors import CampaignError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    (folder / "health.toml").write_text(CAMPAIGN, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    return first_token(str(folder / "c.db"))


@pytest.fixture(scope="module")
def server(folder: Path, token: str) -> Iterator[Speaker]:
    with speaking(folder / "health.toml", str(folder / "c.db")) as speaker:
        yield speaker


def error(answer, status: int, kind: str) -> None:
    assert answer.status == status, answer.body
    assert set(answer.json) == {"error"}
    assert set(answer.json["error"]) == {"kind", "message", "hint"}
    assert answer.json["error"]["kind"] == kind
    assert answer.headers["cache-control"] == "no-store"


def test_reports_are_stored_once(server):
    reports = some_reports(5)
    assert server.send(reports).json == {"stored": 5, "repeated": 0, "refused": []}
    assert server.send(reports).json == {"stored": 0, "repeated": 5, "refused": []}
    assert server.send([*reports[:2], *some_reports(1)]).json["stored"] == 1
    twice = some_reports(1)
    assert server.send(twice * 3).json == {"stored": 1, "repeated": 2, "refused": []}


def test_each_report_of_a_batch_stands_for_itself(server):
    good, known = some_reports(2)
    server.send([known])
    found = server.send(
        [
            good,
            {"id": "short", "values": [0, 0]},
            {"id": identity(), "values": [0, 3]},
            {"id": known["id"], "values": [(known["values"][0] + 1) % 3, 0]},
            {"id": identity()[:-1] + "B", "values": [0, 0]},
            {"id": identity(), "values": [0]},
            {"id": identity(), "values": [-1, 0]},
            {"id": identity(), "values": [[0], 0]},
            {"id": identity(), "values": [2**70, 0]},
        ]
    )
    kinds = ["id", "domain", "conflict", "id", "domain", "domain", "domain", "domain"]
    expected = [{"index": i, "kind": kind} for i, kind in enumerate(kinds, 1)]
    answer = found.json
    hints = answer.pop("hints")
    assert answer == {"stored": 1, "repeated": 0, "refused": expected}
    assert set(hints) == set(kinds) and "22 letters" in hints["id"]
    # What would do, and nothing of what was sent.
    assert hints["domain"] == (
        "values must have 2 in this order: a whole number from 0 to 2, a whole number from 0 to 2"
    )


def test_a_report_can_be_asked_after_and_withdrawn(server):
    (report,) = some_reports(1)
    server.send([report])
    stranger = identity()

    def ask(*ids: str) -> dict:
        return server.ask("POST", server.campaign("/receipts"), {"ids": ids}).json

    assert ask(report["id"], stranger) == {
        "stored": [report["id"]], "withdrawn": [], "unknown": [stranger]}  # fmt: skip
    for given in (report["id"], report["id"], stranger):
        gone = server.ask("POST", server.campaign("/withdrawals"), {"id": given})
        assert gone.status == 200 and gone.json == {"withdrawn": True}
    assert ask(report["id"], stranger)["withdrawn"] == [report["id"], stranger]
    assert server.send([report]).json["refused"] == [{"index": 0, "kind": "withdrawn"}]


BODIES = {
    "not JSON": (b"reports", 400, "json"),
    "half of JSON": (b'{"campaign": "', 400, "json"),
    "nothing": (b"", 400, "json"),
    "NaN": (b'{"campaign": NaN}', 400, "json"),
    "deep JSON": (b"[" * 100_000, 422, "shape"),
    "deep inside": (b'{"x": ' + b"[" * 100_000, 422, "shape"),
    "a list": (b"[]", 422, "shape"),
    "no reports": (b'{"campaign": "x"}', 422, "shape"),
    "an empty list": (b'{"campaign": "x", "reports": []}', 422, "shape"),
    "more than asked": (b'{"campaign": "x", "reports": [], "who": "me"}', 422, "shape"),
    "values that are words": (
        b'{"campaign": "x", "reports": [{"id": "a", "values": ["yes"]}]}', 422, "shape"),
    "values that are halves": (
        b'{"campaign": "x", "reports": [{"id": "a", "values": [0.5]}]}', 422, "shape"),
    "values that are true": (
        b'{"campaign": "x", "reports": [{"id": "a", "values": [true, 0]}]}', 422, "shape"),
    "lone surrogates": (
        b'{"campaign": "x", "reports": [{"id": "\\ud800", "values": [0, 0]}]}', 422, "shape"),
    "not UTF-8": (b'{"campaign": "\xff\xfe", "reports": []}', 400, "json"),
    "a key twice": (
        b'{"campaign": "x", "campaign": "HASH", "reports": [{"id": "a", "values": [0, 0]}]}',
        422, "shape"),
    "a key twice, hidden": (
        b'{"campaign": "HASH", "reports": [{"id": "a", "\\u0069d": "b", "values": [0, 0]}]}',
        422, "shape"),
}  # fmt: skip


@pytest.mark.parametrize("case", BODIES)
def test_a_body_that_is_no_batch_is_refused(server, case):
    body, status, kind = BODIES[case]
    answer = server.ask("POST", server.campaign("/reports"), body)
    assert answer.status in (status, 400), answer.body  # how deep is too deep is msgspec's affair
    error(answer, answer.status, kind if answer.status == status else "json")


@pytest.mark.parametrize(
    ("mechanism", "possible", "others"),
    [
        ("subset-selection", [0], [[], [0, 1], list(range(9))]),  # one of nine, where honest
        ("questionnaire", None, None),
    ],
)
def test_what_no_device_can_have_drawn_is_refused(tmp_path, mechanism, possible, others):
    """A forger who sends several answers at once, or one to a question not dealt, would move more
    than the figures say.
    """
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN.replace("gamma-diagonal", mechanism), encoding="utf-8")
    program = CampaignFile.load(path).campaign.program
    if possible is None:
        assert program.dealt is not None
        sizes = [question.outputs[0].size for question in program.dealt.questions]
        few, many = sizes.index(min(sizes)), max(sizes)
        assert min(sizes) < many == program.outputs[1].size
        good, bad = [[few, min(sizes) - 1]], [[few, code] for code in range(min(sizes), many)]
    else:
        good, bad = [[possible]], [[other] for other in others]
    with speaking(path, str(tmp_path / "c.db")) as speaker:
        for some in (bad, [*good, *bad]):
            found = speaker.send([{"id": identity(), "values": values} for values in some]).json
            assert found["stored"] == len(some) - len(bad)
            assert [each["kind"] for each in found["refused"]] == ["domain"] * len(bad)


def test_too_much_at_once_is_refused(server):
    error(server.send(some_reports(1001)), 422, "shape")
    large = server.ask("POST", server.campaign("/reports"), b" " * (256 * 1024 + 1))
    error(large, 413, "size")
    assert server.send(some_reports(1000)).json["stored"] == 1000
    ids = {"ids": [identity() for _ in range(101)]}
    error(server.ask("POST", server.campaign("/receipts"), ids), 422, "shape")


def test_a_body_of_another_type_is_refused(server):
    path, body = server.campaign("/reports"), json.dumps({"campaign": "x", "reports": []})
    for headers in (
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ):
        error(server.ask("POST", path, body, headers), 415, "type")
    good = json.dumps({"campaign": server.hash, "reports": some_reports(1)})
    kind = {"content-type": "Application/JSON; charset=utf-8"}
    assert server.ask("POST", path, good, kind).status == 200


def test_another_version_of_the_campaign_is_refused(server):
    body = {"campaign": "0" * 64, "reports": some_reports(1)}
    answer = server.ask("POST", server.campaign("/reports"), body)
    error(answer, 409, "version")
    assert "ask the person again" in answer.json["error"]["hint"]


def test_unknown_addresses_and_methods(server):
    error(server.get("/v1/campaigns/none"), 404, "unknown")
    error(server.ask("POST", "/v1/campaigns/none/reports", b"{}"), 404, "unknown")
    error(server.get("/v1/nothing"), 404, "unknown")
    error(server.get("/static/none.js"), 404, "unknown")
    error(server.get("/none"), 404, "unknown")
    for method, path, allowed in (
        ("DELETE", server.campaign(), "GET"),
        ("GET", server.campaign("/reports"), "POST"),
        ("PUT", server.campaign("/reports"), "POST"),
        ("POST", "/healthz", "GET"),
    ):
        answer = server.ask(method, path)
        error(answer, 405, "method")
        assert allowed in answer.headers["allow"]


@pytest.mark.parametrize(
    ("days", "kind"), [("closes = 2020-01-01", "closed"), ("opens = 2999-01-01", "early")]
)
def test_a_campaign_takes_answers_on_its_days_only(tmp_path, days, kind):
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN.replace("[[attribute]]", f"{days}\n[[attribute]]", 1))
    with speaking(path, str(tmp_path / "c.db")) as speaker:
        error(speaker.send(some_reports(1)), 410, kind)
        assert speaker.get(speaker.campaign()).json["open"] is False
        assert b"health" not in speaker.get("/").body


# --- who may see what


def test_figures_need_a_token(server, token):
    for end in ("/figures", "/export"):
        error(server.get(server.campaign(end)), 403, "token")
        error(server.get(server.campaign(end), authorization="Bearer nonsense"), 403, "token")
    error(server.get("/metrics"), 403, "token")
    asked = server.get("/health/dashboard")
    assert asked.status == 401 and asked.headers["www-authenticate"].startswith("Basic")
    assert server.get(server.campaign("/figures"), authorization=f"Bearer {token}").status == 200
    import base64

    basic = base64.b64encode(f"anyone:{token}".encode()).decode()
    assert server.get("/health/dashboard", authorization=f"Basic {basic}").status == 200
    error(server.get(server.campaign("/figures"), authorization="Basic %%%"), 403, "token")


def test_a_token_of_another_role_is_not_enough(folder, server):
    sender = first_token(str(folder / "c.db"), "send")
    error(server.get(server.campaign("/figures"), authorization=f"Bearer {sender}"), 403, "token")


def test_an_etag_saves_the_way(server, token):
    headers = {"authorization": f"Bearer {token}"}
    first = server.ask("GET", server.campaign("/figures"), None, headers)
    again = {**headers, "if-none-match": first.headers["etag"]}
    assert server.ask("GET", server.campaign("/figures"), None, again).status == 304
    server.send(some_reports(1))
    assert server.ask("GET", server.campaign("/figures"), None, again).status == 200


def test_an_export_is_a_release_without_ids(server, token, tmp_path):
    import pyarrow.parquet as pq

    import sfumato as sf

    reports = some_reports(3)
    server.send(reports)
    answer = server.get(server.campaign("/export"), authorization=f"Bearer {token}")
    assert answer.status == 200
    path = tmp_path / "x.parquet"
    path.write_bytes(answer.body)
    assert pq.read_table(path).column_names == ["smoker", "age"]
    assert sf.open(path).rows >= 3 and reports[0]["id"].encode() not in answer.body
    odd = server.get(server.campaign("/export?format=xls"), authorization=f"Bearer {token}")
    error(odd, 422, "format")


def test_another_campaign_that_was_damaged_does_not_hold_up_an_export(tmp_path):
    store = str(tmp_path / "s.db")
    headers = {"authorization": f"Bearer {first_token(store)}"}
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("INSERT INTO campaign VALUES (9, 'other', 1, 'h', '{}', '{', NULL)")
        connection.commit()
    (tmp_path / "c.toml").write_text(CAMPAIGN, encoding="utf-8")
    with speaking(tmp_path / "c.toml", store) as own:
        assert own.get(own.campaign("/export"), **headers).status == 200


def test_an_export_leaves_no_file_behind_even_if_nobody_waits_for_it(
    server, token, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path, bearer = server.campaign("/export"), {"authorization": f"Bearer {token}"}
    assert server.ask("GET", path, None, bearer).status == 200
    for _ in range(5):
        connection = HTTPConnection(urlsplit(server.address).netloc)
        connection.request("GET", path, headers=bearer)
        connection.close()  # before the first byte
    end = time.monotonic() + 20
    assert server.ask("GET", path, None, bearer).status == 200
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


# --- headers


def test_other_pages_may_send_reports_and_nothing_else(server, token):
    for end in ("", "/reports", "/receipts", "/withdrawals"):
        asked = {"origin": "https://example.org", "access-control-request-method": "POST"}
        found = server.ask("OPTIONS", server.campaign(end), None, asked)
        assert found.status == 204 and found.headers["access-control-allow-origin"] == "*"
        assert "content-type" in found.headers["access-control-allow-headers"]
    for path in (
        server.campaign("/figures"),
        "/healthz",
        "/health",
        "/metrics",
        "/v1/openapi.json",
    ):
        headers = server.get(path, authorization=f"Bearer {token}").headers
        assert "access-control-allow-origin" not in headers
    assert "access-control-allow-credentials" not in server.get(server.campaign()).headers
    assert server.send([]).headers["access-control-allow-origin"] == "*"  # refusals too
    assert server.get("/v1/manifest").headers["access-control-allow-origin"] == "*"  # its digest


def test_pages_come_with_a_strict_policy(server, token):
    for path in ("/", "/health/dashboard"):
        headers = server.get(path, authorization=f"Bearer {token}").headers
        policy = headers["content-security-policy"]
        for part in (
            "default-src 'none'", "script-src 'self'", "connect-src 'self'", "base-uri 'none'",
            "frame-ancestors 'none'", "require-trusted-types-for 'script'",
        ):  # fmt: skip
            assert part in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "set-cookie" not in headers and "server" not in headers


def test_files_are_served_under_their_hash_as_the_manifest_says(server):
    import hashlib

    manifest = server.get("/v1/manifest").json
    assert manifest["files"]
    for name, digest in manifest["files"].items():
        answer = server.get(f"/static/{manifest['digest'][:16]}/{name}")
        assert hashlib.sha256(answer.body).hexdigest() == digest
        assert "immutable" in answer.headers["cache-control"]
        assert server.get(f"/static/{name}").headers["cache-control"] == "no-store"
        packed = server.get(f"/static/{manifest['digest'][:16]}/{name}", accept_encoding="br, gzip")
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == answer.body
    page = server.get("/").body.decode()
    assert f"/static/{manifest['digest'][:16]}/dashboard.css" in page and "integrity=" in page


def test_the_index_speaks_the_readers_language(server):
    assert 'lang="de"' in server.get("/", accept_language="fr;q=0.2, de-CH").body.decode()
    assert 'lang="es"' in server.get("/?lang=es", accept_language="de").body.decode()
    assert 'lang="en"' in server.get("/?lang=<script>").body.decode()


def test_health_and_metrics(server, token):
    assert server.get("/healthz").json == {"status": "ok"}
    assert server.get("/readyz").json == {"status": "ok"}
    text = server.get("/metrics", authorization=f"Bearer {token}").body.decode()
    assert 'sfumato_reports{campaign="health"}' in text and "sfumato_commits_total" in text


# --- limits


def test_a_network_may_send_sixty_reports_a_minute(tmp_path, folder):
    store = str(tmp_path / "limited.db")
    sender = first_token(store, "send")
    with speaking(folder / "health.toml", store, limited=True) as speaker:
        assert speaker.send(some_reports(40)).status == 200
        refused = speaker.send(some_reports(21))
        error(refused, 429, "limit")
        assert 1 <= int(refused.headers["retry-after"]) <= 61
        assert speaker.send(some_reports(20)).status == 200
        body = {"campaign": speaker.hash, "reports": some_reports(100)}
        headers = {"authorization": f"Bearer {sender}"}
        answer = speaker.ask("POST", speaker.campaign("/reports"), body, headers)
        assert answer.json["stored"] == 100


def test_a_proxy_is_believed_only_if_told_so(tmp_path, folder):
    def sent(speaker: Speaker, sender: str, count: int) -> int:
        body = {"campaign": speaker.hash, "reports": some_reports(count)}
        headers = {"x-forwarded-for": sender}
        return speaker.ask("POST", speaker.campaign("/reports"), body, headers).status

    with speaking(folder / "health.toml", str(tmp_path / "a.db"), limited=True) as speaker:
        assert sent(speaker, "192.0.2.1", 60) == 200
        assert sent(speaker, "198.51.100.1", 1) == 429
    settings = {"limited": True, "trust_proxy": True}
    with speaking(folder / "health.toml", str(tmp_path / "b.db"), **settings) as speaker:
        assert sent(speaker, "192.0.2.1", 60) == 200
        assert sent(speaker, "203.0.113.9, 192.0.2.200", 1) == 429  # the last is our proxy's word
        assert sent(speaker, "192.0.2.1, 198.51.100.1", 60) == 200
        assert in_two_lines(speaker, "203.0.113.9", "192.0.2.3") == 429  # as HAProxy writes it


def in_two_lines(speaker: Speaker, theirs: str, ours: str) -> int:
    """The status of a report whose sender wrote the header that our proxy adds once more."""
    body = json.dumps({"campaign": speaker.hash, "reports": some_reports(1)}).encode()
    connection = HTTPConnection(urlsplit(speaker.address).netloc)
    connection.putrequest("POST", speaker.campaign("/reports"))
    for name, value in (
        ("x-forwarded-for", theirs),
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("x-forwarded-for", ours),
    ):
        connection.putheader(name, value)
    connection.endheaders(body)
    status = connection.getresponse().status
    connection.close()
    return status


def test_receipts_and_withdrawals_count_towards_the_limit(tmp_path, folder):
    store = str(tmp_path / "limited.db")
    headers = {"authorization": f"Bearer {first_token(store, 'send')}"}

    def ask(end: str, body: object, **more: str) -> int:
        return speaker.ask("POST", speaker.campaign(end), body, more).status

    with speaking(folder / "health.toml", store, limited=True) as speaker:
        assert speaker.send(some_reports(20)).status == 200
        assert ask("/receipts", {"ids": [identity() for _ in range(30)]}) == 200
        assert [ask("/withdrawals", {"id": identity()}) for _ in range(11)] == [200] * 10 + [429]
        assert ask("/receipts", {"ids": [identity()]}) == 429
        assert speaker.send(some_reports(1)).status == 429
        assert ask("/receipts", {"ids": [identity()] * 100}, **headers) == 200
        assert ask("/withdrawals", {"id": identity()}, **headers) == 200
    with speaking(folder / "health.toml", store, limited=True) as speaker:
        # As many as go into one question can be asked for, in a minute of their own.
        assert ask("/receipts", {"ids": [identity() for _ in range(100)]}) == 200
        error(speaker.send(some_reports(1)), 429, "limit")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:ff00::1", "2001:db8:1:ffff:2:3:4:5", True),  # one /56
        ("2001:db8:1:ff00::1", "2001:db8:1:fe00::1", False),
        ("2001:db8:1:1::1%eth0", "2001:db8:1:2::9", True),
        ("::ffff:192.0.2.1", "192.0.2.200", True),  # IPv4 at a socket of IPv6
        ("::ffff:192.0.2.1", "::ffff:192.0.3.1", False),
        ("::FFFF:C000:0201", "192.0.2.7", True),
        ("[2001:db8::1]:4711", "2001:db8::2", True),
        ("192.0.2.1:4711", "192.0.2.2:80", True),
        ("192.0.2.1:4711", "198.51.100.1:4711", False),
        ("", "unknown", True),
        ("2001:db8::1, evil", "2001:db8::1", False),
    ],
)
def test_a_network_is_56_bits_of_ipv6_and_24_of_ipv4(one, other, same):
    limit = RateLimit()
    assert limit.take(one, PER_MINUTE) == 0
    assert (limit.take(other, 1) > 0) == same


def test_a_server_on_ipv6_limits_and_answers(tmp_path, folder):
    import socket

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    settings = {"limited": True, "host": "::1"}
    with speaking(folder / "health.toml", str(tmp_path / "six.db"), **settings) as speaker:
        assert speaker.address.startswith("http://[::1]:")
        assert speaker.send(some_reports(60)).status == 200
        error(speaker.send(some_reports(1)), 429, "limit")


def test_a_clock_that_jumps_moves_days_and_nothing_else(tmp_path, folder, monkeypatch):
    """Days open and close a campaign whichever way they come; what is counted by the minute or the
    hour is not counted by that clock.
    """
    path = tmp_path / "dated.toml"
    path.write_text("opens = 2030-01-10\ncloses = 2030-01-20\n" + CAMPAIGN)
    store = str(tmp_path / "dated.db")
    now = [date(2030, 1, 15)]
    for place in ("server.collector", "store.store", "store.sqlite_store"):
        monkeypatch.setattr(f"sfumato.collect.{place}.utc_today", lambda: now[0])
    monkeypatch.setattr(time, "time", lambda: 0.0)  # whoever looked at it would be astray
    with speaking(path, store, limited=True) as speaker:
        given = some_reports(2)
        assert speaker.send(given[:1]).status == 200
        for day, status, kind in (
            (date(2030, 1, 21), 410, "closed"),
            (date(2030, 1, 9), 410, "early"),
            (date(1970, 1, 1), 410, "early"),
            (date(2999, 12, 31), 410, "closed"),
            (date(2030, 1, 10), 200, None),
            (date(2030, 1, 20), 200, None),
        ):
            now[0] = day
            time.sleep(1.2)  # the server looks at the calendar every second
            answer = speaker.send(some_reports(1))
            assert answer.status == status, (day, answer.body)
            assert kind is None or answer.json["error"]["kind"] == kind
        now[0] = date(2030, 1, 12)
        assert speaker.send(given).json == {"stored": 1, "repeated": 1, "refused": []}
        assert speaker.send(some_reports(55)).status == 200  # with five before, in this minute
        error(speaker.send(some_reports(1)), 429, "limit")
    opened = open_store(store)
    (campaign,) = opened.enrolled()
    stored = {day: count for day, kind, count in opened.daily(campaign.number) if kind == "stored"}
    opened.close()
    assert stored == {"2030-01-10": 1, "2030-01-12": 56, "2030-01-15": 1, "2030-01-20": 1}


# --- several campaigns, and rounds, in one store


def test_a_store_that_cannot_be_read_is_no_fault_of_ours(tmp_path):
    path, store = tmp_path / "c.toml", str(tmp_path / "c.db")
    path.write_text(CAMPAIGN + "[dashboard]\npublic = true\n")
    with speaking(path, store) as speaker:
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute("UPDATE campaign SET shown = 'no figures'")
        error(speaker.get("/health/dashboard"), 503, "store")
        assert speaker.send(some_reports(1)).json["stored"] == 1


def test_campaigns_in_one_store_know_nothing_of_each_other(tmp_path):
    paths = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for path in paths:
        path.write_text(CAMPAIGN.replace('"health"', f'"{path.stem}"'))
    store = str(tmp_path / "both.db")
    settings = ServerSettings([str(path) for path in paths], store, port=0, limited=False)
    token = first_token(store, "read")

    def figures(speaker: Speaker) -> int:
        headers = {"authorization": f"Bearer {token}"}
        return speaker.ask("GET", speaker.campaign("/figures"), None, headers).json["reports"]

    with running.serving(settings) as address:
        hashes = [CampaignFile.load(path).campaign.hash for path in paths]
        one, two = (
            Speaker(address, path.stem, digest) for path, digest in zip(paths, hashes, strict=True)
        )
        same = some_reports(3)
        assert one.send(same).json["stored"] == 3
        assert two.send([same[0]]).json == {"stored": 1, "repeated": 0, "refused": []}
        two.ask("POST", two.campaign("/withdrawals"), {"id": same[0]["id"]})
        two.ask("POST", two.campaign("/withdrawals"), {"id": same[1]["id"]})  # never sent there
        assert one.send(same).json == {"stored": 0, "repeated": 3, "refused": []}
        asked = {"ids": [same[0]["id"], same[2]["id"]]}
        assert one.ask("POST", one.campaign("/receipts"), asked).json["stored"] == asked["ids"]
        found = two.ask("POST", two.campaign("/receipts"), asked).json
        assert (found["withdrawn"], found["unknown"]) == (asked["ids"][:1], asked["ids"][1:])
        assert (figures(one), figures(two)) == (3, 0)
    # One is frozen, and the other, in which someone took a report back; a third is not.
    for path, frozen in zip([*paths, tmp_path / "three.toml"], (True, True, False), strict=True):
        path.write_text(CAMPAIGN.replace('"health"', f'"{path.stem}"').replace("= 19", "= 9"))
        with suppress(CampaignError) if frozen else nullcontext():
            running.collector_of(ServerSettings([str(path)], store)).store.close()
            assert not frozen, path


def test_a_made_up_withdrawal_freezes_no_campaign(tmp_path):
    path, store = tmp_path / "c.toml", str(tmp_path / "c.db")
    path.write_text(CAMPAIGN)
    with speaking(path, store) as speaker:
        assert speaker.ask("POST", speaker.campaign("/withdrawals"), {"id": "A" * 22}).status == 200
    path.write_text(CAMPAIGN.replace("gamma = 19", "gamma = 9"))
    with speaking(path, store) as speaker:
        assert speaker.send(some_reports(1)).json["stored"] == 1


def test_a_report_of_a_round_before_can_be_taken_back(tmp_path):
    path, store = tmp_path / "c.toml", str(tmp_path / "c.db")
    path.write_text(CAMPAIGN)
    (first,) = some_reports(1)
    with speaking(path, store) as speaker:
        assert speaker.send([first]).json["stored"] == 1
    path.write_text(CAMPAIGN + "[budget]\nepsilon = 9\nround = 2\n")
    with speaking(path, store) as speaker:
        (second,) = some_reports(1)
        assert speaker.send([second]).json["stored"] == 1
        asked = {"ids": [first["id"], second["id"], identity()]}
        found = speaker.ask("POST", speaker.campaign("/receipts"), asked).json
        assert found == {
            "stored": asked["ids"][:2], "withdrawn": [], "unknown": asked["ids"][2:]
        }  # fmt: skip
        speaker.ask("POST", speaker.campaign("/withdrawals"), {"id": first["id"]})
        found = speaker.ask("POST", speaker.campaign("/receipts"), asked).json
        assert (found["withdrawn"], found["stored"]) == (asked["ids"][:1], asked["ids"][1:2])
    opened = open_store(store)
    kept = {each.round: b"".join(opened.bodies(each.number)) for each in opened.enrolled()}
    opened.close()
    assert kept[1] == b"" and len(kept[2]) == 2


def test_the_limit_forgets_after_a_minute_and_its_key_after_an_hour():
    now = [0.0]
    limit = RateLimit(clock=lambda: now[0])
    assert limit.take("192.0.2.1", PER_MINUTE) == 0 and limit.take("192.0.2.9", 1) == 60 + 1
    key = limit._key
    now[0] = 60.0
    assert limit.take("192.0.2.1", 1) == 0 and limit._key == key
    now[0] = 3700.0
    limit.take("192.0.2.1", 1)
    assert limit._key != key
    assert b"\xc0\x00\x02" not in repr(limit._counts).encode("latin-1")


def test_ids_have_one_spelling():
    good = identity()
    assert identities([good, good])[0] == identities([good])[0]
    for bad in (good[:-1], good + "A", good[:-1] + "B", "+" + good[1:], "=" * 22, "é" * 22):
        assert identities([bad]) is None
        assert identities([good, bad]) is None


def test_the_campaign_is_that_of_the_file(server, folder):
    campaign = CampaignFile.load(folder / "health.toml").campaign
    assert server.get(server.campaign()).json == json.loads(json.dumps(campaign.document()))


def test_the_server_logs_nobody_and_says_nothing_of_itself() -> None:
    """Who came when would tell a device from its report."""
    settings = running._config(lambda: None)
    assert not settings.access_log and not settings.server_header and not settings.date_header
    assert not settings.proxy_headers and settings.log_config is None


def test_one_connection_too_many_is_asked_to_come_back(
    server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 0)
    answer = server.ask("GET", "/health")
    error(answer, 503, "busy")
    assert answer.headers["retry-after"] == "5"
