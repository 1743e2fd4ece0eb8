"""Blanking to a wanted k: every partition of small tables, DuckDB's GROUP BY on real ones."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError, ParameterError
from sfumato.publish.local_suppression import blanked
from sfumato.publish.suppress import suppress
from sfumato.randomness import seeded


def partitions(rows: list[int]) -> Iterator[list[list[int]]]:
    """Every way to put the rows into groups."""
    if not rows:
        yield []
        return
    for rest in partitions(rows[1:]):
        yield [[rows[0]], *rest]
        for place in range(len(rest)):
            yield [*rest[:place], [rows[0], *rest[place]], *rest[place + 1 :]]


def fewest(codes: np.ndarray, k: int) -> int:
    """The fewest cells over all partitions into groups of k or more."""
    best = codes.size
    for groups in partitions(list(range(len(codes)))):
        if min(map(len, groups)) >= k:
            cost = 0
            for group in groups:
                part = codes[group]
                differs = (part != part[0]).any(axis=0)
                cost += int((part[:, differs] != -1).sum())
            best = min(best, cost)
    return best


@pytest.mark.parametrize("seed", range(25))
def test_a_small_table_loses_the_fewest_cells_possible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 4))
    shape = (int(rng.integers(4, 9)), int(rng.integers(2, 5)))
    codes = rng.integers(-1 if seed % 3 == 0 else 0, int(rng.integers(2, 4)), shape)
    found = blanked(codes, k, rng=seeded(seed))
    assert (found.cells, found.proved) == (fewest(codes, k), True)
    _, sizes = np.unique(np.where(found.blank, -1, codes), axis=0, return_counts=True)
    assert sizes.min() >= k


def people(rows: int = 3000, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(18, 60, rows),
            "town": rng.choice(["Ghent", "Lyon", "Turin", "York"], rows),
            "job": rng.choice(["a", "b", "c", "d", "e"], rows, p=[0.5, 0.3, 0.1, 0.06, 0.04]),
            "ill": rng.choice(["no", "yes"], rows),
        }
    )


@pytest.mark.parametrize("k", [2, 3, 7])
def test_a_larger_table_is_k_anonymous_and_near_the_bound(k: int) -> None:
    table = people()
    release = suppress(table, k, confidential="ill", seconds=2, rng=seeded(1))
    released, report = release.table, release.report
    grouped = "SELECT COUNT(*) n FROM released GROUP BY age, town, job"
    ((smallest,),) = duckdb.sql(f"SELECT MIN(n) FROM ({grouped})").fetchall()
    assert smallest == report.smallest_after >= k
    assert report.smallest_before < k
    assert report.bound <= report.cells <= 1.35 * report.bound
    changed = 0
    for name in ("age", "town", "job"):
        pairs = list(zip(table[name].to_pylist(), released[name].to_pylist(), strict=True))
        assert all(new is None or new == old for old, new in pairs)
        blanks = sum(new is None for _, new in pairs)
        assert blanks == report.by_column[name]
        changed += blanks
    assert changed == report.cells == int(release.blank.sum())
    assert released["ill"].equals(table["ill"]) and released.schema.equals(table.schema)


def test_who_needs_no_blank_keeps_every_cell_and_a_null_counts_as_one() -> None:
    alike = pa.table({"a": ["x"] * 4, "b": [1, 1, 2, 2]})
    assert suppress(alike, 2, keys=["a", "b"]).report.to_dict()["cells"] == 0
    table = pa.table({"a": ["x", "x", None], "b": [1, 2, 1]})
    report = suppress(table, 3, keys=["a", "b"]).report
    assert (report.cells, report.proved) == (5, True)


def test_the_secrets_that_whole_groups_share_are_told() -> None:
    table = pa.table({"key": [1, 1, 2, 2], "ill": ["yes", "yes", "no", "yes"]})
    report = suppress(table, 2, confidential="ill").report
    assert report.cells == 0 and report.still_told == {"ill": 2}


def test_binned_keys_are_blanked_and_released_in_bins() -> None:
    release = suppress(
        people(), 5, confidential="ill", bins={"age": "30,45"}, seconds=1, rng=seeded(1)
    )
    assert set(release.table["age"].to_pylist()) <= {"[18,30)", "[30,45)", "[45,59]", None}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"k": 1}, "k=1 asks for nothing"),
        ({"k": "three"}, "k='three' asks for nothing"),
        ({"k": 5000}, "3000 records cannot form a group of 5000"),
        ({"confidential": None}, "which columns an intruder may know was not said"),
        ({"confidential": "il"}, "did you mean 'ill'"),
        ({"seconds": float("nan")}, "seconds=nan is no time to take"),
        ({"bins": {"age": "width:1000000000"}}, "10,000 bins at most; found 1,000,000,000"),
        ({"bins": {"age": "30,nan"}}, "one or more ascending numbers"),
    ],
)
def test_bad_wishes_are_refused_in_the_callers_words(how: dict[str, object], words: str) -> None:
    with pytest.raises((ParameterError, DataError, sf.SfumatoError), match=words):
        suppress(people(), **{"k": 3, "confidential": "ill", **how})


def test_adult_reaches_three(data_dir: Path) -> None:
    from pyarrow import csv

    names = ["workclass", "education", "marital_status", "sex", "income"]
    table = csv.read_csv(data_dir / "adult.csv.gz").select(names)
    report = suppress(table, 3, confidential="income", seconds=3, rng=seeded(1)).report
    assert report.smallest_after >= 3
    assert 440 <= report.bound <= report.cells <= 475


def test_groups_that_are_large_enough_lose_nothing_and_it_is_proved() -> None:
    found = blanked(np.repeat(np.arange(400)[:, None] % 20, 3, axis=1), 5, rng=seeded(1))
    assert found.bound == 0 and found.proved and not found.blank.any()


def test_what_is_missing_already_costs_nothing_in_the_bound() -> None:
    """Three of each town lack two columns; a fourth, who has them, can join for two cells."""
    towns = 600  # too many to be solved as one
    of_one = np.array([[0, -1, -1]] * 3 + [[0, 0, 0]] * 5)
    codes = np.tile(of_one, (towns, 1))
    codes[:, 0] = np.repeat(np.arange(towns), len(of_one))
    found = blanked(codes, 4, rng=seeded(1), seconds=0.5)
    assert found.bound <= 2 * towns
    assert found.cells == 2 * towns or not found.proved


@pytest.mark.parametrize("k", [25, 60])
def test_a_large_k_is_reached_and_improved_on(k: int) -> None:
    table = people(6000)
    found = suppress(table, k, confidential="ill", seconds=1, rng=seeded(1)).report
    assert found.smallest_after >= k
    assert found.bound <= found.cells < found.records * len(found.keys)


def test_a_key_that_is_named_twice_is_one_key() -> None:
    """Its cells were counted twice, and a column replaced twice promised the square of its γ."""
    once, twice = (
        suppress(people(), 3, keys=keys, rng=seeded(1)).report
        for keys in (["age", "job"], ["age", "age", "job", "age"])
    )
    assert (twice.keys, twice.cells) == (once.keys, once.cells) and once.cells > 0
    assert len(sf.identify(people(), confidential=["ill", "ill"]).risks) == 1
    assert sf.pram(people(), ["job", "job"], gamma=3).guarantee.gamma <= 3
