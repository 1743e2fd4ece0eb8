"""SubsetSelection: report a set of records, in which the true one is likelier than any other (Ye
and Barg 2018; Wang et al. 2016).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels.unary_bits import SubsetBits
from sfumato.domain import Columns, Domain, Items
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import check_kept, rows_of
from sfumato.mechanisms.bitflip import report_items, reported_items
from sfumato.mechanisms.joint import JointMechanism, check_joint, joint_gamma, record_items
from sfumato.mechanisms.steps import Step, Subset
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.untrusted import Untrusted


@checked
@dataclass(frozen=True, repr=False)
class SubsetSelection(JointMechanism):
    """`chosen` of the n possible records: sets that hold the true one have weight a, others b.

    γ = a/b, since the total weight C(n−1,k−1)·a + C(n−1,k)·b is the same for every truth.
    k = n/(γ+1) tells most; with one chosen it is k-ary response.

    >>> from sfumato.domain import Category
    >>> dice = Domain((Category("dice", tuple("123456")),))
    >>> SubsetSelection.promising(Guarantee(2), dice).chosen
    2
    """

    name = "subset-selection"
    summary = "a set of possible records with the true one likelier in it; few records"
    domain: Domain
    gamma: Gamma
    chosen: int

    def __post_init__(self) -> None:
        check_joint(self.name, self.domain)
        if not 1 < self.gamma < math.inf:
            raise ParameterError(f"gamma={float(self.gamma):g}; use a finite gamma > 1")
        if not 1 <= self.chosen < self.domain.private.cells:
            raise ParameterError(
                f"chosen={self.chosen} of {self.domain.private.cells} records; choose one at least "
                "and not all"
            )

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        domain = domain.binned()
        check_joint(cls.name, domain)
        gamma = joint_gamma(guarantee)
        cells = domain.private.cells
        chosen = min(max(1, round(cells / (float(gamma) + 1))), cells - 1)
        mechanism = cls(domain, gamma, chosen)
        check_kept(mechanism, guarantee)
        return mechanism

    def parameters(self) -> dict[str, Any]:
        return {"gamma": str(Fraction(self.gamma)), "chosen": self.chosen}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the parameters")
        return cls(domain, given["gamma"].fraction(), given["chosen"].whole(1))

    @cached_property
    def private_reports(self) -> Domain:
        return record_items("set", self.domain.private)

    @property
    def _items(self) -> Items:
        return report_items(self)

    @property
    def _parts(self) -> tuple[int, int, int]:
        """a, b, and the total below which one integer decides whether the truth is chosen."""
        gamma, size = Fraction(self.gamma), self._items.size
        a, b = gamma.numerator, gamma.denominator
        return a, b, self.chosen * a + (size - self.chosen) * b

    def steps(self) -> tuple[Step, ...]:
        shape = self.domain.private.shape
        a, b, _ = self._parts
        return (
            Subset(
                columns=tuple(range(len(shape))),
                reports=(0,),
                sizes=shape,
                answers=self._items.size,
                chosen=self.chosen,
                a=a,
                b=b,
            ),
        )

    @cached_property
    def joint_channel(self) -> SubsetBits:
        a, _, total = self._parts
        size = self._items.size
        own = self.chosen * a / total
        other = (self.chosen - own) / (size - 1)
        shape = self.domain.private.shape
        return SubsetBits(np.full(size, own), np.full(size, 1 - other), shape, self.chosen)

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float]:
        a, _, total = self._parts
        own = self.chosen * a / total / math.comb(self._items.size - 1, self.chosen - 1)
        sets = math.comb(self._items.size, self.chosen)
        return np.full(rows_of(reports), own), own * sets

    def _likelihoods(self, reports: Columns, shares: NDArray[Any]) -> NDArray[Any]:
        """P(set | group) ∝ 1 + (γ−1)·P(the record is in the set | group)."""
        inside = reported_items(self, reports).to_dense() @ shares.T
        return np.asarray(1 + (float(self.gamma) - 1) * inside)
