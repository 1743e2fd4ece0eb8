"""Steps on baskets: every item flipped, or some cut and others pasted in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise, product, starmap
from math import comb

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import WORD_BITS, Bits
from sfumato.domain import Codes, Columns, as_bits
from sfumato.mechanisms.limits import EXACT_BITS, FLIP_WORK, WIDE_CHUNK
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import Action, Column, Ints, Rows, Step, Value, basket, quotient
from sfumato.privacy.guarantee import Gamma
from sfumato.randomness import Keystream

SCALE = 1 << 16  # bit flips are decided by 16-bit words
PLANES = 16  # random bits compared for one report bit


@dataclass(frozen=True, kw_only=True)
class BasketStep(Action):
    """A step on a basket of `items`, or on records as baskets: one item for each value of each
    column.
    """

    items: int | None = None
    sizes: Ints | None = None

    def __post_init__(self) -> None:
        self.check(
            (self.items is None) != (self.sizes is None),
            "neither items nor sizes, or both",
            "give the items of a basket or the sizes of a record's columns",
        )
        self.check_columns()

    @property
    def inputs(self) -> tuple[Column, ...]:
        if self.sizes is not None:
            return tuple(map(Column, self.sizes))
        return (Column(self.universe, basket=True),)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return (Column(self.universe, basket=True),)

    @property
    def universe(self) -> int:
        """The number of report items."""
        return sum(self.sizes) if self.sizes is not None else self.items or 0

    @property
    def work(self) -> int:
        return self.universe + len(self.sizes or ()) ** 2

    @cached_property
    def _starts(self) -> Ints:
        return tuple(accumulate(self.sizes or (), initial=0))

    def held(self, values: Sequence[Value]) -> Ints:
        """The items that a record or basket holds."""
        if self.sizes is None:
            return basket(values[0])
        codes = (code for code in values if isinstance(code, int))
        return tuple(start + code for start, code in zip(self._starts, codes, strict=False))

    def baskets(self, columns: Columns) -> Bits:
        """Many records as baskets of their items; baskets as they are."""
        return as_bits(columns[0]) if self.sizes is None else one_hot(columns, self.sizes)

    def lists(self, columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where the items of each of many baskets begin, and the items."""
        if self.sizes is None:
            return as_bits(columns[0]).to_csr()
        pairs = zip(columns, self._starts, strict=False)
        items = [np.asarray(column).astype(np.int32) + start for column, start in pairs]
        offsets = np.arange(len(columns[0]) + 1, dtype=np.int64) * len(columns)
        return offsets, np.stack(items, axis=1).reshape(-1)


@dataclass(frozen=True, kw_only=True)
class Flip(BasketStep):
    """Every item is kept or flipped on its own: ones kept with ones / 2^16, zeros with zeros / 2^16
    (MASK).

    One number serves all items; else there is one an item.
    """

    kind = "flip"
    ones: Ints
    zeros: Ints

    def __post_init__(self) -> None:
        super().__post_init__()
        check_keeps(self, self.ones, self.zeros, self.universe)

    @cached_property
    def keeps(self) -> Rows:
        """Keep ones and keep zeros of every item."""
        return keeps_of(self.ones, self.zeros, self.universe)

    @property
    def work(self) -> int:
        return self.universe * FLIP_WORK + super().work

    @property
    def gamma(self) -> Gamma:
        if self.sizes is None:
            return _power_product(Counter(starmap(_larger_odds, self.keeps)))
        odds = [item_odds(*pair) for pair in self.keeps]
        return power_product(
            Counter(worst_exchange(odds[start:end]) for start, end in pairwise(self._starts))
        )

    @property
    def gives_all(self) -> bool:
        return any_flips(self.keeps)

    def gives(self, values: Sequence[Value]) -> bool:
        if not super().gives(values):
            return False
        reported = set(basket(values[0]))
        if self.sizes is None:
            return all(
                can_flip(pair, item in reported, held=True)
                or can_flip(pair, item in reported, held=False)
                for item, pair in enumerate(self.keeps)
            )
        columns = (range(start, end) for start, end in pairwise(self._starts))
        return all(one_held(reported, self.keeps, column, column) for column in columns)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        return (flipped(self.held(values), self.keeps, draws),)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Bits]:
        return [flip_bits(self.baskets(columns), self.keeps, rng)]

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return unflipped(self.held(values), self.keeps)


