"""Dense: square and tall matrices, merged only where the merged report depends on the merged truth
alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.laws import check_channel, close

from sfumato.channels import Dense, NotLumpableError, Retain
from sfumato.channels.conditioning import condition
from sfumato.domain import Category
from sfumato.errors import ParameterError
from sfumato.testing import amplification


def random_matrix(reports: int, truths: int, seed: int) -> np.ndarray:
    """A well-conditioned random column-stochastic matrix."""
    matrix = np.random.default_rng(seed).dirichlet(np.ones(reports), truths).T + np.eye(
        reports, truths
    )
    return matrix / matrix.sum(axis=0)


@given(size=st.integers(1, 7), seed=st.integers(0, 10**6))
def test_square(size: int, seed: int) -> None:
    matrix = random_matrix(size, size, seed)
    check_channel(Dense.square(matrix), matrix, seed)


@given(truths=st.integers(1, 4), extra=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_tall(truths: int, extra: int, seed: int) -> None:
    matrix = random_matrix(truths + extra, truths, seed)
    check_channel(Dense(matrix, (truths,), (truths + extra,)), matrix, seed)


@given(seed=st.integers(0, 10**6))
def test_several_axes_that_hang_together(seed: int) -> None:
    matrix = random_matrix(12, 12, seed)
    check_channel(Dense(matrix, (2, 3, 2), (2, 3, 2)), matrix, seed)


@given(seed=st.integers(0, 10**6))
def test_several_axes_with_marginals(seed: int) -> None:
    """A Kronecker product written out: every marginal exists, and is the product of its own
    factors.
    """
    matrix = np.kron(
        np.kron(random_matrix(2, 2, seed), random_matrix(3, 3, seed + 1)),
        random_matrix(2, 2, seed + 2),
    )
    channel = Dense(matrix, (2, 3, 2), (2, 3, 2))
    check_channel(channel, matrix, seed)
    close(channel.marginal([1]).to_dense(), random_matrix(3, 3, seed + 1))
    close(
        channel.marginal([2, 0]).to_dense(),
        np.kron(random_matrix(2, 2, seed + 2), random_matrix(2, 2, seed)),
    )


def test_gamma_diagonal_written_out_is_merged_like_retain() -> None:
    retain = Retain.uniform(0.3, (3, 4))
    dense = Dense(retain.to_dense(), (3, 4), (3, 4))
    attribute = Category("a", ("0", "1", "2", "3"))
    cells = [
        Category("b", ("0", "1", "2")).cells_by_values(["0", "2"]),
        attribute.cells_by_values(["1"], ["3"]),
    ]
    close(dense.coarsen(cells).to_dense(), retain.coarsen(cells).to_dense())
    assert amplification(dense) == pytest.approx(
        amplification(retain)
    ) and dense.condition == pytest.approx(condition(retain))


def test_cells_that_cannot_be_merged_are_refused() -> None:
    channel = Dense.square([[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]])
    with pytest.raises(NotLumpableError, match="depend on which of the merged values is true"):
        channel.coarsen([Category("a", ("0", "1", "2")).cells_by_values(["0", "1"])])
    tall = Dense(random_matrix(3, 2, 1), (2,), (3,))
    with pytest.raises(NotLumpableError):
        tall.marginal([0])


def test_a_zero_in_a_row_makes_gamma_infinite_and_an_empty_row_does_not() -> None:
    assert amplification(Dense.square([[1.0, 0.5], [0.0, 0.5]])) == float("inf")
    assert amplification(
        Dense(np.array([[0.6, 0.4], [0.4, 0.6], [0, 0]]), (2,), (3,))
    ) == pytest.approx(1.5)


def test_a_singular_matrix_applies_but_cannot_be_undone() -> None:
    channel = Dense.square([[0.5, 0.5], [0.5, 0.5]])
    close(channel.apply(np.array([3.0, 1.0])), np.array([2.0, 2.0]))
    assert channel.condition > 1e14 and channel.smallest_singular_value < 1e-14
    with pytest.raises(ParameterError, match="singular"):
        channel.solve(np.array([2.0, 2.0]))
    wide = Dense(np.array([[0.5, 0.2, 0.9], [0.5, 0.8, 0.1]]), (3,), (2,))
    assert wide.condition == float("inf")
    with pytest.raises(ParameterError, match="singular"):
        wide.solve(np.array([1.0, 1.0]))


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.5, 0.5], [0.6, 0.5]], "each column must sum to 1; column 1 sums to 1.1"),
        ([[1.2, 0.5], [-0.2, 0.5]], "row 2, column 1 is -0.2"),
        ([[float("inf"), 0.5], [0.5, 0.5]], "finite"),
    ],
)
def test_what_is_no_channel_is_refused(matrix: list[list[float]], words: str) -> None:
    with pytest.raises(ParameterError) as error:
        Dense.square(matrix)
    assert words in str(error.value)


def test_a_matrix_must_have_the_shape_it_claims() -> None:
    with pytest.raises(ParameterError, match="does not map"):
        Dense(np.eye(4), (2, 2), (3,))
