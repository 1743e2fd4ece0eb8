"""What owners see: figures, dashboard and export; by token unless the dashboard is public."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sfumato.collect.assets import Assets, chosen_language
from sfumato.collect.dashboard import Dashboard, Inquiry
from sfumato.collect.figures import Figures, days_of, figures_of
from sfumato.collect.headers import JSON, OWNER_POLICY, PLAIN, Headers, page_headers
from sfumato.collect.language import LANGUAGES, Language
from sfumato.collect.releases import export, release_of
from sfumato.collect.server.collector import Collector, Served
from sfumato.collect.server.replies import RefusalError, answer
from sfumato.collect.server.wire import encode
from sfumato.collect.store.store import provenance
from sfumato.errors import SfumatoError
from sfumato.estimation.answer import Answer
from sfumato.mine.cube import query

LONGEST_SQL = 2000
FILE_PART = 1 << 18
PARQUET = b"application/vnd.apache.parquet"


@dataclass(frozen=True, eq=False)
class OwnerPages:
    """The addresses that show what came in."""

    collector: Collector
    assets: Assets
    _asking: threading.Lock = field(default_factory=threading.Lock)

    async def figures(self, request: Request) -> Response:
        served, owner = await self._seen(request)
        found = await asyncio.to_thread(self._figures, served, owner)
        if request.query_params.get("format") == "csv":
            kind = (b"content-type", b"text/csv; charset=utf-8")
            name = b'attachment; filename="estimates.csv"'
            body = csv_of(found).encode()
            return answer(200, body, [kind, *PLAIN, (b"content-disposition", name)])
        return _tagged(request, encode(found), JSON)

    async def dashboard(self, request: Request) -> Response:
        served, owner = await self._seen(request)
        found = await asyncio.to_thread(self._figures, served, owner)
        asked = Inquiry()
        if owner and (sql := request.query_params.get("sql", "").strip()):
            asked = await asyncio.to_thread(self._ask, served, sql)
        first, _, second = request.query_params.get("pair", "").partition(",")
        language = chosen_language(
            request.query_params.get("lang"), request.headers.get("accept-language"), LANGUAGES
        )
        page = Dashboard(
            served.campaign, found, Language.load(language), owner, (first, second), asked
        )
        text = self.assets.linked(page.page())
        return _tagged(request, text.encode(), page_headers(OWNER_POLICY))

    async def export(self, request: Request) -> Response:
        """All reports as one Parquet file, which is made whole before it goes out."""
        served, _ = await self._seen(request, owners_only=True)
        if request.query_params.get("format", "parquet") != "parquet":
            raise RefusalError(422, "format", "there is no such format", "use format=parquet")
        stream = await asyncio.to_thread(self._exported, served)
        size = str(os.fstat(stream.fileno()).st_size).encode()
        response = StreamingResponse(_parts(stream))
        name = f'attachment; filename="{served.campaign.name}.parquet"'.encode()
        response.raw_headers = [
            (b"content-type", PARQUET),
            *PLAIN,
            (b"content-length", size),
            (b"content-disposition", name),
        ]
        return response

    async def owners_figures(self, request: Request) -> Response:
        await self._seen(request, owners_only=True)
        return await self.figures(request)

    async def owners_dashboard(self, request: Request) -> Response:
        """The dashboard with all that it has, where anyone may see some of it: a browser hands its
        token out only where it is asked for one, and a public page never asks.
        """
        await self._seen(request, owners_only=True)
        return await self.dashboard(request)

    async def _seen(self, request: Request, owners_only: bool = False) -> tuple[Served, bool]:
        """The campaign, and whether whoever asks may see all of it."""
        served = self.collector.campaign(request.path_params["name"])
        owner = await asyncio.to_thread(self.collector.allows, request.scope, "read")
        if not owner and (owners_only or not served.campaign.dashboard.public):
            raise RefusalError(
                403 if request.url.path.startswith("/v1/") else 401,
                "token",
                "this needs a token of role read or admin",
                "sfumato token add --role read",
            )
        return served, owner

    # In threads of their own.

    def _figures(self, served: Served, owner: bool) -> Figures:
        self.collector.refresh(served)
        if not owner:
            return self._public_figures(served)
        store = self.collector.store
        days = days_of(store.daily(served.number))
        return replace(served.board.figures(), days=days, store_bytes=store.size())

    def _public_figures(self, served: Served) -> Figures:
        """What a public dashboard shows: kept, and changed only in steps, so that no two looks
        differ by a few people; kept in the store, for a restart is no step.
        """
        store = self.collector.store
        kept = store.shown(served.number)
        if self._is_step(served, kept):
            found = figures_of(served.campaign, served.tally)
            # Whoever looks at the same moment, at this worker or another, sees one of the two.
            if store.show(served.number, msgspec.to_builtins(found), instead_of=kept):
                return found
            kept = store.shown(served.number)
        if kept is not None:
            return msgspec.convert(kept, Figures)
        blank = type(served.tally)(served.campaign.mechanism)
        return figures_of(served.campaign, blank, enough=False)

    def _is_step(self, served: Served, kept: Mapping[str, Any] | None) -> bool:
        """Whether the reports have grown or shrunk by a step since figures were last shown."""
        rules, tally = served.campaign.dashboard, served.tally
        if kept is None:
            return tally.rows >= rules.least
        if self.collector.store.shared and tally.rows < kept["reports"]:
            # Another worker may have counted reports that this one has not seen yet.
            self.collector.refresh(served, at_once=True)
        return tally.rows >= rules.least and abs(tally.rows - kept["reports"]) >= rules.step

    def _ask(self, served: Served, sql: str) -> Inquiry:
        if len(sql) > LONGEST_SQL:
            return Inquiry(sql[:LONGEST_SQL], error=f"more than {LONGEST_SQL} letters")
        origin = provenance(served.campaign)
        with self._asking:  # one at a time: all reports are read for it
            try:
                source = release_of(self.collector.store, served.number, origin)
                found = query(source, sql)
            except SfumatoError as error:
                return Inquiry(sql, error=str(error))
        rows = [[_cell(row[name]) for name in found.columns] for row in found.rows]
        return Inquiry(sql, found.columns, rows, found.notes)

    def _exported(self, served: Served) -> IO[bytes]:
        """The export as an open file without a name: it is gone when nobody reads it any more, even
        if whoever asked has left before its first byte.
        """
        origin = provenance(served.campaign)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "reports.parquet"
            export(self.collector.store, served.number, origin, path, force=True)
            return path.open("rb")


def _cell(value: object) -> str:
    if isinstance(value, Answer):
        return f"{value.value:,.6g} ± {value.stderr:.3g}"
    return "–" if value is None else str(value)


async def _parts(stream: IO[bytes]) -> AsyncIterator[bytes]:
    """The bytes of a file, which is closed once they are out."""
    with stream:
        while part := await asyncio.to_thread(stream.read, FILE_PART):
            yield part


def _tagged(request: Request, body: bytes, headers: Headers) -> Response:
    """An answer with its ETag; 304 where whoever asks has it already."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = [*headers, (b"etag", tag.encode())]
    if tag in request.headers.get("if-none-match", ""):
        return answer(304, b"", headers)
    return answer(200, body, headers)


def csv_of(figures: Figures) -> str:
    """The estimates as CSV: a line for every answer to every question.

    A cell that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["question", "answer", "share", "stderr", "low", "high", "forged_100"])
    for question in figures.questions:
        for bar in question.bars:
            share = bar.share
            numbers = [share.value, share.stderr, share.low, share.high, bar.forged]
            writer.writerow([_plain(question.name), _plain(bar.label), *numbers])
    return lines.getvalue()


def _plain(text: str) -> str:
    return f"'{text}" if text[:1] in "=+-@\t\r" else text
