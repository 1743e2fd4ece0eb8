"""Table: Arrow in and out, recoding, joining."""

from __future__ import annotations

import json
from decimal import Decimal

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.bits import Bits
from sfumato.domain import Bins, Category, Domain, Items, Numeric
from sfumato.errors import DataError, FileError, SchemaError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.randomness import seeded
from sfumato.table import Provenance, Table, perturb_table, read, reader_of
from sfumato.table.round import Round

DOMAIN = Domain(
    (
        Numeric("age", 15, 95, cuts=(35, 55, 75)),
        Category("sex", ("F", "M")),
        Items("bought", ("bread", "milk", "tea")),
    )
)
FRAME = pa.table(
    {
        "age": [15, 35, 95, 54],
        "sex": ["M", "F", "F", "M"],
        "bought": [["tea"], [], ["bread", "milk"], ["milk"]],
    }
)


@pytest.fixture
def table() -> Table:
    return Table.from_arrow(FRAME, DOMAIN)


def test_arrow_and_back(table):
    assert table.rows == len(table) == 4
    assert table.column("age").tolist() == [0, 20, 80, 39]
    assert table.to_arrow().to_pylist() == FRAME.to_pylist()


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame,
        lambda frame: frame.to_reader(),
        lambda frame: frame.to_batches()[0],
        lambda frame: frame.to_pandas(),
        lambda frame: frame.to_pandas().set_index("name"),
        polars.from_arrow,
        lambda frame: duckdb.from_arrow(frame),
    ],
    ids=["table", "reader", "batch", "pandas", "indexed pandas", "polars", "duckdb"],
)
def test_anything_that_speaks_arrow(make):
    frame = pa.table({"sex": ["M", "F"], "age": [20, 30], "name": ["Bob", "Ann"]})
    domain = Domain((Category("sex", ("F", "M")), Numeric("age", 0, 99)))
    found = read(make(frame), domain)
    assert [column.tolist() for column in found.columns] == [[1, 0], [20, 30]]


