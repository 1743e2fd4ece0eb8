"""App: the addresses of the collector, and what each of them does."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.collect.assets import Assets, chosen_language, takes_gzip
from sfumato.collect.dashboard import index_page
from sfumato.collect.headers import (
    JSON,
    PLAIN,
    PREFLIGHT,
    SHARED,
    file_headers,
    page_headers,
)
from sfumato.collect.language import LANGUAGES
from sfumato.collect.manifest import Published
from sfumato.collect.server.collector import Collector, Served
from sfumato.collect.server.metrics import exposition
from sfumato.collect.server.openapi import document
from sfumato.collect.server.owner_routes import OwnerPages
from sfumato.collect.server.parsing import decoded, identities
from sfumato.collect.server.replies import Receive, RefusalError, Scope, Send, answer, reply
from sfumato.collect.server.report_route import GoneError, ReportRoute, busy, json_body
from sfumato.collect.server.wire import (
    Health,
    Receipts,
    ReceiptsAsked,
    Withdrawal,
    Withdrawn,
    encode,
)
from sfumato.collect.writer import BusyError
from sfumato.errors import SfumatoError

_CAMPAIGNS = "/v1/campaigns/"
_SHARED_ENDS = ("", "reports", "receipts", "withdrawals")  # for forms on someone else's page

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, eq=False)
class Routes:
    """What every address but the report route does."""

    collector: Collector
    assets: Assets

    async def campaign(self, request: Request) -> Response:
        served = self._served(request)
        return answer(200, encode(served.campaign.document()), SHARED)

    async def receipts(self, request: Request) -> Response:
        served = self._served(request)
        asked = await self._decoded(request, _receipts_asked)
        ids = identities(asked.ids)
        if ids is None:
            raise RefusalError(422, "shape", "an id is not 128 bits in base64url")
        self.collector.check_limit(request.scope, len(ids), at_most_a_minute=True)
        found = await asyncio.to_thread(self.collector.receipts, served, ids)
        lists: dict[str, list[str]] = {"stored": [], "withdrawn": [], "unknown": []}
        for identity, (state, _) in zip(asked.ids, found, strict=True):
            lists[state].append(identity)
        return answer(200, encode(Receipts(**lists)), SHARED)

    async def withdrawals(self, request: Request) -> Response:
        served = self._served(request)
        asked = await self._decoded(request, _withdrawal)
        ids = identities([asked.id])
        if ids is None:
            raise RefusalError(422, "shape", "the id is not 128 bits in base64url")
        self.collector.check_limit(request.scope, 1)
        number = served.number
        if len(served.rounds) > 1:  # a report of a round before can be taken back as well
            ((_, number),) = await asyncio.to_thread(self.collector.receipts, served, ids)
        await self.collector.writer.withdraw(number, ids[0])
        return answer(200, encode(Withdrawn(True)), SHARED)

    def _served(self, request: Request) -> Served:
        return self.collector.campaign(request.path_params["name"])

    async def _decoded(self, request: Request, decode: Any) -> Any:
        return decoded(decode, await json_body(request.scope, request.receive))

    async def manifest(self, request: Request) -> Response:
        return answer(200, self._manifest, SHARED)

    @cached_property
    def _manifest(self) -> bytes:
        return encode(Published.of(self.assets).to_dict())

    async def openapi(self, request: Request) -> Response:
        return answer(200, encode(document()), JSON)

    async def health(self, request: Request) -> Response:
        return answer(200, encode(Health("ok")), JSON)

    async def ready(self, request: Request) -> Response:
        """Whether reports can be taken: 503 while the store does not commit."""
        if self.collector.writer.failed is not None:
            raise RefusalError(503, "busy", "the store takes no reports", wait=5)
        return answer(200, encode(Health("ok")), JSON)

    async def metrics(self, request: Request) -> Response:
        if not await asyncio.to_thread(self.collector.allows, request.scope, "read"):
            raise RefusalError(403, "token", "this needs a token of role read or admin")
        text = await asyncio.to_thread(exposition, self.collector)
        kind = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
        return answer(200, text.encode(), [kind, *PLAIN])

    async def static(self, request: Request) -> Response:
        found = self.assets.find(request.path_params["path"])
        if found is None:
            raise RefusalError(404, "unknown", "no such file")
        headers = file_headers(found.kind, kept=found.kept)
        if takes_gzip(request.headers.get("accept-encoding", "")):
            return answer(200, found.zipped, [*headers, (b"content-encoding", b"gzip")])
        return answer(200, found.data, headers)

    async def index(self, request: Request) -> Response:
        open_now = [s.campaign for s in self.collector.served.values() if s.state == "open"]
        page = index_page(open_now, self._language(request, LANGUAGES))
        return answer(200, self.assets.linked(page).encode(), page_headers())

    async def form(self, request: Request) -> Response:
        self._served(request)
        language = self._language(request, LANGUAGES)
        page = self.assets.page("form.html", language)
        return answer(200, page.encode(), page_headers())

    def _language(self, request: Request, known: Sequence[str]) -> str:
        asked, accepted = request.query_params.get("lang"), request.headers.get("accept-language")
        return chosen_language(asked, accepted, known)


_receipts_asked = msgspec.json.Decoder(ReceiptsAsked).decode
_withdrawal = msgspec.json.Decoder(Withdrawal).decode


@dataclass(frozen=True, eq=False)
class App:
    """The whole server as one ASGI application: reports by the short way, the rest by Starlette."""

    collector: Collector
    reports: ReportRoute
    rest: Starlette

    @classmethod
    def of(cls, collector: Collector, assets: Assets | None = None) -> App:
        """The application of a collector."""
        assets = Assets.load() if assets is None else assets
        return cls(collector, ReportRoute(collector), _starlette(collector, assets))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.rest(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        if path.startswith(_CAMPAIGNS):
            name, _, end = path[len(_CAMPAIGNS) :].partition("/")
            if end == "reports" and method == "POST":
                await self._take_reports(scope, receive, send, name)
                return
            if method == "OPTIONS" and end in _SHARED_ENDS:
                await reply(send, 204, b"", PREFLIGHT)
                return
        await self.rest(scope, receive, send)

    async def _take_reports(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        try:
            await self.reports(scope, receive, send, name)
        except Exception as error:
            failed = fault(error)
            await reply(send, failed.status, failed.body, SHARED)


def fault(error: Exception) -> RefusalError:
    """A fault of ours as an answer; the log says where and of what kind it is, without a word of
    what was sent, for a value may hide in any message. What a store says of itself is none.
    """
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f"{Path(where[0].filename).name}:{where[0].lineno}" if where else "?"
    print(f"sfumato: fault {type(error).__name__} at {place}", file=sys.stderr, flush=True)
    if isinstance(error, SfumatoError):
        return RefusalError(503, "store", "the store cannot be read", "it is in the server's log")
    return RefusalError(500, "fault", "this is a fault of Sfumato", "it is in the server's log")


def _starlette(collector: Collector, assets: Assets) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await collector.start()
        yield
        await collector.stop()

    routes = Routes(collector, assets)
    owner = OwnerPages(collector, assets)
    start = "/v1/campaigns/{name}"
    app = Starlette(
        routes=[
            _route(start, routes.campaign, "GET"),
            _route(f"{start}/reports", _only_post, "POST"),  # taken before it comes here
            _route(f"{start}/receipts", routes.receipts, "POST"),
            _route(f"{start}/withdrawals", routes.withdrawals, "POST"),
            _route(f"{start}/figures", owner.figures, "GET"),
            _route(f"{start}/export", owner.export, "GET"),
            _route("/v1/manifest", routes.manifest, "GET"),
            _route("/v1/openapi.json", routes.openapi, "GET"),
            _route("/healthz", routes.health, "GET"),
            _route("/readyz", routes.ready, "GET"),
            _route("/metrics", routes.metrics, "GET"),
            _route("/static/{path:path}", routes.static, "GET"),
            _route("/", routes.index, "GET"),
            _route("/{name}", routes.form, "GET"),
            _route("/{name}/dashboard", owner.dashboard, "GET"),
            _route("/{name}/dashboard/figures", owner.figures, "GET"),  # for the page above
            _route("/{name}/dashboard/owner", owner.owners_dashboard, "GET"),
            _route("/{name}/dashboard/owner/figures", owner.owners_figures, "GET"),
            _route("/{name}/dashboard/owner/export", owner.export, "GET"),
        ],
        exception_handlers={404: _not_found, 405: _not_allowed},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


def _route(path: str, handler: Handler, method: str) -> Route:
    shared = path.startswith(_CAMPAIGNS) and not path.endswith(("figures", "export"))

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except BusyError as error:
            found = busy(error)
        except RefusalError as error:
            found = error
        except GoneError:
            return Response(status_code=400)  # nobody is there to read it
        except Exception as error:
            found = fault(error)
        return answer(found.status, found.body, found.headers(SHARED if shared else JSON))

    return Route(path, handle, methods=[method])


async def _only_post(request: Request) -> Response:
    raise RefusalError(405, "method", "reports are sent by POST")


async def _not_found(request: Request, error: Exception) -> Response:
    return answer(404, RefusalError(404, "unknown", "there is nothing here").body, JSON)


async def _not_allowed(request: Request, error: Exception) -> Response:
    allowed = error.headers if isinstance(error, HTTPException) and error.headers else {}
    methods = allowed.get("Allow", "GET")
    refusal = RefusalError(405, "method", "this address takes another method", f"use {methods}")
    return answer(405, refusal.body, [*JSON, (b"allow", methods.encode())])
