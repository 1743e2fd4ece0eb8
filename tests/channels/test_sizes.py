"""Sizes: partial supports, judged by going through every subset that could be reported."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.laws import check_channel, close

from sfumato.channels import Sizes


def by_every_cut(length: int, basket: int, cutoff: int, insert: float) -> np.ndarray:
    """A basket that holds the first `true` of `length` items and others: every draw, every cut,
    every insertion.
    """
    matrix = np.zeros((length + 1, min(length, basket) + 1))
    for true in range(min(length, basket) + 1):
        held = [*range(true), *range(length, length + basket - true)]
        for draw in range(cutoff + 1):
            cuts = list(combinations(held, min(draw, basket)))
            for cut in cuts:
                kept = sum(item < length for item in cut)
                for inserted in product((0, 1), repeat=length - kept):
                    chance = np.prod([insert if bit else 1 - insert for bit in inserted])
                    matrix[kept + sum(inserted), true] += chance / (cutoff + 1) / len(cuts)
    return matrix


@given(
    length=st.integers(1, 3),
    basket=st.integers(0, 4),
    cutoff=st.integers(1, 4),
    insert=st.floats(0.05, 0.6),
)
def test_cut_and_paste(length: int, basket: int, cutoff: int, insert: float) -> None:
    channel = Sizes.cut_and_paste(length, basket, cutoff, insert)
    expected = by_every_cut(length, basket, cutoff, insert)
    close(channel.to_dense(), expected)
    if np.linalg.cond(expected) < 1e5:
        check_channel(channel, expected)


def test_frapps_best_cut_and_paste_on_census() -> None:
    """K = 3, ρ = 0.494, six items a record: a whole record of six true items is reported whole with
    the known probability.
    """
    channel = Sizes.cut_and_paste(6, basket=6, cutoff=3, insert=0.494)
    expected = np.mean([0.494 ** (6 - cut) for cut in range(4)])
    assert channel.to_dense()[6, 6] == pytest.approx(expected)
