"""What version 0.1.0 wrote opens and answers as it did then, in every store."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.cli.summary import summarise
from sfumato.engines import open_source
from sfumato.privacy.ledger import Ledger
from sfumato.release import Release
from sfumato.table import reader_of

FOLDER = Path(__file__).parent / "0.1.0"
THEN = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
QUERY = "SELECT sex, COUNT(*), AVG(age) FROM t WHERE wage < 30 GROUP BY sex"
# How far a standard error may be from the one of then. Since one path serves every channel, that of
# a swapped column beside a public one is 0.07 % smaller, and the same for every cell of a margin.
ERRORS_OF_NOW = {"swapping-each-its-own.parquet": 1e-3}
FILES = {
    **THEN["mechanisms"],
    **THEN["folders"],
    **{
        name: THEN["stores"][name.split(".")[0]]
        for name in (
            "people.csv",
            "people.csv.gz",
            "people.parquet",
            "baskets.dat",
            "baskets.dat.gz",
            "baskets.csv",
            "baskets.parquet",
        )
    },
}


def check(release: Any, then: Mapping[str, Any], within: float = 1e-6) -> None:
    """The release gives the answers of then."""
    assert isinstance(release, Release)
    origin = release.provenance
    assert (release.rows, release.copies, origin.secure) == (
        then["rows"],
        then["copies"],
        then["secure"],
    )
    assert str(origin.guarantee.gamma) == then["gamma"]
    assert origin.release is None and not origin.shuffled
    for asked in then["marginals"]:
        found = release.marginal(asked["columns"])
        assert np.ravel(found.value).tolist() == pytest.approx(asked["value"])
        assert np.ravel(found.stderr).tolist() == pytest.approx(asked["stderr"], rel=within)
    check_itemsets(release, then["itemsets"], within)
    if "query" in then:
        for line, (sex, *numbers) in zip(sf.query(release, QUERY).rows, then["query"], strict=True):
            told = [line["count"].value, line["count"].stderr]
            told += [line["avg_age"].value, line["avg_age"].stderr]
            assert line["sex"] == sex and told == pytest.approx(numbers)


def check_itemsets(release: Release, then: list[Any], within: float) -> None:
    found = sf.frequent_itemsets(release, min_support=0.2, max_length=2)
    now = {
        frozenset(items): pair
        for *pair, items in zip(found.support, found.stderr, found.items, strict=True)
    }
    assert now.keys() == {frozenset(items) for items, _, _ in then}
    for items, support, error in then:
        assert now[frozenset(items)] == pytest.approx([support, error], rel=within)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("name", FILES)
def test_files_answer_as_then(name: str, engine: str) -> None:
    if engine == "duckdb" and ".dat" in name:
        pytest.skip("DuckDB does not read baskets as text")
    check(open_source(FOLDER / name, engine), FILES[name], ERRORS_OF_NOW.get(name, 1e-6))


@pytest.mark.parametrize("table", ["people", "baskets"])
def test_a_duckdb_file_answers_as_then(table: str, tmp_path: Path) -> None:
    with gzip.open(FOLDER / "releases.db.gz") as packed, (tmp_path / "r.db").open("wb") as out:
        shutil.copyfileobj(packed, out)
    check(open_source(f"duckdb://{tmp_path / 'r.db'}#{table}"), THEN["stores"][table])


@pytest.fixture(scope="module")
def restored(postgres: str) -> str:
    """A PostgreSQL database as 0.1.0 left it."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS golden")
        connection.execute("CREATE DATABASE golden")
    address = postgres.replace("/postgres?", "/golden?")
    with psycopg.connect(address) as connection:
        connection.execute((FOLDER / "releases.sql").read_text(encoding="utf-8"))
    return address


@pytest.mark.parametrize("table", ["people", "baskets"])
def test_a_postgresql_database_answers_as_then(table: str, restored: str) -> None:
    check(open_source(f"{restored}#{table}"), THEN["stores"][table])


@pytest.mark.parametrize("name", ["people.parquet", "people.csv", "people-by-spark.parquet"])
def test_it_is_noted_that_they_have_no_id_and_kept_their_order(name: str) -> None:
    provenance = reader_of(FOLDER / name).provenance
    assert provenance is not None
    told = " ".join(summarise(provenance, 240)["caveats"])
    assert "no release id (version 0.1.0 gave none)" in told
    assert "the reports stand in the order of the records" in told


def test_a_release_of_then_saved_now_is_one_of_now(tmp_path: Path) -> None:
    """It gets an id; that its order was kept is not forgotten."""
    old = sf.open(FOLDER / "people.csv")
    old.save(tmp_path / "people.parquet")
    new = sf.open(tmp_path / "people.parquet").provenance
    assert new.release is not None and not new.shuffled


def test_a_ledger_goes_on_as_then(tmp_path: Path) -> None:
    then = THEN["ledger"]
    shutil.copy(FOLDER / "ledger.json", tmp_path / "ledger.json")
    ledger = Ledger(tmp_path / "ledger.json")
    for key, spent in then["spent"].items():
        assert ledger.spent(key) == pytest.approx(spent)
        assert ledger.left(key) == pytest.approx(then["left"][key])
    again = ledger.answer("ann", "autumn", sf.Guarantee(2), lambda: {"sex": "M"}, ["sex"])
    assert again == then["report"]
