"""Uniqueness in the population, against populations that are known."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError, ParameterError
from sfumato.publish.identify import identify
from sfumato.publish.owned import patterns, records_of
from sfumato.publish.population import population_risk


def everyone(seed: int = 1, people: int = 60_000) -> pa.Table:
    """A population with independent keys, some values common and some rare."""
    rng = np.random.default_rng(seed)
    keys = {
        f"key{place}": rng.choice(size, people, p=rng.dirichlet(np.full(size, 0.6)))
        for place, size in enumerate((40, 25, 12))
    }
    return pa.table({**keys, "ill": rng.choice(["no", "yes"], people)})


def truth(pattern: np.ndarray, rows: np.ndarray) -> tuple[int, float, float]:
    """Of the sample's uniques: those unique in the population, the sum of 1/F, and θ."""
    people = np.bincount(pattern)
    drawn = np.bincount(pattern[rows], minlength=len(people))
    held = people[drawn == 1]
    return int((held == 1).sum()), float((1 / held).sum()), len(held) / held.sum()


def test_a_sample_of_independent_keys_tells_the_population() -> None:
    table = everyone()
    keys = table.drop(["ill"])
    pattern = patterns(records_of(keys).columns)
    off, errors, pairs = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(100 + seed)
        rows = np.sort(rng.choice(len(pattern), 6_000, replace=False))
        sample = records_of(keys.take(pa.array(rows)))
        found = population_risk(sample.columns, np.full(6_000, 10.0))
        unique, matches, right = truth(pattern, rows)
        pairs.append((found.population_uniques, unique, found.expected_matches, matches))
        assert found.right_matches is not None
        off.append(found.right_matches.value - right)
        errors.append(found.right_matches.stderr)
    uniques, unique, expected, matches = np.mean(pairs, axis=0)
    assert uniques == pytest.approx(unique, rel=0.12)
    assert expected == pytest.approx(matches, rel=0.06)
    # The error of θ is told, not too small, and θ leans to no side.
    assert np.std(off) < 1.3 * np.mean(errors)
    assert abs(np.mean(off)) < 5 * np.mean(errors) / np.sqrt(30)
    assert np.mean(errors) < 0.02


def test_weights_count_as_if_each_record_had_them() -> None:
    """Half the people sampled ten times as densely: their weights are a tenth, and the model's
    numbers stay near the truth, which equal weights would miss.
    """
    table = everyone(seed=3)
    pattern = patterns(records_of(table.drop(["ill"])).columns)
    rng = np.random.default_rng(5)
    dense = np.asarray(table["key0"]) % 2 == 0
    drawn = rng.random(len(pattern)) < np.where(dense, 0.4, 0.04)
    rows = np.flatnonzero(drawn)
    weights = np.where(dense[rows], 2.5, 25.0)
    weighted = identify(
        table.take(pa.array(rows)).append_column("w", pa.array(weights)),
        confidential="ill",
        weights="w",
    )
    unique, matches, _ = truth(pattern, rows)
    assert weighted.population is not None
    assert weighted.population.population_uniques == pytest.approx(unique, rel=0.2)
    assert weighted.population.expected_matches == pytest.approx(matches, rel=0.12)
    assert weighted.population.size == pytest.approx(60_000, rel=0.05)
    assert "w" not in [role.name for role in weighted.columns]


def test_risk_by_weights_is_the_mean_of_one_over_the_people() -> None:
    """E[1/F] of the negative binomial, drawn a million times."""
    rng = np.random.default_rng(1)
    for held, weight in ((1, 10.0), (2, 4.0), (60, 3.0)):
        keys = records_of({"k": ["x"] * held + ["y"]}).columns
        found = population_risk(keys, np.append(np.full(held, weight), 1.0)).weighted_matches
        people = held + rng.negative_binomial(held, 1 / weight, 1_000_000)
        assert found == pytest.approx(held * (1 / people).mean() + 1, rel=0.005)


def test_a_census_is_its_own_population() -> None:
    found = identify(everyone().slice(0, 2_000), confidential="ill", population=2_000).population
    assert found is not None
    assert found.fraction == 1
    assert found.population_uniques == found.expected_matches == found.sample_uniques
    assert found.right_matches is not None and found.right_matches.value == 1


def test_adult_as_the_population_of_its_own_samples(data_dir: Path) -> None:
    from pyarrow import csv

    names = ["age", "workclass", "education", "marital_status", "sex", "income"]
    table = csv.read_csv(data_dir / "adult.csv.gz").select(names)
    pattern = patterns(records_of(table.drop(["income"])).columns)
    rows = np.sort(np.random.default_rng(1).choice(len(pattern), 4_884, replace=False))
    found = identify(
        table.take(pa.array(rows)), confidential="income", population=len(pattern)
    ).population
    unique, matches, right = truth(pattern, rows)
    assert found is not None and found.right_matches is not None
    assert found.right_matches.value == pytest.approx(right, abs=5 * found.right_matches.stderr)
    # Real keys hang together, so independence overstates; the weights alone say far too little.
    assert unique < found.population_uniques < 1.4 * unique
    assert matches < found.expected_matches < 1.25 * matches
    assert found.weighted_matches < matches


def test_a_notebook_shows_the_population_of_a_sample() -> None:
    found = identify(everyone().slice(0, 50), confidential="ill", population=5000)
    assert "as a sample of 5,000 people: a unique match is right with" in found._repr_html_()
    assert "as a sample" in repr(found)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"population": 10}, "a population of 10 is smaller than the 50 records"),
        ({"population": -5}, "population=-5 is no number of people"),
        ({"population": float("inf")}, "population=inf is no number of people"),
        ({"population": 1e300}, r"population=1e\+300 is no number of people"),
        ({"weights": "w"}, "has a weight of 0.5"),
        ({"weights": "key9"}, "no column 'key9'"),
        ({"weights": "ill"}, "does not hold numbers only"),
    ],
)
def test_bad_weights_are_named(how: dict[str, object], words: str) -> None:
    table = everyone().slice(0, 50).append_column("w", pa.array(np.full(50, 0.5)))
    confidential = "key0" if how.get("weights") == "ill" else "ill"
    with pytest.raises((ParameterError, DataError, sf.SfumatoError), match=words):
        identify(table, confidential=confidential, **how)
