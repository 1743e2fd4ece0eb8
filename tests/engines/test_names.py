"""A table has one name, however it is spelled: no release in a database is changed unless that was
asked for, and no description speaks for rows that are not its own.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain
from sfumato.engines import open_source, save_release
from sfumato.errors import ServerError, SfumatoError
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table

DOMAIN = Domain((Category("smoker", ("no", "yes")),))
IN_FILES: dict[str, Callable[[str], Any]] = {
    "duckdb": duckdb.connect,
    "sqlite": partial(sqlite3.connect, isolation_level=None),
}
LONG = "é" + "survey_" * 9  # 65 bytes, of which PostgreSQL keeps 63


def release(keep: float) -> Release:
    rng = np.random.default_rng(1)
    table = Table(DOMAIN, ((rng.random(3000) < 0.25).astype(np.uint8),))
    return sf.perturb(table, sf.Retention(DOMAIN, keep), seeded(2))


FIRST, SECOND = release(0.9), release(0.1)


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param in IN_FILES:
        return f"{request.param}://{tmp_path / 'all.db'}"
    import psycopg

    address = request.getfixturevalue("postgres")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("DROP SCHEMA IF EXISTS other CASCADE")
    return str(address)


def run(base: str, *statements: str) -> list[Any]:
    """What the last of these statements gives, run past Sfumato."""
    scheme, _, path = base.partition("://")
    if scheme in IN_FILES:
        with closing(IN_FILES[scheme](path)) as connection:
            for statement in statements:
                found = connection.execute(statement)
            return found.fetchall()
    import psycopg

    with psycopg.connect(base, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def answers(base: str, name: str) -> tuple[float, float]:
    opened: Any = open_source(f"{base}#{name}")
    found = opened.marginal(["smoker"]).where(smoker="yes")
    relation = opened.counter.relation  # let go of it: one process does not both read and write
    getattr(relation, "database", relation).connection.close()
    return found.value, found.stderr


def expected(of: Release) -> tuple[float, float]:
    found = of.marginal(["smoker"]).where(smoker="yes")
    return found.value, found.stderr


def same_names(base: str) -> list[list[str]]:
    """Names that mean one table each."""
    if not base.startswith("postgresql"):
        return [["survey", "main.survey", "SURVEY", "Main.Survey", "sUrVeY"]]
    return [["survey", "public.survey"], [LONG, LONG + "_once_more", "public." + LONG]]


def test_no_spelling_overwrites_a_release(base: str) -> None:
    for names in same_names(base):
        for first in names:
            save_release(FIRST, f"{base}#{first}", force=True)
            for second in names:
                with pytest.raises(ServerError, match=r"has a table .* already; use --force"):
                    save_release(SECOND, f"{base}#{second}")
                assert answers(base, second) == pytest.approx(expected(FIRST))


def test_forced_by_any_spelling_the_description_changes_with_the_rows(base: str) -> None:
    for names in same_names(base):
        save_release(FIRST, f"{base}#{names[0]}")
        for second in names[1:]:
            save_release(FIRST, f"{base}#{names[0]}", force=True)
            save_release(SECOND, f"{base}#{second}", force=True)
            for name in names:
                assert answers(base, name) == pytest.approx(expected(SECOND))
        assert len(run(base, 'SELECT * FROM "sfumato_release"')) == 1
        run(base, 'DELETE FROM "sfumato_release"')


@pytest.mark.parametrize("name", ["survey.", ".survey", ".", "a.b.survey", "main.public.survey"])
def test_what_is_no_name_is_refused(base: str, name: str) -> None:
    save_release(FIRST, f"{base}#survey")
    for force in (False, True):
        with pytest.raises(ServerError, match="is no name of a table; write TABLE"):
            save_release(SECOND, f"{base}#{name}", force=force)
    with pytest.raises(SfumatoError, match="is no name of a table"):
        open_source(f"{base}#{name}")
    assert answers(base, "survey") == pytest.approx(expected(FIRST))


def test_the_descriptions_are_no_place_for_a_release(base: str) -> None:
    save_release(FIRST, f"{base}#survey")
    schema = "public" if base.startswith("postgresql") else "main"
    for name in ("sfumato_release", "SFUMATO_RELEASE", f"{schema}.sfumato_release"):
        with pytest.raises(ServerError, match="choose another name"):
            save_release(SECOND, f"{base}#{name}", force=True)
    assert answers(base, "survey") == pytest.approx(expected(FIRST))


def test_tables_of_other_schemas_are_others(base: str) -> None:
    save_release(FIRST, f"{base}#survey")
    if base.startswith("sqlite"):  # which has one schema
        with pytest.raises(SfumatoError, match="unknown database"):
            save_release(SECOND, f"{base}#other.survey")
        return
    run(base, "CREATE SCHEMA other")
    save_release(SECOND, f"{base}#other.survey")
    assert answers(base, "survey") == pytest.approx(expected(FIRST))
    assert answers(base, "other.survey") == pytest.approx(expected(SECOND))


def test_case_tells_tables_apart_where_the_server_does(base: str) -> None:
    save_release(FIRST, f"{base}#survey")
    if not base.startswith("postgresql"):
        save_release(FIRST, f"{base}#ÉTÉ")
        save_release(SECOND, f"{base}#été")  # only A to Z are one with a to z
        assert answers(base, "éTé") == pytest.approx(expected(SECOND))
        assert answers(base, "ÉTÉ") == pytest.approx(expected(FIRST))
    else:
        save_release(SECOND, f"{base}#SURVEY")
        assert answers(base, "SURVEY") == pytest.approx(expected(SECOND))
    assert answers(base, "survey") == pytest.approx(expected(FIRST))


def test_a_view_in_the_way_stays(base: str) -> None:
    run(base, "CREATE VIEW survey AS SELECT 1 AS a")
    with pytest.raises(ServerError, match="already"):
        save_release(FIRST, f"{base}#survey")
    with pytest.raises(SfumatoError):
        save_release(FIRST, f"{base}#survey", force=True)
    assert run(base, "SELECT * FROM survey") == [(1,)]


def test_rows_that_were_replaced_are_not_described(base: str) -> None:
    """Somebody makes the table anew: as many rows, of the same columns."""
    save_release(FIRST, f"{base}#survey")
    run(
        base,
        "CREATE TABLE copied AS SELECT * FROM survey",
        "DROP TABLE survey",
        "ALTER TABLE copied RENAME TO survey",
    )
    with pytest.raises(ServerError, match="are not those that its description speaks of"):
        open_source(f"{base}#survey")


def test_releases_that_changed_places_are_not_described(base: str) -> None:
    save_release(FIRST, f"{base}#one")
    save_release(SECOND, f"{base}#two")
    for old, new in (("one", "aside"), ("two", "one"), ("aside", "two")):
        run(base, f'ALTER TABLE "{old}" RENAME TO "{new}"')
    for name in ("one", "two"):
        with pytest.raises(ServerError, match="are not those that its description speaks of"):
            open_source(f"{base}#{name}")


def test_the_first_version_had_no_release_id(base: str) -> None:
    """What 0.1.0 wrote has a description of format 1 and no comment."""
    save_release(FIRST, f"{base}#survey")
    if base.startswith("sqlite"):
        pytest.skip("0.1.0 wrote no release to SQLite")
    told = run(base, 'SELECT "description" FROM "sfumato_release"')[0][0]
    old = re.sub('"format": 2', '"format": 1', re.sub('"release": "[0-9a-f]*", ', "", told))
    run(
        base,
        f"""UPDATE "sfumato_release" SET "description" = '{old}'""",
        "COMMENT ON TABLE survey IS NULL",
    )
    opened = open_source(f"{base}#survey")
    assert isinstance(opened, Release)
    assert opened.provenance.release is None and not opened.provenance.shuffled
    assert answers(base, "survey") == pytest.approx(expected(FIRST))
