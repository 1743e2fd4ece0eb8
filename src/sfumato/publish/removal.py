"""The removals of Oliveira and Zaïane (2002): which item leaves which sensitive basket, by four simple rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.publish.restriction import Restriction
from sfumato.randomness import Keystream

__all__ = ["RULES_OF_REMOVAL", "Removals", "number_to_sanitise", "remove"]


@dataclass(frozen=True, eq=False)
class Removals:
    """Pairs of basket and item to take out of it, each pair once."""

    rows: NDArray[np.int64]
    items: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.integer], items: NDArray[np.integer]) -> Removals:
        """The pairs, sorted and without repeats."""
        pairs = np.unique(np.stack([rows, items], axis=1).astype(np.int64).reshape(-1, 2), axis=0)
        return cls(pairs[:, 0], pairs[:, 1])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def baskets(self) -> int:
        """How many baskets are changed."""
        return len(np.unique(self.rows))


@dataclass(frozen=True, eq=False)
class Sensitive:
    """Baskets that hold a restriction, by restriction, with the degree of conflict of every basket."""

    restrictions: tuple[Restriction, ...]
    holders: tuple[NDArray[np.intp], ...]
    conflict: NDArray[np.int64]  # how many restrictions each basket holds
    supports: NDArray[np.int64]  # how many baskets hold each item

    @classmethod
    def find(cls, bits: Bits, restrictions: Sequence[Restriction], rng: Keystream) -> Sensitive:
        """The sensitive baskets, each list in random order so that no tie depends on the order of the file."""
        holders = []
        for restriction in restrictions:
            rows = restriction.holders(bits)
            holders.append(rows[rng.permutation(len(rows))])
        conflict = np.zeros(bits.rows, dtype=np.int64)
        for rows in holders:
            conflict[rows] += 1
        return cls(tuple(restrictions), tuple(holders), conflict, bits.counts())


def number_to_sanitise(holders: int, disclosure: float) -> int:
    """(1 − ψ)·|T|, rounded up: at most a share ψ of the sensitive baskets is left alone."""
    return int(np.ceil((1 - disclosure) * holders - 1e-9))


def remove(bits: Bits, removals: Removals) -> Bits:
    """The baskets without the removed items."""
    words = bits.words.copy()
    mask = ~(np.uint64(1) << (removals.rows % 64).astype(np.uint64))
    np.bitwise_and.at(words, (removals.items, removals.rows // 64), mask)
    return Bits(words, bits.rows)


def naive(bits: Bits, sensitive: Sensitive, disclosure: float) -> Removals:
    """Every victim item leaves the sensitive basket; of a basket that would be left empty the commonest item stays."""
    sizes = bits.sizes()
    rows, items = [], []
    for restriction, holders in zip(sensitive.restrictions, sensitive.holders, strict=True):
        chosen = _by_conflict(sensitive, holders, ascending=True)[: number_to_sanitise(len(holders), disclosure)]
        commonest = max(restriction.victims, key=lambda item: int(sensitive.supports[item]))
        for item in restriction.victims:
            kept = item == commonest and len(restriction.victims) > 1
            leaving = chosen[sizes[chosen] > len(restriction.items)] if kept else chosen
            rows.append(leaving)
            items.append(np.full(len(leaving), item))
    return Removals.of(np.concatenate(rows), np.concatenate(items))


def min_fia(bits: Bits, sensitive: Sensitive, disclosure: float) -> Removals:
    """The rarest item of the restriction leaves; baskets of least conflict first."""
    victims = [min(r.victims, key=lambda item: (int(sensitive.supports[item]), item)) for r in sensitive.restrictions]
    return _one_victim_each(sensitive, victims, disclosure, ascending=True)


def max_fia(bits: Bits, sensitive: Sensitive, disclosure: float) -> Removals:
    """The commonest item of the restriction leaves; baskets of least conflict first."""
    victims = [max(r.victims, key=lambda item: (int(sensitive.supports[item]), -item)) for r in sensitive.restrictions]
    return _one_victim_each(sensitive, victims, disclosure, ascending=True)


def item_grouping(bits: Bits, sensitive: Sensitive, disclosure: float) -> Removals:
    """IGA: the item that most restrictions share leaves (of equal ones the rarest); baskets of most conflict first."""
    shared: dict[int, int] = {}
    for restriction in sensitive.restrictions:
        for item in restriction.victims:
            shared[item] = shared.get(item, 0) + 1
    victims = [
        min(r.victims, key=lambda item: (-shared[item], int(sensitive.supports[item]), item)) for r in sensitive.restrictions
    ]
    return _one_victim_each(sensitive, victims, disclosure, ascending=False)


RULES_OF_REMOVAL: dict[str, Callable[[Bits, Sensitive, float], Removals]] = {
    "naive": naive,
    "minfia": min_fia,
    "maxfia": max_fia,
    "iga": item_grouping,
}


def _by_conflict(sensitive: Sensitive, holders: NDArray[np.intp], *, ascending: bool) -> NDArray[np.intp]:
    conflict = sensitive.conflict[holders]
    return holders[np.argsort(conflict if ascending else -conflict, kind="stable")]


def _one_victim_each(sensitive: Sensitive, victims: Sequence[int], disclosure: float, *, ascending: bool) -> Removals:
    rows, items = [], []
    for victim, holders in zip(victims, sensitive.holders, strict=True):
        chosen = _by_conflict(sensitive, holders, ascending=ascending)[: number_to_sanitise(len(holders), disclosure)]
        rows.append(chosen)
        items.append(np.full(len(chosen), victim))
    return Removals.of(np.concatenate(rows), np.concatenate(items))
