"""Rounds of numbers: a first group reports one number each, what it says cuts the numbers into
cells, a second group reports mostly two at once; a model is fitted to both together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Domain, Numeric
from sfumato.errors import ParameterError, SchemaError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.in_rounds import NUMBER_SHARES, RoundDesign, SeriesSoFar
from sfumato.mechanisms.registry import mechanism_class
from sfumato.mechanisms.shares import most_information
from sfumato.mechanisms.windows import values_of
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import ONE

SPARSE = 0.2  # the part of an even share of people below which what is left is no cell
WAVES_LATER = 0.1  # the share who are asked about one number where others were before


class NumberRounds(RoundDesign):
    """Square-wave first, then ranges whose cells the first group's reports have cut."""

    asked_by = "ranges"
    shares = NUMBER_SHARES
    joins_by_model = True
    about = "columns"
    after_next = ", which takes its cuts from it"
    at_last = "then fit both rounds: sfumato fit ROUND1 ROUND2 -o MODEL"

    def first(self, guarantee: Guarantee, domain: Domain, **given: Any) -> Mechanism:
        if len(domain.private) < 2:
            raise SchemaError(
                "ranges asks about two columns at once, and this schema has one",
                hint="use square-wave, without rounds",
            )
        return mechanism_class("square-wave").promising(guarantee, domain, **given)

    def following(self, series: SeriesSoFar, people: float, wanted: int) -> Mechanism:
        """Cells of about as many people each, as the first group's reports show them."""
        wave, private = series.mechanism, series.domain.private
        if wave.name != "square-wave":
            raise ParameterError(
                f"the first round of ranges is asked by square-wave, not by {wave.name}",
                hint="begin with sfumato perturb … --round 1 --mechanism ranges",
            )
        cells = cells_for(people, len(private), float(wave.gamma))
        found = [
            _cut(series, a, cells)
            if isinstance(a, Numeric)
            else (tuple(range(a.size)), a.size // 2)
            for a in private
        ]
        starts, upper = zip(*found, strict=True)
        weight = round(WAVES_LATER * ONE)
        made: Any = mechanism_class(self.asked_by)
        return made(series.domain, wave.gamma, wave.lengths, starts, upper, weight)

    def asks(self, mechanism: Any, number: int) -> str:
        if number == 1:
            return " about one number each"
        cells = mechanism.details["cells"].items()
        listed = ", ".join(f"{name} {size}" for name, size in cells)
        return f", mostly about two numbers at once; cells: {listed}"


def cells_for(people: float, columns: int, gamma: float) -> int:
    """How many cells of each number suit so many people and columns: even, and growing with the
    fourth root of what they tell of a pair.

    >>> cells_for(29_000, 6, 2.718), cells_for(29_000, 6, 19), cells_for(1_000_000, 4, 19)
    (4, 6, 20)
    """
    pairs = columns * (columns - 1) / 2
    told = people / pairs * most_information(gamma)
    return int(np.clip(2 * round(told**0.25 / 3), 2, 32))


def _cut(series: SeriesSoFar, number: Numeric, wanted: int) -> tuple[tuple[int, ...], int]:
    """The codes at which about equally many people begin a cell, and the first cell above the
    middle.
    """
    values = values_of(number)
    edges = np.ceil((np.arange(1, values) - 0.5) * (number.size - 1) / (values - 1))
    codes = edges.astype(np.int64)
    cuts = [float(cut) for cut in number.numbers(codes)]
    shares = np.maximum(series.marginal([number.cells_by_cuts(cuts)]).value, 0.0)
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
