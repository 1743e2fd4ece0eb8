"""Shuffling: rows that go in one order and come out in a uniformly random one, in memory that does
not grow with them; and the file of that order, the owner's secret, which says which record of the
truth each report came from.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import WORD_BITS, Bits
from sfumato.domain import Attribute, Codes, Columns, Domain, Items, code_dtype
from sfumato.errors import FileError, first_line
from sfumato.files import appearing, in_the_way
from sfumato.mechanisms.base import rows_of
from sfumato.randomness import Keystream
from sfumato.table.limits import HELD_BYTES
from sfumato.untrusted import check_file

BUCKETS = 256  # a bucket is chosen by a random byte
KEY_BYTES = 24  # a row's sort key, its place, and the work on them
SORTED_ROWS = 1 << 20  # rows put in order by one sort; among more, equal sort keys are too common
TURNED_OCTETS = (
    1 << 19
)  # bits turned from columns into rows at once, in bytes: the cache holds them
NUMBER = "number"  # the field that holds a record's place in the truth


def permutation(rng: Keystream, count: int) -> NDArray[np.int64]:
    """A uniformly random order of 0..count-1.

    Many rows are thrown into buckets at random, and each bucket is put in random order: together
    that is a uniformly random order of all (Rao 1961, Sandelius 1962).
    """
    if count <= SORTED_ROWS:
        return _sorted_by_chance(rng, count)
    order, ends = _thrown(rng, count)
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        if end - start > 1:
            bucket = order[start:end]
            order[start:end] = bucket[permutation(rng, end - start)]
    return order


def _sorted_by_chance(rng: Keystream, count: int) -> NDArray[np.int64]:
    """An order by random sort keys, all of them drawn again should two be equal.

    A key's low bits hold the row, so that one plain sort gives the order: twice as fast as argsort.
    """
    low = np.uint64(max(count - 1, 1).bit_length())
    while True:
        keys = rng.words(count)
        keys >>= low
        keys <<= low
        keys |= np.arange(count, dtype=np.uint64)
        keys.sort()
        if not bool(((keys[1:] ^ keys[:-1]) >> low == 0).any()):
            keys &= np.uint64((1 << int(low)) - 1)
            return keys.view(np.int64)


def _thrown(rng: Keystream, count: int) -> tuple[NDArray[np.int64], list[int]]:
    """The rows in the order of their random buckets, and where each bucket ends."""
    bucket = np.empty(count, dtype=np.uint8)
    rng.fill(bucket)
    ends = np.cumsum(np.bincount(bucket, minlength=BUCKETS))
    return np.argsort(bucket, kind="stable").astype(np.int64, copy=False), ends.tolist()


@dataclass(frozen=True, eq=False)
class RowForm:
    """How the reports of one record lie side by side in memory, so that a record moves as one
    piece.
    """

    reports: Domain
    copies: int = 1
    numbered: bool = False  # whether a record's place in the truth travels with it

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of a record with all its reports."""
        fields = [
            self._field(str(place), attribute) for place, attribute in enumerate(self.reports)
        ]
        return np.dtype([*fields, (NUMBER, np.int64)] if self.numbered else fields)

    def _field(self, name: str, attribute: Attribute) -> tuple[Any, ...]:
        if isinstance(attribute, Items):
            return name, np.uint8, (self.copies, -(-attribute.size // 8))
        return name, code_dtype(attribute.size), (self.copies,)

    def pack(self, columns: Columns, first: int) -> NDArray[Any]:
        """Reports as records; `first` is the place of the first of them in the truth."""
        count = rows_of(columns) // self.copies
        rows = np.empty(count, dtype=self.dtype)
        for place, column in enumerate(columns):
            held = octets_of(column) if isinstance(column, Bits) else column
            rows[str(place)] = held.reshape(count, self.copies, *held.shape[1:])
        if self.numbered:
            rows[NUMBER] = np.arange(first, first + count)
        return rows

    def unpack(self, rows: NDArray[Any]) -> Columns:
        """Records as columns of reports."""
        return tuple(
            self._column(attribute, rows[str(place)])
            for place, attribute in enumerate(self.reports)
        )

    def _column(self, attribute: Attribute, held: NDArray[Any]) -> Codes | Bits:
        flat = np.ascontiguousarray(held).reshape(-1, *held.shape[2:])
        return bits_of(flat, attribute.size) if flat.ndim > 1 else flat

    def numbers(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The place in the truth behind each report of these records."""
        return np.repeat(np.ascontiguousarray(rows[NUMBER]), self.copies)


def octets_of(bits: Bits) -> NDArray[np.uint8]:  # (rows, ceil(items / 8))
    """The baskets row by row, eight items a byte."""
    groups = -(-bits.items // 8)
    result = np.empty((bits.words.shape[1] * WORD_BITS, groups), dtype=np.uint8)
    step = max(TURNED_OCTETS // (8 * max(bits.items, 1)), 1)
    for first in range(0, bits.words.shape[1], step):
        words = bits.words[:, first : first + step]
        columns = np.zeros((groups * 8, words.shape[1] * 8), dtype=np.uint8)
        columns[: bits.items] = np.ascontiguousarray(words).view(np.uint8)
        squares = columns.reshape(groups, 8, -1).transpose(2, 0, 1)
        start = first * WORD_BITS
        result[start : start + columns.shape[1] * 8] = (
            _turned(squares).transpose(0, 2, 1).reshape(-1, groups)
        )
    return result[: bits.rows]


def bits_of(octets: NDArray[np.uint8], items: int) -> Bits:
    """The baskets that rows of eight items a byte hold."""
    rows, groups = octets.shape
    words = np.zeros((items, -(-rows // WORD_BITS)), dtype=np.uint64)
    step = max(TURNED_OCTETS // (8 * max(groups * 8, 1)), 1)
    for first in range(0, words.shape[1], step):
        part = octets[first * WORD_BITS : (first + step) * WORD_BITS]
        padded = np.zeros((-(-len(part) // WORD_BITS) * WORD_BITS, groups), dtype=np.uint8)
        padded[: len(part)] = part
        squares = padded.reshape(-1, 8, groups).transpose(0, 2, 1)
        columns = np.ascontiguousarray(_turned(squares).transpose(1, 2, 0)).reshape(groups * 8, -1)
        words[:, first : first + step] = columns[:items].view(np.uint64)
    return Bits(words, rows)


def _turned(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:  # (…, 8)
    """Squares of 8 × 8 bits, a row a byte, with rows and columns exchanged (Warren, Hacker's
    Delight, 7-3).
    """
    square = np.ascontiguousarray(squares).view(np.uint64)
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0xF0F0F0F0)):
        moved = (square ^ (square >> np.uint64(shift))) & np.uint64(mask)
        square = square ^ moved ^ (moved << np.uint64(shift))
    return square.view(np.uint8)


@dataclass(eq=False)
class Shuffle:
    """Rows that come out in a uniformly random order once all of them are in.

    What does not fit in memory is thrown into buckets, which stand in a temporary file that has no
    name, so that no kill leaves it behind; each bucket is then put in order on its own.
    """

    rng: Keystream
    dtype: np.dtype[Any]
    folder: Path | None = None  # where there is room for as much as goes in
    _held: list[NDArray[np.uint8]] = field(default_factory=list, init=False)
    _held_rows: int = field(default=0, init=False)
    _written: int = field(default=0, init=False)  # rows in the file
    _runs: list[tuple[int, NDArray[np.uint32]]] = field(default_factory=list, init=False)

    def add(self, rows: NDArray[Any]) -> None:
        """Put rows in."""
        self._held.append(rows.view(np.uint8))  # bytes are joined faster than fields
        self._held_rows += len(rows)
        if self._held_rows > self._most(HELD_BYTES // 4 if self._runs else HELD_BYTES):
            self._throw()

    def _most(self, octets: int) -> int:
        """How many rows fit in so many bytes of memory."""
        return max(octets // (self.dtype.itemsize + KEY_BYTES), 1)

    @cached_property
    def _file(self) -> BinaryIO:
        return tempfile.TemporaryFile(dir=self.folder)

    def _throw(self) -> None:
        """Write the rows held, bucket after bucket, behind those written before."""
        held, most = self._joined(), self._most(HELD_BYTES // 4)
        for rows in (held[start : start + most] for start in range(0, len(held), most)):
            order, ends = _thrown(self.rng, len(rows))
            self._runs.append((self._written, np.array([0, *ends], dtype=np.uint32)))
            self._written += len(rows)
            self._file.write(rows.take(order).view(np.uint8).data)

    def _joined(self) -> NDArray[Any]:
        rows = np.concatenate([np.empty(0, dtype=np.uint8), *self._held]).view(self.dtype)
        self._held.clear()
        self._held_rows = 0
        return rows

    def batches(self, most: int) -> Iterator[NDArray[Any]]:
        """Take the rows out, at most so many at once."""
        if not self._runs:
            yield from self._ordered(self._joined(), most)
            return
        if self._held:
            self._throw()
        with self._file:
            for first, last in self._groups():
                yield from self._shuffled(first, last, most)

    def _ordered(self, rows: NDArray[Any], most: int) -> Iterator[NDArray[Any]]:
        order = permutation(self.rng, len(rows))
        for start in range(0, len(rows), most):
            yield rows.take(order[start : start + most])

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Runs of neighbouring buckets that are put in order together."""
        rows = np.zeros(BUCKETS, dtype=np.int64)
        for _, ends in self._runs:
            rows += np.diff(ends)
        first, size, most = 0, 0, self._most(HELD_BYTES // 2)
        for bucket, more in enumerate(rows.tolist()):
            if bucket > first and size + more > most:
                yield first, bucket
                first, size = bucket, 0
            size += more
        yield first, BUCKETS

    def _shuffled(self, first: int, last: int, most: int) -> Iterator[NDArray[Any]]:
        inner = Shuffle(self.rng, self.dtype, self.folder)
        for start, ends in self._runs:
            inner.add(self._read(start + int(ends[first]), int(ends[last] - ends[first])))
        yield from inner.batches(most)

    def _read(self, start: int, count: int) -> NDArray[Any]:
        rows = np.empty(count, dtype=self.dtype)
        self._file.seek(start * self.dtype.itemsize)
        # A temporary file is buffered, and reads into memory that is there.
        self._file.readinto(rows.view(np.uint8).data)  # type: ignore[attr-defined]
        return rows


@contextmanager
def order_to(
    path: str | Path, reports: int, *, force: bool = False
) -> Iterator[Callable[[NDArray[Any]], object]]:
    """What takes the order of so many reports, a batch at a time; the file, which only the owner
    may read, appears when the block ends well.

    It is NumPy's .npy, 64-bit integers: order[i] is the row of the truth (from 0) that report i
    came from. The reports of one record stand side by side, so where a record made several, its row
    is repeated as often.
    """
    head = {"descr": "<i8", "fortran_order": False, "shape": (reports,)}
    try:
        with appearing(Path(path), force=force, mode=0o600) as stream:
            np.lib.format.write_array_header_1_0(stream, head)
            yield lambda order: stream.write(np.ascontiguousarray(order, "<i8").data)
    except FileExistsError:
        raise in_the_way(Path(path)) from None


def read_order(path: str | Path, reports: int, copies: int = 1) -> NDArray[np.int64]:
    """The row of the truth behind each record of a release, checked to be an order of all of them:
    truth.take(order) stands beside the release, one record for `copies` reports.
    """
    found = _stored(path)
    if found.dtype != np.dtype("<i8") or found.ndim != 1:
        raise FileError(
            f"'{path}' holds {found.dtype} of shape {found.shape}, not an order",
            hint="an order is one row of 64-bit whole numbers, as perturb --order writes it",
        )
    if len(found) != reports or reports % copies:
        raise FileError(
            f"'{path}' orders {len(found):,} reports, but the release has {reports:,}",
            hint="give the order that was written with this very release",
        )
    runs = found.reshape(-1, copies)
    order = np.ascontiguousarray(runs[:, 0])
    seen = np.zeros(len(order), dtype=bool)
    seen[order[(order >= 0) & (order < len(order))]] = True
    if (runs != order[:, None]).any() or not seen.all():
        raise FileError(
            f"'{path}' is no order of {len(order):,} records: each must come once",
            hint="give the order that was written with this very release",
        )
    return order


def _stored(path: str | Path) -> NDArray[Any]:
    check_file(Path(path), f"order '{path}'")
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FileError(f"no file '{path}'") from None
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        line = first_line(error)
        if "pickle" in line:  # what NumPy says of any file that is not its own
            line = "it is not a .npy file of numbers"
        raise FileError(
            f"cannot read '{path}' as an order: {line}",
            hint="it is the .npy file that perturb --order writes",
        ) from None
    if not isinstance(found, np.ndarray):
        found.close()
        raise FileError(
            f"'{path}' holds several arrays, not an order",
            hint="it is the .npy file that perturb --order writes",
        )
    return found
