"""Steps that report one symbol for a whole basket: a candidate that it holds, or a bucket of a
public hash.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.domain import Codes, Columns, as_bits
from sfumato.mechanisms.limits import LONGEST_POOL
from sfumato.mechanisms.steps.cell_steps import check_weights
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import Action, Column, Ints, Rows, Step, Value, basket
from sfumato.privacy.guarantee import Gamma
from sfumato.randomness import Keystream

PRIME = (1 << 31) - 1
WORD = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True)
class BasketSymbol(Action):
    """One symbol for a basket: weight a for each of its own, else b.

    Its own are the symbols of what it holds, at most `cap` of them: a basket that holds more has
    some drawn. Where there are tiers, such a basket's first own symbol is that of how much it
    holds. The weights sum to Ω = `total` for every basket.
    """

    items: int
    cap: int
    a: int
    b: int
    tiers: Ints | None = None

    @property
    def inputs(self) -> tuple[Column, ...]:
        return (Column(self.items, basket=True),)

    @property
    def gamma(self) -> Gamma:
        return Fraction(self.a, self.b)

    @property
    @abstractmethod
    def holdable(self) -> int:
        """How many candidates, or items, a basket may hold; tiers are numbered after them."""

    @property
    @abstractmethod
    def total(self) -> int:
        """Ω, the weights of all symbols together."""

    @abstractmethod
    def held(self, values: Sequence[Value]) -> Ints:
        """What a basket holds of them."""

    def check_symbols(self, candidates: Rows | None) -> None:
        """Refuse candidates, tiers and weights that do not fit together."""
        self.check_columns()
        if candidates is not None:
            check_candidates(self, candidates, self.items)
        self.check(self.cap >= 1, "no cap", "use cap >= 1")
        check_tiers(self, self.tiers, self.cap)
        check_weights(self, self.a, self.b, self.total)

    def own(self, values: Sequence[Value], draws: Draws) -> Ints:
        """The own symbols of a basket: at most the cap, of more than that some by chance, behind
        the tier of how many they are where there are tiers.
        """
        held = self.held(values)
        if len(held) <= self.cap:
            return held
        if self.tiers is None:
            return tuple(draws.some(held, self.cap))
        tier = self.holdable + bisect_right(self.tiers, len(held)) - 1
        return (tier, *draws.some(held, self.cap - 1))


@dataclass(frozen=True, kw_only=True)
class Symbol(BasketSymbol):
    """One of the candidates, which are sets of items, or "none" (the last code)."""

    kind = "symbol"
    candidates: Rows

    def __post_init__(self) -> None:
        self.check_symbols(self.candidates)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return (Column(self._symbols + 1, shows="set"),)

    @property
    def work(self) -> int:
        return self.cap + sum(map(len, self.candidates)) + len(self.tiers or ())

    @property
    def holdable(self) -> int:
        return len(self.candidates)

    @property
    def _symbols(self) -> int:
        return self.holdable + len(self.tiers or ())

    @property
    def total(self) -> int:
        return self.cap * self.a + self._symbols * self.b

    def held(self, values: Sequence[Value]) -> Ints:
        return held_candidates(self.candidates, basket(values[0]))

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        own, excess = self.own(values, draws), self.a - self.b
        drawn = draws.below(self.total)
        if drawn < len(own) * excess:
            return (own[drawn // excess],)
        return (min((drawn - len(own) * excess) // self.b, self._symbols),)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes]:
        """Of the own candidates that were kept one is drawn evenly, which is one of all own
        candidates evenly: which were left out need not be drawn.
        """
        bits = as_bits(columns[0])
        drawn = rng.below(self.total, bits.rows).astype(np.int64)
        offsets, own = candidate_lists(self.candidates, bits)
        sizes = np.diff(offsets)
        kept = np.minimum(sizes, self.cap) * (self.a - self.b)
        symbols = np.minimum((drawn - kept) // self.b, self._symbols)
        here = np.flatnonzero(drawn < kept)
        symbols[here] = own[offsets[here] + rng.below_each(sizes[here])]
        if self.tiers is not None:  # the first own symbol of a large basket
            large = here[(sizes[here] > self.cap) & (drawn[here] < self.a - self.b)]
            symbols[large] = tier_symbols(self.tiers, self.holdable, sizes[large])
        return [symbols]

    def truthful(self, values: Sequence[Value]) -> Fraction:
        held = len(self.held(values))
        taken = min(held, self.cap)
        held += held > self.cap and self.tiers is not None  # its tier
        weight = taken * self.a + (held - taken) * self.b if held else self.cap * self.a
        return Fraction(weight, self.total)


@dataclass(frozen=True, kw_only=True)
class Collide(BasketSymbol):
    """A public hash drawn from a pool, and one of its buckets: the own ones are those of the
    basket's items, or of the candidates that it holds, filled up to `cap` at random.
    """

    kind = "collide"
    buckets: int
    pool: str
    seeds: int
    candidates: Rows | None = None

    def __post_init__(self) -> None:
        self.check(
            1 <= self.cap < self.buckets and self.pool.isascii() and len(self.pool) <= LONGEST_POOL,
            f"cap {self.cap} of {self.buckets} buckets from pool '{self.pool[:LONGEST_POOL]}'",
            f"use 1 <= cap < buckets and a pool named by at most {LONGEST_POOL} ASCII letters",
        )
        self.check_symbols(self.candidates)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return Column(self.seeds, shows="set"), Column(self.buckets, shows="set")

    @property
    def work(self) -> int:
        lengths = sum(map(len, self.candidates or ())) + len(self.tiers or ())
        return (self.holdable + self.cap) * (self.cap + 1) + lengths

    @property
    def holdable(self) -> int:
        return self.items if self.candidates is None else len(self.candidates)

    @property
    def total(self) -> int:
        return self.cap * self.a + (self.buckets - self.cap) * self.b

    def held(self, values: Sequence[Value]) -> Ints:
        items = basket(values[0])
        return items if self.candidates is None else held_candidates(self.candidates, items)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        seed = draws.below(self.seeds)
        held = self.own(values, draws)
        own = list(dict.fromkeys(buckets_of(self.pool, seed, held, self.cap + 1, self.buckets)))
        while len(own) < self.cap:
            if (other := draws.below(self.buckets)) not in own:
                own.append(other)
        drawn, excess = draws.below(self.total), self.cap * (self.a - self.b)
        if drawn < excess:
            return seed, own[drawn // (self.a - self.b)]
        return seed, (drawn - excess) // self.b

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes]:
        """A hash and a bucket each: an own bucket, one that filled up, or any."""
        bits = as_bits(columns[0])
        seeds = rng.below(self.seeds, bits.rows).astype(np.int64)
        drawn = rng.below(self.total, bits.rows).astype(np.int64)
        excess = self.cap * (self.a - self.b)
        reported = (drawn - excess) // self.b
        here = np.flatnonzero(drawn < excess)
        lists = candidate_lists(self.candidates, bits) if self.candidates else bits.to_csr()
        own, held = self._own_buckets(*lists, here, seeds[here], rng)
        chosen = drawn[here] // max(self.a - self.b, 1)  # a place among the cap, evenly
        others = rng.below_each(self.buckets - held)
        for place in range(self.cap):  # the chosen one of those that are not own
            others += (own[:, place] <= others) & (place < held)
        inside = own[np.arange(len(here)), np.minimum(chosen, self.cap - 1)]
        reported[here] = np.where(chosen < held, inside, others)
        return [seeds, reported]

    def _own_buckets(
        self,
        offsets: NDArray[np.int64],
        symbols: NDArray[np.int32],
        rows: NDArray[np.intp],
        seeds: NDArray[np.int64],
        rng: Keystream,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # (rows, cap), (rows,)
        """The different buckets of what each basket holds, ascending, and how many they are; of
        more symbols than the cap some are drawn.
        """
        sizes = np.diff(offsets)[rows]
        taken = np.minimum(sizes, self.cap)
        kept = np.zeros((len(rows), self.cap), dtype=np.int64)
        places = np.arange(self.cap)
        small = np.flatnonzero(sizes <= self.cap)
        at = offsets[rows][small, None] + np.minimum(
            places, np.maximum(sizes[small] - 1, 0)[:, None]
        )
        if len(symbols):
            kept[small] = symbols[np.minimum(at, len(symbols) - 1)]
        large = np.flatnonzero(sizes > self.cap)
        if len(large):
            others = self.cap - bool(self.tiers)
            places_of = some_of(offsets[rows][large], sizes[large], others, rng)
            kept[large, -others:] = symbols[places_of]
            if self.tiers is not None:
                kept[large, 0] = tier_symbols(self.tiers, self.holdable, sizes[large])
        buckets = self.hashed(kept, seeds[:, None])
        buckets[places >= taken[:, None]] = self.buckets
        buckets.sort(axis=1)
        buckets[:, 1:][buckets[:, 1:] == buckets[:, :-1]] = self.buckets
        buckets.sort(axis=1)
        return buckets, (buckets < self.buckets).sum(axis=1)

    def hashed(self, symbols: NDArray[np.int64], seeds: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bucket of each item, or candidate, under the hash beside it."""
        polynomial = self.polynomials
        value = np.zeros(np.broadcast_shapes(symbols.shape, seeds.shape), dtype=np.int64)
        for place in reversed(range(polynomial.shape[1])):
            value = (value * symbols + polynomial[:, place][seeds]) % PRIME
        return value % self.buckets

    @cached_property
    def polynomials(self) -> NDArray[np.int64]:  # (seeds, cap + 1)
        """The coefficients of every hash of the pool."""
        return pool_of(self.pool, self.seeds, self.cap + 1)

    def truthful(self, values: Sequence[Value]) -> Fraction:
        """As if no two symbols shared a bucket: the hash is not known before it is drawn."""
        return Fraction(min(len(self.held(values)), self.cap) * self.a, self.total)


