"""The cheapest way to give records other values with every total kept: solved exactly, with a
proof.

Each unit i (a record, or one member of a group) holds value t and may be given another value r at
price d_i(t, r) = p_i(t) − p_i(r), p_i its posterior (Li and Sarkar 2004, eq. 11). Exactly `changes`
of the units that may stay are changed, every other unit must change, and as many units end with
each value as began with it.

Relaxing those totals leaves one multiplier per value (μ) and one for the number of changes (λ):

    L(λ, μ) = Σ_i min_r (d_i(t, r) + λ·[i may stay and r ≠ t] − μ_r) + Σ_r μ_r N_r − λ·changes

a lower bound for every (λ, μ), evaluated in one vectorised sweep. What an assignment costs above
L(λ, μ) is the sum of its reduced costs, all of them ≥ 0; so an assignment built from choices of
reduced cost ≤ θ whose excess is ≤ θ cannot be beaten by any that uses a choice beyond θ. So a tiny
integer programme over the few nearly tied choices is a proof for all records. Units alike in
posterior, value and leave to stay are one kind with a number, so that equal records are no tie to
be broken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError

__all__ = ["Assignment", "Exchange", "Multipliers", "least_drift", "solve"]

Progress = Callable[[str], None]

_CHUNK = 1 << 15
_SMALLEST_BAND, _LARGEST_BAND = 1_000, 20_000  # kinds in the linear programme of one step
_FIRST_CHOICES = 64  # kinds in the first integer programme
_SAMPLING = 16  # each coarser problem has a sixteenth of the units
_LOOK = 4_096  # units looked at to see whether many are alike
_TIE = 1e-9  # reduced costs nearer than this are equal
_SECONDS = (
    60.0  # for one integer programme; without its proof the answer says that it is not proved
)


@dataclass(frozen=True, eq=False)
class Exchange:
    """Units with posteriors, true values, leave to stay, and how many of those that may stay must
    change.
    """

    posterior: NDArray[np.float64]  # (units, values)
    true: NDArray[np.intp]  # (units,)
    may_stay: NDArray[np.bool_]  # (units,)
    changes: int

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.true)

    @property
    def values(self) -> int:
        """The number of confidential values."""
        return int(self.posterior.shape[1])

    def totals(self) -> NDArray[np.int64]:
        """How many units hold each value at the start."""
        return np.bincount(self.true, minlength=self.values)

    def cost(self, assigned: NDArray[np.integer]) -> float:
        """Σ d_i(t, r) of an assignment."""
        rows = np.arange(self.units)
        return float((self.posterior[rows, self.true] - self.posterior[rows, assigned]).sum())


@dataclass(frozen=True, eq=False)
class Multipliers:
    """One price per value and one for changing at all."""

    value: NDArray[np.float64]
    change: float


@dataclass(frozen=True, eq=False)
class Assignment:
    """A new value for every unit, what it costs, and the bound that nothing can undercut."""

    assigned: NDArray[np.intp]
    objective: float
    bound: float
    optimal: bool
    drift: int

    @property
    def gap(self) -> float:
        """Objective above the Lagrangian bound; positive also when the optimum is proved, for
        integers may not reach it.
        """
        return max(0.0, self.objective - self.bound)


@dataclass(frozen=True, eq=False)
class _Kinds:
    """The different units, how many there are of each, and the totals to keep."""

    posterior: NDArray[np.float64]  # (kinds, values)
    true: NDArray[np.intp]
    may_stay: NDArray[np.bool_]
    number: NDArray[np.int64]
    totals: NDArray[np.int64]
    changes: int
    drift: int

    @classmethod
    def of(
        cls, exchange: Exchange, first: NDArray[np.intp], number: NDArray[np.int64], drift: int
    ) -> _Kinds:
        """The kinds whose first members and numbers are given, with leave to drift this much, or as
        much as must be.
        """
        return cls(
            exchange.posterior[first],
            exchange.true[first],
            exchange.may_stay[first],
            number,
            exchange.totals(),
            exchange.changes,
            max(least_drift(exchange), drift // 2 * 2),
        )

    @property
    def values(self) -> int:
        return int(self.posterior.shape[1])

    def __len__(self) -> int:
        return len(self.true)


@dataclass(frozen=True, eq=False)
class _Sweep:
    """The cheapest choice of every kind under given multipliers, how much the second costs more,
    and the bound.
    """

    base: NDArray[np.intp]
    margin: NDArray[np.float64]
    bound: float


@dataclass(frozen=True, eq=False)
class _Moves:
    """The choices beside the cheapest whose reduced cost is below `reach`: all there are, for all
    kinds.
    """

    kind: NDArray[np.intp]
    target: NDArray[np.intp]
    excess: NDArray[np.float64]
    reach: float


@dataclass(frozen=True, eq=False)
class _Settled:
    """How many units make each move, what that costs above the bound, and whether nothing within
    the moves is cheaper.
    """

    taken: NDArray[np.int64]
    excess: float
    proved: bool


def solve(exchange: Exchange, *, drift: int = 0, progress: Progress | None = None) -> Assignment:
    """The minimum of Σ d_i(t, r) with every total kept as nearly as can be, and its proof.

    `drift` lets the totals move by Σ_r |N′_r − N_r| up to that much, which cannot make the minimum
    larger.
    """
    if exchange.units == 0:
        return Assignment(exchange.true.copy(), 0.0, 0.0, True, 0)
    first, member, number = _alike(exchange)
    kinds = _Kinds.of(exchange, first, number, drift)
    multipliers = _refined(kinds, _guess(exchange, drift, progress))
    sweep = _sweep(kinds, multipliers)
    limit = _FIRST_CHOICES
    while True:
        if progress:
            progress(f"settling the {limit} nearest ties")
        moves = _moves(kinds, multipliers, sweep, limit)
        settled = _settle(kinds, multipliers, sweep, moves)
        if settled is not None and settled.excess <= moves.reach:
            assigned = _spread(sweep.base[member], member, moves, settled.taken)
            moved = int(
                np.abs(np.bincount(assigned, minlength=exchange.values) - exchange.totals()).sum()
            )
            return Assignment(assigned, exchange.cost(assigned), sweep.bound, settled.proved, moved)
        if not np.isfinite(moves.reach):
            raise EstimationError(
                f"no exchange was found within {_SECONDS:g} s",
                hint="use the greedy method, or a lower proportion",
            )
        limit *= 8


def least_drift(exchange: Exchange) -> int:
    """The smallest possible Σ_r |N′_r − N_r|, the objective of the paper's phase I over U and V
    together.

    With T changes in all and a_k of them leaving value k, what enters k comes from elsewhere: at
    most T − a_k. So no total moves iff every a_k ≤ T/2; the least possible largest a_k is found by
    filling all values to one level.
    """
    forced = np.bincount(exchange.true[~exchange.may_stay], minlength=exchange.values)
    most = exchange.totals()
    total = int(forced.sum()) + exchange.changes
    low, high = int(forced.max(initial=0)), total
    while low < high:
        level = (low + high) // 2
        if np.minimum(most, level).sum() >= total:
            high = level
        else:
            low = level + 1
    return 2 * max(0, 2 * low - total)


def _alike(exchange: Exchange) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]:
    """First member of each kind, the kind of each unit, the number of each kind: equal by a 64-bit
    hash of the row.

    Where a look at a few thousand units finds hardly any alike, every unit is a kind of its own.
    """
    some = slice(None, None, max(1, exchange.units // _LOOK))
    if len(np.unique(_hashed(exchange, some))) > 0.95 * len(exchange.true[some]):
        alone = np.arange(exchange.units)
        return alone, alone, np.ones(exchange.units, dtype=np.int64)
    _, first, member, number = np.unique(
        _hashed(exchange, slice(None)), return_index=True, return_inverse=True, return_counts=True
    )
    return first, member, number


def _hashed(exchange: Exchange, some: slice) -> NDArray[np.uint64]:
    mixed = (exchange.true[some] * 2 + exchange.may_stay[some]).astype(np.uint64)
    for column in exchange.posterior[some].T:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= (np.round(column, 12) + 0.0).view(np.uint64)
    return mixed


def _guess(exchange: Exchange, drift: int, progress: Progress | None) -> Multipliers:
    """Multipliers to start from: the best ones for a sixteenth of the units, unless
    there are few.
    """
    if exchange.units <= _SMALLEST_BAND:
        return Multipliers(np.zeros(exchange.values), 0.0)
    some = slice(None, None, _SAMPLING)
    may_stay = exchange.may_stay[some]
    share = may_stay.sum() / max(1, exchange.may_stay.sum())
    part = Exchange(
        exchange.posterior[some], exchange.true[some], may_stay, round(exchange.changes * share)
    )
    start = _guess(part, drift // _SAMPLING, progress)
    if progress:
        progress(f"multipliers from {part.units} records")
    first, _, number = _alike(part)
    return _refined(_Kinds.of(part, first, number, drift // _SAMPLING), start)


def _refined(kinds: _Kinds, multipliers: Multipliers, most_steps: int = 100) -> Multipliers:
    """Climb the bound by trust regions: inside one, the linear programme over the choices near a
    tie is the bound itself.

    Multipliers that move by at most ω change a difference of reduced costs by at most 4ω, so the
    choices within 4ω decide all; the programme's own slack, at price ω, keeps the step in the
    region. No slack left means the maximum was inside.
    """
    band = min(max(len(kinds) // _SAMPLING, _SMALLEST_BAND), _LARGEST_BAND)
    for _ in range(most_steps):
        sweep = _sweep(kinds, multipliers)
        moves = _moves(kinds, multipliers, sweep, band)
        radius = moves.reach / 4 if np.isfinite(moves.reach) else 10.0
        step, inside = _step(kinds, multipliers, sweep, moves, radius)
        multipliers = Multipliers(multipliers.value + step.value, multipliers.change + step.change)
        if inside:
            break
        band *= 2  # else a cluster of ties just beyond the region is approached for ever
    return multipliers


def _reduced(
    kinds: _Kinds, multipliers: Multipliers, chosen: Any
) -> NDArray[np.float64]:  # (chosen, values)
    """Reduced cost of every choice of these kinds, infinite where a unit must change but would
    stay.
    """
    true, may_stay, posterior = kinds.true[chosen], kinds.may_stay[chosen], kinds.posterior[chosen]
    rows = np.arange(len(true))
    reduced: NDArray[np.float64] = -posterior
    reduced -= multipliers.value
    reduced += (posterior[rows, true] + multipliers.change * may_stay)[:, None]
    reduced[rows, true] = np.where(may_stay, -multipliers.value[true], np.inf)
    return reduced


def _sweep(kinds: _Kinds, multipliers: Multipliers) -> _Sweep:
    base = np.empty(len(kinds), dtype=np.intp)
    margin = np.empty(len(kinds))
    price = multipliers.value
    bound = float(price @ kinds.totals) - multipliers.change * kinds.changes
    bound += kinds.drift / 2 * float(price.min() - price.max())
    for start in range(0, len(kinds), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        reduced = _reduced(kinds, multipliers, chunk)
        rows = np.arange(len(reduced))
        base[chunk] = best = reduced.argmin(axis=1)
        least = reduced[rows, best]
        bound += float(least @ kinds.number[chunk])
        reduced[rows, best] = np.inf
        margin[chunk] = reduced.min(axis=1) - least
    return _Sweep(base, margin, bound)


def _moves(kinds: _Kinds, multipliers: Multipliers, sweep: _Sweep, limit: int) -> _Moves:
    """The choices of the `limit` kinds nearest to a tie, and of all that tie with the
    last of them.
    """
    reach = float("inf")
    if len(kinds) > limit:
        beyond = sweep.margin > np.partition(sweep.margin, limit)[limit] + _TIE
        reach = float(sweep.margin[beyond].min(initial=np.inf))
    near = np.flatnonzero(sweep.margin < reach)
    excess = _reduced(kinds, multipliers, near)
    rows = np.arange(len(near))
    excess -= excess[rows, sweep.base[near]][:, None]
    excess[rows, sweep.base[near]] = np.inf
    row, target = np.nonzero(excess < reach)
    return _Moves(near[row], target, np.maximum(excess[row, target], 0.0), reach)


def _step(
    kinds: _Kinds, multipliers: Multipliers, sweep: _Sweep, moves: _Moves, radius: float
) -> tuple[Multipliers, bool]:
    """How far the multipliers move inside the radius, and whether the maximum lies inside."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, hstack

    matrix, wanted, drift_price = _balance(kinds, multipliers, sweep, moves)
    # Rows 0..values are the totals and the changes: only these have multipliers to bound.
    elastic = eye_array(matrix.shape[0], kinds.values + 1, format="csr")
    columns = hstack([matrix, elastic, -elastic], format="csc")
    cost = (
        np.concatenate([moves.excess, drift_price, np.full(2 * (kinds.values + 1), radius)])
        / radius
    )
    at_most, room = _room(kinds, moves, columns.shape[1])
    result = linprog(
        cost,
        A_eq=columns,
        b_eq=wanted,
        A_ub=at_most,
        b_ub=room,
        bounds=np.stack([np.zeros(len(cost)), _upper(kinds, moves, len(cost))], axis=1),
        method="highs",
        # Presolve compares columns with each other: a second on columns that the simplex settles in
        # milliseconds.
        options={"presolve": False},
    )
    if result.x is None:
        raise EstimationError(f"the linear programme of the exchange failed: {result.message}")
    price = result.eqlin.marginals[: kinds.values + 1] * radius
    slack = float(result.x[len(moves.kind) + len(drift_price) :].sum())
    return Multipliers(price[:-1], -float(price[-1])), slack < 1e-6


