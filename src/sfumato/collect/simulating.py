"""Simulating: synthetic people answer a campaign through the real client, and the figures are held
against the truth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.collect.campaign import Campaign
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.client import Client
from sfumato.collect.figures import QuestionFigures
from sfumato.collect.figures import question as question_figures
from sfumato.collect.releases import find_campaign
from sfumato.collect.server.running import ServerSettings, serving
from sfumato.collect.store import open_store
from sfumato.collect.synthetic_people import people
from sfumato.collect.tally import CampaignTally
from sfumato.errors import CampaignError
from sfumato.randomness import Keystream
from sfumato.release import Exact
from sfumato.table import Table

AT_ONCE = 1000  # people between two words of progress

Progress = Callable[[int, float | None], None]


@dataclass(frozen=True)
class Compared:
    """One answer to one question: what was estimated, and what is true, as shares of all people."""

    question: str
    answer: str
    truth: float
    value: float
    low: float
    high: float

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high


@dataclass(frozen=True)
class Simulated:
    """What became of the synthetic answers; nothing is compared where others have answered too."""

    people: int
    stored: int
    seconds: float
    compared: list[Compared]

    @property
    def coverage(self) -> float | None:
        """The share of intervals that hold the truth."""
        inside = [each.covered for each in self.compared]
        return sum(inside) / len(inside) if inside else None


def simulated(
    file: str,
    truth: Table,
    server: str | None,
    store: str,
    token: str | None = None,
    progress: Progress | None = None,
) -> Simulated:
    """Send the answers of these people to a server, or to one that is run for the purpose and whose
    figures are compared with the truth.
    """
    campaign = CampaignFile.load(file).campaign
    if campaign.people is not None:
        raise CampaignError(
            f"'{campaign.name}' is asked in rounds, and each person in one of them",
            hint="serve it, and sfumato send a part of the people at a time",
        )
    settings = ServerSettings([file], store, port=0, limited=False)
    start = time.perf_counter()
    with serving(settings) if server is None else nullcontext(server) as address:
        at_once = AT_ONCE if server is None else None  # our own server has no limit
        name = f"{address.rstrip('/')}/{campaign.name}"
        # Nobody is there to be protected: what the campaign asks, synthetic people answer.
        freely: dict[str, Any] = {
            "at_most": math.inf,
            "public": campaign.domain.names,
            "budget": math.inf,
        }
        client = Client(name, token=token, at_once=at_once, **freely)
        if client.survey.hash != campaign.hash:
            raise CampaignError(
                f"'{campaign.name}' at {client.address.origin} is not the campaign of {file}: it "
                "has another hash; nothing was sent",
                hint="simulate the file that is served, or serve this one",
            )
        stored = answer_all(client, truth, progress)
    seconds = time.perf_counter() - start
    compared = [] if server is not None else compare(counted(store, campaign), truth)
    return Simulated(truth.rows, stored, seconds, compared)


def answer_all(client: Client, truth: Table, progress: Progress | None = None) -> int:
    """Send the answers of all these people; how many were stored."""
    stored = 0
    for start in range(0, truth.rows, AT_ONCE):
        part = truth.slice(start, min(start + AT_ONCE, truth.rows))
        stored += client.send(part).stored
        if progress is not None:
            progress(start + part.rows, (start + part.rows) / truth.rows)
    return stored


def synthetic_truth(campaign: Campaign, rows: int, rng: Keystream) -> Table:
    """Synthetic people as a campaign asks them."""
    return people(campaign.domain, rows, rng)


def counted(store: str, campaign: Campaign) -> CampaignTally:
    """The reports of a campaign in a store, counted."""
    opened = open_store(store)
    tally = CampaignTally(campaign.mechanism, bounded=campaign.dashboard.bounded)
    found = find_campaign(opened, f"{campaign.name}/{campaign.round}")
    tally.recount(opened.bodies(found.number))
    opened.close()
    return tally


def compare(tally: CampaignTally, truth: Table) -> list[Compared]:
    """Every estimated share beside the true one; nothing where the reports are not of these people
    alone.
    """
    if tally.rows != truth.rows:
        return []
    exact, found = Exact(truth), []
    for standing, shown in zip(tally.singles, figures_in(tally), strict=True):
        true = np.asarray(exact.marginal(standing.cells).value) / truth.rows
        for bar, share in zip(shown.bars, true.ravel().tolist(), strict=False):
            estimate = bar.share
            row = (share, estimate.value, estimate.low, estimate.high)
            found.append(Compared(shown.name, bar.label, *row))
    return found


def figures_in(tally: CampaignTally) -> list[QuestionFigures]:
    """What the reports that a tally counted say to each question."""
    rows, counts = tally.snapshot()
    return [question_figures(standing, rows, counts) for standing in tally.singles]
