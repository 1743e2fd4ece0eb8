"""Noise: when an estimate is lost in its error, said by one rule and in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import EstimationError


def is_lost(stderr: float, rows: int) -> bool:
    """Whether a count says nothing: its standard error exceeds all the rows there are."""
    return stderr > rows


def too_noisy(columns: Sequence[str], stderr: float, rows: int) -> EstimationError:
    """The error for counts over these columns that are all lost.

    >>> str(too_noisy(["age"], 1e7, 1000))
    "'age' alone leaves a standard error of 1e+07 on 1,000 rows; collect more rows, or ..."
    """
    alone = len(columns) == 1
    what = f"'{columns[0]}' alone leaves" if alone else f"{len(columns)} columns together leave"
    hint = "perturb it less" if alone else "ask about fewer columns at once"
    return EstimationError(
        f"{what} a standard error of {stderr:,.3g} on {rows:,} rows",
        hint=f"collect more rows, or {hint}",
    )
