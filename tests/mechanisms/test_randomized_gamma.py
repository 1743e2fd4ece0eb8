"""Randomised gamma-diagonal: on average the gamma-diagonal matrix exactly, and honest about what
randomising adds.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.keystreams import Witness
from tests.mechanisms.test_gamma_diagonal import domain_of

from sfumato.errors import ParameterError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal, RandomizedGamma
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded

CENSUS = domain_of(4, 5, 5, 5, 2, 2)


def test_the_determinable_posterior_range_is_that_of_the_paper() -> None:
    low, high = RandomizedGamma(CENSUS, 19, spread=0.5).posterior_range(0.05)
    assert (round(low, 3), round(high, 3)) == (0.332, 0.601)


def test_without_spread_it_is_the_gamma_diagonal_matrix() -> None:
    mechanism = RandomizedGamma(CENSUS, 19, spread=0)
    assert mechanism.posterior_range(0.05) == (pytest.approx(0.5), pytest.approx(0.5))
    assert mechanism.revealed == mechanism.guarantee == Guarantee(19)


@given(
    gamma=st.fractions(min_value=Fraction(11, 10), max_value=1000, max_denominator=1000)
    | st.floats(1.1, 1000),
    sizes=st.lists(st.integers(2, 60), min_size=1, max_size=8),
    spread=st.floats(0, 1),
)
def test_the_average_of_the_integers_drawn_is_the_gamma_diagonal(
    gamma: Fraction | float, sizes: list[int], spread: float
) -> None:
    domain = domain_of(*sizes)
    mechanism = RandomizedGamma.promising(
        Guarantee(gamma), domain, spread=spread * min(1.0, (domain.cells - 1) / gamma)
    )
    witness = Witness()
    mechanism.randomise(tuple(np.zeros(1, dtype=np.uint8) for _ in sizes), witness)
    shifts, total = witness.bounds[:2]
    stay, whole, reach = mechanism._weights
    assert (shifts, total) == (2 * reach + 1, whole)
    assert stay - reach >= 0 and stay + reach <= total
    exact = Fraction(stay, total) / (Fraction(total - stay, total) / (domain.cells - 1))
    assert exact == mechanism.guarantee.gamma <= gamma
    assert float(exact) == pytest.approx(float(gamma), rel=1e-3)


def test_each_client_stays_with_a_probability_of_its_own() -> None:
    """With the widest spread on two cells of gamma 1+, r runs over all of [-γx, γx]: rows still
    have the mean of DET-GD.
    """
    mechanism = RandomizedGamma(domain_of(3), 2, spread=1.0)
    truths = np.zeros(400_000, dtype=np.uint8)
    (reports,) = mechanism.randomise((truths,), seeded(9))
    stay = float((reports == 0).mean())
    assert abs(stay - 0.5) < 5 * (0.25 / len(truths)) ** 0.5
    assert abs(stay - 0.525) > 5 * (0.25 / len(truths)) ** 0.5


def test_a_huge_domain_is_sampled_by_attribute() -> None:
    mechanism = RandomizedGamma(domain_of(*[1000] * 4), 10**12, spread=0.5)
    records = tuple(np.arange(20_000, dtype=np.uint16) % 1000 for _ in range(4))
    reports = mechanism.randomise(records, seeded(1))
    kept = np.all(
        [report == record for report, record in zip(reports, records, strict=True)], axis=0
    )
    assert abs(kept.mean() - 0.5) < 5 * (0.25 / 20_000) ** 0.5


def test_the_channel_is_that_of_gamma_diagonal() -> None:
    left, right = (
        RandomizedGamma(CENSUS, 19).private_channel,
        GammaDiagonal(CENSUS, 19).private_channel,
    )
    assert left.keep == right.keep and left.inputs == right.inputs


def test_revealed_is_the_formula_of_theory() -> None:
    mechanism = RandomizedGamma(CENSUS, 19, spread=0.5)
    x = Fraction(1, 19 + 1999)
    expected = (19 * x * Fraction(3, 2)) / (x - 19 * x / 2 / 1999)
    assert float(mechanism.revealed.gamma) == pytest.approx(float(expected), rel=1e-12)
    assert any("28.6" in caveat for caveat in mechanism.caveats)


@pytest.mark.parametrize("spread", [0.0, 0.3, 0.9, 0.95, 0.999])
def test_revealed_is_the_worst_of_the_matrices_that_r_may_make(spread: float) -> None:
    """At a wide spread a report may rule out its own value, which tells more than naming it."""
    gamma, cells = 19, 20
    x = 1 / (gamma + cells - 1)
    worst = 0.0
    for r in np.linspace(-gamma * x * spread, gamma * x * spread, 101):
        entries = (gamma * x + r, x - r / (cells - 1))
        worst = max(worst, max(entries) / min(entries))
    revealed = RandomizedGamma(domain_of(4, 5), gamma, spread=spread).revealed
    assert float(revealed.gamma) == pytest.approx(worst, rel=1e-6)


def test_revealed_at_full_spread_promises_nothing() -> None:
    assert RandomizedGamma(CENSUS, 19, spread=1.0).revealed.gamma == math.inf


def test_a_spread_that_makes_a_probability_negative_is_refused_with_what_would_do() -> None:
    with pytest.raises(ParameterError, match=r"use 0 <= spread <= 0\.2 "):
        RandomizedGamma(domain_of(3), 10, spread=0.5)
    with pytest.raises(ParameterError, match="spread"):
        RandomizedGamma(CENSUS, 19, spread=1.01)
    with pytest.raises(ParameterError, match="spread"):
        RandomizedGamma(CENSUS, 19, spread=-0.1)
    assert RandomizedGamma.promising(Guarantee(10), domain_of(3)).spread == 0.2


@pytest.mark.parametrize("gamma", [1, 0, float("inf"), float("nan")])
def test_a_gamma_that_cannot_be_had_is_refused(gamma: float) -> None:
    with pytest.raises(ParameterError, match="gamma"):
        RandomizedGamma(CENSUS, gamma)


def test_domains_too_small_and_too_large_are_refused() -> None:
    with pytest.raises(ParameterError, match="two possible records"):
        RandomizedGamma(domain_of(1), 19)
    with pytest.raises(ParameterError, match="less than one record"):
        RandomizedGamma(domain_of(*[2] * 1200), 19)
