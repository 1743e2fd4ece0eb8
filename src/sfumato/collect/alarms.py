"""Alarms: what no crowd of honest people sends, and how much forgery would have been noticed.

One idea: whatever the records are, an honest report is counted at an entry of a tally with a chance
between two bounds that follow from the channel. A bet against that which never gains on average
multiplies its stake by 1/α with a chance of at most α, however often it is looked at (Ville 1939;
e-values, Shafer 2021). So the rate of false alarms holds for all looks together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.collect.tally import CampaignTally

RATE = 0.01  # of honest campaigns in which any alarm ever sounds, at most
KINDS = ("repeat", "impossible", "day")
POWER = 0.95  # chance of noticing the share of forged reports that is stated
SHIFTS = 2.0 ** np.arange(-10, 6, 0.5)  # of log-odds: what forgers may do, each bet on alike
HARDEST = 4  # entries of a tally among which the one that hides most is looked for
MOST_LOOKED_AT = 1 << 12  # whole reports that came most often
Counts = Mapping[Any, NDArray[Any]]


@dataclass(frozen=True)
class Alarm:
    """Something that honest answers do not explain."""

    kind: str
    columns: list[str]
    message: str


@dataclass(frozen=True)
class Watch:
    """What is looked for: in how many honest campaigns it sounds at most, and the smallest share of
    all reports (of today's, for a day) that is noticed with 95 %, forged as hides them best; None
    where no share is.
    """

    kind: str
    rate: float
    notices: float | None


@dataclass(frozen=True, eq=False)
class Look:
    """One kind of alarm as things stand: the logarithms of the stake on each entry and of what it
    was multiplied by so far, how to say what was found, and the share that would be noticed.
    """

    kind: str
    stakes: NDArray[Any]
    gains: NDArray[Any]
    columns: Callable[[int], Sequence[str]]
    message: Callable[[int], str]
    notices: Callable[[], float | None]

    def alarms(self) -> list[Alarm]:
        """The alarm, if it sounds."""
        won = self.stakes + self.gains
        if not won.size or np.logaddexp.reduce(won) < _WON:
            return []
        place = int(won.argmax())
        return [Alarm(self.kind, list(self.columns(place)), self.message(place))]

    def watch(self) -> Watch:
        """What is looked for, and what would have been noticed by now."""
        return Watch(self.kind, RATE / len(KINDS), self.notices())


_WON = math.log(len(KINDS) / RATE)


def looks(tally: CampaignTally, rows: int, counts: Counts) -> list[Look]:
    """Everything that is looked at."""
    if not rows:
        return []
    found = [_repeats(tally, rows)]
    if tally.watched:
        now = _entries(tally, counts)
        found += [_impossible(tally, rows, now), _day(tally, rows, now)]
    return [look for look in found if look is not None]


def _entries(tally: CampaignTally, counts: Counts) -> NDArray[Any]:
    return np.concatenate([each.counts(counts) for each in tally.watched])


def log_gain(counts: Any, people: Any, chance: Any) -> NDArray[Any]:
    """The logarithm of what a bet gains that an entry is counted oftener than with this chance,
    mixed over shifts δ of its log-odds: e^(δ·count) / (1 + chance·(e^δ − 1))^people. No honest
    report raises it on average, for its own chance is not above.

    >>> log_gain([4, 40], 100, 0.04).round(1).tolist()
    [-0.5, 60.4]
    """
    count, chance = np.broadcast_arrays(*map(np.asarray, (counts, chance)))
    bets = count[..., None] * SHIFTS - people * np.log1p(chance[..., None] * np.expm1(SHIFTS))
    return np.asarray(np.logaddexp.reduce(bets, axis=-1) - math.log(len(SHIFTS)))


def log_change(old: Any, before: float, new: Any, today: float) -> NDArray[Any]:
    """The logarithm of how many times likelier counts of two days are under a chance for each,
    Jeffreys' prior on both, than under any one chance (universal inference, Wasserman et al. 2020).
    """
    from scipy.special import betaln, xlogy

    apart = sum(
        betaln(count + 0.5, people - count + 0.5) - betaln(0.5, 0.5)
        for count, people in ((np.asarray(old), before), (np.asarray(new), today))
    )
    both, people = np.asarray(old) + new, before + today
    return np.asarray(apart - xlogy(both, both / people) - xlogy(people - both, 1 - both / people))


# Each kind of look.


def _repeats(tally: CampaignTally, rows: int) -> Look | None:
    """Whole reports that came again and again, each against its highest chance under any record;
    stakes are in proportion to that.
    """
    likeliest = tally.likeliest
    if likeliest is None:
        return None
    bodies, often = tally.repeated(MOST_LOOKED_AT)
    chances, total = tally.most_likely(b"".join(bodies))
    stakes = np.log(np.maximum(chances, 1e-300)) - math.log(total)

    def notices() -> float | None:
        hardest = max(likeliest, float(chances.max(initial=0.0)))
        need = _WON - math.log(hardest) + math.log(total)
        usual = float(often[chances.argmax()]) if hardest > likeliest else 0.0
        return _share(_least_count(rows, hardest, need), usual, rows)

    return Look(
        "repeat",
        stakes,
        log_gain(often, rows, chances),
        lambda place: (),
        lambda place: f"one and the same report came {int(often[place]):,} times at least",
        notices,
    )


def _impossible(tally: CampaignTally, rows: int, often: NDArray[Any]) -> Look:
    """Entries counted more often than any crowd's answers give, or more rarely."""
    watched = tally.watched
    low = np.concatenate([each.low for each in watched])
    high = np.concatenate([each.high for each in watched])
    names = [name for each in watched for name in each.names]
    stakes = np.full(2 * len(often), -math.log(2 * len(often)))
    gains = np.full(2 * len(often), -math.inf)  # nothing is lost but what is not looked at
    above, below = np.flatnonzero(often > rows * high), np.flatnonzero(often < rows * low)
    gains[above] = log_gain(often[above], rows, high[above])
    gains[len(often) + below] = log_gain(rows - often[below], rows, 1 - low[below])

    def noticed(place: int) -> float:
        least = _least_count(rows, high[place], _WON - stakes[0])
        return _share(least, often[place], rows) or 1.0

    def notices() -> float | None:
        shares, start = [], 0
        for each in watched:
            width = each.within.shape[1]
            gaps = np.where(high < 1, high - often / rows, -1)[start : start + width]
            for entry in np.argsort(gaps)[-HARDEST:]:
                if gaps[entry] == -1:  # of which nothing is known
                    continue
                places = [start + entry, *(start + each.within[:, entry])]
                shares.append(min(map(noticed, places)))
            start += len(each.high)
        hardest = max(shares, default=1.0)
        return hardest if hardest < 1 else None

    return Look(
        "impossible",
        stakes,
        gains,
        lambda place: names[place % len(often)],
        lambda place: (
            f"an answer was reported {int(often[place % len(often)]):,} times, "
            f"more {'rarely' if place >= len(often) else 'often'} than any crowd's answers give"
        ),
        notices,
    )


def _day(tally: CampaignTally, rows: int, now: NDArray[Any]) -> Look | None:
    """Today's counts against those before; of the rate, day d takes the part 1/d(d+1)."""
    earlier, before = tally.before
    today = rows - earlier
    if min(earlier, today) <= 0:
        return None
    old = _entries(tally, before)
    new = np.clip(now - old, 0, today)  # reports of earlier days may have been withdrawn
    names = [name for each in tally.watched for name in each.names]
    stakes = np.full(len(old), -math.log(len(old) * tally.days * (tally.days + 1)))

    def notices() -> float | None:
        share = (old + new) / rows
        hardest = int((share * (1 - share)).argmax())

        def noticed(forged: int) -> bool:
            usual = share[hardest] * (today - forged)
            count = max(forged + usual - _SURE * math.sqrt(usual * (1 - share[hardest])), 0)
            gain = log_change(old[hardest], earlier, count, today)
            return count / today > share[hardest] and bool(gain + stakes[0] >= _WON)

        found = _least(noticed, 1, today)
        return None if found is None else found / today

    return Look(
        "day",
        stakes,
        log_change(old, earlier, new, today),
        lambda place: names[place],
        lambda place: "today's reports are spread otherwise than those before",
        notices,
    )


# What would have been noticed.

_SURE = NormalDist().inv_cdf(POWER)


def _least_count(rows: int, chance: float, need: float) -> int | None:
    """The least count at which a bet against this chance has won."""
    start = math.ceil(rows * chance)
    return _least(lambda count: bool(log_gain(count, rows, chance) >= need), start, rows)


def _share(count: int | None, usual: float, rows: int) -> float | None:
    """The share of forged reports that bring an entry to this count with 95 %."""
    if count is None:
        return None
    share = usual / rows
    wanted = (count - usual + _SURE * math.sqrt(usual * (1 - share))) / rows
    return float(wanted / (1 - share)) if 0 < wanted < 1 - share else None


def _least(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The least number from low to high for which it holds, as for all above it."""
    if low > high or not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
