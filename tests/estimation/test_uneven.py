"""Answers from draws: the interval is where the draws lie, and draws without a value widen it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.estimation.uneven import LEVELS, from_draws


@pytest.mark.parametrize("level", LEVELS)
def test_the_interval_is_where_the_draws_lie(level: float) -> None:
    draws = np.random.default_rng(1).permutation(np.arange(2001.0))
    low, high = from_draws(1000.0, draws).interval(level)
    outside = (1 - level) / 2 * 2000
    assert outside - 1 <= low <= outside + 1e-6
    assert 2000 - outside - 1e-6 <= high <= 2001 - outside
    assert np.mean((draws < low) | (draws > high)) == pytest.approx(1 - level, abs=1e-3)


def test_draws_without_a_value_count_at_both_ends() -> None:
    draws = np.concatenate([np.arange(1000.0), np.full(40, np.nan)])
    low, high = from_draws(500.0, draws).interval(0.95)
    assert low == 5 and high == 994  # 26 of 1,040 lie outside at each end, 20 of them unknown
    assert from_draws(500.0, np.full(9, np.nan)).interval(0.95) == (-math.inf, math.inf)


def test_a_value_that_is_none_is_the_middle_of_the_draws() -> None:
    assert from_draws(math.nan, np.arange(101.0)).value == 50
    assert from_draws(150.0, np.arange(101.0), (0.0, 100.0)).value == 100
