"""Codes: a column of records in memory, and the narrowest integers that hold it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits

Codes = NDArray[Any]
Columns = tuple[Codes | Bits, ...]  # a batch of encoded records: one entry an attribute


def code_dtype(size: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that holds the codes 0..size-1."""
    return np.dtype(np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32)
