"""Client: answers a campaign from Python; only blurred reports leave it."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.bits import Bits
from sfumato.collect.campaign import (
    ID_LENGTH,
    MOST_BYTES,
    MOST_IDS,
    MOST_REPORTS,
    report_body,
)
from sfumato.collect.canonical import digest
from sfumato.collect.people import known_as, numbered
from sfumato.collect.policy import CampaignTerms, Policy
from sfumato.collect.transport import Address, Transport
from sfumato.domain import Columns, Domain, Items
from sfumato.errors import CampaignError, DataError, ParameterError, PrivacyError, SchemaError
from sfumato.mechanisms.program import Program
from sfumato.mechanisms.steps import Draws
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.ledger import Ledger
from sfumato.randomness import Keystream, secure
from sfumato.table import Table, read
from sfumato.untrusted import MOST_WHOLE, Untrusted, refuse_malformed, shown

# Without a token a network may send 60 reports a minute, shared out among a server's workers: what
# is sent at once must be less than the share of one, or it would never be taken.
FEW_REPORTS = 10
MOST_SAID = 300  # letters of a server's own words

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What shows that a report was sent: its id, the SHA-256 of the bytes, the campaign's hash."""

    id: str
    sha256: str
    campaign: str


class Sent(NamedTuple):
    """What became of many reports. What was drawn this device knows by itself: no server can make
    people believe that they had not answered yet, or had.
    """

    stored: int  # drawn now, and taken
    repeated: int  # drawn before and sent again, for nothing
    refused: int  # by the server


@dataclass(frozen=True)
class Survey:
    """A campaign as its server describes it, checked: the program keeps the promise."""

    document: Mapping[str, Any]

    def __post_init__(self) -> None:
        self._check_said()
        self.program.check_reads(self.domain)
        stated = {name: self.document[name] for name in ("domain", "program", "round")}
        if (computed := digest(stated)) != self.hash:
            raise PrivacyError(
                f"its hash is {shown(self.hash)}, but questions, program and round have {computed}",
                hint="do not answer, and tell whoever runs the campaign",
            )
        if not self.promise.allows(self.guarantee):
            raise PrivacyError(
                f"the server's program has {self.guarantee}, above its promise of {self.promise}",
                hint="do not answer, and tell whoever runs the campaign",
            )

    @property
    def _given(self) -> Untrusted:
        return Untrusted(self.document, "the campaign")

    @cached_property
    def domain(self) -> Domain:
        return Domain.from_dict(self.document["domain"])

    @cached_property
    def program(self) -> Program:
        return Program.from_dict(self.document["program"])

    @cached_property
    def promise(self) -> Guarantee:
        stated = self._given["promise"]["gamma"]
        if "/" not in stated.word():
            stated.refuse("a fraction, like 19/1")
        return Guarantee(stated.fraction())

    def _check_said(self) -> None:
        said = self._given
        for word in ("name", "hash"):
            said[word].word()
        said["round"].whole(1, MOST_WHOLE - 1)  # which browsers hold exactly, too
        said["open"].flag()
        if self.document.get("budget") is not None:
            said["budget"]["epsilon"].number(0)
        if "sizes" in said["promise"].fields():
            said["promise"]["sizes"].words()

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the program keeps, computed here from its integers, beside what the campaign says is
        sent as it is.
        """
        return self.program.guarantee(self.domain, self.document["promise"].get("sizes", ()))

    @property
    def sent_as_is(self) -> dict[str, str]:
        """The columns of which something is sent as it is, with what in words: their value, or a
        basket's size.
        """
        return self.program.sent_of(self.domain)

    @property
    def hash(self) -> str:
        return str(self.document["hash"])

    @property
    def open(self) -> bool:
        """Whether answers are taken now."""
        return bool(self.document["open"])

    @property
    def release(self) -> str:
        """What a ledger calls it: a new round is asked, and costs, anew."""
        return f"{self.document['name']} round {self.document['round']}"

    @property
    def budget(self) -> float:
        """The epsilon that one person may spend on this server, by the campaign's own word."""
        given = self.document.get("budget")
        return math.inf if given is None else float(given["epsilon"])

    @property
    def padded_length(self) -> int:
        """The length of the body with one report, whatever it says."""
        empty = report_body(self.hash, [{"id": "0" * ID_LENGTH, "values": []}])
        return len(empty) - len("[]") + self.program.longest

    def codes(self, record: Record, columns: Sequence[int]) -> list[Any]:
        """A record as codes; columns that are not asked may be left out."""
        unknown = [name for name in record if name not in self.domain]
        if unknown:
            self.domain.index(unknown[0])  # raises, with the near miss
        return [
            _code(self.domain, place, record) if place in columns else None
            for place in range(len(self.domain))
        ]


