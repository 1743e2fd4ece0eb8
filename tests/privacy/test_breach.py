"""Posteriors against dense matrices, OLAP's breach theorems against every set of small domains,
RAN-GD against its average.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.privacy import breach
from sfumato.privacy.guarantee import Guarantee

KEEPS = st.floats(0.01, 0.99)


def random_distribution(seed: int, cells: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(cells, 0.5))


def random_channel(seed: int, cells: int, reports: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(reports), size=cells).T


def gamma_diagonal(gamma: float, cells: int) -> np.ndarray:
    return (np.ones((cells, cells)) + (gamma - 1) * np.eye(cells)) / (gamma + cells - 1)


def retention(keep: float, law: np.ndarray) -> np.ndarray:
    return keep * np.eye(law.size) + (1 - keep) * law[:, np.newaxis]


def subsets(cells: int) -> list[np.ndarray]:
    """Every set of values except none and all."""
    return [np.array(bits, dtype=bool) for bits in itertools.product([0, 1], repeat=cells)][1:-1]


class Applying:
    """A channel that can only be applied, over a domain with two axes."""

    def __init__(self, dense: np.ndarray, inputs: tuple[int, ...]) -> None:
        self.dense, self.inputs = dense, inputs

    def apply(self, counts: np.ndarray) -> np.ndarray:
        assert counts.shape == self.inputs
        return self.dense @ counts.ravel()


@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(2, 6), reports=st.integers(2, 7))
def test_posterior_is_bayes_rule_on_the_joint_distribution(
    seed: int, cells: int, reports: int
) -> None:
    prior, channel = random_distribution(seed, cells), random_channel(seed + 1, cells, reports)
    joint = channel * prior
    for holds in subsets(cells):
        expected = joint[:, holds].sum(axis=1) / joint.sum(axis=1)
        np.testing.assert_allclose(breach.posterior(prior, channel, holds), expected, rtol=1e-12)


def test_posterior_needs_only_apply() -> None:
    prior, dense = random_distribution(1, 6), random_channel(2, 6, 4)
    holds = np.array([[True, False, False], [False, True, True]])
    got = breach.posterior(prior.reshape(2, 3), Applying(dense, (2, 3)), holds)
    np.testing.assert_allclose(got, breach.posterior(prior, dense, holds.ravel()))


def test_a_report_that_cannot_occur_has_no_posterior() -> None:
    channel = np.array([[0.5, 0.5], [0.0, 0.0], [0.5, 0.5]])
    after = breach.posterior([0.3, 0.7], channel, [True, False])
    assert np.isnan(after[1])
    assert breach.belief([0.3, 0.7], channel, [True, False]) == breach.Belief(0.3, 0.3, 0.3)


@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(2, 6), gamma=st.floats(1.5, 50))
def test_no_prior_and_property_exceeds_the_worst_posterior(
    seed: int, cells: int, gamma: float
) -> None:
    prior, promise = random_distribution(seed, cells), Guarantee(gamma)
    for holds in subsets(cells):
        believed = breach.belief(prior, gamma_diagonal(gamma, cells), holds)
        assert believed.highest <= promise.worst_posterior(min(believed.prior, 1.0)) + 1e-9
        assert believed.lowest >= promise.least_posterior(min(believed.prior, 1.0)) - 1e-9


def test_the_worst_posterior_is_reached_by_a_two_point_prior() -> None:
    prior = np.zeros(2000)
    prior[:2] = 0.05, 0.95
    believed = breach.belief(prior, gamma_diagonal(19, 2000), np.arange(2000) == 0)
    assert believed.highest == pytest.approx(0.5)
    assert believed.breached_upward(0.05, 0.5 - 1e-9)
    assert not believed.breached_upward(0.05, 0.51)
    opposite = breach.belief(prior, gamma_diagonal(19, 2000), np.arange(2000) != 0)
    assert opposite.breached_downward(0.5 + 1e-9, 0.95)
    assert not opposite.breached_downward(0.49, 0.95)


def test_theory_section_1_one_column() -> None:
    assert breach.safe_relative_prior(0.2, 0.1, 0.95) == pytest.approx(68)
    assert breach.safe_prior(1, 0.2, 0.95) == pytest.approx(0.9375)
    assert breach.safe_relative_prior(0.2, 0.9375, 0.95) == pytest.approx(1)
    assert breach.safe_identity_prior(0.2, 0.95) == pytest.approx((0.95 - 0.2) / (1 - 0.2))


def test_theory_section_1_two_columns() -> None:
    assert breach.safe_relative_prior_of_columns(0.2, 0.1, 0.95, [0, 0]) == pytest.approx(273.6)
    assert breach.safe_relative_prior_of_columns(0.2, 0.1, 0.95, [1e-6, 1e-6]) == pytest.approx(
        273.6, rel=1e-4
    )


def given_reported_inside(prior: np.ndarray, channel: np.ndarray, box: np.ndarray) -> float:
    joint = channel * prior
    return float(joint[np.ix_(box, box)].sum() / joint[box].sum())


@given(seed=st.integers(0, 2**32 - 1), keep=KEEPS)
def test_retention_posterior_is_exact_for_any_law(seed: int, keep: float) -> None:
    prior, law = random_distribution(seed, 5), random_distribution(seed + 1, 5)
    channel = retention(keep, law)
    for holds in subsets(5):
        assume(law[holds].sum() > 1e-12)
        exact = given_reported_inside(prior, channel, holds)
        share, mass = min(prior[holds].sum(), 1.0), min(law[holds].sum(), 1.0)
        assert breach.retention_posterior(share, keep, mass) == pytest.approx(exact, rel=1e-9)


@given(
    seed=st.integers(0, 2**32 - 1), keep=KEEPS, rho1=st.floats(0.05, 0.9), gap=st.floats(0.01, 0.99)
)
def test_below_the_safe_relative_prior_no_set_is_breached(
    seed: int, keep: float, rho1: float, gap: float
) -> None:
    rho2 = rho1 + gap * (0.99 - rho1)
    prior = random_distribution(seed, 6)
    for law in (np.full(6, 1 / 6), prior, random_distribution(seed + 1, 6)):
        safe = breach.safe_relative_prior(keep, rho1, rho2)
        for holds in subsets(6):
            if prior[holds].sum() <= rho1 and breach.relative_prior(prior, law, holds) < safe * (
                1 - 1e-9
            ):
                assert given_reported_inside(prior, retention(keep, law), holds) < rho2


def test_the_safe_relative_prior_cannot_be_raised() -> None:
    """A set with p_S = rho1 right at the bound reaches rho2, so the theorem is tight."""
    keep, rho1, rho2 = 0.2, 0.1, 0.95
    mass = rho1 / breach.safe_relative_prior(keep, rho1, rho2)
    assert breach.retention_posterior(rho1, keep, mass) == pytest.approx(rho2)
    assert breach.retention_posterior(rho1, keep, mass / 1.05) > rho2


@given(
    seed=st.integers(0, 2**32 - 1), keep=KEEPS, rho1=st.floats(0.05, 0.9), gap=st.floats(0.01, 0.99)
)
def test_two_columns_below_the_bound_are_not_breached(
    seed: int, keep: float, rho1: float, gap: float
) -> None:
    rho2 = rho1 + gap * (0.99 - rho1)
    prior, laws = (
        random_distribution(seed, 9),
        [random_distribution(seed + part, 3) for part in (1, 2)],
    )
    channel = np.kron(retention(keep, laws[0]), retention(keep, laws[1]))
    for left, right in itertools.product(subsets(3), repeat=2):
        box = np.outer(left, right).ravel()
        masses = [
            float(min(law[side].sum(), 1.0)) for law, side in zip(laws, (left, right), strict=True)
        ]
        if min(masses) < 1e-9 or prior[box].sum() > rho1:
            continue
        safe = breach.safe_relative_prior_of_columns(keep, rho1, rho2, masses)
        if prior[box].sum() / math.prod(masses) < safe * (1 - 1e-9):
            assert given_reported_inside(prior, channel, box) < rho2


@given(seed=st.integers(0, 2**32 - 1), keep=KEEPS)
def test_identity_replacement_is_safe_below_its_prior_whatever_the_set(
    seed: int, keep: float
) -> None:
    prior, rho2 = random_distribution(seed, 6), 0.95
    for holds in subsets(6):
        assume(prior[holds].sum() > 1e-12)
        if prior[holds].sum() < breach.safe_identity_prior(keep, rho2) - 1e-9:
            assert given_reported_inside(prior, retention(keep, prior), holds) < rho2


@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(2, 7))
def test_the_median_relative_prior_is_one(seed: int, cells: int) -> None:
    prior, law = random_distribution(seed, cells), np.full(cells, 1 / cells)
    ratios = [breach.relative_prior(prior, law, holds) for holds in subsets(cells)]
    assert sum(ratio <= 1 + 1e-9 for ratio in ratios) >= len(ratios) / 2
    assert sum(ratio >= 1 - 1e-9 for ratio in ratios) >= len(ratios) / 2


def test_relative_prior_of_a_set_that_is_never_drawn() -> None:
    assert breach.relative_prior([0.5, 0.5], [1.0, 0.0], [False, True]) == math.inf


@given(s=st.floats(0.01, 100), rho1=st.floats(0.01, 0.9), gap=st.floats(0.01, 0.99))
def test_largest_keep_inverts_the_theorems(s: float, rho1: float, gap: float) -> None:
    rho2 = rho1 + gap * (0.99 - rho1)
    one = breach.largest_keep(s, rho1, rho2)
    assert breach.safe_relative_prior(one, rho1, rho2) == pytest.approx(s)
    masses = [0.1, 0.2]
    two = breach.largest_keep_of_columns(s, rho1, rho2, masses)
    if two:
        assert breach.safe_relative_prior_of_columns(two, rho1, rho2, masses) > s
        assert breach.safe_relative_prior_of_columns(
            two * (1 + 1e-9), rho1, rho2, masses
        ) == pytest.approx(s)


def test_no_keep_is_safe_for_a_set_that_is_too_common() -> None:
    assert breach.largest_keep_of_columns(1000, 0.5, 0.6, [0.5, 0.5]) == 0


@pytest.mark.parametrize(("columns", "largest"), [(2, 15), (3, 30)])
def test_olap_figures_13_and_14(columns: int, largest: float) -> None:
    """At rho1 = 0.5, rho2 = 0.95 and ten intervals a column, rare sets allow 0.8 and the commonest
    0.3, as the text says.
    """
    masses = [0.1] * columns
    assert breach.largest_keep_of_columns(0.1, 0.5, 0.95, masses) >= 0.8
    assert breach.largest_keep_of_columns(largest, 0.5, 0.95, masses) >= 0.3
    curve = [
        breach.largest_keep_of_columns(largest, rho1, 0.95, masses)
        for rho1 in np.arange(0.1, 0.95, 0.1)
    ]
    assert curve == sorted(curve, reverse=True)


def test_ran_gd_determinable_range() -> None:
    low, high = breach.determinable_range(0.05, 19, 2000, spread=19 / 2018 / 2)
    assert (round(low, 3), round(high, 3)) == (0.332, 0.601)
    assert breach.determinable_range(0.05, 19, 2000, spread=0) == pytest.approx((0.5, 0.5))


def test_ran_gd_averaged_over_its_draws_is_the_gamma_diagonal_matrix() -> None:
    """To a miner who knows the law of r nothing is gained: averaging the matrices gives the
    posterior at r = 0.
    """
    cells, gamma = 20, 19.0
    x = 1 / (gamma + cells - 1)
    draws = np.linspace(-gamma * x / 2, gamma * x / 2, 101)
    off = [x - r / (cells - 1) for r in draws]
    matrices = [
        np.full((cells, cells), o) + (gamma * x + r - o) * np.eye(cells)
        for r, o in zip(draws, off, strict=True)
    ]
    np.testing.assert_allclose(np.mean(matrices, axis=0), gamma_diagonal(gamma, cells))
    assert breach.revealed_gamma(gamma, cells, gamma * x / 2) == pytest.approx(
        max(max(m.max(), 0) / m.min() for m in matrices)
    )


def test_ran_gd_revealed_at_full_spread_promises_nothing() -> None:
    x = 1 / (19 + 1999)
    assert breach.revealed_gamma(19, 2000, spread=19 * x) == math.inf
    assert breach.revealed_gamma(19, 2000, spread=0) == pytest.approx(19)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: breach.posterior([0.5, 0.6], np.eye(2), [True, False]), "prior sums to 1.1"),
        (
            lambda: breach.posterior([0.5, 0.5], np.eye(3), [True, False]),
            r"shape \(3, 3\) does not fit a prior of 2",
        ),
        (lambda: breach.posterior([0.5, 0.5], np.eye(2), [True]), "the property covers"),
        (lambda: breach.safe_relative_prior(0.2, 0.95, 0.1), "rho2=0.1 is not above rho1=0.95"),
        (
            lambda: breach.safe_relative_prior(0.0, 0.1, 0.95),
            "keep=0.0 must lie strictly between 0 and 1",
        ),
        (lambda: breach.largest_keep(0, 0.1, 0.95), "relative_prior=0 must be above 0"),
        (lambda: breach.safe_relative_prior_of_columns(0.2, 0.1, 0.95, []), "no column is given"),
        (lambda: breach.safe_relative_prior_of_columns(0.2, 0.1, 0.95, [1.5]), "masses holds 1.5"),
        (
            lambda: breach.determinable_range(0.05, 19, 2000, spread=0.5),
            "spread=0.5 would make a probability negative",
        ),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
