"""A SQLite file that someone else made runs nothing of its own, and a store of campaigns takes no
release.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain
from sfumato.engines import open_source, save_release
from sfumato.errors import FileError, ParameterError, SfumatoError
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table

DOMAIN = Domain((Category("sex", ("F", "M", "sex")),))
DESCRIBED = (
    "INSERT INTO sfumato_release SELECT 'trap', description FROM sfumato_release "
    "WHERE table_name = 'survey'"
)


def survey() -> Release:
    truth = Table.from_arrow(pa.table({"sex": ["F", "M"] * 50}), DOMAIN)
    return sf.perturb(truth, sf.Retention(DOMAIN, 0.5), seeded(1))


@pytest.fixture
def received(tmp_path: Path) -> Path:
    """A database file with one honest release, `survey`."""
    path = tmp_path / "it's #1 received.db"
    save_release(survey(), address(path, "survey"))
    return path


def address(path: Path, table: str) -> str:
    return f"sqlite://{str(path).replace('#', '%23')}#{table}"


def tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_an_honest_file_is_counted_and_may_be_written_meanwhile(received: Path) -> None:
    opened = open_source(address(received, "survey"), cache=False)
    assert opened.rows == 100
    tamper(received, "CREATE TABLE other (a)", "DELETE FROM survey WHERE rowid = 1")
    with pytest.raises(SfumatoError, match="99 rows, but its description speaks of 100"):
        opened.marginal(["sex"])


@pytest.mark.parametrize(
    "trap",
    [
        "CREATE VIEW trap AS SELECT * FROM survey",
        "CREATE VIRTUAL TABLE trap USING fts5(sex)",
    ],
)
def test_what_computes_is_no_release(received: Path, trap: str) -> None:
    tamper(received, trap, DESCRIBED)
    with pytest.raises(SfumatoError, match="no table 'trap'"):
        open_source(address(received, "trap"))


def test_a_view_in_place_of_the_descriptions_is_not_read(received: Path) -> None:
    tamper(
        received,
        "ALTER TABLE sfumato_release RENAME TO kept",
        "CREATE VIEW sfumato_release AS SELECT 'survey' AS table_name, "
        "CAST(zeroblob(1000000000) AS TEXT) AS description",
    )
    with pytest.raises(FileError, match="holds no release"):
        open_source(address(received, "survey"))


def test_a_generated_column_is_refused(received: Path) -> None:
    tamper(received, "CREATE TABLE trap (n INTEGER, sex TEXT AS (hex(zeroblob(n))))", DESCRIBED)
    with pytest.raises(FileError, match="computes the column 'sex' of 'trap'"):
        open_source(address(received, "survey"))


def test_a_column_that_is_not_there_is_no_word(received: Path) -> None:
    """SQLite takes the quoted name of no column for a text, which may be a value of the domain."""
    tamper(received, "ALTER TABLE survey RENAME COLUMN sex TO other")
    with pytest.raises(SfumatoError, match="no column 'sex'"):
        open_source(address(received, "survey"), cache=False).marginal(["sex"])


def test_a_file_of_anything_else_is_refused(tmp_path: Path) -> None:
    tamper(tmp_path / "other.db", "CREATE TABLE a (b)")
    with pytest.raises(FileError, match="is no store of campaigns, and holds no release"):
        open_source(address(tmp_path / "other.db", "a"))
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(FileError, match=r"SQLite cannot read .*text\.db"):
        open_source(address(tmp_path / "text.db", "a"))
    with pytest.raises(FileError, match="no database file"):
        open_source(address(tmp_path / "none.db", "a"))


def test_a_store_takes_no_release(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    tamper(path, "CREATE TABLE campaign (name)", "CREATE TABLE report (id)")
    before = path.read_bytes()
    with pytest.raises(ParameterError, match="takes reports from respondents only"):
        save_release(survey(), address(path, "survey"), force=True)
    assert path.read_bytes() == before