class Client:
    """Answers for one person or for many, each drawn once.

    With a ledger the answer is on disk before it is sent, so that no interruption leads to a second
    draw, and a person's budget on this server is kept; without one a second run draws anew, and
    several draws say more than one. `at_once` is how many reports go into one request.

    `at_most` is the largest gamma, `public` are the columns that may be sent as they are, and
    `budget` is the epsilon that one person gives this server; where they are not said, the
    respondent's policy file says them. No server can raise them: what is above is refused before
    anything is drawn.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger | str | Path | None = None,
        *,
        token: str | None = None,
        patience: float = 60.0,
        rng: Keystream | None = None,
        at_once: int | None = None,
        at_most: Gamma | None = None,
        public: Collection[str] | None = None,
        budget: float | None = None,
    ) -> None:
        if not patience >= 0:
            raise ParameterError(f"patience={patience} is no time to wait; use seconds from 0 on")
        self.address = Address.parse(url)
        self.policy = Policy.own().stating(at_most, public, budget)
        self.transport = Transport(self.address, token, patience)
        self.ledger = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
        self._draws = Draws.of(secure() if rng is None else rng)
        self.at_once = at_once or (FEW_REPORTS if token is None else MOST_REPORTS)

    @cached_property
    def survey(self) -> Survey:
        """The campaign, fetched once and checked."""
        document = self.transport.get(self.address.campaign)
        with refuse_malformed(f"what {self.address.origin} says of '{self.address.name}'"):
            survey = Survey(document)
        if not survey.open:
            raise CampaignError(f"'{self.address.name}' takes no answers now")
        return survey

    def terms(self, *persons: str) -> CampaignTerms:
        """What the campaign takes of a person, and how often this server had their answer; of
        several people the most. Nothing is drawn.
        """
        survey, had = self.survey, None
        if self.ledger is not None:
            with self._book.changing() as book:
                had = [book.spent(self._key(person)) for person in persons or [""]]
        return CampaignTerms(
            survey.release,
            survey.hash,
            survey.guarantee,
            survey.domain.private.names,
            tuple(survey.sent_as_is.values()),
            min(survey.budget, self.policy.budget),
            None if had is None else max(times for _, times in had),
            None if had is None else max(epsilon for epsilon, _ in had),
        )

    def check(self) -> None:
        """Refuse a campaign that is above the limits of the one who answers."""
        survey, kept = self.survey, self.ledger is not None
        self.policy.check(survey.guarantee, survey.sent_as_is, kept=kept)

    def question(self, person: str = "") -> tuple[str, ...]:
        """The columns that this person is asked: all, or those of the question dealt to them."""
        asked = self.survey.program.asked(self._dealt(person))
        return tuple(self.survey.domain.names[place] for place in asked)

    def answer(self, record: Record, person: str = "") -> Receipt:
        """Blur one person's record and send the report; the same again repeats it for nothing."""
        if not isinstance(record, Mapping) or not isinstance(person, str):
            raise ParameterError(
                "answer takes a record and then the person's name",
                hint='as in answer({"smoker": "yes"}, "ann")',
            )
        reports, _ = self._reports([record], [person])
        body = self._body(reports)
        self._post(reports, body)
        self._mark_sent([person])
        return _receipts(reports, body, ())[0]

    def send(
        self,
        rows: Any,
        persons: Sequence[str] | None = None,
        *,
        received: Callable[[list[Receipt]], None] | None = None,
    ) -> Sent:
        """Blur and send many people's records: a table, a data frame, a file, or a list of records.

        `persons` names them in the ledger; without names they are numbered. `received` gets the
        receipts of every request, as the server has answered it.
        """
        records = _Rows.of(rows, self.survey.domain)
        names = _names(persons, len(records), self.ledger)
        outcomes: Counter[str] = Counter()
        for start in range(0, len(records), MOST_REPORTS):
            some = names[start : start + MOST_REPORTS]
            reports, before = self._reports(records.slice(start, start + len(some)), some)
            for part in _within(reports, self.at_once):
                body = self._body(part)
                refused = self._post(part, body)
                if received is not None:
                    received(_receipts(part, body, refused))
                for place, report in enumerate(part):
                    fate = "repeated" if report["id"] in before else "stored"
                    outcomes["refused" if place in refused else fate] += 1
            self._mark_sent(some)
        return Sent(*(outcomes[fate] for fate in Sent._fields))

    def flush(self) -> int:
        """Send again every report of this campaign that was drawn and not seen to arrive."""
        if self.ledger is None:
            raise ParameterError("without a ledger nothing is kept to be sent again")
        release, server = self.survey.release, self.address.server
        waiting = [entry for entry in self._book.pending() if entry.release == release]
        ours = [entry for entry in waiting if entry.key.partition(" ")[0] == server]
        for entry in ours:
            report = _kept(entry.report)
            self._post([report], self._body([report]))
            self._book.mark_sent(entry.key, entry.release)
        return len(ours)

    def receipts(self, ids: Sequence[str]) -> dict[str, str]:
        """What the server holds of these ids: stored, withdrawn or unknown."""
        found: dict[str, str] = {}
        for start in range(0, len(ids), MOST_IDS):
            body = _json({"ids": list(ids[start : start + MOST_IDS])})
            answer = self.transport.post(f"{self.address.campaign}/receipts", body)
            with refuse_malformed(f"the answer of {self.address.origin}"):
                for state in ("stored", "withdrawn", "unknown"):
                    found |= {str(identity): state for identity in answer[state]}
        return {identity: found.get(identity, "unknown") for identity in ids}

    def withdraw(self, identity: str) -> None:
        """Take a report back; it cannot come again."""
        self.transport.post(f"{self.address.campaign}/withdrawals", _json({"id": identity}))

    def forget(self, person: str = "") -> None:
        """Delete the report from the ledger and keep its cost: another answer costs again."""
        if self.ledger is not None:
            self._book.forget(self._key(person), self.survey.release)

    # Drawing.

    @cached_property
    def _book(self) -> Ledger:
        """The ledger, in which servers and people have one name each, however they were spelt."""
        assert self.ledger is not None
        self.ledger.rename(_known_key)
        return self.ledger

    def _reports(
        self, records: Any, persons: Sequence[str]
    ) -> tuple[list[dict[str, Any]], set[str]]:
        """The reports of some people, each drawn once, and the ids of those that were drawn before;
        with a ledger, on disk when this returns. What a report costs is computed here, from the
        integers that were drawn.
        """
        self.check()
        if self.ledger is None:
            return [self._drawn(record, self._deal()) for record in records], set()
        survey, reports, before = self.survey, [], set()
        budget = Guarantee.from_epsilon(min(survey.budget, self.policy.budget))
        with self._book.changing() as book:
            for record, person in zip(records, persons, strict=True):
                key = self._key(person)
                dealt = None
                if survey.program.dealt is not None:
                    dealt = self._known(book.deal(key, survey.release, self._deal))
                if (known := book.report(key, survey.release)) is not None:
                    report = _kept(known)
                    before.add(report["id"])
                else:
                    report = book.answer(
                        key,
                        survey.release,
                        survey.guarantee,
                        partial(self._drawn, record, dealt),
                        survey.domain.private.names,
                        budget=budget,
                    )
                reports.append(report)
        if any(report["campaign"] != survey.hash for report in reports):
            raise self._changed()
        return reports, before

    def _changed(self) -> CampaignError:
        return CampaignError(
            f"the ledger {self._book.path.name} holds a report to another version of "
            f"'{self.survey.release}', which this one cannot take; nothing was sent",
            hint="if this is another survey under its name, answer it with a new ledger: the "
            "two reports cost what they cost together",
        )

    def _deal(self) -> int | None:
        return self.survey.program.deal(self._draws)

    def _dealt(self, person: str) -> int | None:
        if self.survey.program.dealt is None:
            return None
        if self.ledger is None:
            raise ParameterError(
                "one question is dealt to each person, which only a ledger remembers",
                hint="give ledger=…, or answer all questions",
            )
        self.check()
        return self._known(self._book.deal(self._key(person), self.survey.release, self._deal))

    def _known(self, question: Any) -> int:
        """A question that the ledger says was dealt: another version may have had more of them."""
        dealt = self.survey.program.dealt
        if dealt is None or not 0 <= int(question) < len(dealt.questions):
            raise self._changed()
        return int(question)

    def _drawn(self, record: Any, question: int | None) -> dict[str, Any]:
        asked = self.survey.program.asked(question)
        codes = record if isinstance(record, list) else self.survey.codes(record, asked)
        values = self.survey.program.randomise_one(codes, self._draws, question)
        return {"campaign": self.survey.hash, "id": new_id(), "values": values}

    # Sending.

    def _body(self, reports: Sequence[Mapping[str, Any]]) -> bytes:
        """What is sent; a report on its own is as long as any other."""
        padded = self.survey.padded_length if len(reports) == 1 else 0
        return report_body(reports[0]["campaign"], list(map(_sent, reports)), padded)

    def _post(self, reports: Sequence[Mapping[str, Any]], body: bytes) -> Collection[int]:
        """Send these reports; the places of those that the server refused, of which it must say
        something of each.
        """
        found = self.transport.post(f"{self.address.campaign}/reports", body)
        where, most = f"the answer of {self.address.origin}", len(reports)
        with refuse_malformed(where):
            said = Untrusted(found, where)
            taken = [said[name].whole(0, most) for name in ("stored", "repeated")]
            refused = {
                each["index"].whole(0, most - 1): each["kind"].word()
                for each in said["refused"].entries(most)
            }
            if sum(taken) + len(refused) != most:
                said.refuse(f"a word on each of {most:,} reports")
            if len(refused) == most:
                kinds = sorted(set(refused.values()))
                hints = found.get("hints", {})
                words = [said["hints"][kind].word() for kind in kinds if kind in hints]
                raise CampaignError(
                    f"the server refused the reports: {_cut(', '.join(kinds))}",
                    hint=f"it says: {_cut('; '.join(words))}" if words else None,
                )
            return refused

    def _mark_sent(self, persons: Sequence[str]) -> None:
        if self.ledger is not None:
            with self._book.changing() as book:
                for person in persons:
                    book.mark_sent(self._key(person), self.survey.release)

    def _key(self, person: str) -> str:
        """A person as the ledger knows them: one budget for all campaigns of a server."""
        return f"{self.address.server} {known_as(person)}".rstrip()


