"""Which swaps can be had: whether totals, number of changes and a limit on guessing hold together,
and what would do where they do not.

Let n_kr unique records truly hold k and be shown as r, M_r = Σ_k n_kr. One who knows the method
and every count guesses k for a person shown r with probability n_kr / M_r. The limit c asks

    n_kr − c·M_r ≤ 0        for every true k and shown r

which is linear in the counts. Where several confidential columns are swapped as one, it is asked
of the combined value and of each column on its own.

Only counts matter here, not who goes: units with the same true value are interchangeable. So the
question is a small integer programme over the flows, whatever the number of records.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError, ParameterError, PrivacyError
from sfumato.publish.integer import least, sparse
from sfumato.publish.limits import FLOW_SECONDS, MOST_FLOW_VALUES, REFUSAL_SECONDS


class CapRow(NamedTuple):
    """One limit: of the records shown as `shown` in this view, those that truly hold `true`."""

    view: int
    true: int
    shown: int


@dataclass(frozen=True, eq=False)
class PosteriorCap:
    """No shown value lets more than a share `limit` of its unique records be guessed.

    A view maps every value to its number in one column; `exempt` says which numbers of each view
    are held by too few for a rate to be known, and so are not limited.
    """

    limit: float
    views: tuple[NDArray[np.intp], ...]  # each (values,)
    exempt: tuple[NDArray[np.bool_], ...]  # each (numbers of the view,)

    def __post_init__(self) -> None:
        if not 0 < self.limit <= 1:
            raise ParameterError(
                f"max_posterior={self.limit:g} lies outside (0, 1]", hint="use for instance 0.9"
            )

    @classmethod
    def of(
        cls,
        limit: float,
        views: Sequence[NDArray[np.intp]],
        holders: NDArray[np.int64],  # unique records with each value
        fewest: int = 0,
    ) -> PosteriorCap:
        """The limit on every view, leaving out what fewer than `fewest` unique records hold."""
        held = [np.bincount(view, weights=holders) for view in views]
        return cls(limit, tuple(views), tuple(count < fewest for count in held))

    @property
    def values(self) -> int:
        """The number of values."""
        return len(self.views[0])

    def broken(self, flows: NDArray[np.integer]) -> list[CapRow]:
        """The limits that so many records from each value (row) to each shown value break."""
        rows: list[CapRow] = []
        for number, view in enumerate(self.views):
            counts = projected(flows, view)
            over = counts > self.limit * counts.sum(axis=0) + 1e-6  # rounding of c·M_r
            over[:, self.exempt[number]] = False
            rows.extend(CapRow(number, int(k), int(r)) for k, r in np.argwhere(over))
        return rows

    def coefficients(self, row: CapRow) -> NDArray[np.float64]:  # (values, values): true, shown
        """What one record from a value to a shown value adds to n_kr − c·M_r."""
        view = self.views[row.view]
        share = (view == row.true) - self.limit
        return np.where((view == row.shown)[None, :], share[:, None], 0.0)

    def stacked(self, rows: Sequence[CapRow]) -> NDArray[np.float64]:  # (rows, values, values)
        """The coefficients of several limits."""
        if not rows:
            return np.zeros((0, self.values, self.values))
        return np.stack([self.coefficients(row) for row in rows])


def projected(flows: NDArray[np.integer], view: NDArray[np.intp]) -> NDArray[np.int64]:
    """The flows between the numbers of a view."""
    size = int(view.max(initial=-1)) + 1
    summed = np.zeros((size, size), dtype=np.int64)
    np.add.at(summed, (view[:, None], view[None, :]), flows)
    return summed


@dataclass(frozen=True, eq=False)
class Holdings:
    """How many units hold each value: those that may stay, of which `changes` change, and those
    that must take one of the values open to them.
    """

    free: NDArray[np.int64]  # (values,) units that may stay
    forced: NDArray[np.int64]  # (kinds,) units that must change
    true: NDArray[np.intp]  # (kinds,) their true value
    barred: NDArray[np.bool_]  # (kinds, values) what they must not take
    changes: int
    cap: PosteriorCap | None = None

    @property
    def values(self) -> int:
        """The number of values."""
        return len(self.free)

    @property
    def plain(self) -> bool:
        """Whether each unit that must change may take every value but its own."""
        return bool((self.barred.sum(axis=1) == 1).all())

    def totals(self) -> NDArray[np.int64]:
        """Units that hold each value at the start."""
        return self.free + np.bincount(self.true, weights=self.forced, minlength=self.values)

    def changing(self, changes: int) -> Holdings:
        """The same units with another number of changes."""
        return replace(self, changes=changes)

    def capped(self, limit: float) -> Holdings:
        """The same units with another limit on guessing."""
        return replace(self, cap=None if self.cap is None else replace(self.cap, limit=limit))


def unlimited_least_drift(holdings: Holdings) -> int:
    """The smallest possible Σ_r |N′_r − N_r| where nothing but the number of changes is asked for.

    With T changes in all and a_k of them leaving value k, what enters k comes from elsewhere: at
    most T − a_k. So no total moves iff every a_k ≤ T/2; the least possible largest a_k is found by
    filling all values to one level.
    """
    forced = np.bincount(holdings.true, weights=holdings.forced, minlength=holdings.values)
    most = holdings.totals()
    total = int(forced.sum()) + holdings.changes
    low, high = int(forced.max(initial=0)), total
    while low < high:
        level = (low + high) // 2
        if np.minimum(most, level).sum() >= total:
            high = level
        else:
            low = level + 1
    return 2 * max(0, 2 * low - total)


def least_drift(holdings: Holdings) -> int | None:
    """The smallest possible Σ_r |N′_r − N_r| under the limit on guessing; None where no flows meet
    the limit.

    Limits are added as they are broken: a flow that breaks none of them needs none of them.
    """
    if holdings.cap is None and (holdings.plain or holdings.values > MOST_FLOW_VALUES):
        return unlimited_least_drift(holdings)
    if holdings.values > MOST_FLOW_VALUES:
        raise EstimationError(
            f"{holdings.values} values are too many to say whether the totals can stay under a "
            f"limit on guessing (at most {MOST_FLOW_VALUES})",
            hint="merge rare values, swap the columns in turn, or use a max_posterior of 1",
        )
    cost = np.zeros(_columns(holdings))
    cost[-2 * holdings.values :] = 1.0  # what is gained and lost
    rows: list[CapRow] = []
    while True:
        found = _flows(holdings, rows, cost)
        if found is None:
            return None
        flows, drift = found
        broken = holdings.cap.broken(flows) if holdings.cap else []
        if not broken:
            return round(drift)
        rows += broken


def least_slack(
    holdings: Holdings, rows: Sequence[CapRow], price: NDArray[np.float64], drift: int
) -> float:
    """The smallest Σ price·(what is left of each limit) that whole flows can have: records cannot
    be split, so a limit is seldom used to the last.
    """
    if holdings.cap is None or not rows or holdings.values > MOST_FLOW_VALUES:
        return 0.0
    cost = np.zeros(_columns(holdings))
    used = np.tensordot(price, holdings.cap.stacked(rows), axes=1)
    cost[: holdings.values**2] = -used.ravel()
    found = _flows(holdings, rows, cost, drift)
    return 0.0 if found is None else max(0.0, found[1] - 1e-9)


def _columns(holdings: Holdings) -> int:
    """Columns: u[t, s] of the free units, v[g, s] of the forced ones, gained[s], lost[s]."""
    return (holdings.values + len(holdings.forced) + 2) * holdings.values


def _flows(
    holdings: Holdings, rows: Sequence[CapRow], cost: NDArray[np.float64], drift: int | None = None
) -> tuple[NDArray[np.int64], float] | None:  # (values, values), cost
    """Flows of the free units at the least cost under these limits, by an integer programme: every
    unit goes somewhere, so many change, and what a value gains or loses is its drift.
    """
    values = holdings.values
    leaving = np.concatenate([holdings.free, holdings.forced])
    place, free, each = np.arange(len(leaving) * values), values * values, np.arange(values)
    source, shown = np.divmod(place, values)
    gained, lost = len(place) + each, len(place) + values + each
    changed = place[:free][(source != shown)[:free]]
    arriving, last = len(leaving), len(leaving) + values
    balance = sparse(
        [
            (source, place, 1),
            (arriving + shown, place, 1),
            (arriving + each, gained, -1),
            (arriving + each, lost, 1),
            (last, changed, 1),
        ],
        (last + 1, len(cost)),
    )
    wanted = np.concatenate([leaving, holdings.totals(), [holdings.changes]])
    constraints: list[Any] = [(balance, wanted, wanted)]
    if rows and holdings.cap:
        limits = np.zeros((len(rows), len(cost)))
        limits[:, :free] = holdings.cap.stacked(rows).reshape(len(rows), -1)
        constraints.append((limits, -np.inf, 0.0))
    if drift is not None:
        constraints.append((np.arange(len(cost))[None, :] >= len(place), -np.inf, drift))
    upper = np.full(len(cost), np.inf)
    upper[free : len(place)][holdings.barred.ravel()] = 0.0
    result = least(cost, constraints, upper=upper, seconds=FLOW_SECONDS)
    if result.status == 2:
        return None
    if result.status != 0:
        raise EstimationError(
            f"whether the totals can stay was not decided within {FLOW_SECONDS:g} s: "
            f"{result.message}",
            hint="merge rare values, or use a higher max_posterior",
        )
    return np.round(result.x[:free]).astype(np.int64).reshape(values, values), float(result.fun)


def fitting_changes(holdings: Holdings, drift: int | None) -> int | None:
    """The wanted number of changes, or one more or less (an odd number may have no partner), if the
    totals then move by at most `drift` records under the limit (None: by as few as one of them
    allows); else None.
    """
    most = None if drift is None else 2 * drift
    found = _least_drifts(holdings, most)
    best = min(found, key=lambda n: found[n], default=None)  # of equal ones the wanted
    return None if best is None or (most is not None and found[best] > most) else best


def _least_drifts(holdings: Holdings, most: int | None = None) -> dict[int, int]:
    """The least drift of each number of changes that can be had under the limit, until one is small
    enough; without those that move the totals by more than `most` even where nothing is limited.
    """
    found: dict[int, int] = {}
    for changes in _nearly(holdings):
        changed = holdings.changing(changes)
        if most is not None and unlimited_least_drift(changed) > most:
            continue
        moved = least_drift(changed)
        if moved is not None:
            found[changes] = moved
            if moved <= (most or 0):  # none is less
                break
    return found


def _nearly(holdings: Holdings) -> list[int]:
    """The wanted number of changes, one more and one less, as far as so many can change; none at
    all only where none was wanted.
    """
    wanted = holdings.changes
    # Two values that all change can be flipped back.
    most = max(wanted, int(holdings.free.sum()) - (holdings.values == 2))
    return [n for n in (wanted, wanted + 1, wanted - 1) if min(1, wanted) <= n <= most]


def refusal(name: str, proportion: float, holdings: Holdings, drift: int | None) -> PrivacyError:
    """The error that says why, with settings of which any one would do, each of them tried."""
    limit = holdings.cap.limit if holdings.cap else 1.0
    proportions, failed = _other_proportions(holdings, proportion, drift)
    ways = [*proportions, _other_limit(holdings, limit, drift), _other_drift(holdings)]
    found = [way for way in ways if way]
    hint = " or ".join(found) + " would do" if found else "merge rare values, or use coarser keys"
    hint = f"{hint}; {failed}" if failed else hint
    free = least_drift(holdings.capped(1.0))
    by_totals = drift is not None and (free is None or free > 2 * drift)
    stay = "stay" if not drift else f"move by only {drift:,} records"
    if by_totals:
        message = (
            f"changing a share {proportion:g} of the unique records, the totals of '{name}' "
            f"cannot {stay}"
        )
    else:
        totals = "" if drift is None else f" while its totals {stay}"
        message = (
            f"changing a share {proportion:g} of the unique records, '{name}' could be guessed "
            f"with more than {limit:g}{totals}"
        )
    return PrivacyError(message, hint=hint, proportion=proportion, max_posterior=limit)


def _other_proportions(
    holdings: Holdings, proportion: float, drift: int | None
) -> tuple[list[str], str]:
    """The nearest proportions that can be had, on a grid: a smaller one, and a larger one where
    that is nearer; and what was tried where there is no smaller one.
    """
    unique = int(holdings.free.sum())
    until = time.monotonic() + REFUSAL_SECONDS
    larger: list[str] = []
    tried: list[float] = []
    for other in _near(proportion):
        if larger and other > proportion:
            continue
        tried.append(other)
        changes = math.ceil(other * unique - 1e-9)
        if fitting_changes(holdings.changing(changes), drift) is not None:
            if other < proportion:
                return [*larger, f"proportion={other:.2g}"], ""
            larger = [f"proportion={other:.2g}"]
        if time.monotonic() > until:
            break
    failed = [other for other in tried if other < proportion or not larger]
    if not failed:
        return larger, ""
    span = " to ".join(dict.fromkeys(f"{end:.2g}" for end in (min(failed), max(failed))))
    which = "smaller" if larger else "other"
    return larger, f"no {which} proportion that was tried ({span}) would do"


def _near(proportion: float) -> list[float]:
    """Other proportions in whole per cent, the nearest first and of two the smaller: those within
    a tenth one by one, farther ones every twentieth.
    """
    grid = [step / 100 for step in range(1, 100)]
    near = [step for step in grid if abs(step - proportion) < 0.1 or round(step * 20, 9) % 1 == 0]
    others = [step for step in near if not math.isclose(step, proportion)]
    return sorted(others, key=lambda step: round(abs(step - proportion), 9))


def _other_limit(holdings: Holdings, limit: float, drift: int | None) -> str | None:
    """The smallest limit, in whole per cent, under which it can be had."""
    low, high = math.floor(100 * limit + 1e-9), 100
    if holdings.cap is None or fitting_changes(holdings.capped(1.0), drift) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if fitting_changes(holdings.capped(middle / 100), drift) is None:
            low = middle
        else:
            high = middle
    return f"max_posterior={high / 100:.2g}"


def _other_drift(holdings: Holdings) -> str | None:
    """How many records the totals must be allowed to move by."""
    least = min(_least_drifts(holdings).values(), default=None)
    return None if least is None else f"drift={least // 2}"
