"""FRAPP's figure 1 and its bounds against the exact distribution of all multinomial counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers import guessing
from sfumato.errors import ParameterError
from sfumato.privacy import siblings
from sfumato.privacy.guarantee import Guarantee

PROMISE = Guarantee(19)


def outright_most_frequent(stays: float, values: int, copies: int) -> float:
    """P(the truth is strictly the most frequent report), summed over every sequence of reports."""
    moves = (1 - stays) / (values - 1)
    total = 0.0
    for reports in itertools.product(range(values), repeat=copies):
        seen = Counter(reports)
        if all(seen[0] > seen[other] for other in range(1, values)):
            total += stays ** seen[0] * moves ** (copies - seen[0])
    return total


def binomial_tail(above: int, copies: int, chance: float) -> float:
    return sum(
        math.comb(copies, k) * chance**k * (1 - chance) ** (copies - k)
        for k in range(above + 1, copies + 1)
    )


@given(stays=st.floats(0.05, 0.95), values=st.integers(2, 4), copies=st.integers(1, 6))
def test_both_bounds_hold_for_the_strictly_most_frequent_report(
    stays: float, values: int, copies: int
) -> None:
    exact = outright_most_frequent(stays, values, copies)
    sharp = guessing.outright_guess_bound(stays, values, copies)
    assert exact <= sharp + 1e-9
    assert sharp <= siblings.guess_bound(stays, values, copies) + 1e-9


@given(stays=st.floats(0.05, 0.95), copies=st.integers(1, 8))
def test_with_two_values_the_sharp_bound_is_exact(stays: float, copies: int) -> None:
    exact = outright_most_frequent(stays, 2, copies)
    assert guessing.outright_guess_bound(stays, 2, copies) == pytest.approx(exact, abs=1e-12)


def test_eq_17_as_printed_leaves_out_the_first_term() -> None:
    stays, copies = 19 / 2018, 50
    assert guessing.guess_bound_as_printed(stays, 2000, copies) == pytest.approx(1)
    assert guessing.guess_bound_as_printed(0.3, 4, 9) == pytest.approx(
        1 - sum(math.comb(9, k) * 0.3**k * 0.7 ** (9 - k) for k in (1, 2))
    )


def test_figure_1_full_record() -> None:
    """The text reads 0.1 at 50 and 0.25 at 100 versions off the solid line: that is the bound for
    an outright winner.
    """
    fifty, hundred = (
        guessing.outright_guess_bound(siblings.record_stays(PROMISE, 2000), 2000, m)
        for m in (50, 100)
    )
    assert 0.07 < fifty < 0.1
    assert 0.23 < hundred < 0.25
    assert fifty == pytest.approx(binomial_tail(1, 50, 19 / 2018))


@pytest.mark.parametrize("values", [2, 4, 8])
def test_figure_1_single_attribute_levels_off_around_a_half(values: int) -> None:
    bounds = [
        guessing.attribute_account(PROMISE, 2000, values, copies).guess_bound
        for copies in (40, 64, 96)
    ]
    assert all(0.35 < bound < 0.55 for bound in bounds)


def test_attribute_stays_is_the_marginal_of_the_gamma_diagonal_matrix() -> None:
    cells, values = 2000, 4
    x = 1 / (19 + cells - 1)
    assert guessing.attribute_stays(PROMISE, cells, values) == pytest.approx(
        19 * x + (cells // values - 1) * x
    )
    assert siblings.record_stays(PROMISE, cells) == pytest.approx(19 * x)


def test_bad_input_is_named() -> None:
    with pytest.raises(ParameterError, match="copies=0 is too small"):
        guessing.outright_guess_bound(0.5, 2, 0)
    with pytest.raises(ParameterError, match="values=1 is too small"):
        guessing.attribute_stays(PROMISE, 10, 1)
