"""Coarser estimates from finer ones, several marginals from one scan, and covariances of cells."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.counting.in_memory import TableCounter
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import ParameterError
from sfumato.randomness import seeded
from sfumato.release import Exact
from sfumato.table import Table

RECORDS = Domain(
    (
        Category("sex", ("F", "M")),
        Numeric("age", 20, 79, cuts=(40, 60)),
        Category("region", ("north", "south", "west"), public=True),
    )
)
SHORT = RECORDS.binned()


def records(rows: int = 3000) -> Table:
    rng = np.random.default_rng(1)
    sex = rng.integers(0, 2, rows)
    age = np.minimum(rng.integers(0, 45, rows) + 15 * sex, 59)
    return Table(
        RECORDS,
        tuple(
            column.astype(np.uint8) for column in (sex, age, rng.choice(3, rows, p=[0.5, 0.3, 0.2]))
        ),
    )


MATRIX = 0.6 * np.eye(6) + 0.4 * np.random.default_rng(4).dirichlet(np.ones(6), 6).T
MECHANISMS = {
    "exact": None,
    "gamma-diagonal": sf.GammaDiagonal(SHORT, 30),
    "retention": sf.Retention(RECORDS, 0.5),
    "identity": sf.Retention(RECORDS, 0.5, replace="identity"),
    "permuting": sf.Permuting(RECORDS, 0.5),
    "mask": sf.BitFlip(SHORT, 0.9, 0.85),
    "matrix": sf.UserMatrix(SHORT, MATRIX),
}


def source(name: str) -> sf.Exact | sf.Release:
    mechanism = MECHANISMS[name]
    return Exact(records()) if mechanism is None else sf.perturb(records(), mechanism, seeded(3))


def cuts(of: sf.Exact | sf.Release, *at: int):
    return of.domain["age"].cells_by_cuts(at)


# Votes on items are unbiased for each question, but those on all values of a column need not add up
# to everyone.
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "mask"])
def test_a_coarser_estimate_is_the_coarser_marginal(name):
    asked = source(name)
    whole = asked.condensed([cuts(asked, 40, 60), "region", "sex"])
    for question in (["sex"], ["region", cuts(asked, 40)], [cuts(asked, 60), "sex", "region"]):
        coarse, direct = whole.marginal(question), asked.marginal(question)
        assert np.allclose(coarse.value, direct.value)
        assert np.allclose(coarse.stderr, direct.stderr)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_covariance_of_cells_is_that_of_pairs(name):
    estimate = source(name).marginal(["sex", "region"])
    cells = np.array([0, 3, 5])
    units = np.eye(6)[cells].reshape(3, 2, 3)
    pairs = [
        [estimate.evidence.covariances(a[..., None], b[..., None])[0] for b in units] for a in units
    ]
    assert np.allclose(estimate.cell_covariance(cells), pairs)
    assert np.allclose(
        np.sqrt(np.diag(estimate.cell_covariance(cells))), estimate.stderr.ravel()[cells]
    )
    sampled = [estimate.dot(unit, sampling=True).stderr for unit in units]
    assert np.allclose(np.sqrt(np.diag(estimate.cell_covariance(cells, sampling=True))), sampled)


@pytest.mark.parametrize("name", MECHANISMS)
def test_several_marginals_are_the_single_ones(name):
    questions = [["sex"], ["age", "region"], ["region", "sex"], ["sex"]]
    together, alone = source(name).marginals(questions), source(name)
    for estimate, question in zip(together, questions, strict=True):
        assert np.array_equal(estimate.value, alone.marginal(question).value)


def test_several_questions_are_one_scan(monkeypatch):
    rng = np.random.default_rng(5)
    domain = Domain(
        (Numeric("x", 0, 200_000), Numeric("y", 0, 999, cuts=(10,)), Category("z", tuple("abc")))
    )
    columns = (
        rng.integers(0, 200_001, 150_000),
        rng.integers(0, 1000, 150_000),
        rng.integers(0, 3, 150_000),
    )
    kinds = (np.uint32, np.uint16, np.uint8)
    table = Table(domain, tuple(c.astype(t) for c, t in zip(columns, kinds, strict=True)))
    counter = TableCounter(table)
    x, y, z = (
        domain["x"].cells_by_cuts((7, 100_000)),
        domain["y"].cells_by_cuts((10, 500)),
        domain["z"].cells(),
    )
    scans, scan = [], TableCounter._scan
    with monkeypatch.context() as patch:
        patch.setattr(TableCounter, "_scan", lambda *given: scans.append(1) or scan(*given))
        tables = counter.count_many([(x, y), (z,), (y, z, x)])
    assert len(scans) == 1
    for found, question in zip(tables, [(x, y), (z,), (y, z, x)], strict=True):
        assert np.array_equal(found, TableCounter(table).count(question))


def test_cells_that_split_finer_ones_are_refused():
    asked = source("retention")
    with pytest.raises(ParameterError, match="split cells"):
        asked.condensed([cuts(asked, 40), "sex"]).marginal([cuts(asked, 50)])
