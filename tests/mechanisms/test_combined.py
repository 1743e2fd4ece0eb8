"""Combinations: parts side by side, guarantees multiplied, channels in product."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.examples import AGE, HOURS, INCOME, MIXED, PET, RECORD, SEX
from tests.mechanisms.test_gamma_diagonal import domain_of

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items
from sfumato.errors import ParameterError, SchemaError
from sfumato.mechanisms.base import Mechanism, channel_over
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.combined import Combined
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.joint import HadamardResponse, SubsetSelection, UnaryEncoding
from sfumato.mechanisms.matrix import UserMatrix
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mechanisms.retention import Permuting, Retention
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.table import Table


@given(
    gamma=st.fractions(min_value=Fraction(3, 2), max_value=1000, max_denominator=1000)
    | st.floats(1.5, 1000),
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=10),
)
def test_the_product_is_never_above_what_was_asked(
    gamma: Fraction | float, sizes: list[int]
) -> None:
    mechanism = Combined.promising(Guarantee(gamma), domain_of(*sizes))
    exact = Fraction(1)
    for part in mechanism.parts:
        exact *= Fraction(part.guarantee.gamma)
    assert mechanism.guarantee.gamma == exact <= gamma
    assert float(exact) == pytest.approx(float(gamma), rel=1e-3)


def test_groups_share_the_guarantee() -> None:
    mechanism = Combined.promising(
        Guarantee(16), Domain((SEX, AGE, PET, INCOME)), groups=[["age", "sex"], ["pet"]]
    )
    assert [part.domain.names for part in mechanism.parts] == [("age", "sex"), ("pet",)]
    assert [part.guarantee.gamma for part in mechanism.parts] == [4, 4]


def test_the_channel_is_the_product_of_the_parts_in_the_order_of_the_domain() -> None:
    records, hours = GammaDiagonal(Domain((PET, SEX)), 6), Retention(Domain((HOURS,)), 0.6)
    mechanism = Combined(Domain((SEX, HOURS, PET)), (records, hours))
    left = records.private_channel.to_dense().reshape(3, 2, 3, 2)
    right = hours.private_channel.to_dense()
    expected = np.einsum("psqt,hg->shptgq", left, right).reshape(60, 60)
    assert np.allclose(channel_over(mechanism).to_dense(), expected)
    assert np.allclose(
        channel_over(mechanism, [2, 0]).to_dense(), records.private_channel.to_dense()
    )


def test_a_part_that_cannot_be_marginalised_does_not_disturb_the_others() -> None:
    blurred = np.random.default_rng(1).dirichlet(np.ones(6), 6).T
    mechanism = Combined.of(UserMatrix(RECORD, blurred), GammaDiagonal(Domain((AGE,)), 3))
    assert np.allclose(
        channel_over(mechanism, [2]).to_dense(),
        GammaDiagonal(Domain((AGE,)), 3).private_channel.to_dense(),
    )


def test_one_part_that_needs_all_rows_makes_the_whole_need_them() -> None:
    rowwise = GammaDiagonal(Domain((AGE,)), 3)
    assert Combined.of(rowwise, Permuting(Domain((SEX,)), 0.5)).needs_all_rows
    assert not Combined.of(rowwise, Retention(Domain((SEX,)), 0.5)).needs_all_rows


def test_one_part_that_promises_nothing_makes_the_whole_promise_nothing() -> None:
    mechanism = Combined.of(GammaDiagonal(Domain((AGE,)), 3), Permuting(Domain((SEX,)), 0.5))
    assert mechanism.guarantee.gamma == float("inf") and mechanism.caveats


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((GammaDiagonal(Domain((AGE,)), 3),), "no part randomises attribute 'sex'"),
        (
            (GammaDiagonal(Domain((AGE, SEX)), 3), Retention(Domain((SEX,)), 0.5)),
            "'sex' is randomised by two parts",
        ),
        ((GammaDiagonal(Domain((AGE, PET)), 3),), "no attribute 'pet' in this domain"),
        ((Retention(Domain((HOURS,)), 0.5),), "no attribute 'hours'"),
    ],
)
def test_parts_must_share_out_the_private_attributes(parts: tuple[object, ...], words: str) -> None:
    with pytest.raises(SchemaError) as error:
        Combined(MIXED, parts)
    assert words in str(error.value)


def test_parts_may_report_other_columns_than_they_were_given() -> None:
    """Mask on a record reports a basket of its values; two of them stand side by side."""
    parts = (
        BitFlip(RECORD, 0.8, 0.8),
        GammaDiagonal(Domain((AGE,)), 3),
        BitFlip(Domain((HOURS,)), 0.9, 0.9),
    )
    combined = Combined.of(*parts)
    assert combined.reports.names == ("age", "items", "items 2")
    rows, rng = 30_000, np.random.default_rng(5)
    columns = tuple(rng.integers(0, a.size, rows).astype(np.uint8) for a in combined.domain)
    release = sf.perturb(Table(combined.domain, columns), combined, seeded(2))
    truth = sf.Exact(Table(combined.domain, columns))
    for names in (["age"], ["sex", "age"], ["hours", "sex", "age"]):
        found, true = release.marginal(names), truth.marginal(names)
        off = (found.value - true.value) / found.stderr
        assert np.abs(off).max() < 5 and 0.4 < np.sqrt((off**2).mean()) < 2


def test_baskets_and_records_side_by_side() -> None:
    domain = Domain((SEX, Items("items", ("bread", "milk")), INCOME))
    mechanism = Combined.promising(Guarantee(16), domain)
    assert [part.name for part in mechanism.parts] == ["gamma-diagonal", "mask"]
    assert mechanism.guarantee.gamma <= 16
    records = (
        np.array([0, 1], np.uint8),
        Bits.from_dense(np.array([[1, 0], [1, 1]], bool)),
        np.array([1, 1], np.uint8),
    )
    sex, items, income = mechanism.perturb(records, seeded(1))
    assert len(sex) == items.rows == 2 and income is records[2]
    whole = channel_over(mechanism)
    assert whole.inputs == whole.outputs == (2, 2, 2, 2)


def test_a_part_must_see_an_attribute_as_the_domain_has_it() -> None:
    with pytest.raises(SchemaError, match="other values in its part"):
        Combined(Domain((HOURS, SEX)), (GammaDiagonal(Domain((HOURS.bins(), SEX)), 3),))
    with pytest.raises(SchemaError, match="public"):
        Combined(MIXED, (GammaDiagonal(MIXED, 3),))
    with pytest.raises(ParameterError, match="at least one part"):
        Combined.of()


def test_a_questionnaire_beside_another_part_answers_within_its_error() -> None:
    """Columns of both parts, in either order: a channel that deals questions is one factor."""
    sex, pet = Category("sex", ("f", "m")), Category("pet", ("cat", "dog", "eel"))
    age = Category("age", ("young", "old"))
    domain = Domain((sex, pet, age))
    parts = (
        Questionnaire.promising(Guarantee(19), Domain((sex, pet))),
        GammaDiagonal(Domain((age,)), 9),
    )
    rng = np.random.default_rng(8)
    truth = Table(domain, tuple(rng.integers(0, a.size, 20_000).astype(np.uint8) for a in domain))
    for order in (parts, parts[::-1]):
        release = perturb(truth, Combined(domain, order), seeded(6))
        for names in (["pet", "age"], ["age", "sex"], ["sex", "pet", "age"]):
            found = release.marginal(names)
            off = found.value - Exact(truth).marginal(names).value
            assert np.all(np.abs(off) < 5 * found.stderr), names
            assert np.all(found.stderr > 0)


def test_a_device_puts_each_part_where_its_reports_stand() -> None:
    """A questionnaire's question and answer stand behind the columns reported as themselves."""
    sex, age = Category("sex", ("f", "m")), Category("age", ("young", "middle", "old"))
    pet = Category("pet", ("cat", "dog"))
    asked = Questionnaire.promising(Guarantee(19), Domain((sex, pet)))
    mixed = Combined(Domain((sex, pet, age)), (asked, GammaDiagonal(Domain((age,)), 9)))
    assert mixed.reports.names == ("age", "question", "answer")
    deal, keep = mixed.program().steps
    assert (deal.columns, deal.reports) == ((0, 1), (1, 2))
    assert (keep.columns, keep.reports) == ((2,), (0,))


@pytest.mark.parametrize(
    "kind",
    [
        GammaDiagonal,
        BitFlip,
        CutAndPaste,
        UnaryEncoding,
        SubsetSelection,
        HadamardResponse,
        Questionnaire,
    ],
)
def test_two_of_a_kind_stand_side_by_side(kind: type[Mechanism]) -> None:
    """Their reports have columns and items of the same names, which must not meet."""
    parts = [
        kind.promising(Guarantee(9), Domain((Category(name, ("x", "y", "z")),)))
        for name in ("left", "right")
    ]
    rng = np.random.default_rng(5)
    left = rng.integers(0, 3, 20_000).astype(np.uint8)
    right = np.where(rng.random(20_000) < 0.7, left, 0).astype(np.uint8)
    both = Combined.of(*parts)
    release = perturb(Table(both.domain, (left, right)), both, seeded(5))
    found = release.marginal(["left", "right"])
    truth = np.zeros((3, 3))
    np.add.at(truth, (left, right), 1)
    assert np.abs((found.value - truth) / found.stderr).max() < 4.5
    assert found.stderr.max() < 2_500
