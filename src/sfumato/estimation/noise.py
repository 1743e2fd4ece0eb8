"""Noise: when an estimate is lost in its error, said by one rule and in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.errors import EstimationError

LOST = 0.5  # of the rows: the standard error from which on a count says nothing


def is_lost(stderr: Any, rows: int) -> Any:
    """Whether a count says nothing, each on its own: its standard error exceeds half of the rows,
    so that an interval of two errors to either side holds every count there can be.
    """
    return stderr > LOST * rows


def too_noisy(
    columns: Sequence[str], stderr: float, rows: int, step: float = 0.0
) -> EstimationError:
    """The error for counts over these columns that are all lost; numbers less than a step apart are
    not told apart.

    >>> str(too_noisy(["age"], 1e7, 1000))
    "'age' alone leaves a standard error of 1e+07 on 1,000 rows; collect more rows, or ..."
    """
    alone = len(columns) == 1
    what = f"'{columns[0]}' alone leaves" if alone else f"{len(columns)} columns together leave"
    hint = "perturb it less" if alone else "ask about fewer columns at once"
    if step:
        hint = f"ask about a wider range: numbers less than {step:.3g} apart are not told apart"
    return EstimationError(noise_told(what, stderr, rows), hint=f"collect more rows, or {hint}")


def noise_told(what: str, stderr: float, rows: int) -> str:
    """The sentence for what is lost, asked by whomever.

    >>> noise_told("3 items together leave", 4e6, 1000)
    '3 items together leave a standard error of 4e+06 on 1,000 rows'
    """
    return f"{what} a standard error of {stderr:,.3g} on {rows:,} row{'' if rows == 1 else 's'}"
