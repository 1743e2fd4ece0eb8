"""The linear and integer programmes of an exchange over the choices near a tie: prices made
better, then whole records chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError
from sfumato.publish.limits import EXCHANGE_SECONDS, LARGEST_BAND, SAMPLING, SMALLEST_BAND
from sfumato.publish.pricing import (
    TIE,
    Kinds,
    Moves,
    Multipliers,
    Sweep,
    nearest_moves,
    sweep_of,
)


@dataclass(frozen=True, eq=False)
class Cheapest:
    """How many units make each move, what that costs above the bound, and whether nothing within
    the moves is cheaper.
    """

    taken: NDArray[np.int64]
    excess: float
    proved: bool


@dataclass(frozen=True, eq=False)
class _Programme:
    """Columns: a move each, then what is left of each limit, then drift gained and lost per value.

    Rows: the totals, the changes and the limits, which have multipliers; then two that fix the
    size of the drift, if there is any. A value that gains and loses at once leaves that much of
    the allowance unused.
    """

    matrix: Any
    wanted: NDArray[np.float64]
    cost: NDArray[np.float64]
    whole: NDArray[np.bool_]  # columns that must be whole: those of drift
    priced: int  # rows with a multiplier


def refined(kinds: Kinds, multipliers: Multipliers, most_steps: int = 100) -> Multipliers:
    """Climb the bound by trust regions: inside one, the linear programme over the choices near a
    tie is the bound itself.

    Multipliers that move by at most ω change a difference of reduced costs by at most 4ω (more
    under a limit), so the choices within that decide all; the programme's own slack, at price ω,
    keeps the step in the region. No slack left means the maximum was inside.
    """
    band = min(max(len(kinds) // SAMPLING, SMALLEST_BAND), LARGEST_BAND)
    for _ in range(most_steps):
        sweep = sweep_of(kinds, multipliers)
        moves = nearest_moves(kinds, multipliers, sweep, band)
        radius = moves.reach / kinds.reach() if np.isfinite(moves.reach) else 10.0
        multipliers, inside = _step(kinds, multipliers, sweep, moves, radius)
        if inside:
            break
        band *= 2  # else a cluster of ties just beyond the region is approached for ever
    return multipliers


def _step(
    kinds: Kinds, multipliers: Multipliers, sweep: Sweep, moves: Moves, radius: float
) -> tuple[Multipliers, bool]:
    """The best multipliers inside the radius, and whether the maximum lies inside."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, hstack

    built = _programme(kinds, multipliers, sweep, moves)
    elastic = eye_array(built.matrix.shape[0], built.priced, format="csr")
    columns = hstack([built.matrix, elastic, -elastic], format="csc")
    cost = np.concatenate([built.cost, np.full(2 * built.priced, radius)]) / radius
    at_most, room = _room(kinds, moves, columns.shape[1])
    result = linprog(
        cost,
        A_eq=columns,
        b_eq=built.wanted,
        A_ub=at_most,
        b_ub=room,
        bounds=np.stack([np.zeros(len(cost)), _upper(kinds, moves, len(cost))], axis=1),
        method="highs",
        # Presolve compares columns with each other: a second where the simplex takes
        # milliseconds.
        options={"presolve": False},
    )
    if result.x is None:
        raise EstimationError(f"the linear programme of the exchange failed: {result.message}")
    step = result.eqlin.marginals[: built.priced] * radius
    value, change, limit = np.split(step, [kinds.values, kinds.values + 1])
    slack = float(result.x[len(built.cost) :].sum())
    better = Multipliers(
        multipliers.value + value,
        multipliers.change - float(change[0]),
        np.maximum(multipliers.limit - limit, 0.0),
    )
    return better, slack < 1e-6


