"""The bill of materials names what the lock file pins; licences and known faults are noticed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sbom import scan
from sbom.bill import bill_of
from sbom.licences import accepted
from sbom.parts import Part, locked_parts

ROOT = Path(__file__).parents[1]
KNOWN = {"numpy": ["GHSA-of-a-test"]}


@pytest.fixture(scope="module")
def parts() -> list[Part]:
    return locked_parts(ROOT)


def part(licence: str | None, name: str = "some-part") -> Part:
    return Part(name, "1.0", (), "required", licence)


def test_the_bill_has_every_pin_with_its_hashes(parts: list[Part]) -> None:
    pins = {
        line.split(" ")[0]
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    }
    bill = bill_of(parts, "1.2.3")
    named = {f"{c['name']}=={c['version']}" for c in bill["components"]}
    assert {name.lower() for name in named} == {pin.lower() for pin in pins}
    assert all(c["properties"] for c in bill["components"])
    assert {"numpy", "pyarrow", "duckdb"} <= {p.name for p in parts if p.scope == "required"}
    assert {p.scope for p in parts if p.name in ("pytest", "ruff")} == {"excluded"}
    assert bill["bomFormat"] == "CycloneDX" and json.dumps(bill)


def test_a_licence_that_nobody_looked_at_is_noticed() -> None:
    assert accepted(part("BSD-3-Clause")) and accepted(part("Apache-2.0 OR BSD-2-Clause"))
    assert not accepted(part("GPL-3.0-only")) and not accepted(part("AGPL-3.0"))
    assert not accepted(part("not stated")) and not accepted(part("MIT AND GPL-2.0-only"))
    assert accepted(part("LGPL-3.0", "psycopg"))


class Service(BaseHTTPRequestHandler):
    """Answers as the OSV database does."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        names = [query["package"]["purl"].split("/")[1].split("@")[0] for query in asked]
        results = [{"vulns": [{"id": i} for i in KNOWN[n]]} if n in KNOWN else {} for n in names]
        body = json.dumps({"results": results}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_known_faults_are_told_by_part(service: str, parts: list[Part]) -> None:
    found = scan.vulnerabilities(parts, service)
    assert {p.name: names for p, names in found.items()} == KNOWN


def test_a_scan_that_can_ask_nobody_says_so_and_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def offline(parts: list[Part]) -> dict[Part, list[str]]:
        raise OSError("no network")

    monkeypatch.setattr(scan, "vulnerabilities", offline)
    assert scan.check_vulnerabilities(ROOT) == 0
    assert "scan skipped" in capsys.readouterr().out
    monkeypatch.setattr(scan, "vulnerabilities", lambda parts: {parts[0]: ["GHSA-1"]})
    assert scan.check_vulnerabilities(ROOT) == 1
