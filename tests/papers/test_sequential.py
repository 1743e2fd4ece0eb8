"""The attribute-by-attribute sampler has the distribution of the matrix it is given, and of
keep-or-redraw.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.examples import RANDOM_MATRIX, RECORD
from tests.mechanisms.test_gamma_diagonal import domain_of

from papers.sequential import (
    DenseSums,
    DiagonalSums,
    PartialSums,
    partial_sums,
    sample_sequentially,
)
from sfumato.errors import ParameterError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.matrix import UserMatrix
from sfumato.randomness import seeded
from sfumato.testing import REJECT, fit, uneven

ROWS = 300_000


def transitions(sums: PartialSums, seed: int = 3) -> np.ndarray:
    """How often each report came of each record."""
    rng = np.random.default_rng(seed)
    records = [uneven(size, ROWS, rng) for size in sums.sizes]
    reports = sample_sequentially(sums, records, seeded(seed))
    truths, drawn = (
        np.ravel_multi_index([c.astype(int) for c in codes], sums.sizes)
        for codes in (records, reports)
    )
    cells = int(np.prod(sums.sizes))
    return (
        np.bincount(drawn * cells + truths, minlength=cells**2).reshape(cells, cells).astype(float)
    )


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2, 2), (7,)])
def test_it_is_keep_or_redraw_drawn_otherwise(sizes: tuple[int, ...]) -> None:
    mechanism = GammaDiagonal(domain_of(*sizes), 7)
    table = transitions(partial_sums(mechanism))
    assert fit(table, mechanism.private_channel.to_dense() * table.sum(axis=0)) > REJECT
    off = GammaDiagonal(domain_of(*sizes), 7 * 1.05).private_channel.to_dense()
    assert fit(table, off * table.sum(axis=0)) < REJECT


def test_any_matrix_of_integers_is_sampled() -> None:
    mechanism = UserMatrix(RECORD, RANDOM_MATRIX)
    table = transitions(partial_sums(mechanism))
    assert fit(table, mechanism.matrix * table.sum(axis=0)) > REJECT
    off = 0.95 * mechanism.matrix + 0.05 * mechanism.matrix.mean(axis=1, keepdims=True)
    assert fit(table, off * table.sum(axis=0)) < REJECT


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    diagonal=st.integers(0, 50),
    other=st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_closed_partial_sums_are_those_of_the_dense_matrix(
    sizes: list[int], diagonal: int, other: int, seed: int
) -> None:
    cells = int(np.prod(sizes))
    weights = np.full((cells, cells), other, dtype=np.uint64)
    np.fill_diagonal(weights, diagonal)
    rng = np.random.default_rng(seed)
    records = [rng.integers(0, size, 20) for size in sizes]
    drawn = [
        np.where(rng.random(20) < 0.7, record, rng.integers(0, size, 20))
        for record, size in zip(records, sizes, strict=True)
    ]
    closed, dense = DiagonalSums(tuple(sizes), diagonal, other), DenseSums(weights, tuple(sizes))
    for place in range(len(sizes)):
        assert (
            closed.following(records, drawn[:place]) == dense.following(records, drawn[:place])
        ).all()


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_the_steps_telescope_to_the_weight_of_the_report(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = int(np.prod(sizes))
    weights = rng.integers(0, 9, (cells, cells)).astype(np.uint64)
    weights[0] += np.uint64(1)
    sums = DenseSums(weights, tuple(sizes))
    records = [rng.integers(0, size, 30) for size in sizes]
    reports = [rng.integers(0, size, 30) for size in sizes]
    last = sums.following(records, reports[:-1])[np.arange(30), reports[-1]]
    joint = [np.ravel_multi_index(codes, sizes) for codes in (reports, records)]
    assert (last == weights[joint[0], joint[1]]).all()
    for place in range(1, len(sizes)):
        before = sums.following(records, reports[: place - 1])[np.arange(30), reports[place - 1]]
        assert (sums.following(records, reports[:place]).sum(axis=1) == before).all()


def test_a_report_of_weight_nought_is_never_drawn() -> None:
    weights = np.array([[0, 3], [5, 0]], dtype=np.uint64)
    records = [np.array([0, 1] * 500)]
    (reports,) = sample_sequentially(DenseSums(weights, (2,)), records, seeded(1))
    assert (reports == 1 - records[0]).all()


def test_totals_that_do_not_fit_64_bits_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"2\^63"):
        DiagonalSums((1 << 16,) * 5, diagonal=19, other=1)
