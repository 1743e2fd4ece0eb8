"""How many records can go from each value to each other: whether totals, number of changes and
limit on guessing hold together.

Only counts matter here, not who goes: units with the same true value are interchangeable. So the
question is a small integer programme over the flows, whatever the number of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError
from sfumato.publish.cap import CapRow, PosteriorCap

__all__ = ["Holdings", "least_drift", "least_slack", "unlimited_least_drift"]

_SECONDS = 30.0
_LARGEST = 200  # values; beyond, the programme of all flows is too large to be worth its answer


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
    if holdings.cap is None and (holdings.plain or holdings.values > _LARGEST):
        return unlimited_least_drift(holdings)
    if holdings.values > _LARGEST:
        raise EstimationError(
            f"{holdings.values} values are too many to say whether the totals can stay under a "
            f"limit on guessing (at most {_LARGEST})",
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
    if holdings.cap is None or not rows or holdings.values > _LARGEST:
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
    """Flows of the free units at the least cost under these limits, by an integer programme."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    values = holdings.values
    free = values * values
    closed = np.where(holdings.barred, 0.0, np.inf).ravel()
    upper = np.concatenate([np.full(free, np.inf), closed, np.full(2 * values, np.inf)])
    equal, wanted = _equalities(holdings)
    constraints = [LinearConstraint(equal, wanted, wanted)]
    if rows and holdings.cap:
        limits = np.zeros((len(rows), len(cost)))
        limits[:, :free] = holdings.cap.stacked(rows).reshape(len(rows), -1)
        constraints.append(LinearConstraint(limits, -np.inf, 0.0))
    if drift is not None:
        moved = np.zeros((1, len(cost)))
        moved[:, -2 * values :] = 1.0
        constraints.append(LinearConstraint(moved, -np.inf, drift))
    result = milp(
        cost,
        constraints=constraints,
        bounds=Bounds(0, upper),
        integrality=np.ones(len(cost)),
        options={"mip_rel_gap": 0.0, "time_limit": _SECONDS},
    )
    if result.status == 2:
        return None
    if result.status != 0:
        raise EstimationError(
            f"whether the totals can stay was not settled within {_SECONDS:g} s: {result.message}",
            hint="merge rare values, or use a higher max_posterior",
        )
    return np.round(result.x[:free]).astype(np.int64).reshape(values, values), float(result.fun)


def _equalities(holdings: Holdings) -> tuple[Any, NDArray[np.float64]]:
    """Every unit goes somewhere, so many change, and what a value gains or loses is its drift."""
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    values, kinds = holdings.values, len(holdings.forced)
    one, eye = np.ones((1, values)), eye_array(values)
    leave_free = kron(eye, one)
    leave_forced = kron(eye_array(kinds), one)
    arrive = [kron(np.ones((1, count)), eye) for count in (values, kinds)]
    changed = csr_array((~np.eye(values, dtype=bool)).astype(float).reshape(1, -1))

    def none(rows: int, columns: int) -> Any:
        return csr_array((rows, columns))

    blocks = [
        [leave_free, none(values, kinds * values), none(values, 2 * values)],
        [none(kinds, values * values), leave_forced, none(kinds, 2 * values)],
        [*arrive, hstack([-eye, eye])],
        [changed, none(1, kinds * values), none(1, 2 * values)],
    ]
    wanted = [holdings.free, holdings.forced, holdings.totals(), np.array([holdings.changes])]
    matrix = vstack([hstack(row) for row in blocks]).tocsr()
    matrix.indices, matrix.indptr = (
        part.astype(np.int32) for part in (matrix.indices, matrix.indptr)
    )
    return matrix, np.concatenate(wanted).astype(np.float64)
