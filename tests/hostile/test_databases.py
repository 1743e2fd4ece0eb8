"""A DuckDB file that someone else made runs nothing of its own, reads no other file, and ends."""

from __future__ import annotations

import json
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain
from sfumato.engines import duckdb as engine
from sfumato.engines import open_source, save_release
from sfumato.errors import FileError, SfumatoError
from sfumato.randomness import seeded
from sfumato.table import Table

DOMAIN = Domain((Category("sex", ("F", "M")),))


@pytest.fixture
def received(tmp_path: Path) -> Path:
    """A database file with one honest release, `survey`."""
    truth = Table.from_arrow(pa.table({"sex": ["F", "M"] * 50}), DOMAIN)
    path = tmp_path / "received.db"
    save_release(sf.perturb(truth, sf.Retention(DOMAIN, 0.5), seeded(1)), f"duckdb://{path}#survey")
    return path


def tamper(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


DESCRIBED = (
    "INSERT INTO sfumato_release SELECT 'trap', description FROM sfumato_release "
    "WHERE table_name = 'survey'"
)


def test_an_honest_file_is_counted(received: Path) -> None:
    assert open_source(f"duckdb://{received}#survey").rows == 100


@pytest.mark.parametrize(
    "body",
    [
        "SELECT 'F' AS sex FROM range(100000000000)",
        "SELECT column0 AS sex FROM read_csv('/etc/passwd', header = false)",
        "SELECT * FROM survey",
    ],
)
def test_a_view_is_no_release(received: Path, body: str) -> None:
    tamper(received, f"CREATE VIEW trap AS {body}", DESCRIBED)
    with pytest.raises(SfumatoError, match="no table 'trap'"):
        open_source(f"duckdb://{received}#trap")


def test_a_view_in_place_of_the_descriptions_is_not_read(received: Path) -> None:
    tamper(
        received,
        "ALTER TABLE sfumato_release RENAME TO kept",
        "CREATE VIEW sfumato_release AS SELECT 'survey' AS table_name, "
        "repeat('x', 1000000000) AS description FROM range(100000000000)",
    )
    with pytest.raises(SfumatoError, match="carries no mechanism"):
        open_source(f"duckdb://{received}#survey")


@pytest.mark.parametrize(
    "macro",
    [
        "count(x) AS (SELECT sum(r) FROM range(100000000000) t(r))",
        "duckdb_functions() AS TABLE SELECT '' AS function_name, false AS internal WHERE false",
    ],
)
def test_a_macro_cannot_take_the_place_of_a_function(received: Path, macro: str) -> None:
    tamper(received, f"CREATE MACRO {macro}")
    with pytest.raises(FileError, match="macros of its own"):
        open_source(f"duckdb://{received}#survey")


def test_a_generated_column_is_refused(received: Path) -> None:
    tamper(
        received,
        "CREATE TABLE trap (n INTEGER, sex VARCHAR GENERATED ALWAYS AS (repeat('x', n)))",
        "INSERT INTO trap VALUES (1000)",
        DESCRIBED,
    )
    with pytest.raises(FileError, match="computes the column 'sex' of 'trap'"):
        open_source(f"duckdb://{received}#trap")


def test_no_other_file_is_read_and_no_setting_changed(received: Path) -> None:
    database = engine.DuckDatabase.connect(received)
    with pytest.raises(FileError, match=r"file system|disabled"):
        database.fetch("SELECT * FROM read_csv('/etc/passwd')")
    with pytest.raises(FileError, match="locked"):
        database.fetch("SET memory_limit = '100GB'")
    database.close()


def test_a_statement_ends(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "STATEMENT_SECONDS", 0.3)
    database = engine.DuckDatabase.connect(received)
    start = time.monotonic()
    with pytest.raises(FileError, match="still counting"):
        database.relation(database.resolve("survey")).fetch(
            "SELECT sum(r) FROM range(100000000000) t(r)"
        )
    assert time.monotonic() - start < 10
    database.close()


def test_a_description_that_is_no_json_is_one_line(received: Path) -> None:
    tamper(received, "UPDATE sfumato_release SET description = repeat('[', 100000)")
    with pytest.raises(SfumatoError, match="description"):
        open_source(f"duckdb://{received}#survey")
    tamper(received, f"UPDATE sfumato_release SET description = '{json.dumps([1])}'")
    with pytest.raises(SfumatoError, match="description"):
        open_source(f"duckdb://{received}#survey")
