"""Account: releases about people as entries, what they compose to, and the budget they must fit
in.

Every release that depends on a person's record counts in full: guarantees of reports about the same
record multiply, so epsilons add, whether the same question is asked again, two questions share an
attribute, or they share none (an attribute may betray another). People are independent, so an
account of many keys is as bad as its worst key.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sfumato.errors import PrivacyError
from sfumato.printable import downwards, upwards

# Sums of rounded logarithms differ from the exact sum by a few units in the last place; three times
# 0.1 must fit in 0.3.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Entry:
    """One release about one key: what was asked, of which attributes, what it cost, and the report
    that was drawn.
    """

    key: str
    release: str
    epsilon: float
    attributes: tuple[str, ...]
    at: str
    report: Any = None
    state: str = "charged"  # without a report; else "pending" until it is "sent", or "forgotten"


@dataclass(frozen=True)
class Account:
    """What a ledger holds: its entries, and the budget of epsilon that no key may exceed (infinite
    when none is set).

    >>> spring = Entry("k", "spring", 1.25, ("age",), "")
    >>> autumn = Entry("k", "autumn", 0.4, ("age", "sex"), "")
    >>> seen = Account((spring, autumn), budget=2.0)
    >>> round(seen.spent("k"), 2), round(seen.left("k"), 2), round(seen.spent_on("k", ["sex"]), 2)
    (1.65, 0.35, 0.4)
    """

    entries: tuple[Entry, ...] = ()
    budget: float = math.inf

    def of(self, key: str) -> tuple[Entry, ...]:
        """The entries of one key, oldest first."""
        return tuple(entry for entry in self.entries if entry.key == key)

    def spent(self, key: str) -> float:
        """The epsilon that all reports of this key compose to: their sum."""
        return math.fsum(entry.epsilon for entry in self.of(key))

    def spent_on(self, key: str, attributes: Collection[str]) -> float:
        """The epsilon of the reports that any of these attributes entered.

        It bounds what is learned about these attributes by someone who already knows all the
        others; for everyone else only `spent` does, because the others may betray them.
        """
        wanted = set(attributes)
        return math.fsum(entry.epsilon for entry in self.of(key) if wanted & set(entry.attributes))

    def left(self, key: str) -> float:
        """The epsilon that this key may still spend."""
        return left_of(self.budget, self.spent(key))

    def worst(self) -> float:
        """The largest epsilon that any one key has spent: the guarantee of the whole ledger."""
        return max((self.spent(key) for key in {entry.key for entry in self.entries}), default=0.0)


def left_of(budget: float, spent: float) -> float:
    """What is left of a budget; of an infinite one, all of it."""
    return max(budget - spent, 0.0) if math.isfinite(budget) else math.inf


def spent_words(epsilon: float) -> str:
    """What was spent, or would be, as people read it: rounded up.

    >>> spent_words(2.9444), left_words(3.05561), left_words(10.9996), left_words(2e-16)
    ('2.945', '3.055', '10.99', '0')
    """
    return f"{upwards(epsilon):.4g}"


def left_words(epsilon: float) -> str:
    """What may be spent, or what is left of it: rounded down."""
    return f"{downwards(epsilon) if epsilon > ROUNDING else 0:.4g}"


def check_affordable(cost: float, spent: float, budget: float, entries: int) -> None:
    """Raise, with the figures, if a key that has spent so much in so many entries cannot afford the
    cost.
    """
    left = left_of(budget, spent)
    if cost <= left + ROUNDING:
        return
    raise PrivacyError(
        f"this release costs epsilon {spent_words(cost)}, but {left_words(left)} is left of "
        f"{left_words(budget)} ({entries} {'entry' if entries == 1 else 'entries'} in the ledger)",
        cost=cost,
        left=left,
        budget=budget,
        entries=entries,
    )
