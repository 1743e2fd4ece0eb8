"""Replies: how an answer or a refusal leaves the server, with the headers that belong to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.responses import Response

from sfumato.collect.headers import JSON, Headers
from sfumato.collect.server.wire import Complaint, Failure, encode

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class RefusalError(Exception):
    """A request that is not granted: the status, and the error as JSON."""

    def __init__(
        self, status: int, kind: str, message: str, hint: str | None = None, *, wait: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.wait = status, kind, wait
        self.body = encode(Failure(Complaint(kind, message, hint)))

    def headers(self, base: Headers = JSON) -> Headers:
        """The headers of the answer: Retry-After where waiting helps, whom to ask for a token where
        one is missing, and the end of the connection where more of the same would come.
        """
        if self.status == 413:
            return [*base, (b"connection", b"close")]
        if self.wait:
            return [*base, (b"retry-after", str(self.wait).encode())]
        return (
            [*base, (b"www-authenticate", b'Basic realm="token"')] if self.status == 401 else base
        )


async def reply(
    send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    """Send an answer."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def answer(status: int, body: bytes, headers: Headers) -> Response:
    """An answer for Starlette, with these headers and no others."""
    response = Response(body, status)
    response.raw_headers = [*headers, (b"content-length", str(len(body)).encode())]
    return response
