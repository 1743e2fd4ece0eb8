"""Coins: whether the items of a basket, or the columns of a record, are each decided by a coin of
their own.

Two items that share one coin flip together. Signed deviations hide it, since their signs cancel
where the two truths differ; flips show it. A third coin that is made of two others is independent
of each, and shows three by three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.agreement import item_chance, triples
from sfumato.audit.baskets import BasketFit
from sfumato.audit.check import Check, bounded, worst_log
from sfumato.audit.paired import Paired
from sfumato.channels import NotLumpableError

PAIRED_ITEMS = 128  # items taken two by two
TRIPLED_ITEMS = 24  # items taken three by three
MOST_CELLS = 1 << 25  # rows times items that are unpacked
ITEM_PAIRS = "every two items are flipped by coins of their own"
ITEM_TRIPLES = "every three items are flipped by coins of their own"
COLUMN_TRIPLES = "every three columns are kept together as often as they should"

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Flips:
    """Of some items, row by row: flipped less the probability of that, its variance,
    and the truth.
    """

    left: Floats  # (rows, items)
    variance: Floats
    truth: Floats
    names: tuple[str, ...]

    @classmethod
    def of(cls, fit: BasketFit, items: NDArray[np.intp], most_rows: int) -> Flips:
        rows = min(fit.truth.rows, most_rows, max(1, MOST_CELLS // max(1, len(items))))
        stay = np.stack([item_chance(fit, int(item))[:rows] for item in items], axis=1)
        truth, report = (
            bits.slice(0, rows).select(items).to_dense() for bits in (fit.truth, fit.report)
        )
        labels = fit.paired.mechanism.private_reports.attributes[0].labels
        names = tuple(labels[item] for item in items)
        return cls(
            (truth != report) - (1 - stay), stay * (1 - stay), truth.astype(np.float64), names
        )

    @property
    def rows(self) -> int:
        return len(self.left)

    @property
    def sign(self) -> Floats:
        """1 where a flip puts an item in, -1 where it takes one out."""
        return 1 - 2 * self.truth


def coin_checks(paired: Paired) -> list[Check]:
    """Items two by two and three by three, or columns three by three."""
    if not paired.in_baskets:
        check = _column_triples(paired) if paired.in_place else None
        return [] if check is None else [check]
    fit = BasketFit(paired)
    items = np.argsort(-fit.truth.counts(), kind="stable")[:PAIRED_ITEMS]
    flips = Flips.of(fit, items, fit.truth.rows)
    checks = [_item_pairs(fit, flips)] if len(items) > 1 else []
    # Items that the mechanism itself ties together have a joint law of three that is not written
    # down here.
    if len(items) > 2 and not fit.law.pairs.any():
        checks.append(_item_triples(flips))
    return checks


def _column_triples(paired: Paired) -> Check | None:
    try:
        found = list(triples(paired))
    except NotLumpableError:
        return None
    if not found:
        return None
    logs = [bounded(one.left.sum(), one.variance.sum(), one.most, one.least) for one in found]
    return worst_log(COLUMN_TRIPLES, logs, len(found), lambda place: found[place].name)


def _item_pairs(fit: BasketFit, flips: Flips) -> Check:
    """Σ f_a f_b against the covariance that the mechanism itself gives two true items."""
    allowed: Floats | float = 0.0
    if fit.law.pairs.any():
        shared = fit.law.pairs[fit.sizes[: flips.rows]]
        allowed = (flips.truth * shared[:, None]).T @ flips.truth
    first, second = np.triu_indices(len(flips.names), 1)
    products = (flips.left.T @ flips.left - allowed)[first, second]
    spread = (flips.variance.T @ flips.variance)[first, second]
    logs = bounded(products, spread)

    def detail(place: int) -> str:
        return f"'{flips.names[first[place]]}' and '{flips.names[second[place]]}'"

    return worst_log(ITEM_PAIRS, logs, len(logs), detail)


def _item_triples(flips: Flips) -> Check:
    names = flips.names[:TRIPLED_ITEMS]
    left, variance = (values[:, : len(names)] for values in (flips.left, flips.variance))
    logs, places = [], []
    for first in range(len(names) - 2):
        rest = slice(first + 1, None)
        products = (left[:, rest] * left[:, [first]]).T @ left[:, rest]
        spread = (variance[:, rest] * variance[:, [first]]).T @ variance[:, rest]
        second, third = np.triu_indices(len(products), 1)
        logs.append(bounded(products[second, third], spread[second, third]))
        places += [
            (first, first + 1 + b, first + 1 + c) for b, c in zip(second, third, strict=True)
        ]

    def detail(place: int) -> str:
        a, b, c = (names[item] for item in places[place])
        return f"'{a}', '{b}' and '{c}'"

    return worst_log(ITEM_TRIPLES, np.concatenate(logs), len(places), detail)
