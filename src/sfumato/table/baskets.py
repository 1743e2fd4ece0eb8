"""Baskets: FIMI files (a basket a line, whole-number item ids separated by blanks), lines that name
their items, tables in long form (a row an item), and files that name the items of either.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.domain import Columns, Domain, Items, as_bits
from sfumato.domain.attributes import as_words, places_among
from sfumato.errors import DataError, FileError, ParameterError, SchemaError, listing
from sfumato.table.delimited import CsvReader, TextReader, delimiter_of, fields_of
from sfumato.table.limits import (
    BATCH_ROWS,
    BLOCK_BYTES,
    MOST_DIGITS,
    MOST_LINE_BYTES,
    SMALL_TEXT,
    check_held,
)
from sfumato.table.readers import ITEMS_NAME, BasketsReader, Reader, RecordReader, Writer, items_of
from sfumato.table.table import Table
from sfumato.untrusted import MOST_LIST_BYTES, MOST_NAMES_BYTES, read_text

ITEM_ID = re.compile(f"[0-9]{{1,{MOST_DIGITS}}}")
MANY_ITEMS = 20_000  # a line of two bytes may then take more than a thousand times as many
NAMES_HEADERS = ("id", "item", "itemid", "item_id", "item id", "code", "sku", "product_id")
# How people call the two columns of a long table, in small letters, without blanks or dashes.
BASKET_COLUMN = re.compile("tid|(transaction|basket|order|receipt|cart)(id)?|invoice(no)?")
ITEM_COLUMN = re.compile(
    "item(s|id|name|description)?|product(id|name)?|article|sku|stockcode|description"
)

_KINDS = np.full(256, 2, dtype=np.uint8)  # 0: blank, 1: digit, 2: anything else
_KINDS[list(b" \t\r\n\v\f")] = 0
_KINDS[list(b"0123456789")] = 1


def parse_baskets(text: bytes, first_line: int = 1, where: str = "this text") -> pa.ListArray:
    """The item ids of whole lines of text, a list each; an empty line is an empty basket.

    >>> parse_baskets(b"3 10\\n\\n7\\n").to_pylist()
    [[3, 10], [], [7]]
    """
    octets = np.frombuffer(text, dtype=np.uint8)
    kinds = _KINDS[octets]
    padded = np.concatenate([[False], kinds == 1, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    starts, ends = edges[::2], edges[1::2]  # of the runs of digits
    wrong = np.concatenate([np.flatnonzero(kinds == 2), starts[ends - starts > MOST_DIGITS]])
    if len(wrong):
        raise _not_an_id(text, int(wrong[0]), first_line, where)
    line_ends = np.flatnonzero(octets == ord("\n"))
    if len(text) and text[-1:] != b"\n":
        line_ends = np.append(line_ends, len(text))
    offsets = np.concatenate([[0], np.searchsorted(starts, line_ends)]).astype(np.int32)
    ids = np.fromstring(text, np.int64, sep=" ") if len(starts) else starts
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids, pa.int64()))


def _not_an_id(text: bytes, place: int, first_line: int, where: str) -> DataError:
    line = first_line + text.count(b"\n", 0, place)
    before = max(text.rfind(blank, 0, place) for blank in (b" ", b"\t", b"\n", b"\r"))
    word = text[before + 1 :].split(None, 1)[0].decode("utf-8", "replace")
    shown = word if len(word) <= 40 else word[:40] + "…"
    return DataError(
        f"line {line} of {where}: '{shown}' is not an item id",
        hint="a basket file holds whole numbers separated by blanks, one basket a line",
        line=line,
    )


def iterate_baskets(
    stream: BinaryIO, where: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[pa.ListArray]:
    """The baskets of a stream, a block of whole lines at a time."""
    rest, first_line = b"", 1
    while block := stream.read(block_bytes):
        text, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            batch = parse_baskets(text + newline, first_line, where)
            first_line += len(batch)
            yield batch
        if len(rest) > MOST_LINE_BYTES:
            raise FileError(
                f"line {first_line} of {where} does not end within {MOST_LINE_BYTES >> 20} MB",
                hint="a basket file has one basket of item ids a line",
            )
    if rest:
        yield parse_baskets(rest, first_line, where)


def ids_of(domain: Domain) -> pa.Array:
    """The ids of a domain of baskets, in the places of their codes; they must be whole numbers."""
    labels = domain.attributes[0].labels
    if not domain.baskets or not all(map(ITEM_ID.fullmatch, labels)):
        raise SchemaError(
            "a basket file (.dat) holds whole-number item ids and nothing else, and this "
            "domain is not of that kind",
            hint="use .parquet",
        )
    return pa.array(map(int, labels), pa.int64())


def encode_baskets(baskets: pa.ListArray, ids: pa.Array, first_line: int) -> Bits:
    """Baskets as bits; an id that is none of the universe's is an error naming its line."""
    offsets, held = baskets.offsets.to_numpy(), baskets.flatten()
    offsets = (offsets - offsets[0]).astype(np.int64)
    codes = places_among(held, ids)
    if (codes < 0).any():
        place = int(np.argmax(codes < 0))
        line = first_line + int(np.searchsorted(offsets, place, side="right")) - 1
        raise DataError(
            f"line {line}: item {held[place]} is not in the universe of {len(ids)} items",
            hint="name every item with --items FILE, or leave it out to take the ids found",
            line=line,
        )
    return Bits.from_csr(offsets, codes, len(ids))


