"""Baskets as people have them: every form gives the baskets that a plain reading of it gives."""

from __future__ import annotations

import csv
import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.domain import Domain, Items
from sfumato.errors import DataError, FileError, ParameterError, SfumatoError
from sfumato.table import propose, read, read_items, read_names, reader_of

NAMES = ("whole milk", "bread, dark", "tea", 'the "best" jam', "Käse")
names = st.sampled_from(NAMES)
baskets = st.lists(st.lists(names, max_size=5), min_size=2, max_size=12)


def held(source, form: str | None = None) -> list[set[str]]:
    reader = reader_of(source, form)
    domain = propose(reader).domain
    labels = domain.attributes[0].labels
    flags = reader.table(domain).columns[0].to_dense()
    return [{labels[place] for place in np.flatnonzero(row)} for row in flags]


def written(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


@given(baskets)
@settings(max_examples=40, deadline=None)
def test_lines_of_names_are_read_as_the_csv_module_reads_them(tmp_path_factory, rows):
    if not any(rows):
        rows[0] = ["tea"]
    path = tmp_path_factory.mktemp("lines") / "baskets.csv"
    path.write_text(written(rows), encoding="utf-8")
    assert held(path, "lines") == [set(row) for row in rows]


def test_ragged_lines_are_told_from_records_and_the_note_says_so(tmp_path):
    path = tmp_path / "groceries.csv.gz"
    text = "citrus fruit,bread\nyogurt\nwhole milk, bread ,tea\nbread,tea,milk,jam\n"
    path.write_bytes(gzip.compress(text.encode()))
    proposal = propose(path)
    assert "baskets of 7 items" in proposal.notes[0] and "--form records" in proposal.notes[0]
    assert held(path)[2] == {"whole milk", "bread", "tea"}
    assert read(path).domain.baskets


def test_one_line_with_a_comma_too_many_is_still_a_mistake_in_records(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n30,F\n40,M,1\n50,F\n")
    with pytest.raises(FileError, match=r"line 3 .* has 3 fields"):
        read(path)


@given(st.lists(st.tuples(st.integers(0, 6), names), min_size=1, max_size=30), st.booleans())
@settings(max_examples=40, deadline=None)
def test_long_files_give_a_basket_a_number_in_order_of_appearance(tmp_path_factory, rows, parquet):
    expected: dict[int, set[str]] = {}
    for basket, item in rows:
        expected.setdefault(basket, set()).add(item)
    folder = tmp_path_factory.mktemp("long")
    if parquet:
        path = folder / "sales.parquet"
        columns = list(zip(*rows, strict=True))
        pq.write_table(pa.table({"Order ID": columns[0], "product": columns[1]}), path)
    else:
        path = folder / "sales.csv"
        path.write_text("tid,item\n" + written([[str(a), b] for a, b in rows]), encoding="utf-8")
    assert held(path) == list(expected.values())


def test_items_of_a_long_file_stand_by_number_then_by_name(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text("tid,item\n1,tea\n1,10\n2,9\n2,Bread\n3,2\n")
    assert read(path).domain.attributes[0].labels == ("2", "9", "10", "Bread", "tea")


def test_flags_are_items_whatever_way_they_say_yes(tmp_path):
    flags = np.random.default_rng(4).random((20, 4)) < 0.4
    expected = [{f"i{place}" for place in np.flatnonzero(row)} for row in flags]
    frame = {f"i{place}": flags[:, place] for place in range(4)}
    assert held(pa.table(frame)) == expected
    assert held(pa.table({name: column.astype(int) for name, column in frame.items()})) == expected
    for yes, no in (("1", "0"), ("True", "False"), ("true", "false")):
        path = tmp_path / f"{yes}.csv"
        words = np.where(flags, yes, no).tolist()
        path.write_text(written([list(frame), *words]))
        assert held(path) == expected
    pq.write_table(pa.table(frame), tmp_path / "flags.parquet")
    assert held(tmp_path / "flags.parquet") == expected


def test_flags_are_mined_without_their_falses(tmp_path):
    from sfumato.mine.itemsets import frequent_itemsets
    from sfumato.release import Exact

    frame = pa.table({"tea": [True, True], "milk": [True, False], "jam": [False, False]})
    found = frequent_itemsets(Exact(read(frame)), 0.5)
    assert set(found.items) == {("tea",), ("milk",), ("tea", "milk")}


def test_two_columns_of_flags_are_records_and_three_may_be():
    assert not propose(pa.table({"a": [0, 1], "b": [1, 0]})).domain.baskets
    three = pa.table({"a": [0, 1], "b": [1, 0], "c": [1, 1]})
    assert propose(three).domain.baskets
    assert not propose(reader_of(three, "records")).domain.baskets


def test_parquet_lists_of_names(tmp_path):
    pq.write_table(pa.table({"items": [["tea", "jam"], [], ["tea"]]}), tmp_path / "b.parquet")
    assert held(tmp_path / "b.parquet") == [{"tea", "jam"}, set(), {"tea"}]


def test_a_universe_of_names_takes_items_that_nobody_holds(tmp_path):
    (tmp_path / "items.txt").write_text("tea\nwhole milk\n\nbread\n")
    assert read_items(tmp_path / "items.txt", named=True) == Domain(
        (Items("items", ("tea", "whole milk", "bread")),)
    )


BAD = {
    "item outside": ("a,b\nc\nd,e,f\n", "lines", "row 2: item 'c' is not in the universe"),
    "item outside, long": ("tid,item\n1,a\n2,c\n", "long", "row 2: item 'c' is not in"),
    "open quote": ('a,b\n"c\n' + "x" * 140_000, "lines", "is not readable|not in the universe"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_baskets_are_refused_in_one_line(tmp_path, case):
    text, form, message = BAD[case]
    (tmp_path / "b.csv").write_text(text)
    domain = Domain((Items("items", ("a", "b")),))
    with pytest.raises(SfumatoError, match=message):
        reader_of(tmp_path / "b.csv", form).table(domain)


def test_forms_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "b.csv").write_text("x,y,z\n1,2,3\n")
    (tmp_path / "b.dat").write_text("1 2\n")
    with pytest.raises(FileError, match="not clear"):
        reader_of(tmp_path / "b.csv", "long")
    with pytest.raises(DataError, match="holds more than yes and no"):
        propose(reader_of(tmp_path / "b.csv", "flags"))
    with pytest.raises(ParameterError, match="basket file of item ids already"):
        reader_of(tmp_path / "b.dat", "lines")
    with pytest.raises(ParameterError, match="did you mean 'lines'"):
        reader_of(tmp_path / "b.csv", "line")
    with pytest.raises(DataError, match="column 'item' is empty"):
        read(pa.table({"tid": [1, 2], "item": ["a", None]}))
    (tmp_path / "empty.csv").write_text(",,\n,\n,,,\n")
    with pytest.raises(FileError, match="holds an item"):
        propose(reader_of(tmp_path / "empty.csv", "lines"))


def test_names_are_read_with_or_without_a_header_and_told_apart(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text('id,name\n24,"milk, whole"\n25,tea\n26,tea\n')
    assert read_names(path) == {"24": "milk, whole", "25": "tea (25)", "26": "tea (26)"}
    path.write_text("24\tmilk\n25\ttea\n")
    assert read_names(path) == {"24": "milk", "25": "tea"}
    for text, message in (
        ("24\n", "line 1 .* no id and name"),
        ("24,a\n24,b\n", "calls item 24 both 'a' and 'b'"),
        ("id,name\n", "names no item"),
    ):
        path.write_text(text)
        with pytest.raises(FileError, match=message):
            read_names(path)


words = st.text("ab;,|\t\"' é", min_size=1, max_size=5)
cells = st.lists(st.tuples(words, words, words), min_size=2, max_size=8)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
@given(rows=cells)
@settings(max_examples=40, deadline=None)
def test_records_are_the_same_whatever_separates_them(tmp_path_factory, mark, rows):
    """Against the csv module; a field that holds the mark stands in quotes."""
    path = tmp_path_factory.mktemp("marks") / "people.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=mark)
        writer.writerows([("one", "two", "the third"), *rows])
    reader = reader_of(path, "records")
    assert reader.names == ["one", "two", "the third"]
    found = [row for batch in reader.arrow_batches(reader.names) for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in found] == rows


def test_a_comma_before_decimals_is_read_where_a_semicolon_separates(tmp_path):
    path = tmp_path / "wages.csv"
    path.write_text("wage;town;code\n1,5;Bonn, Rhein;1,2\n20;Ulm;x\n-3,25;Ulm;7\n")
    (batch,) = reader_of(path).arrow_batches(["wage", "town", "code"])
    assert batch.column("wage").to_pylist() == ["1.5", "20", "-3.25"]
    assert batch.column("town").to_pylist() == ["Bonn, Rhein", "Ulm", "Ulm"]
    assert batch.column("code").to_pylist() == ["1,2", "x", "7"]


def test_a_thousand_is_no_decimal_where_tabs_separate(tmp_path):
    path = tmp_path / "wages.csv"
    path.write_text("wage\ttown\n1,500\tUlm\n2,500\tUlm\n")
    (batch,) = reader_of(path).arrow_batches(["wage"])
    assert batch.column("wage").to_pylist() == ["1,500", "2,500"]


def test_lines_of_names_may_be_separated_by_semicolons(tmp_path):
    path = tmp_path / "groceries.csv"
    path.write_text("tea\nbread, dark;tea;jam\ntea;jam\nmilk;jam;tea;egg\n")
    assert held(path, "lines")[1] == {"bread, dark", "tea", "jam"}


def test_a_field_too_many_says_what_separates(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("a;b\n" + "1;2\n" * 5 + "1;2;3\n")
    with pytest.raises(FileError, match=r"3 fields where the header has 2.*holds a semicolon"):
        read(path)
