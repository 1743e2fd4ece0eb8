"""Posteriors against dense matrices, OLAP's breach theorems against every set of small domains,
RAN-GD against its average.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers import breach
from papers.probability import probabilities
from sfumato.errors import ParameterError
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


def test_theory_section_1_two_columns() -> None:
    assert breach.safe_relative_prior_of_columns(0.2, 0.1, 0.95, [0, 0]) == pytest.approx(273.6)
    assert breach.safe_relative_prior_of_columns(0.2, 0.1, 0.95, [1e-6, 1e-6]) == pytest.approx(
        273.6, rel=1e-4
    )


def given_reported_inside(prior: np.ndarray, channel: np.ndarray, box: np.ndarray) -> float:
    joint = channel * prior
    return float(joint[np.ix_(box, box)].sum() / joint[box].sum())


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


@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(2, 7))
def test_the_median_relative_prior_is_one(seed: int, cells: int) -> None:
    prior, law = random_distribution(seed, cells), np.full(cells, 1 / cells)
    ratios = [breach.relative_prior(prior, law, holds) for holds in subsets(cells)]
    assert sum(ratio <= 1 + 1e-9 for ratio in ratios) >= len(ratios) / 2
    assert sum(ratio >= 1 - 1e-9 for ratio in ratios) >= len(ratios) / 2


def test_relative_prior_of_a_set_that_is_never_drawn() -> None:
    assert breach.relative_prior([0.5, 0.5], [1.0, 0.0], [False, True]) == math.inf


@given(s=st.floats(0.01, 100), rho1=st.floats(0.01, 0.9), gap=st.floats(0.01, 0.99))
def test_the_largest_keep_inverts_the_theorem(s: float, rho1: float, gap: float) -> None:
    rho2 = rho1 + gap * (0.99 - rho1)
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: breach.posterior([0.5, 0.6], np.eye(2), [True, False]), "prior sums to 1.1"),
        (
            lambda: breach.posterior([0.5, 0.5], np.eye(3), [True, False]),
            r"shape \(3, 3\) does not fit a prior of 2",
        ),
        (lambda: breach.posterior([0.5, 0.5], np.eye(2), [True]), "the property covers"),
        (
            lambda: breach.largest_keep_of_columns(2, 0.95, 0.1, [0.1]),
            "rho2=0.1 is not above rho1=0.95",
        ),
        (
            lambda: breach.largest_keep_of_columns(0, 0.1, 0.95, [0.1]),
            "relative_prior=0 must be above 0",
        ),
        (lambda: breach.safe_relative_prior_of_columns(0.2, 0.1, 0.95, []), "no column is given"),
        (lambda: breach.safe_relative_prior_of_columns(0.2, 0.1, 0.95, [1.5]), "masses holds 1.5"),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_the_number_that_is_no_probability_is_named():
    for values, named in (
        ([0.5, 1.5, 0.2], "1.5"),
        ([0.5, -0.25], "-0.25"),
        ([0.1, np.nan], "nan"),
    ):
        with pytest.raises(ParameterError, match=f"holds {named}, which is not a probability"):
            probabilities("support", values)
