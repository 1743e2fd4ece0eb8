"""Retention replacement: its integers, its laws, and the split of a guarantee over columns."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.examples import AGE, HOURS, INCOME, PET, RECORD, SEX
from tests.mechanisms.keystreams import Witness
from tests.mechanisms.test_gamma_diagonal import domain_of

from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import ParameterError, PrivacyError, SchemaError
from sfumato.mechanisms.retention import Retention
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded

gammas = st.fractions(
    min_value=Fraction(11, 10), max_value=10**4, max_denominator=10**6
) | st.floats(1.1, 1e4)


@given(gamma=gammas, sizes=st.lists(st.integers(1, 300), min_size=1, max_size=8))
def test_the_integers_drawn_give_the_guarantee_and_never_more_than_asked(
    gamma: Fraction | float, sizes: list[int]
) -> None:
    mechanism = Retention.promising(Guarantee(gamma), domain_of(*sizes))
    witness = Witness()
    mechanism.randomise(tuple(np.zeros(1000, dtype=np.uint16) for _ in sizes), witness)
    exact = Fraction(1)
    for (threshold, bits), size in zip(witness.thresholds, sizes, strict=True):
        keep = Fraction(threshold, 1 << bits)
        exact *= 1 if size == 1 else 1 + keep * size / (1 - keep)
    assert mechanism.guarantee.gamma == exact <= gamma
    if max(sizes) > 1:
        assert float(exact) == pytest.approx(float(gamma), rel=1e-3)


@given(gamma=gammas, weights=st.lists(st.floats(0.01, 1), min_size=2, max_size=9))
def test_a_stated_law_is_drawn_by_integers_of_sum_two_to_the_32(
    gamma: Fraction | float, weights: list[float]
) -> None:
    mechanism = Retention.promising(Guarantee(gamma), domain_of(len(weights)), replace=weights)
    (drawn,), (keep,) = mechanism.drawn, mechanism.keeps
    assert isinstance(drawn, tuple) and sum(drawn) == 1 << 32
    least = Fraction(min(drawn), 1 << 32)
    assert mechanism.guarantee.gamma == 1 + keep / ((1 - keep) * least) <= gamma
    assert np.allclose(np.array(drawn) / 2.0**32, np.array(weights) / sum(weights), atol=1e-9)


def test_every_boundary_of_a_stated_law_falls_where_it_should() -> None:
    (step,) = Retention(Domain((PET,)), 0.5, [1, 2, 5]).steps()
    edges = np.array(step._cumulative)
    assert edges.tolist() == [1 << 29, 3 << 29, 1 << 32]
    places = np.array(
        [0, (1 << 29) - 1, 1 << 29, (3 << 29) - 1, 3 << 29, (1 << 32) - 1], dtype=np.uint32
    )
    assert np.searchsorted(edges, places, side="right").tolist() == [0, 0, 1, 1, 2, 2]


def test_each_column_has_the_same_share() -> None:
    mechanism = Retention.promising(Guarantee(16), domain_of(2, 50))
    assert [*map(float, mechanism.gammas)] == [pytest.approx(4, rel=1e-6)] * 2


def test_numbers_stay_numbers_on_their_grid() -> None:
    domain = Domain((Numeric("salary", 0.0, 100.0, step=0.5), Numeric("age", 0, 99)))
    mechanism = Retention.promising(Guarantee(19), domain)
    assert mechanism.domain == domain and mechanism.private_channel.inputs == (201, 100)
    mechanism = Retention.promising(Guarantee(19), Domain((Numeric("x", 0.0, 1.0),)))
    assert float(mechanism.guarantee.gamma) == pytest.approx(19, rel=1e-4)


def test_identity_draws_from_the_rows_given_and_needs_them_all() -> None:
    mechanism = Retention(Domain((AGE,)), 0.5, "identity")
    assert mechanism.needs_all_rows and not Retention(Domain((AGE,)), 0.5).needs_all_rows
    (reports,) = mechanism.randomise((np.repeat([1, 3], 5000).astype(np.uint8),), seeded(1))
    assert set(reports.tolist()) == {1, 3}
    assert mechanism.guarantee.gamma == math.inf
    assert "own distribution" in mechanism.caveats[0]


def test_identity_leaves_the_expected_counts_of_a_column_unchanged() -> None:
    truths = np.repeat([0, 1, 2], [70_000, 25_000, 5_000]).astype(np.uint8)
    (reports,) = Retention(Domain((PET,)), 0.3, "identity").randomise((truths,), seeded(2))
    counts = np.bincount(reports, minlength=3)
    assert (np.abs(counts - [70_000, 25_000, 5_000]) < 5 * np.sqrt([70_000, 25_000, 5_000])).all()


def test_no_gamma_can_be_had_of_identity() -> None:
    with pytest.raises(PrivacyError, match="promises no gamma"):
        Retention.promising(Guarantee(19), RECORD, replace="identity")


def test_keep_one_is_allowed_when_stated_and_says_what_it_means() -> None:
    mechanism = Retention(RECORD, {"sex": 1, "pet": 0.5})
    assert mechanism.guarantee.gamma == math.inf
    assert mechanism.caveats == ("'sex' is kept as it is: nothing is promised about it",)
    records = (np.arange(100, dtype=np.uint8) % 2, np.arange(100, dtype=np.uint8) % 3)
    assert (mechanism.randomise(records, seeded(1))[0] == records[0]).all()


def test_a_value_that_is_never_drawn_gives_itself_away() -> None:
    mechanism = Retention(Domain((PET,)), 0.5, [1, 1, 0])
    assert mechanism.guarantee.gamma == math.inf and "never drawn" in mechanism.caveats[0]
    with pytest.raises(PrivacyError, match="never drawn"):
        Retention.promising(Guarantee(19), Domain((PET,)), replace=[1, 1, 0])


def test_keep_is_rounded_down() -> None:
    third = Retention(Domain((SEX,)), Fraction(1, 3)).keeps[0]
    assert third == Fraction((1 << 32) // 3, 1 << 32) < Fraction(1, 3)


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (0, "keep=0 replaces every record, so nothing can be reconstructed; use 0 < keep <= 1"),
        (-0.1, "keep=-0.1 is not a probability; use 0 < keep <= 1"),
        (1.5, "keep=1.5 is not a probability; use 0 < keep <= 1"),
        (float("nan"), "not a probability"),
        (1e-12, "less than one value in 2^32"),
        ((0.5,), "1 keeps for 2 private columns"),
        ({"sex": 0.5}, "no keep for column 'pet'"),
        ({"sex": 0.5, "pet": 0}, "keep of 'pet'=0 replaces every record"),
    ],
)
def test_a_keep_that_makes_no_sense_is_refused(keep: object, words: str) -> None:
    with pytest.raises(ParameterError) as error:
        Retention(RECORD, keep)
    assert words in str(error.value)


def test_names_and_laws_that_do_not_fit_are_refused_with_the_near_miss() -> None:
    with pytest.raises(SchemaError, match="did you mean 'pet'"):
        Retention(RECORD, {"sex": 0.5, "pt": 0.5})
    with pytest.raises(ParameterError, match="did you mean 'uniform'"):
        Retention(RECORD, 0.5, "unifrom")
    with pytest.raises(ParameterError, match="2 weights are given for 'pet'; the column has 3"):
        Retention(Domain((PET,)), 0.5, [1, 2])
    with pytest.raises(ParameterError, match="not negative"):
        Retention(Domain((PET,)), 0.5, [1, -1, 2])
    with pytest.raises(SchemaError, match="mask"):
        Retention(Domain((Items("items", ("a",)),)), 0.5)


def test_too_small_a_share_is_refused_rather_than_rounded_up() -> None:
    with pytest.raises(PrivacyError, match="less than one value"):
        Retention.promising(Guarantee(1 + 1e-9), domain_of(1000))


def test_public_columns_need_no_keep() -> None:
    mechanism = Retention(Domain((SEX, INCOME, HOURS)), {"sex": 0.5, "hours": 0.25})
    assert mechanism.keeps == (Fraction(1, 2), Fraction(1, 4))


def test_category_with_many_values_keeps_its_code_width() -> None:
    domain = Domain((Category("town", tuple(map(str, range(70_000)))),))
    (reports,) = Retention(domain, 0.5).randomise((np.arange(70_000, dtype=np.uint32),), seeded(1))
    assert reports.dtype == np.uint32 and reports.max() > 65_536
