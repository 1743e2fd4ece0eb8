"""Counts by SQL are the counts of the arrays, whatever the columns are called and however they are
cut.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.bits import Bits
from sfumato.counting.in_memory import TableCounter
from sfumato.counting.sql import SqlCounter
from sfumato.domain import Bins, Category, Cells, Domain, Items, Numeric
from sfumato.engines.duckdb import file_relation
from sfumato.errors import DataError, EstimationError
from sfumato.estimation.moments import KnownSums
from sfumato.table import Table, reader_of, save

ODD = ("O'Brien", 'say "hi"', "", "100%", "a\\b", "naïve ☃", "--x;")
DOMAIN = Domain(
    (
        Category("the 'sex'", ("F", "M")),
        Category('odd "name"; --', ODD),
        Bins("été", (0, 10, 25.5, 40, 99)),
        Numeric("age", -20, 60, cuts=(0, 30)),
        Numeric("rate", 0.0, 1.0, step=0.01),
        Numeric("fine", -1.5, 2.5),
        Items("basket", ("bread", "o'milk", "salt", "tea")),
        Items("ids", ("7", "10", "300")),
    )
)
ROWS = 3000


def records(domain: Domain = DOMAIN, rows: int = ROWS, seed: int = 5) -> Table:
    rng = np.random.default_rng(seed)
    return Table(
        domain,
        tuple(
            Bits.from_dense(rng.random((rows, attribute.size)) < 0.4)
            if isinstance(attribute, Items)
            else rng.integers(0, attribute.size, rows)
            for attribute in domain
        ),
    )


TABLE = records()
ARRAYS = TableCounter(Table(DOMAIN, TABLE.columns))


@pytest.fixture(scope="module", params=["parquet", "csv", "csv.gz"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SqlCounter:
    path = tmp_path_factory.mktemp("odd [names] *") / f"it's.{request.param}"
    save(TABLE, path)
    return SqlCounter(DOMAIN, file_relation(reader_of(path), DOMAIN))


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> SqlCounter:
    path = tmp_path_factory.mktemp("sql") / "release.parquet"
    save(TABLE, path)
    return SqlCounter(DOMAIN, file_relation(reader_of(path), DOMAIN))


@st.composite
def partitions(draw: st.DrawFn, domain: Domain = DOMAIN, most: int = 6) -> Cells:
    """Any partition of any column: every value, cuts anywhere, or values thrown
    together at random.
    """
    attribute = draw(st.sampled_from(domain.attributes))
    if isinstance(attribute, Items):
        return attribute.item_cells(draw(st.sampled_from(attribute.values)))
    size = draw(st.integers(1, most))
    if isinstance(attribute, Numeric):
        kind = draw(st.sampled_from(["cuts", "every", "mixed"]))
        if kind == "cuts":
            low, high = attribute.min - 1, attribute.max + 1
            return attribute.cells_by_cuts(draw(st.lists(st.floats(low, high), max_size=most)))
        if kind == "every" and attribute.size < 200:
            return attribute.cells()
        starts = np.unique([0, *draw(st.lists(st.integers(0, attribute.size - 1), max_size=most))])
        group = np.array(
            draw(st.lists(st.integers(0, size - 1), min_size=len(starts), max_size=len(starts)))
        )
        return Cells(attribute, tuple(map(str, range(size))), group, starts)
    if draw(st.booleans()):
        return attribute.cells()
    group = np.array(
        draw(st.lists(st.integers(0, size - 1), min_size=attribute.size, max_size=attribute.size))
    )
    return Cells(attribute, tuple(map(str, range(size))), group)


def questions(most: int = 4) -> st.SearchStrategy[list[Cells]]:
    return st.lists(partitions(), min_size=1, max_size=most, unique_by=lambda part: part.name)


@given(question=questions())
def test_counts_are_those_of_the_arrays(counter: SqlCounter, question: list[Cells]) -> None:
    found = counter.count(question)
    assert found.dtype == np.int64 and np.array_equal(found, ARRAYS.count(question))


@st.composite
def halved(draw: st.DrawFn, most: int = 11) -> list[Cells]:
    """Several axes in two cells each, one of which may be of no value at all."""
    axes = [(a, item) for a in DOMAIN for item in (a.values if isinstance(a, Items) else [""])]
    cells = []
    for attribute, item in draw(st.permutations(axes))[: draw(st.integers(2, most))]:
        if isinstance(attribute, Items):
            cells.append(attribute.item_cells(item))
            continue
        starts, size = None, attribute.size
        if isinstance(attribute, Numeric):
            ends = st.integers(0, attribute.size - 1)
            starts = np.unique([0, *draw(st.lists(ends, max_size=3))])
            size = len(starts)
        group = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
        cells.append(Cells(attribute, ("no", "yes"), np.array(group), starts))
    return cells


@settings(max_examples=60)
@given(question=halved(), more=questions(1))
def test_many_halves_are_counted_beside_anything_else(
    counter: SqlCounter, question: list[Cells], more: list[Cells]
) -> None:
    question = [part for part in question if part.name != more[0].name] + more
    assert np.array_equal(counter.count(question), ARRAYS.count(question))


def test_eight_conditions_are_one_key_and_four_are_compared(counter: SqlCounter) -> None:
    age, items = DOMAIN["age"], DOMAIN["basket"]
    assert isinstance(age, Numeric) and isinstance(items, Items)
    four = [items.item_cells(label) for label in items.labels]
    assert "GROUP BY" not in counter.statement(four)
    eight = [*four, *(DOMAIN["ids"].item_cells(label) for label in DOMAIN["ids"].labels)]
    eight.append(age.cells_by_cuts([10]))
    assert counter.statement(eight).endswith("GROUP BY bits")
    assert np.array_equal(counter.count(eight), ARRAYS.count(eight))


def test_no_column_at_all_is_one_cell_of_every_row(counter: SqlCounter) -> None:
    assert SqlCounter(counter.domain, counter.relation).count([]).tolist() == ARRAYS.rows


@settings(max_examples=8)
@given(question=questions())
def test_files_of_every_kind_are_read(files: SqlCounter, question: list[Cells]) -> None:
    assert np.array_equal(files.count(question), ARRAYS.count(question))


@settings(max_examples=25)
@given(asked=st.lists(questions(3), max_size=6))
def test_many_questions_are_answered_as_one_by_one(
    counter: SqlCounter, asked: list[list[Cells]]
) -> None:
    fresh = SqlCounter(counter.domain, counter.relation)
    for found, question in zip(fresh.count_many(asked), asked, strict=True):
        assert np.array_equal(found, ARRAYS.count(question))


def test_many_questions_take_one_statement(
    counter: SqlCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [
        [DOMAIN[a].cells(), DOMAIN[b].cells()]
        for a in DOMAIN.names[:4]
        for b in DOMAIN.names[:4]
        if a < b
    ]
    sent: list[str] = []
    fetch = type(counter.relation).fetch
    monkeypatch.setattr(
        type(counter.relation),
        "fetch",
        lambda self, statement: sent.append(statement) or fetch(self, statement),
    )
    fresh = SqlCounter(counter.domain, counter.relation)
    assert fresh.rows == ARRAYS.rows
    sent.clear()  # all columns were looked at, once
    for found, question in zip(fresh.count_many(pairs), pairs, strict=True):
        assert np.array_equal(found, ARRAYS.count(question))
    assert len(sent) == 1 and "GROUPING SETS" in sent[0]


@settings(max_examples=25)
@given(others=questions(2) | halved(4), cuts=st.lists(st.floats(-1.5, 2.5), max_size=3))
def test_power_sums_are_those_of_the_arrays(
    counter: SqlCounter, others: list[Cells], cuts: list[float]
) -> None:
    fine = DOMAIN["fine"]
    assert isinstance(fine, Numeric)
    cells = [fine.cells_by_cuts(cuts), *(part for part in others if part.name != "fine")]
    found, true = counter.power_sums(cells, 0, 0.5, 2.0), ARRAYS.power_sums(cells, 0, 0.5, 2.0)
    assert found.shape == true.shape and np.allclose(found, true, rtol=1e-9, atol=1e-9)


@settings(max_examples=25)
@given(others=questions(2) | halved(4), cuts=st.lists(st.floats(-1.5, 2.5), max_size=3))
def test_spreads_are_those_of_the_arrays(
    counter: SqlCounter, others: list[Cells], cuts: list[float]
) -> None:
    fine = DOMAIN["fine"]
    assert isinstance(fine, Numeric)
    cells = [fine.cells_by_cuts(cuts), *(part for part in others if part.name != "fine")]
    found, true = (KnownSums(each.spreads(cells, 0)).about(0.7) for each in (counter, ARRAYS))
    assert found.shape == true.shape and np.allclose(found, true, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["basket", "ids"])
def test_itemsets_are_counted(files: SqlCounter, name: str) -> None:
    items = DOMAIN[name]
    assert isinstance(items, Items)
    itemsets = np.array([[0, 1], [0, 2], [1, 2]], dtype=np.int32)
    baskets = files.baskets([items])
    dense = TABLE.column(name).to_dense()
    assert baskets.counts(itemsets).tolist() == [
        int(dense[:, row].all(axis=1).sum()) for row in itemsets
    ]
    single = np.arange(items.size, dtype=np.int32)[::-1, None]
    assert baskets.counts(single).tolist() == dense.sum(axis=0)[::-1].tolist()
    assert baskets.counts(np.zeros((1, 0), dtype=np.int32)).tolist() == [ROWS]
    assert (baskets.rows, baskets.items) == (ROWS, items.size)


def test_rows_are_counted(counter: SqlCounter) -> None:
    assert counter.rows == ROWS


def test_a_table_too_large_is_refused(counter: SqlCounter) -> None:
    with pytest.raises(EstimationError, match="too large"):
        counter.count([DOMAIN[name].cells() for name in ("age", "rate", "fine")])


def test_values_outside_the_domain_are_told(tmp_path: Path) -> None:
    written = records(
        Domain((Category("pet", ("cat", "dog", "eel", "newt")), *DOMAIN.attributes[:2]))
    )
    save(written, tmp_path / "pets.parquet")
    smaller = Domain((Category("pet", ("cat", "dog", "eel")), *DOMAIN.attributes[:2]))
    counter = SqlCounter(smaller, file_relation(reader_of(tmp_path / "pets.parquet"), smaller))
    with pytest.raises(DataError, match="column 'pet'"):
        counter.count([smaller["pet"].cells(), smaller['odd "name"; --'].cells()])
