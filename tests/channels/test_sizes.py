"""Sizes: partial supports, judged by going through every subset that could be reported."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.laws import check_channel, close

from sfumato.channels import Product, Retain, Sizes


def by_every_flip(length: int, ones: float, zeros: float) -> np.ndarray:
    matrix = np.zeros((length + 1, length + 1))
    for true in range(length + 1):
        for report in product((0, 1), repeat=length):
            stays = (ones,) * true + (zeros,) * (length - true)
            truth = (1,) * true + (0,) * (length - true)
            chances = [
                stay if a == b else 1 - stay
                for stay, a, b in zip(stays, truth, report, strict=True)
            ]
            matrix[sum(report), true] += np.prod(chances)
    return matrix


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


rates = st.floats(0.55, 0.97) | st.just(1.0)


@given(length=st.integers(1, 5), ones=rates, zeros=rates)
def test_flips(length: int, ones: float, zeros: float) -> None:
    check_channel(Sizes.flips(length, ones, zeros), by_every_flip(length, ones, zeros))


def test_flips_are_a_product_of_bits_summed_by_size() -> None:
    bits = Product.of(*(Retain.flip(0.9, 0.7),) * 3)
    truths = np.zeros((2, 2, 2))
    truths[1, 1, 0] = 1
    reports = bits.apply(truths)
    sizes = np.indices((2, 2, 2)).sum(axis=0)
    close(
        np.bincount(sizes.ravel(), reports.ravel()),
        Sizes.flips(3, 0.9, 0.7).apply(np.array([0.0, 0, 1, 0])),
    )


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
