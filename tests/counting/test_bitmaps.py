"""Counts of itemsets agree with the dense matrix, whichever way they are counted."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from sfumato.bits import Bits
from sfumato.counting import bitmaps
from sfumato.counting.bitmaps import itemset_counts, pair_counts
from sfumato.errors import DataError

ROWS, ITEMS = 40_003, 14


@pytest.fixture(scope="module")
def dense() -> np.ndarray:
    generator = np.random.default_rng(5)
    return generator.random((ROWS, ITEMS)) < generator.uniform(0.05, 0.9, ITEMS)


@pytest.fixture(params=["numpy", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(bitmaps, "_worth_compiling", lambda work: request.param == "compiled")
    return str(request.param)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5])
def test_counts_of_every_itemset(dense: np.ndarray, way: str, length: int) -> None:
    itemsets = np.array(list(combinations(range(ITEMS), length)), dtype=np.int32).reshape(
        comb(ITEMS, length), length
    )
    expected = [dense[:, list(itemset)].all(axis=1).sum() for itemset in itemsets]
    np.testing.assert_array_equal(itemset_counts(Bits.from_dense(dense), itemsets), expected)


def test_order_does_not_matter(dense: np.ndarray, way: str) -> None:
    bits = Bits.from_dense(dense)
    itemsets = np.array(list(combinations(range(ITEMS), 3)), dtype=np.int32)
    shuffled = np.random.default_rng(1).permutation(len(itemsets))
    np.testing.assert_array_equal(
        itemset_counts(bits, itemsets[shuffled]), itemset_counts(bits, itemsets)[shuffled]
    )


@pytest.mark.parametrize("by_row", [False, True])
def test_pairs_by_row_and_by_column(
    dense: np.ndarray, monkeypatch: pytest.MonkeyPatch, by_row: bool
) -> None:
    monkeypatch.setattr(bitmaps, "_worth_compiling", lambda work: True)
    monkeypatch.setattr(bitmaps, "_rows_are_cheaper", lambda *arguments: by_row)
    chosen = np.array([11, 0, 3, 4, 8])
    number = dense[:, chosen].astype(np.int64)
    np.testing.assert_array_equal(pair_counts(Bits.from_dense(dense), chosen), number.T @ number)


def test_sparse_baskets_are_counted_by_row_and_dense_ones_by_column() -> None:
    generator = np.random.default_rng(2)
    pairs = 200 * 199 // 2
    for density, by_row in ((0.002, True), (0.3, False)):
        bits = Bits.from_dense(generator.random((20_000, 200)) < density)
        assert bitmaps._rows_are_cheaper(bits, np.arange(200, dtype=np.int32), pairs) is by_row


@pytest.mark.parametrize("density", [0.0, 0.01, 0.2])
def test_pairs_from_lists(density: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitmaps, "_worth_compiling", lambda work: False)
    matrix = np.random.default_rng(3).random((3_001, 60)) < density
    bits = Bits.from_csr(*Bits.from_dense(matrix).to_csr(), 60)
    chosen = np.array([59, 2, *range(5, 50)])
    number = matrix[:, chosen].astype(np.int64)
    np.testing.assert_array_equal(pair_counts(bits, chosen), number.T @ number)
    np.testing.assert_array_equal(bits.counts(), matrix.sum(axis=0))
    pairs = np.array(list(combinations(range(60), 2)), dtype=np.int32)
    assert (bitmaps._pairs_by_list(bits, pairs) is None) == (density == 0.2)


def test_no_rows_and_no_itemsets(way: str) -> None:
    assert itemset_counts(Bits.zeros(0, 3), np.array([[0, 1], [1, 2]])).tolist() == [0, 0]
    assert itemset_counts(Bits.zeros(5, 3), np.zeros((0, 2), dtype=np.int32)).tolist() == []


def test_an_unknown_item_is_named() -> None:
    with pytest.raises(DataError, match=r"0\.\.2; found 1\.\.3"):
        itemset_counts(Bits.zeros(5, 3), np.array([[1, 3]]))
