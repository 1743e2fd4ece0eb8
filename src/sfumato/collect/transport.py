"""Transport: JSON over HTTP to a collector, sent again with the identical bytes where it failed."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sfumato.errors import ParameterError, ServerError
from sfumato.received import parsed_json

FIRST_WAIT, LONGEST_WAIT = 1.0, 2 * 3600.0  # seconds between two attempts, doubling
LONGEST_PATIENCE = 14 * 24 * 3600.0
LIMITED_PATIENCE = 180.0  # with a server that says when the next minute's reports may come
TIMEOUT = 30.0
MOST_ANSWER = 64 << 20  # bytes of an answer that are read
USUAL_PORTS = {"http": 80, "https": 443}
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
        parts = urlsplit(url)
        path = parts.path.rstrip("/").removesuffix("/dashboard/owner").removesuffix("/dashboard")
        name = path.rpartition("/")[2]
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise ParameterError(
                "this is no address of a campaign", hint="as in https://example.org/health-2027"
            )
        return cls(parts.scheme, parts.hostname, port, name)

    @property
    def origin(self) -> str:
        """The server, as a ledger knows it: the same with the usual port and without one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port in (None, USUAL_PORTS[self.scheme])
        return f"{self.scheme}://{host}" + ("" if usual else f":{self.port}")

    @property
    def campaign(self) -> str:
        """The path of the campaign's JSON."""
        if not self.name:
            raise ParameterError(
                "the address names no campaign", hint=f"as in {self.origin}/health-2027"
            )
        return f"/v1/campaigns/{self.name}"


@dataclass(eq=False)
class Transport:
    """One connection to a server, kept open between requests."""

    address: Address
    token: str | None = None
    patience: float = 60.0  # seconds for which a request is tried again
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        return parsed_json(self.fetch(path)[0], f"the answer of {self.address.origin}")

    def fetch(self, path: str) -> tuple[bytes, Mapping[str, str]]:
        """The bytes at a path, and the headers, by their names in small letters."""
        return self._settled("GET", path, None)

    def post(self, path: str, body: bytes) -> Any:
        """The JSON that answers these bytes; they go out again, the same, until they arrive."""
        found, _ = self._settled("POST", path, body)
        return parsed_json(found, f"the answer of {self.address.origin}")

    def _settled(
        self, method: str, path: str, body: bytes | None
    ) -> tuple[bytes, Mapping[str, str]]:
        start, wait = self.clock(), FIRST_WAIT
        while True:
            try:
                return self._once(method, path, body)
            except CollectorError as error:
                asked = error.facts.get("wait") or 0
                # Jitter, so that all who met the same fault do not come back at once.
                pause = max(asked, wait * random.uniform(0.5, 1.0))
                ready = max(self.patience, LIMITED_PATIENCE if error.status == 429 else 0.0)
                end = start + min(ready, LONGEST_PATIENCE)
                if error.status not in (0, *RETRIED) or self.clock() + pause > end:
                    raise
            self.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT)

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[bytes, Mapping[str, str]]:
        headers = {"content-type": "application/json"} if body is not None else {}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        try:
            if self._connection is None:
                self._connection = self._opened()
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            found = answer.read(MOST_ANSWER)
            if answer.will_close:
                self.close()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreached(error) from None
        if answer.status != 200:
            raise _refused(answer.status, found, answer.getheader("retry-after"))
        return found, {name.lower(): value for name, value in answer.getheaders()}

    def _opened(self) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        if self.address.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)

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


def _refused(status: int, body: bytes, retry_after: str | None) -> CollectorError:
    """What the server said, in its own words."""
    try:
        told = json.loads(body)["error"]
        message, hint = str(told["message"]), told.get("hint")
    except (ValueError, KeyError, TypeError, RecursionError):
        message, hint = "the server does not speak as a collector does", None
    error = CollectorError(f"{message} (HTTP {status})", hint=hint, status=status)
    seconds = retry_after or ""
    error.facts["wait"] = int(seconds) if seconds.isdigit() else 0
    return error
