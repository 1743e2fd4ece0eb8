"""Codes: a column of records in memory, and the narrowest integers that hold it.

A column is an array of codes, or `Bits` where records hold baskets. Both answer the same calls:
`len`, `take`, `repeat`, slices of rows and `nbytes`; what differs is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.errors import DataError

Codes = NDArray[Any]
Column = Codes | Bits
Columns = tuple[Column, ...]  # a batch of encoded records: one entry an attribute


def code_dtype(size: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that holds the codes 0..size-1."""
    return np.dtype(np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32)


def codes_of(columns: Sequence[Column]) -> list[Codes]:
    """The columns of a batch that hold codes, in their order."""
    return [column for column in columns if not isinstance(column, Bits)]


def as_bits(column: Column) -> Bits:
    """A column that must hold baskets."""
    if not isinstance(column, Bits):
        raise DataError("this column holds codes where baskets were expected")
    return column


def one_after_another(parts: Sequence[Column]) -> Column:
    """The rows of all parts of a column, one part after the other."""
    baskets = [part for part in parts if isinstance(part, Bits)]
    return Bits.concatenate(baskets) if baskets else np.concatenate(codes_of(parts))


def same_rows(left: Column, right: Column) -> bool:
    """Whether two columns hold the same, row by row."""
    if isinstance(left, Bits) or isinstance(right, Bits):
        return isinstance(left, Bits) and isinstance(right, Bits) and left.equals(right)
    return np.array_equal(left, right)
