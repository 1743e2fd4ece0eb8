"""What must not be found in released baskets, itemsets and rules of which only one direction is
secret; and which item leaves which sensitive basket by the four rules of Oliveira and Zaïane
(2002).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.bits import Bits
from sfumato.errors import DataError, FileError, ParameterError, near_miss
from sfumato.privacy.probability import check_number
from sfumato.randomness import Keystream
from sfumato.untrusted import MOST_LIST_BYTES, read_text

ARROWS = ("->", "→", "=>")
_ARROW = re.compile(rf"\s*(?:{'|'.join(ARROWS)})\s*")


@dataclass(frozen=True)
class Limits:
    """When an itemset is frequent and when a rule holds."""

    min_count: int
    min_confidence: float | None = None

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise ParameterError(
                f"min_count={self.min_count} makes everything frequent; use 1 or more"
            )
        if self.min_confidence is not None:
            check_number("min_confidence", self.min_confidence)
        if self.min_confidence is not None and not 0 < self.min_confidence <= 1:
            raise ParameterError(f"min_confidence={self.min_confidence:g} lies outside (0, 1]")

    @classmethod
    def stated(
        cls,
        rows: int,
        min_support: float | None,
        min_count: int | None,
        min_confidence: float | None = None,
    ) -> Limits:
        """The limits among so many baskets, stated by share or by number.

        >>> Limits.stated(88162, 0.003, None).min_count
        265
        """
        if (min_support is None) == (min_count is None):
            raise ParameterError(
                "say what is frequent, one way", hint="give min_support or min_count"
            )
        if min_support is None:
            if isinstance(min_count, bool) or not isinstance(min_count, int):
                raise ParameterError(f"min_count={shown(min_count)} is no whole number")
            return cls(min_count, min_confidence)
        if isinstance(min_support, bool) or not isinstance(min_support, int | float):
            raise ParameterError(
                f"min_support={shown(min_support)} is no number", hint="use 0 < S <= 1"
            )
        if not 0 < min_support <= 1:
            raise ParameterError(
                f"min_support={min_support:g} is no fraction", hint="use 0 < S <= 1"
            )
        return cls(max(1, math.ceil(min_support * rows * (1 - 1e-12))), min_confidence)


@dataclass(frozen=True)
class Restriction:
    """A secret itemset (`consequent` empty), or a secret rule antecedent → consequent; items are
    numbers.

    An itemset is hidden when fewer than `min_count` baskets hold it, a rule also when its
    confidence falls below `min_confidence` while the itemset behind it stays frequent.
    """

    antecedent: tuple[int, ...]
    consequent: tuple[int, ...] = ()

    @property
    def items(self) -> tuple[int, ...]:
        """All items, ascending."""
        return tuple(sorted(self.antecedent + self.consequent))

    @property
    def victims(self) -> tuple[int, ...]:
        """The items whose removal hides it: any of an itemset, those of the consequent of a rule.

        Removing from the antecedent would lower the denominator of the confidence as well.
        """
        return self.consequent or self.antecedent

    def holders(self, bits: Bits) -> NDArray[np.intp]:
        """The baskets that hold all its items, by the inverted index."""
        return _baskets_with(bits, self.items)

    def most_left(self, bits: Bits, limits: Limits) -> int:
        """In how many baskets all its items may stay together."""
        fewer_than = limits.min_count
        if self.consequent:
            confidence = limits.min_confidence or 0.0
            antecedent = len(_baskets_with(bits, self.antecedent))
            fewer_than = max(fewer_than, int(np.ceil(confidence * antecedent - 1e-9)))
        return max(0, fewer_than - 1)

    def holds(self, bits: Bits, limits: Limits) -> bool:
        """Whether a miner would find it."""
        return len(self.holders(bits)) > self.most_left(bits, limits)

    def confidence(self, bits: Bits) -> float | None:
        """Confidence of the rule; None for an itemset."""
        return _confidence(bits, self.antecedent, self.items) if self.consequent else None

    def reverse_confidence(self, bits: Bits) -> float | None:
        """Confidence of the rule read backwards, which is no secret; None for an itemset."""
        return _confidence(bits, self.consequent, self.items) if self.consequent else None

    def named(self, names: Sequence[str]) -> str:
        """As it was written: items by name."""
        left, right = (
            " ".join(names[item] for item in side) for side in (self.antecedent, self.consequent)
        )
        return f"{left} -> {right}" if right else left


def patterns_of(patterns: Any, names: Sequence[str]) -> tuple[Restriction, ...]:
    """The restrictions in a file, in text with one a line, or in a list of texts, itemsets or
    restrictions.

    >>> patterns_of(["tea milk", ("tea", "jam")], ["jam", "milk", "tea"])
    (Restriction(antecedent=(1, 2), consequent=()), Restriction(antecedent=(0, 2), consequent=()))
    """
    if isinstance(patterns, Restriction):
        return (patterns,)
    if isinstance(patterns, str | Path):
        return read_restrictions(_lines(patterns), names)
    if not isinstance(patterns, Iterable):
        raise ParameterError(
            f"patterns={shown(patterns)} names no pattern",
            hint='give a file, or a list such as ["39 48"]',
        )
    found = list(patterns)
    ready = [one for one in found if isinstance(one, Restriction)]
    written = [_written(one) for one in found if not isinstance(one, Restriction)]
    return tuple(ready) + (read_restrictions(written, names) if written or not ready else ())


def _lines(patterns: str | Path) -> list[str]:
    # Names of files have no blanks; what has neither a dot nor a slash is no name either.
    named = not any(mark.isspace() for mark in str(patterns)) and bool({*"/."} & {*str(patterns)})
    if isinstance(patterns, str) and not named and not os.path.isfile(patterns):
        return patterns.splitlines()
    return read_text(Path(patterns), f"patterns file '{patterns}'", MOST_LIST_BYTES).splitlines()


def _written(pattern: Any) -> str | list[str]:
    if isinstance(pattern, str):
        return pattern
    if isinstance(pattern, Iterable):
        words = [str(item) for item in pattern]
        return " ".join(words) if set(words) & set(ARROWS) else words
    raise ParameterError(
        f"{shown(pattern)} is no pattern",
        hint='write "39 48" for an itemset, "39 -> 48" for a rule',
    )


@checked
def read_restrictions(
    lines: Iterable[str | Sequence[str]], names: Sequence[str]
) -> tuple[Restriction, ...]:
    """The restrictions of a patterns file: one a line, `39 48` an itemset, `39 48 -> 41` a rule,
    `#` starts a remark. An itemset may be a list of its items too, blanks in their names and all.

    >>> read_restrictions(["tea milk", "tea -> jam  # not the other way round"], ["jam", "milk",
    ...     "tea"])
    (Restriction(antecedent=(1, 2), consequent=()), Restriction(antecedent=(2,), consequent=(0,)))
    """
    number = {name: position for position, name in enumerate(names)}
    found: dict[Restriction, None] = {}
    for place, line in enumerate(lines, 1):
        sides = _words(line, place) if isinstance(line, str) else [list(line)] * bool(line)
        if sides:
            found[_restriction(sides, place, number)] = None
    if not found:
        raise FileError(
            "the patterns file names no pattern",
            hint="write one itemset or rule a line, such as 39 48",
        )
    return tuple(found)


def _words(line: str, place: int) -> list[list[str]]:
    """The items of an itemset, or of the two sides of a rule; nothing of a remark."""
    text = line.partition("#")[0].strip()
    if not text:
        return []
    sides = _ARROW.split(text)
    if len(sides) > 2 or not all(side.strip() for side in sides):
        raise DataError(
            f"line {place}: '{text}' is no pattern",
            hint="write an itemset as A B, a rule as A B -> C",
        )
    return [re.split(r"[\s,]+", side.strip()) for side in sides]


def _restriction(sides: list[list[str]], place: int, number: dict[str, int]) -> Restriction:
    for word in chain.from_iterable(sides):
        if word not in number:
            raise DataError(
                f"line {place}: item '{word}' never occurs in these baskets",
                hint=near_miss(word, number),
            )
    left, *right = [tuple(sorted({number[word] for word in side})) for side in sides]
    if right and set(left) & set(right[0]):
        text = " -> ".join(" ".join(side) for side in sides)
        raise DataError(f"line {place}: '{text}' has an item on both sides of the arrow")
    return Restriction(left, right[0] if right else ())


def _baskets_with(bits: Bits, items: Sequence[int]) -> NDArray[np.intp]:
    common = np.bitwise_and.reduce(bits.words[list(items)], axis=0)
    return np.flatnonzero(np.unpackbits(common.view(np.uint8), count=bits.rows, bitorder="little"))


def _confidence(bits: Bits, antecedent: Sequence[int], items: Sequence[int]) -> float | None:
    below = len(_baskets_with(bits, antecedent))
    return len(_baskets_with(bits, items)) / below if below else None


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
