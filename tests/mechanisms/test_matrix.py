"""User matrices: read, checked, rounded, sampled; refused with the reason where nothing can be
reconstructed.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.examples import AGE, PET, RANDOM_MATRIX, RECORD, SEX
from tests.mechanisms.test_gamma_diagonal import domain_of

from sfumato.channels import NotLumpableError
from sfumato.domain import Domain
from sfumato.errors import FileError, ParameterError, PrivacyError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.matrix import UserMatrix, read_matrix
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream

COIN = Domain((SEX,))


@given(seed=st.integers(0, 10**6), size=st.integers(2, 7))
def test_the_guarantee_is_that_of_the_integers_and_near_that_of_the_matrix(
    seed: int, size: int
) -> None:
    matrix = np.random.default_rng(seed).dirichlet(np.ones(size), size).T + np.eye(size)
    matrix /= matrix.sum(axis=0)
    mechanism = UserMatrix(domain_of(size), matrix)
    weights = mechanism.weights.tolist()
    assert [sum(column) for column in zip(*weights, strict=True)] == [1 << 32] * size
    exact = max(Fraction(a, b) for row in weights for a in row for b in row)
    assert mechanism.guarantee.gamma == exact
    assert np.abs(mechanism.matrix - matrix).max() < size * 2.0**-32


def test_every_boundary_of_the_cumulative_table_falls_where_it_should() -> None:
    """Draws just below and at each boundary: a report v of u gets exactly weights[v, u] of the 2^32
    draws.
    """
    mechanism = UserMatrix(RECORD, RANDOM_MATRIX)
    for truth in range(6):
        edges = np.cumsum(mechanism.weights[:, truth]).astype(np.int64)
        draws = np.concatenate([edges - 1, edges[:-1]]).astype(np.uint32)
        codes = np.unravel_index(np.full(len(draws), truth), (2, 3))
        reports = mechanism.randomise(tuple(code.astype(np.uint8) for code in codes), Fixed(draws))
        assert np.ravel_multi_index([r.astype(int) for r in reports], (2, 3)).tolist() == [
            0,
            1,
            2,
            3,
            4,
            5,
            1,
            2,
            3,
            4,
            5,
        ]


class Fixed(Keystream):
    """Gives the draws it was made with."""

    def __init__(self, draws: np.ndarray) -> None:
        super().__init__(bytes(32))
        self.draws = draws

    def uint32(self, count: int) -> np.ndarray:
        assert count == len(self.draws)
        return self.draws


def test_the_matrix_of_gamma_diagonal_is_gamma_diagonal() -> None:
    matrix = GammaDiagonal(RECORD, 3).private_channel.to_dense()  # 3/8 and 1/8: multiples of 2^-32
    mechanism = UserMatrix(RECORD, matrix)
    assert mechanism.guarantee == Guarantee(3)
    assert mechanism.private_channel.condition == pytest.approx(4)
    assert mechanism.private_channel.smallest_singular_value == pytest.approx(0.25)
    pets = GammaDiagonal(RECORD, 3).private_channel.marginal([1]).to_dense()
    assert np.allclose(mechanism.private_channel.marginal([1]).to_dense(), pets)


def test_a_matrix_that_blurs_columns_together_has_no_marginals() -> None:
    with pytest.raises(NotLumpableError):
        UserMatrix(RECORD, RANDOM_MATRIX).private_channel_over([0])


def test_a_zero_beside_a_positive_entry_promises_nothing_and_says_so() -> None:
    mechanism = UserMatrix(COIN, [[1.0, 0.5], [0.0, 0.5]])
    assert (
        mechanism.guarantee.gamma == math.inf and "rules some records out" in mechanism.caveats[0]
    )


def test_a_tiny_entry_is_not_rounded_away() -> None:
    mechanism = UserMatrix(COIN, [[1 - 1e-13, 0.5], [1e-13, 0.5]])
    assert mechanism.guarantee.gamma == Fraction(1 << 31, 1)


def test_no_gamma_can_be_asked_of_it() -> None:
    with pytest.raises(PrivacyError, match="brings its own guarantee"):
        UserMatrix.promising(Guarantee(19), COIN)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], "singular (rank 1 of 2"),
        (
            [[0.9, 0.2], [0.2, 0.8]],
            "each column must sum to 1; column 1 (sex 'female') sums to 1.1",
        ),
        ([[0.9, 0.1], [0.2, 0.8]], "its rows sum to 1: transpose it"),
        ([[1.1, 0.2], [-0.1, 0.8]], "row 2, column 1 is -0.1"),
        ([[1.0]], "the matrix is 1 x 1, but the private attributes have 2 possible records"),
        ([0.5, 0.5], "the matrix is 2, but"),
        ([[float("nan"), 0.2], [0.1, 0.8]], "finite"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_refused_with_the_reason(
    matrix: list[object], words: str
) -> None:
    with pytest.raises(ParameterError) as error:
        UserMatrix(COIN, matrix)
    assert words in str(error.value)


def test_a_singular_matrix_is_found_although_rounding_hides_it() -> None:
    third = np.array([0.2, 0.3, 0.5])
    other = np.array([0.7, 0.1, 0.2])
    with pytest.raises(ParameterError, match="singular"):
        UserMatrix(Domain((PET,)), np.stack([third, other, 0.3 * third + 0.7 * other], axis=1))


def test_the_wrong_column_is_named_by_its_record() -> None:
    matrix = np.eye(6)
    matrix[4, 4] = 1.1
    with pytest.raises(ParameterError, match=r"column 5 \(sex 'male', pet 'dog'\) sums to 1.1"):
        UserMatrix(RECORD, matrix)


def test_a_matrix_for_one_of_several_attributes_is_told_how() -> None:
    with pytest.raises(
        ParameterError, match="to perturb 'pet' alone, make the other attributes public"
    ):
        UserMatrix(RECORD, np.eye(3))


def test_a_domain_too_large_for_a_matrix_is_refused() -> None:
    with pytest.raises(ParameterError, match="too large to write down"):
        UserMatrix(domain_of(100, 100), np.eye(2))


@pytest.mark.parametrize("form", [".csv", ".txt", ".npy", ".json"])
def test_every_form_of_file_is_read(form: str, tmp_path: Path) -> None:
    matrix, path = [[0.75, 0.125], [0.25, 0.875]], tmp_path / f"matrix{form}"
    if form == ".npy":
        np.save(path, np.array(matrix))
    else:
        text = {
            ".csv": "0.75,0.125\n0.25, 0.875\n",
            ".txt": "0.75 0.125\n\n0.25\t0.875\n",
            ".json": json.dumps(matrix),
        }
        path.write_text(text[form])
    assert read_matrix(path).tolist() == matrix
    assert UserMatrix.from_file(path, COIN) == UserMatrix(COIN, matrix)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("absent.csv", None, "no matrix file"),
        ("matrix.xls", "1", "cannot tell the form"),
        ("words.csv", "a,b\nc,d\n", "does not hold a matrix of numbers"),
        ("ragged.csv", "1,0\n1\n", "does not hold a matrix of numbers"),
        ("empty.csv", "", "does not hold a matrix of numbers"),
        ("broken.json", "[[1, 2", "does not hold a matrix of numbers"),
        ("deep.json", "[[[1]]]", "does not hold a matrix of numbers"),
        ("object.json", '{"a": 1}', "does not hold a matrix of numbers"),
        ("fake.npy", "not an array", "does not hold a matrix of numbers"),
        ("binary.csv", b"\xff\xfe\x00", "is not UTF-8 text"),
    ],
)
def test_a_file_without_a_matrix_is_one_clear_error(
    name: str, text: str | bytes | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(FileError) as error:
        read_matrix(path)
    assert words in str(error.value)


def test_numbers_are_cut_into_their_bins(tmp_path: Path) -> None:
    path = tmp_path / "eye.txt"
    np.savetxt(path, np.eye(4))
    assert UserMatrix.from_file(path, Domain((AGE,))).domain == Domain((AGE,))


def test_equal_matrices_are_equal_mechanisms() -> None:
    left, right = UserMatrix(RECORD, RANDOM_MATRIX), UserMatrix(RECORD, RANDOM_MATRIX.copy())
    assert left == right and hash(left) == hash(right)
    assert left != UserMatrix(RECORD, np.eye(6))
