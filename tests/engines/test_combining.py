"""Sites that send releases of their own people are asked as one; their errors are those that
repeating shows.
"""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric, one_after_another
from sfumato.engines import combine
from sfumato.errors import EstimationError, ParameterError, SchemaError
from sfumato.randomness import seeded
from sfumato.release import Exact
from sfumato.source import Source
from sfumato.table import Table

DOMAIN = Domain(
    (
        Category("sex", ("F", "M")),
        Numeric("age", 0, 49, cuts=(20,)),
        Category("smoker", ("no", "yes")),
    )
)
BASKETS = Domain((Items("items", tuple("abcd")),))
KEEPS = (0.8, 0.3, 0.5)
SIZES = (300, 900, 500)


def site(rows: int, seed: int, tilt: float = 0.0) -> Table:
    rng = np.random.default_rng(seed)
    sex = rng.random(rows) < 0.4 + tilt
    age = rng.integers(0, 50, rows)
    smoker = rng.random(rows) < 0.2 + 0.3 * sex
    return Table(DOMAIN, (sex.astype(np.uint8), age.astype(np.uint8), smoker.astype(np.uint8)))


def everyone(sites: list[Table]) -> Exact:
    columns = zip(*(site.columns for site in sites), strict=True)
    return Exact(Table(sites[0].domain, tuple(map(one_after_another, columns))))


def releases(sites: list[Table], rng: sf.randomness.Keystream) -> list[Source]:
    return [
        sf.perturb(table, sf.Retention(DOMAIN, keep), rng)
        for table, keep in zip(sites, KEEPS, strict=True)
    ]


SITES = [
    site(rows, seed, tilt)
    for seed, (rows, tilt) in enumerate(zip(SIZES, (0.0, 0.3, -0.3), strict=True))
]
QUESTION = ["sex", "smoker"]


