"""Columns cut in two, beside words and other columns, are counted as the arrays are, whatever the
types of the table that holds them.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.counting.in_memory import TableCounter
from sfumato.counting.sql import SqlCounter, statements
from sfumato.counting.sql.database import TableName
from sfumato.domain import Category, Cells, Domain, Numeric
from sfumato.engines.duckdb import DUCKDB, DuckDatabase, DuckRelation, file_relation
from sfumato.errors import DataError
from sfumato.table import Table, reader_of, save

WORDS = ("", "O'Brien", 'say "hi"', "naïve ☃", "--x;")
NARROW = (
    Numeric("zero", 0, 99),
    Numeric("below 0", -70, 57),  # 128 values, as many as a byte and its carry hold
    Numeric("year", 1900, 2020),
    Numeric("two", 5, 6),
    Numeric('odd "name"; --', -3, 9),
)
DOMAIN = Domain(
    (
        *NARROW,
        Numeric("wide", 0, 128),  # one too many
        Numeric("fraction", 0.0, 1.0, step=0.25),
        Category("word", WORDS),
        Category("sex", ("F", "M")),
        Category("many", tuple(f"w{place}" for place in range(30))),
        Numeric("far", 10**12, 10**12 + 20),
    )
)
ROWS = 2001
TYPES = ("TINYINT", "BIGINT", "SMALLINT", "UTINYINT", "INTEGER")


def records(rows: int = ROWS) -> Table:
    rng = np.random.default_rng(7)
    # Ends more often than the middle, where a carry too many or too few would show.
    columns = [
        np.clip(rng.integers(-3, a.size + 3, rows) * rng.integers(0, 2, rows), 0, a.size - 1)
        for a in DOMAIN
    ]
    return Table(DOMAIN, tuple(column.astype(np.int64) for column in columns))


TABLE = records()
ARRAYS = TableCounter(Table(DOMAIN, TABLE.columns))


def native(folder: Path, table: Table = TABLE) -> DuckRelation:
    database = DuckDatabase.connect(folder / "own.db", writable=True)
    name = TableName("main", "release", "main")
    database.create(name, table, "sfumato release: 0")
    return database.relation(name)


def others(folder: Path) -> DuckRelation:
    """A table that somebody else wrote: other types, and words in another order with some that are
    no value.
    """
    relation = native(folder)
    kinds = [
        f"CAST({quoted(a.name)} AS {kind}) AS {quoted(a.name)}"
        for a, kind in zip(NARROW, TYPES, strict=True)
    ]
    listed = ", ".join("'" + word.replace("'", "''") + "'" for word in ("zzz", *WORDS[::-1], "aaa"))
    relation.connection.execute(
        f"CREATE TABLE theirs AS SELECT {', '.join(kinds)}, wide, fraction, "
        f"CAST(word AS ENUM ({listed})) AS word, CAST(sex AS VARCHAR) AS sex, "
        "CAST(many AS VARCHAR) AS many, far FROM release"
    )
    return DuckRelation(
        relation.connection, TableName("main", "theirs", "main").text(DUCKDB), "'theirs'"
    )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(scope="module", params=["parquet", "own table", "another's table"])
def counter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SqlCounter:
    folder = tmp_path_factory.mktemp("halves")
    if request.param == "parquet":
        save(TABLE, folder / "release.parquet")
        return SqlCounter(DOMAIN, file_relation(reader_of(folder / "release.parquet"), DOMAIN))
    relation = native(folder) if request.param == "own table" else others(folder)
    return SqlCounter(DOMAIN, relation)


@st.composite
def halves(draw: st.DrawFn, attribute: Numeric, runs: int = 1) -> Cells:
    """A number cut into two: from some value on to some other, which may be none or all of them."""
    ends = draw(st.lists(st.integers(0, attribute.size), min_size=2 * runs, max_size=2 * runs))
    group = np.zeros(attribute.size, dtype=np.intp)
    for start, end in zip(sorted(ends)[::2], sorted(ends)[1::2], strict=True):
        group[start:end] = 1
    return Cells(attribute, ("out", "in"), group if draw(st.booleans()) else 1 - group)


@st.composite
def four_ranges(draw: st.DrawFn) -> list[Cells]:
    return [draw(halves(attribute)) for attribute in draw(st.permutations(NARROW))[:4]]


@st.composite
def mixed(draw: st.DrawFn) -> list[Cells]:
    """Some columns in two cells, a few words thrown together at random, in any order."""
    cells: list[Cells] = []
    for name in draw(st.lists(st.sampled_from(DOMAIN.names), min_size=1, max_size=6, unique=True)):
        attribute = DOMAIN[name]
        if isinstance(attribute, Numeric):
            cells.append(draw(halves(attribute, draw(st.integers(1, 2)))))
        else:
            size = draw(st.integers(1, 4))
            drawn = st.lists(
                st.integers(0, size - 1), min_size=attribute.size, max_size=attribute.size
            )
            labels = tuple(map(str, range(size)))
            every = draw(st.booleans())
            cells.append(
                attribute.cells() if every else Cells(attribute, labels, np.array(draw(drawn)))
            )
    return cells


@settings(max_examples=60)
@given(question=four_ranges() | mixed())
def test_halves_beside_words_are_counted(counter: SqlCounter, question: list[Cells]) -> None:
    found = counter.count(question)
    assert found.dtype == np.int64 and np.array_equal(found, ARRAYS.count(question))


def ranges(*names: str) -> list[Cells]:
    return [Cells(a, ("out", "in"), middle(a.size)) for a in map(DOMAIN.__getitem__, names)]


def middle(size: int) -> Any:
    return ((np.arange(size) >= size // 3) & (np.arange(size) < 2 * size // 3 + 1)).astype(np.intp)


FOUR = ranges("zero", "below 0", "year", NARROW[4].name)
BY_WORD = [*ranges("wide", "fraction", "year"), DOMAIN["word"].cells()]
EIGHT = [*ranges(*DOMAIN.names[:7]), DOMAIN["sex"].cells()]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 301])
@pytest.mark.parametrize("question", [FOUR, BY_WORD, EIGHT])
def test_any_number_of_rows(tmp_path: Path, rows: int, question: list[Cells]) -> None:
    table = records(rows)
    found = SqlCounter(DOMAIN, native(tmp_path, table)).count(question)
    assert np.array_equal(found, TableCounter(Table(DOMAIN, table.columns)).count(question))


def test_many_may_ask_at_once(tmp_path: Path) -> None:
    relation = native(tmp_path)
    questions = [FOUR, BY_WORD] * 8
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda cells: SqlCounter(DOMAIN, relation).count(cells), questions))
    assert all(map(np.array_equal, found, map(ARRAYS.count, questions)))


def test_a_bit_in_the_wrong_place_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "ones", lambda place: 1 << place)
    found = SqlCounter(DOMAIN, native(tmp_path)).count(EIGHT)
    assert not np.array_equal(found, ARRAYS.count(EIGHT))


CHANGES = ("year = 2021", "year = NULL", "word = 'zzz'")


def changed(folder: Path, change: str) -> SqlCounter:
    relation = others(folder)
    relation.connection.execute(f"UPDATE theirs SET {change} WHERE zero = 0")
    return SqlCounter(DOMAIN, relation)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("question", [FOUR, BY_WORD, EIGHT])
def test_what_is_no_report_is_refused(tmp_path: Path, question: list[Cells], change: str) -> None:
    with pytest.raises(DataError, match="not in its domain"):
        changed(tmp_path, change).count(question)


def test_a_word_that_came_after_the_look_is_refused_by_its_column(tmp_path: Path) -> None:
    counter = changed(tmp_path, CHANGES[2])
    counter.__dict__["rows"] = ROWS
    with pytest.raises(DataError, match="'word'"):
        counter.count(BY_WORD)
