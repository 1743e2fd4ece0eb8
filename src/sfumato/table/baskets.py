"""FIMI text: one basket a line, whole-number item ids separated by blanks; parsed and written a
block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.domain import Domain, Items
from sfumato.errors import DataError, FileError, SchemaError
from sfumato.received import MOST_LABELS, MOST_LIST_BYTES, read_text

BLOCK_BYTES = 1 << 20  # text parsed at once
SMALL_IDS = 1 << 20  # up to which ids are marked, not sorted
MOST_LINE_BYTES = 1 << 21  # of one basket
MOST_DIGITS = 18  # of an item id, so that it fits 64 bits
ITEMS_NAME = "items"  # the attribute that baskets without a schema get

_NEWLINE, _ZERO = ord("\n"), ord("0")
_KINDS = np.full(256, 2, dtype=np.uint8)  # 0: blank, 1: digit, 2: anything else
_KINDS[list(b" \t\r\n\v\f")] = 0
_KINDS[list(b"0123456789")] = 1


@dataclass(frozen=True, eq=False)
class BasketBatch:
    """A run of baskets as compressed rows: basket b holds ids[offsets[b]:offsets[b + 1]]."""

    offsets: NDArray[np.int64]  # (baskets + 1,)
    ids: NDArray[np.int64]  # (total,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def split(self, most: int) -> Iterator[BasketBatch]:
        """The same baskets in runs of at most so many."""
        for start in range(0, len(self), most):
            offsets = self.offsets[start : start + most + 1]
            yield BasketBatch(offsets - offsets[0], self.ids[offsets[0] : offsets[-1]])


def parse_baskets(text: bytes, first_line: int = 1, where: str = "this text") -> BasketBatch:
    """The baskets of whole lines of text; an empty line is an empty basket.

    >>> batch = parse_baskets(b"3 10\\n\\n7\\n")
    >>> batch.offsets.tolist(), batch.ids.tolist()
    ([0, 2, 2, 3], [3, 10, 7])
    """
    octets = np.frombuffer(text, dtype=np.uint8)
    kinds = _KINDS[octets]
    if (kinds == 2).any():
        raise _not_an_id(text, int(np.argmax(kinds == 2)), first_line, where)
    starts, ends = _token_bounds(kinds == 1)
    if (ends - starts > MOST_DIGITS).any():
        raise _not_an_id(
            text, int(starts[np.argmax(ends - starts > MOST_DIGITS)]), first_line, where
        )
    begun = np.zeros(len(octets) + 1, dtype=np.int32)  # tokens, up to each octet
    begun[starts] = 1
    np.cumsum(begun, out=begun)
    line_ends = np.flatnonzero(octets == _NEWLINE)
    if len(text) and text[-1] != _NEWLINE:
        line_ends = np.append(line_ends, len(text))
    offsets = np.concatenate([[0], begun[line_ends]]).astype(np.int64)
    return BasketBatch(offsets, _numbers(octets, starts, ends))


def _token_bounds(digits: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each run of digits starts and ends."""
    padded = np.concatenate([[False], digits, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return edges[::2], edges[1::2]


def _numbers(
    octets: NDArray[np.uint8], starts: NDArray[np.intp], ends: NDArray[np.intp]
) -> NDArray[np.int64]:
    """The values of the runs of digits, summed place by place from the last digit."""
    values = np.zeros(len(starts), dtype=np.int64)
    lengths = ends - starts
    for place in range(int(lengths.max(initial=0))):
        long_enough = slice(None) if place == 0 else lengths > place
        values[long_enough] += (
            octets[ends[long_enough] - 1 - place].astype(np.int64) - _ZERO
        ) * 10**place
    return values


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
) -> Iterator[BasketBatch]:
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


def ids_in(batches: Iterator[BasketBatch]) -> NDArray[np.int64]:
    """Every item id that occurs, ascending; refused where they are more than a domain may have."""
    found = np.zeros(0, dtype=np.int64)
    for batch in batches:
        found = np.union1d(found, _distinct(batch.ids))
        if len(found) > MOST_LABELS:
            raise DataError(
                f"there are more than {MOST_LABELS:,} different items",
                hint="leave out those that few baskets hold",
            )
    return found


def _distinct(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each id once, ascending; small ones are marked in a row, which is quicker than sorting."""
    if not len(ids) or ids.max() > SMALL_IDS:
        return np.unique(ids)
    marked = np.zeros(int(ids.max()) + 1, dtype=bool)
    marked[ids] = True
    return np.flatnonzero(marked)


def no_items(where: str) -> FileError:
    """What is said of baskets none of which holds anything: of a wrong file, not of empty hands."""
    return FileError(
        f"no basket of {where} holds an item",
        hint="a line holds the items of one basket; an empty one is an empty basket",
    )


def basket_domain(ids: NDArray[np.int64], name: str = ITEMS_NAME) -> Domain:
    """The domain of baskets of these items."""
    return Domain((Items(name, tuple(map(str, ids.tolist()))),))


def read_items(path: str | Path, *, named: bool = False) -> Domain:
    """The universe of items that a file names: whole numbers separated by blanks or line ends; for
    baskets that name their items (`named`) a name a line.
    """
    text = read_text(Path(path), f"items file '{path}'", MOST_LIST_BYTES)
    if named:
        names = dict.fromkeys(word for line in text.splitlines() if (word := line.strip()))
        if names:
            return Domain((Items(ITEMS_NAME, tuple(names)),))
    ids = np.unique(parse_baskets(text.encode(), where=f"'{path}'").ids)
    if not len(ids):
        raise FileError(f"items file '{path}' names no item")
    return basket_domain(ids)


@dataclass(frozen=True, eq=False)
class Universe:
    """The look-up from item ids to the codes of an attribute."""

    ids: NDArray[np.int64]  # ascending
    codes: NDArray[np.int32]  # the code of each id
    size: int

    @classmethod
    def of(cls, domain: Domain) -> Universe:
        """The look-up for a domain of baskets, whose items must be whole numbers."""
        attribute = domain.attributes[0]
        if not domain.baskets or not all(
            value.isascii() and value.isdigit() for value in attribute.labels
        ):
            raise SchemaError(
                "a basket file (.dat) holds whole-number item ids and nothing else, and this "
                "domain is not of that kind",
                hint="use .parquet",
            )
        ids = np.array([int(value) for value in attribute.labels], dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        return cls(ids[order], order.astype(np.int32), len(ids))

    def encode(self, batch: BasketBatch, first_line: int) -> Bits:
        """The baskets as bits; an id that is not in the universe is an error naming its line."""
        places = np.searchsorted(self.ids, batch.ids).clip(max=self.size - 1)
        strange = self.ids[places] != batch.ids
        if strange.any():
            place = int(np.argmax(strange))
            line = first_line + int(np.searchsorted(batch.offsets, place, side="right")) - 1
            raise DataError(
                f"line {line}: item {batch.ids[place]} is not in the universe of {self.size} items",
                hint="name every item with --items FILE, or leave it out to take the ids found",
                line=line,
            )
        return Bits.from_csr(batch.offsets, self.codes[places], self.size)


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
