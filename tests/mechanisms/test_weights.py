"""Integer weights: they sum to 2^32, are nearest to what was asked, and never make the possible
impossible.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import ParameterError
from sfumato.mechanisms.matrix import UserMatrix
from sfumato.mechanisms.retention import Retention
from sfumato.mechanisms.steps import KeepOrDraw
from sfumato.mechanisms.weights import check_weights, integer_weights, threshold
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import ONE

masses = arrays(
    np.float64, st.tuples(st.integers(1, 8), st.integers(1, 4)), elements=st.floats(0, 1)
).filter(lambda table: (table.sum(axis=0) > 1e-6).all())


@given(masses)
def test_columns_sum_to_one_and_stay_near(table: np.ndarray) -> None:
    weights = integer_weights(table)
    assert (weights.sum(axis=0) == ONE).all()
    assert (np.abs(weights.astype(float) - table / table.sum(axis=0) * ONE) <= len(table) + 1).all()


@given(masses)
def test_what_was_possible_stays_possible_and_what_was_not_stays_not(table: np.ndarray) -> None:
    assert ((integer_weights(table) > 0) == (table > 0)).all()


@given(masses)
def test_rounding_twice_changes_nothing(table: np.ndarray) -> None:
    once = integer_weights(table)
    assert (integer_weights(once / float(ONE)) == once).all()


@given(st.fractions(min_value=Fraction(1, ONE), max_value=1))
def test_a_threshold_is_the_next_below(keep: Fraction) -> None:
    assert threshold("keep", keep) <= keep < threshold("keep", keep) + Fraction(1, ONE)


ANY_MASS = st.floats(5e-324, 1e308)  # the least and about the largest that a double holds


@st.composite
def laws(draw: st.DrawFn, most: int) -> np.ndarray:
    """A few different masses of any size, and zeros, spread over up to so many codes."""
    kinds = draw(st.lists(st.one_of(st.just(0.0), ANY_MASS), min_size=1, max_size=6))
    kinds.append(draw(ANY_MASS))
    size = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    law = np.array(kinds)[rng.choice(len(kinds), size, p=rng.dirichlet(np.ones(len(kinds))))]
    law[rng.integers(size)] = kinds[-1]
    return law


def check_law(law: np.ndarray) -> None:
    """Nothing negative or beyond 2^32, the sum exact, and just what was possible possible."""
    weights = integer_weights(law).astype(object)
    assert 0 <= weights.min() <= weights.max() <= ONE and weights.sum() == ONE
    assert ((weights > 0) == (law > 0)).all()


@given(laws(60))
@settings(max_examples=300)
def test_masses_of_any_size_become_weights_near_their_exact_shares(law: np.ndarray) -> None:
    """The judge is exact arithmetic. Each positive mass takes at most 1 from the others."""
    check_law(law)
    exact = [Fraction(float(mass)) for mass in law]
    total = sum(exact)
    for weight, mass in zip(integer_weights(law).tolist(), exact, strict=True):
        assert abs(weight - mass / total * ONE) <= len(law) + 1


@given(laws(1 << 20))
@settings(max_examples=15, deadline=None)
def test_large_domains_never_wrap(law: np.ndarray) -> None:
    check_law(law)


@pytest.mark.parametrize("size", [3, 1000, 200_000, 1 << 20])
@pytest.mark.parametrize("small", [5e-324, 1e-300, 1e-12])
@pytest.mark.parametrize("large", [1.0, 1e308])
def test_half_of_a_domain_with_next_to_no_mass_takes_from_all_the_others(
    size: int, small: float, large: float
) -> None:
    """Taken from the largest alone, 100,000 units of 42,950 wrapped to 2^64 - 57,050."""
    law = np.full(size, large)
    law[: size // 2] = small
    check_law(law)
    weights = integer_weights(law).astype(np.int64)
    assert int(weights[size // 2 :].max() - weights[size // 2 :].min()) <= 1


def test_columns_are_rounded_each_on_its_own() -> None:
    table = np.ones((2000, 3))
    table[:1500, 0], table[1000:, 2] = 5e-324, 0.0
    weights = integer_weights(table)
    for column in range(3):
        check_law(table[:, column])
        assert (weights[:, column] == integer_weights(table[:, column])).all()


@pytest.mark.parametrize(
    "law", [[0.0, 0.0], [1.0, -1e-9], [1.0, np.nan], [1.0, np.inf], [[1.0, 0.0], [1.0, 0.0]]]
)
def test_masses_that_are_no_law_are_refused(law: list[float]) -> None:
    with pytest.raises(ParameterError, match="finite and not negative, some of them above 0"):
        integer_weights(law)


def test_a_promise_over_a_large_domain_is_kept_by_every_code() -> None:
    law = np.ones(200_001)
    law[:100_000] = 1e-9
    domain = Domain((Numeric("income", 0, 200_000),))
    mechanism = Retention.promising(Guarantee(19), domain, replace=law.tolist())
    (drawn,) = mechanism.drawn
    assert isinstance(drawn, tuple) and min(drawn) == 1 and sum(drawn) == ONE
    assert 1 < mechanism.guarantee.gamma <= 19


WRAPPED = (1 << 64) - 57_050


@pytest.mark.parametrize("weights", [(WRAPPED, ONE), (ONE + 1, -1), (ONE // 2, ONE // 2 - 1), ()])
def test_weights_that_wrapped_or_do_not_sum_are_refused_wherever_they_are_kept(
    weights: tuple[int, ...],
) -> None:
    with pytest.raises(ParameterError, match=r"2\^32"):
        check_weights(weights)
    with pytest.raises(ParameterError, match=r"2\^32"):
        KeepOrDraw(columns=(0,), reports=(0,), size=2, keep=ONE // 2, weights=weights)


def test_a_matrix_is_checked_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sfumato.mechanisms.matrix.integer_weights",
        lambda matrix: np.array([[ONE, 0], [ONE // 2, ONE // 2]], dtype=np.uint64),
    )
    coin = Domain((Category("coin", ("heads", "tails")),))
    with pytest.raises(ParameterError, match="weights must sum to"):
        UserMatrix(coin, [[0.75, 0.125], [0.25, 0.875]])
