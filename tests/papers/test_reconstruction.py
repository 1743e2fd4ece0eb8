"""MASK's table 1 and FP/NFP's privacy columns, and every formula against the joint distribution of
one bit.
"""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers import reconstruction
from sfumato.errors import ParameterError

SHARES = st.floats(0.001, 0.999)


def guessed_back(support: float, keep_ones: float, keep_zeros: float, truth: int) -> float:
    """P(guess = truth | truth) for a guesser who draws from the posterior, from the 2×2 joint
    distribution.
    """
    joint = np.array([[keep_zeros, 1 - keep_ones], [1 - keep_zeros, keep_ones]]) * [
        1 - support,
        support,
    ]
    posterior = joint / joint.sum(axis=1, keepdims=True)
    return float((joint[:, truth] / joint[:, truth].sum()) @ posterior[:, truth])


@pytest.mark.parametrize(
    ("keep", "privacy"),
    [(0.5, 89.2), (0.7, 88.5), (0.8, 87.3), (0.9, 83.3), (0.95, 76.3), (1.0, 0.0)],
)
def test_mask_table_1(keep: float, privacy: float) -> None:
    recovered = reconstruction.recovered_bits(0.01, keep, weight=0.9)
    assert 100 * (1 - float(recovered)) == pytest.approx(privacy, abs=0.05)


@given(support=SHARES, keep_ones=SHARES, keep_zeros=SHARES)
def test_ones_and_zeros_follow_from_bayes_rule(
    support: float, keep_ones: float, keep_zeros: float
) -> None:
    ones = reconstruction.recovered_ones(support, keep_ones, keep_zeros)
    zeros = reconstruction.recovered_zeros(support, keep_ones, keep_zeros)
    assert float(ones) == pytest.approx(guessed_back(support, keep_ones, keep_zeros, truth=1))
    assert float(zeros) == pytest.approx(guessed_back(support, keep_ones, keep_zeros, truth=0))


@given(support=SHARES, keep=SHARES)
def test_the_symmetric_case_is_masks_formula(support: float, keep: float) -> None:
    s, p = support, keep
    printed = s * p**2 / (s * p + (1 - s) * (1 - p)) + s * (1 - p) ** 2 / (
        s * (1 - p) + (1 - s) * p
    )
    assert float(reconstruction.recovered_ones(s, p)) == pytest.approx(printed)
    assert float(reconstruction.recovered_zeros(s, p)) == pytest.approx(
        float(reconstruction.recovered_ones(1 - s, p))
    )
    assert float(reconstruction.recovered_ones(s, 1 - p)) == pytest.approx(printed)


@given(support=SHARES, keep=SHARES)
def test_a_coin_toss_reveals_no_more_than_the_support(support: float, keep: float) -> None:
    assert float(reconstruction.recovered_ones(support, 0.5)) == pytest.approx(support)
    assert float(reconstruction.recovered_ones(support, keep)) >= support - 1e-12


def test_items_are_weighted_by_their_supports() -> None:
    supports, keep = np.array([0.5, 0.1, 0.01]), np.array([0.9, 0.8, 0.7])
    each = [guessed_back(s, p, p, truth=1) for s, p in zip(supports, keep, strict=True)]
    assert reconstruction.recovered_ones_over(supports, keep) == pytest.approx(
        supports @ each / supports.sum()
    )


@given(supports=st.lists(SHARES, min_size=1, max_size=8), keep=SHARES)
def test_equal_supports_are_the_least_revealing(supports: list[float], keep: float) -> None:
    average = float(np.mean(supports))
    assert (
        reconstruction.recovered_ones_over(supports, keep)
        >= float(reconstruction.recovered_ones(average, keep)) - 1e-9
    )


def test_eq_17_of_fp_nfp_as_printed_exceeds_one_and_the_weighted_form_does_not() -> None:
    supports, frequent = np.array([0.9, 0.3, 0.29]), np.array([True, False, False])
    printed = sum(
        reconstruction.recovered_ones_over(supports[part], 0.99) for part in (frequent, ~frequent)
    )
    assert printed > 1.9
    assert reconstruction.recovered_ones_over(supports, 0.99) < 1


