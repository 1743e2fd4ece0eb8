"""Packing: reports as rows of a fixed number of bytes, as a campaign's store keeps them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import lt
from typing import Any

import numpy as np

from sfumato.domain import Attribute, Columns, Domain, Items, code_dtype
from sfumato.errors import DataError
from sfumato.table.shuffling import RowForm


@dataclass(frozen=True)
class Packing:
    """Codes in as few whole bytes as their attribute needs, little-endian; baskets as one bit an
    item. Every report of a domain has the same length, so no length tells anything.

    >>> from sfumato.domain import Category
    >>> packing = Packing(Domain((Category("sex", ("F", "M")), Items("buys", ("a", "b", "c")))))
    >>> packing.pack([1, [0, 2]]), packing.width
    (b'\\x01\\x05', 2)
    """

    domain: Domain  # of the reports

    @cached_property
    def width(self) -> int:
        """The bytes of one report."""
        return self._rows.dtype.itemsize

    @cached_property
    def _rows(self) -> RowForm:
        """The same bytes for many reports at once."""
        return RowForm(self.domain)

    @cached_property
    def plain(self) -> bool:
        """Whether no column holds baskets, so that a report is a list of whole numbers."""
        return not any(isinstance(attribute, Items) for attribute in self.domain)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column has."""
        return tuple(attribute.size for attribute in self.domain)

    @cached_property
    def _format(self) -> struct.Struct:
        kinds = (
            f"{-(-each.size // 8)}s" if isinstance(each, Items) else code_dtype(each.size).char
            for each in self.domain
        )
        return struct.Struct("<" + "".join(kinds))

    def pack(self, values: Sequence[Any]) -> bytes:
        """The bytes of one report: a code for each column, a list of item codes for a basket.

        What is no report of this domain raises DataError, which tells nothing of the values.
        """
        if len(values) != len(self.sizes):
            raise DataError(f"a report has {len(self.sizes)} values; found {len(values)}")
        if not self.plain:
            values = [self._field(*pair) for pair in zip(self.domain, values, strict=True)]
        elif not all(map(lt, values, self.sizes)) or min(values) < 0:
            raise DataError("a value lies outside its column")
        return self._format.pack(*values)

    def _field(self, attribute: Attribute, value: Any) -> Any:
        if not isinstance(attribute, Items):
            if type(value) is not int or not 0 <= value < attribute.size:
                raise DataError("a value lies outside its column")
            return value
        if not isinstance(value, list) or len(set(value)) < len(value):
            raise DataError("a basket is a list of different items")
        bits = bytearray(-(-attribute.size // 8))
        for item in value:
            if type(item) is not int or not 0 <= item < attribute.size:
                raise DataError("an item lies outside its column")
            bits[item >> 3] |= 1 << (item & 7)
        return bytes(bits)

    def values(self, body: bytes) -> list[Any]:
        """The report that these bytes hold: what `pack` was given, items ascending."""
        fields = self._format.unpack(body)
        return [
            _items(value) if isinstance(attribute, Items) else value
            for attribute, value in zip(self.domain, fields, strict=True)
        ]

    def pack_columns(self, columns: Columns) -> bytes:
        """The bytes of many reports, one after the other."""
        return self._rows.pack(columns, 0).tobytes()

    def unpack(self, data: bytes) -> Columns:
        """The columns of reports that stand one after the other."""
        if len(data) % self.width:
            raise DataError(
                f"reports of {self.width} bytes each were kept, and {len(data)} bytes are no whole "
                "number of them: the store was changed or cut short"
            )
        return self._rows.unpack(np.frombuffer(data, self._rows.dtype))


def _items(octets: bytes) -> list[int]:
    bits = np.unpackbits(np.frombuffer(octets, dtype=np.uint8), bitorder="little")
    return [int(item) for item in np.flatnonzero(bits)]
