"""Protocol: HTTP with an end to patience, so that slow and greedy senders cost little."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httptools
from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.collect.server.replies import RefusalError

MOST_CONNECTIONS = 1000
HEADER_BYTES, HEADER_SECONDS, BODY_SECONDS, KEEP_ALIVE_SECONDS = 8 << 10, 5.0, 10.0, 15
NEVER = float("inf")
STOPS = (signal.SIGINT, signal.SIGTERM)


class GuardedProtocol(HttpToolsProtocol):
    """A connection that must send its headers within 8 KB and 5 s, and its body within 10 s."""

    deadline = NEVER  # of what is being received
    _heading = False  # whether the headers are being received
    _piece = 0  # bytes of the piece at hand
    _first = 0  # bytes of the piece in which they began, some of which may be of a request before
    _received = 0  # bytes of the pieces since

    # uvicorn is only ever given a Transport, asyncio says BaseTransport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._turn_away(
                RefusalError(503, "busy", "too many connections", "come back later", wait=5)
            )
            return
        self.deadline = self.loop.time() + HEADER_SECONDS

    def data_received(self, data: bytes) -> None:
        self._piece = len(data)
        self._received += self._piece
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._turn_away(RefusalError(400, "http", "only plain HTTP/1.1 is spoken here"))
            return
        except httptools.HttpParserError:
            self._turn_away(RefusalError(400, "http", "not a request of HTTP/1.1"))
            return
        if self._heading and self._received > HEADER_BYTES:
            self._turn_away(RefusalError(431, "headers", "the headers are larger than 8 KB"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heading, self._first, self._received = True, self._piece, 0
        self.deadline = self.loop.time() + HEADER_SECONDS

    def on_headers_complete(self) -> None:
        self._heading = False
        self.deadline = self.loop.time() + BODY_SECONDS
        # Most requests come in one short piece, which need not be added up.
        if self._first + self._received > HEADER_BYTES and _size(self.headers) > HEADER_BYTES:
            self._turn_away(RefusalError(431, "headers", "the headers are larger than 8 KB"))
            return
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.deadline = NEVER
        if self.cycle is not None:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def end_patience(self, now: float) -> None:
        """Send away who takes too long to say what they want."""
        if now > self.deadline:
            self.deadline = NEVER
            self._turn_away(RefusalError(408, "slow", "the request took too long to arrive"))

    def _turn_away(self, error: RefusalError) -> None:
        """Answer without asking the application, and close."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(_raw(error))
        self.transport.close()


class GuardedServer(Server):
    """A server that looks after its connections every second, and for which being asked to stop is
    no failure.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal; unlike uvicorn's own, without dying of it afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in STOPS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, GuardedProtocol):
                    connection.end_patience(now)
        return await super().on_tick(counter)


def _size(headers: Sequence[tuple[bytes, bytes]]) -> int:
    """The bytes that headers take."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def _raw(error: RefusalError) -> bytes:
    """An answer as it goes over the wire."""
    headers: list[tuple[bytes, bytes]] = [
        *error.headers(),
        (b"content-length", str(len(error.body)).encode()),
        (b"connection", b"close"),
    ]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    return b"HTTP/1.1 %d Refused\r\n" % error.status + lines + b"\r\n" + error.body
