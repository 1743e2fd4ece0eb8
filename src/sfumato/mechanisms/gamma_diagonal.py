"""GammaDiagonal: keep the whole record, or draw a new one uniformly from all possible records
(FRAPP's DET-GD).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from sfumato.arguments import checked
from sfumato.channels import Retain
from sfumato.domain import Domain, Items
from sfumato.errors import ParameterError, SchemaError
from sfumato.mechanisms.base import Mechanism, check_kept
from sfumato.mechanisms.steps import Diagonal, Diagonal64, Step
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.probability import ONE
from sfumato.untrusted import Untrusted


@checked
@dataclass(frozen=True, repr=False)
class GammaDiagonal(Mechanism):
    """Report u for u with probability γx, any other record with x, x = 1/(γ+n-1) (FRAPP eq. 12).

    With γ = a/b, one integer below a + b(n-1) decides: below b·n it names the new record, above it
    the record is kept. Where that does not fit 32 bits, keep is a 64-bit threshold, rounded down,
    and every attribute is drawn on its own.

    >>> from sfumato.domain import Category
    >>> coin = GammaDiagonal(Domain((Category("coin", ("heads", "tails")),)), 3)
    >>> coin.guarantee, coin.channel.to_dense().tolist()
    (Guarantee(gamma=3), [[0.75, 0.25], [0.25, 0.75]])
    """

    name = "gamma-diagonal"
    summary = "whole records, best condition number under γ (FRAPP)"
    domain: Domain
    gamma: Gamma

    def __post_init__(self) -> None:
        check_cells(self.name, self.domain)
        if not self.gamma > 1:
            raise ParameterError(
                f"gamma={float(self.gamma):g} keeps no record more often than chance; use gamma > 1"
            )
        if not math.isfinite(self.gamma):
            raise ParameterError("gamma must be finite; an unperturbed release needs no mechanism")
        object.__setattr__(
            self, "gamma", representable(Fraction(self.gamma), self.domain.private.cells)
        )

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        mechanism = cls(domain.binned(), guarantee.gamma)
        check_kept(mechanism, guarantee)
        return mechanism

    @property
    def keep(self) -> Fraction:
        """(γ-1)/(γ+n-1): the probability that the record is kept whole."""
        gamma = Fraction(self.gamma)
        return (gamma - 1) / (gamma + self.domain.private.cells - 1)

    @cached_property
    def private_channel(self) -> Retain:
        return Retain.uniform(float(self.keep), self.domain.private.shape)

    def parameters(self) -> dict[str, Any]:
        return {"gamma": str(Fraction(self.gamma))}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the parameters of gamma-diagonal")
        return cls(domain, given["gamma"].fraction())

    def steps(self) -> tuple[Step, ...]:
        sizes, scale = self.domain.private.shape, Fraction(self.gamma).denominator
        places = tuple(range(len(sizes)))
        if self._total > ONE:
            keep = int(self.keep * (1 << 64))
            return (Diagonal64(columns=places, reports=places, sizes=sizes, keep=keep),)
        return (
            Diagonal(columns=places, reports=places, sizes=sizes, scale=scale, total=self._total),
        )

    @cached_property
    def _total(self) -> int:
        gamma = Fraction(self.gamma)
        return gamma.numerator + gamma.denominator * (self.domain.private.cells - 1)


def representable(gamma: Fraction, cells: int) -> Fraction:
    """The largest gamma, not above the one asked for, that integer draws can realise on this many
    cells.

    >>> representable(Fraction("13.28"), 2000), representable(Fraction(19), 10**12) <= 19
    (Fraction(332, 25), True)
    """
    if gamma.numerator + gamma.denominator * (cells - 1) <= ONE:
        return gamma
    if gamma + cells <= 1 << 16:
        scale = ONE // math.ceil(gamma + cells - 1)
        lowered = Fraction(math.floor(gamma * scale), scale)
    else:
        keep = Fraction(math.floor((gamma - 1) / (gamma + cells - 1) * (1 << 64)), 1 << 64)
        lowered = 1 + keep * cells / (1 - keep)
    if lowered <= 1:
        raise ParameterError(
            f"gamma={float(gamma):.12g} on about 10^{math.log10(cells):.0f} cells keeps less than "
            "one record in 2^64",
            hint=(
                "use fewer attributes or coarser cells, or perturb groups of attributes on their "
                "own"
            ),
        )
    return lowered


def check_cells(name: str, domain: Domain) -> None:
    """Refuse baskets where a mechanism redraws whole records, and what is no domain."""
    if not isinstance(domain, Domain):
        raise SchemaError(
            f"{name} perturbs the columns of a domain, not a {type(domain).__name__}",
            hint='as in sf.Domain.load("survey.toml"), or sf.propose_schema(data)',
        )
    for attribute in domain.private:
        if isinstance(attribute, Items):
            raise SchemaError(
                f"{name} perturbs records, and '{attribute.name}' holds baskets",
                hint="use the mask mechanism",
            )
