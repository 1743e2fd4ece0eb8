"""What an engine declares is so: every capability of every engine is tried on the engine itself,
and every question gives the same answer where a capability is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.counting.in_memory import TableCounter
from sfumato.counting.sql import Dialect, Relation, SqlCounter, StatementWriter
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.engines import open_source, save_release
from sfumato.engines.duckdb import DUCKDB
from sfumato.engines.opening import DATABASES
from sfumato.engines.postgres import POSTGRES
from sfumato.engines.spark.spark_counter import SPARK
from sfumato.engines.sqlite import SQLITE
from sfumato.errors import SfumatoError
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table

ROWS = 700
DOMAIN = Domain(
    (
        Category("sex", ("F", "M")),
        Category("town", ("A", "B", "it's")),
        Numeric("age", -5, 60, cuts=(20,)),
        Numeric("wide", -(10**9), 2 * 10**9),
        Numeric("wage", 0.0, 10.0, step=0.25, cuts=(5,)),
        Items("basket", ("tea", "milk", "o'salt")),
    )
)
ENGINES = {"duckdb": DUCKDB, "postgresql": POSTGRES, "sqlite": SQLITE, "spark": SPARK}


def release() -> Release:
    rng = np.random.default_rng(1)
    columns = [
        Bits.from_dense(rng.random((ROWS, a.size)) < 0.4)
        if isinstance(a, Items)
        else rng.integers(0, a.size, ROWS)
        for a in DOMAIN
    ]
    baskets = Domain((DOMAIN["basket"],))
    others = DOMAIN.project(DOMAIN.names[:-1])
    mechanism = sf.Combined(DOMAIN, (sf.Retention(others, 0.9), sf.BitFlip(baskets, 0.9, 0.9)))
    return sf.perturb(Table(DOMAIN, tuple(columns)), mechanism, seeded(2))


RELEASE = release()
ARRAYS = TableCounter(RELEASE.table)
REPORTS = ARRAYS.domain


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.xdist_group("spark") if name == "spark" else ())
        for name in ENGINES
    ],
)
def relation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Relation:
    """The rows of the release in an engine."""
    folder = tmp_path_factory.mktemp("declared")
    if request.param == "spark":
        session = request.getfixturevalue("session")
        from sfumato.engines.spark.spark_counter import spark_relation

        RELEASE.save(folder / "r.parquet")
        return spark_relation(session, str(folder / "r.parquet"), REPORTS)
    base = f"{request.param}://{folder / 'r.db'}"
    if request.param == "postgresql":
        base = request.getfixturevalue("postgres")
    save_release(RELEASE, f"{base}#declared", force=True)
    opened: Any = open_source(f"{base}#declared", cache=False)
    found = opened.counter.relation
    assert isinstance(found, Relation)
    return found


def test_every_engine_is_tried() -> None:
    declared = {kind.dialect for kind in DATABASES.values()} | {SPARK}
    assert declared == set(ENGINES.values())


CELLS = [REPORTS["sex"].cells(), REPORTS["town"].cells()]
AGE, WIDE, WAGE, BASKET = [*map(REPORTS.__getitem__, ("age", "wide", "wage", "basket"))]
Written = Callable[[StatementWriter], Any]


def needing(**abilities: Any) -> Callable[[Dialect], Dialect]:
    """The dialect as if its engine could do this."""
    return lambda dialect: replace(dialect, **abilities)


# For each capability, what it would be if it were declared, and a statement that needs it.
NEEDED: dict[str, tuple[Callable[[Dialect], Dialect], Written]] = {
    "grouping": (
        lambda dialect: replace(dialect, grouping=dialect.grouping or "GROUPING"),
        lambda writer: writer.grouping_sets(CELLS, [[0], [1]]),
    ),
    "unnest": (
        lambda dialect: replace(dialect, unnest=dialect.unnest or "UNNEST"),
        lambda writer: writer.items(BASKET),
    ),
    "filters": (needing(filters=True), lambda writer: writer.counted(CELLS, [0, 1])),
    "variance": (needing(variance=True), lambda writer: writer.spreads(CELLS, WAGE)),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_declared_runs_and_what_is_not_declared_does_not(
    relation: Relation, name: str
) -> None:
    """A capability that came with a new version of an engine is noticed here as well."""
    able, written = NEEDED[name]
    writer = StatementWriter(able(relation.dialect), relation.rows_from, relation.flags)
    statement = written(writer)
    if getattr(relation.dialect, name) or (relation.dialect.name, name) in SLOW:
        assert relation.fetch(statement).num_rows
    else:
        with pytest.raises(SfumatoError):
            relation.fetch(statement)


SLOW = {("duckdb", "filters"), ("spark", "filters")}  # which run there, and take longer


def test_lists_are_asked_for_an_item_in_the_declared_way(relation: Relation) -> None:
    """And by the other way only where the engine knows both."""
    if relation.dialect.unnest is None:
        pytest.skip("it has no lists")
    writer = StatementWriter(relation.dialect, relation.rows_from)
    held = writer._count_where([writer.holds(BASKET, 1)])
    (found,) = relation.row(f"SELECT {held} FROM {relation.rows_from}")
    assert found == ARRAYS.count([BASKET.item_cells("milk")])[1]


def test_long_sums_are_exact(relation: Relation) -> None:
    """The squares of a wide column overflow 63 bits after some rows."""
    counter = SqlCounter(REPORTS, relation)
    cells = [WIDE.cells_by_cuts([0]), REPORTS["sex"].cells()]
    rows, total, centre, squares = np.moveaxis(counter.spreads(cells, 0), -1, 0)
    wide = WIDE.numbers(np.asarray(RELEASE.table.column("wide"))).astype(object)
    sex = np.asarray(RELEASE.table.column("sex"))
    for place in np.ndindex(2, 2):
        mine = [
            int(w) for w, s in zip(wide, sex, strict=True) if (w >= 0) == place[0] and s == place[1]
        ]
        assert rows[place] == len(mine) and total[place] == sum(mine)
        exact = sum(n * n for n in mine) - sum(mine) ** 2 / len(mine)
        assert squares[place] == pytest.approx(exact, rel=1e-12)
        assert max(n * n for n in mine) * len(mine) > 2**63
        assert centre[place] == pytest.approx(sum(mine) / len(mine))


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "two cells": lambda counter: counter.count([REPORTS["sex"].cells()]),
    "words": lambda counter: counter.count(CELLS),
    "cuts": lambda counter: counter.count([AGE.cells_by_cuts([0, 9, 30]), *CELLS]),
    "every value": lambda counter: counter.count([AGE.cells()]),
    "items": lambda counter: counter.count([*CELLS, BASKET.item_cells("o'salt")]),
    "many halves": lambda counter: counter.count(
        [*(BASKET.item_cells(label) for label in BASKET.labels), AGE.cells_by_cuts([9]), *CELLS]
    ),
    "many": lambda counter: counter.count_many(
        [[part] for part in CELLS] + [[AGE.cells(), WAGE.cells()], [WAGE.cells(), CELLS[1]]]
    ),
    "powers": lambda counter: counter.power_sums([WAGE.cells_by_cuts([5]), CELLS[0]], 0, 5.0, 5.0),
    "spreads of wholes": lambda counter: about(counter.spreads([AGE.cells_by_cuts([9])], 0)),
    "spreads": lambda counter: about(counter.spreads([WAGE.cells_by_cuts([5]), *CELLS], 0)),
    "spread of all": lambda counter: about(counter.spreads([WAGE.cells_by_cuts([])], 0)),
}


def about(spreads: Any) -> Any:
    """Rows, sum and squares about the mean, whatever the centre was."""
    rows, total, centre, squares = np.moveaxis(spreads, -1, 0)
    mean = total / np.maximum(rows, 1)
    shift = centre - mean
    return np.stack([rows, total, squares + shift * (2 * (total - centre * rows) + shift * rows)])


CHOSEN_FOR_SPEED: tuple[dict[str, Any], ...] = (
    {},
    {"listed_cells": 0, "listed_beside": 0},
    {"listed_cells": 4, "listed_beside": 1},
)
WITHOUT: tuple[dict[str, Any], ...] = (
    {"grouping": None},
    {"variance": False},
    {"columnar": False},
)


@pytest.mark.parametrize("changed", [*CHOSEN_FOR_SPEED, *WITHOUT], ids=str)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_has_one_answer_with_a_capability_and_without(
    relation: Relation, name: str, changed: dict[str, Any]
) -> None:
    if relation.dialect is SPARK and (changed or name not in ("many", "spreads")):
        pytest.skip("test_spark asks the others, each of which takes Spark a second")
    ask = QUESTIONS[name]
    found = ask(SqlCounter(REPORTS, _Other(relation, replace(relation.dialect, **changed))))
    true = ask(ARRAYS)
    for mine, theirs in zip(found, true, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-6)


class _Other(Relation):
    """A relation as if its engine could do other things."""

    def __init__(self, relation: Relation, dialect: Dialect) -> None:
        self.relation, self.dialect = relation, dialect
        self.rows_from, self.flags = relation.rows_from, relation.flags

    def fetch(self, statement: str) -> Any:
        return self.relation.fetch(statement)


def test_every_capability_is_tried() -> None:
    """Whoever declares one more says here how it is tried."""
    tried = {
        *NEEDED,
        *(name for changed in (*CHOSEN_FOR_SPEED, *WITHOUT) for name in changed),
        "any_of_list",  # lists are asked for an item
        "typed",  # test_strangers: a value of another type is refused
        "finite",  # test_strangers: a number that is none is refused
        "name",
        *("quote", "backslash", "double"),  # every statement has them
    }
    assert {field.name for field in fields(Dialect)} == tried


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite", "postgresql"])
def test_a_release_is_written_whole_or_not_at_all(
    scheme: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"{scheme}://{tmp_path / 'whole.db'}"
    if scheme == "postgresql":
        base = request.getfixturevalue("postgres")
    save_release(RELEASE, f"{base}#whole", force=True)
    kind, fill = DATABASES[scheme], DATABASES[scheme].fill

    def broken(self: Any, name: Any, table: Any) -> None:
        fill(self, name, table.slice(0, 5))
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "fill", broken)
    for name in ("whole", "fresh"):
        with pytest.raises(KeyboardInterrupt):
            save_release(RELEASE, f"{base}#{name}", force=True)
    opened: Any = open_source(f"{base}#whole")
    assert opened.rows == ROWS  # the old one is still there
    with pytest.raises(SfumatoError, match="no table 'fresh'"):
        open_source(f"{base}#fresh")
