"""The OpenAPI document, written from the types that go over the wire."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

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
    503: "the store cannot be used now; see Retry-After",
}


class Call(NamedTuple):
    """What may be asked at an address: the method, what it answers (one of our types, or the type
    of a file), how it may fail, what is sent, and whether that takes a token.
    """

    address: str
    method: str
    words: str
    reply: Any
    failures: tuple[int, ...] = ()
    body: Any = None
    secret: bool = False
    query: tuple[Any, ...] = ()


_JSON = "application/json"
_TAKING = (400, 404, 408, 413, 415, 422, 429, 431, 503)
_SEEN = (403, 404, 503)
_START = "/v1/campaigns/{name}"
_FORMAT = {"name": "format", "in": "query", "schema": {"type": "string", "enum": ["parquet"]}}
CALLS = (
    Call(_START, "get", "A campaign", CampaignDocument, (404,)),
    Call(f"{_START}/reports", "post", "Send reports", Taken, (*_TAKING, 409, 410), ReportBatch),
    Call(f"{_START}/receipts", "post", "Are they stored?", Receipts, _TAKING, ReceiptsAsked),
    Call(f"{_START}/withdrawals", "post", "Take a report back", Withdrawn, _TAKING, Withdrawal),
    Call(f"{_START}/figures", "get", "The figures", Figures, _SEEN, secret=True),
    Call(
        f"{_START}/export",
        "get",
        "All reports, in the order of their ids, without them",
        "application/vnd.apache.parquet",
        (*_SEEN, 422),
        secret=True,
        query=(_FORMAT,),
    ),
    Call("/v1/manifest", "get", "Hashes of the files served", PublishedFiles),
    Call("/v1/openapi.json", "get", "This document", _JSON),
    Call("/healthz", "get", "Does the server live?", Health),
    Call("/readyz", "get", "Does it take reports?", Health, (503,)),
    Call("/metrics", "get", "Counts", "text/plain", (403,), secret=True),
)


@cache
def document() -> dict[str, Any]:
    """The whole API, as OpenAPI 3.1."""
    types = dict.fromkeys(each for call in CALLS for each in (call.reply, call.body))
    ours = [Failure, *(each for each in types if isinstance(each, type))]
    _, schemas = msgspec.json.schema_components(ours, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sfumato collector",
            "version": __version__,
            "description": "Takes blurred answers, and shows what the crowd says.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": {call.address: {call.method: _described(call)} for call in CALLS},
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _described(call: Call) -> dict[str, Any]:
    kind, schema = (
        (call.reply, {}) if isinstance(call.reply, str) else (_JSON, _reference(call.reply))
    )
    answer = {"description": call.words, "content": {kind: {"schema": schema}}}
    failures = {str(status): _failure(status) for status in call.failures}
    found: dict[str, Any] = {"summary": call.words, "responses": {"200": answer} | failures}
    if "{name}" in call.address:
        found["parameters"] = [_NAME, *call.query]
    if call.secret:
        found["security"] = [{"bearer": []}, {"basic": []}, {}]
    if call.body is not None:
        content = {_JSON: {"schema": _reference(call.body)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _failure(status: int) -> dict[str, Any]:
    content = {_JSON: {"schema": _reference(Failure)}}
    found: dict[str, Any] = {"description": _WORDS[status], "content": content}
    if status in (429, 503):
        found["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return found


def _reference(kind: Any) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
