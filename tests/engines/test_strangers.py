"""A value that is not in the domain is refused by every engine, whatever is asked, and never told;
and the cells of every answer add up to the rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.engines import open_source, save_release
from sfumato.engines.duckdb import DuckRelation
from sfumato.errors import SfumatoError
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table

CANARY = "SECRET-4711"
PEOPLE = Domain(
    (
        Category("pet", ("cat", "dog", "eel"), other="eel"),
        Numeric("age", 0, 49, cuts=(20,)),
        Numeric("wage", 0.0, 10.0, step=0.5, cuts=(5,)),
    )
)
BASKETS = Domain((Items("items", ("1", "2", "3", "40")),))
ROWS = 400


def people() -> Release:
    rng = np.random.default_rng(1)
    columns = tuple(rng.integers(0, attribute.size, ROWS) for attribute in PEOPLE)
    return sf.perturb(Table(PEOPLE, columns), sf.Retention(PEOPLE, 0.5), seeded(2))


def baskets() -> Release:
    dense = np.random.default_rng(1).random((ROWS, 4)) < 0.4
    table = Table(BASKETS, (Bits.from_dense(dense),))
    return sf.perturb(table, sf.BitFlip(BASKETS, 0.9, 0.8), seeded(2))


ASKED: dict[str, Callable[[Any], Any]] = {
    "two cells": lambda source: source.marginal([PEOPLE["pet"].cells_by_values(["cat"])]).value,
    "all values": lambda source: source.marginal(["pet"]).value,
    "pairs": lambda source: source.marginal(["pet", "age"]).value,
    "cuts": lambda source: source.marginal([PEOPLE["age"].cells_by_cuts([10, 20, 30])]).value,
    "both numbers": lambda source: source.marginal(["age", "wage"]).value,
    "many": lambda source: source.marginals([["pet"], ["age"], ["wage", "age"], ["pet", "wage"]]),
    "mean": lambda source: sf.query(source, "SELECT AVG(wage), AVG(age) FROM t WHERE pet = 'cat'"),
    "itemsets": lambda source: sf.frequent_itemsets(source, min_support=0.01),
    "rows": lambda source: sf.query(source, "SELECT COUNT(*) FROM t"),
}
STRANGERS: dict[str, tuple[str, Any]] = {  # what stands in a row; every question looks at all
    "a word": ("pet", CANARY),
    "no word": ("pet", None),
    "too large": ("age", 4711),
    "too small": ("age", -4711),
    "no number": ("age", None),
    "a high wage": ("wage", 4711.5),
    "not a number": ("wage", float("nan")),
    "no wage": ("wage", None),
}
CASES = [
    pytest.param(column, value, question, id=f"{name}, {question}")
    for name, (column, value) in STRANGERS.items()
    for question in ASKED
]


def changed(table: pa.Table, column: str, value: Any) -> pa.Table:
    """The table with one value exchanged, whatever its column was."""
    values = table.column(column).to_pylist()
    values[7] = value
    kind = pa.string() if isinstance(value, str) or column == "pet" else None
    place = table.schema.names.index(column)
    return table.set_column(place, column, pa.array(values, kind)).replace_schema_metadata(
        table.schema.metadata
    )


def rewritten(path: Path, column: str, value: Any) -> Path:
    """A Parquet release with one value exchanged, its description and release id as they were."""
    release = sf.open(path)
    marks = pq.ParquetFile(path).metadata.metadata
    table = changed(pq.read_table(path), column, value)
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({b"sfumato.release": marks[b"sfumato.release"]})
    assert release.provenance.release is not None
    return path


def refuse(source: Callable[[], Any], question: str) -> None:
    with pytest.raises(SfumatoError) as caught:
        ASKED[question](source())
    told = str(caught.value)
    assert "4711" not in told and CANARY not in told and "\n" not in told
    assert any(word in told for word in ("not in its domain", "is no report", "not of its column"))


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    people().save(tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


@pytest.mark.parametrize(("column", "value", "question"), CASES)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_in_a_parquet_file(
    parquet: Path, engine: str, column: str, value: Any, question: str
) -> None:
    ASKED[question](open_source(parquet, engine))  # sound rows are counted
    rewritten(parquet, column, value)
    refuse(lambda: open_source(parquet, engine, cache=False), question)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("field", [CANARY, "", "4711"])
def test_in_a_csv_file_of_the_first_version(tmp_path: Path, engine: str, field: str) -> None:
    path = tmp_path / "p.csv"
    people().save(path)
    lines = path.read_text().splitlines(keepends=True)
    side = path.with_name("p.csv.sfumato.json")
    description = json.loads(side.read_text())
    del description["digest"]
    side.write_text(json.dumps({**description, "format": 1}))
    for place in range(3):
        words = lines[9].strip().split(",")
        words[place] = field
        path.write_text("".join([*lines[:9], ",".join(words) + "\n", *lines[10:]]))
        question = ("all values", "cuts", "both numbers")[place]
        refuse(lambda: open_source(path, engine), question)


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param != "postgresql":
        return f"{request.param}://{tmp_path / 'all.db'}"
    return str(request.getfixturevalue("postgres"))


def run(base: str, *statements: str) -> None:
    """Run statements past Sfumato."""
    scheme, _, path = base.partition("://")
    if scheme != "postgresql":
        opened: Any = duckdb.connect(path) if scheme == "duckdb" else sqlite3.connect(path)
        with closing(opened) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        return
    import psycopg

    with psycopg.connect(base, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def loosened(base: str) -> list[str]:
    """The statements that let the columns hold anything."""
    if base.startswith("sqlite"):  # where a type is only stated; made anew without NOT NULL
        changed = "replace(sql, 'NOT NULL', '')"
        return [
            "PRAGMA writable_schema = ON",
            f"UPDATE sqlite_master SET sql = {changed} WHERE name = 'strange'",
            "PRAGMA writable_schema = RESET",
        ]
    kinds = {"pet": "VARCHAR", "age": "DOUBLE PRECISION", "wage": "DOUBLE PRECISION"}
    change = "SET DATA TYPE" if base.startswith("duckdb") else "TYPE"
    return [
        f"ALTER TABLE strange ALTER COLUMN {name} {action}"
        for name, kind in kinds.items()
        for action in (f"{change} {kind}", "DROP NOT NULL")
    ]


@pytest.mark.parametrize("name", STRANGERS)
def test_in_a_database(base: str, name: str) -> None:
    column, value = STRANGERS[name]
    literal = "NULL" if value is None else f"'{value}'"
    save_release(people(), f"{base}#strange", force=True)
    one = "ctid = (SELECT MIN(ctid) FROM strange)" if "postgres" in base else "rowid = 7"
    run(base, *loosened(base), f"UPDATE strange SET {column} = {literal} WHERE {one}")
    for question in ASKED:
        refuse(lambda: open_source(f"{base}#strange"), question)


def test_half_a_year_is_no_whole_number(base: str) -> None:
    save_release(people(), f"{base}#strange", force=True)
    one = "ctid = (SELECT MIN(ctid) FROM strange)" if "postgres" in base else "rowid = 7"
    run(base, *loosened(base), f"UPDATE strange SET age = 20.5 WHERE {one}")
    refuse(lambda: open_source(f"{base}#strange"), "cuts")


@pytest.mark.parametrize("value", [[4711], None])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_in_baskets(tmp_path: Path, engine: str, value: Any) -> None:
    baskets().save(tmp_path / "b.parquet")
    sf.frequent_itemsets(open_source(tmp_path / "b.parquet", engine), min_support=0.1)
    rewritten(tmp_path / "b.parquet", "items", value)
    for ask in (
        lambda source: sf.frequent_itemsets(source, min_support=0.1),
        lambda source: source.marginal(["2"]).value,
    ):
        with pytest.raises(SfumatoError) as caught:
            ask(open_source(tmp_path / "b.parquet", engine, cache=False))
        assert "4711" not in str(caught.value)


def test_baskets_in_a_database(base: str) -> None:
    save_release(baskets(), f"{base}#strange", force=True)
    scheme = base.partition("://")[0]
    values = {"duckdb": "[4711]", "sqlite": "'0', '1', '4711', '1'"}.get(scheme, "ARRAY[4711]")
    run(base, f"INSERT INTO strange VALUES ({values})")
    with pytest.raises(SfumatoError, match=r"not in its domain|rows, but its description"):
        sf.frequent_itemsets(open_source(f"{base}#strange"), min_support=0.1)


@pytest.mark.parametrize("question", ["two cells", "cuts", "mean", "itemsets", "many"])
def test_a_row_too_many_is_noticed_by_every_question(base: str, question: str) -> None:
    save_release(people(), f"{base}#grown", force=True)
    run(base, "INSERT INTO grown SELECT * FROM grown LIMIT 1")
    with pytest.raises(SfumatoError, match="401 rows, but its description speaks of 400"):
        ASKED[question](open_source(f"{base}#grown"))


def test_a_release_takes_no_value_for_another(parquet: Path) -> None:
    """A schema may say where an unknown value of the truth goes; a report is none of those."""
    rewritten(parquet, "pet", CANARY)
    with pytest.raises(SfumatoError, match="is no report"):
        sf.open(parquet)


def test_rows_are_looked_at_once_and_kept(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found sound is known to whoever opens the same file again, and to no other file."""
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    asked: list[str] = []
    for name in ("fetch", "row"):
        found = getattr(DuckRelation, name)
        monkeypatch.setattr(
            DuckRelation, name, lambda self, text, f=found: asked.append(text) or f(self, text)
        )
    for place, question in enumerate(["all values", "cuts", "both numbers"]):
        ASKED[question](open_source(parquet, "duckdb"))
        assert len(asked) == 3 + place  # the types, the look, and then one a question
    rewritten(parquet, "pet", CANARY)
    refuse(lambda: open_source(parquet, "duckdb"), "cuts")
