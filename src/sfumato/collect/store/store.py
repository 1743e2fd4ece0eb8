"""Store: where reports are kept, and what its word is worth.

1. What `write` returned is on disk: it survives a killed process, a crashed kernel and a power cut,
   as far as the disk honours flush. 2. However often and in whatever order an id is delivered, it
is one row. 3. Where `write` failed, each report is whole or absent, and sending it again settles
it. 4. Figures are a function of the rows. 5. Withdrawn stays withdrawn; an id that no report has
had is remembered for a while only, since anyone can make one up. 6. A failed commit writes nothing,
and nothing more is taken until a probe commit works.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol

from sfumato.collect.campaign import Campaign
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.canonical import as_json
from sfumato.errors import ParameterError, StoreError, near_miss
from sfumato.table import Provenance
from sfumato.untrusted import Untrusted, parsed_json, refuse_malformed

STORED, REPEATED, CONFLICT, WITHDRAWN = "stored", "repeated", "conflict", "withdrawn"
ROLES = ("read", "send", "admin")
# Ids that were withdrawn and that no report has had: for how long and how many of a campaign are
# remembered. A client sends the same again for 14 days.
UNSEEN_DAYS, MOST_UNSEEN = 15, 10_000
VERSION = 1  # of the tables

Role = Literal["read", "send", "admin"]
Receipt = Literal["stored", "withdrawn", "unknown"]


class Batch(NamedTuple):
    """Reports of one campaign that came in one request: ids and packed bodies."""

    campaign: int
    reports: Sequence[tuple[bytes, bytes]]


class Added(NamedTuple):
    """What became of a batch: the bodies that are new, how many were there already, and the places
    of those refused with the reason.
    """

    bodies: Sequence[bytes]
    repeated: int = 0
    refused: Sequence[tuple[int, str]] = ()


@dataclass
class Work:
    """What one transaction does: reports to add, ids to withdraw, and totals to count beside."""

    adds: list[Batch] = field(default_factory=list)
    withdrawals: list[tuple[int, bytes]] = field(default_factory=list)
    notes: dict[tuple[int, str], int] = field(default_factory=dict)  # (campaign, outcome) -> count


class Done(NamedTuple):
    """What one transaction did, in the order of its work; a withdrawal gives the body that went."""

    added: list[Added]
    withdrawn: list[bytes | None]


class Enrolled(NamedTuple):
    """A campaign in a store: its number there, and how its reports are made."""

    number: int
    name: str
    round: int
    hash: str
    provenance: Provenance

    @classmethod
    def of(cls, number: int, name: str, round_: int, digest: str, spec: str) -> Enrolled:
        """The campaign of a row of a store."""
        plain = Untrusted(name, "a campaign's name").word()
        found = Provenance.from_description(parsed_json(spec, f"what the store says of '{plain}'"))
        turn = Untrusted(round_, f"the round of '{plain}'").whole()
        own = Untrusted(digest, f"the hash of '{plain}'").word()
        return cls(number, plain, turn, own, replace(found, shuffled=True))


class Token(NamedTuple):
    """Who may do more than answer; the secret itself is not kept."""

    digest: bytes
    role: str
    label: str
    expires: date | None


class Store(Protocol):
    """What every store offers; calls block, and any thread may make them."""

    where: str  # how messages call it, without user or password
    shared: bool  # whether others may write to it at the same time

    def enrol(self, file: CampaignFile) -> int:
        """The number of a campaign, which is new, or as people have answered it."""

    def enrolled(self) -> list[Enrolled]:
        """Every campaign in the store, each round of it."""

    def rounds(self, name: str) -> list[int]:
        """The numbers of a campaign, one for each of its rounds, the latest first."""

    def write(self, work: Work) -> Done:
        """Do all of this in one transaction that is on disk when this returns."""

    def probe(self) -> None:
        """Commit something that changes nothing: whether reports can be taken again."""

    def receipts(self, campaign: int, ids: Sequence[bytes]) -> list[Receipt]:
        """What the store holds of each id."""

    def bodies(self, campaign: int) -> Iterator[bytes]:
        """The reports of a campaign in the order of their ids: many bodies at a time, one after
        the other.
        """

    def daily(self, campaign: int) -> list[tuple[str, str, int]]:
        """Day, outcome and count of a campaign, oldest first."""

    def shown(self, campaign: int) -> dict[str, Any] | None:
        """The figures that a public dashboard shows."""

    def show(
        self, campaign: int, figures: Mapping[str, Any], *, instead_of: Mapping[str, Any] | None
    ) -> bool:
        """Keep the figures that a public dashboard shows until the next step; False where others
        than `instead_of` are shown by now.
        """

    def add_token(self, token: Token) -> None:
        """Let the bearer of a token in."""

    def tokens(self) -> list[Token]:
        """All tokens."""

    def find_token(self, digest: bytes) -> Token | None:
        """The token with this hash."""

    def remove_tokens(self, label: str) -> int:
        """Turn away the bearers of all tokens with this label; how many there were."""

    def cut_log(self) -> None:
        """Remove the log of what was written, where it tells the order of single reports."""

    def tidy(self) -> None:
        """Remove what tells in which order reports came, and what was remembered for a while."""

    def size(self) -> int:
        """The bytes that the store takes."""

    def close(self) -> None:
        """Tidy up and let go."""


class SqlStore(ABC):
    """What the stores say in the same SQL, in which `?` stands for a value."""

    where: str
    meta: str  # the table of what is said of the store itself
    octets: str  # the type of bytes
    _new_unseen = 0  # since some were last forgotten

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """A cursor whose work is on disk when the block ends, or not done at all."""

    @abstractmethod
    def _rows(self, statement: str, values: Any = ()) -> list[Any]:
        """What a statement finds."""

    @abstractmethod
    def _do(self, cursor: Any, statement: str, values: Sequence[Any]) -> Any:
        """The cursor after a statement of a transaction."""

    @abstractmethod
    def _alone(self, cursor: Any) -> None:
        """Keep others from enrolling for the rest of a transaction."""

    def enrol(self, file: CampaignFile) -> int:
        facts = enrolment(file)
        named = (facts["name"], facts["round"])
        with self._transaction() as cursor:
            self._alone(cursor)
            self._do(
                cursor,
                "INSERT INTO campaign(name, round, hash, frozen, spec) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (name, round) DO NOTHING",
                (*named, facts["hash"], facts["frozen"], facts["spec"]),
            )
            number, known, frozen = self._do(
                cursor,
                "SELECT number, hash, frozen FROM campaign WHERE name = ? AND round = ?",
                named,
            ).fetchone()
            if known != facts["hash"]:
                if reports := self._count(cursor, number):
                    where = f"{self.where}'s campaign"
                    before = parsed_json(frozen, where)
                    if before == as_json(file.campaign.frozen):
                        raise StoreError(f"{where} '{named[0]}' has a hash that is not its own")
                    with refuse_malformed(where):
                        raise file.changed(before, reports)
                self._do(
                    cursor,
                    "UPDATE campaign SET hash = ?, frozen = ?, shown = NULL WHERE number = ?",
                    (facts["hash"], facts["frozen"], number),
                )
            self._do(
                cursor, "UPDATE campaign SET spec = ? WHERE number = ?", (facts["spec"], number)
            )
            return int(number)

    def _count(self, cursor: Any, number: int) -> int:
        """The reports that people gave, those withdrawn included."""
        statement = (
            "SELECT (SELECT count(*) FROM report WHERE campaign = ?)"
            " + (SELECT count(*) FROM withdrawn WHERE campaign = ?)"
        )
        return int(self._do(cursor, statement, (number, number)).fetchone()[0])

    def enrolled(self) -> list[Enrolled]:
        found = self._rows("SELECT number, name, round, hash, spec FROM campaign ORDER BY number")
        return [Enrolled.of(*row) for row in found]

    def rounds(self, name: str) -> list[int]:
        statement = "SELECT number FROM campaign WHERE name = ? ORDER BY round DESC"
        return [number for (number,) in self._rows(statement, (name,))]

    def write(self, work: Work) -> Done:
        done = self._written(work)
        self._new_unseen += done.withdrawn.count(None)
        if self._new_unseen > MOST_UNSEEN // 10:
            with suppress(StoreError):  # the work itself is done; `tidy` tries again
                self._forget()
        return done

    @abstractmethod
    def _written(self, work: Work) -> Done:
        """As `Store.write`."""

    def _body(self, cursor: Any, key: tuple[int, bytes]) -> bytes | None:
        found = self._do(
            cursor,
            f"SELECT CAST(body AS {self.octets}) FROM report WHERE campaign = ? AND id = ?",
            key,
        ).fetchone()
        return None if found is None else bytes(found[0])

    def _withdraw(self, cursor: Any, campaign: int, identity: bytes) -> bytes | None:
        """Take a report back; an id that none has, now or before, is remembered for a while."""
        key = (campaign, identity)
        body = self._body(cursor, key)
        if body is not None:
            self._do(cursor, "DELETE FROM report WHERE campaign = ? AND id = ?", key)
            self._do(cursor, "INSERT INTO withdrawn VALUES (?, ?) ON CONFLICT DO NOTHING", key)
        elif not self._do(
            cursor, "SELECT 1 FROM withdrawn WHERE campaign = ? AND id = ?", key
        ).fetchone():
            values = (*key, utc_today().isoformat())
            self._do(cursor, "INSERT INTO unseen VALUES (?, ?, ?) ON CONFLICT DO NOTHING", values)
        return body

    def _forget(self) -> None:
        with self._transaction() as cursor:
            self._forget_unseen(cursor)

    def _forget_unseen(self, cursor: Any) -> list[Any]:
        """Forget ids that no report has had, and which: old ones, and where there are too many, any
        of them, the older first. What a clock that ran ahead has dated is of today.
        """
        today = utc_today().isoformat()
        self._do(cursor, "UPDATE unseen SET day = ? WHERE day > ?", (today, today))
        gone = self._do(
            cursor,
            "SELECT campaign, id FROM (SELECT *, row_number() OVER (PARTITION BY campaign"
            " ORDER BY day DESC, random()) AS place FROM unseen) AS u WHERE day < ? OR place > ?",
            (unseen_since().isoformat(), MOST_UNSEEN),
        ).fetchall()
        for key in gone:
            self._do(cursor, "DELETE FROM unseen WHERE campaign = ? AND id = ?", key)
        self._new_unseen = 0
        return list(gone)

    def probe(self) -> None:
        with self._transaction() as cursor:
            self._do(
                cursor,
                f"INSERT INTO {self.meta} VALUES ('probe', '1') ON CONFLICT (key) DO UPDATE SET"
                f" value = CASE {self.meta}.value WHEN '1' THEN '0' ELSE '1' END",
                (),
            )

    def _count_day(self, cursor: Any, totals: Mapping[tuple[int, str], int]) -> None:
        day = utc_today().isoformat()
        for (campaign, outcome), count in sorted(totals.items()):
            self._do(
                cursor,
                "INSERT INTO daily VALUES (?, ?, ?, ?) ON CONFLICT (campaign, day, outcome)"
                " DO UPDATE SET count = daily.count + excluded.count",
                (campaign, day, outcome, count),
            )

    def daily(self, campaign: int) -> list[tuple[str, str, int]]:
        statement = "SELECT day, outcome, count FROM daily WHERE campaign = ? ORDER BY day, outcome"
        return [(str(day), *rest) for day, *rest in self._rows(statement, (campaign,))]

    def shown(self, campaign: int) -> dict[str, Any] | None:
        ((text,),) = self._rows("SELECT shown FROM campaign WHERE number = ?", (campaign,))
        with refuse_malformed(f"{self.where}'s last figures"):  # which may be infinite
            return None if text is None else dict(json.loads(text))

    def show(
        self, campaign: int, figures: Mapping[str, Any], *, instead_of: Mapping[str, Any] | None
    ) -> bool:
        before = "" if instead_of is None else json.dumps(instead_of)
        statement = "UPDATE campaign SET shown = ? WHERE number = ? AND coalesce(shown, '') = ?"
        values = (json.dumps(figures), campaign, before)
        with self._transaction() as cursor:
            return bool(self._do(cursor, statement, values).rowcount)

    def add_token(self, token: Token) -> None:
        expires = None if token.expires is None else token.expires.isoformat()
        with self._transaction() as cursor:
            self._do(cursor, "INSERT INTO token VALUES (?, ?, ?, ?)", (*token[:3], expires))

    def tokens(self) -> list[Token]:
        return list(map(_token, self._rows("SELECT * FROM token ORDER BY label, hash")))

    def find_token(self, digest: bytes) -> Token | None:
        found = self._rows("SELECT * FROM token WHERE hash = ?", (digest,))
        return _token(found[0]) if found else None

    def remove_tokens(self, label: str) -> int:
        with self._transaction() as cursor:
            return int(self._do(cursor, "DELETE FROM token WHERE label = ?", (label,)).rowcount)


def _token(row: Sequence[Any]) -> Token:
    digest, role, label, expires = row
    with refuse_malformed("a token in this store"):
        day = None if expires is None else date.fromisoformat(str(expires))
        role, label = Untrusted([role, label], "what a token may do, and its label").words()
        return Token(bytes(memoryview(digest)), role, label, day)


def token_digest(token: str) -> bytes:
    """What the store keeps of a token: its SHA-256."""
    return hashlib.sha256(token.encode()).digest()


def new_token(role: str, label: str, expires: date | None = None) -> tuple[str, Token]:
    """A token of 256 random bits, to be shown once, and what the store keeps of it."""
    if role not in ROLES:
        raise ParameterError(f"no role '{role}' (read, send, admin)", hint=near_miss(role, ROLES))
    if not label:
        raise ParameterError("a token needs a label, by which it can be revoked")
    secret = secrets.token_urlsafe(32)
    return secret, Token(token_digest(secret), role, label, expires)


def allowed(
    find: Callable[[bytes], Token | None], token: str, role: Role, today: date | None = None
) -> bool:
    """Whether a token is of this role, or of admin, and not expired."""
    if not 32 <= len(token) <= 64:
        return False
    found = find(token_digest(token))
    if found is None or (found.expires is not None and found.expires < (today or utc_today())):
        return False
    return found.role in (role, "admin")


def utc_today() -> date:
    """The day of UTC, the only time that is ever written down."""
    return datetime.now(UTC).date()


def unseen_since() -> date:
    """The oldest day of which a withdrawn id that no report has had is still remembered."""
    return utc_today() - timedelta(UNSEEN_DAYS)


def provenance(campaign: Campaign) -> Provenance:
    """How the reports of a campaign came about: a store keeps them in the order of random ids."""
    return Provenance(campaign.mechanism, secure=True, shuffled=True, turn=campaign.turn)


def enrolment(file: CampaignFile) -> dict[str, Any]:
    """What a store writes down about a campaign."""
    campaign = file.campaign
    return {
        "name": campaign.name,
        "round": campaign.round,
        "hash": campaign.hash,
        "frozen": json.dumps(campaign.frozen),
        "spec": json.dumps(provenance(campaign).describe()),
    }


def tallied(
    work: Work, added: Sequence[Added], withdrawn: Sequence[bytes | None]
) -> dict[tuple[int, str], int]:
    """The totals of the day that a transaction adds to: (campaign, outcome) -> count."""
    totals = dict(work.notes)

    def count(campaign: int, outcome: str, number: int) -> None:
        if number:
            totals[campaign, outcome] = totals.get((campaign, outcome), 0) + number

    for batch, result in zip(work.adds, added, strict=True):
        count(batch.campaign, STORED, len(result.bodies))
        count(batch.campaign, REPEATED, result.repeated)
        for _, kind in result.refused:
            count(batch.campaign, f"refused {kind}", 1)
    for (campaign, _), body in zip(work.withdrawals, withdrawn, strict=True):
        count(campaign, WITHDRAWN, body is not None)
    return totals


def no_campaign(name: str, where: str, known: Sequence[str]) -> StoreError:
    """The error of a name that no campaign of a store has."""
    return StoreError(f"no campaign '{name}' in {where}", hint=near_miss(name, known))
