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

from sfumato.audit.baskets import held
from sfumato.audit.observed import ratio_view
from sfumato.audit.paired import Paired, judged_cells, reports_baskets
from sfumato.bits import Bits
from sfumato.domain import Columns, Domain, Items
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import as_baskets, reported_items
from sfumato.printable import json_number
from sfumato.privacy.guarantee import Guarantee, rounded_up
from sfumato.randomness import Keystream

DRAWS = 100_000  # of each chosen record
CHOSEN = 4  # records far from each other that are perturbed again and again
NEIGHBOURS = 16  # records beside them that differ from the first in one column
FEW_RECORDS = 2048  # possible records up to which whole reports are looked at
FEW_ITEMS = 10  # differing items up to which their patterns are looked at
FAR_ITEMS = 64  # items of the basket that is far from the empty one
MOST_BITS = 1 << 26  # bits of reports drawn for one record

Codes = NDArray[np.intp]
View = tuple[
    str, Codes, Codes, int
]  # what is looked at, its codes under either record, and how many codes there are


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

    @property
    def violated(self) -> bool:
        """Whether even the lower bound is above the promise."""
        return self.lower_bound > rounded_up(self.promised.gamma)

    def to_dict(self) -> dict[str, Any]:
        return {
            "promised": json_number(rounded_up(self.promised.gamma)),
            "estimate": json_number(self.estimate),
            "lower_bound": self.lower_bound,
            "false_alarm": self.false_alarm,
            "draws": self.draws,
            "event": self.event,
            "violated": self.violated,
        }


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
    draws = min(
        draws, max(2000, MOST_BITS // max(1, sum(_width(a) for a in mechanism.private_reports)))
    )
    records = chosen_records(paired, rng)
    reports = []
    for place, record in enumerate(records):
        reports.append(_drawn(mechanism, record, draws, rng))
        if progress:
            progress((place + 1) / len(records))
    events = [
        view
        for first, second in _pairs(len(records), paired)
        for view in _views(
            mechanism, records[first], records[second], reports[first], reports[second]
        )
    ]
    return _surest(mechanism.guarantee, events, false_alarm, draws) if events else None


def _surest(
    guarantee: Guarantee, events: Sequence[View], false_alarm: float, draws: int
) -> Amplification:
    level = false_alarm / (2 * max(1, len(events)))
    best, estimate, event = 1.0, 1.0, ""
    for name, first, second, size in events:
        low, seen = _ratio_bound(first, second, size, level)
        if low > best:
            best, estimate, event = low, seen, name
    return Amplification(guarantee, estimate, best, false_alarm, draws, event)


def _ratio_bound(first: Codes, second: Codes, size: int, level: float) -> tuple[float, float]:
    """A lower bound of P(event | first) / P(event | second), and the ratio seen, for the event
    chosen on half the draws.
    """
    half = len(first) // 2
    chosen = _event(
        np.bincount(first[:half], minlength=size), np.bincount(second[:half], minlength=size)
    )
    here, there = int(chosen[first[half:]].sum()), int(chosen[second[half:]].sum())
    trials = len(first) - half
    low = _lower(here, trials, level) / _upper(there, trials, level)
    return low, (here / there if there else math.inf if here else 1.0)


def _event(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.bool_]:
    """The codes, taken from the most telling on, whose ratio is surest to be large."""
    order = np.argsort(-(first + 0.5) / (second + 0.5), kind="stable")
    here, there = np.cumsum(first[order]) + 0.5, np.cumsum(second[order]) + 0.5
    sure = np.log(here / there) - 3 * np.sqrt(1 / here + 1 / there)
    chosen = np.zeros(len(first), dtype=bool)
    chosen[order[: int(np.argmax(sure)) + 1]] = True
    return chosen


def _lower(count: int, trials: int, level: float) -> float:
    """The Clopper–Pearson lower bound of a probability."""
    from scipy.special import betaincinv

    return float(betaincinv(count, trials - count + 1, level)) if count else 0.0


def _upper(count: int, trials: int, level: float) -> float:
    """The Clopper–Pearson upper bound of a probability."""
    from scipy.special import betaincinv

    return float(betaincinv(count + 1, trials - count, 1 - level)) if count < trials else 1.0


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
    return [
        base,
        far,
        *some,
        *(_neighbour(base, far, place) for place in picked),
        *_most_telling(paired, base),
    ]


def _most_telling(paired: Paired, base: Columns) -> list[Columns]:
    """The two records that one report tells apart best by the channel itself, where that can be
    written down.
    """
    private = paired.private
    if (
        not paired.in_place
        or private.cells > FEW_RECORDS
        or any(a.item is not None for a in private.axes)
    ):
        return []
    rows = paired.channel_over(list(range(len(private)))).to_dense()
    rows = rows[rows.max(axis=1) > 0]
    report = int(np.argmax(rows.max(axis=1) / np.maximum(rows.min(axis=1), 1e-300)))
    pair = [
        np.unravel_index(int(cell), private.shape)
        for cell in (rows[report].argmax(), rows[report].argmin())
    ]
    return [_with_private(paired.mechanism.domain, base, codes) for codes in pair]


def _with_private(domain: Domain, base: Columns, codes: Sequence[Any]) -> Columns:
    given = iter(codes)
    return tuple(
        column if a.public else np.array([int(next(given))])
        for a, column in zip(domain, base, strict=True)
    )


def _record(domain: Domain, *, far: bool = False) -> Columns:
    """The first value of every column and an empty basket, or the last and a full one."""
    return tuple(
        Bits.from_dense(np.arange(a.size)[None, :] < far * FAR_ITEMS)
        if isinstance(a, Items)
        else np.array([far * (a.size - 1)])
        for a in domain
    )


def _neighbour(base: Columns, far: Columns, place: int) -> Columns:
    return tuple(far[place] if number == place else column for number, column in enumerate(base))


def _drawn(mechanism: Mechanism, record: Columns, draws: int, rng: Keystream) -> Columns:
    again = np.zeros(draws, dtype=np.intp)
    return mechanism.perturb(tuple(column.take(again) for column in record), rng)


def _views(
    mechanism: Mechanism, first: Columns, second: Columns, left: Columns, right: Columns
) -> Iterator[View]:
    if reports_baskets(mechanism):
        yield from _basket_views(mechanism, first, second, left, right)
        return
    if mechanism.private_reports != mechanism.domain.private:
        yield from ratio_view(mechanism, first, second, left, right)
        return
    yield from _record_views(mechanism, first, second, left, right)


def _basket_views(
    mechanism: Mechanism, first: Columns, second: Columns, left: Columns, right: Columns
) -> Iterator[View]:
    """How many items of either record alone are reported, and how many items in all."""
    private = [place for place, attribute in enumerate(mechanism.domain) if not attribute.public]
    one, other = (
        as_baskets(tuple(record[place] for place in private), mechanism.domain.private).to_dense()[
            0
        ]
        for record in (first, second)
    )
    here, there = reported_items(mechanism, left), reported_items(mechanism, right)
    own, others = np.flatnonzero(one & ~other), np.flatnonzero(other & ~one)
    if len(own) + len(others):
        size = (len(own) + 1) * (len(others) + 1)
        codes = [held(bits, own) * (len(others) + 1) + held(bits, others) for bits in (here, there)]
        yield "how many items of either record are reported", codes[0], codes[1], size
    every = np.arange(here.items)
    differing = np.concatenate([own, others])
    if 1 < len(differing) <= FEW_ITEMS:
        patterns = [_patterns(bits, differing) for bits in (here, there)]
        yield (
            "which items of either record are reported",
            patterns[0],
            patterns[1],
            1 << len(differing),
        )
    yield "how many items are reported", held(here, every), held(there, every), here.items + 1


def _patterns(bits: Bits, items: NDArray[Any]) -> Codes:
    """Which of a few items each basket holds, as a number."""
    return sum(
        (bits.column(int(item)).astype(np.intp) << place for place, item in enumerate(items)),
        start=np.zeros(1, np.intp),
    )


def _record_views(
    mechanism: Mechanism, first: Columns, second: Columns, left: Columns, right: Columns
) -> Iterator[View]:
    """Each differing column on its own, and how many columns of the report agree with either
    record.
    """
    agree_left: list[list[NDArray[np.bool_]]] = []
    agree_right: list[list[NDArray[np.bool_]]] = []
    for place, attribute in enumerate(mechanism.domain):
        if attribute.public or isinstance(attribute, Items):
            continue
        one, other = (np.asarray(record[place]) for record in (first, second))
        if one[0] == other[0]:
            continue
        cells = judged_cells(attribute)
        codes = [
            np.asarray(cells.assign(np.asarray(part[place]))).astype(np.intp)
            for part in (left, right)
        ]
        yield f"what is reported of '{attribute.name}'", codes[0], codes[1], cells.size
        for part, agree in ((left, agree_left), (right, agree_right)):
            agree.append([np.asarray(part[place]) == own[0] for own in (one, other)])
    private = mechanism.domain.private
    if private.cells <= FEW_RECORDS and not any(axis.item is not None for axis in private.axes):
        joint = [_joint(mechanism, part) for part in (left, right)]
        yield "the whole report", joint[0], joint[1], private.cells
    if len(agree_left) > 1:
        size = (len(agree_left) + 1) ** 2
        codes = [_agreements(agree) for agree in (agree_left, agree_right)]
        yield "how many columns agree with either record", codes[0], codes[1], size


def _joint(mechanism: Mechanism, reports: Columns) -> Codes:
    pairs = zip(mechanism.domain, reports, strict=True)
    codes = tuple(
        np.asarray(column).astype(np.intp) for attribute, column in pairs if not attribute.public
    )
    return np.ravel_multi_index(codes, mechanism.domain.private.shape)


def _agreements(agree: list[list[NDArray[np.bool_]]]) -> Codes:
    one, other = (np.sum([pair[which] for pair in agree], axis=0) for which in (0, 1))
    return np.asarray(one * (len(agree) + 1) + other).astype(np.intp)


def _width(attribute: Any) -> int:
    return attribute.size if isinstance(attribute, Items) else 8
