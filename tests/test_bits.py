"""Bits agrees with the dense matrix it packs, for every number of rows around a word boundary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato.bits import Bits
from sfumato.errors import DataError


def matrix(rows: int, items: int, seed: int = 1, density: float = 0.3) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, items)) < density


def csr(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([[0], np.cumsum(dense.sum(axis=1))]), np.nonzero(dense)[1]


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 129, 20_000])
def test_every_form_holds_the_same_matrix(rows: int) -> None:
    dense = matrix(rows, 7)
    bits = Bits.from_dense(dense)
    assert bits.shape == dense.shape and len(bits) == rows
    np.testing.assert_array_equal(bits.to_dense(), dense)
    offsets, items = bits.to_csr()
    np.testing.assert_array_equal(offsets, csr(dense)[0])
    np.testing.assert_array_equal(items, csr(dense)[1])
    assert Bits.from_csr(offsets, items, 7).equals(bits)
    np.testing.assert_array_equal(bits.counts(), dense.sum(axis=0))
    np.testing.assert_array_equal(bits.sizes(), dense.sum(axis=1))
    np.testing.assert_array_equal(bits.column(3), dense[:, 3])


def test_rows_in_any_order_with_repeats() -> None:
    bits = Bits.from_csr(np.array([0, 4, 4, 5]), np.array([2, 0, 2, 1, 1]), 4)
    assert bits.to_dense().tolist() == [
        [True, True, True, False],
        [False] * 4,
        [False, True, False, False],
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
@example(200, 1, 130)
@example(200, 65, 199)
@example(200, 64, 128)
def test_slice_take_and_concatenate(rows: int, start: int, stop: int) -> None:
    dense = matrix(rows, 3, seed=rows)
    bits = Bits.from_dense(dense)
    np.testing.assert_array_equal(bits.slice(start, stop).to_dense(), dense[start:stop])
    both = Bits.concatenate([bits.slice(0, start), bits.slice(start, rows), Bits.zeros(0, 3)])
    assert both.equals(bits)
    chosen = np.random.default_rng(2).integers(0, rows, 70) if rows else np.zeros(0, dtype=np.int64)
    np.testing.assert_array_equal(bits.take(chosen).to_dense(), dense[chosen])
    lists = Bits.from_csr(*bits.to_csr(), 3)
    np.testing.assert_array_equal(lists.take(chosen).to_dense(), dense[chosen])
    np.testing.assert_array_equal(bits.select([2, 0]).to_dense(), dense[:, [2, 0]])
    np.testing.assert_array_equal(Bits.stack([bits, bits]).to_dense(), np.hstack([dense, dense]))


def test_bad_input_is_named() -> None:
    with pytest.raises(DataError, match=r"0\.\.2; found 0\.\.3"):
        Bits.from_csr(np.array([0, 2]), np.array([0, 3]), 3)
    for offsets in ([0, 3], [1, 2], [], [[0, 2]]):
        with pytest.raises(DataError, match="offsets must run"):
            Bits.from_csr(np.array(offsets, dtype=np.int64), np.array([0, 1]), 3)
    with pytest.raises(DataError, match="must not decrease"):
        Bits.from_csr(np.array([0, 2, 1, 2]), np.array([0, 1]), 3)
    with pytest.raises(DataError, match="do not hold 65 rows"):
        Bits(np.zeros((3, 1), dtype=np.uint64), 65)
    with pytest.raises(DataError, match="beyond row 3"):
        Bits(np.full((1, 1), 8, dtype=np.uint64), 3)
    with pytest.raises(DataError, match="same items"):
        Bits.concatenate([Bits.zeros(1, 2), Bits.zeros(1, 3)])
    with pytest.raises(DataError, match="same baskets"):
        Bits.stack([Bits.zeros(1, 2), Bits.zeros(2, 2)])