FRAMES = {
    "pandas": lambda: pandas.DataFrame(
        {"sex": pandas.Categorical(["M", "F"]), "price": [1.25, 2.5], "got": [["x"], []]}
    ),
    "polars": lambda: polars.DataFrame(
        {
            "sex": polars.Series(["M", "F"], dtype=polars.Categorical),
            "price": [Decimal("1.25"), Decimal("2.5")],
            "got": [["x"], []],
        },
        schema_overrides={"got": polars.List(polars.String)},
    ),
    "duckdb": lambda: duckdb.sql(
        "SELECT * FROM (VALUES ('M', 1.25, ['x']), ('F', 2.5, [])) AS t(sex, price, got)"
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_categories_decimals_and_lists_of_every_library(name):
    domain = Domain(
        (
            Category("sex", ("F", "M")),
            Numeric("price", 0.0, 9.0, step=0.25),
            Items("got", ("x", "y")),
        )
    )
    found = read(FRAMES[name](), domain)
    assert found.to_arrow().to_pylist() == [
        {"sex": "M", "price": 1.25, "got": ["x"]},
        {"sex": "F", "price": 2.5, "got": []},
    ]


def test_columns_of_the_wrong_kind():
    with pytest.raises(
        DataError, match="column 'got' should hold baskets, that is lists of items; it holds string"
    ):
        read(pa.table({"got": ["x"]}), Domain((Items("got", ("x",)),)))
    with pytest.raises(DataError, match="column 'sex' should hold single values; it holds list"):
        read(pa.table({"sex": [["x"]]}), Domain((Category("sex", ("x",)),)))


def test_other_libraries_read_a_table(table):
    small = table.recode(DOMAIN.project(["age", "sex"]))
    assert polars.DataFrame(small).to_dicts() == small.to_arrow().to_pylist()
    assert pa.table(small).to_pylist() == small.to_arrow().to_pylist()
    assert duckdb.sql("SELECT sum(age) FROM small").fetchall() == [(199,)]


def test_what_does_not_speak_arrow():
    with pytest.raises(DataError, match="cannot read records from list"):
        read([1, 2], DOMAIN)


def test_columns_left_out_are_named():
    frame = pa.table({"sex": ["M"], "name": ["Bob"], "town": ["Rome"]})
    found = Table.from_arrow(frame, Domain((Category("sex", ("F", "M")),)))
    assert found.notes == ("2 columns are not in the schema and were dropped: name, town",)


def test_a_missing_column_shows_the_near_miss():
    with pytest.raises(
        SchemaError, match=r"no column 'smoker' in these data \(smokr, age\); did you mean 'smokr'"
    ):
        Table.from_arrow(
            pa.table({"smokr": ["y"], "age": [3]}), Domain((Category("smoker", ("y", "n")),))
        )


def test_numbers_become_bins(table):
    binned = table.recode(DOMAIN.binned())
    assert binned.column("age").tolist() == [0, 1, 3, 1]
    assert binned.to_arrow()["age"].to_pylist() == ["[15,35)", "[35,55)", "[75,95]", "[35,55)"]
    assert binned.column("bought").equals(table.column("bought"))


def test_recoding_agrees_with_encoding_the_numbers():
    numbers = np.arange(0, 100.25, 0.25)
    fine = Domain((Numeric("x", 0.0, 100.0, cuts=(12.5, 50.0, 100.0), step=0.25),))
    table = Table.from_arrow(pa.table({"x": numbers}), fine)
    direct = Table.from_arrow(pa.table({"x": numbers}), fine.binned())
    assert table.recode(fine.binned()).column("x").tolist() == direct.column("x").tolist()


def test_bins_merge_but_do_not_split():
    bins = Domain((Bins("x", (0, 1, 2, 3)),))
    table = Table(bins, (np.array([0, 1, 2], dtype=np.uint8),))
    assert table.recode(Domain((Bins("x", (0, 2, 3)),))).column("x").tolist() == [0, 0, 1]
    with pytest.raises(SchemaError, match="cannot be cut again"):
        table.recode(Domain((Bins("x", (0, 1.5, 3)),)))


def test_categories_recode_by_value():
    table = Table(
        Domain((Category("pet", ("cat", "dog", "eel")),)), (np.array([0, 1, 2], dtype=np.uint8),)
    )
    wider = Domain((Category("pet", ("dog", "other"), other="other"),))
    assert table.recode(wider).column("pet").tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="'cat' is not one of its values"):
        table.recode(Domain((Category("pet", ("dog", "eel")),)))


def test_rows_are_sliced_and_taken(table):
    parts = [table.slice(0, 1).to_arrow(), table.slice(1, 4).to_arrow()]
    assert pa.concat_tables(parts).to_pylist() == table.to_arrow().to_pylist()
    assert table.take(np.array([3, 3, 0])).to_arrow()["sex"].to_pylist() == ["M", "M", "M"]


def test_columns_must_fit_the_domain():
    sex = Domain((Category("sex", ("F", "M")),))
    with pytest.raises(DataError, match="2 values"):
        Table(sex, (np.array([0, 2]),))
    with pytest.raises(DataError, match="2 columns were given for the 1 attributes"):
        Table(sex, (np.array([0]), np.array([0])))
    with pytest.raises(DataError, match="held by codes"):
        Table(sex, (Bits.zeros(1, 2),))
    with pytest.raises(DataError, match="same number of rows"):
        Table(DOMAIN.project(["age", "sex"]), (np.array([0]), np.array([0, 1])))


def test_an_empty_table(table):
    empty = table.slice(0, 0)
    assert empty.rows == 0 and empty.to_arrow().num_rows == 0


def test_a_perturbed_table_carries_its_mechanism_through_arrow(table):
    truth = table.recode(DOMAIN.project(["age", "sex"]))
    mechanism = GammaDiagonal(truth.domain.binned(), 19)
    release = perturb_table(truth, mechanism, seeded(1), copies=2)
    again = read(release.to_arrow())
    assert again.provenance == Provenance(mechanism, secure=False, copies=2, shuffled=True)
    assert again.to_arrow().equals(release.to_arrow())
    assert (
        json.loads(release.to_arrow().schema.metadata[b"sfumato"])["mechanism"] == "gamma-diagonal"
    )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"format": 99}, "format 99"),
        ({"copies": 0}, "'copies' of this file's description should be a whole number from 1"),
        ({"secure": "yes"}, "'secure' of this file's description should be true or false"),
        ({"mechanism": "gama-diagonal"}, "did you mean 'gamma-diagonal'"),
    ],
)
def test_a_description_that_makes_no_sense(table, change, words):
    truth = table.recode(DOMAIN.project(["sex"]))
    release = perturb_table(truth, GammaDiagonal(truth.domain, 19), seeded(1))
    description = release.provenance.describe() | change
    frame = release.to_arrow().replace_schema_metadata({b"sfumato": json.dumps(description)})
    with pytest.raises(FileError, match=words):
        read(frame)


def test_whom_a_round_asks_does_not_hang_on_how_the_file_is_read(tmp_path) -> None:
    path, domain = tmp_path / "n.parquet", Domain((Numeric("n", 0, 999),))
    pq.write_table(pa.table({"n": np.arange(1000)}), path)
    reader, turn = reader_of(path), Round("0" * 32, 1)
    read = [
        np.concatenate([columns[0] for columns in turn.among(reader.batches(domain, rows))])
        for rows in (1000, 64)
    ]
    assert 300 < len(read[0]) < 500 and np.array_equal(*read)


@pytest.mark.parametrize("ages", [pandas.Series([1, 2]), polars.Series([1, 2])], ids=["pd", "pl"])
def test_one_column_without_a_table_is_told_as_one(ages):
    with pytest.raises(DataError, match=r"a Series is one column .* as in data\.to_frame\(\)"):
        read(ages)
