"""Transport: JSON over HTTP to a collector, sent again with the identical bytes where it failed."""

from __future__ import annotations

import http.client
import ipaddress
import math
import queue
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sfumato.errors import FileError, ParameterError, ServerError
from sfumato.untrusted import Untrusted, parsed_json

FIRST_WAIT, LONGEST_WAIT = 1.0, 2 * 3600.0  # seconds between two attempts, doubling
LONGEST_PATIENCE = 14 * 24 * 3600.0
LONGEST_STATUS_LINE = 1024  # bytes
LIMITED_PATIENCE = 180.0  # with a server that says when the next minute's reports may come
TIMEOUT, DEADLINE = 30.0, 120.0  # seconds without a byte, and for a whole answer
LATE = 598  # the status of an answer that did not end; it is not asked for again
MOST_ANSWER, MOST_REFUSAL = 64 << 20, 64 << 10  # bytes of an answer, or a refusal, that are read
LONGEST_SIZE_LINE = 16  # bytes of the line before a chunk
USUAL_PORTS = {"http": 80, "https": 443}
LOOPBACK = "127.0.0.1"  # stands for every name by which a machine calls itself
# Names by which machines call themselves, and where IPv6 holds an address of IPv4: as it was once
# written, mapped, and behind NAT64.
LOCAL_NAMES = re.compile(
    r"(.+\.)?localhost|localhost(\.localdomain|[46](\.localdomain[46])?)|ip6-(localhost|loopback)"
)
HOLDS_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96")))
RETRIED = (408, 429, 500, 502, 503, 504)


class CollectorError(ServerError):
    """A collector that cannot be reached or that refused; `status` is 0 where it did not answer."""

    def __init__(self, message: str, *, hint: str | None = None, status: int = 0) -> None:
        super().__init__(message, hint=hint, status=status)
        self.status = status


@dataclass(frozen=True)
class Address:
    """A campaign of a server, by the address of its form or of its JSON.

    >>> Address.parse("https://example.org/health-2027?lang=de")
    Address(scheme='https', host='example.org', port=None, name='health-2027')
    """

    scheme: str
    host: str
    port: int | None
    name: str

    @classmethod
    def parse(cls, url: str) -> Address:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            ascii_host = host.encode("idna").decode()
        except ValueError:  # of brackets, ports or letters that cannot be
            parts, host, ascii_host, port = urlsplit(""), "", "", None
        path = parts.path.rstrip("/").removesuffix("/dashboard/owner").removesuffix("/dashboard")
        name = path.rpartition("/")[2]
        known = parts.scheme in ("http", "https") and re.fullmatch(r"[\w.:-]+", ascii_host, re.A)
        if not known or not re.fullmatch("[a-z0-9-]{0,64}", name):
            raise ParameterError(
                "this is no address of a campaign", hint="as in https://example.org/health-2027"
            )
        return cls(parts.scheme, host, port, name)

    @property
    def origin(self) -> str:
        """The server as it was called, with a port only where it is not the usual one."""
        port = "" if self.port in (None, USUAL_PORTS[self.scheme]) else f":{self.port}"
        return f"{self.scheme}://{_bracketed(self.host)}{port}"

    @cached_property
    def server(self) -> str:
        """The server as a ledger knows it, however it is spelt: capitals, a last dot, letters
        beyond ASCII, numbers written otherwise, the names of this very machine. What is spent does
        not depend on the way there, so http and https, and their usual ports, are one.

        >>> {Address.parse(f"http://{name}:90/c").server for name in ("LOCALHOST.", "127.1")}
        {'https://127.0.0.1:90'}
        >>> Address.parse("http://Example.org:80/c").server
        'https://example.org'
        """
        port = "" if self.port in (None, *USUAL_PORTS.values()) else f":{self.port}"
        return f"https://{_bracketed(canonical_host(self.host))}{port}"

    @property
    def campaign(self) -> str:
        """The path of the campaign's JSON."""
        if not self.name:
            raise ParameterError(
                "the address names no campaign", hint=f"as in {self.origin}/health-2027"
            )
        return f"/v1/campaigns/{self.name}"


