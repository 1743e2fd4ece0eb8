"""Empirical gamma: chosen records perturbed many times, and the surest event that tells two of them
apart.

The event is chosen on one half of the draws and judged on the other, so only the number of judged
events needs correcting for. Its probabilities get exact (Clopper–Pearson) bounds; the lower bound
of their ratio is gamma at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.limits import CHOSEN, DRAWS, FEW_CELLS, FEW_RECORDS, MOST_BITS, NEIGHBOURS
from sfumato.audit.paired import Paired, judged_cells, reports_baskets
from sfumato.audit.reported_baskets import held
from sfumato.bits import Bits
from sfumato.domain import Attribute, Cells, Columns, Domain, Items, Numeric, as_bits
from sfumato.errors import Unanswerable
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import as_baskets, reported_items
from sfumato.printable import json_number
from sfumato.privacy.guarantee import Guarantee, rounded_up
from sfumato.randomness import Keystream
from sfumato.renderers.frames import json_fields

Codes = NDArray[np.intp]
Event = tuple[str, Codes, Codes]  # what is looked at, and its codes in the reports of either record


@dataclass(frozen=True)
class Amplification:
    """The promise, the largest ratio seen and a bound that the true gamma exceeds except with the
    stated probability.
    """

    promised: Guarantee
    estimate: float
    lower_bound: float
    false_alarm: float
    draws: int
    event: str
    also = ("violated",)

    @property
    def violated(self) -> bool:
        """Whether even the lower bound is above the promise."""
        return self.lower_bound > rounded_up(self.promised.gamma)

    def to_dict(self) -> dict[str, Any]:
        return json_fields(self) | {"promised": json_number(rounded_up(self.promised.gamma))}


def empirical_gamma(
    paired: Paired,
    rng: Keystream,
    *,
    false_alarm: float = 1e-3,
    draws: int = DRAWS,
    progress: Callable[[float], None] | None = None,
) -> Amplification | None:
    """The largest ratio of report probabilities between chosen records; None where no gamma is
    promised, or nothing tells such reports apart.
    """
    mechanism = paired.mechanism
    if mechanism.needs_all_rows or math.isinf(mechanism.guarantee.epsilon):
        return None
    widths = (a.size if isinstance(a, Items) else 8 for a in mechanism.private_reports)
    draws = min(draws, max(2000, MOST_BITS // max(1, sum(widths))))
    again = np.zeros(draws, dtype=np.intp)
    records, reports = chosen_records(paired, rng), []
    for place, record in enumerate(records):
        drawn = mechanism.perturb(tuple(column.take(again) for column in record), rng)
        reports.append(drawn)
        if progress:
            progress((place + 1) / len(records))
    events = [
        event
        for a, b in _pairs(len(records), paired)
        for event in Contrast(
            mechanism, (records[a], records[b]), (reports[a], reports[b])
        ).events()
    ]
    return _surest(mechanism.guarantee, events, false_alarm, draws) if events else None


def _surest(
    guarantee: Guarantee, events: Sequence[Event], false_alarm: float, draws: int
) -> Amplification:
    level = false_alarm / (2 * len(events))
    best, estimate, event = 1.0, 1.0, ""
    for name, first, second in events:
        low, seen = _ratio_bound(first, second, level)
        if low > best:
            best, estimate, event = low, seen, name
    return Amplification(guarantee, estimate, best, false_alarm, draws, event)


def _ratio_bound(first: Codes, second: Codes, level: float) -> tuple[float, float]:
    """A lower bound of P(event | first) / P(event | second), and the ratio seen, for the event
    chosen on half the draws; by the bounds of Clopper and Pearson.
    """
    from scipy.special import betaincinv

    half, size = len(first) // 2, int(max(first.max(), second.max())) + 1
    chosen = _event(*(np.bincount(codes[:half], minlength=size) for codes in (first, second)))
    here, there = (int(chosen[codes[half:]].sum()) for codes in (first, second))
    trials = len(first) - half
    low = float(betaincinv(here, trials - here + 1, level)) if here else 0.0
    high = float(betaincinv(there + 1, trials - there, 1 - level)) if there < trials else 1.0
    return low / high, (here / there if there else math.inf if here else 1.0)


def _event(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
    """The codes, taken from the most telling on, whose ratio is surest to be large."""
    order = np.argsort(-(first + 0.5) / (second + 0.5), kind="stable")
    here, there = np.cumsum(first[order]) + 0.5, np.cumsum(second[order]) + 0.5
    sure = np.log(here / there) - 3 * np.sqrt(1 / here + 1 / there)
    chosen = np.zeros(len(first), dtype=bool)
    chosen[order[: int(np.argmax(sure)) + 1]] = True
    return chosen


def _pairs(records: int, paired: Paired) -> list[tuple[int, int]]:
    """Which chosen records are told apart: the far ones from each other, the neighbours from the
    first, both ways.
    """
    neighbours = range(CHOSEN, CHOSEN + _neighbours(paired))
    far = [place for place in range(records) if place not in neighbours]
    return [
        *permutations(far, 2),
        *((0, place) for place in neighbours),
        *((place, 0) for place in neighbours),
    ]


def _neighbours(paired: Paired) -> int:
    return min(NEIGHBOURS, len(paired.private))


def chosen_records(paired: Paired, rng: Keystream) -> list[Columns]:
    """Records far from each other, then records that differ from the first in one column; each as
    columns of one row.
    """
    domain = paired.mechanism.domain
    base, far = _record(domain), _record(domain, far=True)
    some = [
        paired.truth.take(rng.below(paired.people, 1).astype(np.intp)).columns
        for _ in range(CHOSEN - 2)
    ]
    places = [place for place, attribute in enumerate(domain) if not attribute.public]
    picked = [places[int(number)] for number in rng.permutation(len(places))[: _neighbours(paired)]]
    beside = [(*base[:place], far[place], *base[place + 1 :]) for place in picked]
    return [base, far, *some, *beside, *_most_telling(paired, base)]


def _most_telling(paired: Paired, base: Columns) -> list[Columns]:
    """The two records that one report tells apart best by the channel itself, where that can be
    written down.
    """
    private = paired.private
    if not paired.in_place or private.cells > FEW_RECORDS or not paired.numbered:
        return []
    rows = paired.channel_over(range(len(private))).to_dense()
    rows = rows[rows.max(axis=1) > 0]
    report = int(np.argmax(rows.max(axis=1) / np.maximum(rows.min(axis=1), 1e-300)))
    found = []
    for cell in (rows[report].argmax(), rows[report].argmin()):
        codes = iter(np.unravel_index(int(cell), private.shape))
        pairs = zip(paired.mechanism.domain, base, strict=True)
        found.append(tuple(c if a.public else np.array([int(next(codes))]) for a, c in pairs))
    return found


def _record(domain: Domain, *, far: bool = False) -> Columns:
    """The first value of every column and an empty basket, or the last and a full one."""
    return tuple(
        Bits.from_dense(np.arange(a.size)[None, :] < far * FEW_CELLS)
        if isinstance(a, Items)
        else np.array([far * (a.size - 1)])
        for a in domain
    )


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two records, and many reports of each: what a report shows of which it is of."""

    mechanism: Mechanism
    records: tuple[Columns, Columns]
    reports: tuple[Columns, Columns]

    def events(self) -> Iterator[Event]:
        """What may be looked at, in the reports of either."""
        private = self.mechanism.domain.private
        if reports_baskets(self.mechanism):
            yield from self._of_baskets()
        elif self.mechanism.private_reports == private:
            yield from self._of_records()
        elif any(isinstance(a, Items) for a in private):
            yield from self._of_symbols()
        else:
            yield from self._of_ratios()

    def _private(self, columns: Columns) -> Columns:
        pairs = zip(self.mechanism.domain, columns, strict=True)
        return tuple(column for attribute, column in pairs if not attribute.public)

    def _of_baskets(self) -> Iterator[Event]:
        """How many items of either record alone are reported, and how many items in all."""
        private = self.mechanism.domain.private
        baskets = [as_baskets(self._private(record), private) for record in self.records]
        reports = [reported_items(self.mechanism, part) for part in self.reports]
        own, others = _differing(*baskets)
        differing = np.concatenate([own, others])
        if len(differing):
            yield _seen(
                "how many items of either record are reported",
                reports,
                lambda bits: _two_counts(held(bits, own), held(bits, others), len(others)),
            )
        if 1 < len(differing) <= 10:  # of which every pattern may be looked at
            yield _seen(
                "which items of either record are reported",
                reports,
                lambda bits: sum(
                    bits.column(int(item)).astype(np.intp) << place
                    for place, item in enumerate(differing)
                ),
            )
        every = np.arange(reports[0].items)
        yield _seen("how many items are reported", reports, lambda bits: held(bits, every))

    def _of_records(self) -> Iterator[Event]:
        """Each differing column on its own, whole reports where few are possible, and how many
        columns of the report agree with either record.
        """
        domain, differing = self.mechanism.domain, []
        for place, attribute in enumerate(domain):
            if attribute.public or isinstance(attribute, Items):
                continue
            one, other = (np.asarray(record[place])[0] for record in self.records)
            if one == other:
                continue
            differing.append(place)
            cells = judged_cells(attribute)
            parts = [np.asarray(part[place]) for part in self.reports]
            yield _seen(f"what is reported of '{attribute.name}'", parts, cells.assign)
        yield from self._whole()
        if len(differing) > 1:
            agree = [
                [
                    np.sum(
                        [np.asarray(part[p]) == np.asarray(own[p])[0] for p in differing], axis=0
                    )
                    for own in self.records
                ]
                for part in self.reports
            ]
            name, most = "how many columns agree with either record", len(differing)
            yield _seen(name, agree, lambda pair: _two_counts(pair[0], pair[1], most))

    def _whole(self) -> Iterator[Event]:
        """The report itself, where few are possible."""
        reports = self.mechanism.reports
        own = [place for place, attribute in enumerate(reports) if not attribute.public]
        shape = tuple(reports.attributes[place].size for place in own)
        baskets = any(isinstance(reports.attributes[place], Items) for place in own)
        if math.prod(shape) <= FEW_RECORDS and not baskets:
            parts = [[np.asarray(part[p]).astype(np.intp) for p in own] for part in self.reports]
            name = "the whole report"
            yield _seen(name, parts, lambda part: np.ravel_multi_index(tuple(part), shape))

    def _of_ratios(self) -> Iterator[Event]:
        """What tells two records apart best: how much likelier a report is under one than the
        other.
        """
        codes = [
            np.array([int(np.asarray(code)[0]) for code in pair])
            for pair in zip(*map(self._private, self.records), strict=True)
        ]
        private = self.mechanism.domain.private
        cells = [_told_apart(each, pair) for each, pair in zip(private, codes, strict=True)]
        within = [
            (part.assign(pair)[:, None] == np.arange(part.size)).astype(np.float64)
            for part, pair in zip(cells, codes, strict=True)
        ]
        try:
            logs = [self.mechanism.likelihood(part, cells, within) for part in self.reports]
        except Unanswerable:
            return
        ratios = [np.round(each[:, 0] - each[:, 1], 6) for each in logs]
        steps = np.unique(np.concatenate(ratios))
        if len(steps) > 64:
            steps = np.quantile(steps, np.linspace(0, 1, 64))
        first, second = (np.searchsorted(steps, r).clip(0, len(steps) - 1) for r in ratios)
        yield "how much likelier the report is under either record", first, second

    def _of_symbols(self) -> Iterator[Event]:
        """What tells two baskets apart that are reported as something else: the report itself where
        few are possible, else how many of the items of either basket alone it speaks for.
        """
        mechanism = self.mechanism
        yield from self._whole()
        for place, attribute in enumerate(mechanism.domain):
            if attribute.public or not isinstance(attribute, Items):
                continue
            baskets = [as_bits(record[place]) for record in self.records]
            own, others = (items[:16] for items in _differing(*baskets))
            first, second = (
                _two_counts(
                    _spoken_for(mechanism, part, attribute, own),
                    _spoken_for(mechanism, part, attribute, others),
                    len(others),
                )
                for part in self.reports
            )
            yield "how many items of either basket the report speaks for", first, second


