"""Memory: what this machine has, so that what cannot fit is refused before it is begun."""

from __future__ import annotations

import os

from sfumato.errors import ParameterError

HELD = 0.5  # of all memory that one command may take


def check_room(rows: int, each: int, what: str = "records") -> None:
    """Refuse so many rows, each of so many bytes while they are made, as memory cannot hold.

    >>> check_room(10**15, 64)
    Traceback (most recent call last):
    sfumato.errors.ParameterError: 1,000,000,000,000,000 records take 64,000,000.0 GB, ...
    """
    most = memory()
    if most is not None and rows * each > HELD * most:
        fit = int(HELD * most / each)
        raise ParameterError(
            f"{rows:,} {what} take {rows * each / 1e9:,.1f} GB, and this machine has "
            f"{most / 1e9:,.1f} GB",
            hint=f"{_rounded(fit):,} fit; make several files, each with another seed",
        )


def memory() -> int | None:
    """The bytes of this machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _rounded(number: int) -> int:
    """A number to two figures, downwards."""
    size = 10 ** max(0, len(str(number)) - 2)
    return number // size * size
