"""Maximum likelihood judged by what defines it: no feasible direction raises the likelihood; brute
force agrees.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.channels import Dense, Distribution, Product, Retain
from sfumato.errors import ConvergenceWarning
from sfumato.estimation.likelihood import (
    _in_blocks,
    clip_and_scale,
    maximum_likelihood,
    project_simplex,
    retain_maximum,
)


def optimality_gap(channel, counts, value) -> float:
    """The most that one report's log-likelihood could still gain (0 at the maximum, by
    concavity).
    """
    shares = counts / counts.sum()
    return float(channel.adjoint(shares / channel.apply(value / counts.sum())).max() - 1)


@given(
    st.lists(st.integers(0, 200), min_size=2, max_size=12).filter(any),
    st.floats(0.02, 0.98),
    st.integers(0, 10**6),
)
def test_the_closed_form_for_retain_channels_is_optimal(counts, keep, seed):
    masses = np.random.default_rng(seed).dirichlet(np.ones(len(counts)))
    channel, counts = (
        Retain(keep, (Distribution(len(counts), masses),)),
        np.array(counts, dtype=float),
    )
    value = retain_maximum(channel, counts)
    assert value.min() >= 0 and np.isclose(value.sum(), counts.sum())
    assert optimality_gap(channel, counts, value) < 1e-6


@given(st.lists(st.integers(1, 200), min_size=6, max_size=6), st.integers(0, 10**6))
def test_accelerated_iterative_bayes_reaches_its_stated_tolerance(counts, seed):
    rng = np.random.default_rng(seed)
    channel = Product.of(
        Dense.square(0.5 * np.eye(3) + 0.5 * rng.dirichlet(np.ones(3), 3).T), Retain.flip(0.9, 0.75)
    )
    counts = np.array(counts, dtype=float).reshape(3, 2)
    found = maximum_likelihood(channel, counts)
    assert found.converged and found.gap <= 1e-9
    assert found.value.min() >= 0 and np.isclose(found.value.sum(), counts.sum())
    assert optimality_gap(channel, counts, found.value) <= 2e-9


def test_it_agrees_with_the_inversion_where_that_is_not_negative():
    channel = Product.of(Retain.uniform(0.3, (4,)), Retain.flip(0.8, 0.7))
    truth = np.arange(1.0, 9.0).reshape(4, 2) * 100
    counts = channel.apply(truth)
    assert np.allclose(maximum_likelihood(channel, counts).value, truth, rtol=1e-3)
    retain = Retain.uniform(0.1, (5, 4))
    whole = np.linspace(10, 200, 20).reshape(5, 4)
    assert np.allclose(maximum_likelihood(retain, retain.apply(whole)).value, whole)


def test_the_closed_form_and_the_iteration_agree():
    retain = Retain.uniform(0.2, (3, 4))
    counts = np.random.default_rng(3).integers(0, 100, (3, 4)).astype(float)
    dense = Dense(retain.to_dense(), (3, 4), (3, 4))
    assert np.allclose(
        maximum_likelihood(retain, counts).value, maximum_likelihood(dense, counts).value, atol=0.05
    )


def test_stopping_early_warns_with_the_figures():
    channel = Product.of(Retain.flip(0.55, 0.55), Retain.flip(0.55, 0.55), Retain.flip(0.55, 0.55))
    counts = np.random.default_rng(1).integers(1, 1000, (2, 2, 2)).astype(float)
    with pytest.warns(ConvergenceWarning, match="stopped after 6 steps"):
        found = maximum_likelihood(channel, counts, steps=4)
    assert not found.converged and found.gap > 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert maximum_likelihood(channel, counts).converged


def test_no_reports_give_no_counts():
    found = maximum_likelihood(Retain.uniform(0.5, (3,)), np.zeros(3))
    assert found.converged and not found.value.any()


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(0.1, 100))
def test_the_projection_is_nearer_than_any_other_point_of_the_simplex(counts, total):
    counts = np.array(counts)
    nearest = project_simplex(counts, total)
    assert nearest.min() >= 0 and np.isclose(nearest.sum(), total)
    others = np.random.default_rng(0).dirichlet(np.ones(len(counts)), 200) * total
    assert ((others - counts) ** 2).sum(axis=1).min() >= ((nearest - counts) ** 2).sum() - 1e-6


def test_clip_and_scale_keeps_the_total_even_when_nothing_is_positive():
    assert clip_and_scale(np.array([-1.0, 3.0, 2.0])).tolist() == pytest.approx([0, 2.4, 1.6])
    assert clip_and_scale(np.array([-1.0, -3.0]), total=10).tolist() == [5.0, 5.0]


def test_small_factors_multiplied_out_are_the_same_channel() -> None:
    laws = [
        Distribution(size, np.arange(1.0, size + 1) / (size * (size + 1) / 2))
        for size in (2, 3, 2, 5, 7, 2)
    ]
    channel = Product.of(*(Retain(0.7, (law,)) for law in laws))
    blocks = _in_blocks(channel)
    assert blocks.inputs == (60, 14)
    counts = np.random.default_rng(1).random(channel.inputs)
    np.testing.assert_allclose(
        np.ravel(blocks.apply(counts.reshape(60, 14))), np.ravel(channel.apply(counts)), rtol=1e-12
    )
    np.testing.assert_allclose(
        np.ravel(blocks.adjoint(counts.reshape(60, 14))),
        np.ravel(channel.adjoint(counts)),
        rtol=1e-12,
    )
    large = Product.of(Retain.uniform(0.5, (100,)), Retain.uniform(0.5, (2,)))
    assert _in_blocks(large) is large
