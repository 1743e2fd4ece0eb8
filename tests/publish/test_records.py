"""True records as a table: values keep their types, and go out as they came in."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import sfumato as sf
from sfumato.domain import Distinct
from sfumato.errors import DataError, FileError, ParameterError
from sfumato.publish.owned import cut, joined, records_of, replaced
from sfumato.table import save

OF_ALL_TYPES = pa.table(
    {
        "whole": pa.array([3, None, 3, 1], pa.int16()),
        "word": ["a, b", "", None, 'say "yes"'],
        "number": [0.1, 2.0, None, 1e300],
        "flag": [True, None, False, True],
        "day": [datetime.date(2024, 2, 29), None, None, datetime.date(1970, 1, 1)],
        "money": pa.array([Decimal("1.10"), Decimal("-3.00"), None, None]),
        "listed": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        "nothing": pa.nulls(4),
    }
)


def test_every_type_comes_back_as_it_was() -> None:
    assert records_of(OF_ALL_TYPES).to_arrow().equals(OF_ALL_TYPES)


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_files_hold_the_same_nulls_and_words(name: str, tmp_path: Path) -> None:
    """An empty word is quoted, so that it is not read back as a null."""
    save(records_of(OF_ALL_TYPES), tmp_path / name)
    again = records_of(tmp_path / name).to_arrow()
    assert again["word"].to_pylist() == OF_ALL_TYPES["word"].to_pylist()
    if name == "out.parquet":
        assert again.equals(OF_ALL_TYPES)
    else:
        told = [None if each is None else str(each) for each in OF_ALL_TYPES["day"].to_pylist()]
        assert again["day"].to_pylist() == told
        assert again["whole"].to_pylist() == ["3", None, "3", "1"]


def test_codes_ascend_and_do_not_depend_on_the_order_of_records() -> None:
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        records = records_of(OF_ALL_TYPES.take(pa.array(order)))
        assert records.domain["whole"].values == (1, 3, None)
        assert records.domain["word"].values == ("", "a, b", 'say "yes"', None)


def test_distinct_values_encode_what_they_hold_and_nothing_else() -> None:
    attribute, codes = Distinct.of("word", OF_ALL_TYPES["word"])
    assert attribute.encode(OF_ALL_TYPES["word"].combine_chunks()).tolist() == codes.tolist()
    with pytest.raises(DataError, match="row 8, column 'word' holds another value"):
        attribute.encode(pa.array(["", "b"]), first_row=7)


def test_columns_as_one_are_the_combinations_that_occur() -> None:
    records = records_of({"a": ["x", "y", "x"], "b": [2, 1, 2]})
    both, codes, parts = joined(records, ["a", "b"])
    assert (both.name, both.values) == ("a × b", (("x", 2), ("y", 1)))
    assert codes.tolist() == [0, 1, 0] and [part.tolist() for part in parts] == [[0, 1], [1, 0]]
    one, codes, (part,) = joined(records, ["b"])
    assert one == records.domain["b"] and part[codes].tolist() == [1, 0, 1]


def test_a_cut_column_goes_out_in_its_bins_and_the_others_stay() -> None:
    records = records_of({"age": [20, 30, None], "town": ["a", "b", "a"]})
    out = cut(records, {"age": "25"}).to_arrow()
    assert out["age"].to_pylist() == ["[20,25)", "[25,30]", None]
    assert out["town"].to_pylist() == ["a", "b", "a"]
    town, codes = records.domain["town"], np.array([1, 1, 1])
    assert isinstance(town, Distinct)
    assert replaced(records, {"town": (town, codes)}).to_arrow()["town"].to_pylist() == ["b"] * 3


def test_more_values_than_a_schema_lists_are_no_obstacle() -> None:
    who = [f"person {each}" for each in range(250_000)]
    assert records_of({"who": who}).to_arrow()["who"].to_pylist() == who


def test_records_are_not_written_as_baskets_nor_over_others(tmp_path: Path) -> None:
    how: dict[str, Any] = {"gamma": 19, "rng": sf.seeded(1)}
    release = sf.pram({"ill": ["no"] * 9 + ["yes"]}, "ill", **how)
    with pytest.raises(ParameterError, match="a name for baskets"):
        release.save(tmp_path / "out.dat")
    release.save(tmp_path / "out.csv")
    with pytest.raises(FileError, match="exists"):
        release.save(tmp_path / "out.csv")
    rows = [place + 1 for place in range(10) if release.changed[place]]
    assert release.revealed() == {"changed_rows": rows}
