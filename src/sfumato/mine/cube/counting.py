"""Counting: what a plan needs, in one scan for the counts of all outputs and one for each number
that is summed.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ConvergenceWarning, EstimationError, QueryError
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import Evidence, with_known_laws
from sfumato.mine.cube.plan import Frame
from sfumato.mine.cube.sheet import Tables
from sfumato.source import Source

LARGEST_GRID = 1 << 22  # cells
LARGEST_SUMMED = 1 << 20  # cells in which a number is summed; its errors need some twenty times it
COMPARED_STEPS = 600
_LIKELY: WeakKeyDictionary[Evidence, NDArray[Any] | None] = WeakKeyDictionary()


def counted(
    source: Source, frames: Sequence[Frame], method: str
) -> tuple[dict[Frame, Tables], list[str]]:
    """The tables behind the outputs of a question, by their frames, and what is to be said of
    them.
    """
    for frame in frames:
        check_size(frame)
    asked = {frame.grid.key: frame.grid.cells for frame in frames if frame.grid.axes}
    found = dict(zip(asked, source.marginals(list(asked.values())), strict=True))
    tables: dict[Frame, Tables] = {}
    notes: list[str] = []
    for frame in frames:
        counts = found.get(frame.grid.key)
        if counts is None:
            tables[frame] = Tables(frame.grid, source.rows, None, np.zeros(()))
        elif frame.fine is not None:
            tables[frame] = _summed(source, frame, counts, method)
        else:
            value, note = _value(counts, method)
            errors = value is counts.value
            tables[frame] = Tables(frame.grid, source.rows, counts, value, errors=errors)
            notes += note
    return tables, notes


def check_size(frame: Frame) -> None:
    """Refuse a question with too many cells."""
    most = LARGEST_GRID if frame.fine is None else LARGEST_SUMMED
    if frame.grid.size > most:
        raise QueryError(
            f"this question needs {frame.grid.size:,} cells, more than {most:,}",
            hint="group by fewer columns, or coarser bins",
        )


def _summed(source: Source, frame: Frame, counts: Estimate, method: str) -> Tables:
    assert frame.fine is not None
    name = frame.fine.name
    if method == "em":
        raise QueryError(
            f"em needs counts, and '{name}' has too many values to count each",
            hint="use --method invert",
        )
    moments = source.moments(frame.grid.cells, frame.grid.place(name))
    return Tables(frame.grid, source.rows, counts, counts.value, moments, frame.fine)


def _value(counts: Estimate, method: str) -> tuple[NDArray[Any], list[str]]:
    """The counts by the method asked for. Where the inversion has no cell below 0 it is the most
    likely itself; elsewhere the most likely has no standard error that would be its own.
    """
    if method == "invert" or counts.value.min(initial=0.0) >= 0:
        return counts.value, []
    found = counts.likelihood()
    notes = [
        "cells estimated below 0 were moved to what is most likely, which has no standard error of "
        "its own; use --method invert for one"
    ]
    if not found.converged:
        notes.append(
            f"iterative Bayes stopped after {found.steps} steps, within {found.gap:.2g} a report "
            "of its goal"
        )
    return found.value, notes


def is_outside(estimate: Estimate) -> bool:
    """Whether some cell is estimated below 0 by more than chance would explain, the laws taken as
    known.

    Two standard errors for one cell; more for many, of which some are always far out.
    """
    value = estimate.value
    if value.min(initial=0.0) >= 0:
        return False
    reach = -NormalDist().inv_cdf(0.0228 / max(1.0, value.size / 64))
    squares = with_known_laws(estimate.evidence).squares
    stderr = np.sqrt(np.maximum(squares, 0.0)) / estimate.copies
    return bool((value < -reach * stderr - 1e-9).any())


def most_likely(estimate: Estimate) -> NDArray[Any] | None:
    """The counts of maximum likelihood; None where there is none, or it was not reached. They are
    worked out once for a table, however often it is asked.
    """
    if estimate.evidence not in _LIKELY:
        found = None
        with warnings.catch_warnings(), contextlib.suppress(EstimationError):
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = estimate.likelihood(steps=COMPARED_STEPS)
        _LIKELY[estimate.evidence] = found.value if found and found.converged else None
    return _LIKELY[estimate.evidence]
