"""The OpenAPI document, written from the types that go over the wire."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from sfumato import __version__
from sfumato.collect.figures import Figures
from sfumato.collect.server.wire import (
    CampaignDocument,
    Failure,
    Health,
    PublishedFiles,
    Receipts,
    ReceiptsAsked,
    ReportBatch,
    Taken,
    Withdrawal,
    Withdrawn,
)

_TYPES: tuple[Any, ...] = (
    CampaignDocument,
    Failure,
    Figures,
    Health,
    PublishedFiles,
    Receipts,
    ReceiptsAsked,
    ReportBatch,
    Taken,
    Withdrawal,
    Withdrawn,
)
_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The campaign's name.",
    "schema": {"type": "string", "pattern": "^[a-z0-9-]{1,64}$"},
}
_WORDS = {
    400: "not JSON, or not HTTP",
    403: "no token, or one of another role",
    404: "no such campaign, or nothing there",
    405: "another method",
    408: "the request took too long",
    409: "another version of the campaign: fetch it, and ask the person again",
    410: "closed, or not yet open",
    413: "over 256 KB",
    415: "not application/json",
    422: "not the shape that is asked for",
    429: "too many; see Retry-After",
    431: "headers over 8 KB",
    503: "the store takes nothing now; see Retry-After",
}


@cache
def document() -> dict[str, Any]:
    """The whole API, as OpenAPI 3.1."""
    _, schemas = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sfumato collector",
            "version": __version__,
            "description": "Takes blurred answers, and shows what the crowd says.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": _paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _paths() -> dict[str, Any]:
    start = "/v1/campaigns/{name}"
    taking = (400, 404, 408, 413, 415, 422, 429, 431, 503)
    return {
        start: {"get": _call("A campaign", CampaignDocument, (404,), named=True)},
        f"{start}/reports": {
            "post": _call("Send reports", Taken, (*taking, 409, 410), body=ReportBatch, named=True)
        },
        f"{start}/receipts": {
            "post": _call("Are they stored?", Receipts, taking, body=ReceiptsAsked, named=True)
        },
        f"{start}/withdrawals": {
            "post": _call("Take a report back", Withdrawn, taking, body=Withdrawal, named=True)
        },
        f"{start}/figures": {
            "get": _call("The figures", Figures, (403, 404), named=True, secret=True)
        },
        f"{start}/export": {"get": _export()},
        "/v1/manifest": {"get": _call("Hashes of the files served", PublishedFiles)},
        "/v1/openapi.json": {"get": _plain("This document", "application/json")},
        "/healthz": {"get": _call("Does the server live?", Health)},
        "/readyz": {"get": _call("Does it take reports?", Health, (503,))},
        "/metrics": {"get": _plain("Counts", "text/plain", (403,), secret=True)},
    }


def _call(
    words: str,
    reply: Any,
    failures: tuple[int, ...] = (),
    *,
    body: Any = None,
    named: bool = False,
    secret: bool = False,
) -> dict[str, Any]:
    found = _plain(words, "application/json", failures, named=named, secret=secret)
    found["responses"]["200"]["content"]["application/json"] = {"schema": _reference(reply)}
    if body is not None:
        content = {"application/json": {"schema": _reference(body)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _plain(
    words: str,
    kind: str,
    failures: tuple[int, ...] = (),
    *,
    named: bool = False,
    secret: bool = False,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": words,
        "responses": {"200": {"description": words, "content": {kind: {"schema": {}}}}}
        | {str(status): _failure(status) for status in failures},
    }
    if named:
        found["parameters"] = [_NAME]
    if secret:
        found["security"] = [{"bearer": []}, {"basic": []}, {}]
    return found


def _export() -> dict[str, Any]:
    found = _plain(
        "All reports, in the order of their ids, without them",
        "application/vnd.apache.parquet",
        (403, 404, 422, 503),
        named=True,
        secret=True,
    )
    choice = {"name": "format", "in": "query", "schema": {"type": "string", "enum": ["parquet"]}}
    found["parameters"] = [_NAME, choice]
    return found


def _failure(status: int) -> dict[str, Any]:
    content = {"application/json": {"schema": _reference(Failure)}}
    found: dict[str, Any] = {"description": _WORDS[status], "content": content}
    if status in (429, 503):
        found["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return found


def _reference(kind: Any) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
