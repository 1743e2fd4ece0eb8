"""Columns of the same people, perturbed apart and joined on a key, are undone each by its own
mechanism.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Attribute, Category, Domain, Items, Numeric
from sfumato.engines import join, open_source, save_release
from sfumato.engines.opening import DATABASES
from sfumato.errors import DataError, EstimationError, SchemaError
from sfumato.mechanisms.combined import Combined
from sfumato.randomness import Keystream, seeded
from sfumato.release import Exact, Release
from sfumato.table import Table

ROWS = 2000
PERSON = Numeric("person", 0, 9999, public=True)
SEX, AGE = Category("sex", ("F", "M")), Numeric("age", 0, 49, cuts=(20,))
SMOKER, TOWN = Category("smoker", ("no", "yes")), Category("town", ("A", "B", "C"), public=True)
HEALTH, CENSUS = Domain((PERSON, SMOKER, TOWN)), Domain((SEX, PERSON, AGE))
WHOLE = Domain((SEX, AGE, SMOKER, TOWN))


def people(rows: int = ROWS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    sex = rng.random(rows) < 0.4
    return {
        "person": rng.permutation(10_000)[:rows],
        "sex": sex.astype(np.uint8),
        "age": rng.integers(0, 50, rows),
        "smoker": (rng.random(rows) < 0.2 + 0.4 * sex).astype(np.uint8),
        "town": rng.integers(0, 3, rows),
    }


PEOPLE = people()
TRUTH = Exact(Table(WHOLE, tuple(PEOPLE[name] for name in WHOLE.names)))


def part(domain: Domain, rows: np.ndarray) -> Table:
    return Table(domain, tuple(PEOPLE[name][rows] for name in domain.names))


def halves(rng: Keystream, order: np.ndarray | None = None) -> tuple[Release, Release]:
    """The census in its own order and the health file in another."""
    order = np.random.default_rng(2).permutation(ROWS) if order is None else order
    census = sf.perturb(part(CENSUS, np.arange(ROWS)), sf.Retention(CENSUS, (0.5, 0.4)), rng)
    return census, sf.perturb(part(HEALTH, order), sf.GammaDiagonal(HEALTH, 4), rng)


def test_a_join_is_unbiased_and_its_errors_are_those_of_repetition() -> None:
    true = TRUTH.marginal(["sex", "smoker"]).where(sex="M", smoker="yes").value
    rng, errors, stated = seeded(3), [], []
    for _ in range(200):
        found = (
            join(*halves(rng), "person").marginal(["sex", "smoker"]).where(sex="M", smoker="yes")
        )
        errors.append(found.value - true)
        stated.append(found.stderr)
    scale = float(np.sqrt(np.mean(np.square(stated))))
    assert abs(np.mean(errors)) < 5 * scale / np.sqrt(200)
    assert abs(np.std(errors) / scale - 1) < 5 / np.sqrt(400)
    assert abs(np.std(errors) / (0.7 * scale) - 1) > 5 / np.sqrt(400)  # the test can tell


def test_the_joined_mechanism_is_the_product_of_both() -> None:
    census, health = halves(seeded(4))
    joined = join(census, health, "person")
    assert isinstance(joined.mechanism, Combined) and isinstance(joined, Release)
    assert set(joined.domain.names) == set(WHOLE.names) and joined.rows == ROWS
    assert joined.mechanism.guarantee.gamma == pytest.approx(
        float(census.mechanism.guarantee.gamma) * float(health.mechanism.guarantee.gamma)
    )
    assert joined.marginal(["town"]).stderr.max() == 0  # public columns stay as they are
    assert np.array_equal(joined.marginal(["town"]).value, TRUTH.marginal(["town"]).value)


@pytest.mark.parametrize("place", ["parquet", "csv", "duckdb", "postgresql", "sqlite"])
def test_engines_join_as_the_memory_does(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sources, places = halves(seeded(5), np.random.default_rng(6).permutation(ROWS)[:1500]), []
    for number, source in enumerate(sources):
        if place in DATABASES:
            base = f"{place}://{tmp_path / 'both.db'}"
            if place == "postgresql":
                base = request.getfixturevalue("postgres")
            where = f"{base}#part {number}"
            save_release(source, where, force=True)
        else:
            where = str(tmp_path / f"{number}.{place}")
            source.save(where)
        places.append(where)
    memory, engine = join(*sources, "person"), join(*map(open_source, places), "person")
    assert isinstance(engine, Release) and engine.rows == memory.rows == 1500
    cells = [AGE.cells_by_cuts([10, 30]), SMOKER.cells(), memory.cells("town")]
    for question in (["sex", "smoker"], cells, ["town"]):
        found, true = engine.marginal(question), memory.marginal(question)
        assert np.allclose(found.value, true.value) and np.allclose(found.stderr, true.stderr)
    weights = np.random.default_rng(7).normal(size=(3, 2, 3, 2))
    found, true = engine.moments(cells[:2], 0), memory.moments(cells[:2], 0)
    assert np.allclose(found.covariance_matrix(weights, 9.0), true.covariance_matrix(weights, 9.0))


def test_baskets_join_records(tmp_path: Path) -> None:
    shop = Domain((PERSON, Items("items", ("tea", "milk"))))
    rng = np.random.default_rng(8)
    bits = sf.bits.Bits.from_dense(rng.random((ROWS, 2)) < [0.3, 0.6])
    bought = sf.perturb(
        Table(shop, (PEOPLE["person"], bits)), sf.BitFlip(shop, 0.9, 0.9), seeded(9)
    )
    census, _ = halves(seeded(10))
    joined = join(census, bought, "person")
    found, true = joined.marginal(["sex", "tea"]), 0.3 * TRUTH.marginal(["sex"]).value
    assert np.all(np.abs(found.value[:, 1] - true) < 5 * found.stderr[:, 1] + 5 * np.sqrt(true))
    for number, source in enumerate((census, bought)):
        source.save(tmp_path / f"{number}.parquet")
    engine = join(
        *(open_source(tmp_path / f"{number}.parquet", "duckdb") for number in (0, 1)), "person"
    )
    assert np.allclose(engine.marginal(["sex", "tea"]).stderr, found.stderr)


def with_key(domain: Domain, key: Attribute) -> Domain:
    return replace(domain, attributes=tuple(key if a.name == "person" else a for a in domain))


def test_what_cannot_be_joined_is_refused(tmp_path: Path) -> None:
    census, health = halves(seeded(11))
    with pytest.raises(SchemaError, match="no attribute 'peson'"):
        join(census, health, "peson")
    private = with_key(CENSUS, Numeric("person", 0, 9999))
    with pytest.raises(SchemaError, match="perturbed"):
        join(
            sf.perturb(part(private, np.arange(ROWS)), sf.Retention(private, 0.5), seeded(1)),
            health,
            "person",
        )
    twice = sf.perturb(part(HEALTH, np.arange(ROWS)), health.mechanism, seeded(1), copies=2)
    with pytest.raises(EstimationError, match="2 reports"):
        join(census, twice, "person")
    repeated = sf.perturb(part(HEALTH, np.array([1, 1, 2])), health.mechanism, seeded(1))
    with pytest.raises(DataError, match="same value in several rows"):
        join(census, repeated, "person")
    health.save(tmp_path / "health.parquet")
    with pytest.raises(EstimationError, match="same engine"):
        join(census, open_source(tmp_path / "health.parquet"), "person")
    repeated.save(tmp_path / "repeated.parquet")
    census.save(tmp_path / "census.parquet")
    with pytest.raises(DataError, match="same value in several rows"):
        join(
            open_source(tmp_path / "census.parquet"),
            open_source(tmp_path / "repeated.parquet"),
            "person",
        )
    swapped = sf.perturb(part(HEALTH, np.arange(ROWS)), sf.Permuting(HEALTH, 0.5), seeded(1))
    few = sf.perturb(part(CENSUS, np.arange(100)), census.mechanism, seeded(1))
    with pytest.raises(EstimationError, match="1,900 of 2,000 rows have no partner"):
        join(few, swapped, "person")
    assert join(census, swapped, "person").rows == ROWS
