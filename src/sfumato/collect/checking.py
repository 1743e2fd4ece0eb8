"""Checking: what a campaign will promise, what it will cost in people, and what a
forger could do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.collect.alarms import Watch, looks
from sfumato.collect.campaign import Campaign, Words, exactly
from sfumato.collect.figures import BEYOND
from sfumato.collect.figures import question as question_figures
from sfumato.collect.leverage import leverage
from sfumato.collect.policy import Policy
from sfumato.collect.synthetic_people import people
from sfumato.collect.tally import CampaignTally, Standing
from sfumato.errors import EstimationError
from sfumato.privacy.account import ROUNDING, left_words
from sfumato.privacy.guarantee import PRIOR
from sfumato.randomness import seeded

POINTS = 2.0  # half of the interval that people are counted for
PEOPLE, TODAY = 10_000, 1000  # for whom forged answers are looked at; those of the last day


@dataclass(frozen=True)
class QuestionCheck:
    """What is expected of one question; `limit` says why nothing can be."""

    name: str
    leverage: float | None  # people by which one crafted report moves a cell
    people: int | None  # who bring every answer within ± 2 points
    limit: str | None = None


@dataclass(frozen=True)
class CampaignCheck:
    """What `sfumato campaign check` tells."""

    name: str
    hash: str
    mechanism: str
    gamma: str
    epsilon: float
    worst_posterior: dict[str, float]
    truthful: float  # the chance that everything in a report is true: the largest, and the
    truthful_least: float  # smallest, by what is asked and answered
    questions: list[QuestionCheck]
    watch: list[Watch]  # what alarms would notice of 10,000 reports, the last 1,000 of them today's
    missing: list[str]  # translations
    warnings: list[str]


def check(campaign: Campaign) -> CampaignCheck:
    """Everything about a campaign that can be said before anyone has answered."""
    kept = campaign.guarantee
    counts: dict[Any, NDArray[Any]] = {}
    expected = [_expected(each, counts) for each in CampaignTally(campaign.mechanism).singles]
    questions = [found for found, _ in expected]
    shares = truthful(campaign)
    return CampaignCheck(
        campaign.name,
        campaign.hash,
        campaign.mechanism.name,
        exactly(kept),
        kept.epsilon,
        {"rho1": PRIOR, "rho2": kept.worst_posterior(PRIOR)},
        max(shares),
        min(shares),
        questions,
        _watched(campaign),
        list(_missing(campaign)),
        [*_warnings(campaign), *(warning for _, warning in expected if warning)],
    )


def _watched(campaign: Campaign) -> list[Watch]:
    """What alarms would notice, found with the reports of synthetic people."""
    tally = CampaignTally(campaign.mechanism, bounded=campaign.dashboard.bounded)
    truth = people(campaign.domain, PEOPLE, seeded(1)).columns
    data = tally.packing.pack_columns(campaign.mechanism.perturb(truth, seeded(2)))
    width = tally.packing.width
    earlier = len(data) - TODAY * width
    tally.recount([data[:earlier]])
    tally.add([data[at : at + width] for at in range(earlier, len(data), width)])
    return [look.watch() for look in looks(tally, *tally.snapshot())]


def _expected(
    standing: Standing, counts: dict[Any, NDArray[Any]]
) -> tuple[QuestionCheck, str | None]:
    """What a question gives if all answers are equally frequent, and a warning if a few forged ones
    could move it far; `counts` are what questions before have been seen to share.
    """
    name = standing.names[0]
    try:
        _expect(standing, counts)
        moved = leverage(standing, counts)
        figures = question_figures(standing, PEOPLE, counts)
    except EstimationError as error:
        return QuestionCheck(name, None, None, error.message), None
    if figures.points is None:
        return QuestionCheck(name, None, None, figures.limit), None
    people = math.ceil(PEOPLE * (figures.points / POINTS) ** 2)
    most = None if moved is None else float(np.max(moved))
    warning = None
    if most is not None and most > BEYOND * 2 * figures.points:
        warning = (
            f"{name}: with {PEOPLE:,} people, 1 % of forged answers could move a figure by "
            f"{most:.3g} points, where its interval is ± {figures.points:.2g}"
        )
    return QuestionCheck(name, most, people), warning


def _expect(standing: Standing, counts: dict[Any, NDArray[Any]]) -> None:
    """Note the counts expected if all records are equally frequent; questions that count the
    same expect the same.
    """
    if standing.seen is None:
        raise EstimationError(standing.limit or "these reports do not answer this")
    key, channel = standing.seen.tally.key, standing.seen.channel
    if key not in counts:
        even = np.full(channel.inputs, PEOPLE / math.prod(channel.inputs))
        counts[key] = np.asarray(channel.apply(even))


def truthful(campaign: Campaign) -> list[float]:
    """The chance that a report is true of who sends it, for a few records; where a question is
    dealt, for every question.
    """
    program = campaign.program
    questions = range(len(program.dealt.questions)) if program.dealt is not None else (None,)
    records = ([_value(column, share) for column in program.inputs] for share in (0, 0.01, 0.5, 1))
    return [
        float(program.truthful(record, question)) for record in records for question in questions
    ]


def _value(column: Any, share: float) -> Any:
    """A basket of so many of its items, or a code so far along."""
    if column.basket:
        return list(range(math.ceil(share * column.size)))
    return round(share * (column.size - 1))


def _missing(campaign: Campaign) -> Iterator[str]:
    """Texts that lack a language which the title has."""
    wanted = list(campaign.title)
    texts: list[tuple[str, Words]] = [
        (f"text.{name}", words) for name, words in campaign.texts.items() if words
    ]
    for name, question in campaign.questions.items():
        texts.append((f"question.{name}.text", question.text))
        texts += [(f"question.{name}.values.{v}", w) for v, w in question.values.items()]
    for place, words in texts:
        for language in wanted:
            if words and language not in words:
                yield f"{place} has no text in '{language}'"


def _warnings(campaign: Campaign) -> Iterator[str]:
    law = campaign.mechanism.symbol_law
    if law is not None and law.most_counted is None and campaign.people is None:
        yield (
            "a report sent again and again looks like honest ones here; hashes = true under "
            "[mechanism] makes it noticeable"
        )
    if campaign.sent_as_is:
        yield f"sent as they are, outside the promise: {', '.join(campaign.sent_as_is.values())}"
    if campaign.budget is not None and campaign.guarantee.epsilon > campaign.budget + ROUNDING:
        yield (
            f"[budget] epsilon = {left_words(campaign.budget)} is less than one answer costs "
            f"({campaign.guarantee.epsilon_words}): nobody can answer"
        )
    usual = Policy()
    if campaign.promise.gamma > usual.at_most:
        yield (
            f"gamma above {usual.at_most} is refused by the form, and by sfumato send, unless the "
            "page (at-most) or the one who answers (--at-most) allows more"
        )
    silent = [n for n in campaign.domain.names if not campaign.questions.get(n)]
    if silent:
        yield f"no question text for {', '.join(silent)}: the form shows the name"
    if not campaign.texts.get("purpose"):
        yield "[text] purpose is empty: people are not told what their answers are for"
    for name, words in campaign.texts.items():
        if any(text.strip(" .…") == "" for text in words.values()):
            yield f"[text] {name} is not written yet: the form shows it as it is"
