"""A proxy before a collector that changes one thing at a time, for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

OWN = ("connection", "transfer-encoding", "date", "server", "content-length")


@dataclass(frozen=True)
class Passing:
    """An answer on its way, and what was asked for."""

    path: str
    asked: Mapping[str, str]
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    before: bytes = b""  # sent ahead of the answer

    def adding(self, name: str, value: str) -> Passing:
        return replace(self, headers=(*self.headers, (name, value)))

    def without(self, name: str) -> Passing:
        return replace(self, headers=tuple(each for each in self.headers if each[0] != name))

    def saying(self, name: str, value: str) -> Passing:
        return self.without(name).adding(name, value)

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")

    @property
    def page(self) -> bool:
        return not self.path.startswith(("/static/", "/v1/"))

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    def documented(self, document: Any) -> Passing:
        return replace(self, body=json.dumps(document, ensure_ascii=False).encode())


Change = Callable[[Passing], Passing]


def unchanged(passing: Passing) -> Passing:
    return passing


@dataclass
class Proxy:
    """Passes everything on, each answer changed by `change`."""

    upstream: str
    change: Change = unchanged
    address: str = ""
    kept: dict[tuple[str, ...], Passing] = field(default_factory=dict)  # the server is asked once

    def fetched(self, path: str, asked: Mapping[str, str]) -> Passing:
        sent = {
            name: asked[name] for name in ("accept-language", "accept-encoding") if name in asked
        }
        key = (path, *sent, *sent.values())
        if key not in self.kept:
            parts = urlsplit(self.upstream)
            connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
            connection.request("GET", path, headers={"accept-encoding": "identity", **sent})
            answer = connection.getresponse()
            headers = [(name.lower(), value) for name, value in answer.getheaders()]
            passed = tuple(each for each in headers if each[0] not in OWN)
            self.kept[key] = Passing(path, {}, answer.status, passed, answer.read())
            connection.close()
        return replace(self.kept[key], asked=asked)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, proxy: Proxy, *args: Any) -> None:
        self.proxy = proxy
        super().__init__(*args)

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        asked = {name.lower(): value for name, value in self.headers.items()}
        found = self.proxy.change(self.proxy.fetched(self.path, asked))
        lines = [f"HTTP/1.1 {found.status} Said", *(f"{n}: {v}" for n, v in found.headers)]
        lines += [f"content-length: {len(found.body)}", "", ""]
        # At once, or the second part waits for the first to be acknowledged.
        self.wfile.write(found.before + "\r\n".join(lines).encode("latin-1") + found.body)


@contextmanager
def proxied(upstream: str) -> Iterator[Proxy]:
    """A proxy before a server, in a thread."""
    proxy = Proxy(upstream)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, proxy))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    proxy.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
