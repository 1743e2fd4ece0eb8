"""A small collector for the tests of the browser client: it keeps what it is sent, says no when it
is told to, and writes down every request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sfumato.collect.assets import Assets
from sfumato.collect.campaign import exactly
from sfumato.collect.canonical import canonical, digest
from sfumato.collect.manifest import Published
from sfumato.mechanisms.base import Mechanism

ROOT = Path(__file__).resolve().parents[3]
STATIC = ROOT / "src" / "sfumato" / "collect" / "static"
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)

ELEMENT = '<sfumato-survey level="1"'
WIDE = 'at-most="Infinity" budget="Infinity"'


def document(mechanism: Mechanism, **changes: Any) -> dict[str, Any]:
    """What `GET /v1/campaigns/{name}` answers for a mechanism."""
    found = {
        "name": "health",
        "title": {"en": "Health survey", "de": "Gesundheitsumfrage"},
        "round": 1,
        "open": True,
        "opens": None,
        "closes": None,
        "domain": mechanism.domain.to_dict(),
        "program": mechanism.program().to_dict(),
        "promise": {
            "gamma": exactly(mechanism.guarantee),
            "epsilon": mechanism.guarantee.epsilon,
        },
        "budget": {"epsilon": 6.0},
        "questions": {},
        "text": {
            "purpose": {"en": "We want to know how people live."},
            "consent": {},
            "contact": None,
        },
    } | changes
    return hashed(found)


def hashed(campaign: dict[str, Any]) -> dict[str, Any]:
    """A campaign with the hash of what it says."""
    try:
        parts = {name: campaign[name] for name in ("domain", "program", "round")}
        return campaign | {"hash": digest(json.loads(canonical(parts)))}
    except (TypeError, ValueError):  # what is refused before its hash is looked at
        return campaign | {"hash": "ab" * 32}


@dataclass
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Collector:
    """A collector on a port of its own, hence an origin with a ledger of its own."""

    campaigns: dict[str, dict[str, Any]]
    pages: dict[str, bytes] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    stored: dict[str, Any] = field(default_factory=dict)
    withdrawn: set[str] = field(default_factory=set)
    refusals: list[int] = field(default_factory=list)  # statuses of the next POSTs; 0 hangs up
    folders: tuple[Path, ...] = ()
    policy: str | None = POLICY

    def __enter__(self) -> Collector:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                return

            def do_GET(self) -> None:
                collector.note(self, b"")
                status, body, kind = collector.get(self.path.partition("?")[0])
                collector.reply(self, status, body, kind)

            def do_OPTIONS(self) -> None:
                collector.reply(self, 204, b"", "text/plain")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.note(self, body)
                status = collector.refusals.pop(0) if collector.refusals else 200
                if status == 0:
                    self.close_connection = True
                    return
                answer = collector.post(self.path, json.loads(body), status)
                collector.reply(self, status, json.dumps(answer).encode(), TYPES[".json"])

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def note(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append(Request(handler.command, handler.path, headers, body))

    def posted(self, end: str = "reports") -> list[Request]:
        """The requests that were sent to one end."""
        return [found for found in self.requests if found.path.endswith(f"/{end}")]

    def get(self, path: str) -> tuple[int, bytes, str]:
        if path in self.pages:
            return 200, self.pages[path], TYPES[".html"]
        if path == "/v1/manifest":
            return 200, json.dumps(Published.of(Assets.load()).to_dict()).encode(), TYPES[".json"]
        name = path.rpartition("/")[2]
        if path.startswith("/v1/campaigns/") and name in self.campaigns:
            return 200, json.dumps(hashed(self.campaigns[name])).encode(), TYPES[".json"]
        for start, folder in (("/static/", STATIC), *((f"/{f.name}/", f) for f in self.folders)):
            file = folder / path.removeprefix(start)
            if path.startswith(start) and file.is_file():
                return 200, file.read_bytes(), TYPES[file.suffix]
        if name in self.campaigns:
            return 200, self.form(self.campaigns[name]), TYPES[".html"]
        return 404, b'{"error": {"kind": "unknown", "message": "nothing here"}}', TYPES[".json"]

    def form(self, campaign: Mapping[str, Any]) -> bytes:
        """The page of a campaign; one without a budget has a page that allows everything, unless
        the test says what it states.
        """
        page = (STATIC / "form.html").read_bytes()
        stated = campaign.get("page", WIDE if campaign.get("budget", 0) is None else "")
        return page.replace(b'<sfumato-survey level="1"', f"{ELEMENT} {stated}".rstrip().encode())

    def post(self, path: str, body: Mapping[str, Any], status: int) -> dict[str, Any]:
        if status != 200:
            return {"error": {"kind": "told", "message": f"told to say {status}", "hint": None}}
        end = path.rpartition("/")[2]
        if end == "reports":
            known = [report for report in body["reports"] if report["id"] in self.stored]
            refused = [
                {"index": index, "kind": "withdrawn"}
                for index, report in enumerate(body["reports"])
                if report["id"] in self.withdrawn
            ]
            if not refused:
                self.stored |= {each["id"]: each["values"] for each in body["reports"]}
            return {"stored": 1 - len(known), "repeated": len(known), "refused": refused}
        if end == "receipts":
            states = {
                state: [each for each in body["ids"] if self.state(each) == state]
                for state in ("stored", "withdrawn", "unknown")
            }
            return dict(states)
        self.stored.pop(body["id"], None)
        self.withdrawn.add(body["id"])
        return {"withdrawn": True}

    def state(self, identity: str) -> str:
        if identity in self.withdrawn:
            return "withdrawn"
        return "stored" if identity in self.stored else "unknown"

    def reply(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, kind: str) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Cache-Control", "no-store")
        handler.send_header("Access-Control-Allow-Origin", "*")
        handler.send_header("Access-Control-Allow-Headers", "content-type")
        if self.policy and kind == TYPES[".html"]:
            handler.send_header("Content-Security-Policy", self.policy)
        handler.end_headers()
        handler.wfile.write(body)
