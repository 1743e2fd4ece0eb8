"""Campaigns of honest people and of forgers, for every mechanism that a campaign can use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

from sfumato.bits import Bits
from sfumato.collect import alarms
from sfumato.collect.tally import CampaignTally
from sfumato.domain import Category, Columns, Domain, Items, Numeric
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.registry import mechanism_class
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded

RECORDS = Domain(
    (
        Category("smoker", ("yes", "no")),
        Category("age", ("18", "40", "65")),
        Category("region", tuple("nesw")),
    )
)
ILLNESS = Domain((Category("illness", tuple(f"i{code}" for code in range(30))),))
BASKETS = Domain((Items("items", tuple(map(str, range(60)))),))
FEW_ITEMS = Domain((Items("items", tuple(map(str, range(6)))),))
FIFTHS = Numeric("income", 0, 100, cuts=(20, 40, 60, 80))
INCOME = Domain((Numeric("income", 0, 100),))
BESIDE = Domain((Category("town", ("a", "b", "c"), public=True), *ILLNESS.attributes))
CASES: dict[str, tuple[str, Domain, dict[str, object]]] = {
    "questionnaire": ("questionnaire", RECORDS, {}),
    "gamma-diagonal, 3 columns": ("gamma-diagonal", RECORDS, {}),
    "gamma-diagonal, 30 values": ("gamma-diagonal", ILLNESS, {}),
    "beside a public column": ("gamma-diagonal", BESIDE, {}),
    "randomized-gamma": ("randomized-gamma", RECORDS, {}),
    "retention": ("retention", Domain((*RECORDS, *INCOME)), {}),
    "combined": ("combined", RECORDS, {}),
    "mask, baskets": ("mask", BASKETS, {}),
    "mask, records": ("mask", RECORDS, {}),
    "cut-and-paste, baskets": ("cut-and-paste", FEW_ITEMS, {}),
    "cut-and-paste, records": ("cut-and-paste", RECORDS, {}),
    "unary": ("unary", ILLNESS, {}),
    "subset-selection": ("subset-selection", ILLNESS, {}),
    "hadamard": ("hadamard", ILLNESS, {}),
    "square-wave": ("square-wave", INCOME, {}),
    "piecewise": ("piecewise", INCOME, {}),
    "ranges": ("ranges", Domain((FIFTHS, replace(FIFTHS, name="age"))), {}),
    "item-set, items": ("item-set", BASKETS, {}),
    "item-set, hashes": ("item-set", BASKETS, {"hashes": True}),
}
DAYS = 5


@dataclass(frozen=True)
class Forgery:
    """So large a share of forged reports: one and the same, or different ones for one answer; on
    all days or on the last.
    """

    share: float
    identical: bool
    burst: bool


@dataclass(frozen=True, eq=False)
class Crowd:
    """People of a campaign: some kinds of records, some more frequent than others."""

    case: str
    seed: int

    @property
    def mechanism(self) -> Mechanism:
        return tally_of(self.case).mechanism

    def truth(self, rows: int) -> Columns:
        """Records: evenly spread, steeply, or all the same, which brings counts to their limits."""
        rng, shape = np.random.default_rng(self.seed), self.seed % 3
        return tuple(_column(attribute, rows, shape, rng) for attribute in self.mechanism.domain)

    def bodies(self, rows: int) -> list[bytes]:
        """The reports of honest people."""
        packing = tally_of(self.case).packing
        drawn = self.mechanism.perturb(self.truth(rows), seeded(self.seed + 1))
        data, width = packing.pack_columns(drawn), packing.width
        return [data[at : at + width] for at in range(0, len(data), width)]

    def days(self, rows: int, forgery: Forgery | None = None) -> list[list[bytes]]:
        """The reports of each day, in the order in which they come."""
        honest, rng = self.bodies(rows), np.random.default_rng(self.seed + 2)
        days = [honest[day::DAYS] for day in range(DAYS)]
        if forgery is None:
            return days
        today = rows // DAYS if forgery.burst else rows
        number = round(forgery.share * today / (1 - forgery.share))
        moving = moving_reports(self.case)
        chosen = moving[:1] if forgery.identical else moving[: max(1, len(moving) // 10)]
        for place in range(number):
            day = DAYS - 1 if forgery.burst else place % DAYS
            days[day].append(chosen[int(rng.integers(len(chosen)))])
        return days


@cache
def tally_of(case: str) -> CampaignTally:
    """A tally, which knows the questions of a campaign and its mechanism."""
    name, domain, options = CASES[case]
    return CampaignTally(mechanism_class(name).promising(Guarantee(19), domain, **options))


@cache
def moving_reports(case: str) -> list[bytes]:
    """Different reports, those first that speak most for the last answer to the last question."""
    tally = tally_of(case)
    some = list(dict.fromkeys(Crowd(case, 0).bodies(2000)))
    reports, cells = tally.packing.unpack(b"".join(some)), tally.singles[-1].cells
    logs = tally.mechanism.likelihood(reports, cells)
    return [some[place] for place in np.argsort(logs.mean(axis=1) - logs[:, -1], kind="stable")]


def _column(attribute, rows: int, shape: int, rng: np.random.Generator):
    size = attribute.size
    steep = [np.ones(size), 1 / np.arange(1, size + 1) ** 1.5, np.eye(size)[0]][shape]
    if isinstance(attribute, Items):
        return Bits.from_dense(rng.random((rows, size)) < np.minimum(2 * steep / steep.sum(), 1))
    return rng.choice(size, rows, p=steep / steep.sum())


def sounding(tally: CampaignTally) -> set[str]:
    """The kinds of alarm that sound as the counts stand."""
    looks = alarms.looks(tally, *tally.snapshot())
    return {alarm.kind for look in looks for alarm in look.alarms()}


def sounded(
    mechanism: Mechanism, days: list[list[bytes]], looks: int = 3
) -> Iterator[tuple[int, set[str]]]:
    """What alarms sound at each of several looks a day, as the reports come in."""
    tally = CampaignTally(mechanism)
    for day, bodies in enumerate(days):
        if day:
            tally.begin_day()
        ends = np.linspace(0, len(bodies), looks + 1).astype(int)
        for start, end in pairwise(ends):
            tally.add(bodies[start:end])
            yield tally.rows, sounding(tally)
