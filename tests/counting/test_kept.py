"""Kept counts: asking again, or coarser, reads no rows and gives the same; nothing stale, damaged
or unbounded is kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.counting.sql import kept
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.engines import open_source, save_release
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table

PEOPLE = Domain(
    (
        Category("pet", ("cat", "dog", "eel", "fox")),
        Numeric("age", 0, 99, cuts=(20, 60)),
        Category("smoker", ("no", "yes"), public=True),
    )
)
BASKETS = Domain((Items("items", ("1", "2", "3", "40")),))
ROWS = 600


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def people(seed: int = 2) -> Release:
    rng = np.random.default_rng(1)
    columns = tuple(rng.integers(0, attribute.size, ROWS) for attribute in PEOPLE)
    return sf.perturb(Table(PEOPLE, columns), sf.Retention(PEOPLE, 0.5), seeded(seed))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    people().save(tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


def asked_of(source: Any) -> list[str]:
    """The statements that a source sends from now on."""
    sent: list[str] = []
    relation = source.counter.relation

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(relation, name)

        def fetch(self, statement: str) -> Any:
            sent.append(statement)
            return relation.fetch(statement)

        def row(self, statement: str) -> Any:
            sent.append(statement)
            return relation.row(statement)

    object.__setattr__(source.counter, "relation", Watched())
    return sent


AGE, PET = PEOPLE["age"], PEOPLE["pet"]
assert isinstance(AGE, Numeric)
FINE = [AGE.cells_by_cuts([10, 20, 40, 60, 80]), "pet", "smoker"]
COARSER: dict[str, list[Any]] = {
    "the same": FINE,
    "another order": ["smoker", "pet", FINE[0]],
    "fewer columns": ["pet"],
    "merged values": [PET.cells_by_values(["dog", "fox"], ["cat"]), "smoker"],
    "fewer cuts": [AGE.cells_by_cuts([20, 60])],
    "both": [PET.cells_by_values(["eel"]), AGE.cells_by_cuts([40])],
}
FINER: dict[str, list[Any]] = {
    "another cut": [AGE.cells_by_cuts([30])],
    "a value inside": [AGE.cells_by_values(["20"])],  # its first code begins a cell, its next not
    "two values": [AGE.cells_by_values(["20", "40"], ["60"])],
}


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", COARSER)
def test_what_is_coarser_reads_no_rows(path: Path, name: str) -> None:
    open_source(path).marginal(FINE)
    again = open_source(path)
    sent = asked_of(again)
    found, true = again.marginal(COARSER[name]), sf.open(path).marginal(COARSER[name])
    assert not sent
    assert np.array_equal(found.value, true.value) and np.array_equal(found.stderr, true.stderr)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", FINER)
def test_what_is_finer_is_counted(path: Path, name: str) -> None:
    open_source(path).marginal(FINE)
    again = open_source(path)
    sent = asked_of(again)
    found, true = again.marginal(FINER[name]), sf.open(path).marginal(FINER[name])
    assert sent and np.allclose(found.value, true.value)


@pytest.mark.usefixtures("cache")
def test_every_kind_of_count_is_kept(path: Path, tmp_path: Path) -> None:
    dense = np.random.default_rng(1).random((ROWS, 4)) < 0.4
    mask = sf.BitFlip(BASKETS, 0.9, 0.8)
    sf.perturb(Table(BASKETS, (Bits.from_dense(dense),)), mask, seeded(2)).save(
        tmp_path / "b.parquet"
    )
    sql = "SELECT pet, COUNT(*), AVG(age), STDDEV_SAMP(age), MEDIAN(age) FROM t GROUP BY pet"

    def ask(engine: str) -> tuple[Any, Any, list[str]]:
        records = open_source(path, engine)
        baskets = open_source(tmp_path / "b.parquet", engine)
        sent = [] if engine == "memory" else [asked_of(records), asked_of(baskets)]
        answers = sf.query(records, sql).to_dict(0.95)["rows"]
        itemsets = sf.frequent_itemsets(baskets, min_support=0.05)
        told = [(list(i), float(s), float(e)) for i, s, e in _lines(itemsets)]
        return answers, told, [statement for each in sent for statement in each]

    true, first, second = ask("memory"), ask("duckdb"), ask("duckdb")
    assert first[2] and not second[2]
    assert second[:2] == first[:2]
    assert json.dumps(first[0]) != "[]" and len(first[1]) == len(true[1]) > 4
    for ours, theirs in zip(first[1], true[1], strict=True):
        assert ours[0] == theirs[0] and ours[1:] == pytest.approx(theirs[1:])


def _lines(itemsets: Any) -> Any:
    return zip(itemsets.items, itemsets.support, itemsets.stderr, strict=True)


def test_nothing_is_kept_where_it_should_not_be(
    path: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_source(path, cache=False).marginal(["pet"])
    open_source(path, "memory").marginal(["pet"])
    monkeypatch.setenv("SFUMATO_CACHE", "off")
    open_source(path).marginal(["pet"])
    assert not cache.exists()
    monkeypatch.setenv("SFUMATO_CACHE", str(cache))
    old = Path(__file__).parent.parent / "golden" / "0.1.0" / "people.parquet"
    open_source(old).marginal(["sex"])  # version 0.1.0 gave no release id
    assert not cache.exists()
    open_source(path).marginal(["pet"])
    assert cache.stat().st_mode & 0o777 == 0o700 and list(cache.rglob("*.npz"))


@pytest.mark.usefixtures("cache")
def test_another_release_is_another(path: Path) -> None:
    open_source(path).marginal(["pet"])
    other = people(seed=3)
    other.save(path, force=True)
    assert np.allclose(open_source(path).marginal(["pet"]).value, other.marginal(["pet"]).value)


def test_a_damaged_entry_is_counted_again(path: Path, cache: Path) -> None:
    true = open_source(path).marginal(["pet"]).value
    _, entry = sorted(cache.rglob("*.npz"), key=lambda kept: kept.stat().st_size)
    whole = entry.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1] + b"x", b"\0" * len(whole), b"x" + whole[1:]):
        entry.write_bytes(damaged)
        again = open_source(path)
        sent = asked_of(again)
        assert np.array_equal(again.marginal(["pet"]).value, true) and sent
    assert entry.read_bytes() == whole  # and kept as it was


def test_a_cache_that_cannot_be_written_is_none(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "file"))
    assert open_source(path).marginal(["pet"]).value.sum() == pytest.approx(ROWS)


def test_it_is_bounded(path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 20_000)
    source = open_source(path)
    for cut in range(1, 60):
        source.marginal([AGE.cells_by_cuts([cut, cut + 30])])
    held = list(cache.rglob("*.npz"))
    assert sum(entry.stat().st_size for entry in held) <= 20_000 and len(held) > 3
    monkeypatch.setattr(kept, "MOST_ENTRY", 10)
    before = sorted(held)
    source.marginal([AGE.cells_by_cuts([77])])
    assert sorted(cache.rglob("*.npz")) == before


@pytest.mark.parametrize("place", ["duckdb", "postgresql"])
@pytest.mark.usefixtures("cache")
def test_rows_that_change_in_a_database_are_counted_anew(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    base = (
        f"duckdb://{tmp_path / 'k.db'}"
        if place == "duckdb"
        else str(request.getfixturevalue("postgres"))
    )
    save_release(people(), f"{base}#kept", force=True)

    def ask() -> Any:
        opened: Any = open_source(f"{base}#kept")
        value = opened.marginal(["pet"]).value
        relation = opened.counter.relation
        getattr(relation, "database", relation).connection.close()
        return value

    first = ask()
    _replace_pets(base)
    assert not np.allclose(ask(), first)


def _replace_pets(base: str) -> None:
    statement = "UPDATE kept SET pet = 'cat'"
    if base.startswith("duckdb"):
        import duckdb

        with duckdb.connect(base.removeprefix("duckdb://")) as connection:
            connection.execute(statement)
        return
    import psycopg

    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(statement)


def test_a_file_that_changed_under_its_id_is_counted_anew(path: Path, cache: Path) -> None:
    open_source(path).marginal(["pet"])
    path.write_bytes(path.read_bytes())  # the same, as it happens, but who knows
    again = open_source(path)
    sent = asked_of(again)
    again.marginal(["pet"])
    assert sent and cache.exists()


@pytest.mark.parametrize(
    ("platform", "variable", "below"),
    [
        ("linux", "XDG_CACHE_HOME", "sfumato"),
        ("win32", "LOCALAPPDATA", "sfumato"),
        ("darwin", "HOME", "Library/Caches/sfumato"),
    ],
)
def test_the_cache_is_where_the_system_puts_caches(
    platform: str, variable: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SFUMATO_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert kept.cache_folder() == tmp_path / below
    for word in ("", "off"):
        monkeypatch.setenv("SFUMATO_CACHE", word)
        assert kept.cache_folder() is None


def test_another_question_about_the_same_columns_reads_no_rows(cache: Path, path: Path) -> None:
    source = open_source(path)
    first = "SELECT COUNT(*) AS n FROM t WHERE pet IN ('cat', 'dog') AND smoker = 'yes'"
    other = "SELECT COUNT(*) AS n FROM t WHERE pet IN ('dog', 'fox') AND smoker = 'no'"
    memory = Release.of(people().table)
    wanted = [sf.query(memory, question).rows[0]["n"].value for question in (first, other)]
    assert sf.query(source, first).rows[0]["n"].value == pytest.approx(wanted[0])
    sent = asked_of(source)
    assert sf.query(source, other).rows[0]["n"].value == pytest.approx(wanted[1])
    assert sent == []


def test_columns_of_too_many_values_are_counted_as_asked(
    cache: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.counting.sql.sql_counter.REMEMBERED_CELLS", 3)
    source = open_source(path)
    sf.query(source, "SELECT COUNT(*) FROM t WHERE pet IN ('cat', 'dog')")
    sent = asked_of(source)
    sf.query(source, "SELECT COUNT(*) FROM t WHERE pet IN ('dog', 'fox')")
    assert len(sent) == 1