class _Rows:
    """Records of many people as codes, read as they are needed."""

    def __init__(self, columns: Columns, rows: int) -> None:
        self.columns, self.rows = columns, rows

    @classmethod
    def of(cls, data: Any, domain: Domain) -> _Rows:
        if isinstance(data, list):
            data = pa.Table.from_pylist(data) if data else pa.table({n: [] for n in domain.names})
        table = data if isinstance(data, Table) else read(data, domain)
        return cls(table.recode(domain).columns, table.rows)

    def __len__(self) -> int:
        return self.rows

    def slice(self, start: int, stop: int) -> Iterator[list[Any]]:
        """The records start..stop-1 as lists of codes."""
        parts = [
            _baskets(column.slice(start, stop))
            if isinstance(column, Bits)
            else column[start:stop].tolist()
            for column in self.columns
        ]
        return map(list, zip(*parts, strict=True))


def _baskets(bits: Bits) -> list[list[int]]:
    offsets, items = bits.to_csr()
    ends = offsets.tolist()
    return [items[a:b].tolist() for a, b in pairwise(ends)]


def _names(persons: Sequence[str] | None, rows: int, ledger: Ledger | None) -> Sequence[str]:
    if persons is None:
        return numbered(rows)
    if len(persons) != rows:
        raise DataError(f"{len(persons)} persons are named for {rows} records")
    if len(set(map(known_as, persons))) < rows and ledger is not None:
        raise DataError("two records are of the same person, and each answers once")
    return persons


