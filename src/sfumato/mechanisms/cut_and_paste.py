"""CutAndPaste: a few items of a basket are kept, then every other item of the universe is put in by
chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.channels import Channel, Dense, NotLumpableError, Sizes
from sfumato.domain import Columns, Domain, Numeric, code_dtype
from sfumato.errors import EstimationError, ParameterError, PrivacyError
from sfumato.mechanisms.base import Mechanism, check_kept, rows_of
from sfumato.mechanisms.bitflip import (
    SCALE,
    basket_reports,
    check_written_out,
    flip_bits,
    item_places,
    reported_items,
)
from sfumato.mechanisms.steps import Cut, Step
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.randomness import Keystream
from sfumato.received import MOST_CUTOFF, Received

SIZE = "basket size"  # the public column beside reported baskets
# the basket for whose itemsets `promising` chooses the cutoff where baskets have no common size
TYPICAL_BASKET = 6


@dataclass(frozen=True)
class CutAndPaste(Mechanism):
    """Keep j = min(uniform 0..cutoff, m) of a basket's m items, then put in every other item with
    probability `insert`.

    Evfimievski et al. 2002; K = cutoff and ρ = insert in FRAPP eq. 11. A report v of a basket u of
    m items, o of them in v, has probability ρ^|v| (1-ρ)^(I-|v|)·f(o), f(o) = Σ_j P(j) C(o,j)/C(m,j)
    ρ^-j: a polynomial of degree K in the overlap, so itemsets longer than K leave no trace. Records
    are baskets of M items. `insert` is rounded up to 65,536ths.

    >>> from sfumato.domain import Items
    >>> shop = Domain((Items("items", tuple("abcdefgh")),))
    >>> CutAndPaste(shop, cutoff=2, insert=0.25).guarantee
    Guarantee(gamma=21)
    """

    name = "cut-and-paste"
    domain: Domain
    cutoff: int
    insert: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", self.domain.binned())
        basket_reports(self.domain)
        if self.cutoff < 1 or self.cutoff != int(self.cutoff):
            raise ParameterError(
                f"cutoff={self.cutoff} keeps no item, so nothing can be reconstructed; use a "
                "whole cutoff >= 1"
            )
        if self.cutoff > MOST_CUTOFF:
            raise ParameterError(
                f"cutoff={self.cutoff} is too long to compute with; use at most {MOST_CUTOFF}"
            )
        if not 0 < self.insert < 1:
            raise ParameterError(
                f"insert={self.insert:g} must lie strictly between 0 and 1: at 0 nothing is "
                "hidden, at 1 everything"
            )
        threshold = math.ceil(Fraction(str(self.insert)) * SCALE)
        if threshold == SCALE:
            raise ParameterError(
                f"insert={self.insert:g} puts every item in every report, so nothing can be "
                "reconstructed"
            )
        object.__setattr__(self, "cutoff", int(self.cutoff))
        object.__setattr__(self, "insert", threshold / SCALE)

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        """The cutoff whose partial supports are best conditioned for itemsets of half a record, the
        least insert that fits γ.

        A record has M items; baskets are taken as six. Itemsets longer than the cutoff cannot be
        recovered, so where γ allows no cutoff of half a record (γ > cutoff + 1 is needed) the
        largest that it allows is used.
        """
        binned = domain.binned()
        private = basket_reports(binned) and binned.private
        items = min(TYPICAL_BASKET, private.attributes[0].size) if private.baskets else len(private)
        fits = [
            found
            for cutoff in range(1, min(items, MOST_CUTOFF) + 1)
            if (found := cls._least_insert(guarantee, binned, cutoff))
        ]
        if not fits:
            raise PrivacyError(
                "cut-and-paste keeps one item in two reports at least, so it cannot promise "
                f"{guarantee}",
                hint="it needs gamma > 2; use the gamma-diagonal or mask mechanism",
            )
        length = min(max(1, items // 2), fits[-1].cutoff)
        long_enough = [mechanism for mechanism in fits if mechanism.cutoff >= length]
        best = min(long_enough, key=lambda mechanism: mechanism.sizes(length, items).condition)
        check_kept(best, guarantee)
        return best

    @classmethod
    def _least_insert(cls, guarantee: Guarantee, domain: Domain, cutoff: int) -> Self | None:
        """The mechanism with the smallest insert that keeps the guarantee, by bisection: γ falls as
        insert grows.
        """
        least, enough = 0, SCALE
        while enough - least > 1:
            middle = (least + enough) // 2
            kept = guarantee.allows(cls(domain, cutoff, middle / SCALE).guarantee)
            least, enough = (least, middle) if kept else (middle, enough)
        return cls(domain, cutoff, enough / SCALE) if enough < SCALE else None

    @cached_property
    def private_reports(self) -> Domain:
        """Baskets, and beside baskets of unknown size their true size as a public column."""
        reports = basket_reports(self.domain)
        if not self.domain.private.baskets:
            return reports
        return Domain(
            (*reports, Numeric(SIZE, 0, reports.attributes[0].size, public=True)), reports.title
        )

    @property
    def universe(self) -> int:
        """The number of report items."""
        return self.private_reports.attributes[0].size

    def steps(self) -> tuple[Step, ...]:
        private = self.domain.private
        return (
            Cut(
                columns=tuple(range(len(private))),
                reports=tuple(range(len(self.private_reports))),
                items=private.attributes[0].size if private.baskets else None,
                sizes=None if private.baskets else private.shape,
                cutoff=self.cutoff,
                insert=round(self.insert * SCALE),
            ),
        )

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        offsets, items = self._item_lists(columns)
        kept = Bits.from_csr(*_cut(offsets, items, self.cutoff, rng), self.universe)
        paste = np.tile(
            np.array([0, round(self.insert * SCALE)], dtype=np.int64), (self.universe, 1)
        )
        reports = flip_bits(kept, paste, rng)
        if self.domain.private.baskets:
            return reports, np.diff(offsets).astype(code_dtype(self.universe + 1))
        return (reports,)

    def _item_lists(self, columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where each basket begins, and its items."""
        if isinstance(columns[0], Bits):
            return columns[0].to_csr()
        places = item_places(self.domain.private)
        items = [
            np.asarray(column).astype(np.int32) + place.start
            for column, place in zip(columns, places, strict=True)
        ]
        return np.arange(rows_of(columns) + 1, dtype=np.int64) * len(columns), np.stack(
            items, axis=1
        ).reshape(-1)

    def sizes(self, length: int, basket_size: int | None = None) -> Sizes:
        """The channel of partial supports of itemsets of this length, in baskets of this size (of
        records: M).
        """
        size = self._size(basket_size)
        if min(length, size) > self.cutoff:
            raise EstimationError(
                f"itemsets of {length} items cannot be recovered: at most cutoff={self.cutoff} "
                "items of a basket are kept",
                hint=f"ask for itemsets of at most {self.cutoff} items",
            )
        return Sizes.cut_and_paste(length, size, self.cutoff, self.insert)

    def _size(self, basket_size: int | None) -> int:
        if not self.domain.private.baskets:
            return len(self.domain.private)
        if basket_size is None:
            raise ParameterError("baskets differ in size; say which basket_size")
        return basket_size

    @property
    def reports_in_items(self) -> bool:
        return True

    @property
    def longest_itemset(self) -> int:
        return self.cutoff

    def number_votes(self, length: int) -> NDArray[Any] | None:
        return None if self.domain.private.baskets else self.sizes(length).inverse[-1]

    def item_votes(self, reports: Columns, items: Sequence[int]) -> NDArray[Any]:
        """The weight of "as many of the items as this report shows" in the unbiased count of
        baskets with all of them.
        """
        bits = reported_items(self, reports)
        shown = np.zeros(bits.rows, dtype=np.int64)
        for item in items:
            shown += bits.column(item)
        if not self.domain.private.baskets:
            return self.sizes(len(items)).inverse[-1][shown]
        sizes = np.asarray(reports[self.reports.index(SIZE)])
        weights = np.zeros(
            (self.universe + 1, len(items) + 1)
        )  # a basket smaller than the itemset does not hold it
        for size in np.unique(sizes[sizes >= len(items)]).tolist():
            weights[size] = self.sizes(len(items), size).inverse[-1]
        return weights[sizes, shown]

    @property
    def private_channel(self) -> Channel:
        return self.private_channel_over(range(len(self.domain.private.axes)))

    def private_channel_over(self, axes: Sequence[int]) -> Dense:
        """From baskets (or cells of these attributes) to reported baskets, without their size; only
        where that is small.
        """
        private = self.domain.private
        if private.baskets:
            if list(axes) != list(range(self.universe)):
                raise NotLumpableError(
                    "what is reported of a few items depends on the size of the basket; ask for "
                    "itemsets"
                )
            check_written_out(self.name, self.universe, 1 << self.universe)
            truths = _every_basket(self.universe)
            laws = [cut_law(self.cutoff, size) for size in range(self.universe + 1)]
            return self._dense(truths, laws, private.shape)
        shape = tuple(private.shape[axis] for axis in axes)
        check_written_out(self.name, sum(shape), math.prod(shape))
        law = _thinned(cut_law(self.cutoff, len(private)), len(private), len(axes))
        return self._dense(_every_record(shape), [law] * (len(axes) + 1), shape)

    def _dense(
        self, truths: NDArray[np.int64], laws: Sequence[Sequence[Fraction]], shape: tuple[int, ...]
    ) -> Dense:
        reports = _every_basket(truths.shape[1])
        overlap, size = reports @ truths.T, reports.sum(axis=1)
        likelihood = np.zeros((len(laws), len(laws)))
        for basket, law in enumerate(laws):
            likelihood[basket, : basket + 1] = [
                float(_boost(law, basket, o, self._insert)) for o in range(basket + 1)
            ]
        pasted = self.insert**size * (1 - self.insert) ** (truths.shape[1] - size)
        matrix = pasted[:, None] * likelihood[truths.sum(axis=1)[None, :], overlap]
        return Dense(matrix, shape, (2,) * truths.shape[1])

    @property
    def _insert(self) -> Fraction:
        return Fraction(self.insert)

    @cached_property
    def guarantee(self) -> Guarantee:
        """γ of the reported items, exactly; Σ ρ^-j, j = 0..K, where two baskets of K items need not
        share any.
        """
        private = self.domain.private
        if private.baskets:
            return Guarantee(_basket_gamma(self.cutoff, self._insert, self.universe))
        shared = sum(attribute.size == 1 for attribute in private)
        law = cut_law(self.cutoff, len(private))
        return Guarantee(
            _exchange_gamma(law, law, (len(private), len(private)), shared, self._insert)
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        lost = (
            f"itemsets of more than {self.cutoff} items cannot be reconstructed from these reports"
        )
        if not self.domain.private.baskets:
            return (lost,)
        return (
            f"the size of each true basket is sent as it is (column '{SIZE}'), outside the "
            "guarantee",
            lost,
        )

    def parameters(self) -> dict[str, Any]:
        return {"cutoff": self.cutoff, "insert": self.insert}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Received(parameters, "the parameters of cut-and-paste")
        return cls(domain, given["cutoff"].whole(1, MOST_CUTOFF), given["insert"].number(0, 1))


def cut_law(cutoff: int, size: int) -> list[Fraction]:
    """The probabilities of keeping 0, 1, … items of a basket of this size: uniform on 0..cutoff,
    what lies beyond size at size.

    >>> cut_law(3, 2)
    [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    """
    law = [Fraction(1, cutoff + 1)] * (min(cutoff, size) + 1)
    law[-1] += Fraction(max(0, cutoff - size), cutoff + 1)
    return law


def _thinned(law: Sequence[Fraction], size: int, part: int) -> list[Fraction]:
    """The law of how many of `part` of the items are kept (hypergeometric)."""
    seen = [Fraction(0)] * (min(part, len(law) - 1) + 1)
    for kept, chance in enumerate(law):
        for inside in range(min(part, kept) + 1):
            seen[inside] += (
                chance * comb(part, inside) * comb(size - part, kept - inside) / comb(size, kept)
            )
    return seen


def _boost(law: Sequence[Fraction], size: int, overlap: int, insert: Fraction) -> Fraction:
    """f(o) = Σ_j P(j) C(o,j)/C(m,j) ρ^-j: how much likelier a report is than from
    putting in alone.
    """
    terms = (
        chance * comb(overlap, j) / comb(size, j) / insert**j
        for j, chance in enumerate(law)
        if j <= overlap
    )
    return sum(terms, Fraction(0))


def _exchange_gamma(
    law: Sequence[Fraction],
    other: Sequence[Fraction],
    sizes: tuple[int, int],
    shared: int,
    insert: Fraction,
) -> Fraction:
    """The largest ratio over reports for two baskets with `shared` items in common: show all that
    is only in the first.
    """
    own = sizes[0] - shared
    return max(
        _boost(law, sizes[0], own + o, insert) / _boost(other, sizes[1], o, insert)
        for o in range(shared + 1)
    )


def _basket_gamma(cutoff: int, insert: Fraction, universe: int) -> Gamma:
    """The largest ratio over any two baskets, of one size or two; baskets larger than 2K add
    nothing.
    """
    if universe >= 2 * cutoff:
        return sum((1 / insert**j for j in range(cutoff + 1)), Fraction(0))
    laws = [cut_law(cutoff, size) for size in range(universe + 1)]
    return max(
        _exchange_gamma(laws[m], laws[n], (m, n), max(0, m + n - universe), insert)
        for m in range(universe + 1)
        for n in range(universe + 1)
    )


def _cut(
    offsets: NDArray[np.int64], items: NDArray[np.int32], cutoff: int, rng: Keystream
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The kept items of each basket: as many as drawn, by the first steps of a Fisher–Yates shuffle
    of every basket at once.
    """
    sizes, items = np.diff(offsets), items.copy()
    kept = np.minimum(rng.below(cutoff + 1, len(sizes)).astype(np.int64), sizes)
    for place in range(int(kept.max(initial=0))):
        rows = np.flatnonzero(kept > place)
        here = offsets[rows] + place
        chosen = here + rng.below_each(sizes[rows] - place)
        items[here], items[chosen] = items[chosen], items[here]
    ends = np.concatenate([[0], np.cumsum(kept)])
    return ends, items[np.repeat(offsets[:-1] - ends[:-1], kept) + np.arange(ends[-1])]


def _every_basket(
    items: int,
) -> NDArray[np.int64]:  # (2^items, items), in the order of the table's cells
    return np.arange(1 << items)[:, None] >> np.arange(items)[::-1] & 1


def _every_record(
    shape: tuple[int, ...],
) -> NDArray[np.int64]:  # (cells, items), in the order of the table's cells
    codes = np.unravel_index(np.arange(math.prod(shape)), shape)
    return np.concatenate(
        [np.eye(size, dtype=np.int64)[code] for code, size in zip(codes, shape, strict=True)],
        axis=1,
    )
