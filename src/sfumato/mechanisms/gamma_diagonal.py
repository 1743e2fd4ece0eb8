"""GammaDiagonal: keep the whole record, or draw a new one uniformly from all possible records
(FRAPP's DET-GD); RandomizedGamma: the same with a diagonal that each client draws for itself
(RAN-GD).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

from sfumato.arguments import checked
from sfumato.channels import Retain
from sfumato.domain import Domain, Items
from sfumato.errors import ParameterError, SchemaError
from sfumato.mechanisms.base import Mechanism, by_parameters, check_kept
from sfumato.mechanisms.parameters import Option, fraction, number
from sfumato.mechanisms.steps import Diagonal, Diagonal64, Spread, Step
from sfumato.printable import percent, upwards
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.probability import ONE

SCALE = 1 << 62  # the largest total of weights: a diagonal of twice its mean still fits 64 bits


@checked
@dataclass(frozen=True, repr=False)
class GammaDiagonal(Mechanism):
    """Report u for u with probability γx, any other record with x, x = 1/(γ+n-1) (FRAPP eq. 12).

    With γ = a/b, one integer below a + b(n-1) decides: below b·n it names the new record, above it
    the record is kept. Where that does not fit 32 bits, keep is a 64-bit threshold, rounded down,
    and every attribute is drawn on its own.

    >>> from sfumato.domain import Category
    >>> coin = GammaDiagonal(Domain((Category("coin", ("heads", "tails")),)), 3)
    >>> coin.guarantee, coin.private_channel.to_dense().tolist()
    (Guarantee(gamma=3), [[0.75, 0.25], [0.25, 0.75]])
    """

    name = "gamma-diagonal"
    summary = "whole records, best condition number under γ (FRAPP)"
    in_file = (fraction("gamma"),)
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
        gamma = representable(Fraction(self.gamma), self.domain.private.cells)
        object.__setattr__(self, "gamma", gamma)

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        return check_kept(cls(domain.binned(), guarantee.gamma), guarantee)

    @property
    def keep(self) -> Fraction:
        """(γ-1)/(γ+n-1): the probability that the record is kept whole."""
        gamma = Fraction(self.gamma)
        return (gamma - 1) / (gamma + self.domain.private.cells - 1)

    @cached_property
    def private_channel(self) -> Retain:
        return Retain.uniform(float(self.keep), self.domain.private.shape)

    def steps(self) -> tuple[Step, ...]:
        private, gamma = self.domain.private, Fraction(self.gamma)
        places, scale = tuple(range(len(private.shape))), gamma.denominator
        total = gamma.numerator + scale * (private.cells - 1)
        if total > ONE:
            keep = int(self.keep * (1 << 64))
            return (Diagonal64(columns=places, reports=places, sizes=private.shape, keep=keep),)
        return (
            Diagonal(columns=places, reports=places, sizes=private.shape, scale=scale, total=total),
        )


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
    >>> coin.guarantee, coin.private_channel.to_dense().tolist(), coin.revealed
    (Guarantee(gamma=3), [[0.75, 0.25], [0.25, 0.75]], Guarantee(gamma=15))
    """

    name = "randomized-gamma"
    summary = "the same with a random matrix per client (FRAPP)"
    options = (
        Option("spread", "how far the diagonal is spread, 0 to 1", beside=True, needed=False),
    )
    in_file = (fraction("gamma"), number("spread"))
    domain: Domain
    gamma: Gamma
    spread: float = 0.5

    def __post_init__(self) -> None:
        check_cells(self.name, self.domain)
        cells = self.domain.private.cells
        if cells < 2:
            raise ParameterError(
                "randomized-gamma needs at least two possible records; this domain has one"
            )
        if not self.gamma > 1 or not math.isfinite(self.gamma):
            raise ParameterError(
                f"gamma={float(self.gamma):g} cannot be had; use a finite gamma > 1"
            )
        gamma = Fraction(self.gamma)
        stay = gamma / (gamma + cells - 1)
        if stay.denominator > SCALE:
            weight = math.floor(stay * SCALE)
            gamma = _above_chance(Fraction(weight * (cells - 1), SCALE - weight), gamma, cells, 62)
        object.__setattr__(self, "gamma", gamma)
        most = _largest_spread(gamma, cells)
        if not 0 <= self.spread <= most:
            raise ParameterError(
                f"spread={self.spread:g} makes some probability negative; use 0 <= spread <= "
                f"{most:g} with gamma={float(gamma):g} on {cells} cells"
            )

    @classmethod
    def promising(
        cls, guarantee: Guarantee, domain: Domain, *, spread: float | None = None
    ) -> Self:
        """The mechanism with this spread; where none is given, with 1/2 or the most that the domain
        allows.
        """
        binned = domain.binned()
        if spread is None:
            spread = cls.spread
            if math.isfinite(guarantee.gamma):
                most = _largest_spread(Fraction(guarantee.gamma), binned.private.cells)
                spread = min(spread, most)
        return check_kept(cls(binned, guarantee.gamma, spread), guarantee)

    @property
    def revealed(self) -> Guarantee:
        """What would be promised to a client whose r became known, at the worst r.

        The larger of (γx+α)/(x-α/(n-1)) at r = α and (x+α/(n-1))/(γx-α) at r = -α: near α = γx the
        second one wins, because a report then rules out its own value.
        """
        (stay, total, reach), others = self._weights, self.domain.private.cells - 1
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
        (stay, total, reach), ends = self._weights, list[float]()
        for shift in (-reach, reach):
            diagonal = Fraction(stay + shift, total)
            other = float((1 - diagonal) / (self.domain.private.cells - 1))
            likely = prior * float(diagonal)
            ends.append(likely / (likely + (1 - prior) * other))
        return ends[0], ends[1]

    @by_parameters
    def caveats(self) -> tuple[str, ...]:
        low, high = self.posterior_range(0.05)
        return (
            "drawing r adds nothing against someone who knows its distribution: to them the "
            "mixture is the gamma-diagonal matrix, "
            f"and the promise is gamma {upwards(self.gamma):.4g}, no better",
            "were a client's r to become known, the promise to that client could be as weak as "
            f"{self.revealed}",
            "someone who does not know r can place the posterior of a 5 % prior only between "
            f"{percent(low)} and {percent(high)}",
        )

    @cached_property
    def private_channel(self) -> Retain:
        gamma, private = Fraction(self.gamma), self.domain.private
        return Retain.uniform(float((gamma - 1) / (gamma + private.cells - 1)), private.shape)

    @cached_property
    def _weights(self) -> tuple[int, int, int]:
        """A, T and R: the mean weight of staying, the total, and how far the weight of staying is
        moved either way.
        """
        gamma = Fraction(self.gamma)
        stay = gamma / (gamma + self.domain.private.cells - 1)
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
    return _above_chance(lowered, gamma, cells, 64)


def _above_chance(lowered: Fraction, gamma: Fraction, cells: int, bits: int) -> Fraction:
    """The lowered gamma, refused where it keeps no record more often than chance."""
    if lowered > 1:
        return lowered
    raise ParameterError(
        f"gamma={float(gamma):.12g} on about 10^{math.log10(cells):.0f} cells keeps less than "
        f"one record in 2^{bits}",
        hint="use fewer attributes or coarser cells, or perturb groups of attributes on their own",
    )


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
