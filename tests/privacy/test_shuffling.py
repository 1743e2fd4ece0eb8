"""The shuffled epsilon against an exact sum over all outcomes, and the figures of the design."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.errors import ParameterError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.shuffle_amplification import shuffled_epsilon


def exact_delta(local: float, reports: int, epsilon: float) -> float:
    """max(P - e^ε Q, 0) summed over every pair (A + Δ, C), outcome by outcome."""
    own, chance = math.exp(local) / (1 + math.exp(local)), math.exp(-local)
    total = 0.0
    for clones in range(reports):
        weight = binom.pmf(clones, reports - 1, chance)
        seen = np.arange(clones + 2)
        with_own = binom.pmf(seen - 1, clones, 0.5)
        without = binom.pmf(seen, clones, 0.5)
        ours = own * with_own + (1 - own) * without
        theirs = (1 - own) * with_own + own * without
        total += weight * np.maximum(ours - math.exp(epsilon) * theirs, 0).sum()
    return total


@pytest.mark.parametrize("gamma", [3, 19])
@pytest.mark.parametrize("reports", [50, 400])
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_the_bound_holds_and_is_tight(gamma, reports, delta):
    local = Guarantee(gamma).epsilon
    found = shuffled_epsilon(Guarantee(gamma), reports, delta)
    assert exact_delta(local, reports, found) <= delta or found == local
    if found < local:
        assert exact_delta(local, reports, 0.98 * found) > delta


def test_it_is_as_the_design_says():
    rounded = {
        n: math.ceil(100 * shuffled_epsilon(Guarantee(19), n)) / 100 for n in (10**3, 10**4, 10**5)
    }
    assert rounded == {10**3: 1.21, 10**4: 0.31, 10**5: 0.09}


def test_more_reports_never_hide_less_and_it_is_never_above_the_promise():
    found = [shuffled_epsilon(Guarantee(9), n) for n in (1, 2, 10, 300, 1234, 5000, 99_999, 10**6)]
    assert found == sorted(found, reverse=True)
    assert max(found) <= Guarantee(9).epsilon
    assert shuffled_epsilon(Guarantee(9), 12_399) == shuffled_epsilon(Guarantee(9), 12_300)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ParameterError, match="hide nobody"):
        shuffled_epsilon(Guarantee(2), 0)
    with pytest.raises(ParameterError, match="delta"):
        shuffled_epsilon(Guarantee(2), 10, 0)
    assert shuffled_epsilon(Guarantee(math.inf), 100) == math.inf


@pytest.mark.parametrize("delta", [0.0, 1.0, 1.5, -0.1, float("nan")])
def test_a_chance_that_is_none_is_refused(delta):
    with pytest.raises(ParameterError, match="strictly between 0 and 1"):
        shuffled_epsilon(Guarantee(19), 100, delta)
