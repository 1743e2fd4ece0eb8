"""Simulating: synthetic people answer a campaign through the real client, and the figures are held
against the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.collect.campaign import Campaign
from sfumato.collect.client import Client
from sfumato.collect.figures import QuestionFigures
from sfumato.collect.figures import question as question_figures
from sfumato.collect.synthetic import people
from sfumato.collect.tally import CampaignTally
from sfumato.randomness import Keystream
from sfumato.source import Exact
from sfumato.table import Table

AT_ONCE = 1000  # people between two words of progress


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
    """What became of the synthetic answers."""

    people: int
    stored: int
    compared: list[Compared]

    @property
    def coverage(self) -> float:
        """The share of intervals that hold the truth."""
        return sum(each.covered for each in self.compared) / max(1, len(self.compared))


def simulate(
    campaign: Campaign,
    client: Client,
    truth: Table,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Send the answers of these people through a client; how many were stored."""
    stored = 0
    for start in range(0, truth.rows, AT_ONCE):
        part = truth.slice(start, min(start + AT_ONCE, truth.rows))
        stored += client.send(part).stored
        progress(start + part.rows)
    return stored


def synthetic_truth(campaign: Campaign, rows: int, rng: Keystream) -> Table:
    """Synthetic people as a campaign asks them."""
    return people(campaign.domain, rows, rng)


def compare(figures: list[QuestionFigures], truth: Table, tally: CampaignTally) -> list[Compared]:
    """Every estimated share beside the true one."""
    exact, found = Exact(truth), []
    for standing, shown in zip(tally.singles, figures, strict=True):
        true = np.asarray(exact.marginal(standing.cells).value) / truth.rows
        for bar, share in zip(shown.bars, true.ravel(), strict=True):
            estimate = bar.share
            row = (float(share), estimate.value, estimate.low, estimate.high)
            found.append(Compared(shown.name, bar.label, *row))
    return found


def figures_in(tally: CampaignTally) -> list[QuestionFigures]:
    """What the reports that a tally counted say to each question."""
    rows, counts = tally.snapshot()
    return [question_figures(standing, rows, counts) for standing in tally.singles]
