"""Campaign: what is asked, of which values, under which promise, as one TOML file says it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.collect.canonical import as_json, digest
from sfumato.domain import Domain
from sfumato.errors import CampaignError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.program import Program
from sfumato.printable import upwards
from sfumato.privacy.guarantee import Guarantee
from sfumato.table.packing import Packing
from sfumato.table.round import Round
from sfumato.untrusted import MOST_DIGITS

Words = Mapping[str, str]  # a text in each of its languages

NO_ANSWER = "no answer"  # the value that `decline = true` adds
LONGEST_REPORT = 64 << 10  # bytes of one report as it is sent
MOST_REPORTS, MOST_IDS, MOST_BYTES = 1000, 100, 256 << 10  # of one request
LEAST_SHOWN, LEAST_STEP = 100, 50  # reports behind a public figure, and between two of them
ID_LENGTH, HASH_LENGTH, SERIES_LENGTH = 22, 64, 32
FIGURES = 30  # of a gamma whose fraction is too long


@dataclass(frozen=True)
class Wording:
    """How one column is asked: its text, what its values are called, whether it may be declined."""

    text: Words = field(default_factory=dict)
    values: Mapping[str, Words] = field(default_factory=dict)
    decline: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {"text": dict(self.text), "values": _plain(self.values), "decline": self.decline}


@dataclass(frozen=True)
class DashboardRules:
    """Who may look, and how finely: a public dashboard shows nothing below `least` reports and
    changes in steps of `step`.
    """

    public: bool = False
    least: int = LEAST_SHOWN
    step: int = LEAST_STEP
    bounded: bool = False  # whether one report sent again and again counts a few times at most


@dataclass(frozen=True)
class Campaign:
    """One survey: its name, its questions, the mechanism that blurs an answer, and the promise."""

    name: str
    title: Words
    mechanism: Mechanism
    promise: Guarantee
    questions: Mapping[str, Wording] = field(default_factory=dict)
    texts: Mapping[str, Words] = field(default_factory=dict)
    contact: str | None = None
    opens: date | None = None
    closes: date | None = None
    budget: float | None = None  # epsilon that one browser may spend on this server
    round: int = 1
    dashboard: DashboardRules = field(default_factory=DashboardRules)
    people: int | None = None  # announced, where they are asked in rounds
    sizes: tuple[str, ...] = ()  # columns of baskets whose size is sent as it is

    def __post_init__(self) -> None:
        if not self.promise.allows(self.guarantee):
            raise CampaignError(
                f"the program of {self.mechanism.name} has {self.guarantee}, above the promise of "
                f"{self.promise}"
            )
        if self.longest_report > LONGEST_REPORT:
            raise CampaignError(
                f"one report would be up to {self.longest_report:,} bytes long; the most is "
                f"{LONGEST_REPORT:,}",
                hint="use fewer items or columns",
            )

    @property
    def domain(self) -> Domain:
        """What a record may be, as the mechanism sees it."""
        return self.mechanism.domain

    @cached_property
    def turn(self) -> Round | None:
        """Which of its rounds this is, where each person answers in one of several."""
        if self.people is None:
            return None
        stated = {
            "name": self.name,
            "domain": self.domain.to_dict(),
            "promise": exactly(self.promise),
        }
        return Round(digest(stated)[:SERIES_LENGTH], self.round)

    @cached_property
    def program(self) -> Program:
        """The integer steps that a client runs."""
        return self.mechanism.program()

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is kept, computed from the integers: beside what the campaign says is sent as it is,
        all that can be seen of an answer.
        """
        return self.program.guarantee(self.domain, self.sizes)

    @property
    def sent_as_is(self) -> dict[str, str]:
        """The columns of which something is sent as it is, with what in words."""
        return self.program.sent_of(self.domain)

    @cached_property
    def packing(self) -> Packing:
        """How the store keeps a report."""
        return Packing(self.mechanism.reports)

    @cached_property
    def frozen(self) -> dict[str, Any]:
        """What must not change once people have answered: values, program and round."""
        return frozen_parts(self.domain, self.program, self.round)

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of what must not change."""
        return digest(self.frozen)

    def state(self, today: date | None = None) -> str:
        """Whether answers are taken on this day (of UTC): early, open or closed."""
        today = datetime.now(UTC).date() if today is None else today
        if self.opens is not None and today < self.opens:
            return "early"
        return "closed" if self.closes is not None and today > self.closes else "open"

    @cached_property
    def longest_report(self) -> int:
        """The bytes of the longest report, as a member of a list of reports."""
        return self.padded_length - len(_envelope([]))

    @cached_property
    def padded_length(self) -> int:
        """The bytes to which the body with a single report is padded by blanks at its end, so that
        its length tells nothing.
        """
        return len(_envelope([[]])) - len("[]") + self.program.longest

    def document(self, today: date | None = None) -> dict[str, Any]:
        """Everything public about the campaign, as `GET /v1/campaigns/{name}` gives it."""
        return {
            "name": self.name,
            "title": dict(self.title),
            "hash": self.hash,
            "round": self.round,
            "open": self.state(today) == "open",
            "opens": None if self.opens is None else self.opens.isoformat(),
            "closes": None if self.closes is None else self.closes.isoformat(),
            "domain": self.domain.to_dict(),
            "program": self.program.to_dict(),
            # Rounded, for logarithms differ in their last digit from one machine to another.
            "promise": {
                "gamma": exactly(self.promise),
                "epsilon": upwards(self.promise.epsilon, 12),
                "sizes": list(self.sizes),
            },
            "budget": None if self.budget is None else {"epsilon": self.budget},
            "questions": {name: question.to_dict() for name, question in self.questions.items()},
            "text": {**_plain(self.texts), "contact": self.contact},
        }


def frozen_parts(domain: Domain, program: Program, round: int) -> dict[str, Any]:
    """What a campaign's hash is of, as JSON brings it back."""
    return as_json({"domain": domain.to_dict(), "program": program.to_dict(), "round": round})


def exactly(guarantee: Guarantee) -> str:
    """The gamma of a guarantee as a fraction of whole numbers; of more digits than a client reads,
    rounded up to 30 figures: a factor for each of many items makes no other promise.

    >>> exactly(Guarantee(19)), exactly(Guarantee(Fraction(10**200 + 1, 10**199)))
    ('19/1', '100000000000000000000000000001/10000000000000000000000000000')
    """
    gamma = Fraction(guarantee.gamma)
    if max(gamma.as_integer_ratio()) >= 10**MOST_DIGITS:
        unit = 10 ** max(FIGURES - len(str(math.ceil(gamma))), 0)
        gamma = Fraction(math.ceil(gamma * unit), unit)
    return f"{gamma.numerator}/{gamma.denominator}"


def report_body(campaign_hash: str, reports: list[dict[str, Any]], length: int = 0) -> bytes:
    """The bytes that a client sends; blanks at the end bring them to a length."""
    body = json.dumps({"campaign": campaign_hash, "reports": reports}, separators=(",", ":"))
    return body.encode().ljust(length)


def _envelope(values: list[list[Any]]) -> bytes:
    reports = [{"id": "0" * ID_LENGTH, "values": report} for report in values]
    return report_body("0" * HASH_LENGTH, reports)


def _plain(texts: Mapping[str, Words]) -> dict[str, dict[str, str]]:
    return {name: dict(words) for name, words in texts.items()}
