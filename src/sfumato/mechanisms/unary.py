"""UnaryEncoding: one bit for every possible record, each flipped on its own (optimised unary
encoding, Wang et al. 2017).
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
from sfumato.channels import Unary
from sfumato.domain import Columns, Domain, Items
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import check_kept
from sfumato.mechanisms.bitflip import likeliest_bits, report_items, reported_items
from sfumato.mechanisms.joint import JointMechanism, check_joint, record_items
from sfumato.mechanisms.steps import Step, UnaryStep
from sfumato.mechanisms.steps.basket_steps import SCALE
from sfumato.privacy.guarantee import Guarantee
from sfumato.untrusted import Untrusted


@checked
@dataclass(frozen=True, repr=False)
class UnaryEncoding(JointMechanism):
    """The true record's bit is shown half of the time, any other with `false` / 65,536.

    Two records differ in two bits, so γ = (1/2)/f · (1−f)/(1/2) = (1−f)/f. The variance of a share
    is 4γ/(γ−1)² per person, whatever the number of records.

    >>> from sfumato.domain import Category
    >>> coin = Domain((Category("coin", ("heads", "tails")),))
    >>> UnaryEncoding.promising(Guarantee(3), coin).false
    16384
    """

    name = "unary"
    summary = "one bit for every possible record (OUE); few records"
    domain: Domain
    false: int

    def __post_init__(self) -> None:
        check_joint(self.name, self.domain)
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
        mechanism = cls(domain.binned(), false)
        check_kept(mechanism, guarantee)
        return mechanism

    def parameters(self) -> dict[str, Any]:
        return {"false": self.false}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        return cls(domain, Untrusted(parameters, "the parameters")["false"].whole(1, SCALE))

    @cached_property
    def private_reports(self) -> Domain:
        return record_items("bits", self.domain.private)

    @property
    def _items(self) -> Items:
        return report_items(self)

    def steps(self) -> tuple[Step, ...]:
        shape, size = self.domain.private.shape, self._items.size
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
        size, false = self._items.size, self.false / SCALE
        return Unary(np.full(size, 0.5), np.full(size, 1 - false), self.domain.private.shape)

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float]:
        size = self._items.size
        ones, zeros = np.full(size, 0.5), np.full(size, 1 - self.false / SCALE)
        return likeliest_bits(reports[0], ones, zeros, [range(size)]), float(self.guarantee.gamma)

    def _likelihoods(self, reports: Columns, shares: NDArray[Any]) -> NDArray[Any]:
        """Σ over records of what a shown or hidden bit says of it."""
        false, shown = self.false / SCALE, reported_items(self, reports).to_dense()
        return np.asarray(np.where(shown, 0.5 / false, 0.5 / (1 - false)) @ shares.T)
