"""Heard: what the reports of one group of people say of the itemsets it was asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.kinds import BasketKinds, Itemset

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

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

    @cached_property
    def _numbers(self) -> dict[Itemset, int]:
        return {each: place for place, each in enumerate(self.itemsets)}

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many items each itemset has."""
        return np.array([len(each) for each in self.itemsets], dtype=np.int64)

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Which of the itemsets are single items."""
        return self.lengths == 1

    @cached_property
    def fullness(self) -> float:
        """The candidates that baskets kept on the mean, beside the most that one may: 0 where the
        cap is above their number.
        """
        if not self.whole and self.cap >= len(self.itemsets):
            return 0.0
        return float(np.clip(self.kept.sum() / self.cap, 0, 1))

    def places(self, itemsets: Sequence[Itemset]) -> tuple[Places, Places]:
        """Which of these itemsets were asked about, and where they stand here."""
        return _placed(self, tuple(itemsets))

    def sure(self, errors: float) -> set[Itemset]:
        """The itemsets found so many standard errors from 0 at least."""
        far = np.flatnonzero(self.kept > errors * np.sqrt(self.variance))
        return {self.itemsets[place] for place in far}

    def within(self, items: Mapping[int, int]) -> Places:
        """The itemsets of these items alone."""
        found = [
            place
            for place, each in enumerate(self.itemsets)
            if each[0] in items and all(item in items for item in each)
        ]
        return np.array(found, dtype=np.intp)


@lru_cache(maxsize=64)
def _placed(heard: Heard, itemsets: tuple[Itemset, ...]) -> tuple[Places, Places]:
    """The same, found once: every supposition asks for it."""
    own = np.array([heard._numbers.get(each, -1) for each in itemsets], dtype=np.intp)
    known = np.flatnonzero(own >= 0)
    return known, own[known]


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
