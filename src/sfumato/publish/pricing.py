"""Prices for totals, changes and limits under which every unit chooses alone: the lower bound of
an exchange, and who is near a tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.publish.limits import ROWS_AT_ONCE

TIE = 1e-9  # reduced costs nearer than this are equal


@dataclass(frozen=True, eq=False)
class Multipliers:
    """One price per value, one for changing at all, and one for each row of the limit."""

    value: NDArray[np.float64]
    change: float
    limit: NDArray[np.float64]

    @classmethod
    def none(cls, values: int) -> Multipliers:
        """All prices 0."""
        return cls(np.zeros(values), 0.0, np.zeros(0))

    def with_rows(self, rows: int) -> Multipliers:
        """The same prices with rows of price 0 added."""
        more = np.zeros(rows - len(self.limit))
        return Multipliers(self.value, self.change, np.append(self.limit, more))


@dataclass(frozen=True, eq=False)
class Kinds:
    """The different units, how many there are of each, and what is asked of all together."""

    posterior: NDArray[np.float64]  # (kinds, values)
    true: NDArray[np.intp]
    may_stay: NDArray[np.bool_]
    barred: NDArray[np.bool_] | None  # (kinds, values)
    number: NDArray[np.int64]
    totals: NDArray[np.int64]
    changes: int
    drift: int
    limits: NDArray[np.float64]  # (rows, values, values): A[t, r], the sum over all is at most 0

    @property
    def values(self) -> int:
        return int(self.posterior.shape[1])

    def __len__(self) -> int:
        return len(self.true)

    def limit_price(self, multipliers: Multipliers) -> NDArray[np.float64]:  # (values, values)
        """What a step from one value to another costs by the rows of the limit."""
        priced: NDArray[np.float64] = np.tensordot(multipliers.limit, self.limits, axes=1)
        return priced

    def reach(self) -> float:
        """By how many times the step of a multiplier a difference of reduced costs can change."""
        return 4.0 + 2.0 * float(np.abs(self.limits).sum(axis=0).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Sweep:
    """The cheapest choice of every kind under given multipliers, how much the second costs more,
    and the bound.
    """

    base: NDArray[np.intp]
    margin: NDArray[np.float64]
    bound: float


@dataclass(frozen=True, eq=False)
class Moves:
    """The choices beside the cheapest whose reduced cost is below `reach`: all there are, for all
    kinds.
    """

    kind: NDArray[np.intp]
    target: NDArray[np.intp]
    excess: NDArray[np.float64]
    reach: float


def _reduced(
    kinds: Kinds, multipliers: Multipliers, limit_price: NDArray[np.float64], chosen: Any
) -> NDArray[np.float64]:  # (chosen, values)
    """Reduced cost of every choice of these kinds, infinite where a unit must not take the
    value.
    """
    true, may_stay, posterior = kinds.true[chosen], kinds.may_stay[chosen], kinds.posterior[chosen]
    rows = np.arange(len(true))
    reduced: NDArray[np.float64] = -posterior
    reduced -= multipliers.value
    reduced += (posterior[rows, true] + multipliers.change * may_stay)[:, None]
    reduced[rows, true] = np.where(may_stay, -multipliers.value[true], np.inf)
    if len(kinds.limits):
        reduced += np.where(may_stay[:, None], limit_price[true], 0.0)
    if kinds.barred is not None:
        reduced[kinds.barred[chosen]] = np.inf
    return reduced


def sweep_of(kinds: Kinds, multipliers: Multipliers) -> Sweep:
    """Every kind's cheapest choice, and the bound that these prices give."""
    base = np.empty(len(kinds), dtype=np.intp)
    margin = np.empty(len(kinds))
    price, limit_price = multipliers.value, kinds.limit_price(multipliers)
    bound = float(price @ kinds.totals) - multipliers.change * kinds.changes
    bound += kinds.drift / 2 * float(price.min() - price.max())
    for start in range(0, len(kinds), ROWS_AT_ONCE):
        chunk = slice(start, start + ROWS_AT_ONCE)
        reduced = _reduced(kinds, multipliers, limit_price, chunk)
        rows = np.arange(len(reduced))
        base[chunk] = best = reduced.argmin(axis=1)
        least = reduced[rows, best]
        bound += float(least @ kinds.number[chunk])
        reduced[rows, best] = np.inf
        margin[chunk] = reduced.min(axis=1) - least
    return Sweep(base, margin, bound)


def nearest_moves(kinds: Kinds, multipliers: Multipliers, sweep: Sweep, limit: int) -> Moves:
    """The choices of the `limit` kinds nearest to a tie, and of all that tie with the
    last of them.
    """
    reach = float("inf")
    if len(kinds) > limit:
        beyond = sweep.margin > np.partition(sweep.margin, limit)[limit] + TIE
        reach = float(sweep.margin[beyond].min(initial=np.inf))
    near = np.flatnonzero(sweep.margin < reach)
    excess = _reduced(kinds, multipliers, kinds.limit_price(multipliers), near)
    rows = np.arange(len(near))
    excess -= excess[rows, sweep.base[near]][:, None]
    excess[rows, sweep.base[near]] = np.inf
    row, target = np.nonzero(excess < reach)
    return Moves(near[row], target, np.maximum(excess[row, target], 0.0), reach)
