"""Sight: the smallest leaks that an audit of this size would have found, so that a clean one is not
taken for more than it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.audit.agreement import Agreement, Agreements
from sfumato.audit.check import bounded
from sfumato.audit.position import MOST_MODULUS, run_log

MISSED = 1.645  # standard errors that chance may hide a leak by, once in twenty


@dataclass(frozen=True)
class Sight:
    """What would have been found 19 times in 20; None for what no size of leak would have shown."""

    rows: int
    in_a_row: int | None  # unchanged records
    scattered: int | None  # unchanged records, anywhere
    every: int | None  # every n-th record unchanged
    column: str  # the column or item in which the least is seen
    points: float | None  # percentage points by which it has the truth too often

    def sentences(self) -> tuple[str, ...]:
        """The same in words."""
        seen = [
            words
            for found, words in (
                (self.in_a_row, f"{self.in_a_row or 0:,} or more records unchanged in a row"),
                (
                    self.scattered,
                    f"{self.scattered or 0:,} ({self._share}) or more unchanged wherever they are",
                ),
                (self.every, f"one in {self.every or 0:,} or more unchanged at even steps"),
                (
                    self.points,
                    f"{self.column} reported truly {self.points or 0:.2g} percentage points too "
                    "often",
                ),
            )
            if found is not None
        ]
        if not seen:
            return (f"at {self.rows:,} reports this audit is too small to see any of these leaks",)
        return (
            f"at {self.rows:,} reports the smallest leaks this audit finds, 19 times in 20: "
            f"{'; '.join(seen)}; it does not see less",
        )

    @property
    def _share(self) -> str:
        return f"{100 * (self.scattered or 0) / self.rows:.2g} %"

    def to_dict(self) -> dict[str, Any]:
        return {
            "unchanged_in_a_row": self.in_a_row,
            "unchanged_rows": self.scattered,
            "every_nth_unchanged": self.every,
            "points_too_often": self.points,
            "of": self.column,
        }


def sight(found: Agreements, threshold: float) -> Sight:
    """The smallest leaks whose checks would have had a p-value below the threshold."""
    whole, rows, series = found.whole, found.whole.rows, len(found.series)
    level = float(np.log(threshold))
    gain = float((whole.top - whole.mean).mean())
    in_a_row = _least(rows, lambda length: run_log(found.staying, length) < level)
    total = level - float(np.log(series))
    spread = float(whole.variance.sum())
    scattered = _least(
        rows, lambda count: _seen(whole, count * gain - MISSED * spread**0.5, spread, total)
    )
    classes = np.log(series * MOST_MODULUS**2 / 2)
    each = spread / rows
    of_class = _least(
        rows // 2, lambda size: _seen(whole, size * gain, size * each, level - classes)
    )
    column, points = max(
        ((one.name, _points(one, total)) for one in found.series[1:] or (whole,)),
        key=lambda pair: pair[1],
    )
    every = None if of_class is None else min(rows // of_class, MOST_MODULUS)
    return Sight(rows, in_a_row, scattered, every, column, points if points < 100 else None)


def _seen(one: Agreement, deviation: float, spread: float, level: float) -> bool:
    return deviation > 0 and bool(bounded(deviation, spread, one.most, one.least) < level)


def _points(one: Agreement, level: float) -> float:
    spread = float(one.variance.sum())
    count = _least(one.rows, lambda count: _seen(one, count - MISSED * spread**0.5, spread, level))
    return 100.0 if count is None else 100 * count / one.rows


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
