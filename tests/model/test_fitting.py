"""The penalised fit, judged by brute force over a small table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.model.problems import (
    ORDERED,
    QUESTIONS,
    SHAPE,
    TRUTH,
    answers,
    chances,
    likelihood,
)

from sfumato.channels import Retain
from sfumato.channels.contrasts import Interactions
from sfumato.channels.linear import Response
from sfumato.model.fitting import BOUNDS, FIRST_ORDER, SMOOTH, fit, learned, start_variances
from sfumato.model.local import LocalFits, likelihood_over
from sfumato.model.loglinear import Likelihood, LogLinear
from sfumato.model.measurement import Measurement, Reconstruction
from sfumato.model.reports import Answers


def by_hand(theta: np.ndarray, order: int) -> tuple[np.ndarray, Interactions]:
    """softmax(Φθ), written down once more."""
    interactions = Interactions.up_to(SHAPE, ORDERED, order)
    energy = interactions.features((0, 1, 2)).matrix @ theta
    law = np.exp(energy - energy.max())
    return law / law.sum(), interactions


def objective(theta: np.ndarray, reports: Answers, variances: np.ndarray, order: int) -> float:
    law, interactions = by_hand(theta, order)
    value = -0.5 * (interactions.degrees**SMOOTH / variances[interactions.blocks] * theta**2).sum()
    for place, question in enumerate(QUESTIONS):
        counts = reports.counts[place, : question.answers]
        value += counts @ np.log(chances(question, law))
    return -float(value)


@pytest.mark.parametrize("order", [2, 3])
def test_the_fit_is_the_maximum_by_brute_force(order: int) -> None:
    reports = answers(3000, np.random.default_rng(1))
    problem = likelihood(reports, order)
    variances = start_variances(problem)
    found = fit(problem, variances, learn=False)
    size = problem.family.interactions.size
    best = minimize(
        objective,
        np.zeros(size),
        (reports, variances, order),
        method="BFGS",
        options={"gtol": 1e-6, "maxiter": 2000},
    )
    np.testing.assert_allclose(found.law, by_hand(best.x, order)[0], atol=5e-6)
    assert found.converged


@pytest.mark.parametrize("order", [2, 3])
def test_gradient_and_information_by_differences(order: int) -> None:
    reports = answers(3000, np.random.default_rng(1))
    problem = likelihood(reports, order)
    size = problem.family.interactions.size
    theta = np.random.default_rng(3).normal(size=size) * 0.3
    gradient, information = problem.score(problem.family.law(theta))
    flat = np.full(len(problem.family.interactions.sets), 1e30)
    numeric, moved = np.empty(size), np.empty((sum(q.answers for q in QUESTIONS), size))
    for place in range(size):
        step = np.eye(size)[place] * 1e-6
        up, down = theta + step, theta - step
        numeric[place] = (
            objective(down, reports, flat, order) - objective(up, reports, flat, order)
        ) / 2e-6
        laws = by_hand(up, order)[0], by_hand(down, order)[0]
        moved[:, place] = np.concatenate(
            [(chances(q, laws[0]) - chances(q, laws[1])) / 2e-6 for q in QUESTIONS]
        )
    law = by_hand(theta, order)[0]
    weights = np.concatenate(
        [reports.counts[place].sum() / chances(q, law) for place, q in enumerate(QUESTIONS)]
    )
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(
        information, moved.T @ (weights[:, None] * moved), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("public", [1, 2])
def test_the_curvature_is_how_the_gradient_falls(order: int, public: int) -> None:
    """By differences, for answers about parts, about the whole, and with a public column."""
    reports = answers(3000, np.random.default_rng(1))
    rng = np.random.default_rng(4)
    whole = Measurement.counted(
        (0, 1, 2), Retain.uniform(0.5, SHAPE), rng.multinomial(500, TRUTH).reshape(SHAPE)
    )
    known = [p for p in reports.measurements((0, 1, 2)) if public == 1 or p.axes == (1, 2)]
    sets = Interactions.up_to(SHAPE, ORDERED, order).sets[public - 1 :]
    masses = np.array([1.0]) if public == 1 else np.array([0.3, 0.7])
    family = LogLinear(Interactions(SHAPE, ORDERED, sets), masses)
    problem = Likelihood.of(family, (*known, whole))
    theta = rng.normal(size=family.interactions.size) * 0.3
    gradient, falls = problem.curvature(family.law(theta))
    np.testing.assert_allclose(gradient, problem.score(family.law(theta))[0], rtol=1e-9)
    steps = np.eye(len(theta)) * 1e-5
    numeric = [
        (problem.score(family.law(theta - step))[0] - problem.score(family.law(theta + step))[0])
        / 2e-5
        for step in steps
    ]
    np.testing.assert_allclose(falls, numeric, rtol=1e-4, atol=1e-3)


def test_features_are_summed_axis_by_axis_as_if_written_down() -> None:
    interactions = Interactions.up_to(SHAPE, ORDERED, 2)
    matrix = interactions.features((0, 1, 2)).matrix
    rng = np.random.default_rng(3)
    table, theta = rng.normal(size=(24, 5)), rng.normal(size=(interactions.size, 2))
    np.testing.assert_allclose(interactions.means(table), matrix.T @ table, atol=1e-12)
    np.testing.assert_allclose(interactions.energies(theta), matrix @ theta, atol=1e-12)


def test_small_blocks_say_together_what_they_say_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = answers(3000, np.random.default_rng(1))
    law = likelihood(reports, 2).family.law(np.full(17, 0.1))
    together = likelihood(reports, 2).score(law)
    monkeypatch.setattr("sfumato.channels.linear.STACKED", 0)
    apart = likelihood(reports, 2)
    assert len(apart.parts.design.blocks) > 1
    for one, other in zip(together, apart.score(law), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_what_is_expected_of_a_law_of_the_family_is_fitted_exactly() -> None:
    law = by_hand(np.random.default_rng(5).normal(size=17) * 0.4, 2)[0]
    problem = likelihood(answers(1e9, law=law), 2)
    np.testing.assert_allclose(fit(problem).law, law, rtol=1e-3)


def test_variances_rest_where_learning_stopped() -> None:
    problem = likelihood(answers(20_000, np.random.default_rng(2)), 3)
    found = fit(problem)
    assert found.converged
    orders = problem.family.interactions.orders
    assert (found.variances[orders == 1] == FIRST_ORDER).all()
    assert np.abs(np.log(learned([found]) / found.variances)).max() < 0.1
    assert (found.variances >= BOUNDS[0]).all() and (found.variances <= BOUNDS[1]).all()


def test_an_interaction_that_is_not_there_is_shrunk_and_one_that_is_stays() -> None:
    shape = (3, 3, 3)
    law = np.ones(shape) / 27
    law[np.arange(3), :, np.arange(3)] *= 4  # columns 0 and 2 go together
    law /= law.sum()
    interactions = Interactions.up_to(shape, (False,) * 3, 2)
    rng = np.random.default_rng(4)
    measured = []
    for axes, rest in (((0, 1), 2), ((0, 2), 1), ((1, 2), 0)):
        counts = rng.multinomial(4000, 0.5 * law.sum(axis=rest).ravel() + 0.5 / 9)
        measured.append(Measurement.answered(axes, counts, Response(0.5, 0.5 / 9, 9)))
    found = fit(Likelihood.of(LogLinear(interactions, np.ones(1)), tuple(measured)))
    variance = dict(zip(interactions.sets, found.variances, strict=True))
    assert variance[0, 2] > 8 * variance[0, 1] and variance[0, 2] > 8 * variance[1, 2]


def test_the_same_reports_give_the_same_fit() -> None:
    first, second = (fit(likelihood(answers(3000, np.random.default_rng(6)), 3)) for _ in range(2))
    assert np.array_equal(first.theta, second.theta)


def test_the_margin_of_public_columns_is_held_fixed() -> None:
    rng = np.random.default_rng(8)
    law = rng.dirichlet(np.ones(12)).reshape(2, 6)
    counts = np.stack(
        [
            rng.multinomial(n, 0.6 * row / row.sum() + 0.4 / 6)
            for n, row in zip((3000, 1000), law, strict=True)
        ]
    )
    part = Measurement.answered((0, 1), counts, Response(0.6, 0.4 / 6, 6))
    sets = ((1,), (0, 1))
    family = LogLinear(Interactions((2, 6), (False, False), sets), np.array([0.75, 0.25]))
    found = fit(Likelihood.of(family, (part,)), np.array([4.0, 4.0]), learn=False)
    np.testing.assert_allclose(found.law.reshape(2, 6).sum(axis=1), [0.75, 0.25])
    unbiased = (counts / counts.sum(axis=1, keepdims=True) - 0.4 / 6) / 0.6
    given = found.law.reshape(2, 6) / np.array([[0.75], [0.25]])
    assert np.abs(given - unbiased).max() < 0.03


def test_a_table_of_all_columns_is_measured_as_any_marginal() -> None:
    """Gamma-diagonal over the whole table, and the same reports as a reconstruction."""
    rng = np.random.default_rng(9)
    channel = Retain.uniform(0.5, SHAPE)
    tally = rng.multinomial(20_000, channel.apply(TRUTH.reshape(SHAPE)).ravel()).reshape(SHAPE)
    family = LogLinear(Interactions.up_to(SHAPE, ORDERED, 3), np.ones(1))
    whole = Measurement.counted((0, 1, 2), channel, tally)
    direct = fit(Likelihood.of(family, (whole,)))
    shares = channel.solve(tally).ravel() / 20_000
    spread = np.diag(tally.ravel() / 20_000) - np.outer(tally, tally) / 20_000**2
    undone = channel.solve(spread.reshape(*SHAPE, -1)).reshape(24, 24)
    covariance = channel.solve(undone.T.reshape(*SHAPE, -1)).reshape(24, 24) / 20_000
    normal = fit(Likelihood.of(family, (Reconstruction((0, 1, 2), shares, covariance, 20_000),)))
    np.testing.assert_allclose(direct.law, normal.law, atol=0.004)
    assert np.abs(direct.law - TRUTH).mean() < 0.9 * np.abs(shares - TRUTH).mean()


def test_what_questions_say_of_a_few_columns_is_exact() -> None:
    """The projected likelihood: answers summed to the asked columns have the
    probabilities stated.
    """
    reports = answers(1e6)
    for axes in ((0,), (2,), (0, 1), (1, 2)):
        rest = tuple(axis for axis in range(3) if axis not in axes)
        marginal = TRUTH.reshape(SHAPE).sum(axis=rest).ravel()
        answered = reports._answered(axes)
        assert sum(part.people for part in answered) > 2.9e5
        for part in (*answered, *reports.measurements(axes)):
            if isinstance(part, Reconstruction):  # folded questions beside others speak there too
                np.testing.assert_allclose(part.shares, marginal, atol=1e-6)
                continue
            own = marginal.reshape([SHAPE[axis] for axis in axes])
            gone = tuple(place for place in range(len(axes)) if place not in part.axes)
            expected = part.response.apply(own.sum(axis=gone).ravel())
            np.testing.assert_allclose(part.counts / part.people, expected)
            weights = np.random.default_rng(1).normal(size=len(expected))
            seen = own.sum(axis=gone).ravel()
            assert weights @ expected == pytest.approx(part.response.adjoint(weights) @ seen)


def test_local_fits_agree_with_the_fit_of_all_columns() -> None:
    reports = answers(1e8, law=by_hand(np.random.default_rng(5).normal(size=17) * 0.3, 2)[0])
    whole = fit(likelihood_over(reports, (0, 1, 2), 2)).law.reshape(SHAPE)
    local = LocalFits(reports)
    assert set(local.pairs) == {(0, 1), (0, 2), (1, 2)}
    for axes, rest in (((0, 1), 2), ((1, 2), 0)):
        np.testing.assert_allclose(local.fit(axes).law, whole.sum(axis=rest).ravel(), atol=2e-4)


def test_a_fit_that_is_stopped_early_says_so() -> None:
    from sfumato.model.fitting import _ascend, _at

    problem = likelihood(answers(3000, np.random.default_rng(1)), 3)
    size = problem.family.interactions.size
    assert not _ascend(_at(problem, np.zeros(size), start_variances(problem)), 1).converged


def test_a_folded_response_is_its_matrix() -> None:
    """Sums by answer against the matrix written down, an answer that no cell gives included."""
    groups = (2, 0, 2, 3, 0, 5)
    told = Measurement.answered((0, 1, 2), np.ones(12), Response(0.5, 0.1, 6, groups))
    matrix = np.kron(np.eye(2), 0.5 * (np.arange(6)[:, None] == groups) + 0.1)
    cells = np.random.default_rng(1).random((12, 3))
    np.testing.assert_allclose(told.response.apply(cells), matrix @ cells)
    np.testing.assert_allclose(told.response.apply(cells[:, 0]), matrix @ cells[:, 0])
    np.testing.assert_allclose(told.response.adjoint(cells[:, 1]), matrix.T @ cells[:, 1])
