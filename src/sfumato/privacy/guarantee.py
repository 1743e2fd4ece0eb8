"""Guarantee: what a respondent is promised, as gamma, as epsilon, and as the breach it
rules out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from sfumato.arguments import checked
from sfumato.errors import ParameterError
from sfumato.printable import json_number, upwards
from sfumato.privacy.probability import check_breach, check_number, check_probability
from sfumato.result import Shown
from sfumato.view import View

Gamma = Fraction | float
WRITABLE_BITS = 1 << 23
WRITTEN_BITS = 1 << 10  # of a gamma, for a posterior: what is beyond cannot be seen in it
PRIOR = 0.05  # the belief that a guarantee is explained by


@checked
@dataclass(frozen=True, order=True)
class Guarantee(Shown):
    """No report is more than gamma times as likely under one truth as under another
    (gamma-amplification).

    Evfimievski, Gehrke and Srikant 2003; FRAPP eq. 2. Today's name is local differential privacy
    with epsilon = ln(gamma). Gamma is kept exactly where it is known as a fraction of integers;
    `math.inf` promises nothing.

    >>> Guarantee.from_breach(rho1=0.05, rho2=0.50)
    Guarantee(gamma=19)
    >>> Guarantee(19).epsilon_words, Guarantee(19).posterior_words()
    ('2.945', '50 %')
    """

    gamma: Gamma

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma)
        if (
            self.gamma != self.gamma or self.gamma < 1
        ):  # NaN is not itself; a fraction may be too large for a float
            raise ParameterError(
                f"gamma={self.gamma_words} promises the impossible; use gamma > 1",
                gamma=self.gamma,
            )

    @classmethod
    def stated(
        cls,
        gamma: Gamma | None = None,
        epsilon: float | None = None,
        rho1: float | None = None,
        rho2: float | None = None,
    ) -> Guarantee | None:
        """The guarantee that people state one way or another, a decimal gamma as they wrote it.

        >>> Guarantee.stated(gamma=1.1), Guarantee.stated(rho1=0.05, rho2=0.50), Guarantee.stated()
        (Guarantee(gamma=1.1), Guarantee(gamma=19), None)
        """
        if gamma is not None:
            written = isinstance(gamma, float) and math.isfinite(gamma)
            return cls(Fraction(repr(float(gamma))) if written else gamma)
        if epsilon is not None:
            return cls.from_epsilon(epsilon)
        return None if rho1 is None or rho2 is None else cls.from_breach(rho1, rho2)

    def check_finite(self) -> None:
        """Refuse a promise of nothing where records are to be perturbed."""
        if self.gamma == math.inf:  # a finite one may be too large for a float
            raise ParameterError("gamma must be finite; an unperturbed release needs no mechanism")

    @classmethod
    def from_epsilon(cls, epsilon: float) -> Guarantee:
        """The guarantee of epsilon local differential privacy: gamma = e^epsilon, rounded down."""
        check_number("epsilon", epsilon)
        if not epsilon > 0:
            raise ParameterError(
                f"epsilon={epsilon} leaves no information at all; use epsilon > 0", epsilon=epsilon
            )
        if epsilon >= 700:
            return cls(math.inf)
        exact = Decimal(epsilon).exp(Context(prec=50))
        gamma = float(exact)  # the next below, where it lies above what was asked for
        return cls(gamma if gamma <= exact else math.nextafter(gamma, 1.0))

    @classmethod
    def from_breach(cls, rho1: float, rho2: float) -> Guarantee:
        """The largest gamma under which no prior of rho1 can become a posterior above rho2, nor
        1-rho1 fall below 1-rho2.

        gamma = rho2(1-rho1) / (rho1(1-rho2)), FRAPP eq. 2; computed exactly from the decimals as
        written.
        """
        check_breach(rho1, rho2)
        prior, posterior = Fraction(str(rho1)), Fraction(str(rho2))
        return cls(posterior * (1 - prior) / (prior * (1 - posterior)))

    @property
    def epsilon(self) -> float:
        """ln(gamma), the epsilon of local differential privacy, rounded up.

        gamma = 2^s·n/d, so ln(gamma) = s·ln 2 + log1p((n - d)/d): nothing cancels near gamma = 1,
        and no product of many columns is too large for a float. The three roundings of the sum are
        smaller than the part in 2^50 that is added.
        """
        if self.gamma == math.inf:
            return math.inf
        n, d = self.gamma.as_integer_ratio()
        halvings = max(0, n.bit_length() - d.bit_length() - 1)
        d <<= halvings
        return (halvings * math.log(2) + math.log1p((n - d) / d)) * (1 + 2**-50)

    def worst_posterior(self, prior: float) -> float:
        """The most that someone who believed `prior` before can believe after any report, rounded
        up.

        gamma·prior / (gamma·prior + 1 - prior).
        """
        return rounded_up(self._posterior(prior))

    def _posterior(self, prior: float) -> Fraction:
        """The same exactly, of a prior as it is written."""
        check_probability("prior", prior)
        before = Fraction(repr(float(prior)))
        if self.gamma == math.inf or not before:
            return Fraction(bool(prior))
        n, d = self.gamma.as_integer_ratio()
        more = max(0, n.bit_length() - WRITTEN_BITS)
        n, d = (n >> more) + bool(more), d >> more
        return n * before / (n * before + d * (1 - before))

    @property
    def gamma_words(self) -> str:
        """Gamma as people read it, rounded up."""
        return f"{upwards(self.gamma, 6):.6g}"

    @property
    def epsilon_words(self) -> str:
        """Epsilon as people read it, rounded up."""
        return f"{upwards(self.epsilon):.4g}"

    def posterior_words(self, prior: float = PRIOR) -> str:
        """The worst posterior in per cent, rounded up; near certainty to more figures."""
        after = 100 * self._posterior(prior)
        return f"{upwards(after, 3 if after < 99 else 6):.6g} %"

    def least_posterior(self, prior: float) -> float:
        """The least that someone who believed `prior` before can believe after any report (the
        downward breach).
        """
        return 1.0 - self.worst_posterior(1.0 - prior)

    def compose(self, *others: Guarantee) -> Guarantee:
        """The guarantee of several independent reports about the same person: the
        gammas multiply.
        """
        gamma = self.gamma
        for other in others:
            gamma = gamma * other.gamma if _finite(gamma, other.gamma) else math.inf
        return Guarantee(gamma)

    def repeated(self, copies: int) -> Guarantee:
        """The guarantee of `copies` independent reports by the same mechanism: gamma^copies.

        Where that would take a megabyte to write, infinity stands for it: a promise of e^(5
        million) is none.
        """
        if copies < 1:
            raise ParameterError(f"copies={copies}; a record is reported at least once")
        if not _finite(self.gamma):
            return self
        exact = self.gamma if isinstance(self.gamma, Fraction) else Fraction(self.gamma)
        if exact.numerator.bit_length() * copies > WRITABLE_BITS:
            return Guarantee(math.inf)
        return Guarantee(exact**copies)

    def allows(self, other: Guarantee) -> bool:
        """Whether the other guarantee is at least as strong as this one."""
        return other.gamma <= self.gamma

    def to_dict(self) -> dict[str, float | None]:
        """Gamma, epsilon, and what someone who believed 5 % may come to believe; None promises
        nothing.

        >>> Guarantee(19).to_dict()["gamma"]
        19.0
        """
        return {
            "gamma": json_number(rounded_up(self.gamma)),
            "epsilon": json_number(self.epsilon),
            "prior": PRIOR,
            "worst_posterior": self.worst_posterior(PRIOR),
        }

    def view(self) -> View:
        """The guarantee three ways."""
        believed = f"{100 * PRIOR:g} % before, at most {self.posterior_words()} after"
        facts = [("gamma", self.gamma_words), ("epsilon", self.epsilon_words)]
        return View("Guarantee", facts=[*facts, ("belief in any fact", believed)])

    def __str__(self) -> str:
        return f"gamma {self.gamma_words} (epsilon {self.epsilon_words})"

    def __repr__(self) -> str:
        return f"Guarantee(gamma={self.gamma_words})"


def rounded_up(gamma: Gamma) -> float:
    """A float that is not below the exact gamma: figures shown to people err towards the worse
    promise.
    """
    try:
        value = float(gamma)
    except OverflowError:
        return math.inf
    return value if value >= gamma else math.nextafter(value, math.inf)


def _finite(*gammas: Gamma) -> bool:
    return all(isinstance(gamma, Fraction) or math.isfinite(gamma) for gamma in gammas)
