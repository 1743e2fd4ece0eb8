"""Whole records, each a value of its own, for few records: what such mechanisms share, and
UnaryEncoding (a bit for each), SubsetSelection (a set of them), HadamardResponse (one symbol).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels import Channel, Dense, Unary
from sfumato.channels.unary_bits import SubsetBits
from sfumato.domain import Category, Cells, Columns, Domain, Items
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism, Within, check_kept, every_cell, rows_of, safe_log
from sfumato.mechanisms.bitflip import likeliest_bits, reported_items
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.limits import FINENESS, LARGEST, MOST_CELLS
from sfumato.mechanisms.parameters import fraction, whole
from sfumato.mechanisms.steps import Own, Step, Subset, UnaryStep
from sfumato.mechanisms.steps.basket_steps import SCALE
from sfumato.mechanisms.weights import simple_below
from sfumato.observation import CellTally, Observation, item_tally
from sfumato.privacy.guarantee import Gamma, Guarantee

MOST_GAMMA = LARGEST // (2 * MOST_CELLS)  # weights of so many records are summed exactly


@checked
class JointMechanism(Mechanism):
    """A mechanism that reports on whole private records, each a value of its own: its reports stand
    in one column, and its one channel is from records to what is counted of them.
    """

    def __post_init__(self) -> None:
        check_joint(self.name, self.domain)

    @property
    @abstractmethod
    def joint_channel(self) -> Channel:
        """From whole records to the tally: of symbols, or of the sets that each record is in."""

    @abstractmethod
    def _likelihoods(self, reports: Columns, shares: NDArray[Any]) -> NDArray[Any]:
        """P(report | group), up to a factor of each report, where `shares` (groups, records) are
        the distributions of whole records.
        """

    @property
    def _records(self) -> int:
        return self.domain.private.cells

    def _record_items(self, name: str) -> Domain:
        """Reports of sets of records: an item for each, named by the columns too, so that such
        reports of other columns can stand beside them.
        """
        columns = " and ".join(self.domain.private.names)
        labels = tuple(f"record {number} of {columns}" for number in range(self._records))
        return Domain((Items(name, labels),))

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        private, column = self.domain.private, self.private_reports.attributes[0]
        every = tuple(private.cells_of(axis.name) for axis in private.axes)
        tally = item_tally(column) if isinstance(column, Items) else CellTally((column.cells(),))
        return Observation(every, tally, self.joint_channel)

    def private_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within | None, margins: Any
    ) -> NDArray[Any]:
        """Columns are independent in each group, and all else is evenly spread."""
        private, groups = self.domain.private, every_cell(cells) if within is None else within
        codes = np.unravel_index(np.arange(private.cells), private.shape)
        shares = np.full((len(groups[0]), private.cells), 1 / private.cells)
        for part, column in zip(cells, groups, strict=True):
            own = part.assign(codes[private.index(part.attribute.name)]).astype(np.intp)
            shares *= (column / part.counts() * part.attribute.size)[:, own]
        return safe_log(self._likelihoods(reports, shares))


@checked
@dataclass(frozen=True, repr=False)
class UnaryEncoding(JointMechanism):
    """The true record's bit is shown half of the time, any other with `false` / 65,536 (optimised
    unary encoding, Wang et al. 2017).

    Two records differ in two bits, so γ = (1/2)/f · (1−f)/(1/2) = (1−f)/f. The variance of a share
    is 4γ/(γ−1)² per person, whatever the number of records.

    >>> from sfumato.domain import Category
    >>> coin = Domain((Category("coin", ("heads", "tails")),))
    >>> UnaryEncoding.promising(Guarantee(3), coin).false
    16384
    """

    name = "unary"
    summary = "one bit for every possible record (OUE); few records"
    in_file = (whole("false", 1, SCALE),)
    domain: Domain
    false: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.false < SCALE // 2:
            raise ParameterError(
                f"false={self.false} of {SCALE:,} shows a false bit never, or as often as the true "
                f"one; use 1 to {SCALE // 2 - 1:,}"
            )

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        if not 1 < guarantee.gamma < math.inf:
            raise ParameterError(f"gamma={float(guarantee.gamma):g} cannot be promised by unary")
        false = math.ceil(SCALE / (1 + Fraction(guarantee.gamma)))
        return check_kept(cls(domain.binned(), false), guarantee)

    @cached_property
    def private_reports(self) -> Domain:
        return self._record_items("bits")

    def steps(self) -> tuple[Step, ...]:
        shape, size = self.domain.private.shape, self._records
        return (
            UnaryStep(
                columns=tuple(range(len(shape))),
                reports=(0,),
                sizes=shape,
                answers=size,
                ones=(SCALE // 2,) * size,
                zeros=(SCALE - self.false,) * size,
            ),
        )

    @cached_property
    def joint_channel(self) -> Unary:
        size, false = self._records, self.false / SCALE
        return Unary(np.full(size, 0.5), np.full(size, 1 - false), self.domain.private.shape)

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float]:
        bits = self.joint_channel
        highest = likeliest_bits(reports[0], bits.ones, bits.zeros, [range(self._records)])
        return highest, float(self.guarantee.gamma)

    def _likelihoods(self, reports: Columns, shares: NDArray[Any]) -> NDArray[Any]:
        """Σ over records of what a shown or hidden bit says of it."""
        false, shown = self.false / SCALE, reported_items(self, reports).to_dense()
        return np.asarray(np.where(shown, 0.5 / false, 0.5 / (1 - false)) @ shares.T)


@checked
@dataclass(frozen=True, repr=False)
class SubsetSelection(JointMechanism):
    """`chosen` of the n possible records: sets that hold the true one have weight a, others b (Ye
    and Barg 2018; Wang et al. 2016).

    γ = a/b, since the total weight C(n−1,k−1)·a + C(n−1,k)·b is the same for every truth.
    k = n/(γ+1) tells most; with one chosen it is k-ary response.

    >>> from sfumato.domain import Category
    >>> dice = Domain((Category("dice", tuple("123456")),))
    >>> SubsetSelection.promising(Guarantee(2), dice).chosen
    2
    """

    name = "subset-selection"
    summary = "a set of possible records with the true one likelier in it; few records"
    in_file = (fraction("gamma"), whole("chosen", 1))
    domain: Domain
    gamma: Gamma
    chosen: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_gamma(self.gamma)
        if not 1 <= self.chosen < self._records:
            raise ParameterError(
                f"chosen={self.chosen} of {self._records} records; choose one at least and not all"
            )

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        domain = domain.binned()
        check_joint(cls.name, domain)
        gamma, cells = joint_gamma(guarantee), domain.private.cells
        chosen = min(max(1, round(cells / (float(gamma) + 1))), cells - 1)
        return check_kept(cls(domain, gamma, chosen), guarantee)

    @cached_property
    def private_reports(self) -> Domain:
        return self._record_items("set")

    def steps(self) -> tuple[Step, ...]:
        shape, gamma = self.domain.private.shape, Fraction(self.gamma)
        return (
            Subset(
                columns=tuple(range(len(shape))),
                reports=(0,),
                sizes=shape,
                answers=self._records,
                chosen=self.chosen,
                a=gamma.numerator,
                b=gamma.denominator,
            ),
        )

    @property
    def _held(self) -> float:
        """How often the true record is in the set."""
        a, b = Fraction(self.gamma).as_integer_ratio()
        return self.chosen * a / (self.chosen * a + (self._records - self.chosen) * b)

    @cached_property
    def joint_channel(self) -> SubsetBits:
        size, held = self._records, self._held
        hidden = np.full(size, 1 - (self.chosen - held) / (size - 1))
        return SubsetBits(np.full(size, held), hidden, self.domain.private.shape, self.chosen)

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float]:
        own = self._held / math.comb(self._records - 1, self.chosen - 1)
        return np.full(rows_of(reports), own), own * math.comb(self._records, self.chosen)

    def _likelihoods(self, reports: Columns, shares: NDArray[Any]) -> NDArray[Any]:
        """P(set | group) ∝ 1 + (γ−1)·P(the record is in the set | group)."""
        inside = reported_items(self, reports).to_dense() @ shares.T
        return np.asarray(1 + (float(self.gamma) - 1) * inside)


@checked
@dataclass(frozen=True, repr=False)
class HadamardResponse(JointMechanism):
    """Each of the true record's own symbols with weight a and any other with b, of the same total
    for every record: γ = a/b (Hadamard response, Acharya, Sun and Zhang 2019).

    One integer below own·(a−b) + symbols·b decides: below own·(a−b) it names an own symbol, else
    any.

    >>> from sfumato.domain import Category
    >>> dice = Domain((Category("dice", tuple("123456")),))
    >>> HadamardResponse.promising(Guarantee(3), dice).guarantee
    Guarantee(gamma=3)
    """

    name = "hadamard"
    summary = "one symbol, own symbols likelier (Hadamard response); few records"
    in_file = (fraction("gamma"),)
    domain: Domain
    gamma: Gamma

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_gamma(self.gamma)

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        return check_kept(cls(domain.binned(), joint_gamma(guarantee)), guarantee)

    @cached_property
    def _width(self) -> int:
        """Symbols of a block, a power of 2: as many blocks as the paper takes, 2^(⌈log₂ min(γ,
        2·records)⌉ − 1), or what is needed.
        """
        bound = max(1.0, min(float(self.gamma), 2 * self._records))
        wanted, width = 2 ** max(0, math.ceil(math.log2(bound)) - 1), 2
        while width - 1 < self._records / wanted:
            width *= 2
        return width

    @property
    def _symbols(self) -> int:
        return math.ceil(self._records / (self._width - 1)) * self._width

    @cached_property
    def _own(self) -> NDArray[np.intp]:  # (records, half of a block)
        """The symbols of each record, ascending: record x lies in block x // (width−1), and its own
        are those at which row x mod (width−1) + 1 of Sylvester's matrix is +1. Two records of one
        block share a quarter of it.
        """
        signs = np.ones((1, 1), dtype=np.int64)
        while len(signs) < self._width:
            signs = np.block([[signs, signs], [signs, -signs]])
        block, row = np.divmod(np.arange(self._records), self._width - 1)
        inside = np.stack([np.flatnonzero(signs[place + 1] > 0) for place in row])
        return inside + (block * self._width)[:, None]

    @cached_property
    def private_reports(self) -> Domain:
        return Domain((Category("symbol", tuple(map(str, range(self._symbols)))),))

    def steps(self) -> tuple[Step, ...]:
        gamma, shape = Fraction(self.gamma), self.domain.private.shape
        return (
            Own(
                columns=tuple(range(len(shape))),
                reports=(0,),
                sizes=shape,
                answers=self._records,
                symbols=self._symbols,
                own=tuple(map(tuple, self._own.tolist())),
                a=gamma.numerator,
                b=gamma.denominator,
            ),
        )

    @cached_property
    def joint_channel(self) -> Dense:
        gamma, own = float(self.gamma), self._width // 2
        weights = np.ones((self._symbols, self._records))
        weights[self._own.T, np.arange(self._records)] = gamma
        matrix = weights / (own * gamma + self._symbols - own)
        return Dense(matrix, self.domain.private.shape, (self._symbols,))

    @property
    def private_channel(self) -> Dense:
        return self.joint_channel

    def _likelihoods(self, reports: Columns, shares: NDArray[Any]) -> NDArray[Any]:
        symbols = np.asarray(reports[self.reports.index("symbol")]).astype(np.intp)
        return np.asarray(self.joint_channel.matrix @ shares.T)[symbols]


def joint_gamma(guarantee: Guarantee) -> Fraction:
    """The largest simple gamma, not above the one asked for, that exact weights realise."""
    stated = Fraction(guarantee.gamma) if guarantee.gamma < math.inf else Fraction(0)
    bounded = min(stated, Fraction(MOST_GAMMA))
    return simple_below(bounded, max(1, min(FINENESS, MOST_GAMMA // max(1, math.ceil(bounded)))))


def _check_gamma(gamma: Gamma) -> None:
    if not 1 < gamma < math.inf:
        raise ParameterError(f"gamma={float(gamma):g}; use a finite gamma > 1")


def check_joint(name: str, domain: Domain) -> None:
    """Refuse baskets, and more different records than can each be a value."""
    check_cells(name, domain)
    cells = domain.private.cells
    if not 1 < cells <= MOST_CELLS:
        raise ParameterError(
            f"{name} reports one value of all private columns together; found {cells:,} different "
            f"records, where 2 to {MOST_CELLS:,} can be told apart",
            hint="use the questionnaire, or fewer columns and coarser cells",
        )
