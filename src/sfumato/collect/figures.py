"""Figures: what a dashboard shows of a campaign, each number with its error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.collect.alarms import Alarm, Watch, looks
from sfumato.collect.campaign import Campaign, exactly
from sfumato.collect.leverage import leverage
from sfumato.collect.tally import CampaignTally, Standing, estimate
from sfumato.errors import EstimationError
from sfumato.estimation.answer import reach
from sfumato.estimation.estimate import Estimate
from sfumato.privacy.guarantee import PRIOR
from sfumato.privacy.shuffle_amplification import BINARY, DELTA, shuffled_epsilon

LEVEL = 0.95
FORGED = 100  # crafted answers whose reach is shown
STEPS = (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # points that people ask for
LEAST_SHOWN = 10  # reports below which no share is shown: their errors are guesses too
TOO_FEW = "too few reports so far to say anything of this, or how far it may be off"
BEYOND = 2.0  # times its interval by which 1 % of forged answers may move a figure


@dataclass(frozen=True)
class EstimatedShare:
    """A share of all people with its standard error and 95 % interval; unbiased, so it may be
    below 0 or above 1.
    """

    value: float
    stderr: float
    low: float
    high: float


@dataclass(frozen=True)
class Bar:
    """One answer to a question: how many gave it, and how far 100 forged answers could move it, as
    a share.
    """

    label: str
    share: EstimatedShare
    forged: float | None


@dataclass(frozen=True)
class QuestionFigures:
    """What people say to one question; `limit` says why nothing can be said."""

    name: str
    bars: list[Bar]
    too_few: bool
    points: float | None  # half of the widest interval, in percentage points
    next_points: float | None  # a narrower one
    more_people: int | None  # who would bring it
    limit: str | None = None


@dataclass(frozen=True)
class PairFigures:
    """Whether two columns go together: shares of all people, a row for each value of the first."""

    columns: list[str]
    rows: list[str]
    labels: list[str]
    values: list[list[float]]
    stderrs: list[list[float]]
    limit: str | None = None


@dataclass(frozen=True)
class Kept:
    """What was promised to each respondent, and what readers of these figures can learn at most."""

    gamma: str
    epsilon: float
    prior: float
    posterior: float
    shuffled_epsilon: float | None
    shuffled_delta: float
    budget: float | None
    caveats: list[str]
    public: list[str] = field(default_factory=list)  # columns that are sent as they are


@dataclass(frozen=True)
class Day:
    """One day: how many reports had which fate."""

    day: str
    outcomes: dict[str, int]


@dataclass(frozen=True)
class Figures:
    """Everything a dashboard shows; `enough` is false where a public one shows nothing yet."""

    name: str
    title: dict[str, str]
    hash: str
    round: int
    state: str
    reports: int
    enough: bool
    questions: list[QuestionFigures]
    pairs: list[PairFigures]
    alarms: list[Alarm]
    promise: Kept
    days: list[Day]
    store_bytes: int | None = None
    watch: list[Watch] = field(default_factory=list)  # what alarms would have noticed
    most_counted: int | None = None  # times that one report counts, where the estimate is bounded


def figures_of(
    campaign: Campaign,
    tally: CampaignTally,
    *,
    days: Sequence[tuple[str, str, int]] = (),
    enough: bool = True,
) -> Figures:
    """The figures of a campaign as its reports stand now."""
    rows, counts = tally.snapshot()
    shown = enough and rows > 0
    seen = looks(tally, rows, counts) if shown else []
    return Figures(
        name=campaign.name,
        title=dict(campaign.title),
        hash=campaign.hash,
        round=campaign.round,
        state=campaign.state(),
        reports=rows,
        enough=enough,
        questions=[question(each, rows, counts) for each in tally.singles] if shown else [],
        pairs=[pair(each, rows, counts) for each in tally.pairs] if shown else [],
        alarms=[alarm for look in seen for alarm in look.alarms()],
        promise=kept(campaign, rows),
        days=days_of(days),
        watch=[look.watch() for look in seen],
        most_counted=tally.most_counted(rows) if shown else None,
    )


def question(standing: Standing, rows: int, counts: Mapping[Any, NDArray[Any]]) -> QuestionFigures:
    """What people say to one question."""
    name = standing.names[0]
    try:
        found = _told(standing, rows, counts)
        shares = [_share(found, place) for place in range(found.value.size)]
        moved = leverage(standing, counts)
    except EstimationError as error:
        return QuestionFigures(name, [], True, None, None, None, error.message)
    forged = [None] * len(shares) if moved is None else [_forged(each, rows) for each in moved]
    labels = standing.cells[0].labels
    bars = [Bar(*each) for each in zip(labels, shares, forged, strict=True)]
    points = 100 * max((share.high - share.low) / 2 for share in shares)
    wanted = next_step(points)
    more = math.ceil(rows * ((points / wanted) ** 2 - 1)) if wanted else None
    too_few = max(share.low for share in shares) <= min(share.high for share in shares)
    return QuestionFigures(name, bars, too_few, points, wanted, more)


def _told(standing: Standing, rows: int, counts: Mapping[Any, NDArray[Any]]) -> Estimate:
    """What the counts say about a question, where they say how sure that is: a single person who
    was asked looks as if there were no error, or less than none.
    """
    found = estimate(standing, rows, counts)
    surest = found.stderr.flat[found.value.argmax()]
    if not found.evidence.exact and (rows < LEAST_SHOWN or surest == 0):
        raise EstimationError(TOO_FEW)
    return found


def _forged(leverage: float, rows: int) -> float:
    """How far 100 crafted answers beside these can move a share."""
    return FORGED * float(leverage) / (rows + FORGED)


def _share(found: Estimate, place: int) -> EstimatedShare:
    value = float(found.value.ravel()[place]) / found.rows
    stderr = float(found.stderr.ravel()[place]) / found.rows
    half = reach(LEVEL) * stderr
    return EstimatedShare(value, stderr, value - half, value + half)


def next_step(points: float) -> float | None:
    """The next precision that people ask for, below the present one.

    >>> next_step(2.1), next_step(0.001)
    (1.0, None)
    """
    return next((step for step in STEPS if step <= 0.7 * points), None)


def pair(standing: Standing, rows: int, counts: Mapping[Any, NDArray[Any]]) -> PairFigures:
    """Whether two columns go together."""
    first, second = standing.cells
    head = list(standing.names), list(first.labels), list(second.labels)
    try:
        found = _told(standing, rows, counts)
        values, stderrs = found.value / rows, found.stderr / rows
    except EstimationError as error:
        return PairFigures(*head, [], [], error.message)
    return PairFigures(*head, values.tolist(), stderrs.tolist())


def kept(campaign: Campaign, rows: int) -> Kept:
    """What was promised, and what readers without the order of the reports can learn: people hide
    among those who show the same public columns, so beside these no figure holds for everyone.
    """
    promise = campaign.promise
    alike = not any(attribute.public for attribute in campaign.domain)
    questions = campaign.program.kary or BINARY
    hidden = shuffled_epsilon(promise, rows, questions=questions) if rows > 1 and alike else None
    return Kept(
        exactly(promise),
        promise.epsilon,
        PRIOR,
        promise.worst_posterior(PRIOR),
        hidden,
        DELTA,
        campaign.budget,
        [*campaign.mechanism.caveats, *CAVEATS],
        [attribute.name for attribute in campaign.domain if attribute.public],
    )


CAVEATS = (
    "an open campaign cannot prove that each person answered once",
    "each further report of the same person costs again",
    "what the crowd says may tell about anyone, in it or not",
)


def days_of(rows: Sequence[tuple[str, str, int]]) -> list[Day]:
    """The totals of the days, as a store keeps them: day, outcome, count."""
    days: dict[str, dict[str, int]] = {}
    for day, outcome, count in rows:
        days.setdefault(day, {})[outcome] = count
    return [Day(day, outcomes) for day, outcomes in days.items()]


def strongest(pairs: Sequence[PairFigures]) -> PairFigures | None:
    """The pair that departs most from independence, measured in its own errors."""
    told = [each for each in pairs if each.values]
    return max(told, key=association, default=None)


def association(found: PairFigures) -> float:
    """The mean squared departure from independence, in standard errors."""
    values, errors = np.array(found.values), np.array(found.stderrs)
    expected = np.outer(values.sum(axis=1), values.sum(axis=0)) / max(values.sum(), 1e-12)
    safe = np.maximum(errors, 1e-12)
    return float((((values - expected) / safe) ** 2).mean())
