"""Sample sizes of FRAPP and OLAP and MASK's error bound, against the papers' figures and exact
binomials.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.privacy import samples


def binomial(trials: int, chance: float) -> np.ndarray:
    return np.array(
        [math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)]
    )


def test_frapp_asks_for_two_million_rows() -> None:
    rows = samples.hoeffding_rows(deviation=0.001, level=0.95)
    assert rows == 1_844_440
    assert (
        1 - 2 * math.exp(-2 * 0.001**2 * rows)
        >= 0.95
        > 1 - 2 * math.exp(-2 * 0.001**2 * (rows - 1))
    )


def test_olap_theorem_1() -> None:
    assert samples.retention_rows(0.2, 0.01, 0.05) == math.ceil(4 * math.log(40) / 0.002**2)


@pytest.mark.parametrize(
    ("share", "keep", "mass"), [(0.02, 0.2, 0.1), (0.3, 0.5, 0.15), (0.5, 1.0, 0.4)]
)
def test_retention_variance_is_that_of_the_inverted_channel(
    share: float, keep: float, mass: float
) -> None:
    channel = keep * np.eye(2) + (1 - keep) * np.array([[1 - mass], [mass]])
    reports = channel @ [1 - share, share]
    weights = np.linalg.inv(channel)[1]
    assert samples.retention_variance(share, keep, mass) == pytest.approx(
        weights**2 @ reports - share**2
    )


def test_normal_rows_reach_the_level() -> None:
    """The rows asked for put 95 % of shares within the deviation; a reported rate five per cent off
    would not.
    """
    share, keep, mass, deviation = 0.3, 0.5, 0.15, 0.02
    rows = samples.normal_rows(samples.retention_variance(share, keep, mass), deviation, 0.95)
    repeats = 200_000
    rng = np.random.default_rng(20261115)
    tolerance = (
        5 * math.sqrt(0.95 * 0.05 / repeats) + 0.002
    )  # five standard errors and the lattice of counts

    def level_at(reported: float) -> float:
        shares = (rng.binomial(rows, reported, size=repeats) / rows - (1 - keep) * mass) / keep
        return float(np.mean(np.abs(shares - share) <= deviation))

    reported = keep * share + (1 - keep) * mass
    assert abs(level_at(reported) - 0.95) < tolerance
    assert abs(level_at(1.05 * reported) - 0.95) > tolerance


@given(trials=st.integers(0, 40), chance=st.floats(0.01, 0.99), deviation=st.floats(0, 12))
def test_binomial_within_is_the_plain_sum(trials: int, chance: float, deviation: float) -> None:
    counts = np.arange(trials + 1)
    inside = (counts >= trials * chance - deviation) & (counts <= trials * chance + deviation)
    expected = float(binomial(trials, chance)[inside].sum())
    assert samples.binomial_within(trials, chance, deviation) == pytest.approx(expected, abs=1e-9)


@given(
    ones=st.integers(1, 12),
    zeros=st.integers(1, 12),
    keep=st.sampled_from([0.05, 0.3, 0.7, 0.9, 1.0]),
)
def test_mask_level_is_a_lower_bound(ones: int, zeros: int, keep: float) -> None:
    """Against the exact chance, from the convolution of both columns, that the reconstructed count
    is that close.
    """
    kept, turned = np.meshgrid(binomial(ones, keep), binomial(zeros, 1 - keep), indexing="ij")
    reported = np.arange(ones + 1)[:, None] + np.arange(zeros + 1)[None, :]
    error = np.abs((reported - (1 - keep) * (ones + zeros)) / (2 * keep - 1) - ones)
    for wanted in (0.5, 2.0, 5.0, 11.0):
        exact = float((kept * turned)[error <= wanted + 1e-9].sum())
        assert samples.mask_level(ones, zeros, keep, wanted) <= exact + 1e-9


@pytest.mark.parametrize("keep", [0.1, 0.7, 0.9, 0.97])
def test_mask_error_is_the_smallest_that_reaches_the_level(keep: float) -> None:
    error = samples.mask_error(1000, 9000, keep, level=0.95)
    step = 2 / abs(2 * keep - 1)
    assert samples.mask_level(1000, 9000, keep, error * (1 + 1e-12)) >= 0.95
    assert samples.mask_level(1000, 9000, keep, (error - step) * (1 + 1e-12)) < 0.95


def test_mask_without_distortion_has_no_error() -> None:
    assert samples.mask_error(1000, 9000, 1.0, level=0.99) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: samples.hoeffding_rows(0.0, 0.95), "deviation=0.0 must lie strictly between"),
        (lambda: samples.hoeffding_rows(0.1, 1.0), "level=1.0 must lie strictly between"),
        (lambda: samples.retention_rows(0.0, 0.1, 0.1), "keep=0.0 replaces every record"),
        (lambda: samples.normal_rows(1.0, 0.0, 0.9), "deviation=0.0 must be above 0"),
        (lambda: samples.mask_level(10, 10, 0.5, 3), "keep=0.5 makes every report a coin toss"),
        (lambda: samples.binomial_within(10, 0.5, -1), "deviation=-1 is negative"),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
