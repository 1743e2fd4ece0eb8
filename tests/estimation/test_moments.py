"""Sums, means and variances of perturbed numbers: unbiased, and with the spread they state."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.channels import Distribution
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import EstimationError
from sfumato.estimation.moments import Scale, drawn_moments
from sfumato.randomness import seeded
from sfumato.release import Exact
from sfumato.table import Table

CENTRE = 47.0
DOMAIN = Domain(
    (
        Category("sex", ("F", "M")),
        Numeric("age", 20, 79),
        Category("region", tuple("nsw"), public=True),
    )
)


def truth(rows: int) -> Table:
    rng = np.random.default_rng(3)
    sex = rng.integers(0, 2, rows)
    age = np.minimum(rng.integers(0, 45, rows) + 15 * sex, 59)
    return Table(
        DOMAIN,
        (sex.astype(np.uint8), age.astype(np.uint8), rng.integers(0, 3, rows).astype(np.uint8)),
    )


def weights(cells, power: int, **chosen: int) -> np.ndarray:
    """1 at one power and in the chosen cells."""
    result = np.zeros((*(part.size for part in cells), 3))
    result[(*(chosen.get(part.name, slice(None)) for part in cells), power)] = 1
    return result


MECHANISMS = {
    "uniform": sf.Retention(DOMAIN, (0.6, 0.4)),
    "identity": sf.Retention(DOMAIN, (0.6, 0.4), replace="identity"),
    "mixed": sf.Retention(DOMAIN, (0.6, 0.4), replace=("identity", "uniform")),
    "stated": sf.Retention(DOMAIN, (0.6, 0.4), replace=("uniform", tuple(range(1, 61)))),
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("cuts", [[], [40, 60]])
def test_sums_and_means_have_the_spread_they_state(name, cuts):
    records, rng = truth(20_000), seeded(4)
    age = DOMAIN["age"].numbers(records.column("age"))
    chosen = (records.column("sex") == 1) & (age < 40 if cuts else True)
    cells = (DOMAIN["sex"].cells(), DOMAIN["age"].cells_by_cuts(cuts))
    found = []
    for _ in range(300):
        moments = sf.perturb(records, MECHANISMS[name], rng).moments(cells, 1)
        count, first = (
            weights(cells, power, sex=1, **({"age": 0} if cuts else {})) for power in (0, 1)
        )
        total = first + CENTRE * count
        both = np.stack([total, count], axis=-1)
        value = np.array([(moments.about(CENTRE) * each).sum() for each in (total, count)])
        covariance = moments.covariance_matrix(both, CENTRE)
        slope = np.array([1, -value[0] / value[1]]) / value[1]
        found.append((value[0], covariance[0, 0], value[0] / value[1], slope @ covariance @ slope))
    sums, variances, means, mean_variances = np.array(found).T
    assert abs(sums.mean() - age[chosen].sum()) < 5 * sums.std() / np.sqrt(300)
    assert 0.8 < sums.std() / np.sqrt(variances.mean()) < 1.2
    assert 0.8 < means.std() / np.sqrt(mean_variances.mean()) < 1.2


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_centre_about_which_one_asks_changes_nothing(name):
    cells = (DOMAIN["sex"].cells(), DOMAIN["age"].cells_by_cuts([40]))
    moments = sf.perturb(truth(2000), MECHANISMS[name], seeded(1)).moments(cells, 1)
    count, first, second = (weights(cells, power, sex=1) for power in range(3))
    for centre in (0.0, 33.3, 1e4):
        sums = [count, first + centre * count, second + 2 * centre * first + centre**2 * count]
        value = [(moments.about(centre) * each).sum() for each in sums]
        plain = [(moments.about(0.0) * each).sum() for each in (count, first, second)]
        assert np.allclose(value, plain, rtol=1e-7)
        found = moments.covariance_matrix(np.stack(sums, axis=-1), centre)
        judge = moments.covariance_matrix(np.stack([count, first, second], axis=-1), 0.0)
        assert np.allclose(found, judge, rtol=1e-5)


def test_exact_sums_are_exact():
    records = truth(500)
    cells = (DOMAIN["age"].cells_by_cuts([]), DOMAIN["region"].cells())
    moments = Exact(records).moments(cells, 0)
    age = DOMAIN["age"].numbers(records.column("age"))
    for region in range(3):
        inside = age[records.column("region") == region]
        assert moments.about(0.0)[0, region].tolist() == [
            len(inside),
            inside.sum(),
            (inside**2).sum(),
        ]
    assert (moments.covariance_matrix(np.ones((1, 3, 3, 2)), 3.0) == 0).all()


def test_squares_of_groups_that_lie_far_apart_do_not_cancel():
    domain = Domain((Numeric("x", 0, 10**9), Category("side", ("low", "high"))))
    rng = np.random.default_rng(0)
    side, small = rng.integers(0, 2, 3000), rng.integers(0, 3, 3000)
    x = np.where(side == 1, 10**9 - small, small)
    table = Table(domain, (x.astype(np.uint32), side.astype(np.uint8)))
    moments = Exact(table).moments((domain["x"].cells_by_cuts([]), domain["side"].cells()), 0)
    for place in (0, 1):
        inside = x[side == place]
        rows, first, second = moments.about(float(inside.mean()))[0, place]
        spread = second / rows - (first / rows) ** 2
        assert spread == pytest.approx(small[side == place].var(), rel=1e-13)


def test_numbers_that_fill_little_of_their_range_are_summed_about_their_mean():
    """Reports drawn from the column's own distribution lie where the records do."""
    domain = Domain((Numeric("x", 0, 10**9), Category("y", ("n", "y"))))
    rng = np.random.default_rng(2)
    x = rng.integers(0, 3, 4000)
    table = Table(domain, (x.astype(np.uint32), rng.integers(0, 2, 4000).astype(np.uint8)))
    release = sf.perturb(table, sf.Retention(domain, 0.5, replace="identity"), seeded(1))
    moments = release.moments((domain["x"].cells_by_cuts([]),), 0)
    rows, first, second = moments.about(1.0)[0]
    assert second / rows - (first / rows) ** 2 == pytest.approx(x.var(), abs=0.1)
    stderr = np.sqrt(moments.covariance_matrix(np.array([[[0.0], [0.0], [1.0]]]), 1.0)[0, 0])
    assert 1 < stderr < 4000