def repeated(alike: bool, sites_of: list[list[Table]], times: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the count of smoking men over repeated perturbation, and the standard errors
    stated.
    """
    rng, errors, stated = seeded(7), [], []
    for number in range(times):
        sites = sites_of[number % len(sites_of)]
        true = everyone(sites).marginal(QUESTION).where(sex="M", smoker="yes").value
        found = (
            combine(releases(sites, rng), alike=alike)
            .marginal(QUESTION)
            .where(sex="M", smoker="yes")
        )
        errors.append(found.value - true)
        stated.append(found.stderr)
    return np.array(errors), np.array(stated)


def check_errors(errors: np.ndarray, stated: np.ndarray) -> None:
    """The mean error is 0 and the spread is what was stated, each within 5 standard deviations."""
    times, scale = len(errors), np.sqrt(np.mean(stated**2))
    assert abs(errors.mean()) < 5 * scale / np.sqrt(times)
    assert abs(errors.std() / scale - 1) < 5 / np.sqrt(2 * times)


def test_estimates_of_different_people_add_up_without_bias() -> None:
    errors, stated = repeated(False, [SITES], 300)
    check_errors(errors, stated)
    with pytest.raises(AssertionError):
        check_errors(errors, stated * 0.75)  # the test can tell
    with pytest.raises(AssertionError):
        check_errors(errors + 0.4 * stated, stated)


def test_samples_of_one_population_are_weighted_by_their_variance() -> None:
    alike = [
        [site(rows, 100 * draw + seed) for seed, rows in enumerate(SIZES)] for draw in range(150)
    ]
    errors, stated = repeated(True, alike, 300)
    check_errors(errors, stated)
    plain_errors, plain_stated = repeated(False, alike, 60)
    check_errors(plain_errors, plain_stated)
    assert (
        stated.mean() < 0.8 * plain_stated.mean()
    )  # the site with keep 0.3 no longer sets the error


def test_weighting_different_populations_is_biased_which_the_sum_is_not() -> None:
    errors, stated = repeated(True, [SITES], 30)
    assert abs(errors.mean()) > 3 * stated.mean()


def test_a_combination_of_one_is_that_one() -> None:
    (release, *_) = releases(SITES, seeded(1))
    found, true = combine([release]).marginal(QUESTION), release.marginal(QUESTION)
    assert np.allclose(found.value, true.value) and np.allclose(found.stderr, true.stderr)


def test_covariances_moments_and_coarser_cells_add() -> None:
    parts = releases(SITES, seeded(2))
    both = combine(parts)
    estimate = both.marginal(QUESTION)
    weights = np.random.default_rng(3).normal(size=(2, 2, 3))
    expected = sum(part.marginal(QUESTION).evidence.covariance_matrix(weights) for part in parts)
    assert np.allclose(estimate.evidence.covariance_matrix(weights), expected)
    assert np.allclose(
        estimate.coarsen([both.cells("smoker")]).value, both.marginal(["smoker"]).value
    )
    assert np.allclose(
        estimate.coarsen([both.cells("smoker")]).stderr, both.marginal(["smoker"]).stderr
    )
    assert np.allclose(
        both.condensed(QUESTION).marginal(["sex"]).stderr, both.marginal(["sex"]).stderr
    )
    cells = [DOMAIN["age"].cells(), both.cells("sex")]
    moments = both.moments(cells, 0)
    sums = sum(part.moments(cells, 0).about(40.0) for part in parts)
    assert np.allclose(moments.about(40.0), sums)
    column = np.zeros((*sums.shape, 1))
    column[..., 1, 0] = 1
    assert np.allclose(
        moments.covariance_matrix(column, 40.0),
        sum(part.moments(cells, 0).covariance_matrix(column, 40.0) for part in parts),
    )
    assert [found.rows for found in both.marginals([["sex"], QUESTION])] == [sum(SIZES)] * 2


def test_releases_of_different_mechanisms_and_the_truth_combine() -> None:
    binned = DOMAIN.binned()
    tables = [table.recode(binned) for table in SITES]
    sites = [
        Exact(tables[0]),
        sf.perturb(tables[1], sf.GammaDiagonal(binned, 50), seeded(4), copies=2),
        sf.perturb(tables[2], sf.Permuting(binned, 0.6), seeded(5)),
    ]
    found = combine(sites).marginal(QUESTION)
    true = everyone(tables).marginal(QUESTION).value
    assert np.all(np.abs(found.value - true) < 5 * found.stderr)
    assert np.isclose(found.value.sum(), sum(SIZES))


def test_records_and_baskets_are_mined_over_sites() -> None:
    rng = np.random.default_rng(6)
    tables = [
        Table(BASKETS, (Bits.from_dense(rng.random((rows, 4)) < [0.6, 0.5, 0.4, 0.3]),))
        for rows in (3000, 5000)
    ]
    mechanisms = sf.BitFlip(BASKETS, 0.95, 0.9), sf.BitFlip(BASKETS, 0.8, 0.9)
    sites = [
        sf.perturb(table, mechanism, seeded(8))
        for table, mechanism in zip(tables, mechanisms, strict=True)
    ]
    found = sf.frequent_itemsets(combine(sites), min_support=0.05)
    true = {
        row.items: row.support for row in sf.frequent_itemsets(everyone(tables), min_support=0.001)
    }
    assert max(found.length) >= 2
    for row in found:
        assert abs(row.support - true[row.items]) < 5 * row.stderr
    pair = next(row for row in found if len(row.items) == 2)
    by_hand = [part.marginal(list(pair.items)) for part in sites]
    assert np.isclose(pair.support * 8000, sum(estimate.value[1, 1] for estimate in by_hand))
    assert np.isclose(
        pair.stderr * 8000, np.sqrt(sum(estimate.stderr[1, 1] ** 2 for estimate in by_hand))
    )
    assert len(sf.frequent_itemsets(combine(releases(SITES, seeded(9))), min_support=0.2)) > 3
    with pytest.raises(EstimationError, match="each release's own counts"):
        sf.association_rules(found, min_confidence=0.1)


def test_what_cannot_be_combined_is_refused() -> None:
    other = Domain((Category("sex", ("F", "X")), *DOMAIN.attributes[1:]))
    table = Table(other, SITES[0].columns)
    with pytest.raises(SchemaError, match="'sex' has other values"):
        combine([Exact(SITES[0]), Exact(table)])
    with pytest.raises(SchemaError, match="'age' is not in all"):
        combine([Exact(SITES[0]), Exact(SITES[0].recode(DOMAIN.project(["sex", "smoker"])))])
    with pytest.raises(ParameterError, match="at least one"):
        combine([])
    with pytest.raises(EstimationError, match="without alike"):
        combine([Exact(SITES[0])], alike=True).moments([DOMAIN["age"].cells()], 0)