def _settle(
    kinds: _Kinds, multipliers: Multipliers, sweep: _Sweep, moves: _Moves
) -> _Settled | None:
    """The cheapest whole assignment within these moves, or None if there is none."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    matrix, wanted, drift_price = _balance(kinds, multipliers, sweep, moves)
    cost = np.concatenate([moves.excess, drift_price])
    if not len(cost):
        return None if np.any(wanted) else _Settled(np.zeros(0, dtype=np.int64), 0.0, True)
    cost[cost < _TIE * 1e-3] = 0.0
    # Costs near 1 keep the solver's absolute tolerances far below a real difference.
    scale = max(float(cost.max()) * 1e-4, float(cost[cost > 0].min(initial=1.0)))
    constraints = [LinearConstraint(matrix, wanted, wanted)]
    at_most, room = _room(kinds, moves, len(cost))
    if at_most is not None:
        constraints.append(LinearConstraint(at_most, -np.inf, room))
    result = milp(
        cost / scale,
        constraints=constraints,
        bounds=Bounds(0, _upper(kinds, moves, len(cost))),
        integrality=np.ones(len(cost)),
        options={"mip_rel_gap": 0.0, "time_limit": _SECONDS},
    )
    if result.x is None:
        return None
    whole = np.round(result.x)
    return _Settled(
        whole[: len(moves.kind)].astype(np.int64), float(cost @ whole), result.status == 0
    )


def _balance(
    kinds: _Kinds, multipliers: Multipliers, sweep: _Sweep, moves: _Moves
) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
    """Rows of the programme: what each move does to the totals and the changes, what is wanted, and
    the price of drift.

    After the moves come the columns of drift, gained and lost per value, if there is any; two more
    rows fix its size. A value that gains and loses at once leaves that much of the allowance
    unused.
    """
    from scipy.sparse import csc_array

    values, count = kinds.values, len(moves.kind)
    source, true = sweep.base[moves.kind], kinds.true[moves.kind]
    change = np.where(
        kinds.may_stay[moves.kind], (moves.target != true).astype(np.int64) - (source != true), 0
    )
    column = np.arange(count)
    one = np.ones(count)
    entries = [
        (moves.target, column, one),
        (source, column, -one),
        (np.full(count, values), column, change),
    ]
    reached = np.bincount(sweep.base, weights=kinds.number, minlength=values)
    changed = kinds.number @ (kinds.may_stay & (sweep.base != kinds.true))
    wanted = np.append(kinds.totals - reached, kinds.changes - changed)
    rows, columns, price = values + 1, count, np.zeros(0)
    if kinds.drift:
        value, one = np.arange(values), np.ones(values)
        gained, lost = count + value, count + values + value
        entries += [(value, gained, -one), (value, lost, one)]
        entries += [
            (np.full(values, values + 1), gained, one),
            (np.full(values, values + 2), lost, one),
        ]
        wanted = np.append(wanted, [kinds.drift // 2, kinds.drift // 2])
        rows, columns = values + 3, count + 2 * values
        price = np.concatenate(
            [
                multipliers.value - multipliers.value.min(),
                multipliers.value.max() - multipliers.value,
            ]
        )
    row, col, data = (np.concatenate(part) for part in zip(*entries, strict=True))
    places = (
        row.astype(np.int32),
        col.astype(np.int32),
    )  # HiGHS in SciPy 1.13 takes no other indices
    return (
        csc_array((data.astype(np.float64), places), shape=(rows, columns)),
        wanted.astype(np.float64),
        price,
    )


def _upper(kinds: _Kinds, moves: _Moves, columns: int) -> NDArray[np.float64]:
    """Largest value of each column: the number of the kind that moves, no limit on the rest."""
    return np.append(
        kinds.number[moves.kind].astype(np.float64), np.full(columns - len(moves.kind), np.inf)
    )


def _room(kinds: _Kinds, moves: _Moves, columns: int) -> tuple[Any, NDArray[np.float64] | None]:
    """Rows that keep a kind with several moves from moving more units than it has; None when no
    kind has several.
    """
    from scipy.sparse import csr_array

    kind, position, times = np.unique(moves.kind, return_inverse=True, return_counts=True)
    several = np.flatnonzero(times > 1)
    if not len(several):
        return None, None
    row = np.full(len(kind), -1)
    row[several] = np.arange(len(several))
    inside = np.flatnonzero(row[position] >= 0)
    places = row[position[inside]].astype(np.int32), inside.astype(np.int32)
    at_most = csr_array((np.ones(len(inside)), places), shape=(len(several), columns))
    return at_most, kinds.number[kind[several]].astype(np.float64)


def _spread(
    base: NDArray[np.intp], member: NDArray[np.intp], moves: _Moves, taken: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Each unit's value: those of a kind that move are its first members, in the order in which the
    units came.
    """
    assigned = base.copy()
    used = np.flatnonzero(taken)
    used = used[np.argsort(moves.kind[used], kind="stable")]
    kind, count = moves.kind[used], taken[used]
    order = np.argsort(member, kind="stable")
    start = np.searchsorted(member[order], kind)
    before = np.cumsum(count) - count
    first_of_kind = np.searchsorted(kind, kind)
    within = (
        np.arange(count.sum())
        - np.repeat(before, count)
        + np.repeat(before - before[first_of_kind], count)
    )
    assigned[order[np.repeat(start, count) + within]] = np.repeat(moves.target[used], count)
    return assigned