def format_baskets(names: pa.Array, bits: Bits) -> Any:
    """The FIMI text of these baskets, a line each."""
    offsets, items = bits.to_csr()
    if not len(items):
        return b"\n" * bits.rows
    lists = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), names.take(pa.array(items))
    )
    lines = pc.binary_join(lists, " ")
    return pc.binary_join_element_wise(lines, pa.scalar("\n"), "").buffers()[2]


@dataclass(eq=False)
class BasketReader(BasketsReader, TextReader):
    """A FIMI file of baskets."""

    def items(self) -> Iterator[list[int]]:
        with self.opened() as stream:
            for block in iterate_baskets(stream, self.where):
                yield pc.unique(block.flatten()).to_pylist()

    def table(self, domain: Domain) -> Table:
        size = domain.attributes[0].size
        if size > MANY_ITEMS:  # then a short line may take much: looked at before any is packed
            with self.opened() as stream:
                parts = iter(lambda: stream.read(SMALL_TEXT), b"")
                lines = sum(part.count(b"\n") for part in parts)
            check_held(lines * size // 8, self.size, self.where)
        return super().table(domain)

    def encoded(self, domain: Domain, most: int) -> Iterator[Bits]:
        ids, row = ids_of(domain), 1
        with self.opened() as stream:
            for block in iterate_baskets(stream, self.where):
                for start in range(0, len(block), most):
                    batch = block.slice(start, most)
                    yield encode_baskets(batch, ids, row)
                    row += len(batch)


@dataclass(eq=False)
class BasketWriter(Writer):
    """FIMI: one basket a line."""

    def __post_init__(self) -> None:
        ids_of(self.domain)  # refuses what FIMI cannot hold
        self._names = pa.array(self.domain.attributes[0].labels, pa.string())

    def _append(self, columns: Columns) -> None:
        (baskets,) = columns
        self.stream.write(format_baskets(self._names, as_bits(baskets)))


@dataclass(eq=False)
class LineReader(BasketsReader, TextReader):
    """Baskets whose lines name their items, separated by commas, semicolons, tabs or bars; an empty
    line is an empty basket.
    """

    @property
    def way(self) -> str:
        return "the items of one basket a line"

    @staticmethod
    def recognises(reader: Reader) -> bool:
        """Whether most lines have another number of fields than the first: no header of records."""
        if not isinstance(reader, CsvReader):
            return False
        fields = [len(row) for row in fields_of(reader.head(), reader.delimiter)]
        return len(fields) > 1 and 2 * fields.count(fields[0]) < len(fields)

    @classmethod
    def of(cls, reader: Reader) -> LineReader:
        """The baskets in the lines of a text file."""
        if not isinstance(reader, CsvReader):
            raise ParameterError(f"lines of names are text, and {reader.where} is not")
        return cls(reader.path, reader.where)

    def items(self) -> Iterator[set[str]]:
        for baskets in self._baskets(BATCH_ROWS):
            yield set().union(*baskets)

    def encoded(self, domain: Domain, most: int) -> Iterator[Bits]:
        items, row = items_of(domain, self.where), 1
        for baskets in self._baskets(most):
            yield items.encode(pa.array(baskets, pa.list_(pa.string())), row)
            row += len(baskets)

    def _baskets(self, most: int) -> Iterator[list[list[str]]]:
        """The names in each line, so many lines at a time."""
        # By a look at the head, which must not come between; of all lines, since none is a header.
        delimiter = delimiter_of(self.head(), lines=None)
        with self.opened() as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            lines = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
            try:
                while part := list(islice(lines, most)):
                    yield [
                        sorted({name for field in row if (name := field.strip())}) for row in part
                    ]
            except csv.Error as error:
                raise FileError(
                    f"line {lines.line_num} of {self.where} is not readable: {error}",
                    hint="is a quote left open?",
                ) from None
            finally:
                text.detach()


def long_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns that name the basket and the item, where their names say so.

    >>> long_columns(["Transaction ID", "item"])
    ('Transaction ID', 'item')
    """
    plain = {name: "".join(filter(str.isalnum, name.casefold())) for name in names}
    basket = [name for name in names if BASKET_COLUMN.fullmatch(plain[name])]
    item = [name for name in names if ITEM_COLUMN.fullmatch(plain[name])]
    return (basket[0], item[0]) if len(basket) == len(item) == 1 else None


@dataclass(eq=False)
class LongReader(BasketsReader):
    """Baskets of a table with a row an item; rows of one basket may stand anywhere, so all are held
    in memory, eight bytes each.
    """

    inner: RecordReader
    basket: str
    item: str

    def __post_init__(self) -> None:
        self.where = self.inner.where

    @staticmethod
    def recognises(reader: Reader) -> bool:
        """Whether there are two columns, and they are called like a basket and an item."""
        if not isinstance(reader, RecordReader):
            return False
        return len(reader.columns) == 2 and long_columns(reader.columns) is not None

    @classmethod
    def of(cls, reader: Reader) -> Reader:
        """The baskets of a table whose two columns are, or are called, the basket and the item."""
        if not isinstance(reader, RecordReader):
            return reader
        names = reader.columns
        found = long_columns(names) or (tuple(names) if len(names) == 2 else None)
        if found is None:
            raise FileError(
                f"{reader.where} has the columns {listing(names)}; which of them name the basket "
                "and the item is not clear",
                hint="keep two columns, as in tid,item",
            )
        return cls(reader, *found)

    @property
    def way(self) -> str:
        return f"an item a row, its basket in column '{self.basket}'"

    @property
    def description(self) -> Mapping[str, Any] | None:
        return self.inner.description

    @property
    def size(self) -> int | None:
        return self.inner.size

    @cached_property
    def _rows(self) -> tuple[NDArray[Any], NDArray[Any], pa.Array]:
        """The number of the basket and of the item of each row, and the names of the items; baskets
        are numbered as they first appear.
        """
        columns: list[pa.ChunkedArray] = []
        batches = list(self.inner.arrow_batches([self.basket, self.item]))
        for place, name in enumerate((self.basket, self.item)):
            words = pa.chunked_array(
                [pc.utf8_trim_whitespace(as_words(batch.column(place))) for batch in batches],
                pa.string(),
            )
            if words.null_count:
                row = int(np.argmax(words.is_null().to_numpy())) + 1
                raise DataError(
                    f"row {row}, column '{name}' is empty", hint="give each row both", row=row
                )
            columns.append(words.dictionary_encode().unify_dictionaries().combine_chunks())
        if not batches or not len(columns[0]):
            raise DataError(f"{self.where} has no rows")
        baskets, items = (column.indices.to_numpy(zero_copy_only=False) for column in columns)
        return baskets, items, columns[1].dictionary

    def items(self) -> Iterator[list[str]]:
        yield self._rows[2].to_pylist()

    @staticmethod
    def sort_key(item: str) -> tuple[int, int, str]:
        """Ids by size, then names by letter."""
        return (0, int(item), item) if ITEM_ID.fullmatch(item) else (1, 0, item)

    def encoded(self, domain: Domain, most: int) -> Iterator[Bits]:
        attribute = items_of(domain, self.where)
        baskets, items, names = self._rows
        known = places_among(names, pa.array(attribute.values, pa.string()))
        codes = known[items].astype(np.int32)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            raise DataError(
                f"row {row + 1}: item '{names[int(items[row])].as_py()}' is not in the universe of "
                f"{attribute.size} items",
                hint="name every item with --items FILE, or leave it out to take those found",
                row=row + 1,
            )
        order = np.argsort(baskets, kind="stable")
        people = int(baskets.max()) + 1
        offsets = np.searchsorted(baskets[order], np.arange(people + 1))
        for start in range(0, people, most):
            part = offsets[start : start + most + 1]
            chosen = codes[order[part[0] : part[-1]]]
            yield Bits.from_csr(part - part[0], chosen, attribute.size)


def basket_domain(ids: NDArray[np.int64]) -> Domain:
    """The domain of baskets of these items."""
    return Domain((Items(ITEMS_NAME, tuple(map(str, ids.tolist()))),))


def read_items(path: str | Path, *, named: bool = False) -> Domain:
    """The universe of items that a file names: whole numbers separated by blanks or line ends; for
    baskets that name their items (`named`) a name a line.
    """
    text = read_text(Path(path), f"items file '{path}'", MOST_LIST_BYTES)
    if named:
        names = dict.fromkeys(word for line in text.splitlines() if (word := line.strip()))
        if names:
            return Domain((Items(ITEMS_NAME, tuple(names)),))
    ids = np.unique(parse_baskets(text.encode(), where=f"'{path}'").flatten())
    if not len(ids):
        raise FileError(f"items file '{path}' names no item")
    return basket_domain(ids)


def read_names(path: str | Path) -> dict[str, str]:
    """What each item is called, by its id: a line each, id and name separated by a comma or a tab.

    A name that several ids share is told apart by its id.
    """
    text = read_text(Path(path), f"names file '{path}'", MOST_NAMES_BYTES)
    first = text.partition("\n")[0]
    delimiter = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    found: dict[str, str] = {}
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text), delimiter=delimiter), 1):
            if not row or (number == 1 and row[0].strip().casefold() in NAMES_HEADERS):
                continue
            item, name = (field.strip() for field in (*row, "")[:2])
            if not item or not name:
                raise FileError(
                    f"line {number} of names file '{path}' has no id and name",
                    hint="a line each, as in 24,milk",
                )
            if found.setdefault(item, name) != name:
                raise FileError(
                    f"names file '{path}' calls item {item} both '{found[item]}' and '{name}'"
                )
    except csv.Error as error:
        raise FileError(f"names file '{path}' is not readable: {error}") from None
    if not found:
        raise FileError(f"names file '{path}' names no item", hint="a line each, as in 24,milk")
    times = Counter(found.values())
    return {item: name if times[name] == 1 else f"{name} ({item})" for item, name in found.items()}


def check_named(option: str, domain: Domain, called: Mapping[str, str]) -> tuple[int, int]:
    """How many items have no name, of how many; refused where none has one."""
    if not domain.baskets:
        raise ParameterError(f"{option} is for the items of baskets", hint="leave it out")
    items = domain.attributes[0].labels
    unnamed = sum(item not in called for item in items)
    if unnamed == len(items):
        raise ParameterError(
            f"{option} calls none of these items ({listing(items)}) by name",
            hint="a line each, the item's id first, as in 24,milk",
        )
    return unnamed, len(items)
