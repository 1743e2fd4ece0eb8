"""Order: which record of the truth each report came from. It is the owner's secret, kept in a file
of its own.

The file is NumPy's .npy, 64-bit integers, one a report: order[i] is the row of the truth (from 0)
that report i came from. The reports of one record stand side by side, so where a record made
several, its row is repeated as often.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import FileError
from sfumato.files import appearing, in_the_way
from sfumato.table.readers import first_line
from sfumato.untrusted import check_file

OWNER_ONLY = 0o600
HEADER_BYTES = 128  # room for any length, since how many rows there are is known only at the end


@dataclass(eq=False)
class OrderWriter:
    """Writes the order of the reports, a batch at a time."""

    stream: BinaryIO
    reports: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.stream.write(bytes(HEADER_BYTES))

    def write(self, order: NDArray[Any]) -> None:
        """Append the rows of the truth that the next reports came from."""
        self.stream.write(np.ascontiguousarray(order, dtype="<i8").data)
        self.reports += len(order)

    def finish(self) -> None:
        """Say in the header how many there are."""
        facts = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({self.reports},), }}"
        start = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
        self.stream.seek(0)
        self.stream.write(start + facts.ljust(HEADER_BYTES - 11).encode("ascii") + b"\n")


@contextmanager
def order_to(path: str | Path, *, force: bool = False) -> Iterator[OrderWriter]:
    """A writer of an order that only the owner may read; the file appears when the block ends
    well.
    """
    try:
        with appearing(Path(path), force=force, mode=OWNER_ONLY) as stream:
            writer = OrderWriter(stream)
            yield writer
            writer.finish()
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
    if (runs != order[:, None]).any() or not _is_order(order):
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


def _is_order(order: NDArray[np.int64]) -> bool:
    """Whether 0..n-1 each come once."""
    if len(order) and not 0 <= int(order.min()) <= int(order.max()) < len(order):
        return False
    seen = np.zeros(len(order), dtype=bool)
    seen[order] = True
    return bool(seen.all())
