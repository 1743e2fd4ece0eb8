"""Retain: uniform, stated and settled laws, positive and negative keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.laws import check_channel, close

from sfumato.channels import Distribution, Retain
from sfumato.channels.channel import has_known_laws
from sfumato.channels.conditioning import condition
from sfumato.domain import Numeric
from sfumato.errors import EstimationError, ParameterError

keeps = st.floats(0.05, 0.999) | st.just(1.0)
sizes = st.lists(st.integers(1, 5), min_size=1, max_size=3)


def matrix(keep: float, masses: list[np.ndarray]) -> np.ndarray:
    """keep·I + (1-keep)·b·1ᵀ with b the Kronecker product of the masses."""
    b = np.ones(1)
    for vector in masses:
        b = np.kron(b, vector)
    return keep * np.eye(len(b)) + (1 - keep) * np.outer(b, np.ones(len(b)))


def random_masses(shape: list[int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.full(size, 3.0)) for size in shape]


@given(keep=keeps, shape=sizes, seed=st.integers(0, 10**6))
def test_uniform(keep: float, shape: list[int], seed: int) -> None:
    dense = matrix(keep, [np.full(size, 1 / size) for size in shape])
    check_channel(Retain.uniform(keep, shape), dense, seed)


@given(keep=keeps, shape=sizes, seed=st.integers(0, 10**6))
def test_stated_laws(keep: float, shape: list[int], seed: int) -> None:
    masses = random_masses(shape, seed)
    channel = Retain(keep, tuple(Distribution(len(vector), vector) for vector in masses))
    check_channel(channel, matrix(keep, masses), seed)


@given(
    share=st.floats(0.05, 0.999),
    shape=sizes.filter(lambda shape: max(shape) > 1),
    seed=st.integers(0, 10**6),
)
def test_negative_keep(share: float, shape: list[int], seed: int) -> None:
    """The most negative keep puts 0 on the diagonal at the least mass."""
    masses = random_masses(shape, seed)
    least = np.prod([vector.min() for vector in masses])
    keep = -share * least / (1 - least)
    if abs(keep) < 1e-3:
        return
    channel = Retain(keep, tuple(Distribution(len(vector), vector) for vector in masses))
    check_channel(channel, matrix(keep, masses), seed)


@given(ones=st.floats(0, 1), zeros=st.floats(0, 1), seed=st.integers(0, 99))
def test_one_flipped_bit(ones: float, zeros: float, seed: int) -> None:
    if (
        abs(ones + zeros - 1) < 0.02
        or (0 < min(ones, zeros) < 1e-6)
        or (1 - 1e-6 < max(ones, zeros) < 1)
    ):
        return
    check_channel(Retain.flip(ones, zeros), np.array([[zeros, 1 - ones], [1 - zeros, ones]]), seed)


@given(keep=keeps, shape=sizes, seed=st.integers(0, 10**6))
def test_own_law_settled_on_counts(keep: float, shape: list[int], seed: int) -> None:
    """Each axis takes the margin of the counts, whatever the others do; laws that are
    stated stay.
    """
    counts = np.random.default_rng(seed).uniform(1, 50, shape)
    laws = [
        Distribution(size, own=True) if place % 2 == 0 else Distribution(size)
        for place, size in enumerate(shape)
    ]
    margins = [
        counts.sum(axis=tuple(a for a in range(len(shape)) if a != place)) / counts.sum()
        if place % 2 == 0
        else np.full(size, 1 / size)
        for place, size in enumerate(shape)
    ]
    channel = Retain(keep, tuple(laws))
    assert not has_known_laws(channel)
    settled = channel.settle(counts)
    assert has_known_laws(settled) and settled.settle(counts * 2).drawn[0].masses is not None
    check_channel(settled, matrix(keep, margins), seed)


def test_settling_on_its_own_reports_leaves_a_single_column_unchanged() -> None:
    counts = np.array([70.0, 25, 5])
    close(Retain(0.3, (Distribution(3, own=True),)).settle(counts).solve(counts), counts)


def test_settling_on_no_reports_at_all_still_gives_a_channel() -> None:
    assert Retain(0.5, (Distribution(2, own=True),)).settle(np.zeros(2)).drawn[
        0
    ].vector().tolist() == [0.5, 0.5]


def test_merging_and_settling_commute() -> None:
    cells = Numeric("x", 0, 9).cells_by_cuts([3, 7])
    counts = np.arange(10.0)
    fine = Retain(0.4, (Distribution(10, own=True),)).settle(counts).coarsen([cells])
    coarse = Retain(0.4, (Distribution(10, own=True),)).coarsen([cells]).settle(cells.sum(counts))
    close(fine.to_dense(), coarse.to_dense())


def test_an_own_law_says_that_it_must_be_settled_first() -> None:
    with pytest.raises(EstimationError, match="settle the channel"):
        Retain(0.5, (Distribution(3, own=True),)).apply(np.ones(3))


def test_merging_a_fine_grid_never_writes_the_grid_down() -> None:
    number = Numeric("x", 0.0, 1.0, step=2.0**-31)
    channel = Retain.uniform(0.2, (number.size,)).coarsen([number.cells_by_cuts([0.25, 0.5])])
    close(channel.to_dense(), matrix(0.2, [np.array([0.25, 0.25, 0.5])]))


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (0, "keep=0 replaces every record, so nothing can be reconstructed; use 0 < keep <= 1"),
        (1.01, "not a probability"),
        (-0.9, "negative probabilities"),
    ],
)
def test_a_keep_that_is_none_is_refused(keep: float, words: str) -> None:
    with pytest.raises(ParameterError) as error:
        Retain.uniform(keep, (3,))
    assert words in str(error.value)


def test_marginal_of_gamma_diagonal_has_the_entries_of_theory() -> None:
    """n = 2000, γ = 19, m = 2: the inverse has 56.56 and -55.56 (FRAPP's eq. 29 is misprinted)."""
    channel = Retain.uniform(18 / 2018, (2, 1000)).marginal([0])
    inverse = np.linalg.inv(channel.to_dense())
    assert inverse.round(2).tolist() == [[56.56, -55.56], [-55.56, 56.56]]
    assert condition(Retain.uniform(18 / 2018, (2, 1000))) == pytest.approx(1 + 2000 / 18)
    assert condition(channel) == pytest.approx(1 + 2000 / 18)


def test_a_bit_that_is_never_flipped_is_as_it_is() -> None:
    assert Retain.flip(1.0, 1.0).to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_no_report_is_no_certainty() -> None:
    """Of a thousand million values hardly any report falls on one, whoever has it: that none did
    left 0 people with next to no error.
    """
    channel = Retain(2e-8, (Distribution(2, np.array([1e-9, 1 - 1e-9])),))
    weighed, _ = channel.variance_counts(np.array([0.0, 5000.0]))
    assert weighed == pytest.approx([5e-6, 5000])
    assert channel.inverse_squared(weighed)[0] > 1e5**2
    plenty = Retain.uniform(0.5, (4,))
    counts = np.array([0.0, 10, 10, 80])
    assert (plenty.variance_counts(counts)[0] == counts).all()  # there they are to be seen
