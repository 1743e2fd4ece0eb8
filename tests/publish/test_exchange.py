"""The exact exchange against the slow obvious answer: every assignment written out."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.publish.exchange import Exchange, least_drift, solve


def exchange(
    units: int, values: int, seed: int, *, share: float = 0.6, coarse: bool = False
) -> Exchange:
    """A random problem; coarse posteriors take few values, so that ties abound and some are 0."""
    rng = np.random.default_rng(seed)
    true = rng.integers(values, size=units)
    weight = (
        rng.integers(0, 4, size=(units, values)).astype(float)
        if coarse
        else rng.random((units, values))
    )
    weight[np.arange(units), true] += 1
    may_stay = rng.random(units) < share
    return Exchange(
        weight / weight.sum(axis=1, keepdims=True),
        true,
        may_stay,
        int(rng.integers(0, may_stay.sum() + 1)),
    )


def every_assignment(problem: Exchange) -> tuple[int, float]:
    """The least drift, and the least cost with it, over all assignments."""
    best = (10**9, 0.0)
    for choice in product(range(problem.values), repeat=problem.units):
        assigned = np.array(choice, dtype=int)
        changed = assigned != problem.true
        if changed[~problem.may_stay].all() and changed[problem.may_stay].sum() == problem.changes:
            drift = int(
                np.abs(np.bincount(assigned, minlength=problem.values) - problem.totals()).sum()
            )
            best = min(best, (drift, problem.cost(assigned)))
    return best


@given(
    seed=st.integers(0, 10**6),
    units=st.integers(1, 7),
    values=st.integers(2, 4),
    coarse=st.booleans(),
)
def test_the_optimum_is_the_least_over_all_assignments(
    seed: int, units: int, values: int, coarse: bool
) -> None:
    problem = exchange(units, values, seed, coarse=coarse)
    found = solve(problem)
    drift, cost = every_assignment(problem)
    assert (found.drift, least_drift(problem)) == (drift, drift)
    assert found.objective == pytest.approx(cost, abs=1e-9)
    assert found.bound <= found.objective + 1e-9


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("values", [2, 3, 5])
def test_larger_problems_keep_every_constraint_and_close_the_gap(values: int, coarse: bool) -> None:
    problem = exchange(30_000, values, seed=values, coarse=coarse)
    found = solve(problem)
    changed = found.assigned != problem.true
    drift = np.abs(np.bincount(found.assigned, minlength=values) - problem.totals()).sum()
    assert changed[problem.may_stay].sum() == problem.changes
    assert changed[~problem.may_stay].all()
    assert drift == found.drift
    assert found.optimal and found.gap < 0.01


def test_a_whole_linear_programme_agrees_on_a_middling_problem() -> None:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    problem = exchange(1500, 4, seed=3)
    units, values = problem.units, problem.values
    cost = problem.posterior[np.arange(units), problem.true][:, None] - problem.posterior
    cell = np.arange(units * values)
    unit, value = cell // values, cell % values
    rows = [
        coo_array((np.ones(len(cell)), (unit, cell))),
        coo_array((np.ones(len(cell)), (value, cell))),
    ]
    counted = np.flatnonzero(problem.may_stay[unit] & (value != problem.true[unit]))
    rows.append(
        coo_array(
            (np.ones(len(counted)), (np.zeros(len(counted), dtype=int), counted)),
            shape=(1, len(cell)),
        )
    )
    upper = np.ones(len(cell))
    upper[(value == problem.true[unit]) & ~problem.may_stay[unit]] = 0
    wanted = np.concatenate([np.ones(units), problem.totals(), [problem.changes]])
    whole = linprog(
        cost.ravel(), A_eq=vstack(rows), b_eq=wanted, bounds=np.stack([0 * upper, upper], axis=1)
    )
    assert solve(problem).bound == pytest.approx(whole.fun, abs=1e-6)


def test_nothing_to_exchange_is_an_answer() -> None:
    empty = Exchange(np.zeros((0, 3)), np.zeros(0, dtype=int), np.zeros(0, dtype=bool), 0)
    assert solve(empty).objective == 0


def test_two_values_of_unequal_number_must_drift() -> None:
    # Nine of ten hold value 0 and eight change: at least seven leave 0 and at most one comes back.
    true = np.array([0] * 9 + [1])
    problem = Exchange(np.full((10, 2), 0.5), true, np.ones(10, dtype=bool), 8)
    assert least_drift(problem) == 12
    assert solve(problem).drift == 12
