"""Collector: the campaigns that a server offers, and everything they share."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

from sfumato.collect.board import Board
from sfumato.collect.campaign import Campaign
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.releases import at_present, begin_next, is_due
from sfumato.collect.server.limits import RateLimit
from sfumato.collect.server.parsing import ReportParser
from sfumato.collect.server.replies import RefusalError, Scope
from sfumato.collect.store import Done, Receipt, Role, Store, Token, Work, allowed, utc_today
from sfumato.collect.tally import CampaignTally
from sfumato.collect.writer import ReportWriter
from sfumato.errors import StoreError, listing

HOUR = 3600.0
TIDY_SHARE = 1 / 200  # of the time may go into tidying a store of our own; every hour it must
TOKEN_SECONDS, MOST_TOKENS = 5.0, 1000  # for which a token is believed, and how many are kept


@dataclass
class Metrics:
    """Counts of what the server did since its start, and nothing about who asked."""

    started: float = field(default_factory=time.monotonic)
    requests: int = 0
    refused: Counter[int] = field(default_factory=Counter)  # by status


@dataclass(eq=False)
class Served:
    """A campaign that is being served."""

    file: CampaignFile
    number: int
    tally: CampaignTally
    board: Board
    state: str = "open"
    counted: float = 0.0  # when all reports were counted, where others add some too
    counting: float = 0.0  # seconds that it took
    rounds: Sequence[int] = ()  # its numbers in the store, of rounds before too

    @property
    def campaign(self) -> Campaign:
        return self.file.campaign

    @cached_property
    def parser(self) -> ReportParser:
        return ReportParser(self.campaign.packing, self.campaign.program)

    def check_open(self) -> None:
        """Refuse answers before the first day and after the last."""
        if self.state == "closed":
            raise RefusalError(410, "closed", f"'{self.campaign.name}' is closed")
        if self.state == "early":
            raise RefusalError(
                410, "early", f"'{self.campaign.name}' opens on {self.campaign.opens}"
            )


@dataclass(eq=False)
class Collector:
    """The campaigns of one server, their store, and the limits on who sends how much."""

    store: Store
    files: Sequence[CampaignFile]
    limit: RateLimit | None = field(default_factory=RateLimit)
    trust_proxy: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    served: dict[str, Served] = field(default_factory=dict)
    writer: ReportWriter = field(init=False)
    _today: date = field(default_factory=utc_today)
    _tokens: dict[bytes, tuple[float, Token | None]] = field(default_factory=dict)

    def enrol(self) -> None:
        """Enter every campaign into the store, and count what it holds of them."""
        for file in self.files:
            self._offer(at_present(self.store, file))
        self.look_at_the_day()

    def _offer(self, file: CampaignFile) -> None:
        """Offer a campaign, or its next round in the place of the one before."""
        number = self.store.enrol(file)
        tally = CampaignTally(file.campaign.mechanism, bounded=file.campaign.dashboard.bounded)
        start = time.monotonic()
        tally.recount(self.store.bodies(number))
        counting = time.monotonic() - start
        board = Board(file.campaign, tally)
        board.work()  # what it needs is loaded before anyone waits for it
        state = file.campaign.state(utc_today())
        rounds = self.store.rounds(file.campaign.name)
        served = Served(file, number, tally, board, state, counting=counting, rounds=rounds)
        self.served[file.campaign.name] = served

    def look_at_the_rounds(self) -> None:
        """Begin the next round of every campaign whose people of this one have answered, and take
        up one that somebody else began.
        """
        for served in [each for each in self.served.values() if each.campaign.people is not None]:
            found = at_present(self.store, served.file)
            if is_due(found.campaign, served.tally.rows) and found.campaign == served.campaign:
                found = begin_next(self.store, served.file)
            if found.campaign.round > served.campaign.round:
                self._offer(found)

    def refresh(self, served: Served, *, at_once: bool = False) -> None:
        """Count all reports anew where other workers have added some; unless it must be at once, no
        more than a tenth of the time is spent on it.
        """
        now = time.monotonic()
        recent = now - served.counted < max(1.0, 10 * served.counting)
        if not self.store.shared or (recent and not at_once):
            return
        served.tally.recount(self.store.bodies(served.number))
        served.counted = time.monotonic()
        served.counting = served.counted - now

    async def start(self) -> None:
        """Begin to take reports."""
        if not self.served:
            await asyncio.to_thread(self.enrol)
        self.writer = ReportWriter(self.store, self._landed)
        self._keeping = asyncio.create_task(self._keep_house())

    async def stop(self) -> None:
        """Write what is waiting, and let go of the store."""
        self._keeping.cancel()
        await self.writer.stop()
        await asyncio.to_thread(self.store.close)

    def campaign(self, name: str) -> Served:
        """The campaign of this name."""
        try:
            return self.served[name]
        except KeyError:
            raise RefusalError(
                404, "unknown", "no such campaign", f"there is {listing(self.served)}"
            ) from None

    def receipts(self, served: Served, ids: Sequence[bytes]) -> list[tuple[Receipt, int]]:
        """What the store holds of each id, and of which round; of this one where it has none."""
        found: list[tuple[Receipt, int]] = [("unknown", served.number)] * len(ids)
        for number in served.rounds:
            if left := [place for place, (state, _) in enumerate(found) if state == "unknown"]:
                states = self.store.receipts(number, [ids[place] for place in left])
                for place, state in zip(left, states, strict=True):
                    if state != "unknown":
                        found[place] = (state, number)
        return found

    def look_at_the_day(self) -> None:
        """Open and close campaigns as their days come and go."""
        today = utc_today()
        if today != self._today:
            for served in self.served.values():
                served.tally.begin_day()
            self._today = today
        for served in self.served.values():
            served.state = served.campaign.state(today)

    def check_limit(self, scope: Scope, number: int, *, at_most_a_minute: bool = False) -> None:
        """Refuse more reports, or questions about them, than one network may send in a minute;
        `at_most_a_minute` lets more pass where nothing else came in that minute.
        """
        if self.limit is None:
            return
        if at_most_a_minute:
            number = min(number, self.limit.per_minute)
        wait = self.limit.take(self._address(scope), number)
        if wait and not self.allows(scope, "send"):
            raise RefusalError(
                429,
                "limit",
                "too many requests from this part of the network",
                "send the same again later, or use a token of role send",
                wait=wait,
            )

    def _address(self, scope: Scope) -> str | None:
        if self.trust_proxy:
            for name, value in reversed(scope["headers"]):
                # What our own proxy wrote stands last, in the line or in a line of its own; what
                # stands before, the sender may have written.
                if name == b"x-forwarded-for":
                    return str(value.decode("latin-1").rpartition(",")[2].strip())
        client = scope.get("client")
        return client[0] if client else None

    def allows(self, scope: Scope, role: Role) -> bool:
        """Whether the request carries a token of this role."""
        token = bearer(scope)
        return token is not None and allowed(self._token, token, role)

    def _token(self, digest: bytes) -> Token | None:
        """A token of the store, looked up anew every few seconds, for one may be revoked."""
        now = time.monotonic()
        known = self._tokens.get(digest)
        if known is None or now - known[0] > TOKEN_SECONDS:
            if len(self._tokens) >= MOST_TOKENS:
                self._tokens.clear()
            known = self._tokens[digest] = (now, self.store.find_token(digest))
        return known[1]

    def _landed(self, work: Work, done: Done) -> None:
        """Count what a commit brought and took; where other workers do the same, see `refresh`."""
        tallies = {served.number: served.tally for served in self.served.values()}
        for batch, added in zip(work.adds, done.added, strict=True):
            if batch.campaign in tallies:
                tallies[batch.campaign].add(added.bodies)
        for (campaign, _), body in zip(work.withdrawals, done.withdrawn, strict=True):
            if body is not None and campaign in tallies:
                tallies[campaign].remove(body)

    async def _keep_house(self) -> None:
        """Look at the calendar every second, and tidy the store every hour, or sooner where that is
        little work: until then its pages tell something of the order in which reports came.
        """
        tidied = time.monotonic()
        took = sum(served.counting for served in self.served.values())  # or thereabouts
        while True:
            await asyncio.sleep(1)
            self.look_at_the_day()
            if any(served.campaign.people is not None for served in self.served.values()):
                with suppress(StoreError):  # the writer meets the same fault and says so
                    await asyncio.to_thread(self.look_at_the_rounds)
            start = time.monotonic()
            pause = HOUR if self.store.shared else min(HOUR, took / TIDY_SHARE)
            if start - tidied >= pause:
                with suppress(StoreError):  # the writer meets the same fault and says so
                    await asyncio.to_thread(self.store.tidy)
                tidied = time.monotonic()
                took = tidied - start


def bearer(scope: Scope) -> str | None:
    """The token of a request: `Authorization: Bearer TOKEN`, or the password of Basic, which every
    browser can ask for.
    """
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, rest = value.decode("latin-1").partition(" ")
            if kind.lower() == "bearer":
                return str(rest.strip())
            return _password(rest) if kind.lower() == "basic" else None
    return None


def _password(credentials: str) -> str | None:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return decoded.partition(":")[2]
