"""SVSM (Wang, Li and Jha 2018), the peer for itemsets under one guarantee for a whole basket,
re-implemented from the paper and from what the authors' released code does: nothing here is theirs.
Line by line it does what that does (github.com/vvv214/LDP_Protocols, svsm), but for one person left
out between groups.

Counts of local hashing are drawn from their exact laws, value by value. As released, what padding
and sampling takes away (a factor ℓ, one item of ℓ being reported) is not put back; `restored` puts
it back.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Itemset = tuple[int, ...]

SINGLES, PRUNING, SIZING, SET_SIZING, WITHIN = 0.4, 0.4, 0.1, 0.2, 0.9
MOST_LENGTH = 30


@dataclass(frozen=True, eq=False)
class Baskets:
    """Rows of items: row r holds items[offsets[r]:offsets[r + 1]], ascending."""

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    universe: int

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: NDArray[np.integer]) -> Baskets:
        sizes = np.diff(self.offsets)[rows]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(self.offsets[rows] - ends[:-1], sizes) + np.arange(ends[-1])
        return Baskets(ends, self.items[places], self.universe)

    def slice(self, first: int, last: int) -> Baskets:
        return self.take(np.arange(first, last))

    def held(self, itemsets: Sequence[Itemset]) -> NDArray[np.bool_]:  # (itemsets, rows)
        """Which rows hold each itemset."""
        named = sorted({item for each in itemsets for item in each})
        place = np.full(self.universe, -1)
        place[named] = np.arange(len(named))
        row = np.repeat(np.arange(self.rows), np.diff(self.offsets))
        kept = place[self.items] >= 0
        columns = np.zeros((len(named), self.rows), dtype=bool)
        columns[place[self.items[kept]], row[kept]] = True
        return np.stack([columns[place[list(each)]].all(axis=0) for each in itemsets])


@dataclass(frozen=True, eq=False)
class Svsm:
    """The protocol for the k itemsets of largest support at ε."""

    top: int
    epsilon: float
    restored: bool
    rng: np.random.Generator

    def find(self, people: Baskets) -> dict[Itemset, float]:
        """The itemsets found and their estimated supports."""
        users = int(SINGLES * people.rows)
        keys, counts = self._singles(people, users)
        sets = self._products(keys, counts)
        found = self._itemsets(people, users, sets)
        every = [(int(key),) for key in keys] + [tuple(sorted(each)) for each in sets]
        values = np.append(counts, found)
        best = np.argsort(values)[-self.top :]
        return {every[place]: values[place] / users for place in best}

    def _singles(self, people: Baskets, users: int) -> tuple[NDArray[np.intp], Floats]:
        first = int(users * PRUNING)
        second = first + int(SIZING * users)
        part = people.slice(0, first)
        sizes = np.diff(part.offsets)
        chosen = part.items[(part.offsets[:-1] + self.rng.integers(0, sizes))]
        reported = self._hashed(np.bincount(chosen, minlength=people.universe))
        keys = np.argsort(reported)[-2 * self.top :]
        sets = [(int(key),) for key in keys]
        length = self._length(people.slice(first, second).held(sets).sum(axis=0), len(sets))
        rest = people.slice(second, users)
        values = self._padded(rest.held(sets), np.ones(rest.rows, dtype=bool), length)
        values *= users / WITHIN / (users - second)
        best = np.argsort(values)[-self.top :]
        return keys[best], values[best]

    def _itemsets(self, people: Baskets, users: int, sets: Sequence[Itemset]) -> Floats:
        second = users + int(SET_SIZING * (people.rows - users))
        sizes = people.slice(users, second).held(sets).sum(axis=0)
        law = self._sizes_law(sizes, len(sets))
        length = _percentile(law)
        rest = people.slice(second, people.rows)
        # As released, those who hold no item of any candidate are left out, and only those.
        named = sorted({item for each in sets for item in each})
        asked = rest.held([(item,) for item in named]).any(axis=0)
        values = self._padded(rest.held(sets), asked, length)
        values *= users / WITHIN / (people.rows - second)
        beyond = 0.0
        for size in range(length + 1, len(law)):
            beyond += law[size] * (size - length)
            if law[size] == 0:
                break
        return values * (1 + beyond / values.sum())

    def _length(self, sizes: NDArray[np.integer], most: int) -> int:
        return _percentile(self._sizes_law(sizes, most))

    def _sizes_law(self, sizes: NDArray[np.integer], most: int) -> Floats:
        return self._hashed(np.bincount(sizes[sizes > 0], minlength=most + 1))

    def _hashed(self, counts: NDArray[np.integer]) -> Floats:
        """Optimal local hashing with g = ⌊e^ε⌋ + 1 and p = ½, by the law of its counts."""
        buckets = int(math.exp(self.epsilon)) + 1
        people, other = int(counts.sum()), 1 / buckets
        hits = self.rng.binomial(counts, 0.5) + self.rng.binomial(people - counts, other)
        return (hits - people * other) / (0.5 - other)

    def _padded(
        self, held: NDArray[np.bool_], asked: NDArray[np.bool_], length: int
    ) -> Floats:  # (itemsets,)
        """Padding-and-sampling at length ℓ, by k-ary response where that is better."""
        sizes = held.sum(axis=0)
        place = self.rng.integers(0, np.maximum(sizes, length))
        answers = np.full(len(sizes), len(held))
        item = np.nonzero(held.T)[1]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        own = np.flatnonzero(place < sizes)
        answers[own] = item[starts[own] + place[own]]
        counts = np.bincount(answers[asked], minlength=len(held) + 1)
        factor = length if self.restored else 1
        return factor * self._oracle(counts, length)[:-1]

    def _oracle(self, counts: NDArray[np.integer], length: int) -> Floats:
        gamma = math.exp(self.epsilon)
        if len(counts) >= length * gamma * (4 * length - 1) + 1:
            return self._hashed(counts)
        amplified = length * (gamma - 1) + 1
        people, size = int(counts.sum()), len(counts)
        keep, other = amplified / (amplified + size - 1), 1 / (amplified + size - 1)
        kept = self.rng.binomial(counts, keep)
        moved = counts - kept
        seen = kept.astype(np.float64)
        for value, number in enumerate(moved.tolist()):
            law = np.full(size, 1 / (size - 1))
            law[value] = 0
            seen += self.rng.multinomial(number, law)
        return (seen - people * other) / (keep - other)

    def _products(self, keys: NDArray[np.intp], counts: Floats) -> list[Itemset]:
        """The itemsets of largest product of scaled estimates."""
        scaled = counts * WITHIN / counts[-1]
        kept: list[tuple[float, Itemset]] = [(float(v), (p,)) for p, v in enumerate(scaled)]
        heapq.heapify(kept)
        level = sorted(((float(v), (p,)) for p, v in enumerate(scaled)), reverse=True)
        while level:
            longer = []
            for value, places in level:
                for place in range(places[-1] + 1, len(keys)):
                    product = value * float(scaled[place])
                    if product > kept[0][0]:
                        if len(kept) >= 3 * len(keys):
                            heapq.heappop(kept)
                        heapq.heappush(kept, (product, (*places, place)))
                        longer.append((product, (*places, place)))
            level = sorted(longer, reverse=True)
        best = sorted((value, places) for value, places in kept if len(places) > 1)[-self.top :]
        return [tuple(int(keys[place]) for place in places) for _, places in best]


def _percentile(law: Floats) -> int:
    total, length, upto = float(law.sum()), 1, 0.0
    for length in range(1, len(law)):
        upto += float(law[length])
        if length > MOST_LENGTH or upto / total > WITHIN:
            break
    return length
