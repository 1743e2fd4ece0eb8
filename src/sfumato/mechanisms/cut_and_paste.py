"""CutAndPaste: a few items of a basket are kept, then every other item of the universe is put in by
chance.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.bits import Bits
from sfumato.channels import Channel, CutBaskets, CutRecords, Dense, NotLumpableError, Sizes
from sfumato.channels.cut import beyond_cutoff, kept_inside
from sfumato.domain import Cells, Columns, Domain, Numeric
from sfumato.errors import ParameterError, PrivacyError
from sfumato.mechanisms.base import (
    TYPICAL_BASKET,
    Mechanism,
    Within,
    by_parameters,
    check_kept,
    every_cell,
    safe_log,
)
from sfumato.mechanisms.bitflip import (
    basket_reports,
    by_itemsets,
    check_written_out,
    items_of,
    reported_items,
    value_shares,
)
from sfumato.mechanisms.parameters import Option, number, whole
from sfumato.mechanisms.steps import CutStep
from sfumato.mechanisms.steps.basket_steps import SCALE, boost, cut_law
from sfumato.observation import CellTally, CutLaw, Observation
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import check_count
from sfumato.untrusted import MOST_CUTOFF

SIZE = "basket size"  # the public column beside reported baskets


@checked
@dataclass(frozen=True, repr=False)
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
    summary = "baskets and records, itemsets up to the cutoff (Evfimievski et al.)"
    options = (
        Option("cutoff", "how many items are kept at most", int),
        Option("insert", "how often any other item is put in"),
    )
    in_file = (whole("cutoff", 1, MOST_CUTOFF), number("insert", 0, 1))
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
        return check_kept(best, guarantee)

    @classmethod
    def _least_insert(cls, guarantee: Guarantee, domain: Domain, cutoff: int) -> Self | None:
        """The mechanism with the smallest insert that keeps the guarantee, by bisection: γ falls as
        insert grows.
        """
        (step,) = cls(domain, cutoff, 0.5).steps()

        def kept(insert: int) -> bool:
            return guarantee.allows(Guarantee(replace(step, insert=insert).gamma))

        inserts = range(1, SCALE)
        if not kept(inserts[-1]):
            return None
        return cls(domain, cutoff, inserts[bisect_left(inserts, True, key=kept)] / SCALE)

    @cached_property
    def private_reports(self) -> Domain:
        """Baskets, and beside baskets of unknown size their true size as a public column."""
        return _reports_of(self.domain)

    @property
    def universe(self) -> int:
        """The number of report items."""
        return self.private_reports.attributes[0].size

    def steps(self) -> tuple[CutStep]:
        private = self.domain.private
        return (
            CutStep(
                columns=tuple(range(len(private))),
                reports=tuple(range(len(self.private_reports))),
                items=private.attributes[0].size if private.baskets else None,
                sizes=None if private.baskets else private.shape,
                cutoff=self.cutoff,
                insert=round(self.insert * SCALE),
            ),
        )

    def sizes(self, length: int, basket_size: int | None = None) -> Sizes:
        """The channel of partial supports of itemsets of this length, in baskets of this size (of
        records: M).
        """
        check_count("length", length, least=1)
        size = basket_size
        if not self.domain.private.baskets:
            size = len(self.domain.private)
        if size is None:
            raise ParameterError("baskets differ in size; say which basket_size")
        check_count("basket_size", size, least=0)
        if min(length, size) > self.cutoff:
            raise beyond_cutoff(length, self.cutoff)
        return Sizes.cut_and_paste(length, size, self.cutoff, self.insert)

    @by_parameters
    def item_law(self) -> CutLaw:
        size: int | Cells = len(self.domain.private)
        if self.domain.private.baskets:
            size = self.private_reports[SIZE].cells()
        return CutLaw(self.cutoff, self.insert, self.universe, size)

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        """Records by itemsets with at most one item of each column; baskets by the items asked for,
        one table a size of the true basket.
        """
        private = self.domain.private
        if private.baskets:
            sizes = self.private_reports[SIZE].cells()
            channel = CutBaskets(sizes.size, len(cells), self.cutoff, self.insert)
            return Observation((sizes, *cells), CellTally((sizes, *cells)), channel)
        shape = tuple(part.attribute.size for part in cells)
        records = CutRecords(shape, len(private), self.cutoff, self.insert)
        return by_itemsets(self, cells, records)

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float]:
        """That of a basket which is the report itself: as many as may be are kept of it."""
        shown = np.arange(self.universe + 1)
        kept = np.minimum(np.arange(self.cutoff + 1), shown[:, None])
        some = (self.insert ** (shown[:, None] - kept)).mean(axis=1)
        highest = some * (1 - self.insert) ** (self.universe - shown)
        bits = reports[0]
        assert isinstance(bits, Bits)
        sets = np.array([math.comb(self.universe, int(size)) for size in shown], dtype=np.float64)
        sizes = math.prod(attribute.size for attribute in self.private_reports.attributes[1:])
        return highest[bits.to_dense().sum(axis=1)], float(highest @ sets) * sizes

    def private_likelihood(
        self,
        reports: Columns,
        cells: Sequence[Cells],
        within: Within | None,
        margins: Within | None,
    ) -> NDArray[Any]:
        """Of records, up to what putting in alone would give: Σ_c P(c of the items are kept)·e_c,
        e_c the mean over the choices of c columns of ∏ P(their true item is shown)/ρ.
        """
        private = self.domain.private
        within = every_cell(cells) if within is None else within
        if private.baskets:
            return self._basket_likelihood(reports, cells, within)
        bits = reported_items(self, reports)
        symmetric = [np.ones((bits.rows, len(within[0])))]  # elementary symmetric polynomials
        for part, column, items in zip(cells, within, items_of(private, cells), strict=True):
            shown = bits.select(list(items)).to_dense() @ value_shares(part, column).T / self.insert
            longer = [*symmetric, np.zeros_like(symmetric[0])]
            for degree, term in enumerate(symmetric, 1):
                longer[degree] = longer[degree] + term * shown
            symmetric = longer
        kept = kept_inside(len(private), len(cells), self.cutoff)
        terms = [
            chance / comb(len(cells), degree) * term
            for degree, (chance, term) in enumerate(zip(kept, symmetric, strict=True))
        ]
        return safe_log(np.sum(terms, axis=0))

    def _basket_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within
    ) -> NDArray[Any]:
        """Which of these items are shown, given which are true and how large the basket is."""
        sizes = np.asarray(reports[self.reports.index(SIZE)]).astype(np.intp)
        bits = reported_items(self, reports)
        channel = CutBaskets(self.universe + 1, len(cells), self.cutoff, self.insert).settle(
            np.bincount(sizes, minlength=self.universe + 1)[:, None] * np.eye(1 << len(cells))[0]
        )
        shown = [bits.column(part.item).astype(np.intp) for part in cells if part.item is not None]
        groups = len(within[0])
        joint: NDArray[Any] = np.ones((groups, 1))
        for part in within:
            joint = (joint[:, :, None] * part[:, None, :]).reshape(groups, -1)
        table = np.broadcast_to(joint.T, (self.universe + 1, *joint.T.shape))
        expected = channel.apply(table.reshape(*channel.inputs, groups))
        return safe_log(expected[(sizes, *shown)])

    @property
    def private_channel(self) -> Channel:
        return self.private_channel_over(range(len(self.domain.private.axes)))

    def private_channel_over(self, axes: Sequence[int]) -> Dense:
        """From baskets (or cells of these attributes) to reported baskets, without their size; only
        where that is small.
        """
        private = self.domain.private
        shape = tuple(private.shape[axis] for axis in axes)
        if private.baskets:
            if list(axes) != list(range(self.universe)):
                raise NotLumpableError(
                    "what is reported of a few items depends on the size of the basket; ask for "
                    "itemsets"
                )
            items = self.universe
            check_written_out(self.name, items, 1 << items)
            kept = [cut_law(self.cutoff, size) for size in range(items + 1)]
        else:
            items = sum(shape)
            check_written_out(self.name, items, math.prod(shape))
            inside = kept_inside(len(private), len(axes), self.cutoff)
            kept = [list(map(Fraction, inside))] * (len(axes) + 1)
        # Baskets as rows of bits, in the order of the table's cells.
        reports = np.arange(1 << items)[:, None] >> np.arange(items)[::-1] & 1
        truths = reports
        if not private.baskets:
            codes = np.unravel_index(np.arange(math.prod(shape)), shape)
            pairs = zip(codes, shape, strict=True)
            truths = np.hstack([np.eye(size, dtype=np.int64)[code] for code, size in pairs])
        sizes, insert = truths.sum(axis=1), Fraction(self.insert)
        likelihood = np.zeros((len(kept), len(kept)))
        for size, chances in enumerate(kept):
            for shared in range(size + 1):
                likelihood[size, shared] = float(boost(chances, size, shared, insert))
        shown = reports.sum(axis=1)
        pasted = self.insert**shown * (1 - self.insert) ** (items - shown)
        matrix = pasted[:, None] * likelihood[sizes[None, :], reports @ truths.T]
        return Dense(matrix, shape, (2,) * items)

    @by_parameters
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


@lru_cache(maxsize=8)  # a promise is looked for among many mechanisms of one domain
def _reports_of(domain: Domain) -> Domain:
    reports = basket_reports(domain)
    if not domain.private.baskets:
        return reports
    size = Numeric(SIZE, 0, reports.attributes[0].size, public=True)
    return Domain((*reports, size), reports.title)
