"""Cut-and-paste: exact gamma, the law of its reports, and supports recovered from them."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from sfumato.bits import Bits
from sfumato.channels import NotLumpableError
from sfumato.domain import Category, Domain, Items
from sfumato.errors import EstimationError, ParameterError, PrivacyError
from sfumato.mechanisms.base import spec_of
from sfumato.mechanisms.cut_and_paste import SIZE, CutAndPaste, cut_law
from sfumato.mechanisms.registry import from_spec
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table, perturb_table
from sfumato.testing import unbalanced

REJECT = 1e-6


def shop(items: int) -> Domain:
    return Domain((Items("items", tuple(map(str, range(items)))),))


def survey(*sizes: int) -> Domain:
    return Domain(
        tuple(
            Category(f"a{place}", tuple(map(str, range(size)))) for place, size in enumerate(sizes)
        )
    )


CENSUS = survey(4, 5, 5, 5, 2, 2)


def slow_probability(
    report: set[int], truth: set[int], universe: int, cutoff: int, insert: float
) -> float:
    """Over every number of kept items and every choice of them."""
    total = 0.0
    for draw in range(cutoff + 1):
        choices = list(combinations(sorted(truth), min(draw, len(truth))))
        for kept in map(set, choices):
            if kept <= report:
                pasted = len(report) - len(kept)
                chance = insert**pasted * (1 - insert) ** (universe - len(report))
                total += chance / len(choices) / (cutoff + 1)
    return total


def basket(cell: int, items: int) -> set[int]:
    return {item for item in range(items) if cell >> (items - 1 - item) & 1}


# The channel and the guarantee.


@pytest.mark.parametrize("cutoff", [1, 2, 3, 5])
def test_the_channel_of_baskets_is_the_slow_one(cutoff: int) -> None:
    mechanism = CutAndPaste(shop(4), cutoff, 0.3)
    slow = [
        [
            slow_probability(basket(v, 4), basket(u, 4), 4, cutoff, mechanism.insert)
            for u in range(16)
        ]
        for v in range(16)
    ]
    np.testing.assert_allclose(mechanism.private_channel.to_dense(), slow, atol=1e-15)


@pytest.mark.parametrize("cutoff", [1, 2, 3])
def test_the_channel_of_records_is_the_slow_one(cutoff: int) -> None:
    mechanism = CutAndPaste(survey(2, 3), cutoff, 0.3)
    truths = [{sex, 2 + pet} for sex in range(2) for pet in range(3)]
    slow = [
        [slow_probability(basket(v, 5), u, 5, cutoff, mechanism.insert) for u in truths]
        for v in range(32)
    ]
    np.testing.assert_allclose(mechanism.private_channel.to_dense(), slow, atol=1e-15)


def test_the_channel_of_a_few_attributes_is_the_whole_one_summed() -> None:
    mechanism = CutAndPaste(survey(2, 3, 2), 2, 0.3)
    whole = (
        mechanism.private_channel.to_dense().reshape(4, 8, 4, 2, 3, 2).sum(axis=1)
    )  # the items of the second axis summed out
    part = mechanism.private_channel_over([0, 2]).to_dense().reshape(4, 4, 2, 2)
    for middle in range(3):
        np.testing.assert_allclose(whole[:, :, :, middle], part, atol=1e-15)


def test_a_few_items_of_a_basket_have_no_channel_of_their_own() -> None:
    with pytest.raises(NotLumpableError, match="size of the basket"):
        CutAndPaste(shop(4), 2, 0.3).private_channel_over([0, 1])


@pytest.mark.parametrize("cutoff", [1, 2, 3, 4, 6])
@pytest.mark.parametrize(
    "domain", [shop(1), shop(3), shop(5), survey(2, 3), survey(1, 3), survey(1, 1, 2)], ids=str
)
def test_gamma_is_that_of_the_matrix(cutoff: int, domain: Domain) -> None:
    mechanism = CutAndPaste(domain, cutoff, 0.3)
    rows = mechanism.private_channel.to_dense()
    assert float(mechanism.guarantee.gamma) == pytest.approx(
        (rows.max(axis=1) / rows.min(axis=1)).max(), rel=1e-9
    )


def test_gamma_is_exact() -> None:
    assert CutAndPaste(CENSUS, 3, 0.5).guarantee.gamma == 1 + 2 + 4 + 8
    assert CutAndPaste(shop(1000), 3, 0.5).guarantee.gamma == 15


def test_frapps_choice_is_stricter_than_it_need_be() -> None:
    """FRAPP prints K = 3, ρ = 0.494 at γ = 19; the exact γ of that is 15.42, and ρ = 0.45136 is
    enough.
    """
    assert float(CutAndPaste(CENSUS, 3, 0.494).guarantee.gamma) == pytest.approx(15.417, abs=1e-3)
    assert 18.99 < CutAndPaste(CENSUS, 3, 0.45136).guarantee.gamma <= 19


@pytest.mark.parametrize("gamma", [2.1, 3.5, 19, 400])
@pytest.mark.parametrize(
    "domain", [CENSUS, shop(4), shop(500), survey(3)], ids=["census", "four", "many", "one"]
)
def test_a_promise_is_kept_with_the_least_insert(gamma: float, domain: Domain) -> None:
    asked = Guarantee(Fraction(str(gamma)))
    mechanism = CutAndPaste.promising(asked, domain)
    assert asked.allows(mechanism.guarantee)
    assert not asked.allows(
        CutAndPaste(domain, mechanism.cutoff, mechanism.insert - 1 / 65536).guarantee
    )


def test_a_promise_of_two_or_less_is_refused() -> None:
    with pytest.raises(PrivacyError, match="gamma > 2"):
        CutAndPaste.promising(Guarantee(2), CENSUS)


def test_insert_is_rounded_up() -> None:
    assert CutAndPaste(CENSUS, 3, 0.1).insert == math.ceil(6553.6) / 65536


@pytest.mark.parametrize(
    ("cutoff", "insert"), [(0, 0.5), (-1, 0.5), (2, 0), (2, 1), (2, -0.1), (2, 0.9999999)]
)
def test_what_cannot_work_is_refused(cutoff: int, insert: float) -> None:
    with pytest.raises(ParameterError, match=r"cutoff=|insert="):
        CutAndPaste(CENSUS, cutoff, insert)


def test_the_spec_survives_json() -> None:
    for domain in (CENSUS, shop(9)):
        mechanism = CutAndPaste(domain, 3, 0.494)
        assert from_spec(json.loads(json.dumps(spec_of(mechanism)))) == mechanism


# Itemsets.


def test_the_size_of_a_basket_travels_outside_the_guarantee_and_that_is_said() -> None:
    mechanism = CutAndPaste(shop(5), 2, 0.3)
    truth = Bits.from_dense(np.random.default_rng(1).random((300, 5)) < 0.4)
    report, sizes = mechanism.perturb((truth,), seeded(1))
    np.testing.assert_array_equal(sizes, truth.sizes())
    assert mechanism.reports[SIZE].public and report.items == 5
    assert any("outside the guarantee" in caveat for caveat in mechanism.caveats)
    assert not any("outside" in caveat for caveat in CutAndPaste(CENSUS, 2, 0.3).caveats)


def test_itemsets_longer_than_the_cutoff_are_refused() -> None:
    mechanism = CutAndPaste(CENSUS, 3, 0.494)
    assert mechanism.sizes(3).condition < 1e4
    with pytest.raises(EstimationError, match="at most cutoff=3"):
        mechanism.sizes(4)


@pytest.mark.parametrize("items", [[0], [1, 3], [0, 2, 4]])
def test_votes_are_unbiased(items: list[int]) -> None:
    rows = 200_000
    truth = Bits.from_dense(np.random.default_rng(2).random((rows, 6)) < 0.5)
    mechanism = CutAndPaste(shop(6), 3, 0.3)
    reports, sizes = mechanism.perturb((truth,), seeded(3))
    shown = reports.to_dense()[:, items].sum(axis=1)
    law = mechanism.item_law
    tables = [law.votes(len(items), m) if m >= len(items) else np.zeros(4) for m in range(7)]
    votes = np.array([tables[m][s] for m, s in zip(sizes, shown, strict=True)])
    holds = truth.to_dense()[:, items].all(axis=1)
    for true in (True, False):
        stderr = votes[holds == true].std() / math.sqrt((holds == true).sum())
        assert abs(votes[holds == true].mean() - true) < 5.5 * stderr
        assert (
            abs(votes[holds == true].mean() - (true + 0.05 * 4 ** (len(items) - 1))) > 5.5 * stderr
        )


def test_votes_on_records_are_unbiased() -> None:
    rows = 200_000
    rng = np.random.default_rng(4)
    truth = tuple(rng.integers(0, size, rows).astype(np.uint8) for size in (2, 3, 2))
    mechanism = CutAndPaste(survey(2, 3, 2), 2, 0.3)
    (reports,) = mechanism.perturb(truth, seeded(3))
    votes = mechanism.item_law.votes(2, 3)[reports.to_dense()[:, [1, 3]].sum(axis=1)]
    release = Release.of(perturb_table(Table(mechanism.domain, truth), mechanism, seeded(3)))
    cells = [attribute.cells() for attribute in mechanism.domain][:2]
    assert unbalanced(release, cells)[1, 1] == pytest.approx(votes.sum(), rel=1e-9)
    holds = (truth[0] == 1) & (truth[1] == 1)
    for true in (True, False):
        stderr = votes[holds == true].std() / math.sqrt((holds == true).sum())
        assert abs(votes[holds == true].mean() - true) < 5.5 * stderr


# The sampler.


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5])
def test_baskets_are_reported_by_their_law(size: int) -> None:
    """Every one of the 32 reports of one basket, chi-square; the insert five per cent off is
    rejected.
    """
    mechanism, rows = CutAndPaste(shop(5), 2, 0.3), 200_001
    truth = np.zeros((rows, 5), dtype=bool)
    truth[:, :size] = True
    (report, _) = mechanism.perturb((Bits.from_dense(truth),), seeded(size))
    found = np.bincount(report.to_dense() @ (1 << np.arange(5)[::-1]), minlength=32)
    column = int((truth[0] @ (1 << np.arange(5)[::-1])).item())
    assert fit(found, mechanism.private_channel.to_dense()[:, column]) > REJECT
    assert fit(found, CutAndPaste(shop(5), 2, 0.315).private_channel.to_dense()[:, column]) < REJECT


def fit(found: np.ndarray, chances: np.ndarray) -> float:
    return float(stats.chisquare(found, chances * found.sum() / chances.sum()).pvalue)


def test_a_cut_beyond_the_basket_keeps_it_whole() -> None:
    assert cut_law(4, 2) == [Fraction(1, 5), Fraction(1, 5), Fraction(3, 5)]
    rows = 100_000
    (report, _) = CutAndPaste(shop(2), 4, 1e-5).perturb(
        (Bits.from_dense(np.ones((rows, 2), dtype=bool)),), seeded(1)
    )
    whole = int((report.sizes() == 2).sum())
    assert abs(whole - 0.6 * rows) < 5.5 * math.sqrt(rows * 0.24)


def test_draws_below_many_bounds_are_uniform() -> None:
    bounds = np.tile([1, 2, 3, 5, 7, 1 << 20], 60_000)
    draws = seeded(1).below_each(bounds)
    assert (draws < bounds).all() and (draws >= 0).all()
    for bound in (2, 3, 5, 7):
        assert stats.chisquare(np.bincount(draws[bounds == bound], minlength=bound)).pvalue > REJECT


@pytest.mark.parametrize("rows", [0, 1, 63, 65])
def test_few_rows_are_no_special_case(rows: int) -> None:
    truth = Bits.from_dense(np.random.default_rng(1).random((rows, 7)) < 0.5)
    report, sizes = CutAndPaste(shop(7), 3, 0.5).perturb((truth,), seeded(1))
    assert report.rows == len(sizes) == rows


@pytest.mark.parametrize(("columns", "gamma"), [(6, 9), (6, 19), (8, 19), (10, 100)])
def test_the_cutoff_that_is_promised_is_best_for_itemsets_of_half_a_record(columns, gamma):
    """Against all cutoffs tried one by one."""
    domain = Domain(tuple(Category(f"c{place}", ("a", "b", "c")) for place in range(columns)))
    found = CutAndPaste.promising(Guarantee(gamma), domain)
    tried = [
        CutAndPaste._least_insert(Guarantee(gamma), domain.binned(), cutoff)
        for cutoff in range(1, columns + 1)
    ]
    able = [each for each in tried if each is not None and each.cutoff >= columns // 2]
    best = min(able, key=lambda each: each.sizes(columns // 2, columns).condition)
    assert found.cutoff == best.cutoff


@pytest.mark.parametrize(("universe", "typical"), [(40, 6), (4, 4)])
def test_a_basket_is_taken_as_six_items_or_as_all_there_are(universe, typical):
    shop = Domain((Items("items", tuple(map(str, range(universe)))),))
    found = CutAndPaste.promising(Guarantee(19), shop)
    tried = [
        CutAndPaste._least_insert(Guarantee(19), shop, cutoff) for cutoff in range(1, typical + 1)
    ]
    able = [each for each in tried if each is not None and each.cutoff >= typical // 2]
    best = min(able, key=lambda each: each.sizes(typical // 2, typical).condition)
    assert found.cutoff == best.cutoff