def item_supports(path: Path) -> np.ndarray:
    with gzip.open(path, "rt") as lines:
        baskets = [set(line.split()) for line in lines]
    counts = Counter(item for basket in baskets for item in basket)
    return np.array(list(counts.values())) / len(baskets)


DISTORTIONS = np.array([0.95, 0.90, 0.85, 0.80, 0.75, 0.70])
NORMAL = {
    "bms-webview-1": [79.14, 88.52, 92.53, 94.74, 96.10, 96.99],
    "retail": [81.09, 85.63, 88.07, 89.72, 90.93, 91.83],
    "bms-webview-2": [90.44, 95.12, 96.93, 97.88, 98.45, 98.82],
}
IMPROVED = {
    "bms-webview-1": [
        79.14,
        79.21,
        79.23,
    ],  # the paper's later rows (79.74, 80.12, 81.76) are not what its formula gives
    "retail": [81.09, 81.68, 81.88, 81.97, 82.03, 82.07],
    "bms-webview-2": [
        90.44,
        91.07,
        91.28,
    ],  # 91.30 at 0.80 falls off its own curve; 91.45 and 91.48 are on it again
}
BENCHMARK_SUPPORT = {"bms-webview-1": 0.002, "retail": 0.003, "bms-webview-2": 0.003}


@pytest.mark.parametrize("name", NORMAL)
def test_fp_nfp_tables_1_to_3_privacy(name: str, data_dir: Path) -> None:
    """The paper's figures follow from items weighted together, a symmetric fp for frequent and nfp
    for other items.
    """
    supports = item_supports(data_dir / f"{name}.dat.gz")
    frequent = supports >= BENCHMARK_SUPPORT[name]
    normal = [
        100 * (1 - reconstruction.recovered_ones_over(supports, keep)) for keep in DISTORTIONS
    ]
    np.testing.assert_allclose(normal, NORMAL[name], atol=0.02)
    keeps = [np.where(frequent, 0.95, nfp) for nfp in DISTORTIONS[: len(IMPROVED[name])]]
    improved = [100 * (1 - reconstruction.recovered_ones_over(supports, keep)) for keep in keeps]
    np.testing.assert_allclose(improved, IMPROVED[name], atol=0.02)


@pytest.mark.parametrize(
    ("name", "privacy"), [("bms-webview-1", 10.6), ("retail", 54.4), ("bms-webview-2", 49.3)]
)
def test_fp_nfp_gives_less_than_its_paper_says(name: str, privacy: float, data_dir: Path) -> None:
    """By its own pseudo-code a frequent item's zero never becomes one, so the asymmetric channel is
    the one to judge.
    """
    supports = item_supports(data_dir / f"{name}.dat.gz")
    keep_zeros = np.where(supports >= BENCHMARK_SUPPORT[name], 1.0, 0.95)
    recovered = reconstruction.recovered_ones_over(
        supports, np.full(supports.shape, 0.95), keep_zeros
    )
    assert 100 * (1 - recovered) == pytest.approx(privacy, abs=0.1)


def test_a_certain_one_is_certain() -> None:
    assert float(reconstruction.one_given_one(0.2, 0.95, 1.0)) == 1
    assert float(reconstruction.one_given_zero(0.0, 1.0, 1.0)) == 0


def test_bad_input_is_named() -> None:
    with pytest.raises(ParameterError, match=r"support holds 1\.2"):
        reconstruction.recovered_ones(1.2, 0.9)
    with pytest.raises(ParameterError, match=r"keep_zeros holds -0\.1"):
        reconstruction.recovered_ones(0.2, 0.9, -0.1)
    with pytest.raises(ParameterError, match="weight=2"):
        reconstruction.recovered_bits(0.2, 0.9, weight=2)
    with pytest.raises(ParameterError, match="no item occurs"):
        reconstruction.recovered_ones_over([0.0, 0.0], 0.9)