@dataclass(frozen=True, kw_only=True)
class CutStep(BasketStep):
    """Keep min(uniform 0..cutoff, m) of a basket's m items; put in every other with insert / 2^16
    (cut-and-paste).

    A basket's size m is sent as it is, beside it; a record's is known.
    """

    kind = "cut"
    cutoff: int
    insert: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(
            self.cutoff >= 1 and 0 < self.insert < SCALE,
            f"cutoff {self.cutoff} and insert {self.insert}",
            "use cutoff >= 1 and 0 < insert < 2^16",
        )

    @property
    def outputs(self) -> tuple[Column, ...]:
        size = (Column(self.universe + 1, shows="size"),) if self.sizes is None else ()
        return (Column(self.universe, basket=True), *size)

    @property
    def work(self) -> int:
        if self.sizes is not None:
            shared, most = self.sizes.count(1), min(self.cutoff, len(self.sizes))
            turns = (shared + 1) * (most + 1) ** 3
        elif self.universe >= 2 * self.cutoff:
            turns = (self.cutoff + 1) ** 3
        else:
            turns = (self.universe + 1) ** 4
        return super().work + turns

    @property
    def gamma(self) -> Gamma:
        insert = Fraction(self.insert, SCALE)
        if self.sizes is None:
            return basket_gamma(self.cutoff, insert, self.universe)
        count, shared = len(self.sizes), sum(size == 1 for size in self.sizes)
        return exchange_gamma(cut_law(self.cutoff, count), count, shared, insert)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        items = self.held(values)
        kept = draws.some(items, min(draws.below(self.cutoff + 1), len(items)))
        pasted = flipped(
            tuple(sorted(kept)), ((SCALE, SCALE - self.insert),) * self.universe, draws
        )
        return (pasted, len(items)) if self.sizes is None else (pasted,)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes | Bits]:
        """The kept items of every basket at once, by the first steps of a Fisher-Yates shuffle."""
        offsets, items = self.lists(columns)
        sizes, items = np.diff(offsets), items.copy()
        kept = np.minimum(rng.below(self.cutoff + 1, len(sizes)).astype(np.int64), sizes)
        for place in range(int(kept.max(initial=0))):
            rows = np.flatnonzero(kept > place)
            here = offsets[rows] + place
            chosen = here + rng.below_each(sizes[rows] - place)
            items[here], items[chosen] = items[chosen], items[here]
        ends = np.concatenate([[0], np.cumsum(kept)])
        items = items[np.repeat(offsets[:-1] - ends[:-1], kept) + np.arange(ends[-1])]
        baskets = Bits.from_csr(ends, items, self.universe)
        pasted = flip_bits(baskets, ((SCALE, SCALE - self.insert),) * self.universe, rng)
        return [pasted, sizes] if self.sizes is None else [pasted]

    def truthful(self, values: Sequence[Value]) -> Fraction:
        size, insert = len(self.held(values)), Fraction(self.insert, SCALE)
        pasted = insert**size * (1 - insert) ** (self.universe - size)
        return pasted * boost(cut_law(self.cutoff, size), size, size, insert)


