"""Replies: how an answer or a refusal leaves the server, with the headers that belong to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.responses import Response

from sfumato.collect.server.wire import Complaint, Failure, encode

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# No third party's code or images, no frames, nothing but ourselves to talk to.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action {forms}; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
PLAIN: Headers = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
JSON: Headers = [(b"content-type", b"application/json"), *PLAIN]
# On what a form on someone else's page needs, without credentials, and nowhere else.
SHARED: Headers = [*JSON, (b"access-control-allow-origin", b"*")]
# On the answer to reports, the one that must be quick: what only matters to pages is left out.
TAKEN: Headers = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"access-control-allow-origin", b"*"),
]
PREFLIGHT: Headers = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-max-age", b"86400"),
    (b"cache-control", b"no-store"),
]


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


def page_headers(forms: str = "'none'") -> Headers:
    """The headers of an HTML page; `forms` is where its forms may be sent."""
    policy = CONTENT_POLICY.format(forms=forms).encode()
    return [
        (b"content-type", b"text/html; charset=utf-8"),
        *PLAIN,
        (b"content-security-policy", policy),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    ]
