"""Which item leaves which sensitive basket, by the four rules of Oliveira and Zaïane (2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.publish.restriction import Restriction
from sfumato.randomness import Keystream

__all__ = ["RULES_OF_REMOVAL", "Entries", "Sensitive", "number_to_sanitise", "remove"]


@dataclass(frozen=True, eq=False)
class Entries:
    """Pairs of basket and item, each pair once: what is taken out."""

    rows: NDArray[np.int64]
    items: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.integer], items: NDArray[np.integer]) -> Entries:
        """The pairs, sorted and without repeats."""
        pairs = np.unique(np.stack([rows, items], axis=1).astype(np.int64).reshape(-1, 2), axis=0)
        return cls(pairs[:, 0], pairs[:, 1])

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """The pairs of all parts."""
        none = np.zeros(0, dtype=np.int64)
        return cls.of(
            np.concatenate([none, *(part.rows for part in parts)]),
            np.concatenate([none, *(part.items for part in parts)]),
        )

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Sensitive:
    """Baskets that hold a restriction, by restriction, with the degree of conflict of
    every basket.
    """

    restrictions: tuple[Restriction, ...]
    holders: tuple[NDArray[np.intp], ...]
    conflict: NDArray[np.int64]  # how many restrictions each basket holds
    supports: NDArray[np.int64]  # how many baskets hold each item

    @classmethod
    def find(cls, bits: Bits, restrictions: Sequence[Restriction], rng: Keystream) -> Sensitive:
        """The sensitive baskets, each list in random order so that no tie depends on the order of
        the file.
        """
        holders = []
        for restriction in restrictions:
            rows = restriction.holders(bits)
            holders.append(rows[rng.permutation(len(rows))])
        conflict = np.zeros(bits.rows, dtype=np.int64)
        for rows in holders:
            conflict[rows] += 1
        return cls(tuple(restrictions), tuple(holders), conflict, bits.counts())


Rule = Callable[[Bits, Sensitive, Sequence[int]], Entries]


def number_to_sanitise(holders: int, disclosure: float) -> int:
    """(1 − ψ)·|T|, rounded up: at most a share ψ of the sensitive baskets is left alone."""
    return int(np.ceil((1 - disclosure) * holders - 1e-9))


def remove(bits: Bits, entries: Entries) -> Bits:
    """The baskets without the removed items."""
    words = bits.words.copy()
    mask = ~(np.uint64(1) << (entries.rows % 64).astype(np.uint64))
    np.bitwise_and.at(words, (entries.items, entries.rows // 64), mask)
    return Bits(words, bits.rows)


def naive(bits: Bits, sensitive: Sensitive, numbers: Sequence[int]) -> Entries:
    """Every victim item leaves the sensitive basket; of a basket that would be left empty the
    commonest item stays.
    """
    sizes = bits.sizes()
    rows, items = [], []
    for restriction, holders, number in zip(
        sensitive.restrictions, sensitive.holders, numbers, strict=True
    ):
        chosen = _by_conflict(sensitive, holders, ascending=True)[:number]
        commonest = max(restriction.victims, key=lambda item: int(sensitive.supports[item]))
        for item in restriction.victims:
            kept = item == commonest and len(restriction.victims) > 1
            leaving = chosen[sizes[chosen] > len(restriction.items)] if kept else chosen
            rows.append(leaving)
            items.append(np.full(len(leaving), item))
    return Entries.of(np.concatenate(rows), np.concatenate(items))


def _one_victim(
    rank: Callable[[Sensitive, int], tuple[int, ...]], *, ascending: bool = True
) -> Rule:
    """The rule by which the item of the restriction that ranks first leaves; baskets of least
    conflict first, unless those of most.
    """

    def rule(bits: Bits, sensitive: Sensitive, numbers: Sequence[int]) -> Entries:
        rows, items = [], []
        for restriction, holders, number in zip(
            sensitive.restrictions, sensitive.holders, numbers, strict=True
        ):
            victim = min(restriction.victims, key=lambda item: (*rank(sensitive, item), item))
            rows.append(_by_conflict(sensitive, holders, ascending=ascending)[:number])
            items.append(np.full(len(rows[-1]), victim))
        return Entries.of(np.concatenate(rows), np.concatenate(items))

    return rule


def _grouped(sensitive: Sensitive, item: int) -> tuple[int, ...]:
    """An item that most restrictions share ranks first, of equal ones the rarest."""
    shared = sum(item in restriction.victims for restriction in sensitive.restrictions)
    return -shared, int(sensitive.supports[item])


RULES_OF_REMOVAL: dict[str, Rule] = {
    "naive": naive,
    "minfia": _one_victim(lambda sensitive, item: (int(sensitive.supports[item]),)),
    "maxfia": _one_victim(lambda sensitive, item: (-int(sensitive.supports[item]),)),
    "iga": _one_victim(_grouped, ascending=False),
}


def _by_conflict(
    sensitive: Sensitive, holders: NDArray[np.intp], *, ascending: bool
) -> NDArray[np.intp]:
    conflict = sensitive.conflict[holders]
    return holders[np.argsort(conflict if ascending else -conflict, kind="stable")]
