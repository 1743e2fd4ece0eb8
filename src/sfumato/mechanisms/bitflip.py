"""Every item of a basket kept or flipped on its own: BitFlip (MASK), ones with one probability and
zeros with another; FrequencyFlip (FP/NFP), where frequent items are only taken away.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.bits import Bits
from sfumato.channels import Channel, Dense, Product, Retain, Unary
from sfumato.channels.limits import ENTRIES
from sfumato.domain import Cells, Codes, Columns, Domain, Items, as_bits
from sfumato.errors import (
    DataError,
    EstimationError,
    ParameterError,
    PrivacyError,
    SchemaError,
    listing,
)
from sfumato.mechanisms.base import (
    Mechanism,
    Within,
    by_parameters,
    check_kept,
    every_cell,
    safe_log,
)
from sfumato.mechanisms.parameters import InFile, Option, Supports, check_given, keep_of, number
from sfumato.mechanisms.steps import Flip, Step
from sfumato.mechanisms.steps.basket_steps import SCALE, item_odds, one_hot
from sfumato.observation import FlipLaw, ItemsetTally, Observation
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import check_places
from sfumato.untrusted import Untrusted

Rates = float | Sequence[float] | NDArray[Any]


@checked
class ItemFlips(Mechanism):
    """What all mechanisms have in common that flip every item on its own: a product over items of
    2×2 channels.

    Item i is reported when true with probability p_i (keep ones) and not reported when false with
    q_i (keep zeros): MASK, EMASK and FP/NFP. Records are reported as baskets of
    their `attribute=value` items.
    """

    @property
    @abstractmethod
    def thresholds(self) -> NDArray[np.int64]:  # (items, 2)
        """Keep ones and keep zeros of every report item, in 65,536ths: the integers that are
        sampled.
        """

    @cached_property
    def p(self) -> NDArray[np.float64]:
        """The probability that a one stays a one, for each report item."""
        return self.thresholds[:, 0] / SCALE

    @cached_property
    def q(self) -> NDArray[np.float64]:
        """The probability that a zero stays a zero, for each report item."""
        return self.thresholds[:, 1] / SCALE

    @cached_property
    def private_reports(self) -> Domain:
        return basket_reports(self.domain)

    def steps(self) -> tuple[Step, ...]:
        private = self.domain.private
        ones, zeros = (tuple(keeps) for keeps in self.thresholds.T.tolist())
        return (
            Flip(
                columns=tuple(range(len(private))),
                reports=(0,),
                items=private.attributes[0].size if private.baskets else None,
                sizes=None if private.baskets else private.shape,
                ones=ones[:1] if len(set(ones)) == 1 else ones,
                zeros=zeros[:1] if len(set(zeros)) == 1 else zeros,
            ),
        )

    @by_parameters
    def item_law(self) -> FlipLaw:
        return FlipLaw(self.p, self.q)

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        """Baskets by the items asked for; records by itemsets with at most one item of each column,
        so that no bit of another value is ever looked at.
        """
        if self.domain.private.baskets:
            return super().observe_private(cells)
        own = items_of(self.domain.private, cells)
        factors = [Unary(self.p[list(items)], self.q[list(items)]) for items in own]
        channel = Product.of(*factors) if len(own) > 1 else factors[0]
        return by_itemsets(self, cells, channel)

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float] | None:
        private = self.domain.private
        if private.baskets:
            return super().most_likely(reports)
        found = likeliest_bits(reports[0], self.p, self.q, item_places(private))
        return found, float(self.guarantee.gamma)

    def private_likelihood(
        self,
        reports: Columns,
        cells: Sequence[Cells],
        within: Within | None,
        margins: Within | None,
    ) -> NDArray[Any]:
        """Of records: Σ_u d(u)·P(bit u | 1)/P(bit u | 0); the other bits say the same of all u."""
        private = self.domain.private
        if private.baskets:
            return super().private_likelihood(reports, cells, within, margins)
        within = every_cell(cells) if within is None else within
        bits = reported_items(self, reports)
        logs = np.zeros((bits.rows, len(within[0])))
        for part, column, places in zip(cells, within, items_of(private, cells), strict=True):
            items = list(places)
            odds = _bit_odds(bits.select(items).to_dense(), self.p[items], self.q[items])
            logs += safe_log(odds @ value_shares(part, column).T)
        return logs

    @property
    def private_channel(self) -> Channel:
        return self.private_channel_over(range(len(self.domain.private.axes)))

    def private_channel_over(self, axes: Sequence[int]) -> Channel:
        """Of baskets, from which of a few items are true to which are reported; of records, from
        the cells of a few attributes to every combination of their items' bits, where that is
        small.
        """
        if self.domain.private.baskets:
            check_places("items", axes, len(self.p))
            pairs = ((float(self.p[item]), float(self.q[item])) for item in axes)
            return Product.of(*(Retain.flip(*pair) for pair in pairs))
        places = item_places(self.domain.private)
        shape = tuple(len(places[axis]) for axis in axes)
        check_written_out(self.name, sum(shape), math.prod(shape))
        matrix: NDArray[Any] = np.ones((1, 1))
        for axis in axes:
            columns = []
            for true in places[axis]:
                column = np.ones(1)
                for item in places[axis]:
                    one = self.p[item] if item == true else 1 - self.q[item]
                    column = np.kron(column, [1 - one, one])
                columns.append(column)
            matrix = np.kron(matrix, np.stack(columns, axis=1))
        return Dense(matrix, shape, (2,) * sum(shape))

    @cached_property
    def per_item(self) -> Guarantee:
        """What is promised about any one item, whatever else the basket holds."""
        above = self.thresholds.sum(axis=1, keepdims=True) >= SCALE
        ones, zeros = np.where(above, self.thresholds, SCALE - self.thresholds).T
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.fmax(ones / (SCALE - zeros), zeros / (SCALE - ones))
        odds[ones + zeros == SCALE] = 1.0  # an item whose report says nothing
        # Exactly, of the items about which most is told: those that rounding cannot tell apart.
        boldest = self.thresholds[odds >= odds.max() * (1 - 1e-9)].tolist()
        return Guarantee(max(max(item_odds(*item)) for item in set(map(tuple, boldest))))

    @by_parameters
    def caveats(self) -> tuple[str, ...]:
        private = self.domain.private
        whole = f"record of {len(private)} attributes"
        if private.baskets:
            whole = f"basket from {len(self.thresholds)} items"
        return (
            f"the guarantee covers a whole {whole}; about any one of its items alone it is "
            f"{self.per_item}",
        )


def _rates(name: str) -> InFile:
    """One rate for all items, or one an item."""
    return InFile(
        name,
        lambda given: (
            given.numbers(least=0, highest=1)
            if isinstance(given.value, list | tuple)
            else given.number(least=0, most=1)
        ),
        lambda rates: list(rates) if isinstance(rates, tuple) else rates,
    )


@checked
@dataclass(frozen=True, repr=False)
class BitFlip(ItemFlips):
    """Keep each one with probability `keep_ones` and each zero with `keep_zeros` (MASK, Rizvi and
    Haritsa 2002).

    Either is one number or a vector over the report items. Both are rounded to 65,536ths towards p
    + q = 1, where nothing is told, and the rounded numbers are the mechanism's parameters.

    >>> mask = BitFlip(Domain((Items("items", ("bread", "milk")),)), 0.75, 0.75)
    >>> mask.guarantee, mask.per_item
    (Guarantee(gamma=9), Guarantee(gamma=3))
    """

    name = "mask"
    summary = "bits of baskets, or of one-hot records (MASK)"
    options = (
        Option("keep", "how often a bit stays, ones and zeros alike", str, needed=False),
        Option("keep_ones", "how often a one stays"),
        Option("keep_zeros", "how often a zero stays"),
    )
    in_file = (_rates("keep_ones"), _rates("keep_zeros"))
    domain: Domain
    keep_ones: Rates
    keep_zeros: Rates

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", self.domain.binned())
        pairs = [*zip(*self._rates(), strict=True)]
        rounded = {pair: rounded_rates(*pair) for pair in set(pairs)}
        for place, name in enumerate(("keep_ones", "keep_zeros")):
            rates = tuple(rounded[pair][place] / SCALE for pair in pairs)
            object.__setattr__(self, name, rates[0] if len(set(rates)) == 1 else rates)

    def _rates(self) -> list[list[float]]:
        """Keep ones and keep zeros, one an item."""
        items, found = basket_reports(self.domain).attributes[0].size, list[list[float]]()
        for name, rates in (("keep_ones", self.keep_ones), ("keep_zeros", self.keep_zeros)):
            listed = list(map(float, [rates] * items if isinstance(rates, int | float) else rates))
            if len(listed) != items:
                raise ParameterError(
                    f"{name} lists {len(listed)} probabilities for {items} items; give one, or one "
                    "an item"
                )
            found.append(listed)
        return found

    @classmethod
    def from_options(
        cls, domain: Domain, given: Mapping[str, Any], supports: Supports | None = None
    ) -> Self:
        if "keep" not in given:
            return super().from_options(domain, given)
        if len(given) > 1:
            raise ParameterError(
                "--keep is for ones and zeros alike, so it cannot stand beside --keep-ones or "
                "--keep-zeros"
            )
        keep = keep_of(given["keep"])
        if isinstance(keep, dict):
            raise ParameterError("mask takes one --keep for all items, not one a column")
        return cls(domain, keep, keep)

    @cached_property
    def thresholds(self) -> NDArray[np.int64]:
        return (np.array(self._rates()).T * SCALE).astype(np.int64)

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        """The largest symmetric keep p with (p/(1-p))^e ≤ γ; e is the number of items, or twice the
        number of columns for records, two of which differ in at most two bits a column.
        """
        guarantee.check_finite()
        binned = domain.binned()
        basket_reports(binned)
        several = sum(attribute.size > 1 for attribute in binned.private)
        private = binned.private
        exponent = private.attributes[0].size if private.baskets else max(1, 2 * several)
        odds = math.exp(guarantee.epsilon / exponent)
        keep = min(int(SCALE * odds / (1 + odds)) + 1, SCALE - 1)
        while Fraction(keep, SCALE - keep) ** exponent > guarantee.gamma:
            keep -= 1
        if 2 * keep <= SCALE:
            raise PrivacyError(
                f"mask cannot keep any bit more often than chance under {guarantee}",
                hint=(
                    "use a larger gamma or fewer attributes or items, or the gamma-diagonal "
                    "mechanism"
                ),
            )
        return check_kept(cls(binned, keep / SCALE, keep / SCALE), guarantee)


@checked
@dataclass(frozen=True, repr=False)
class FrequencyFlip(ItemFlips):
    """Keep ones with `fp`; keep the zeros of frequent items always, of the others with `nfp` (Rao
    and Chiranjeevi 2012).

    A data owner's method: which items are frequent is read off the true data. Its paper mines the
    distorted data as they are; the channel is known, so supports can be reconstructed as from any
    other bit flips.

    >>> from sfumato.domain import Items
    >>> pair = Domain((Items("items", ("bread", "caviar")),))
    >>> rates = {"fp": 0.75, "nfp": 0.5, "min_support": 0.01}
    >>> FrequencyFlip.from_supports(pair, [0.6, 0.001], **rates).thresholds.tolist()
    [[49152, 65536], [49152, 32768]]
    """

    name = "fp-nfp"
    summary = "an owner's method for baskets: frequent items are only taken away; no guarantee"
    options = (
        Option("fp", "how often a one stays"),
        Option("nfp", "how often a zero of an item that is not frequent stays"),
        Option("min_support", "from which support on an item is frequent"),
    )
    in_file = (InFile("frequent", Untrusted.words, list), number("fp", 0, 1), number("nfp", 0, 1))
    promises = False
    domain: Domain
    frequent: tuple[str, ...]
    fp: float
    nfp: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", self.domain.binned())
        items = basket_reports(self.domain).attributes[0]
        for item in self.frequent:
            items.code(item)
        if self.fp == 0:
            raise ParameterError(
                "fp=0 removes every item from every basket, so nothing can be reconstructed; use "
                "0 < fp <= 1"
            )
        fp, nfp = rounded_rates(self.fp, self.nfp)
        object.__setattr__(self, "fp", fp / SCALE)
        object.__setattr__(self, "nfp", nfp / SCALE)

    @classmethod
    def from_supports(
        cls,
        domain: Domain,
        supports: Sequence[float] | NDArray[Any],
        fp: float,
        nfp: float,
        min_support: float,
    ) -> Self:
        """The mechanism whose frequent items are those of support ≥ min_support, one true support a
        report item.
        """
        items = basket_reports(domain.binned()).attributes[0]
        if len(supports) != items.size:
            raise ParameterError(
                f"{len(supports)} supports were given for {items.size} items; give one an item"
            )
        pairs = zip(items.labels, supports, strict=True)
        return cls(domain, tuple(item for item, own in pairs if own >= min_support), fp, nfp)

    @classmethod
    def from_options(
        cls, domain: Domain, given: Mapping[str, Any], supports: Supports | None = None
    ) -> Self:
        check_given(cls.name, cls.options, given)
        if supports is None:
            raise ParameterError(
                "fp-nfp counts the items before it perturbs them, which is not done by Spark",
                hint="use mask",
            )
        if not given:
            raise ParameterError(f"{cls.name} needs {listing(o.flag for o in cls.options)}")
        return cls.from_supports(domain, supports(domain), **given)

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        raise PrivacyError(
            "fp-nfp promises nothing to a respondent: a frequent item that is reported is "
            "certain to be true",
            hint="use the mask mechanism, or state --fp, --nfp and --min-support",
        )

    @cached_property
    def thresholds(self) -> NDArray[np.int64]:
        items = self.private_reports.attributes[0]
        thresholds = np.tile([int(self.fp * SCALE), int(self.nfp * SCALE)], (items.size, 1))
        thresholds[[items.code(item) for item in self.frequent], 1] = SCALE
        return thresholds

    @cached_property
    def guarantee(self) -> Guarantee:
        """γ = ∞, even with no frequent item: which items are frequent is told, and came from the
        true data.
        """
        return Guarantee(math.inf)

    @by_parameters
    def caveats(self) -> tuple[str, ...]:
        return (
            f"a frequent item ({len(self.frequent)} of them) that is reported is certain to be "
            "true, so gamma is infinite",
            "which items are frequent was read off the true data and is told",
        )


# Records as baskets of their items, which cut-and-paste reports too.


def as_baskets(columns: Columns, private: Domain) -> Bits:
    """The records as baskets of their items; baskets as they are."""
    return as_bits(columns[0]) if private.baskets else one_hot(columns, private.shape)


def basket_reports(domain: Domain) -> Domain:
    """The universe in which private records are reported: their own items, or one item for each
    value of each attribute.
    """
    private = domain.private
    if private.baskets:
        return private
    for attribute in private:
        if isinstance(attribute, Items):
            raise SchemaError(
                f"'{attribute.name}' holds baskets and stands beside other private columns",
                hint="perturb baskets and records with a mechanism each (combined)",
            )
    return private.one_hot()


def reported_items(mechanism: Mechanism, reports: Columns) -> Bits:
    """The baskets among the columns of a report."""
    column = reports[mechanism.reports.index(mechanism.private_reports.attributes[0].name)]
    if not isinstance(column, Bits):
        raise DataError(f"these reports are not those of {mechanism.name}: their items are missing")
    return column


def item_places(private: Domain) -> list[range]:
    """The report items of each attribute of a record."""
    ends = np.cumsum([attribute.size for attribute in private]).tolist()
    return [range(end - attribute.size, end) for end, attribute in zip(ends, private, strict=True)]


def items_of(private: Domain, cells: Sequence[Cells]) -> list[range]:
    """The report items of the attributes that these cells are of."""
    places = item_places(private)
    return [places[private.index(part.attribute.name)] for part in cells]


def by_itemsets(mechanism: Mechanism, cells: Sequence[Cells], channel: Channel) -> Observation:
    """Records counted by the itemsets with at most one item of each column."""
    items = mechanism.private_reports.attributes[0]
    assert isinstance(items, Items)
    own = items_of(mechanism.domain.private, cells)
    tally = ItemsetTally((items,), tuple((tuple(places), True) for places in own))
    return Observation(tuple(part.attribute.cells() for part in cells), tally, channel)


def value_shares(part: Cells, within: NDArray[Any]) -> NDArray[Any]:  # (groups, values)
    """The distribution over a column's values, each cell's share spread evenly over its values."""
    share = within / np.maximum(part.counts(), 1)
    return share[:, part.assign(np.arange(part.attribute.size))]


def _bit_odds(there: NDArray[Any], ones: NDArray[Any], zeros: NDArray[Any]) -> NDArray[Any]:
    """How much likelier each bit is if its value is the true one."""
    shown, hidden = ones / np.maximum(1 - zeros, 1e-12), (1 - ones) / np.maximum(zeros, 1e-12)
    return np.where(there, shown, hidden)


def likeliest_bits(
    bits: Codes | Bits, ones: NDArray[Any], zeros: NDArray[Any], columns: Iterable[Sequence[int]]
) -> NDArray[Any]:
    """The highest chance of each row of bits under any record with one true item of each column."""
    assert isinstance(bits, Bits)
    shown = bits.to_dense()
    logs = safe_log(np.where(shown, 1 - zeros, zeros)).sum(axis=1)
    odds = safe_log(_bit_odds(shown, ones, zeros))
    return np.exp(logs + sum(odds[:, list(items)].max(axis=1) for items in columns))


def rounded_rates(keep_ones: float, keep_zeros: float) -> tuple[int, int]:
    """Both probabilities in 65,536ths, rounded towards keep_ones + keep_zeros = 1, that is towards
    privacy.

    >>> rounded_rates(0.9, 0.9), rounded_rates(0.1, 0.1)
    ((58982, 58982), (6554, 6554))
    """
    for name, rate in (("keep_ones", keep_ones), ("keep_zeros", keep_zeros)):
        if not 0 <= rate <= 1:
            raise ParameterError(f"{name}={rate:g} is not a probability; use a number from 0 to 1")
    scaled = keep_ones * SCALE, keep_zeros * SCALE
    if scaled == (int(scaled[0]), int(scaled[1])) and sum(scaled) != SCALE:
        return int(scaled[0]), int(scaled[1])  # as files hold them: nothing is left to round
    ones, zeros = Fraction(str(keep_ones)), Fraction(str(keep_zeros))
    toward = math.floor if ones + zeros > 1 else math.ceil
    rounded = toward(ones * SCALE), toward(zeros * SCALE)
    if (ones + zeros - 1) * (sum(rounded) - SCALE) <= 0:
        raise ParameterError(
            f"keep_ones={keep_ones:g} and keep_zeros={keep_zeros:g} add up to 1: an item is "
            "reported as often when it is absent as when it is present, so nothing can be "
            "reconstructed",
            hint="use a sum above 1, or below it",
        )
    return rounded


def check_written_out(name: str, items: int, cells: int) -> None:
    """Refuse to write out a matrix from cells to every combination of items where it would be
    large.
    """
    if items > 40 or cells << items > ENTRIES:
        raise EstimationError(
            f"the {name} channel from {cells} cells to 2^{items} baskets is too large to write out",
            hint="ask for itemsets: their channel is small",
        )
