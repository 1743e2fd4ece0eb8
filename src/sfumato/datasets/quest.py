"""Synthetic baskets with patterns in them: the IBM Quest generator of Agrawal and Srikant (VLDB
1994, section 4.1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.datasets.nonuniform import choice, exponential, happens, normal, poisson
from sfumato.domain import Domain, Items
from sfumato.errors import ParameterError
from sfumato.memory import check_room
from sfumato.randomness import Keystream

Integers = NDArray[np.int64]
DRAWN = 40  # bytes of one item while all are drawn

_NAME = re.compile(r"([TIDNL])(\d+(?:\.\d+)?)([KM]?)", re.IGNORECASE)
_SCALE = {"": 1, "K": 1_000, "M": 1_000_000}
_FIELDS = {"T": "basket_size", "I": "pattern_size", "D": "baskets", "N": "items", "L": "patterns"}
_LANES = (
    1 << 14
)  # baskets filled side by side: enough to make NumPy's overhead small, few enough to stay in cache


@dataclass(frozen=True, eq=False)
class Baskets:
    """Baskets as compressed rows: basket b holds items[offsets[b]:offsets[b + 1]], sorted, each
    item once.
    """

    offsets: Integers  # (baskets + 1,)
    items: NDArray[np.int32]  # (total,)
    universe_size: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Integers:
        """How many baskets hold each item of the universe."""
        return np.bincount(self.items, minlength=self.universe_size)

    @property
    def domain(self) -> Domain:
        """The universe of items, named by their ids."""
        return Domain((Items("items", tuple(str(item) for item in range(self.universe_size))),))

    def bits(self) -> Bits:
        """The same baskets as packed columns."""
        return Bits.from_csr(self.offsets, self.items, self.universe_size)


@dataclass(frozen=True)
class Patterns:
    """The potentially large itemsets behind the baskets: padded rows of items, and how often and
    how badly each appears.
    """

    items: NDArray[np.int32]  # (patterns, longest), the first sizes[p] of row p count
    sizes: Integers  # (patterns,)
    weights: NDArray[np.float64]  # (patterns,)
    corruption: NDArray[np.float64]  # (patterns,) the chance that one more item is dropped


@dataclass(frozen=True)
class Quest:
    """A recipe for baskets, named as in the literature: T10.I4.D100K is basket_size 10,
    pattern_size 4, baskets 100,000.

    Basket sizes are 1 + Poisson(T - 1), pattern sizes 1 + Poisson(I - 1). A pattern takes an
    exponential share (mean `correlation`) of its items from the pattern before it, the rest from
    all items; it is chosen with an exponential weight and, each time it is put into a basket, loses
    items while a uniform number is below its corruption level (normal, mean `corruption`). A
    pattern that does not fit goes in all the same half of the time, else it waits for the next
    basket.

    As in the program IBM published, and beyond the paper's text, items have exponential weights of
    their own, and a basket that stays empty is made again, so none is empty. Ids run from 0 to
    items - 1. The defaults are the paper's; that program takes 0.1 for a standard deviation, so
    correlation 0.25 and corruption_variance 0.01 come nearest to the public T10I4D100K file.

    >>> from sfumato.randomness import seeded
    >>> baskets = Quest.from_name("T5.I2.D1K.N100").generate(seeded(1))
    >>> len(baskets), int(baskets.items.max()) < 100
    (1000, True)
    """

    baskets: int
    basket_size: float = 10
    pattern_size: float = 4
    items: int = 1_000
    patterns: int = 2_000
    correlation: float = 0.5
    corruption: float = 0.5
    corruption_variance: float = 0.1

    def __post_init__(self) -> None:
        for name in ("baskets", "items", "patterns", "basket_size", "pattern_size"):
            _check(
                name, getattr(self, name), 1, self.items if name.endswith("_size") else 2**31 - 1
            )
        _check("correlation", self.correlation, 0, 1)
        _check("corruption", self.corruption, 0, 1)
        _check("corruption_variance", self.corruption_variance, 0, 1)

    @classmethod
    def from_name(cls, name: str, **changes: Any) -> Quest:
        """The recipe behind a name such as 'T10.I4.D1M.N1K' (also L for patterns; K and M are
        thousands and millions).

        >>> Quest.from_name("T10.I4.D1M.N1K").baskets
        1000000
        """
        parts = _NAME.findall(name)
        letters = [letter.upper() for letter, _, _ in parts]
        if _NAME.sub("", name).strip(".") or "D" not in letters or len(set(letters)) < len(letters):
            raise ParameterError(
                f"'{name}' does not name a Quest data set",
                hint="write it as T10.I4.D100K.N1K: T, I, N and L once at most, D once",
            )
        values = {
            _FIELDS[letter.upper()]: float(number) * _SCALE[unit.upper()]
            for letter, number, unit in parts
        }
        whole = {
            field: value if field.endswith("_size") else int(value)
            for field, value in values.items()
        }
        return cls(**{**whole, **changes})

    @property
    def name(self) -> str:
        """The name in the form of the literature.

        >>> Quest(baskets=100_000).name
        'T10.I4.D100K.N1K.L2K'
        """
        return ".".join(letter + _short(getattr(self, field)) for letter, field in _FIELDS.items())

    def draw_patterns(self, rng: Keystream) -> Patterns:
        """The potentially large itemsets, with their weights and corruption levels."""
        sizes = np.minimum(1 + poisson(rng, self.pattern_size - 1, self.patterns), self.items)
        levels = self.corruption + np.sqrt(self.corruption_variance) * normal(rng, self.patterns)
        # A pattern that loses every item each time never shows; not drawing it gives the same
        # baskets sooner.
        weights = np.where(levels < 1, exponential(rng, self.patterns), 0)
        if not weights.any():
            raise ParameterError(
                f"corruption={self.corruption:g} leaves no item of any pattern",
                hint="use a smaller one",
            )
        return Patterns(_pattern_items(self, sizes, rng), sizes, weights, levels.clip(0, 1))

    def generate(self, rng: Keystream) -> Baskets:
        """Draw the baskets; a seeded keystream draws the same ones again."""
        check_room(self.baskets, DRAWN * (1 + math.ceil(self.basket_size)), "baskets")
        found = list(_fill(self, self.draw_patterns(rng), rng))
        keys = np.concatenate([basket * np.int64(self.items) + item for basket, item in found])
        keys.sort()
        basket, items = np.divmod(keys, self.items)
        offsets = np.zeros(self.baskets + 1, dtype=np.int64)
        np.cumsum(np.bincount(basket, minlength=self.baskets), out=offsets[1:])
        return Baskets(offsets, items.astype(np.int32), self.items)


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ParameterError(f"{name} is {value:g}; it must lie between {least:g} and {most:g}")


def _short(value: float) -> str:
    for unit, scale in (("M", 1_000_000), ("K", 1_000)):
        if value >= scale and value % scale == 0:
            return f"{value // scale:g}{unit}"
    return f"{value:g}"


def _pattern_items(recipe: Quest, sizes: Integers, rng: Keystream) -> NDArray[np.int32]:
    popularity = exponential(rng, recipe.items)
    shares = np.minimum(recipe.correlation * exponential(rng, recipe.patterns), 1)
    rows = np.zeros((recipe.patterns, int(sizes.max())), dtype=np.int32)
    previous = rows[0, :0]
    for row, size, share in zip(rows, sizes, shares, strict=True):
        same = min(round(float(size * share)), len(previous))
        kept = previous[rng.permutation(len(previous))[:same]]
        row[:size] = np.concatenate([kept, _fresh_items(popularity, kept, int(size) - same, rng)])
        previous = row[:size]
    return rows


def _fresh_items(
    popularity: NDArray[np.float64], taken: NDArray[np.int32], count: int, rng: Keystream
) -> Integers:
    """Draw without replacement, by popularity: the smallest exponential waiting times (Efraimidis
    and Spirakis 2006).
    """
    waiting = exponential(rng, len(popularity)) / popularity
    waiting[taken] = np.inf
    return (
        np.argpartition(waiting, count)[:count] if count < len(waiting) else np.arange(len(waiting))
    )


@dataclass
class _Lanes:
    """Baskets being filled side by side, one a lane; a lane starts the next unmade basket as soon
    as its own is full.
    """

    basket: Integers  # which basket the lane fills
    size: Integers  # how many items that basket should hold
    filled: Integers  # how many it holds
    tries: Integers  # patterns drawn for it so far
    waiting: Integers  # the pattern that did not fit the basket before, or -1
    held: NDArray[np.int32]  # (lanes, largest basket) its items so far, then -1

    def keep(self, lanes: NDArray[np.bool_]) -> None:
        if not lanes.all():
            self.basket, self.size, self.filled = (
                self.basket[lanes],
                self.size[lanes],
                self.filled[lanes],
            )
            self.tries, self.waiting, self.held = (
                self.tries[lanes],
                self.waiting[lanes],
                self.held[lanes],
            )


def _fill(
    recipe: Quest, patterns: Patterns, rng: Keystream
) -> Iterator[tuple[Integers, NDArray[np.int32]]]:
    """Pairs (basket, item), each pair once, until every basket is made."""
    lanes = _open_lanes(recipe, rng)
    started = len(lanes.basket)
    while len(lanes.basket):
        chosen = np.where(
            lanes.waiting >= 0, lanes.waiting, choice(rng, patterns.weights, len(lanes.basket))
        )
        wanted = _surviving(patterns, chosen, rng)
        crowded = lanes.filled + wanted > lanes.size
        postponed = crowded & (rng.uint16(len(crowded)) < 1 << 15)
        lanes.waiting = np.where(postponed, chosen, -1)
        lanes.tries += 1
        yield from _put(lanes, patterns, chosen, np.where(postponed, 0, wanted), rng)
        full = postponed | (lanes.filled >= lanes.size) | (lanes.tries >= recipe.patterns)
        started = _start_next(recipe, lanes, full, started, rng)
        lanes.keep(lanes.basket < recipe.baskets)


def _open_lanes(recipe: Quest, rng: Keystream) -> _Lanes:
    count = min(_LANES, recipe.baskets // 8 + 1)
    zeros = np.zeros(count, dtype=np.int64)
    sizes = _sizes(recipe, count, rng)
    return _Lanes(
        np.arange(count),
        sizes,
        zeros,
        zeros.copy(),
        zeros - 1,
        np.full((count, 1), -1, dtype=np.int32),
    )


def _sizes(recipe: Quest, count: int, rng: Keystream) -> Integers:
    return np.minimum(1 + poisson(rng, recipe.basket_size - 1, count), recipe.items)


def _surviving(patterns: Patterns, chosen: Integers, rng: Keystream) -> Integers:
    """How many items each chosen pattern has left: its size less a geometric number of drops."""
    levels = patterns.corruption[chosen]
    with np.errstate(divide="ignore"):
        drops = np.log1p(-rng.random(len(chosen))) / np.log(levels)
    sizes = patterns.sizes[chosen]
    return sizes - np.minimum(sizes, drops).astype(np.int64)


def _put(
    lanes: _Lanes, patterns: Patterns, chosen: Integers, wanted: Integers, rng: Keystream
) -> Iterator[tuple[Integers, NDArray[np.int32]]]:
    """Put a random `wanted` of the chosen pattern's items into each lane's basket (selection
    sampling, Knuth 3.4.2 S).
    """
    lane = np.flatnonzero(wanted)
    needed, left, pattern = wanted[lane], patterns.sizes[chosen[lane]], chosen[lane]
    position = 0
    while len(lane):
        takes = happens(rng, needed / left)
        yield _take(lanes, lane[takes], patterns.items[pattern[takes], position])
        needed, left, position = needed - takes, left - 1, position + 1
        more = needed > 0
        lane, needed, left, pattern = lane[more], needed[more], left[more], pattern[more]


def _take(
    lanes: _Lanes, lane: Integers, item: NDArray[np.int32]
) -> tuple[Integers, NDArray[np.int32]]:
    most = int(lanes.filled.max())
    new = (lanes.held[lane, :most] != item[:, None]).all(axis=1)
    lane, item = lane[new], item[new]
    if most == lanes.held.shape[1]:
        lanes.held = np.concatenate([lanes.held, np.full_like(lanes.held, -1)], axis=1)
    lanes.held[lane, lanes.filled[lane]] = item
    lanes.filled[lane] += 1
    return lanes.basket[lane], item


def _start_next(
    recipe: Quest, lanes: _Lanes, full: NDArray[np.bool_], started: int, rng: Keystream
) -> int:
    done = full & (lanes.filled > 0)
    lanes.basket[done] = started + np.arange(done.sum())
    lanes.size[full] = _sizes(recipe, int(full.sum()), rng)
    lanes.filled[full] = 0
    lanes.held[full] = -1
    lanes.tries[full] = 0
    return started + int(done.sum())