def cheapest(kinds: Kinds, multipliers: Multipliers, sweep: Sweep, moves: Moves) -> Cheapest | None:
    """The cheapest whole assignment within these moves, or None if there is none.

    Only the net flow into each value, by true value and leave to stay, is asked to be whole: with
    those fixed, who moves is a transportation problem, whose vertices are whole by themselves.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    built = _programme(kinds, multipliers, sweep, moves)
    if not len(built.cost):
        return None if np.any(built.wanted) else Cheapest(np.zeros(0, dtype=np.int64), 0.0, True)
    cost = np.where(built.cost < TIE * 1e-3, 0.0, built.cost)
    # Costs near 1 keep the solver's absolute tolerances far below a real difference.
    scale = max(float(cost.max()) * 1e-4, float(cost[cost > 0].min(initial=1.0)))
    link, groups = _net_flows(kinds, sweep, moves, len(cost))
    matrix = _beside(built.matrix, groups)
    upper = np.append(_upper(kinds, moves, len(cost)), np.full(groups, np.inf))
    constraints = [
        LinearConstraint(matrix, built.wanted, built.wanted),
        LinearConstraint(link, 0.0, 0.0),
    ]
    at_most, room = _room(kinds, moves, len(upper))
    if at_most is not None:
        constraints.append(LinearConstraint(at_most, -np.inf, room))
    result = milp(
        np.append(cost / scale, np.zeros(groups)),
        constraints=constraints,
        bounds=Bounds(np.append(np.zeros(len(cost)), np.full(groups, -np.inf)), upper),
        integrality=np.append(built.whole, np.ones(groups)).astype(int),
        options={"mip_rel_gap": 0.0, "time_limit": EXCHANGE_SECONDS, "presolve": False},
    )
    if result.x is None:
        return None
    return _whole(built, cost, kinds, moves, link, result)


def _whole(
    built: _Programme, cost: NDArray[np.float64], kinds: Kinds, moves: Moves, link: Any, result: Any
) -> Cheapest:
    """The moves of a solution as whole numbers: a vertex of the moves that have its net flows."""
    from scipy.optimize import linprog

    chosen, count = result.x[: len(cost)], len(moves.kind)
    taken = np.round(chosen[:count])
    if np.abs(taken - chosen[:count]).max(initial=0.0) > 1e-6:
        net = np.round(result.x[len(cost) :])
        at_most, room = _room(kinds, moves, count)
        vertex = linprog(
            cost[:count],
            A_eq=link[:, :count],
            b_eq=net,
            A_ub=at_most,
            b_ub=room,
            bounds=np.stack([np.zeros(count), _upper(kinds, moves, count)], axis=1),
            method="highs-ds",
        )
        if vertex.x is None:
            raise EstimationError(f"the flows of the exchange were not met: {vertex.message}")
        taken = np.round(vertex.x)
    rest = np.where(built.whole[count:], np.round(chosen[count:]), chosen[count:])
    excess = float(cost[:count] @ taken + cost[count:] @ rest)
    return Cheapest(taken.astype(np.int64), excess, result.status == 0)


def _net_flows(kinds: Kinds, sweep: Sweep, moves: Moves, columns: int) -> tuple[Any, int]:
    """Rows that add up the moves into and out of each value, by true value and leave to stay, and
    how many such sums there are; each is a column of its own behind the others.
    """
    from scipy.sparse import csr_array

    group = (kinds.may_stay[moves.kind] * kinds.values + kinds.true[moves.kind]) * kinds.values
    place = np.concatenate([group + moves.target, group + sweep.base[moves.kind]])
    used, row = np.unique(place, return_inverse=True)
    count, sums = len(moves.kind), len(used)
    column = np.concatenate([np.tile(np.arange(count), 2), columns + np.arange(sums)])
    data = np.concatenate([np.ones(count), -np.ones(count), -np.ones(sums)])
    row = np.concatenate([row.ravel(), np.arange(sums)])
    where = row.astype(np.int32), column.astype(np.int32)
    return csr_array((data, where), shape=(sums, columns + sums)), sums


def _beside(matrix: Any, columns: int) -> Any:
    """The matrix with so many empty columns behind it."""
    from scipy.sparse import csc_array, hstack

    wide = csc_array(hstack([matrix, csc_array((matrix.shape[0], columns))]))
    wide.indices, wide.indptr = wide.indices.astype(np.int32), wide.indptr.astype(np.int32)
    return wide


def _programme(kinds: Kinds, multipliers: Multipliers, sweep: Sweep, moves: Moves) -> _Programme:
    """What each move does to the totals, the changes and the limits, and what is wanted of them."""
    from scipy.sparse import csc_array, hstack, vstack

    values, rows = kinds.values, len(kinds.limits)
    matrix = vstack([_balance(kinds, sweep, moves), _limit_rows(kinds, sweep, moves)])
    left = csc_array(
        (np.ones(rows), (values + 1 + np.arange(rows), np.arange(rows))),
        shape=(values + 1 + rows, rows),
    )
    matrix = hstack([matrix, left])
    wanted = [_missing(kinds, sweep), _unused(kinds, sweep)]
    cost = [moves.excess, multipliers.limit]
    whole = [np.zeros(len(moves.kind) + rows, dtype=bool)]
    if kinds.drift:
        matrix = _with_drift(matrix, values)
        wanted.append(np.full(2, kinds.drift // 2))
        price = multipliers.value
        cost += [price - price.min(), price.max() - price]
        whole.append(np.ones(2 * values, dtype=bool))
    matrix = csc_array(matrix)
    # HiGHS in SciPy 1.13 takes no other indices.
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return _Programme(
        matrix,
        np.concatenate(wanted).astype(np.float64),
        np.concatenate(cost),
        np.concatenate(whole),
        values + 1 + rows,
    )


def _balance(kinds: Kinds, sweep: Sweep, moves: Moves) -> Any:
    """Rows of the totals and of the changes: what each move does to them."""
    from scipy.sparse import csc_array

    count = len(moves.kind)
    source, true = sweep.base[moves.kind], kinds.true[moves.kind]
    change = np.where(
        kinds.may_stay[moves.kind], (moves.target != true).astype(np.int64) - (source != true), 0
    )
    column, one = np.arange(count), np.ones(count)
    row = np.concatenate([moves.target, source, np.full(count, kinds.values)])
    data = np.concatenate([one, -one, change])
    return csc_array((data, (row, np.tile(column, 3))), shape=(kinds.values + 1, count))


def _limit_rows(kinds: Kinds, sweep: Sweep, moves: Moves) -> Any:
    """Rows of the limits: what each move of a unit that may stay does to them."""
    from scipy.sparse import csc_array

    source, true = sweep.base[moves.kind], kinds.true[moves.kind]
    change = kinds.limits[:, true, moves.target] - kinds.limits[:, true, source]
    return csc_array(change * kinds.may_stay[moves.kind])


def _missing(kinds: Kinds, sweep: Sweep) -> NDArray[np.float64]:  # (values + 1,)
    """How far the cheapest choices are from the totals and from the number of changes."""
    reached = np.bincount(sweep.base, weights=kinds.number, minlength=kinds.values)
    changed = kinds.number @ (kinds.may_stay & (sweep.base != kinds.true))
    return np.append(kinds.totals - reached, kinds.changes - changed)


def _unused(kinds: Kinds, sweep: Sweep) -> NDArray[np.float64]:  # (rows,)
    """How much the cheapest choices leave of each limit; negative where they break it."""
    free = kinds.may_stay
    flows = np.zeros((kinds.values, kinds.values))
    np.add.at(flows, (kinds.true[free], sweep.base[free]), kinds.number[free])
    return -np.tensordot(kinds.limits, flows, axes=2)


def _with_drift(matrix: Any, values: int) -> Any:
    """The programme with columns of drift, gained and lost per value, and two rows for its size."""
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    rows, columns = matrix.shape
    eye, one = eye_array(values), np.ones((1, values))
    none = csr_array((rows - values, values))
    gained, lost = vstack([-eye, none]), vstack([eye, none])
    size = hstack([csr_array((2, columns)), csr_array(np.kron(np.eye(2), one))])
    return vstack([hstack([matrix, gained, lost]), size])


def _upper(kinds: Kinds, moves: Moves, columns: int) -> NDArray[np.float64]:
    """Largest value of each column: the number of the kind that moves, no limit on the rest."""
    return np.append(
        kinds.number[moves.kind].astype(np.float64), np.full(columns - len(moves.kind), np.inf)
    )


def _room(kinds: Kinds, moves: Moves, columns: int) -> tuple[Any, NDArray[np.float64] | None]:
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
