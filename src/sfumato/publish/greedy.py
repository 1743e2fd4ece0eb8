"""The two phases of Li and Sarkar (2004): a linear programme for the totals, then swaps of negative
cost.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError
from sfumato.progress import Progress, silent
from sfumato.publish.exchange import Exchange
from sfumato.randomness import Keystream


@dataclass(frozen=True, eq=False)
class FlowPlan:
    """How many records go from each value to each other value, and the drift Σ(s⁻ + s⁺) that this
    leaves.
    """

    flows: NDArray[np.int64]  # (values, values): from row to column
    drift: float


def plan_flows(holders: NDArray[np.int64], changes: int) -> FlowPlan:
    """Phase I, eq. (1a)–(1d): flows n_kh with Σ n_kh = changes, Σ_h n_kh ≤ N_k, and the totals kept
    as nearly as can be.

    `holders` is the paper's N_k. The paper rounds fractional flows; here whole flows are asked for,
    so that no drift is added.

    >>> plan_flows(np.array([2, 2, 2]), 3).flows.sum()
    np.int64(3)
    """
    from scipy.optimize import linprog

    values = len(holders)
    source, target = np.nonzero(~np.eye(values, dtype=bool))
    pairs = len(source)
    outflow = np.zeros((values, pairs + 2 * values))
    outflow[source, np.arange(pairs)] = 1
    balance = outflow.copy()
    balance[target, np.arange(pairs)] -= 1
    balance[:, pairs:] = np.hstack([np.eye(values), -np.eye(values)])
    number = np.append(np.ones(pairs), np.zeros(2 * values))
    result = linprog(
        np.append(np.zeros(pairs), np.ones(2 * values)),
        A_ub=outflow,
        b_ub=holders,
        A_eq=np.vstack([number, balance]),
        b_eq=np.append(changes, np.zeros(values)),
        integrality=np.append(np.ones(pairs), np.zeros(2 * values)),
        method="highs",
    )
    if result.x is None:
        raise EstimationError(
            f"phase I cannot change {changes} of {int(holders.sum())} records: {result.message}"
        )
    flows = np.zeros((values, values), dtype=np.int64)
    flows[source, target] = np.round(result.x[:pairs])
    return FlowPlan(flows, float(result.fun))


def phase_one(exchange: Exchange, rng: Keystream) -> NDArray[np.intp]:
    """A first assignment: the flows of phase I for U and for V on their own, the records drawn at
    random.
    """
    assigned = exchange.true.copy()
    for members, changes in (
        (exchange.may_stay, exchange.changes),
        (~exchange.may_stay, int((~exchange.may_stay).sum())),
    ):
        units = np.flatnonzero(members)
        plan = plan_flows(np.bincount(exchange.true[units], minlength=exchange.values), changes)
        for value in range(exchange.values):
            holders = units[exchange.true[units] == value]
            holders = holders[rng.permutation(len(holders))]
            targets = np.repeat(np.arange(exchange.values), plan.flows[value])
            assigned[holders[: len(targets)]] = targets
    return assigned


def phase_two(
    exchange: Exchange, assigned: NDArray[np.intp], *, progress: Progress = silent
) -> NDArray[np.intp]:
    """Swap confidential values while an admissible swap of negative cost is left (table 2, steps 3
    and 4).

    One pass takes the swaps in ascending order of cost, each record at most once, as the paper's
    sorted list does. A swap between two classes of records (set, true value, current value) costs
    f_i + g_j, so the list need not be written out: each pair of classes is two sorted columns, and
    a heap over the pairs gives the next cheapest swap.
    """
    assigned = assigned.copy()
    number = 0
    while True:
        swaps = list(_one_pass(exchange, assigned))
        number += 1
        progress(f"pass {number}: {len(swaps)} swaps", None)
        if not swaps:
            return assigned
        first, second = np.array(swaps).T
        assigned[first], assigned[second] = assigned[second], assigned[first]


@dataclass(frozen=True, eq=False)
class _Class:
    """Records of one set with the same true and the same current value."""

    stays: bool  # the record is unperturbed (the paper's U^u)
    may_stay: bool
    true: int
    current: int
    units: NDArray[np.intp]


def _classes(exchange: Exchange, assigned: NDArray[np.intp]) -> list[_Class]:
    key = (exchange.true * exchange.values + assigned) * 2 + exchange.may_stay
    order = np.argsort(key, kind="stable")
    bounds = np.flatnonzero(np.diff(key[order])) + 1
    classes = []
    for units in np.split(order, bounds):
        if len(units):
            unit = units[0]
            true, current = int(exchange.true[unit]), int(assigned[unit])
            classes.append(
                _Class(true == current, bool(exchange.may_stay[unit]), true, current, units)
            )
    return classes


def _admissible(first: _Class, second: _Class) -> bool:
    """Rules 1–4 of the paper's appendix A, for two classes."""
    if first.current == second.current or (first.stays and second.stays):
        return False
    if first.stays or second.stays:
        return first.may_stay and second.may_stay and first.true == second.true
    return (
        first.true == second.true
        or len({first.true, first.current, second.true, second.current}) == 4
    )


def _one_pass(exchange: Exchange, assigned: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
    """The swaps of one pass, in the order in which they are made."""
    classes = _classes(exchange, assigned)
    sorted_by_gain: dict[tuple[int, int], tuple[list[int], list[float]]] = {}

    def column(index: int, target: int) -> tuple[list[int], list[float]]:
        """Units of a class and what moving each to `target` costs, cheapest first."""
        if (index, target) not in sorted_by_gain:
            units = classes[index].units
            cost = (
                exchange.posterior[units, classes[index].current]
                - exchange.posterior[units, target]
            )
            order = np.argsort(cost, kind="stable")
            sorted_by_gain[index, target] = units[order].tolist(), cost[order].tolist()
        return sorted_by_gain[index, target]

    heap: list[tuple[float, int, int, int, int]] = []
    for a, first in enumerate(classes):
        for b in range(a + 1, len(classes)):
            if _admissible(first, classes[b]):
                cost = column(a, classes[b].current)[1][0] + column(b, first.current)[1][0]
                if cost < -1e-12:
                    heap.append((cost, a, b, 0, 0))
    heapq.heapify(heap)
    used: set[int] = set()
    while heap:
        _, a, b, i, j = heapq.heappop(heap)
        units_a, costs_a = column(a, classes[b].current)
        units_b, costs_b = column(b, classes[a].current)
        fresh = units_a[i] not in used and units_b[j] not in used
        if fresh:
            used.update((units_a[i], units_b[j]))
            yield units_a[i], units_b[j]
        while i < len(units_a) and units_a[i] in used:
            i += 1
        while j < len(units_b) and units_b[j] in used:
            j += 1
        if i < len(units_a) and j < len(units_b) and costs_a[i] + costs_b[j] < -1e-12:
            heapq.heappush(heap, (costs_a[i] + costs_b[j], a, b, i, j))