def check_candidates(step: Step, candidates: Rows, items: int) -> None:
    """Refuse candidates that are not different sets of the items."""
    ordered = all(
        each and each == tuple(sorted(set(each))) and each[-1] < items for each in candidates
    )
    step.check(
        ordered and len(set(candidates)) == len(candidates) >= 1,
        "candidates that are not different sets of its items",
        "list items in ascending order, each candidate once",
    )


def check_tiers(step: Step, tiers: Ints | None, cap: int) -> None:
    """Refuse tiers that are not above the cap, one above the other."""
    if tiers is None:
        return
    step.check(
        cap >= 2 and bool(tiers) and tiers[0] == cap + 1 and list(tiers) == sorted(set(tiers)),
        f"tiers {list(tiers)} beside a cap of {cap}",
        "use a cap of 2 or more and tiers that ascend from the one above it",
    )


def held_candidates(candidates: Rows, items: Ints) -> Ints:
    """The places of the candidates that a basket of these items holds."""
    own = set(items)
    return tuple(place for place, wanted in enumerate(candidates) if own.issuperset(wanted))


def candidate_lists(candidates: Rows, bits: Bits) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which candidates each of many baskets holds: offsets (rows + 1) and the candidates of every
    row.

    Items that no candidate names are left out first, so that a wide universe costs nothing.
    """
    offsets, items = bits.to_csr()
    singles = all(len(each) == 1 for each in candidates)
    named = np.array(sorted({item for each in candidates for item in each}))
    place = np.full(bits.items, -1, dtype=np.int32)
    place[named] = np.arange(len(named))
    if singles:
        place[[each[0] for each in candidates]] = np.arange(len(candidates))
    places = place[items]
    kept = places >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[offsets]
    if singles:
        return ends, places[kept]
    words = Bits.from_csr(ends, places[kept], len(named)).words
    held = [np.bitwise_and.reduce(words[place[list(each)]]) for each in candidates]
    return Bits(np.stack(held), bits.rows).to_csr()


def tier_symbols(tiers: Ints, symbols: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The symbol of the tier of baskets that hold so much, more than the cap."""
    return symbols + np.searchsorted(np.array(tiers), sizes, side="right") - 1


