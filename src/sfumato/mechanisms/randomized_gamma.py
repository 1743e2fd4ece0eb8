"""RandomizedGamma: the gamma-diagonal matrix with a diagonal that each client draws for itself
(FRAPP's RAN-GD).
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
from sfumato.domain import Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism, check_kept
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.parameters import Option
from sfumato.mechanisms.steps import Spread, Step
from sfumato.printable import percent
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.untrusted import Untrusted

SCALE = (
    1 << 62
)  # the largest total of weights: a diagonal of up to twice its mean still fits 64 bits


@checked
@dataclass(frozen=True, repr=False)
class RandomizedGamma(Mechanism):
    """Report u for u with probability γx + r, any other record with x - r/(n-1); r is uniform on
    [-α, α], α = spread·γx.

    FRAPP eq. 19, x = 1/(γ+n-1). Each client draws its own r and never sends it. In integers: the
    diagonal has the weight A of a total T, the client draws j on 0..2R and stays with weight A-R+j;
    on average that is A exactly, so the mixture is the gamma-diagonal matrix, by which the counts
    are reconstructed.

    >>> from sfumato.domain import Category
    >>> coin = RandomizedGamma(Domain((Category("coin", ("heads", "tails")),)), 3, spread=0.25)
    >>> coin.guarantee, coin.channel.to_dense().tolist(), coin.revealed
    (Guarantee(gamma=3), [[0.75, 0.25], [0.25, 0.75]], Guarantee(gamma=15))
    """

    name = "randomized-gamma"
    summary = "the same with a random matrix per client (FRAPP)"
    options = (
        Option("spread", "how far the diagonal is spread, 0 to 1", beside=True, needed=False),
    )
    domain: Domain
    gamma: Gamma
    spread: float = 0.5

    def __post_init__(self) -> None:
        check_cells(self.name, self.domain)
        if self._cells < 2:
            raise ParameterError(
                "randomized-gamma needs at least two possible records; this domain has one"
            )
        if not self.gamma > 1 or not math.isfinite(self.gamma):
            raise ParameterError(
                f"gamma={float(self.gamma):g} cannot be had; use a finite gamma > 1"
            )
        object.__setattr__(self, "gamma", _representable(Fraction(self.gamma), self._cells))
        self._check_spread()

    def _check_spread(self) -> None:
        most = _largest_spread(Fraction(self.gamma), self._cells)
        if not 0 <= self.spread <= most:
            raise ParameterError(
                f"spread={self.spread:g} makes some probability negative; use 0 <= spread <= "
                f"{most:g} with "
                f"gamma={float(self.gamma):g} on {self._cells} cells"
            )

    @classmethod
    def promising(
        cls, guarantee: Guarantee, domain: Domain, *, spread: float | None = None
    ) -> Self:
        """The mechanism with this spread; where none is given, with 1/2 or the most that the domain
        allows.
        """
        binned = domain.binned()
        if spread is None and math.isfinite(guarantee.gamma):
            spread = min(
                cls.spread, _largest_spread(Fraction(guarantee.gamma), binned.private.cells)
            )
        mechanism = cls(binned, guarantee.gamma, cls.spread if spread is None else spread)
        check_kept(mechanism, guarantee)
        return mechanism

    @property
    def _cells(self) -> int:
        return self.domain.private.cells

    @property
    def revealed(self) -> Guarantee:
        """What would be promised to a client whose r became known, at the worst r.

        The larger of (γx+α)/(x-α/(n-1)) at r = α and (x+α/(n-1))/(γx-α) at r = -α: near α = γx the
        second one wins, because a report then rules out its own value.
        """
        stay, total, reach = self._weights
        others = self._cells - 1
        most, least = stay + reach, stay - reach
        if most == total or least == 0:
            return Guarantee(math.inf)
        return Guarantee(
            max(Fraction(most * others, total - most), Fraction(total - least, least * others))
        )

    def posterior_range(self, prior: float) -> tuple[float, float]:
        """The least and the most that the worst-case posterior can be, as r runs over its range
        (FRAPP §6.1).
        """
        stay, total, reach = self._weights
        low, high = (
            self._posterior(prior, Fraction(stay + shift, total)) for shift in (-reach, reach)
        )
        return low, high

    def _posterior(self, prior: float, diagonal: Fraction) -> float:
        other = float((1 - diagonal) / (self._cells - 1))
        return prior * float(diagonal) / (prior * float(diagonal) + (1 - prior) * other)

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        low, high = self.posterior_range(0.05)
        return (
            "drawing r adds nothing against someone who knows its law: to them the mixture is "
            "the gamma-diagonal matrix, "
            f"and the promise is gamma {float(self.gamma):.4g}, no better",
            "were a client's r to become known, the promise to that client could be as weak as "
            f"{self.revealed}",
            "someone who does not know r can place the posterior of a 5 % prior only between "
            f"{percent(low)} and {percent(high)}",
        )

    @cached_property
    def private_channel(self) -> Retain:
        gamma = Fraction(self.gamma)
        return Retain.uniform(
            float((gamma - 1) / (gamma + self._cells - 1)), self.domain.private.shape
        )

    def parameters(self) -> dict[str, Any]:
        return {"gamma": str(Fraction(self.gamma)), "spread": self.spread}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the parameters of randomized-gamma")
        return cls(domain, given["gamma"].fraction(), given["spread"].number())

    @cached_property
    def _weights(self) -> tuple[int, int, int]:
        """A, T and R: the mean weight of staying, the total, and how far the weight of staying is
        moved either way.
        """
        stay = Fraction(self.gamma) / (Fraction(self.gamma) + self._cells - 1)
        scale = SCALE // stay.denominator
        mean, total = stay.numerator * scale, stay.denominator * scale
        return mean, total, min(math.floor(Fraction(self.spread) * mean), total - mean)

    def steps(self) -> tuple[Step, ...]:
        sizes, (mean, total, reach) = self.domain.private.shape, self._weights
        places = tuple(range(len(sizes)))
        return (
            Spread(
                columns=places, reports=places, sizes=sizes, mean=mean, total=total, reach=reach
            ),
        )


def _largest_spread(gamma: Fraction, cells: int) -> float:
    """The largest α/(γx) with α <= γx and α <= (n-1)x."""
    return float(min(Fraction(1), (cells - 1) / gamma))


def _representable(gamma: Fraction, cells: int) -> Fraction:
    """The largest gamma, not above the one asked for, whose diagonal γ/(γ+n-1) is a fraction of
    integers up to 2^62.
    """
    stay = gamma / (gamma + cells - 1)
    if stay.denominator <= SCALE:
        return gamma
    weight = math.floor(stay * SCALE)
    lowered = Fraction(weight * (cells - 1), SCALE - weight)
    if lowered <= 1:
        raise ParameterError(
            f"gamma={float(gamma):g} on about 10^{math.log10(cells):.0f} cells keeps less than "
            "one record in 2^62",
            hint=(
                "use fewer attributes or coarser cells, or perturb groups of attributes on their "
                "own"
            ),
        )
    return lowered
