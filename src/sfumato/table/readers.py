"""Readers and writers: what every file in some format must say, and what follows from it.

A format is a reader and, where it is written too, a writer; `formats` lists them all. Records stand
in named columns that Arrow reads (`RecordReader`), baskets in lists of items (`BasketsReader`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, BinaryIO, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.bits import WORD_BITS, Bits
from sfumato.domain import Attribute, Bins, Category, Codes, Columns, Domain, Items, Numeric
from sfumato.domain.attributes import as_words, places_among
from sfumato.errors import DataError, FileError, SfumatoError
from sfumato.mechanisms.base import rows_of
from sfumato.progress import Progress, silent
from sfumato.table.limits import BATCH_BITS, BATCH_ROWS, check_held
from sfumato.table.table import (
    Provenance,
    Table,
    check_names,
    dropped_notes,
    encode_column,
    join_columns,
)
from sfumato.untrusted import MOST_LABELS, Untrusted

P = TypeVar("P")  # a part of a file

ITEMS_NAME = "items"  # the attribute that baskets without a schema get
# What data frames write for no and yes, in turn: a column of them is one item of a basket.
FLAG_WORDS = ("0", "1", "false", "true", "False", "True", "FALSE", "TRUE", "0.0", "1.0")


class Reader(ABC):
    """A file in some format, or a frame: records that can be read, as often as needed, in
    batches.
    """

    where: str  # how messages call it
    baskets: ClassVar[bool] = False  # whether it holds baskets and nothing else, by its form
    tell: Progress = staticmethod(silent)  # hears how much of the file has been read

    # What every reader must say.

    @abstractmethod
    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        """The records over this domain, a batch at a time; none is empty."""

    @property
    @abstractmethod
    def description(self) -> Mapping[str, Any] | None:
        """What a perturbed file says about itself; None for the truth."""

    # What may be overridden.

    def notes(self, domain: Domain) -> tuple[str, ...]:
        """What the owner should know about how these data were read over this domain."""
        return ()

    @property
    def size(self) -> int | None:
        """The bytes of the file; None for what stands in memory already."""
        return None

    @property
    def fraction(self) -> float | None:
        """How much of the data the batches drawn so far took, from 0 to 1, where that is known."""
        return None

    def _checked(self, provenance: Provenance) -> Provenance:
        """The provenance, once the rows are known to be those that it speaks of."""
        return provenance

    def _check_rows(self, rows: int) -> None:
        """Refuse rows that are more or fewer than the file says it has, where it cannot be asked
        before they are read.
        """
        return

    # What follows.

    @cached_property
    def provenance(self) -> Provenance | None:
        """The mechanism that perturbed these data; None for the truth."""
        if self.description is None:
            return None
        try:
            found = Provenance.from_description(self.description)
        except SfumatoError as error:
            raise FileError(f"{self.where}: {error.message}", hint=error.hint) from None
        return self._checked(found)

    @property
    def described_rows(self) -> int:
        """How many rows a perturbed file says it has."""
        return Untrusted(self.description, f"the description of {self.where}")["rows"].whole()

    def table(self, domain: Domain) -> Table:
        """All records over this domain, as long as together they stay in proportion to what they
        are read from.
        """
        # A report is a value of the domain as it stands; only of the truth a schema may say what
        # other values, missing ones and those beyond a range are taken for.
        wanted = domain if self.provenance is None else strict(domain)
        parts, held = [], 0
        try:
            for batch in self.passing(self.batches(wanted)):
                held += sum(column.nbytes for column in batch)
                check_held(held, self.size, self.where)
                parts.append(batch)
        except DataError as error:
            place = error.facts.get("row", error.facts.get("line"))
            if self.provenance is None or place is None:
                raise
            # Where, not what: a value that no mechanism reports may be someone's true one.
            raise FileError(
                f"row {place} of {self.where} is no report of {self.provenance.mechanism.name}",
                hint="the file was changed after it was perturbed",
            ) from None
        return Table(domain, join_columns(domain, parts), self.provenance, self.notes(domain))

    def told(self) -> None:
        """Tell who listens how much of the file the batches drawn so far took."""
        self.tell(f"reading {self.where}", self.fraction)

    def passing(self, parts: Iterable[P]) -> Iterator[P]:
        """The parts of a pass over the file; who listens is told how far it has come."""
        for part in parts:
            self.told()
            yield part


class RecordReader(Reader):
    """Records in named columns that Arrow can read."""

    flags: bool | None = None  # whether each column says if an item is there; None: the data tell

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of the columns."""

    @abstractmethod
    def arrow_batches(
        self, names: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The values of these columns, a batch at a time; words may be numbers into a list."""

    def as_stored(self, name: str, column: pa.Array) -> pa.Array:
        """A column of a batch in the type that it has in the file."""
        return column

    def encode(self, batch: pa.RecordBatch, attribute: Attribute, first_row: int) -> Codes | Bits:
        """The codes of an attribute."""
        if isinstance(attribute, Items) and self._in_flags(attribute):
            return bits_of_flags(batch, attribute, first_row)
        return encode_column(batch.column(attribute.name), attribute, first_row)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that somebody meant as data: pandas hands its row labels over
        as a column, too.
        """
        return [name for name in self.names if not name.startswith("__index_level_")]

    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        first_row = 1
        for batch in self.arrow_batches(self._columns_of(domain), batch_rows):
            if batch.num_rows:
                yield tuple(self.encode(batch, attribute, first_row) for attribute in domain)
            first_row += batch.num_rows
        if first_row == 1:
            raise DataError(f"{self.where} has no rows")

    def notes(self, domain: Domain) -> tuple[str, ...]:
        wanted = set(self._columns_of(domain))
        return dropped_notes(domain, [name for name in self.names if name not in wanted])

    def _columns_of(self, domain: Domain) -> list[str]:
        wanted = [
            name
            for attribute in domain
            for name in (flat_names(attribute) if self._in_flags(attribute) else (attribute.name,))
        ]
        check_names(wanted, self.names, self.where)
        return wanted

    def _in_flags(self, attribute: Attribute) -> bool:
        """Whether baskets stand in one column an item, since no column lists them."""
        return isinstance(attribute, Items) and attribute.name not in self.names


class BasketsReader(Reader):
    """Baskets and nothing else; their items are those found, unless somebody names them."""

    baskets = True

    @property
    def way(self) -> str | None:
        """How baskets stand in records; None where the kind of the file says so."""
        return None

    @abstractmethod
    def items(self) -> Iterator[Iterable[Any]]:
        """The items that occur, by a pass over the file, a part at a time; any of them may come
        again.
        """

    @abstractmethod
    def encoded(self, domain: Domain, most: int) -> Iterator[Bits]:
        """The baskets over a domain of items, at most so many at a time."""

    @staticmethod
    def sort_key(item: Any) -> Any:
        """What the items found are put in order by."""
        return item

    @cached_property
    def found(self) -> Domain:
        """The items of the baskets, by a first pass over the file."""
        items: set[Any] = set()
        for part in self.passing(self.items()):
            items.update(part)
            if len(items) > MOST_LABELS:
                raise DataError(
                    f"{self.where} names more than {MOST_LABELS:,} different items",
                    hint="leave out those that few baskets hold",
                )
        if not items:
            raise no_items(self.where)
        return Domain((Items(ITEMS_NAME, tuple(map(str, sorted(items, key=self.sort_key)))),))

    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        rows, held = 0, self.description is not None  # reports may all be empty
        for bits in self.encoded(domain, min(batch_rows, batch_rows_of(domain.attributes[0]))):
            yield (bits,)
            rows += bits.rows
            held = held or bool(bits.words.any())
        if not (rows and held):
            raise no_items(self.where)
        self._check_rows(rows)


def people_in(reader: Reader, domain: Domain) -> int:
    """How many records a file holds, counted."""
    return sum(rows_of(columns) for columns in reader.batches(domain))


@dataclass(eq=False)
class Writer(ABC):
    """Something that batches of records over one domain can be written to."""

    stream: BinaryIO
    domain: Domain
    provenance: Provenance | None
    rows: int = field(default=0, init=False)
    describes_itself: ClassVar[bool] = False

    def write(self, columns: Columns) -> None:
        """Append a batch of records."""
        self._append(columns)
        self.rows += rows_of(columns)

    @abstractmethod
    def _append(self, columns: Columns) -> None:
        """Write the values of a batch."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish where the block ended well, and let go where it did not."""
        try:
            if kind is None:
                self.finish()
                return
        except BaseException:
            self.abandon()
            raise
        self.abandon()

    def finish(self) -> None:
        """Write what comes after the last batch: nothing, unless the form has an end of its own."""
        return

    def abandon(self) -> None:
        """Let go of what is being written after an error: nothing, unless the form holds something
        open.
        """
        return


def flat_names(attribute: Attribute) -> tuple[str, ...]:
    """The columns that an attribute has in a CSV file: its own, or for baskets one of 0 and 1 for
    every item.
    """
    return attribute.labels if isinstance(attribute, Items) else (attribute.name,)


def bits_of_flags(batch: pa.RecordBatch, attribute: Items, first_row: int) -> Bits:
    """The baskets of which each item has a column that says yes or no."""
    flags = np.empty((batch.num_rows, attribute.size), dtype=bool)
    for place, name in enumerate(attribute.labels):
        column = batch.column(name)
        codes = places_among(as_words(column), pa.array(FLAG_WORDS))
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            raise DataError(
                f"row {row + first_row}, column '{name}': '{column[row].as_py()}' is "
                "neither 0 nor 1",
                row=row + first_row,
            )
        flags[:, place] = codes % 2
    return Bits.from_dense(flags)


def items_of(domain: Domain, where: str) -> Items:
    """The items of a domain of baskets."""
    attribute = domain.attributes[0]
    if not domain.baskets or not isinstance(attribute, Items):
        raise DataError(
            f"{where} holds baskets, and this schema is of records",
            hint="read it as records with --form records, or leave the schema out",
        )
    return attribute


def no_items(where: str) -> FileError:
    """What is said of baskets none of which holds anything: of a wrong file, not of empty hands."""
    return FileError(
        f"no basket of {where} holds an item",
        hint="a line holds the items of one basket; an empty one is an empty basket",
    )


def batch_rows_of(attribute: Attribute) -> int:
    """The most rows at once: fewer where a basket has many items."""
    if not isinstance(attribute, Items):
        return BATCH_ROWS
    return min(BATCH_ROWS, max(BATCH_BITS // attribute.size // WORD_BITS, 1) * WORD_BITS)


def strict(domain: Domain) -> Domain:
    """The same domain without leave to take one value for another."""

    def alone(attribute: Attribute) -> Attribute:
        if isinstance(attribute, Category):
            return replace(attribute, other=None, missing=None)
        if isinstance(attribute, Bins | Numeric):
            return replace(attribute, missing=None, clip=False)
        return attribute

    return Domain(tuple(map(alone, domain)), domain.title)


def other_rows(
    where: str, found: int, described: object, cause: str = "it was cut short"
) -> FileError:
    """The refusal of rows that are more or fewer than their description speaks of."""
    return FileError(
        f"{where} has {found} rows, but its description speaks of {described}",
        hint=f"{cause} or changed after it was perturbed",
    )