def _known_key(key: str) -> str:
    """A key of the ledger with the one name of its server and person; any other as it is."""
    server, _, person = key.partition(" ")
    return f"{_known_server(server)} {known_as(person)}".rstrip() if "://" in server else key


@lru_cache
def _known_server(server: str) -> str:
    try:
        return Address.parse(server).server
    except ParameterError:
        return server


def _within(reports: Sequence[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    """Reports in parts that a server takes at once, all of one version of the campaign."""
    part: list[dict[str, Any]] = []
    size = 0
    for report in reports:
        length = len(_json(_sent(report))) + 1
        full = size + length > MOST_BYTES - 200 or len(part) == most
        if part and (full or report["campaign"] != part[0]["campaign"]):
            yield part
            part, size = [], 0
        part.append(report)
        size += length
    if part:
        yield part


def _code(domain: Domain, place: int, record: Record) -> Any:
    attribute = domain.attributes[place]
    if attribute.name not in record:
        raise SchemaError(f"the answer to '{attribute.name}' is missing")
    value = record[attribute.name]
    if isinstance(attribute, Items):
        return [attribute.code(str(item)) for item in value]
    column = pa.array([value if isinstance(value, int | float) else str(value)])
    return int(np.asarray(attribute.encode(column))[0])


def new_id() -> str:
    """128 random bits, as 22 letters: the key under which a report is stored once."""
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")


def _receipts(
    reports: Sequence[Mapping[str, Any]], body: bytes, refused: Collection[int]
) -> list[Receipt]:
    """The receipts of one request, without those of reports that the server refused."""
    digest = hashlib.sha256(body).hexdigest()
    return [
        Receipt(report["id"], digest, report["campaign"])
        for place, report in enumerate(reports)
        if place not in refused
    ]


def _cut(words: str) -> str:
    """Somebody else's words, as far as there is room for them."""
    return words if len(words) <= MOST_SAID else f"{words[:MOST_SAID]}…"


def _sent(report: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": report["id"], "values": report["values"]}


def _kept(report: Any) -> dict[str, Any]:
    """A report out of a ledger, once it is seen to be one of ours."""
    said = Untrusted(report, "a report in this ledger")
    for name in ("campaign", "id"):
        said[name].word()
    said["values"].entries()
    return dict(report)


def _json(value: Any) -> bytes:
    import json

    return json.dumps(value, separators=(",", ":")).encode()