def canonical_host(host: str) -> str:
    """A host by one name, whichever it is called by.

    >>> [canonical_host(name) for name in ("0x7f.1", "::ffff:192.0.2.1", "B\u00fccher.example.")]
    ['127.0.0.1', '192.0.2.1', 'xn--bcher-kva.example']
    """
    try:
        name = host.encode("idna").decode().rstrip(".").lower()
    except UnicodeError:
        name = host.rstrip(".").lower()
    try:
        # As the system reads numbers: 127.1, 0x7f.1 and 2130706433 are one address; browsers take
        # 0x for nought, too.
        number = socket.inet_ntoa(socket.inet_aton(re.sub(r"(?<![^.])0x(?![^.])", "0", name)))
    except (OSError, ValueError):
        number = name
    try:
        address = ipaddress.ip_address(number)
    except ValueError:
        return LOOPBACK if LOCAL_NAMES.fullmatch(name) else name
    if any(address in network for network in HOLDS_IPV4):
        address = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return LOOPBACK if address.is_loopback or int(address) <= 1 else str(address)  # :: and ::1


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class HttpAnswer(NamedTuple):
    """What a server said: headers in their order, their names in small letters; `odd` where they
    are not written as HTTP wants it, and then without its body.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    odd: bool


@dataclass(eq=False)
class Transport:
    """One connection to a server, kept open between requests; all of them have until `ends`, by its
    clock, so that a server which draws out each answer a little holds nobody for ever.
    """

    address: Address
    token: str | None = None
    patience: float = 60.0  # seconds for which a request is tried again
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    deadline: float = DEADLINE
    ends: float = math.inf
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        return self._json("GET", path, None)

    def post(self, path: str, body: bytes) -> Any:
        """The JSON that answers these bytes; they go out again, the same, until they arrive."""
        return self._json("POST", path, body)

    def _json(self, method: str, path: str, body: bytes | None) -> Any:
        found = self._retried(partial(self._granted, method, path, body))
        return parsed_json(found.body, f"the answer of {self.address.origin}")

    def look(self, path: str, headers: Mapping[str, str]) -> HttpAnswer:
        """Whatever a server answers to these very headers, redirections and refusals too."""
        return self._retried(partial(self._once, "GET", path, None, headers))

    def _retried(self, ask: Callable[[], HttpAnswer]) -> HttpAnswer:
        start, wait = self.clock(), FIRST_WAIT
        while True:
            try:
                return ask()
            except CollectorError as error:
                asked = error.facts.get("wait") or 0
                # Jitter, so that all who met the same fault do not come back at once.
                pause = max(asked, wait * random.uniform(0.5, 1.0))
                ready = max(self.patience, LIMITED_PATIENCE if error.status == 429 else 0.0)
                end = min(start + min(ready, LONGEST_PATIENCE), self.ends)
                if error.status not in (0, *RETRIED) or self.clock() + pause > end:
                    raise
            self.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT)

    def _granted(self, method: str, path: str, body: bytes | None) -> HttpAnswer:
        headers = {"content-type": "application/json"} if body is not None else {}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        found = self._once(method, path, body, headers)
        if found.odd or found.status != 200:
            raise _refused(found.status, found.body, dict(found.headers).get("retry-after"))
        return found

    def _once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> HttpAnswer:
        seconds = min(self.deadline, self.ends - self.clock())
        if seconds <= 0:
            raise self._late()
        if self._connection is None:
            self._connection = self._opened(min(TIMEOUT, seconds))
        late = threading.Event()
        timer = threading.Timer(seconds, _hang_up, (self._connection, late))
        timer.daemon = True
        timer.start()
        try:
            self._connection.request(method, path, body, dict(headers))
            answer = self._connection.getresponse()
            odd = _odd(answer)
            found = b"" if odd else answer.read(MOST_ANSWER)
            if answer.will_close or not answer.isclosed():
                self.close()
        except _OddAnswer:
            self.close()
            return HttpAnswer(200, (), b"", True)  # its own status cannot be told
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if not late.is_set():
                raise self._unreached(error) from None
        finally:
            timer.cancel()
        if late.is_set():
            self.close()
            raise self._late()
        pairs = tuple((name.lower(), value) for name, value in answer.getheaders())
        return HttpAnswer(answer.status, pairs, found, odd)

    def _late(self) -> CollectorError:
        what = (
            f"did not end its answer in {self.deadline:g} s"
            if self.clock() < self.ends
            else "did not end its answers in the time for all of them"
        )
        return CollectorError(f"{self.address.origin} {what}", status=LATE)

    def _opened(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        if self.address.scheme == "http":
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        else:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        connection.response_class = _Response
        connection._create_connection = _connected  # type: ignore[attr-defined]
        return connection

    def _unreached(self, error: Exception) -> CollectorError:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return CollectorError(
            f"cannot reach {self.address.origin}: {reason}",
            hint="is it running, and is this its address?",
        )

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _OddAnswer(http.client.HTTPException):
    """A status line or chunks that a browser may read otherwise than Python does."""


class _Response(http.client.HTTPResponse):
    """An answer whose status line and chunks are written in the one way that all read alike.

    Python takes `+100` for 100, which it skips with its headers, and HTTP/1.00 for HTTP/1.1; a
    carriage return ends a status line for browsers alone. Of a chunk there is a size in hexadecimal
    digits, CRLF behind it and behind the data, no extension and no trailer: Python takes any two
    bytes for the CRLF behind data. So a server could write one page for it, another for browsers.
    """

    fp: Any

    def _read_next_chunk_size(self) -> int:
        line = self.fp.readline(LONGEST_SIZE_LINE)
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}\r\n", line):
            raise _OddAnswer
        return int(line, 16)

    def _get_chunk_left(self) -> int | None:
        left: int | None = self.chunk_left
        if left:
            return left
        if left is not None and self.fp.read(2) != b"\r\n":
            raise _OddAnswer
        left = self._read_next_chunk_size()
        if left == 0:
            if self.fp.readline(LONGEST_SIZE_LINE) != b"\r\n":
                raise _OddAnswer
            self._close_conn()  # type: ignore[attr-defined]
            left = None
        self.chunk_left = left
        return left

    def _read_status(self) -> tuple[str, int, str]:
        line = self.fp.readline(LONGEST_STATUS_LINE)
        if not line:
            raise http.client.RemoteDisconnected("it closed the connection without an answer")
        found = re.fullmatch(rb"(HTTP/1\.[01]) ([1-9][0-9]{2})(?: ([ -~]*))?\r\n", line)
        if not found or found[2] == b"100":  # what Python skips, headers and all
            raise _OddAnswer
        version, status, reason = found.groups(b"")
        return version.decode(), int(status), reason.decode()


def _connected(address: tuple[str, int], timeout: float, *_: Any) -> socket.socket:
    """A connection to the first address of a name that takes one; all of them share the time, since
    whoever owns the name decides how many it has.
    """
    end, error = time.monotonic() + timeout, OSError("it has no address")
    for family, kind, protocol, _name, place in _addresses(*address, timeout):
        opened = socket.socket(family, kind, protocol)
        try:
            opened.settimeout(max(end - time.monotonic(), 0.001))
            opened.connect(place)
        except OSError as failed:
            opened.close()
            error = failed
        else:
            opened.settimeout(timeout)
            return opened
    raise error


def _addresses(host: str, port: int, timeout: float) -> list[Any]:
    """The addresses of a name. The system's lookup knows no deadline, so a thread of its own waits
    for it, which nobody waits for.
    """
    found: queue.SimpleQueue[list[Any] | OSError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        except OSError as error:
            found.put(error)

    threading.Thread(target=look_up, daemon=True).start()
    try:
        answer = found.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError(f"its name was not found in {timeout:g} s") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def _hang_up(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    """End a conversation that a server draws out."""
    late.set()
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _odd(answer: http.client.HTTPResponse) -> bool:
    """Whether a browser may read this answer otherwise than Python does.

    Python's parser takes a line that it does not understand for the end of the headers and keeps
    what follows as text; it takes `1_234` for a length, and chunks in an answer of HTTP/1.0.
    """
    lengths = answer.msg.get_all("content-length", [])
    codings = answer.msg.get_all("transfer-encoding", [])
    return bool(
        answer.msg.defects
        or answer.msg.get_payload()
        or len(lengths) + len(codings) > 1
        or not all(re.fullmatch("[0-9]{1,12}", length) for length in lengths)
        or (codings and (codings[0].lower() != "chunked" or answer.version != 11))
    )


def _refused(status: int, body: bytes, retry_after: str | None) -> CollectorError:
    """What the server said, in its own words."""
    try:
        error = Untrusted(parsed_json(body, "its answer", MOST_REFUSAL), "its answer")["error"]
        message = f"the server says: {error['message'].word()}"
        hint = f"it says: {error['hint'].word()}" if error.value.get("hint") else None
    except FileError:
        message, hint = "the server does not speak as a collector does", None
    refusal = CollectorError(f"{message} (HTTP {status})", hint=hint, status=status)
    seconds = retry_after or ""
    refusal.facts["wait"] = int(seconds) if re.fullmatch("[0-9]{1,9}", seconds) else 0
    return refusal
