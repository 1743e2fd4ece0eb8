"""FIMI text: parsed by blocks, judged by a plain split of every line."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.bits import Bits
from sfumato.domain import Domain, Items
from sfumato.errors import DataError, FileError, SchemaError
from sfumato.table import reader_of
from sfumato.table.baskets import (
    BasketReader,
    basket_domain,
    encode_baskets,
    format_baskets,
    ids_of,
    iterate_baskets,
    parse_baskets,
    read_items,
)

ids = st.integers(0, 10**12)
baskets = st.lists(st.lists(ids, max_size=6), min_size=1, max_size=20)
blanks = st.sampled_from([" ", "  ", "\t", " \t "])


@given(baskets, blanks, st.booleans(), st.booleans())
def test_parsing_agrees_with_splitting_lines(rows, blank, windows, closed):
    newline = "\r\n" if windows else "\n"
    text = newline.join(blank.join(map(str, row)) for row in rows) + newline
    if not closed and rows[-1]:
        text = text.removesuffix(newline)
    assert parse_baskets(text.encode()).to_pylist() == rows


@given(baskets, st.integers(1, 40))
def test_blocks_of_any_size_give_the_same_baskets(rows, block_bytes):
    text = "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
    parts = list(iterate_baskets(io.BytesIO(text), "text", block_bytes))
    assert [row for part in parts for row in part.to_pylist()] == rows
    if held := sorted({item for row in rows for item in row}):
        assert BasketReader(text, "text").found == basket_domain(np.array(held))


@given(st.lists(st.sets(st.integers(0, 30), max_size=8), min_size=1, max_size=100))
@settings(max_examples=50)
def test_writing_and_reading_are_inverse(rows):
    names = pa.array([str(item) for item in range(31)])
    offsets = np.cumsum([0, *map(len, rows)])
    bits = Bits.from_csr(
        offsets, np.array([item for row in rows for item in sorted(row)], dtype=np.int32), 31
    )
    text = bytes(memoryview(format_baskets(names, bits)))
    batch = parse_baskets(text)
    assert batch.to_pylist() == [sorted(row) for row in rows]
    assert encode_baskets(batch, ids_of(basket_domain(np.arange(31))), 1).equals(bits)


@pytest.mark.parametrize("word", ["bread", "-3", "1.5", "7,8", "12345678901234567890", "é"])
def test_a_word_that_is_no_id_is_named_with_its_line(word):
    with pytest.raises(DataError, match=f"line 3 of 'b.dat': '{word}' is not an item id"):
        parse_baskets(f"1 2\n3\n4 {word} 5\n".encode(), where="'b.dat'")


def test_the_line_counts_over_blocks():
    text = b"1 2\n" * 100 + b"x\n"
    with pytest.raises(DataError, match="line 101"):
        list(iterate_baskets(io.BytesIO(text), "text", 16))


def test_an_item_outside_the_universe_is_named_with_its_line():
    universe = ids_of(basket_domain(np.array([1, 5])))
    with pytest.raises(
        DataError, match="line 11: item 9 is not in the universe of 2 items"
    ) as caught:
        encode_baskets(parse_baskets(b"1\n5 9\n"), universe, 10)
    assert "--items" in caught.value.hint


def test_items_that_are_words_are_no_fimi():
    from sfumato.domain import Domain, Items

    with pytest.raises(SchemaError, match="whole-number"):
        ids_of(Domain((Items("items", ("bread", "milk")),)))


def test_an_items_file(tmp_path):
    path = tmp_path / "items.txt"
    path.write_text("3 1\n2\n3\n")
    assert read_items(path).attributes[0].labels == ("1", "2", "3")
    path.write_text("\n")
    with pytest.raises(FileError, match="names no item"):
        read_items(path)
    with pytest.raises(FileError, match="no items file"):
        read_items(tmp_path / "none.txt")


def test_a_part_of_the_baskets_is_encoded_as_all_of_them_are():
    batch, universe = parse_baskets(b"1\n\n2 3\n4\n5\n"), ids_of(basket_domain(np.arange(1, 6)))
    parts = [encode_baskets(batch.slice(start, 2), universe, start + 1) for start in (0, 2, 4)]
    assert [part.rows for part in parts] == [2, 2, 1]
    assert Bits.concatenate(parts).equals(encode_baskets(batch, universe, 1))
    with pytest.raises(DataError, match="line 3: item 3 is not"):
        encode_baskets(batch.slice(2, 2), ids_of(basket_domain(np.array([1, 2, 4, 5]))), 3)


@pytest.mark.parametrize("labels", [("1", "tea"), ("tea", "1"), ("1", "٣"), ("1", "-2")])
def test_one_item_that_is_no_number_is_enough_to_refuse_a_basket_file(labels):
    with pytest.raises(SchemaError, match="whole-number item ids and nothing else"):
        ids_of(Domain((Items("items", labels),)))


@pytest.mark.parametrize(
    ("name", "line"), [("shop.dat", "1 2 3\n"), ("shop.csv", "tea,milk,jam\ntea\n")]
)
def test_the_first_pass_tells_how_far_it_has_come(tmp_path, name, line) -> None:
    path = tmp_path / name
    path.write_text(line * 300_000)
    reader, told = reader_of(path, form="lines" if name.endswith("csv") else None), []
    reader.tell = lambda words, share: told.append((words, share))
    assert reader.found.attributes[0].size == 3
    shares = [share for _, share in told]
    assert len(shares) > 1 and shares == sorted(shares) and 0 < shares[0] < shares[-1] <= 1
    assert all(name in words for words, _ in told)


def test_an_item_of_too_many_digits_is_refused_as_no_id():
    assert ids_of(basket_domain(np.array([10**17]))).to_pylist() == [10**17]
    with pytest.raises(SchemaError, match="whole-number item ids"):
        ids_of(Domain((Items("items", ("1", "9" * 19)),)))