def one_hot(columns: Columns, sizes: Sequence[int]) -> Bits:
    """Records as baskets: one item for each value of each column."""
    rows = len(columns[0])
    words = np.zeros((sum(sizes), -(-rows // WORD_BITS)), dtype=np.uint64)
    octets = words.view(np.uint8).reshape(len(words), -1)
    items = iter(octets[:, : (rows + 7) // 8])
    for column, size in zip(columns, sizes, strict=True):
        for value, item in zip(range(size), items, strict=False):
            item[:] = np.packbits(np.asarray(column) == value, bitorder="little")
    return Bits(words, rows)


def check_keeps(step: Step, ones: Ints, zeros: Ints, items: int) -> None:
    """Refuse flip thresholds that are not one for all items or one an item."""
    step.check(
        all(len(keeps) in (1, items) and max(keeps) <= SCALE for keeps in (ones, zeros)),
        f"{len(ones)} and {len(zeros)} thresholds for {items} items",
        "give one for all or one an item, up to 2^16",
    )


def keeps_of(ones: Ints, zeros: Ints, items: int) -> Rows:
    """Keep ones and keep zeros, item by item."""
    pairs = zip(
        *(keeps * items if len(keeps) == 1 else keeps for keeps in (ones, zeros)), strict=True
    )
    return tuple(pairs)


def flipped(held: Ints, keeps: Rows, draws: Draws) -> Ints:
    """The items reported of a basket, each flipped on its own."""
    own = set(held)
    return tuple(
        item
        for item, (ones, zeros) in enumerate(keeps)
        if draws.chance(SCALE - (ones if item in own else zeros), 16) != (item in own)
    )


def any_flips(keeps: Rows) -> bool:
    """Whether every item can be kept and can be flipped, whatever is true."""
    return all(0 < keep < SCALE for pair in keeps for keep in pair)


def can_flip(pair: Ints, reported: bool, *, held: bool) -> bool:
    """Whether an item that is held, or not, can be reported so."""
    keep = pair[0 if held else 1]
    return keep > 0 if reported == held else keep < SCALE


def one_held(reported: set[int], keeps: Rows, items: Iterable[int], true: Collection[int]) -> bool:
    """Whether items can be reported so where exactly one of them, one of `true`, is held."""
    must = [item for item in items if not can_flip(keeps[item], item in reported, held=False)]
    return len(must) <= 1 and any(
        item in true and can_flip(keeps[item], item in reported, held=True) for item in must or true
    )


def unflipped(held: Ints, keeps: Rows) -> Fraction:
    """The probability that no item is flipped."""
    own = set(held)
    kept = Counter(ones if item in own else zeros for item, (ones, zeros) in enumerate(keeps))
    return math.prod(
        (Fraction(keep, SCALE) ** times for keep, times in kept.items()), start=Fraction(1)
    )


@lru_cache(maxsize=1 << 16)
def item_odds(keep_ones: int, keep_zeros: int) -> tuple[Gamma, Gamma]:
    """How much likelier a report bit can be under a one than under a zero, and the reverse."""
    p, q, not_p, not_q = keep_ones, keep_zeros, SCALE - keep_ones, SCALE - keep_zeros
    if p == not_q:
        return Fraction(1), Fraction(1)
    # Where p + q > 1, a reported item speaks for a one and a missing one against it; below, the
    # reverse.
    if p > not_q:
        return quotient(p, not_q), quotient(q, not_p)
    return quotient(not_p, q), quotient(not_q, p)


def worst_exchange(odds: Sequence[tuple[Gamma, Gamma]]) -> Gamma:
    """max over values i ≠ j of up_i·down_j: what two values of one attribute can differ by."""
    if len(odds) == 1:
        return Fraction(1)
    ups, downs = (
        sorted(range(len(odds)), key=lambda item: odds[item][side])[-2:] for side in (0, 1)
    )
    return max(
        power_product(Counter([odds[i][0], odds[j][1]])) for i, j in product(ups, downs) if i != j
    )


def _larger_odds(keep_ones: int, keep_zeros: int) -> tuple[int, int]:
    """The larger of the item's odds, above and below the line: of p/(1−q) and q/(1−p), where p + q
    is less than 1 with p and q the other way round.
    """
    p, q = keep_ones, keep_zeros
    if p + q == SCALE:
        return 1, 1
    if p + q < SCALE:
        p, q = SCALE - p, SCALE - q
    return (p, SCALE - q) if p * (SCALE - p) >= q * (SCALE - q) else (q, SCALE - p)


def power_product(gammas: Counter[Gamma]) -> Gamma:
    """The product of these, each as often as counted."""
    if math.inf in gammas:
        return math.inf
    return _power_product(
        Counter({gamma.as_integer_ratio(): times for gamma, times in gammas.items()})
    )


def _power_product(ratios: Counter[tuple[int, int]]) -> Gamma:
    """The product of these, given above and below the line, each as often as counted.

    It is exact, unless it takes more than EXACT_BITS to write many different ones: then rounded up
    in its 256th binary digit, for no one reads further.
    """
    if any(below == 0 for _, below in ratios):
        return math.inf
    if len(ratios) == 1:  # powers of a shortened fraction are short: no long divisor is sought
        ((above, below), times) = next(iter(ratios.items()))
        return Fraction(above, below) ** times
    powers = [(above**times, below**times) for (above, below), times in ratios.items()]
    if len(powers) > 1 and sum(above.bit_length() for above, _ in powers) > EXACT_BITS:
        return _rounded_up(powers)
    # Fractions are shortened at every step; multiplied first and shortened once they are quick.
    return Fraction(*(_multiplied(side) for side in zip(*powers, strict=True)))


def _multiplied(factors: Sequence[int]) -> int:
    """Their product, by halves: long numbers then meet only numbers of their own length."""
    if len(factors) < 16:
        return math.prod(factors)
    middle = len(factors) // 2
    return _multiplied(factors[:middle]) * _multiplied(factors[middle:])


def _rounded_up(powers: Sequence[tuple[int, int]]) -> Fraction:
    """A fraction not below their product, and equal to it in the first 256 binary digits: 512 are
    carried along, rounded up above the line and down below it.
    """
    above, below, shift = 1, 1, 0  # the product so far is not above `above / below` times 2^shift
    for power, divisor in powers:
        above, below = above * power, below * divisor
        if (spare := above.bit_length() - 512) > 0:
            above, shift = (above >> spare) + 1, shift + spare
        if (spare := below.bit_length() - 512) > 0:
            below, shift = below >> spare, shift - spare
    return Fraction(above << max(shift, 0), below << max(-shift, 0))


def cut_law(cutoff: int, size: int) -> list[Fraction]:
    """The probabilities of keeping 0, 1, … items of a basket of this size: uniform on 0..cutoff,
    what lies beyond size at size.

    >>> cut_law(3, 2)
    [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    """
    law = [Fraction(1, cutoff + 1)] * (min(cutoff, size) + 1)
    law[-1] += Fraction(max(0, cutoff - size), cutoff + 1)
    return law


def boost(law: Sequence[Fraction], size: int, overlap: int, insert: Fraction) -> Fraction:
    """f(o) = Σ_j P(j) C(o,j)/C(m,j) ρ^-j: how much likelier a report is than from
    putting in alone.
    """
    terms = (
        chance * comb(overlap, j) / comb(size, j) / insert**j
        for j, chance in enumerate(law)
        if j <= overlap
    )
    return sum(terms, Fraction(0))


def exchange_gamma(law: Sequence[Fraction], size: int, shared: int, insert: Fraction) -> Fraction:
    """The largest ratio over reports for two baskets of one size with `shared` items in common:
    show all that is only in the first.
    """
    return max(
        boost(law, size, size - shared + o, insert) / boost(law, size, o, insert)
        for o in range(shared + 1)
    )


def basket_gamma(cutoff: int, insert: Fraction, universe: int) -> Gamma:
    """The largest ratio over any two baskets, of one size or two; baskets larger than 2K add
    nothing.
    """
    if universe >= 2 * cutoff:
        return sum((1 / insert**j for j in range(cutoff + 1)), Fraction(0))
    boosts = [
        [boost(cut_law(cutoff, size), size, overlap, insert) for overlap in range(size + 1)]
        for size in range(universe + 1)
    ]
    shared = {(m, n): max(0, m + n - universe) for m, n in product(range(universe + 1), repeat=2)}
    return max(
        boosts[m][m - common + o] / boosts[n][o]
        for (m, n), common in shared.items()
        for o in range(common + 1)
    )


def flip_bits(bits: Bits, keeps: Rows, rng: Keystream) -> Bits:
    """The baskets with every bit kept with its item's probability, `keeps[item]` = (of a one, of a
    zero) in 65,536ths, else flipped.

    A 16-bit uniform number is compared with its threshold on 64 rows at once, plane by plane: from
    the threshold's lowest set bit up, "below" becomes below OR plane where the threshold has a one
    and below AND plane where it has a zero. Ones and zeros share the planes, as a bit is only one
    of them.
    """
    flips = SCALE - np.array(keeps, dtype=np.int64)
    words = np.empty_like(bits.words)
    buffer = np.empty((PLANES + 2) * WIDE_CHUNK, dtype=np.uint64)
    source, target, width = bits.words.reshape(-1), words.reshape(-1), bits.words.shape[1]
    # Neighbouring items with the same thresholds, whose words lie side by side.
    firsts = np.flatnonzero(np.any(flips != np.roll(flips, 1, axis=0), axis=1)).tolist()
    firsts = [0, *(first for first in firsts if first)]
    for first, last in zip(firsts, [*firsts[1:], len(flips)], strict=True):
        ones, zeros = flips[first].tolist()
        lowest = min(_lowest_bit(ones), _lowest_bit(zeros))
        for start in range(first * width, last * width, WIDE_CHUNK):
            part = slice(start, min(start + WIDE_CHUNK, last * width))
            count = part.stop - start
            planes = buffer[: (PLANES - lowest) * count].reshape(-1, count)
            rng.fill(planes)
            flipped = buffer[PLANES * WIDE_CHUNK :][:count]
            _below(planes, zeros, lowest, flipped)
            if ones != zeros:
                of_ones = buffer[(PLANES + 1) * WIDE_CHUNK :][:count]
                _below(planes, ones, lowest, of_ones)
                of_ones ^= flipped
                of_ones &= source[part]
                flipped ^= of_ones
            np.bitwise_xor(source[part], flipped, out=target[part])
    if bits.rows % WORD_BITS:
        words[:, -1] &= np.uint64((1 << bits.rows % WORD_BITS) - 1)
    return Bits(words, bits.rows)


def _below(
    planes: NDArray[np.uint64], threshold: int, lowest: int, out: NDArray[np.uint64]
) -> None:
    """Bits that are 1 with probability threshold / 65,536; planes[0] decides the bit `lowest` of
    the threshold.
    """
    if threshold in (0, SCALE):
        out.fill(np.uint64(0) if threshold == 0 else ~np.uint64(0))
        return
    first = _lowest_bit(threshold)
    result = planes[first - lowest]  # not written to: the other threshold may need the plane
    for bit in range(first + 1, PLANES):
        step = np.bitwise_or if threshold >> bit & 1 else np.bitwise_and
        result = step(result, planes[bit - lowest], out=out)
    if first == PLANES - 1:
        np.copyto(out, result)


def _lowest_bit(threshold: int) -> int:
    """The place of the lowest set bit; a certain event needs no plane at all."""
    return PLANES if threshold in (0, SCALE) else (threshold & -threshold).bit_length() - 1
