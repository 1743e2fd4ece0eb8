"""Baskets in long form: a line for each item, beside the number of the basket that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.domain import Columns, Domain, Items
from sfumato.errors import DataError, FileError, listing
from sfumato.received import MOST_LABELS
from sfumato.table.baskets import ITEMS_NAME
from sfumato.table.readers import BATCH_ROWS, Reader, RecordReader, batch_rows_of

# How people call the two columns of such a file, in small letters and without blanks or dashes.
BASKET_COLUMNS = frozenset(
    [
        "tid",
        "transaction",
        "transactionid",
        "basket",
        "basketid",
        "order",
        "orderid",
        "invoice",
        "invoiceno",
        "receipt",
        "receiptid",
        "cart",
        "cartid",
    ]
)
ITEM_COLUMNS = frozenset(
    [
        "item",
        "items",
        "itemid",
        "itemname",
        "itemdescription",
        "product",
        "productid",
        "productname",
        "article",
        "sku",
        "stockcode",
        "description",
    ]
)


def long_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns that name the basket and the item, where their names say so.

    >>> long_columns(["Transaction ID", "item"])
    ('Transaction ID', 'item')
    """
    plain = {name: "".join(filter(str.isalnum, name.casefold())) for name in names}
    basket = [name for name in names if plain[name] in BASKET_COLUMNS]
    item = [name for name in names if plain[name] in ITEM_COLUMNS]
    return (basket[0], item[0]) if len(basket) == len(item) == 1 else None


@dataclass(eq=False)
class LongReader(Reader):
    """Baskets of a table with a row an item; rows of one basket may stand anywhere, so all are held
    in memory, eight bytes each.
    """

    baskets = True
    inner: RecordReader
    basket: str
    item: str

    @classmethod
    def of(cls, inner: RecordReader) -> LongReader:
        """The baskets of a table whose two columns are, or are called, the basket and the item."""
        names = [name for name in inner.names if not name.startswith("__index_level_")]
        found = long_columns(names) or (tuple(names) if len(names) == 2 else None)
        if found is None:
            raise FileError(
                f"{inner.where} has the columns {listing(names)}; which of them name the basket "
                "and the item is not clear",
                hint="keep two columns, as in tid,item",
            )
        return cls(inner, *found)

    # A field of Reader, here that of the reader inside.
    @property
    def where(self) -> str:  # type: ignore[override]
        return self.inner.where

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
                [_words(batch.column(place)) for batch in batches], pa.string()
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

    @cached_property
    def found(self) -> Domain:
        """The items of the baskets."""
        names = self._rows[2].to_pylist()
        if len(names) > MOST_LABELS:
            raise DataError(
                f"{self.where} names more than {MOST_LABELS:,} different items",
                hint="leave out those that few baskets hold",
            )
        return Domain((Items(ITEMS_NAME, tuple(sorted(names, key=_by_number))),))

    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        attribute = domain.attributes[0]
        if not domain.baskets or not isinstance(attribute, Items):
            raise DataError(
                f"{self.where} holds baskets, and this schema is of records",
                hint="read it as records with --form records, or leave the schema out",
            )
        baskets, items, names = self._rows
        codes = self._codes(attribute, items, names)
        order = np.argsort(baskets, kind="stable")
        people = int(baskets.max()) + 1
        offsets = np.searchsorted(baskets[order], np.arange(people + 1))
        most = min(batch_rows, batch_rows_of(attribute))
        for start in range(0, people, most):
            part = offsets[start : start + most + 1]
            chosen = codes[order[part[0] : part[-1]]]
            yield (Bits.from_csr(part - part[0], chosen, attribute.size),)

    def _codes(self, attribute: Items, items: NDArray[Any], names: pa.Array) -> NDArray[np.int32]:
        known = pc.index_in(names, value_set=pa.array(attribute.values, pa.string())).fill_null(-1)
        codes = np.asarray(known.to_numpy(zero_copy_only=False))[items].astype(np.int32)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            raise DataError(
                f"row {row + 1}: item '{names[int(items[row])].as_py()}' is not in the universe of "
                f"{attribute.size} items",
                hint="name every item with --items FILE, or leave it out to take those found",
                row=row + 1,
            )
        return codes


def _words(column: pa.Array) -> pa.Array:
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    words = column if pa.types.is_string(column.type) else column.cast(pa.string())
    return pc.utf8_trim_whitespace(words)


def _by_number(name: str) -> tuple[int, int, str]:
    """Ids by size, then names by letter."""
    number = name.isascii() and name.isdigit() and len(name) <= 18
    return (0, int(name), name) if number else (1, 0, name)
