"""The linear and integer programmes of an exchange over the choices near a tie: prices made
better, then whole records chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError
from sfumato.publish.integer import least, sparse
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
    built = _programme(kinds, multipliers, sweep, moves)
    if not len(built.cost):
        return None if np.any(built.wanted) else Cheapest(np.zeros(0, dtype=np.int64), 0.0, True)
    cost = np.where(built.cost < TIE * 1e-3, 0.0, built.cost)
    # Costs near 1 keep the solver's absolute tolerances far below a real difference.
    scale = max(float(cost.max()) * 1e-4, float(cost[cost > 0].min(initial=1.0)))
    link, groups = _net_flows(kinds, sweep, moves, len(cost))
    matrix = built.matrix.copy()
    matrix.resize(matrix.shape[0], len(cost) + groups)
    at_most, room = _room(kinds, moves, len(cost) + groups)
    result = least(
        np.append(cost / scale, np.zeros(groups)),
        [
            (matrix, built.wanted, built.wanted),
            (link, 0.0, 0.0),
            *([] if at_most is None else [(at_most, -np.inf, room)]),
        ],
        lower=np.append(np.zeros(len(cost)), np.full(groups, -np.inf)),
        upper=np.append(_upper(kinds, moves, len(cost)), np.full(groups, np.inf)),
        whole=np.append(built.whole, np.ones(groups)),
        seconds=EXCHANGE_SECONDS,
        presolve=False,
    )
    return None if result.x is None else _whole(built, cost, kinds, moves, link, result)


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
    group = (kinds.may_stay[moves.kind] * kinds.values + kinds.true[moves.kind]) * kinds.values
    place = np.stack([group + moves.target, group + sweep.base[moves.kind]])
    used, row = np.unique(place, return_inverse=True)
    into, out = row.reshape(place.shape)
    column, sums = np.arange(len(moves.kind)), np.arange(len(used))
    link = [(into, column, 1), (out, column, -1), (sums, columns + sums, -1)]
    return sparse(link, (len(used), columns + len(used))), len(used)


def _programme(kinds: Kinds, multipliers: Multipliers, sweep: Sweep, moves: Moves) -> _Programme:
    """What each move does to the totals, the changes and the limits, and how far the cheapest
    choices are from what is wanted of these; with room for drift where the totals may move.
    """
    values, limits, price = kinds.values, kinds.limits, multipliers.value
    source, true, free = (of[moves.kind] for of in (sweep.base, kinds.true, kinds.may_stay))
    move, each, row = np.arange(len(moves.kind)), np.arange(values), np.arange(len(limits))
    changes, limited = values, values + 1 + row
    used = (limits[:, true, moves.target] - limits[:, true, source]) * free
    entries: list[Any] = [
        (moves.target, move, 1),
        (source, move, -1),
        (changes, move, free * ((moves.target != true).astype(int) - (source != true))),
        (limited[:, None], move, used),
        (limited, len(move) + row, 1),
    ]
    stays = kinds.may_stay
    reached = np.bincount(sweep.base, weights=kinds.number, minlength=values)
    changed = kinds.number @ (stays & (sweep.base != kinds.true))
    flows = np.zeros((values, values))
    np.add.at(flows, (kinds.true[stays], sweep.base[stays]), kinds.number[stays])
    wanted: list[Any] = [
        kinds.totals - reached,
        [kinds.changes - changed],
        -np.tensordot(limits, flows, 2),
    ]
    cost = [moves.excess, multipliers.limit]
    priced, columns, drift = values + 1 + len(row), len(move) + len(row), 2 * bool(kinds.drift)
    if drift:  # gained and lost, and how much of each
        gained, lost = columns + each, columns + values + each
        entries += [(each, gained, -1), (each, lost, 1), (priced, gained, 1), (priced + 1, lost, 1)]
        wanted.append(np.full(2, kinds.drift // 2))
        cost += [price - price.min(), price.max() - price]
    shape = priced + drift, columns + drift * values
    whole = np.arange(shape[1]) >= columns
    return _Programme(
        sparse(entries, shape), np.concatenate(wanted), np.concatenate(cost), whole, priced
    )


def _upper(kinds: Kinds, moves: Moves, columns: int) -> NDArray[np.float64]:
    """Largest value of each column: the number of the kind that moves, no limit on the rest."""
    return np.append(
        kinds.number[moves.kind].astype(np.float64), np.full(columns - len(moves.kind), np.inf)
    )


def _room(kinds: Kinds, moves: Moves, columns: int) -> tuple[Any, NDArray[np.float64] | None]:
    """Rows that keep a kind with several moves from moving more units than it has; None when no
    kind has several.
    """
    kind, position, times = np.unique(moves.kind, return_inverse=True, return_counts=True)
    several = np.flatnonzero(times > 1)
    if not len(several):
        return None, None
    inside = np.flatnonzero(np.isin(position, several))
    row = np.searchsorted(several, position[inside])
    at_most = sparse([(row, inside, 1)], (len(several), columns))
    return at_most, kinds.number[kind[several]].astype(np.float64)
