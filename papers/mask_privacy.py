"""MASK's figure 1, table 1 and figure 2: how often a flipped bit is guessed back, by formula."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from papers.base import Cell, Reproduction, Row
from papers.curves import Curves
from papers.reconstruction import recovered_bits, recovered_ones

SUPPORT, WEIGHT = 0.01, 0.9  # of table 1: a basket of ten among a thousand items; a = 0.9
PRINTED_PRIVACY = {0.5: 89, 0.7: 88, 0.8: 87, 0.9: 83, 0.95: 76, 1.0: 0}
KEEPS = tuple(round(0.05 * step, 2) for step in range(21))
SUPPORTS = (0.01, 0.1, 0.3, 0.5)
WEIGHTS = (0.5, 0.7, 0.9, 1.0)
DRAWN = "the paper draws these curves and prints no numbers, and does not name all of its values"


def figure_1() -> Reproduction:
    """How often a one is guessed back, by p and by the support of its item (eq. 2)."""
    rows = [
        Row((support, keep), (Cell(None, float(recovered_ones(support, keep))),))
        for support in SUPPORTS
        for keep in KEEPS
    ]
    return Curves(
        "mask-figure-1",
        "MASK figure 1: the probability that a one is guessed back, eq. 2",
        ("support", "p"),
        ("reconstruction probability",),
        tuple(rows),
        (DRAWN, "lowest at p = 0.5, symmetric about it, flatter as the support falls: as the text"),
        error="reconstruction probability",
    )


def table_1() -> Reproduction:
    """The privacy of bits at a support of 0.01, ones weighing 0.9."""
    rows = [
        Row((keep,), (Cell(printed, _privacy(keep, WEIGHT)),))
        for keep, printed in PRINTED_PRIVACY.items()
    ]
    notes = ("by eq. 3 and 4; the paper prints whole per cent and cuts the rest off (88.5 at 0.7)",)
    return Reproduction(
        "mask-table-1",
        f"MASK table 1: privacy at support {SUPPORT}, a = {WEIGHT}",
        ("p",),
        ("privacy (%)",),
        tuple(rows),
        notes,
    )


def figure_2() -> Reproduction:
    """The privacy of bits by p, for several weights of ones."""
    rows = [
        Row((weight, keep), (Cell(None, _privacy(keep, weight)),))
        for weight in WEIGHTS
        for keep in KEEPS
    ]
    return Curves(
        "mask-figure-2",
        f"MASK figure 2: privacy at support {SUPPORT}",
        ("a", "p"),
        ("privacy (%)",),
        tuple(rows),
        (DRAWN, "the shape is that of a = 0.9 for every a, as the text says"),
        error="privacy (%)",
    )


FIGURES: dict[str, Callable[[], Reproduction]] = {
    "mask-figure-1": figure_1,
    "mask-table-1": table_1,
    "mask-figure-2": figure_2,
}


def _privacy(keep: float, weight: float) -> float:
    return float(100 * (1 - np.asarray(recovered_bits(SUPPORT, keep, weight=weight))))
