"""A swap that cannot be had: which of the totals and the limit on guessing stand in the way, and
what would do.
"""

from __future__ import annotations

import math
import time

from sfumato.errors import PrivacyError
from sfumato.publish.flows import Holdings, least_drift, unlimited_least_drift

__all__ = ["fitting_changes", "refusal"]

_STEP = 0.01  # of the proportions and limits that are tried
_NEAR = 0.1  # proportions nearer than this are tried one by one, others every twentieth
_SECONDS = 5.0  # for looking what would do


def fitting_changes(holdings: Holdings, drift: int | None) -> int | None:
    """The wanted number of changes, or one more or less (an odd number may have no partner), if the
    totals then move by at most `drift` records under the limit (None: by as few as one of them
    allows); else None.
    """
    if drift is None:
        found = _least_drifts(holdings)
        return min(found, key=lambda n: found[n], default=None)  # of equal ones the wanted
    return next((n for n in _nearly(holdings) if _fits(holdings.changing(n), drift)), None)


def _least_drifts(holdings: Holdings) -> dict[int, int]:
    """The least drift of each number of changes that can be had under the limit."""
    found: dict[int, int] = {}
    for changes in _nearly(holdings):
        least = least_drift(holdings.changing(changes))
        if least is not None:
            found[changes] = least
        if least == 0:  # none is less
            break
    return found


def _nearly(holdings: Holdings) -> list[int]:
    """The wanted number of changes, one more and one less, as far as so many can change; none at
    all only where none was wanted.
    """
    wanted = holdings.changes
    # Two values that all change can be flipped back.
    most = max(wanted, int(holdings.free.sum()) - (holdings.values == 2))
    return [
        changes for changes in (wanted, wanted + 1, wanted - 1) if min(1, wanted) <= changes <= most
    ]


def _fits(holdings: Holdings, drift: int) -> bool:
    if unlimited_least_drift(holdings) > 2 * drift:
        return False  # quickly told: no limit on guessing makes it less
    least = least_drift(holdings)
    return least is not None and least <= 2 * drift


def refusal(name: str, proportion: float, holdings: Holdings, drift: int | None) -> PrivacyError:
    """The error that says why, with settings of which any one would do, each of them tried."""
    limit = holdings.cap.limit if holdings.cap else 1.0
    proportions, failed = _other_proportions(holdings, proportion, drift)
    ways = [*proportions, _other_limit(holdings, limit, drift), _other_drift(holdings)]
    found = [way for way in ways if way]
    hint = " or ".join(found) + " would do" if found else "merge rare values, or use coarser keys"
    hint = f"{hint}; {failed}" if failed else hint
    free = least_drift(holdings.capped(1.0))
    by_totals = drift is not None and (free is None or free > 2 * drift)
    stay = "stay" if not drift else f"move by only {drift:,} records"
    if by_totals:
        message = (
            f"changing a share {proportion:g} of the unique records, the totals of '{name}' "
            f"cannot {stay}"
        )
    else:
        totals = "" if drift is None else f" while its totals {stay}"
        message = (
            f"changing a share {proportion:g} of the unique records, '{name}' could be guessed "
            f"with more than {limit:g}{totals}"
        )
    return PrivacyError(message, hint=hint, proportion=proportion, max_posterior=limit)


def _other_proportions(
    holdings: Holdings, proportion: float, drift: int | None
) -> tuple[list[str], str]:
    """The nearest proportions that can be had, on a grid: a smaller one, and a larger one where
    that is nearer; and what was tried where there is no smaller one.
    """
    unique = int(holdings.free.sum())
    until = time.monotonic() + _SECONDS
    larger: list[str] = []
    tried: list[float] = []
    for other in _near(proportion):
        if larger and other > proportion:
            continue
        tried.append(other)
        changes = math.ceil(other * unique - 1e-9)
        if fitting_changes(holdings.changing(changes), drift) is not None:
            if other < proportion:
                return [*larger, f"proportion={other:.2g}"], ""
            larger = [f"proportion={other:.2g}"]
        if time.monotonic() > until:
            break
    failed = [other for other in tried if other < proportion or not larger]
    if not failed:
        return larger, ""
    span = " to ".join(dict.fromkeys(f"{end:.2g}" for end in (min(failed), max(failed))))
    which = "smaller" if larger else "other"
    return larger, f"no {which} proportion that was tried ({span}) would do"


def _near(proportion: float) -> list[float]:
    """Other proportions, the nearest first."""
    grid = [step * _STEP for step in range(1, round(1 / _STEP))]
    near = [step for step in grid if abs(step - proportion) < _NEAR or round(step * 20, 9) % 1 == 0]
    others = [step for step in near if not math.isclose(step, proportion)]
    return sorted(others, key=lambda step: abs(step - proportion))


def _other_limit(holdings: Holdings, limit: float, drift: int | None) -> str | None:
    """The smallest limit, on a grid, under which it can be had."""
    low, high = math.floor(limit / _STEP + 1e-9), round(1 / _STEP)
    if holdings.cap is None or fitting_changes(holdings.capped(1.0), drift) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if fitting_changes(holdings.capped(middle * _STEP), drift) is None:
            low = middle
        else:
            high = middle
    return f"max_posterior={high * _STEP:.2g}"


def _other_drift(holdings: Holdings) -> str | None:
    """How many records the totals must be allowed to move by."""
    least = min(_least_drifts(holdings).values(), default=None)
    return None if least is None else f"drift={least // 2}"
