"""The bill of materials names what the lock files pin; licences and known faults are noticed."""

from __future__ import annotations

import json
import re
import threading
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sbom import scan
from sbom.bill import bill_of
from sbom.licences import accepted
from sbom.parts import LOCKS, NPM_LOCK, Part, locked_parts

ROOT = Path(__file__).parents[1]
KNOWN = {"numpy": ["GHSA-of-a-test"], "axe-core": ["GHSA-of-npm"]}


@pytest.fixture(scope="module")
def parts() -> list[Part]:
    return locked_parts(ROOT)


def part(licence: str | None, name: str = "some-part") -> Part:
    return Part(name, "1.0", (), "required", licence)


def test_the_bill_has_every_pin_with_its_hashes(parts: list[Part]) -> None:
    pins = {
        line.split(" ")[0]
        for lock in LOCKS
        for line in (ROOT / lock).read_text().splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    }
    bill = bill_of(parts, "1.2.3")
    components = bill["components"]
    named = {f"{c['name']}=={c['version']}" for c in components if "pkg:pypi/" in c["purl"]}
    assert {name.lower() for name in named} == {pin.lower() for pin in pins}
    for lock in LOCKS:
        hashes = set(re.findall(r"sha256:([0-9a-f]{64})", (ROOT / lock).read_text()))
        assert hashes <= {each["content"] for c in components for each in c["hashes"]}
    assert all(c["hashes"] for c in components)
    assert {"numpy", "pyarrow", "duckdb"} <= {p.name for p in parts if p.scope == "required"}
    assert {p.scope for p in parts if p.name in ("pytest", "ruff")} == {"excluded"}
    assert bill["bomFormat"] == "CycloneDX" and json.dumps(bill)


def test_the_bill_has_what_npm_installs_with_the_hash_of_its_lock_file(parts: list[Part]) -> None:
    asked = json.loads((ROOT / NPM_LOCK).with_name("package.json").read_text())["devDependencies"]
    npm = {part.name: part for part in parts if part.kind == "npm"}
    assert asked.items() <= {name: part.version for name, part in npm.items()}.items()
    assert npm["typescript"].purl == f"pkg:npm/typescript@{asked['typescript']}"
    ((algorithm, digest),) = npm["typescript"].hashes
    assert algorithm == "SHA-512" and re.fullmatch(r"[0-9a-f]{128}", digest)
    assert b64encode(bytes.fromhex(digest)).decode() in (ROOT / NPM_LOCK).read_text()
    assert {part.scope for part in npm.values()} == {"excluded"}


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-demo.lock"])
def test_the_build_backend_is_the_one_that_the_lock_files_hold_by_hash(lock: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (backend,) = project["build-system"]["requires"]
    assert project["dependency-groups"]["build"] == [backend]
    text = (ROOT / lock).read_text()
    needs = {canonicalize_name(Requirement(line).name) for line in requires("hatchling") or []}
    assert backend.startswith("hatchling==") and "pluggy" in needs
    for pin in (backend, *(f"{name}==" for name in needs - {"tomli"})):  # tomli: before Python 3.11
        assert re.search(rf"^{re.escape(pin)}.*\n +--hash=sha256:", text, re.M), pin


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
    said = capsys.readouterr()
    assert "no network" in said.err and "SCAN NOT DONE" in said.err and said.out == ""
    assert said.err.strip().count("\n") >= 4 and "*" * 40 in said.err
    monkeypatch.setattr(scan, "vulnerabilities", lambda parts: {parts[0]: ["GHSA-1"]})
    assert scan.check_vulnerabilities(ROOT) == 1
    assert "NOT DONE" not in capsys.readouterr().err


def test_continuous_integration_ends_with_the_scan() -> None:
    lines = (ROOT / ".ci" / "run").read_text().rstrip().splitlines()
    assert lines[-1].startswith("make scan") and "set -euo pipefail" in lines