def _seen(name: str, parts: Sequence[Any], codes: Callable[[Any], Any]) -> Event:
    """What the reports of either record show, coded the same way."""
    first, second = (np.asarray(codes(part)).astype(np.intp) for part in parts)
    return name, first, second


def _differing(first: Bits, second: Bits) -> tuple[Codes, Codes]:
    """The items of the one basket alone, and of the other."""
    one, other = first.to_dense()[0], second.to_dense()[0]
    return np.flatnonzero(one & ~other), np.flatnonzero(other & ~one)


def _two_counts(first: Codes, second: Codes, most: int) -> Codes:
    """Two counts as one number, the second at most so large."""
    return first * (most + 1) + second


def _spoken_for(mechanism: Mechanism, reports: Columns, attribute: Items, items: Codes) -> Codes:
    """How many of these items each report makes likelier."""
    found = np.zeros(len(np.asarray(reports[0])), dtype=np.intp)
    for item in items.tolist():
        try:
            logs = mechanism.likelihood(reports, [attribute.item_cells(attribute.labels[item])])
        except Unanswerable:
            continue
        found += logs[:, 1] > logs[:, 0]
    return found


def _told_apart(attribute: Attribute, codes: NDArray[np.int64]) -> Cells:
    """Every value a cell of its own; of a number with very many only these."""
    if not isinstance(attribute, Numeric) or attribute.size <= FEW_RECORDS:
        return attribute.cells()
    starts = np.unique([0, *codes, *(codes + 1)])
    starts = starts[starts < attribute.size]
    places = np.arange(len(starts))
    return Cells(attribute, tuple(map(str, places)), places, starts)