def some_of(
    starts: NDArray[np.int64], sizes: NDArray[np.int64], count: int, rng: Keystream
) -> NDArray[np.int64]:  # (rows, count)
    """For each run of `sizes` places from `starts` on, `count` different ones of its places, every
    such set equally likely (Floyd: a place up to the last that may be drawn, or that last one
    where it was drawn before).
    """
    chosen = np.empty((count, len(sizes)), dtype=np.int64)
    for turn in range(count):
        last = sizes - count + turn
        drawn = rng.below_each(last + 1)
        chosen[turn] = np.where((chosen[:turn] == drawn).any(axis=0), last, drawn)
    return chosen.T + starts[:, None]


def murmur3(text: bytes) -> int:
    """MurmurHash3 (x86, 32 bits, seed 0) of a text, as published by Appleby.

    >>> hex(murmur3(b"")), hex(murmur3(b"test")), hex(murmur3(b"Hello, world!"))
    ('0x0', '0xba6bd213', '0xc0363e43')
    """
    state = 0
    padded = text + bytes(-len(text) % 4)
    for start in range(0, len(padded), 4):
        block = int.from_bytes(padded[start : start + 4], "little")
        block = _rotated(block * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD
        state ^= block
        if start + 4 <= len(text):
            state = (_rotated(state, 13) * 5 + 0xE6546B64) & WORD
    state ^= len(text)
    state = (state ^ state >> 16) * 0x85EBCA6B & WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & WORD
    return state ^ state >> 16


@lru_cache(maxsize=4096)
def coefficients(pool: str, seed: int, count: int) -> tuple[int, ...]:
    """The coefficients, lowest first, of one entry of a pool: the hash of "pool/seed/place" modulo
    2^31 - 1.
    """
    return tuple(murmur3(f"{pool}/{seed}/{place}".encode()) % PRIME for place in range(count))


@lru_cache(maxsize=8)
def pool_of(pool: str, seeds: int, count: int) -> NDArray[np.int64]:  # (seeds, count)
    """The coefficients of every hash of a pool."""
    return np.array([coefficients(pool, seed, count) for seed in range(seeds)], dtype=np.int64)


def buckets_of(pool: str, seed: int, items: Iterable[int], count: int, buckets: int) -> list[int]:
    """The bucket of each item by a public hash, which carries no privacy: the polynomial over
    GF(2^31 - 1) with `count` coefficients at the item's number,
    modulo the buckets.
    """
    polynomial = coefficients(pool, seed, count)
    found = []
    for item in items:
        value = 0
        for coefficient in reversed(polynomial):
            value = (value * item + coefficient) % PRIME
        found.append(value % buckets)
    return found


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & WORD
