"""Headers: what our server sends along with pages, files and JSON. Verifying expects the same."""

from __future__ import annotations

Headers = list[tuple[bytes, bytes]]

# No third party's code or images, no frames, nothing but ourselves to talk to.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action {forms}; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
FORM_POLICY = CONTENT_POLICY.format(forms="'none'")
OWNER_POLICY = CONTENT_POLICY.format(forms="'self'")  # the box for SQL is a form
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


def page_headers(policy: str = FORM_POLICY) -> Headers:
    """The headers of an HTML page under a content policy."""
    return [
        (b"content-type", b"text/html; charset=utf-8"),
        *PLAIN,
        (b"content-security-policy", policy.encode()),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    ]


def file_headers(kind: str, *, kept: bool) -> Headers:
    """The headers of a file of a type; `kept` where its address holds its hash."""
    cache = b"public, max-age=31536000, immutable" if kept else b"no-store"
    return [
        (b"content-type", kind.encode()),
        (b"cache-control", cache),
        *PLAIN[1:],
        (b"access-control-allow-origin", b"*"),  # for a form on someone else's page
        (b"vary", b"accept-encoding"),
    ]
