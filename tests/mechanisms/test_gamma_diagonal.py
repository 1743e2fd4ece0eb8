"""Gamma-diagonal, judged outcome by outcome: every integer it could draw is drawn once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.keystreams import Exhaustive, Witness

from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import ParameterError, SchemaError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal, representable
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded


def domain_of(*sizes: int) -> Domain:
    return Domain(
        tuple(Category(f"a{i}", tuple(map(str, range(size)))) for i, size in enumerate(sizes))
    )


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    numerator=st.integers(2, 60),
    denominator=st.integers(1, 20),
    place=st.integers(0, 10**6),
)
def test_the_integers_drawn_give_the_matrix_exactly(
    sizes: list[int], numerator: int, denominator: int, place: int
) -> None:
    gamma = Fraction(numerator + denominator, denominator)
    mechanism = GammaDiagonal(domain_of(*sizes), gamma)
    cells, shape = mechanism.domain.cells, mechanism.domain.shape
    total = gamma.numerator + gamma.denominator * (cells - 1)
    truth = np.unravel_index(place % cells, shape)
    records = tuple(np.full(total, code, dtype=np.uint8) for code in truth)
    reports = mechanism.randomise(records, Exhaustive())
    counts = np.bincount(
        np.ravel_multi_index(tuple(r.astype(int) for r in reports), shape), minlength=cells
    )
    expected = np.full(cells, gamma.denominator)
    expected[place % cells] = gamma.numerator
    assert counts.tolist() == expected.tolist()


@given(
    gamma=st.fractions(min_value=Fraction(1001, 1000), max_value=10**6) | st.floats(1.001, 1e6),
    sizes=st.lists(st.integers(2, 500), min_size=1, max_size=6),
)
def test_asked_for_gamma_it_delivers_that_or_less(
    gamma: Fraction | float, sizes: list[int]
) -> None:
    mechanism = GammaDiagonal.promising(Guarantee(gamma), domain_of(*sizes))
    delivered = mechanism.guarantee.gamma
    assert isinstance(delivered, Fraction)
    assert delivered <= gamma
    assert float(delivered) == pytest.approx(float(gamma), rel=1e-3)
    assert representable(delivered, mechanism.domain.cells) == delivered


def test_a_whole_gamma_is_delivered_exactly_up_to_four_billion_cells() -> None:
    assert GammaDiagonal(domain_of(1 << 10, 1 << 10, 1 << 11), 19).gamma == 19
    assert GammaDiagonal(domain_of(1 << 10, 1 << 10, 1 << 12), 19).gamma < 19


def test_on_a_huge_domain_keep_is_a_threshold_and_gamma_follows_from_it() -> None:
    mechanism = GammaDiagonal.promising(Guarantee(19), domain_of(*[50] * 9))
    witness = Witness()
    mechanism.randomise(tuple(np.zeros(10, np.uint8) for _ in range(9)), witness)
    assert witness.bounds == [50] * 9
    ((threshold, bits),) = witness.thresholds
    keep = Fraction(threshold, 1 << bits)
    assert mechanism.guarantee.gamma == 1 + keep * 50**9 / (1 - keep)
    assert Fraction("18.99") < mechanism.guarantee.gamma <= 19


def test_a_huge_domain_keeps_whole_records() -> None:
    """With n = 10^12 and gamma = 10^12 about half of the records are kept, and the others change in
    every column.
    """
    mechanism = GammaDiagonal(domain_of(*[1000] * 4), 10**12)
    records = tuple(np.arange(20_000, dtype=np.uint16) % 1000 for _ in range(4))
    reports = mechanism.randomise(records, seeded(1))
    unchanged = np.stack(
        [report == record for report, record in zip(reports, records, strict=True)]
    )
    kept = unchanged.all(axis=0)
    assert abs(kept.mean() - 0.5) < 5 * (0.25 / 20_000) ** 0.5
    assert unchanged[:, ~kept].mean() < 0.003


@pytest.mark.parametrize("gamma", [1, 0.5, float("inf"), float("nan")])
def test_a_gamma_that_promises_nonsense_is_refused(gamma: float) -> None:
    with pytest.raises(ParameterError, match="gamma"):
        GammaDiagonal(domain_of(2), gamma)


def test_a_record_that_would_never_be_kept_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"keeps less than one record in 2\^64"):
        GammaDiagonal(domain_of(*[2] * 1200), 19)
    with pytest.raises(ParameterError, match="keeps less than one record"):
        GammaDiagonal(domain_of(3000), 1 + Fraction(1, 10**12))


def test_baskets_and_uncut_numbers_are_refused_with_advice() -> None:
    with pytest.raises(SchemaError, match="mask"):
        GammaDiagonal(Domain((Items("items", ("a", "b")),)), 19)
    with pytest.raises(SchemaError, match="cuts"):
        GammaDiagonal.promising(Guarantee(19), Domain((Numeric("age", 0, 9),)))
