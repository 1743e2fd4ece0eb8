"""What a server says of its campaign is bounded like any file: one clear error, soon."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from sfumato.collect.canonical import digest
from sfumato.collect.client import Client
from sfumato.domain import Category, Domain
from sfumato.errors import SfumatoError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal

DEEP = 100_000
DOMAIN = Domain((Category("c", ("a", "b", "x")),))
STATED: dict[str, Any] = {
    "domain": DOMAIN.to_dict(),
    "program": GammaDiagonal(DOMAIN, 19).program().to_dict(),
    "round": 1,
}
DOCUMENT: dict[str, Any] = {
    **STATED,
    "name": "c",
    "hash": digest(STATED),
    "open": True,
    "promise": {"gamma": "19/1"},
    "budget": None,
}


def saying(**changes: Any) -> bytes:
    return json.dumps(DOCUMENT | changes).encode()


BODIES = {
    "a gamma of 4,000 digits": saying(promise={"gamma": "9" * 4000}),
    "a gamma of a million digits": saying(promise={"gamma": "9" * 1_000_000}),
    "a gamma with an exponent": saying(promise={"gamma": "1e1000000000"}),
    "a gamma that is no number": saying(promise={"gamma": float("nan")}),
    "a gamma over nothing": saying(promise={"gamma": "1/0"}),
    "a gamma that is a list": saying(promise={"gamma": [[]]}),
    "no promise": saying(promise=None),
    "a round of 500 digits": saying(round=int("9" * 500)),
    "a round that is a word": saying(round="first"),
    "a name of a million letters": saying(name="c" * 1_000_000),
    "a budget that is a word": saying(budget={"epsilon": "much"}),
    "a budget that is a list": saying(budget=[1]),
    "a program that is a number": saying(program=7),
    "a program of nothing": saying(program={}),
    "a domain of nothing": saying(domain={}),
    "deep lists": b"[" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "a deep program": saying().replace(b'"steps": [', b'"steps": [' + b"[" * DEEP),
    "many values": b'{"a": [' + b"1," * 3_000_000 + b"1]}",
    "one key twice": saying()[:-1] + b', "promise": {"gamma": "2"}}',
    "no UTF-8": b'{"name": "\xff"}',
    "no JSON": b"<html>",
    "nothing": b"",
    "a number": b"7",
}


class Speaker(BaseHTTPRequestHandler):
    """Says the same, whatever is asked."""

    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Speaker)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/c"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_honest_document_is_taken(address: str) -> None:
    Speaker.body = saying()
    assert Client(address).survey.release == "c round 1"


@pytest.mark.parametrize("name", BODIES)
def test_a_document_that_goes_too_far_is_one_clear_error(name: str, address: str) -> None:
    Speaker.body = BODIES[name]
    start = time.process_time()
    with pytest.raises(SfumatoError) as caught:
        _ = Client(address, patience=0).survey
    assert time.process_time() - start < 2
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1500