@pytest.mark.parametrize("cuts", [[], [40, 60], [21, 22, 23]])
def test_the_moments_of_a_uniform_law_are_those_of_its_values(cuts):
    age, scale = DOMAIN["age"], Scale(45.0, 20.0)
    cells = age.cells_by_cuts(cuts)
    numbers, owner = scale.apply(age.numbers(np.arange(60))), cells.assign(np.arange(60))
    found = drawn_moments(Distribution(60), age, cells, scale)
    for cell in range(cells.size):
        sums = [(numbers[owner == cell] ** power).sum() / 60 for power in range(5)]
        assert np.allclose(found[cell], sums, rtol=1e-12, atol=1e-14)


def test_the_moments_of_a_law_on_a_thousand_million_values_need_no_list_of_them():
    wide = Numeric("x", 0, 4 * 10**9)
    found = drawn_moments(
        Distribution(wide.size), wide, wide.cells_by_cuts([10**9]), Scale.of(wide)
    )
    assert found.sum(axis=0) == pytest.approx([1, 0, 1 / 3, 0, 1 / 5], abs=1e-8)


def test_a_swapped_column_keeps_its_sum():
    release = sf.perturb(truth(500), sf.Permuting(DOMAIN, 0.5), seeded(1))
    moments = release.moments((DOMAIN["age"].cells_by_cuts([]),), 0)
    exact = Exact(truth(500)).moments((DOMAIN["age"].cells_by_cuts([]),), 0)
    assert np.allclose(moments.about(50.0), exact.about(50.0))
    assert np.allclose(moments.covariance_matrix(np.ones((1, 3, 1)), 50.0), 0)


def test_cells_have_no_sum():
    with pytest.raises(EstimationError, match="holds no numbers"):
        Exact(truth(50)).moments((DOMAIN["sex"].cells(),), 0)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("columns", [("sex", "age"), ("sex", "age", "region")])
def test_what_a_report_adds_is_the_slope_of_the_estimate(name, columns):
    """Against a derivative taken by numbers, up to what every report adds alike."""
    cells = tuple(
        DOMAIN[c].cells_by_cuts([40, 60]) if c == "age" else DOMAIN[c].cells() for c in columns
    )
    moments = sf.perturb(truth(3000), MECHANISMS[name], seeded(8)).moments(cells, 1)
    shape = moments.sums.shape[:-1]
    asked = np.random.default_rng(5).normal(size=(*shape, 3))
    told = moments._influence(moments._aside(asked))
    z = np.array([-0.9, -0.2, 0.4, 0.8])[:, None] ** np.arange(5)  # (reports, powers)

    def slope(cell, powers):
        step = np.zeros_like(moments.sums)
        step[cell] = 0.5 * powers
        up, down = (replace(moments, sums=moments.sums + sign * step) for sign in (1, -1))
        return float((asked * (up._value - down._value)).sum())

    found = [[slope(cell, powers) for powers in z] for cell in np.ndindex(*shape)]
    aside = np.moveaxis(told, -2, 1)  # back in the order of the cells
    stated = [[float(aside[cell] @ powers[:3]) for powers in z] for cell in np.ndindex(*shape)]
    difference = np.array(found) - np.array(stated)
    assert np.ptp(difference) < 1e-3 * np.ptp(found)
