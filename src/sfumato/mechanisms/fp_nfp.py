"""FrequencyFlip: frequent items lose some ones and gain none, the others are flipped both ways
(FP/NFP).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.domain import Domain
from sfumato.errors import ParameterError, PrivacyError, listing
from sfumato.mechanisms.bitflip import ItemFlips, basket_reports, rounded_rates
from sfumato.mechanisms.parameters import Option, Supports, check_given
from sfumato.mechanisms.steps.basket_steps import SCALE
from sfumato.privacy.guarantee import Guarantee
from sfumato.untrusted import Untrusted


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
        frequent = tuple(
            item
            for item, support in zip(items.labels, supports, strict=True)
            if support >= min_support
        )
        return cls(domain, frequent, fp, nfp)

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
        thresholds = np.tile(
            np.array([self.fp * SCALE, self.nfp * SCALE], dtype=np.int64), (items.size, 1)
        )
        thresholds[[items.code(item) for item in self.frequent], 1] = SCALE
        return thresholds

    @cached_property
    def guarantee(self) -> Guarantee:
        """γ = ∞, even with no frequent item: which items are frequent is told, and came from the
        true data.
        """
        return Guarantee(math.inf)

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        return (
            f"a frequent item ({len(self.frequent)} of them) that is reported is certain to be "
            "true, so gamma is infinite",
            "which items are frequent was read off the true data and is told",
        )

    def parameters(self) -> dict[str, Any]:
        return {"frequent": list(self.frequent), "fp": self.fp, "nfp": self.nfp}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the parameters of fp-nfp")
        rates = (given[name].number(0, 1) for name in ("fp", "nfp"))
        return cls(domain, given["frequent"].words(), *rates)
