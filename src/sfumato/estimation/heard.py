"""Heard: what the reports of one group of people say of the itemsets it was asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.kinds import BasketKinds, Itemset

Floats = NDArray[np.float64]

DRAWN = 8000  # baskets that stand for all where it is asked how many candidates one holds


@dataclass(frozen=True, eq=False)
class Heard:
    """What the reports of one group say: of each itemset the share of people who hold it and whose
    basket kept it, with its variance.
    """

    itemsets: tuple[Itemset, ...]
    kept: Floats  # (itemsets,)
    variance: Floats
    cap: int
    people: int
    whole: bool  # whether any item of the universe could be told, by its hash


def survival(heard: Heard, kinds: BasketKinds) -> Floats:  # (itemsets,)
    """How often each candidate is among those that a basket which holds it keeps: E[min(1, m/c) |
    held], c the candidates that the basket holds.
    """
    held = held_of(heard.itemsets, kinds).astype(np.float32)
    sizes = held.sum(axis=0)
    kept = np.minimum(1.0, heard.cap / np.maximum(sizes, 1))
    everyone = float(kept @ sizes / max(sizes.sum(), 1))
    # Of a rare candidate few drawn baskets tell: all others then count as a few more.
    return np.asarray((held @ kept + 20 * everyone) / (held.sum(axis=1) + 20), dtype=np.float64)


def held_of(itemsets: Sequence[Itemset], kinds: BasketKinds) -> NDArray[np.bool_]:
    """Which candidates baskets of these kinds hold: (itemsets, DRAWN)."""
    items = np.array(sorted({item for each in itemsets for item in each}))
    place = {item: number for number, item in enumerate(items.tolist())}
    baskets = kinds.drawn(DRAWN, items)
    held = np.ones((len(itemsets), DRAWN), dtype=bool)
    for number, each in enumerate(itemsets):
        for item in each:
            held[number] &= baskets[place[item]]
    return held
