"""Sums, means and variances of perturbed numbers: unbiased, and with the spread they state."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import EstimationError
from sfumato.randomness import seeded
from sfumato.source import Exact
from sfumato.table import Table

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


def weights(moments, power: int, **cells: int) -> np.ndarray:
    """1 at one power and in the chosen cells."""
    shape = moments.value.shape
    result = np.zeros(shape)
    place = tuple(cells.get(part.name, slice(None)) for part in moments.cells)
    result[(*place, power)] = 1
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
            weights(moments, power, sex=1, **({"age": 0} if cuts else {})) for power in (0, 1)
        )
        total = moments.scale.half * first + moments.scale.middle * count
        both = np.stack([total, count], axis=-1)
        value = np.array([(moments.value * each).sum() for each in (total, count)])
        covariance = moments.covariance_matrix(both)
        slope = np.array([1, -value[0] / value[1]]) / value[1]
        found.append((value[0], covariance[0, 0], value[0] / value[1], slope @ covariance @ slope))
    sums, variances, means, mean_variances = np.array(found).T
    assert abs(sums.mean() - age[chosen].sum()) < 5 * sums.std() / np.sqrt(300)
    assert 0.8 < sums.std() / np.sqrt(variances.mean()) < 1.2
    assert 0.8 < means.std() / np.sqrt(mean_variances.mean()) < 1.2


def test_exact_sums_are_exact():
    records = truth(500)
    cells = (DOMAIN["age"].cells_by_cuts([]), DOMAIN["region"].cells())
    moments = Exact(records).moments(cells, 0)
    age = DOMAIN["age"].numbers(records.column("age"))
    for region in range(3):
        inside = records.column("region") == region
        total = (
            moments.scale.half * moments.value[0, region, 1]
            + moments.scale.middle * moments.value[0, region, 0]
        )
        assert np.isclose(total, age[inside].sum())
    assert np.allclose(moments.covariance_matrix(np.ones((1, 3, 3, 2))), 0, atol=1e-6)


def test_a_swapped_column_keeps_its_sum():
    release = sf.perturb(truth(500), sf.Swapping(DOMAIN, 0.5), seeded(1))
    moments = release.moments((DOMAIN["age"].cells_by_cuts([]),), 0)
    exact = Exact(truth(500)).moments((DOMAIN["age"].cells_by_cuts([]),), 0)
    assert np.allclose(moments.value, exact.value)
    assert np.allclose(moments.covariance_matrix(np.ones((1, 3, 1))), 0)


def test_cells_have_no_sum():
    with pytest.raises(EstimationError, match="holds no numbers"):
        Exact(truth(50)).moments((DOMAIN["sex"].cells(),), 0)
