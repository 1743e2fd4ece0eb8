"""Power: the smallest leaks that an audit of this size would have found, so that a clean one is not
taken for more than it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.audit.limits import MOST_MODULUS
from sfumato.audit.places import run_log
from sfumato.audit.score import Agreements, RowScores, log_tail


@dataclass(frozen=True)
class Power:
    """What would have been found 19 times in 20 (a power of 95 %); None for what no size of leak
    would have shown.
    """

    rows: int
    in_a_row: int | None  # unchanged records
    scattered: int | None  # unchanged records, anywhere
    every: int | None  # every n-th record unchanged
    column: str  # the column or item in which the least is seen
    points: float | None  # percentage points by which it has the truth too often

    @classmethod
    def of(cls, found: Agreements, threshold: float) -> Power:
        """The smallest leaks whose checks would have had a p-value below the threshold."""
        whole, rows, scores = found.whole, found.whole.rows, len(found.scores)
        level = float(np.log(threshold))
        gain = float((whole.top - whole.mean).mean())
        in_a_row = _least(rows, lambda length: run_log(found.staying, length) < level)
        total = level - float(np.log(scores))
        each = float(whole.variance.sum()) / rows
        classes = level - float(np.log(scores * MOST_MODULUS**2 / 2))
        of_class = _least(rows // 2, lambda n: _seen(whole, n * gain, n * each, classes))
        points = {one.name: _scattered(one, 1.0, total) for one in found.scores[1:] or (whole,)}
        column = max(points, key=lambda name: points[name] or rows)
        seen = points[column]
        return cls(
            rows,
            in_a_row,
            _scattered(whole, gain, total),
            None if of_class is None else min(rows // of_class, MOST_MODULUS),
            column,
            None if seen is None or seen == rows else 100 * seen / rows,
        )

    def sentences(self) -> tuple[str, ...]:
        """The same in words."""
        leaks = {
            f"{self.in_a_row or 0:,} or more records unchanged in a row": self.in_a_row,
            f"{self.scattered or 0:,} ({100 * (self.scattered or 0) / self.rows:.2g} %) or more "
            "unchanged wherever they are": self.scattered,
            f"one in {self.every or 0:,} or more unchanged at even steps": self.every,
            f"{self.column} reported truly {self.points or 0:.2g} percentage points too "
            "often": self.points,
        }
        seen = [words for words, found in leaks.items() if found is not None]
        if not seen:
            return (f"at {self.rows:,} reports this audit is too small to see any of these leaks",)
        return (
            f"at {self.rows:,} reports the smallest leaks this audit finds, 19 times in 20: "
            f"{'; '.join(seen)}; it does not see less",
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "unchanged_in_a_row": self.in_a_row,
            "unchanged_rows": self.scattered,
            "every_nth_unchanged": self.every,
            "points_too_often": self.points,
            "of": self.column,
        }


def _scattered(one: RowScores, gain: float, level: float) -> int | None:
    """How many rows, wherever they are, must each have so much too much to be seen; once in twenty
    chance hides a leak by 1.645 standard errors.
    """
    spread = float(one.variance.sum())
    hidden = 1.645 * spread**0.5
    return _least(one.rows, lambda count: _seen(one, count * gain - hidden, spread, level))


def _seen(one: RowScores, deviation: float, spread: float, level: float) -> bool:
    return deviation > 0 and bool(log_tail(deviation, spread, one.most, one.least) < level)


def _least(most: int, holds: Callable[[int], bool]) -> int | None:
    """The least number from 1 to `most` for which something holds that holds for all larger ones;
    None if it holds for none.
    """
    if most < 1 or not holds(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
