"""Integer weights: they sum to 2^32, are nearest to what was asked, and never make the possible
impossible.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.mechanisms.weights import ONE, integer_weights, threshold

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
