"""Rounds of numbers: a first group reports one number each, what it says cuts the numbers into
cells, a second group reports mostly two at once; both are fitted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Numeric
from sfumato.errors import ParameterError
from sfumato.mechanisms.questions import ONE
from sfumato.mechanisms.ranges import WAVES_LATER, Ranges
from sfumato.mechanisms.shares import most_information
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.mechanisms.windows import values_of
from sfumato.model.numbers import NumberReports
from sfumato.source import Release, check_alike

SPARSE = 0.2  # the part of an even share of people below which what is left is no cell


def cells_for(people: float, columns: int, gamma: float) -> int:
    """How many cells of each number suit so many people and columns: even, and growing with the
    fourth root of what they tell of a pair.

    >>> cells_for(29_000, 6, 2.718), cells_for(29_000, 6, 19), cells_for(1_000_000, 4, 19)
    (4, 6, 20)
    """
    pairs = columns * (columns - 1) / 2
    told = people / pairs * most_information(gamma)
    return int(np.clip(2 * round(told**0.25 / 3), 2, 32))


def asked_after(first: Release, people: float) -> Ranges:
    """What so many further people are asked: cells of about as many people each, as the first
    group's reports show them.
    """
    wave = first.mechanism
    if type(wave) is not SquareWave:
        raise ParameterError(
            f"the first round of ranges is asked by square-wave, not by {wave.name}",
            hint="begin with sfumato perturb … --round 1 --mechanism ranges",
        )
    wanted = cells_for(people, len(first.domain.private), float(wave.gamma))
    found = [
        _cut(first, a, wanted) if isinstance(a, Numeric) else (tuple(range(a.size)), a.size // 2)
        for a in first.domain.private
    ]
    starts, upper = zip(*found, strict=True)
    weight = round(WAVES_LATER * ONE)
    return Ranges(first.domain, wave.gamma, wave.lengths, starts, upper, weight)


def _cut(release: Release, number: Numeric, wanted: int) -> tuple[tuple[int, ...], int]:
    """The codes at which about equally many people begin a cell, and the first cell above the
    middle.
    """
    values = values_of(number)
    edges = np.ceil((np.arange(1, values) - 0.5) * (number.size - 1) / (values - 1))
    codes = edges.astype(np.int64)
    cuts = [float(cut) for cut in number.numbers(codes)]
    shares = np.maximum(release.marginal([number.cells_by_cuts(cuts)]).value, 0.0)
    below = np.cumsum(shares)[:-1] / max(float(shares.sum()), 1.0)
    places = _even(below, wanted) or [int(np.argmin(np.abs(below - 0.5)))]
    upper = 1 + int(np.argmin(np.abs(below[places] - 0.5)))
    return (0, *(int(codes[place]) for place in places)), upper


def _even(below: NDArray[Any], wanted: int) -> list[int]:
    """Of the edges, with the share of people below each, those between cells of about equally many
    people: each as near as can be to its part of those who are left.
    """
    found: list[int] = []
    for left in range(wanted, 1, -1):
        done, first = (float(below[found[-1]]), found[-1] + 1) if found else (0.0, 0)
        if first >= len(below):
            break
        aim = done + (1 - done) / left
        place = first + int(np.argmin(np.abs(below[first:] - aim)))
        if 1 - below[place] < SPARSE / wanted:
            break
        found.append(place)
    return found


def reports_of(releases: Sequence[Release]) -> NumberReports:
    """What groups of people who were asked one after the other reported, as if dealt at once."""
    last = [release for release in releases if isinstance(release.mechanism, Ranges)]
    if any(release.domain.baskets for release in releases):
        raise ParameterError(
            "these are rounds of baskets, to which no model is fitted",
            hint="mine them together: sfumato mine ROUND1 ROUND2 ROUND3, in Python "
            "sf.mine([round1, round2, round3])",
        )
    if len(last) != 1:
        raise ParameterError(
            f"{len(last)} of these {len(releases)} releases ask about two numbers at once; one "
            "must",
            hint="give the rounds of ranges: the first, and the one --after it",
        )
    mechanism = last[0].mechanism
    assert isinstance(mechanism, Ranges)
    questions, answers = mechanism.private_reports
    counts = np.zeros((questions.size, answers.size))
    for release in releases:
        table = _counted(release)
        counts[: table.shape[0], : table.shape[1]] += table
    return NumberReports(mechanism, counts)


def _counted(release: Release) -> NDArray[Any]:
    """How often each answer was given to each question."""
    reports = release.mechanism.private_reports
    return np.asarray(release.counter.count(tuple(a.cells() for a in reports)), np.float64)


def check_rounds(releases: Sequence[Release]) -> None:
    """Refuse releases that may hold the same people, or that are of different data or promises."""
    turns = [release.provenance.turn for release in releases]
    known = [turn for turn in turns if turn is not None]
    if len(known) < len(turns) or len({turn.series for turn in known}) > 1:
        raise ParameterError(
            "these releases are no rounds of one series, so some people may be in both: what each "
            "promised composes",
            hint="give the rounds of one series: each was made --after the one before",
        )
    if len({turn.round for turn in known}) < len(known):
        raise ParameterError("a round is given twice", hint="give each round once")
    check_alike(releases, "columns")
