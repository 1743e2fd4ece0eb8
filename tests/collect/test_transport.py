"""What a browser may read otherwise than Python does is odd; nothing is waited for without end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from sfumato.collect.transport import Address, CollectorError, Transport, _connected
from sfumato.errors import ParameterError

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKS = b" 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
ODD = {
    "a length with a line": PLAIN.replace(b": 2", b": 0_2"),
    "two lengths": PLAIN.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"),
    "chunks of HTTP/1.0": b"HTTP/1.0" + CHUNKS,
    "chunks of HTTP/1.00": b"HTTP/1.00" + CHUNKS,
    "a coding of its own": PLAIN.replace(b"Content-Length: 2", b"Transfer-Encoding: x, chunked"),
    "an LF alone behind a chunk": b"HTTP/1.1" + CHUNKS.replace(b"{}\r\n0", b"{}\n00"),
    "an extension of a chunk": b"HTTP/1.1" + CHUNKS.replace(b"\n2\r", b"\n2;<script>\r"),
    "a size with a sign": b"HTTP/1.1" + CHUNKS.replace(b"\n2\r", b"\n+2\r"),
    "a size with an LF alone": b"HTTP/1.1" + CHUNKS.replace(b"\n2\r\n", b"\n2\n"),
    "a trailer": b"HTTP/1.1" + CHUNKS[:-2] + b"Refresh: 0\r\n\r\n",
    "a carriage return in the status": PLAIN.replace(b"OK", b"OK\rRefresh: 0; url=/evil"),
    "a status with a sign": b"HTTP/1.1 +100 x\r\nRefresh: 0; url=/evil\r\n\r\n" + PLAIN,
    "a status with a line": b"HTTP/1.1 1_00 x\r\nRefresh: 0; url=/evil\r\n\r\n" + PLAIN,
    "a 100 that nobody asked for": b"HTTP/1.1 100 Continue\r\nRefresh: 0\r\n\r\n" + PLAIN,
    "another blank": b"HTTP/1.1\xa0100 200\r\n\r\n" + PLAIN,
    "a line of nonsense": PLAIN.replace(b"\r\n\r\n", b"\r\nRefresh : 0\r\n\r\n"),
}


@contextmanager
def answering(octets: bytes, then: bytes = b"") -> Iterator[str]:
    """A server that says these bytes to one connection, and goes on with others bit by bit."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            found, _ = server.accept()
            with found, suppress(OSError):  # the client may leave
                found.recv(1 << 16)
                found.sendall(octets)
                for _ in range(100 if then else 0):
                    time.sleep(0.05)
                    found.sendall(then)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/c"


@pytest.mark.parametrize("octets", ODD.values(), ids=ODD)
def test_what_browsers_may_read_otherwise_is_odd(octets: bytes) -> None:
    with answering(octets) as url:
        assert Transport(Address.parse(url), patience=0.0).look("/c", {}).odd


@pytest.mark.parametrize("plain", [PLAIN, b"HTTP/1.1" + CHUNKS])
def test_a_plain_answer_is_not_odd(plain: bytes) -> None:
    with answering(plain) as url:
        found = Transport(Address.parse(url), patience=0.0).look("/c", {})
        assert (found.odd, found.body) == (False, b"{}")


def test_an_answer_that_does_not_end_is_given_up() -> None:
    with answering(PLAIN.replace(b": 2", b": 9999"), then=b"x") as url:
        transport = Transport(Address.parse(url), patience=0.0, deadline=0.5)
        with pytest.raises(CollectorError, match=r"did not end its answer in 0\.5 s"):
            transport.get("/c")


@pytest.mark.parametrize("seconds", ["²", "9" * 5000, "-1", "soon"])
def test_a_wait_that_is_no_number_is_none(seconds: str) -> None:
    body = f"HTTP/1.1 400 No\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\n\r\n".encode(
        "latin-1"
    )
    with answering(body) as url, pytest.raises(CollectorError) as refused:
        Transport(Address.parse(url), patience=0.0).get("/c")
    assert refused.value.facts["wait"] == 0


@pytest.mark.parametrize("url", ["http://[::/x", "http://a.org/gesündheit", "http://a..b/health",
                                 "http://%31%32%37.0.0.1/c", "http://a\x00b/c", "http://a\x1f/c",
                                 "http://a\x7f.org/c", "http://a\x85b/c", "http://a<b/c",
                                 "http://a|b/c"])  # fmt: skip
def test_no_address_of_a_campaign_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(ParameterError, match="no address of a campaign"):
        Address.parse(url)


def test_a_last_dot_of_another_script_is_no_other_account() -> None:
    assert {Address.parse(f"https://example.org{dot}/c").server for dot in ("", ".", "。")} == {
        "https://example.org"
    }


def test_a_name_that_is_never_found_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns a name decides when its lookup ends."""
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(20) and [])
    transport = Transport(Address.parse("http://slow.example/c"), patience=0, deadline=0.3)
    begun = time.monotonic()
    with pytest.raises(CollectorError, match=r"slow\.example"):
        transport.get("/v1/campaigns/c")
    assert time.monotonic() - begun < 5
    answered.set()


def test_all_addresses_of_a_name_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's own DNS decides how many there are: 23 of them took 696 s."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        place = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]  # the queue is full: nobody else is answered
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(place)
        found = (socket.AF_INET, socket.SOCK_STREAM, 0, "", place)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [found] * 9)
        begun = time.monotonic()
        with pytest.raises(OSError):
            _connected(("many.example", 80), 0.4)
        assert time.monotonic() - begun < 2
        for each in waiting:
            each.close()
