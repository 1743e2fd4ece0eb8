"""The report route: the one that must be quick, so it speaks ASGI without anything in between."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.collect.campaign import MOST_BYTES
from sfumato.collect.headers import SHARED, TAKEN
from sfumato.collect.server.collector import Collector, Served
from sfumato.collect.server.parsing import Parsed
from sfumato.collect.server.replies import Receive, RefusalError, Scope, Send, reply
from sfumato.collect.server.wire import Refused, Taken, encode
from sfumato.collect.store import Added
from sfumato.collect.writer import BusyError

_JSON = b"application/json"
# What would do where a report was refused, by why; its values: what the campaign asks.
HINTS = {
    "id": "an id is 22 letters of base64url: 128 random bits",
    "conflict": "this id is stored with other values, and the first stay: a report is drawn once",
    "withdrawn": "this id was withdrawn, and cannot come back",
}


class GoneError(Exception):
    """Whoever sent the request has left before its end."""


@dataclass(frozen=True, eq=False)
class ReportRoute:
    """Takes reports: 200 only after the commit."""

    collector: Collector

    async def __call__(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        collector, served = self.collector, None
        collector.metrics.requests += 1
        try:
            served = collector.campaign(name)
            body = await json_body(scope, receive)
            parsed = served.parser.parse(body)
            self._admit(scope, served, parsed)
            added = await collector.writer.add(served.number, parsed.reports)
        except GoneError:
            return
        except BusyError as error:
            await self._refuse(send, served, busy(error))
        except RefusalError as error:
            await self._refuse(send, served, error)
        else:
            await reply(send, 200, _answer(parsed, added, served.parser.wanted), TAKEN)

    def _admit(self, scope: Scope, served: Served, parsed: Parsed) -> None:
        """Refuse reports of another version, of a closed campaign, or too many of them."""
        if parsed.campaign != served.campaign.hash:
            raise RefusalError(
                409,
                "version",
                "this is not the campaign as it is now",
                "fetch it again, and ask the person again",
            )
        served.check_open()
        self.collector.check_limit(scope, len(parsed.reports) + len(parsed.refused))
        for _, kind in parsed.refused:
            self.collector.writer.note(served.number, f"refused {kind}")

    async def _refuse(self, send: Send, served: Served | None, error: RefusalError) -> None:
        if served is not None and error.status != 503:
            self.collector.writer.note(served.number, f"refused {error.kind}")
        self.collector.metrics.refused[error.status] += 1
        await reply(send, error.status, error.body, error.headers(SHARED))


def busy(error: BusyError) -> RefusalError:
    """A store that takes nothing for the moment, as an answer."""
    return RefusalError(
        503, "busy", "reports cannot be taken now", "send the same again later", wait=error.wait
    )


async def json_body(scope: Scope, receive: Receive, most: int = MOST_BYTES) -> bytes:
    """The body of a request that says it is JSON, up to a length."""
    kind, length, coded = b"", None, False
    for name, value in scope["headers"]:
        if name == b"content-type":
            kind = value
        elif name == b"content-length":
            length = value
        elif name == b"content-encoding":
            coded = value.lower() != b"identity"
    if coded or (kind != _JSON and kind.partition(b";")[0].strip().lower() != _JSON):
        raise RefusalError(
            415, "type", "the body must be JSON", "send Content-Type: application/json"
        )
    if length is not None and int(length) > most:
        raise _too_large(most)
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        part = message.get("body", b"")
        body = body + part if body else part
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return body


def _too_large(most: int) -> RefusalError:
    return RefusalError(
        413, "size", f"the body is larger than {most >> 10} KB", "send fewer reports at a time"
    )


def _answer(parsed: Parsed, added: Added, wanted: str) -> bytes:
    if not parsed.refused and not added.refused:
        return b'{"stored":%d,"repeated":%d,"refused":[]}' % (len(added.bodies), added.repeated)
    refused = [*parsed.refused, *((parsed.places[place], kind) for place, kind in added.refused)]
    # The store names kinds by plain words, which are those of `Refused`.
    shown = [Refused(index, kind) for index, kind in sorted(refused)]  # type: ignore[arg-type]
    hints = {str(each.kind): HINTS.get(each.kind, wanted) for each in shown}
    return encode(Taken(len(added.bodies), added.repeated, shown, hints))
