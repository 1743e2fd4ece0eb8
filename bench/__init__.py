"""Benchmarks: each a module with a `main` of its own, and what several of them share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def percent(shares: np.ndarray) -> str:  # (seeds,)
    """The mean of shares in per cent, with the standard error that the seeds show.

    >>> percent(np.array([0.9, 1.0]))
    '95.0 ± 5.0 %'
    """
    return f"{100 * shares.mean():.1f} ± {100 * error_of(shares):.1f} %"


def error_of(shares: np.ndarray) -> float:  # (seeds,)
    """The standard error of the mean; one seed shows none."""
    return float(shares.std(ddof=1)) / math.sqrt(len(shares)) if len(shares) > 1 else math.nan


def write_section(path: Path, heading: str, name: str, lines: Sequence[str]) -> None:
    """Put the lines of one name into a file of figures, in the place of those that were there."""
    text = path.read_text(encoding="utf-8") if path.exists() else heading
    _, *sections = text.split("\n## ")
    kept = [section for section in sections if section.split("\n")[0] != name]
    body = "\n".join([name, "", "```", *lines, "```", ""])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n## ".join([heading, *kept, body]), encoding="utf-8")
