"""The exact exchange against the slow obvious answer: every assignment written out."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import PrivacyError
from sfumato.publish.exchange import Exchange, least_drift, solve
from sfumato.publish.feasible import PosteriorCap


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


def limited(seed: int, units: int, values: int) -> Exchange:
    """A random problem under a limit on guessing, at times of merged values too, with values that
    some of those who must change must not take.
    """
    rng = np.random.default_rng(seed)
    problem = exchange(units, values, seed, share=rng.choice([0.6, 0.8, 1.0]), coarse=seed % 2 == 0)
    views = [np.arange(values)] + ([np.arange(values) // 2] if rng.random() < 0.5 else [])
    limit = float(rng.choice([0.5, 0.6, 0.7, 0.8, 0.99]))
    cap = PosteriorCap.of(limit, views, np.ones(values, dtype=np.int64))
    barred = np.eye(values, dtype=bool)[problem.true] & ~problem.may_stay[:, None]
    if values > 2 and rng.random() < 0.5:
        other = (problem.true + 1) % values
        some = rng.random(units) < 0.5
        barred |= np.eye(values, dtype=bool)[other] & (some & ~problem.may_stay)[:, None]
    return replace(problem, cap=cap, barred=barred)


def every_lawful_assignment(problem: Exchange, drift: int) -> tuple[int, float] | None:
    """The least drift above what is allowed, and the least cost with it, over all assignments that
    meet the limit; None if there is none.
    """
    best: tuple[int, float] | None = None
    free = problem.may_stay
    assert problem.cap is not None and problem.barred is not None
    for choice in product(range(problem.values), repeat=problem.units):
        assigned = np.array(choice, dtype=int)
        if problem.barred[np.arange(problem.units), assigned].any():
            continue
        if (assigned != problem.true)[free].sum() != problem.changes:
            continue
        for view in problem.cap.views:
            for shown in set(view[assigned[free]].tolist()):
                true = view[problem.true[free][view[assigned[free]] == shown]]
                if np.bincount(true).max() > problem.cap.limit * len(true) + 1e-9:
                    break
            else:
                continue
            break
        else:
            found = (max(drift, problem.drift(assigned)), problem.cost(assigned))
            best = found if best is None else min(best, found)
    return best


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), units=st.integers(3, 7), values=st.integers(2, 3))
def test_the_optimum_under_a_limit_is_the_least_over_all_that_keep_it(
    seed: int, units: int, values: int
) -> None:
    problem = limited(seed, units, values)
    wanted = every_lawful_assignment(problem, 0)
    if wanted is None:
        with pytest.raises(PrivacyError, match="keeps every guess at most"):
            solve(problem)
        return
    found = solve(problem)
    assert (found.drift, least_drift(problem)) == (wanted[0], wanted[0])
    assert found.objective == pytest.approx(wanted[1], abs=1e-9)
    assert found.optimal and found.bound <= found.objective + 1e-9
    looser = every_lawful_assignment(problem, wanted[0] + 4)
    assert looser is not None
    assert solve(problem, drift=wanted[0] + 4).objective == pytest.approx(looser[1], abs=1e-9)


@pytest.mark.parametrize("limit", [0.72, 0.74])
def test_a_limit_on_a_large_problem_is_kept_and_the_optimum_proved(limit: float) -> None:
    rng = np.random.default_rng(4)
    true = (rng.random(20_000) < 0.3).astype(np.intp)
    chance = rng.beta(1, 1 + 2 * (1 - true))
    problem = Exchange(
        np.stack([1 - chance, chance], axis=1), true, rng.random(20_000) < 0.9, 6_000
    )
    holders = np.bincount(true[problem.may_stay])
    capped = replace(problem, cap=PosteriorCap.of(limit, [np.arange(2)], holders))
    found = solve(capped, drift=20_000)
    flows = capped.flows(found.assigned)
    assert (flows <= limit * flows.sum(axis=0) + 1e-6).all()
    assert found.optimal and found.gap < 0.01
    without = solve(problem, drift=20_000)
    flows = problem.flows(without.assigned)
    assert (flows > limit * flows.sum(axis=0)).any(), "the limit does not bind: no test of it"
    assert without.objective < found.objective


@pytest.mark.parametrize("seed", range(6))
def test_where_the_nearest_ties_do_not_prove_it_more_are_settled(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    problem = exchange(120, 4, seed, coarse=seed % 2 == 0)
    wanted = solve(problem)
    limits: list[str] = []
    monkeypatch.setattr("sfumato.publish.exchange.FIRST_CHOICES", 1)
    found = solve(problem, progress=lambda words, _: limits.append(words))
    assert found.objective == pytest.approx(wanted.objective, abs=1e-9) and found.optimal
    settled = [int(words.split()[2]) for words in limits if words.startswith("settling")]
    assert settled == [8**step for step in range(len(settled))]
