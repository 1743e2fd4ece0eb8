"""Quantiles of a number in groups of records: the cells around them are cut finer and finer until
each holds one value, or until what is left of its width is small beside the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Numeric
from sfumato.estimation.answer import Answer
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.uneven import LEVELS, REACHES, UnevenAnswer

Codes = NDArray[np.int64]

FIRST_CELLS = 256  # cells into which the whole range is cut at first
FEWEST_PARTS, MOST_PARTS = 4, 64  # into which a cell is cut further
WORK = 1 << 25  # weights that one round of cutting may look at, roughly a third of a second
BATCH = 1 << 21  # weights that are held at once
KNOWN = 1e-4  # records: a count with less error than this has none
FINE_ENOUGH = 1 / 128  # of the width of the interval: what may be left of a cell


@dataclass(frozen=True)
class Wanted:
    """Which quantile: PERCENTILE_CONT stands between two records where its rank does,
    PERCENTILE_DISC is the value of one.
    """

    share: float
    continuous: bool = True
    descending: bool = False

    def ranks(self, records: int) -> tuple[int, int, float]:
        """The two records, counted from the lowest and from 1, between which it stands, and how
        far.
        """
        if self.continuous:
            place = (records - 1) * self.share
            first, second = math.floor(place) + 1, math.ceil(place) + 1
        else:
            place = math.floor(max(1, records - math.floor(records - self.share * records)) - 1)
            first = second = place + 1
        if self.descending:
            first, second = records + 1 - first, records + 1 - second
        return first, second, place - math.floor(place)

    @property
    def below(self) -> float:
        """The share of the records that lies below it."""
        return 1 - self.share if self.descending else self.share


@dataclass(frozen=True, eq=False)
class NumberCounts:
    """The estimated counts of some cells of a number (one axis of the estimate; `owner` says in
    which of the cells that were asked for each of them lies), and the weights that make up each
    group.
    """

    estimate: Estimate
    axis: int
    owner: NDArray[np.intp]
    groups: Sequence[NDArray[Any]]


# The counts over the cells that begin at these codes, for some of the groups by their numbers.
Count = Callable[[Codes, Sequence[int]], NumberCounts]


@dataclass(frozen=True, eq=False)
class Curve:
    """How many records of a group lie up to the end of each cell, and how far that is from a share
    of the group.
    """

    counted: NumberCounts
    weights: NDArray[Any]  # of the group, in the shape of the estimate
    share: float
    starts: Codes
    size: int  # the codes of the number

    @cached_property
    def upto(self) -> NDArray[Any]:  # (cells,)
        """The estimated records up to the end of each cell."""
        table = np.moveaxis(self.weights * self.counted.estimate.value, self.counted.axis, 0)
        along = table.reshape(table.shape[0], -1).sum(axis=1)
        cells = np.bincount(self.counted.owner, weights=along, minlength=len(self.starts))
        return np.cumsum(cells)

    @property
    def total(self) -> float:
        """The estimated records of the group."""
        return float(self.upto[-1])

    @cached_property
    def span(self) -> Span:
        """The codes of the cells that the group counts at all: a quantile lies among them."""
        sides = tuple(axis for axis in range(self.weights.ndim) if axis != self.counted.axis)
        counted = np.broadcast_to(self.weights, self.counted.estimate.value.shape)
        cells = self.counted.owner[(counted != 0).any(axis=sides)]
        if not len(cells):
            return Span(0, self.size - 1)
        return self.codes(int(cells.min()), int(cells.max()))

    def codes(self, first: int, last: int) -> Span:
        """The codes of the cells first..last."""
        end = self.size if last + 1 == len(self.starts) else int(self.starts[last + 1])
        return Span(int(self.starts[first]), end - 1)

    @cached_property
    def excess(self) -> NDArray[Any]:  # (cells,)
        """The estimated records up to the end of each cell, less the share."""
        return self.upto - self.share * self.total

    @cached_property
    def _known_errors(self) -> NDArray[Any]:  # (cells,)
        return np.full(len(self.starts), np.nan)  # filled where someone asks

    @property
    def exact(self) -> bool:
        """Whether the group is known without error, cell by cell."""
        if self.counted.estimate.evidence.exact:
            return True
        return bool(self.errors(0, len(self.starts) - 1).max() <= KNOWN + 1e-9 * abs(self.total))

    def errors(self, first: int, last: int) -> NDArray[Any]:
        """The standard error of the excess in the cells first..last."""
        known, batch = self._known_errors, max(1, BATCH // self.weights.size)
        unknown = first + np.flatnonzero(np.isnan(known[first : last + 1]))
        for at in range(0, len(unknown), batch):
            cells = unknown[at : at + batch]
            known[cells] = self._errors(cells)
        return known[first : last + 1]

    def _errors(self, cells: NDArray[np.intp]) -> NDArray[Any]:
        inside = self.counted.owner[:, None] <= cells
        shape = [1] * self.weights.ndim + [len(cells)]
        shape[self.counted.axis] = len(inside)
        weights = self.weights[..., None] * (inside - self.share).reshape(shape)
        return np.sqrt(np.maximum(self.counted.estimate.variances(weights), 0.0))


@dataclass(frozen=True)
class Span:
    """A run of codes, both ends included."""

    first: int
    last: int

    @property
    def width(self) -> int:
        return self.last - self.first + 1

    def within(self, other: Span) -> Span:
        """The codes of both; the nearest of the other where there are none."""
        first, last = (min(max(end, other.first), other.last) for end in (self.first, self.last))
        return Span(first, last)


@dataclass(frozen=True)
class Target:
    """A place in a distribution that is looked for: the value of a record by its rank, or where the
    distribution reaches the share, an error of `reach` standard errors allowed for.

    Where the distribution is known with errors s(x), x is a plausible quantile unless the excess
    up to x lies below -z·s(x), or that below x above z·s(x): each is a test of the right level
    whatever the density (Woodruff 1952), so the values from the one where excess + z·s turns
    positive to the one where excess - z·s does cover the truth at that level. A noisy curve turns
    more than once; it is made to rise first.
    """

    rank: int | None = None
    reach: float = 0.0

    def cell(self, curve: Curve, first: int, last: int) -> int:
        """Which of the cells first..last holds it."""
        run = slice(first, last + 1)
        if self.rank is not None:
            before = curve.upto[run] < self.rank - 0.5
        elif self.reach == 0:
            before = _rising(curve.excess[run]) < 0
        else:
            before = _rising(curve.excess[run] + self.reach * curve.errors(first, last)) < 0
        return min(first + int(np.count_nonzero(before)), last)


MIDDLE = Target()
NOISY = (MIDDLE, *(Target(reach=sign * reach) for reach in REACHES for sign in (1, -1)))
LOWEST, HIGHEST = (Target(reach=sign * REACHES[LEVELS.index(0.95)]) for sign in (1, -1))


@dataclass(frozen=True)
class Search:
    """What is looked for in one group, and the run of codes in which each is known to lie."""

    spans: dict[Target, Span]
    records: int | None = None  # where the group is known without error

    @property
    def open(self) -> list[Span]:
        """The runs that must be cut further."""
        return [span for span in self.spans.values() if span.width > self._enough]

    @property
    def _enough(self) -> float:
        if self.records is not None:
            return 1
        return max(1, FINE_ENOUGH * (self.spans[HIGHEST].last - self.spans[LOWEST].first + 1))

    def narrowed(self, curve: Curve) -> Search:
        """The same search after another count."""
        spans = {
            target: _narrowed(target, span, curve).within(curve.span)
            for target, span in self.spans.items()
        }
        return Search(spans, self.records)


def quantiles(
    attribute: Numeric, wanted: Wanted, groups: int, others: int, count: Count
) -> list[Answer]:
    """The quantile of a number in each of a few groups; `others` is how many cells the other
    columns of the question have.
    """
    size = attribute.size
    cells = int(np.clip(math.sqrt(WORK / (max(groups, 1) * others)), 8, FIRST_CELLS))
    starts = _cut([Span(0, size - 1)], cells, size)
    counted = count(starts, range(groups))
    searches = [
        _begun(Curve(counted, weights, wanted.below, starts, size), wanted)
        for weights in counted.groups
    ]
    while waiting := [place for place, search in enumerate(searches) if search.open]:
        chosen, starts = _next_cuts(searches, waiting, others, size)
        counted = count(starts, chosen)
        for place, weights in zip(chosen, counted.groups, strict=True):
            curve = Curve(counted, weights, wanted.below, starts, size)
            searches[place] = searches[place].narrowed(curve)
    assumes = counted.estimate.evidence.assumes
    return [replace(_answer(attribute, wanted, each), assumes=assumes) for each in searches]


def _begun(curve: Curve, wanted: Wanted) -> Search:
    """What to look for, once a group has been counted for the first time."""
    everywhere = Span(0, curve.size - 1)
    if not curve.exact and curve.total <= 0:
        return Search({}, 0)  # as far as is known nobody is there, and nobody has no quantile
    if not curve.exact:
        return Search(dict.fromkeys(NOISY, everywhere)).narrowed(curve)
    records = round(curve.total)
    if records < 1:
        return Search({}, 0)
    ranks = wanted.ranks(records)[:2]
    targets = [Target(rank=rank) for rank in ranks]
    return Search(dict.fromkeys(targets, everywhere), records).narrowed(curve)


def _narrowed(target: Target, span: Span, curve: Curve) -> Span:
    first, last = (
        int(np.searchsorted(curve.starts, code, side="right")) - 1
        for code in (span.first, span.last)
    )
    if first == last:
        return span
    cell = target.cell(curve, first, last)
    return curve.codes(cell, cell)


def _next_cuts(
    searches: Sequence[Search], waiting: Sequence[int], others: int, size: int
) -> tuple[list[int], Codes]:
    """As many groups as one round can look at, and the codes at which their cells begin."""
    most = max(1, int(math.sqrt(WORK / others) / FEWEST_PARTS))
    chosen: list[int] = []
    spans: dict[Span, None] = {}
    for place in waiting:
        more = spans | dict.fromkeys(searches[place].open)
        if chosen and len(more) > most:
            break
        chosen, spans = [*chosen, place], more
    parts = int(np.clip(math.sqrt(WORK / others) / len(spans), FEWEST_PARTS, MOST_PARTS))
    return chosen, _cut(list(spans), parts, size)


def _cut(spans: Sequence[Span], parts: int, size: int) -> Codes:
    """The codes at which cells begin, where each span is cut into so many parts and what lies
    between spans stays whole.
    """
    starts = [np.zeros(1, dtype=np.int64)]
    for span in spans:
        steps = np.arange(min(parts, span.width) + 1)
        starts.append(span.first + steps * span.width // (len(steps) - 1))
    found = np.unique(np.concatenate(starts))
    return found[found < size]


def _rising(values: NDArray[Any]) -> NDArray[Any]:
    """The values made to rise: the mean of the largest so far and of the smallest still to come."""
    return (np.maximum.accumulate(values) + np.minimum.accumulate(values[::-1])[::-1]) / 2


def _between(low: float, high: float, part: float) -> float:
    """low·(1 - part) + high·part, rounded twice as a fused multiply-add rounds it: DuckDB's figure
    to the last digit.
    """
    return float(Fraction(low) * Fraction(1 - part) + Fraction(high * part))


def _answer(attribute: Numeric, wanted: Wanted, search: Search) -> Answer:
    if search.records == 0:
        return Answer(math.nan, math.nan)

    def number(code: int) -> float:
        return float(attribute.numbers(np.array([code]))[0])

    if search.records is not None:
        first, second, part = wanted.ranks(search.records)
        low, high = (number(search.spans[Target(rank=rank)].first) for rank in (first, second))
        return Answer(low if low == high else _between(low, high, part), 0.0)
    spans = search.spans
    lows = [spans[Target(reach=reach)].first for reach in REACHES]
    highs = [spans[Target(reach=-reach)].last for reach in REACHES]
    half = attribute.grid_step / 2  # a value stands for the step around it
    ends = [
        (number(low) - half, number(high) + half) for low, high in zip(lows, highs, strict=True)
    ]
    middle = (spans[MIDDLE].first + spans[MIDDLE].last) // 2
    inside = min(max(middle, spans[LOWEST].first), spans[HIGHEST].last)
    return UnevenAnswer.between(number(inside), ends, (attribute.min, number(attribute.size - 1)))
