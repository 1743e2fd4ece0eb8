"""The numbers of the papers and the laws that tie gamma, epsilon and (rho1, rho2)
together.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.privacy.guarantee import Guarantee, rounded_up

GAMMAS = st.floats(1.0001, 1e6)
PRIORS = st.floats(0.001, 0.999)


@pytest.mark.parametrize(("rho2", "gamma"), [(0.50, 19.0), (0.41, 13.20), (0.32, 8.94)])
def test_gamma_from_breach(rho2: float, gamma: float) -> None:
    assert float(Guarantee.from_breach(0.05, rho2).gamma) == pytest.approx(gamma, abs=0.005)


def test_five_to_fifty_per_cent_is_nineteen_exactly() -> None:
    promise = Guarantee.from_breach(0.05, 0.50)
    assert promise.gamma == Fraction(19)
    assert promise.worst_posterior(0.05) == pytest.approx(0.5)
    assert promise.epsilon == pytest.approx(math.log(19))


@given(gamma=GAMMAS, prior=PRIORS)
def test_the_worst_posterior_is_the_breach_read_backwards(gamma: float, prior: float) -> None:
    worst = Guarantee(gamma).worst_posterior(prior)
    assert worst == pytest.approx(gamma * prior / (gamma * prior + 1 - prior))
    assert worst * (1 - prior) / (prior * (1 - worst)) == pytest.approx(gamma, rel=1e-6)


@given(gamma=GAMMAS, prior=PRIORS)
def test_downward_mirrors_upward(gamma: float, prior: float) -> None:
    promise = Guarantee(gamma)
    assert promise.least_posterior(prior) <= prior <= promise.worst_posterior(prior)
    assert promise.worst_posterior(promise.least_posterior(prior)) == pytest.approx(prior, rel=1e-5)


@given(epsilon=st.floats(0.001, 600))
def test_epsilon_and_gamma_are_one_thing(epsilon: float) -> None:
    assert Guarantee.from_epsilon(epsilon).epsilon == pytest.approx(epsilon)


def test_reports_compose_by_multiplying() -> None:
    assert Guarantee(19).repeated(50).epsilon == pytest.approx(50 * math.log(19))
    assert round(Guarantee(19).repeated(50).epsilon) == 147
    assert Guarantee(Fraction(3, 2)).compose(Guarantee(Fraction(4, 3))) == Guarantee(Fraction(2))
    assert Guarantee(2).compose(Guarantee(math.inf)).gamma == math.inf


def test_an_unbounded_guarantee_promises_nothing() -> None:
    assert Guarantee(math.inf).worst_posterior(0.05) == 1
    assert Guarantee(math.inf).least_posterior(0.05) == 0


@given(numerator=st.integers(10**18, 10**30), denominator=st.integers(1, 10**12))
def test_a_gamma_shown_is_never_below_the_exact_one(numerator: int, denominator: int) -> None:
    assert Fraction(rounded_up(Fraction(numerator, denominator))) >= Fraction(
        numerator, denominator
    )


RATIOS = st.builds(lambda n, d: 1 + Fraction(n, d), st.integers(0, 10**40), st.integers(1, 10**40))


@given(gamma=RATIOS)
@example(gamma=1 + Fraction(1, 1 << 60))
@example(gamma=Fraction(1900004, 100_000))
@example(gamma=19 + Fraction(1, 10**12))
def test_what_is_stated_of_a_promise_is_never_better_than_it_is(gamma: Fraction) -> None:
    promise, prior = Guarantee(gamma), Fraction(1, 20)
    posterior = gamma * prior / (gamma * prior + 1 - prior)
    with localcontext(prec=120):
        exact = Decimal(gamma.numerator) / Decimal(gamma.denominator)
        epsilon = exact.ln()
        stated = promise.to_dict()
        assert stated["epsilon"] is not None and Decimal(stated["epsilon"]) >= epsilon
        assert Decimal(promise.epsilon) <= epsilon * (1 + Decimal("2e-15"))
        words = Decimal(promise.epsilon_words)
        assert epsilon * (1 - Decimal("5e-15")) <= words <= epsilon * Decimal("1.002")
    assert Fraction(promise.worst_posterior(0.05)) >= posterior
    assert (
        Fraction(promise.gamma_words) >= gamma > Fraction(promise.gamma_words) * Fraction("0.9999")
    )
    shown = Fraction(promise.posterior_words().removesuffix(" %")) / 100
    assert shown >= posterior > shown * Fraction("0.98")


@given(figures=st.integers(1, 9999), point=st.integers(-5, -2))
@example(figures=3, point=-2)
def test_an_epsilon_asked_for_is_stated_as_it_was_asked_and_kept(figures: int, point: int) -> None:
    """Gamma is rounded down: 0.03 is no 0.03001, and no more is given away than was asked for."""
    epsilon = float(f"{figures}e{point}")
    asked = Guarantee.from_epsilon(epsilon)
    assert asked.epsilon_words == f"{epsilon:.4g}"
    with localcontext(prec=80):
        exact = Decimal(epsilon).exp()
        assert asked.gamma <= exact < Decimal(math.nextafter(float(asked.gamma), math.inf))


def test_who_holds_a_thing_impossible_goes_on_doing_so() -> None:
    for gamma in (2, Fraction(10**400), Fraction(10**400 + 1, 10**399), math.inf):
        assert Guarantee(gamma).worst_posterior(0.0) == 0
        assert Guarantee(gamma).worst_posterior(1.0) == 1


@pytest.mark.parametrize(
    ("rho1", "rho2"), [(0, 0.5), (0.5, 1), (0.5, 0.5), (0.6, 0.5), (-0.1, 0.5), (0.5, 0)]
)
def test_a_breach_that_is_none_is_refused(rho1: float, rho2: float) -> None:
    with pytest.raises(ParameterError, match=r"is not above|strictly between"):
        Guarantee.from_breach(rho1, rho2)


@pytest.mark.parametrize("gamma", [0.5, 0, -1, math.nan])
def test_a_gamma_below_one_is_refused(gamma: float) -> None:
    with pytest.raises(ParameterError):
        Guarantee(gamma)
