"""A column of codes and a column of baskets answer the same calls, judged by dense arrays."""

import numpy as np
import pytest

from sfumato.bits import Bits
from sfumato.domain import as_bits, codes_of, one_after_another, same_rows
from sfumato.errors import DataError

RNG = np.random.default_rng(11)
DENSE = RNG.random((201, 5)) < 0.4
CODES = RNG.integers(0, 9, 201).astype(np.uint8)
BASKETS = Bits.from_dense(DENSE)


@pytest.mark.parametrize("rows", [slice(0, 0), slice(3, 131), slice(64, 201), slice(None, -7)])
def test_slices(rows: slice) -> None:
    assert np.array_equal(BASKETS[rows].to_dense(), DENSE[rows])


def test_a_slice_with_a_step_is_refused() -> None:
    with pytest.raises(DataError, match="step of 2"):
        BASKETS[::2]


def test_repeating_and_taking() -> None:
    rows = RNG.integers(0, 201, 77)
    assert np.array_equal(BASKETS.repeat(3).to_dense(), DENSE.repeat(3, axis=0))
    assert np.array_equal(BASKETS.take(rows).to_dense(), DENSE[rows])
    assert np.array_equal(CODES.take(rows), CODES[rows])


def test_length_and_bytes() -> None:
    assert (len(BASKETS), len(CODES)) == (201, 201)
    assert BASKETS.nbytes == 5 * 4 * 8


def test_columns_are_told_apart() -> None:
    assert [column is CODES for column in codes_of((BASKETS, CODES))] == [True]
    assert as_bits(BASKETS) is BASKETS
    with pytest.raises(DataError, match="baskets were expected"):
        as_bits(CODES)


def test_parts_are_joined() -> None:
    both = one_after_another([BASKETS[:70], BASKETS[70:]])
    assert same_rows(both, BASKETS)
    assert same_rows(one_after_another([CODES[:70], CODES[70:]]), CODES)


def test_another_row_is_seen() -> None:
    other = DENSE.copy()
    other[200, 4] ^= True
    assert not same_rows(BASKETS, Bits.from_dense(other))
    assert not same_rows(CODES, CODES[::-1])
    assert not same_rows(BASKETS, CODES)
