"""Protocol: HTTP with an end to patience, so that slow and greedy senders cost little."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httptools
from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sfumato.collect.server.limits import prefix
from sfumato.collect.server.replies import RefusalError

MOST_CONNECTIONS, NETWORK_CONNECTIONS = 1000, 250  # of all, and of one network (/24, /56)
HEADER_BYTES, HEADER_SECONDS, BODY_SECONDS, KEEP_ALIVE_SECONDS = 8 << 10, 5.0, 10.0, 15
TAKE_SECONDS = 20.0  # for an answer, or 48 KB of a long one, to be taken off our hands
NEVER = float("inf")
STOPS = (signal.SIGINT, signal.SIGTERM)
BLANK_LINE = b"\r\n\r\n"


class GuardedProtocol(HttpToolsProtocol):
    """A connection that must send its headers within 8 KB and 5 s and its body within 10 s, take
    its answers within 20 s, and wait for one before its next request is looked at.
    """

    deadline = NEVER  # of what is being received
    taking_since = NEVER  # when part of an answer was first seen waiting to be taken
    network = b""
    _held = b""  # what has come,
    _read = 0  # and how much of it was read: what is behind an unanswered request is not
    _answering: RequestResponseCycle | None = None
    _heading = False  # whether the headers are being received
    _piece = 0  # bytes of the piece at hand
    _first = 0  # bytes of the piece in which they began, some of which may be of a request before
    _received = 0  # bytes of the pieces since

    def __init__(self, *given: Any, of_network: int = MOST_CONNECTIONS, **named: Any) -> None:
        super().__init__(*given, **named)
        self.of_network = of_network

    # uvicorn is only ever given a Transport, asyncio says BaseTransport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.network = prefix(self.client[0] if self.client else None)
        if len(self.connections) > MOST_CONNECTIONS or self._neighbours() > self.of_network:
            self._turn_away(
                RefusalError(503, "busy", "too many connections", "come back later", wait=5)
            )
            return
        self.deadline = self.loop.time() + HEADER_SECONDS

    def _neighbours(self) -> int:
        """The connections of this one's network, itself included."""
        if len(self.connections) <= self.of_network:
            return 0  # not worth counting
        return sum(getattr(each, "network", None) == self.network for each in self.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        self._held = b""
        self.pipeline.clear()
        if self._answering is not None:  # not the last request, where another came behind it
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._held = self._held[self._read :] + data if self._held else data
        self._read = 0
        self._feed()

    def _feed(self) -> None:
        """Read on, up to the end of one request after the other; what comes behind one that is not
        answered stays where it is, and no more is fetched.
        """
        while not self.transport.is_closing():
            held, start = self._held, self._read
            if self._is_owing():
                self.flow.pause_reading()
                return
            # A piece ends at a blank line, as do headers: it holds the end of one request and the
            # beginning of another at most. Most requests have one such line, and are fed whole.
            end = held.find(BLANK_LINE, start) + len(BLANK_LINE)
            if end < len(BLANK_LINE) or held.find(BLANK_LINE, end) < 0:
                self._held, self._read = b"", 0
                self._feed_piece(held[start:])
                return
            self._read = end
            self._feed_piece(held[start:end])

    def _is_owing(self) -> bool:
        """Whether a request has come whole and is not answered yet."""
        if self.pipeline:
            return True
        return self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)

    def _feed_piece(self, data: bytes) -> None:
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
            self._turn_away(_headers_too_large())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heading, self._first, self._received = True, self._piece, 0
        self.deadline = self.loop.time() + HEADER_SECONDS

    def on_headers_complete(self) -> None:
        self._heading = False
        self.deadline = self.loop.time() + BODY_SECONDS
        # Most requests come in one short piece, which need not be added up.
        if self._first + self._received > HEADER_BYTES and self._head_size() > HEADER_BYTES:
            self._turn_away(_headers_too_large())
            return
        super().on_headers_complete()
        if not self.pipeline:
            self._answering = self.cycle

    def _head_size(self) -> int:
        """The bytes that the address and the headers take."""
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_message_complete(self) -> None:
        self.deadline = NEVER
        if self.cycle is not None:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def on_response_complete(self) -> None:
        self._answering = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self._held:
            self._feed()

    def resume_writing(self) -> None:
        self.taking_since = NEVER  # a good part of an answer was taken
        super().resume_writing()

    def end_patience(self, now: float) -> None:
        """Send away who takes too long to say what they want, or to take what they asked for."""
        if now > self.deadline:
            self.deadline = NEVER
            self._turn_away(RefusalError(408, "slow", "the request took too long to arrive"))
        if not self.transport.get_write_buffer_size():
            self.taking_since = NEVER
        elif self.taking_since == NEVER:
            self.taking_since = now
        elif now > self.taking_since + TAKE_SECONDS:
            self.transport.abort()

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


def _headers_too_large() -> RefusalError:
    return RefusalError(431, "headers", "the address and the headers are larger than 8 KB")


def _raw(error: RefusalError) -> bytes:
    """An answer as it goes over the wire."""
    headers: list[tuple[bytes, bytes]] = [
        *error.headers(),
        (b"content-length", str(len(error.body)).encode()),
        (b"connection", b"close"),
    ]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    return b"HTTP/1.1 %d Refused\r\n" % error.status + lines + b"\r\n" + error.body
