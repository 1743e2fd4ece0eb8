"""Retention: keep each column's value, or draw it afresh from a public law (retention replacement,
OLAP §3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from sfumato.arguments import checked
from sfumato.bits import Bits
from sfumato.channels import Law, OwnLaw, Product, Retain
from sfumato.domain import Codes, Columns, Domain, code_dtype
from sfumato.errors import ParameterError, PrivacyError, near_miss
from sfumato.mechanisms.base import Mechanism, check_kept
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.parameters import KEEP, Option, each_or_all, keep_of
from sfumato.mechanisms.steps import KeepOrDraw, Step
from sfumato.mechanisms.steps.step import run_steps
from sfumato.mechanisms.weights import check_weights, integer_weights, threshold
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.probability import ONE
from sfumato.randomness import Keystream
from sfumato.untrusted import MOST_VALUES, Untrusted

Keep = float | Fraction | Mapping[str, float | Fraction] | Sequence[float | Fraction]
Replacement = str | Sequence[float]  # "uniform", "identity", or the weights of a stated law
LAWS = ("uniform", "identity")


@checked
@dataclass(frozen=True, repr=False)
class Retention(Mechanism):
    """Keep the value of column j with probability keep_j, else draw it from the column's law;
    columns are independent.

    Agrawal, Srikant and Thomas 2005. The law is uniform (on the grid of a number, on the values of
    a category), the column's own distribution ("identity"), or stated as weights. γ = ∏ (1 + keep_j
    / ((1-keep_j)·b_j)), b_j the law's least mass.

    >>> from sfumato.domain import Category
    >>> coin = Retention(Domain((Category("coin", ("heads", "tails")),)), keep=0.5)
    >>> coin.guarantee, coin.channel.to_dense().tolist()
    (Guarantee(gamma=3), [[0.75, 0.25], [0.25, 0.75]])
    """

    name = "retention"
    summary = "columns one by one, numbers stay numbers (OLAP)"
    options = (
        KEEP,
        Option("replace", "uniform or identity, or one a column", str, beside=True, needed=False),
    )
    domain: Domain
    keep: Keep  # one for all or one a private column; kept as multiples of 2^-32
    replace: Replacement | Mapping[str, Replacement] | tuple[Replacement, ...] = "uniform"

    def __post_init__(self) -> None:
        check_cells(self.name, self.domain)
        object.__setattr__(self, "keep", thresholds(self.domain.private, self.keep))
        object.__setattr__(self, "replace", _replacements(self.domain.private, self.replace))

    @classmethod
    def promising(
        cls, guarantee: Guarantee, domain: Domain, *, replace: Replacement = "uniform"
    ) -> Self:
        """Every column gets the same share of the guarantee: γ_j = γ^(1/k)."""
        if isinstance(replace, str) and replace == "identity":
            raise PrivacyError(
                "identity replacement promises no gamma: a value that only one person holds "
                "gives that person away",
                hint="use uniform replacement, or state the keep yourself",
            )
        check_cells(cls.name, domain)
        if not math.isfinite(guarantee.gamma):
            raise ParameterError("gamma must be finite; an unperturbed release needs no mechanism")
        mechanism = cls(domain, _shared_keep(guarantee, domain.private, replace), replace)
        check_kept(mechanism, guarantee)
        return mechanism

    @classmethod
    def parsed(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(given)
        if "keep" in found:
            found["keep"] = keep_of(found["keep"])
        if isinstance(found.get("replace"), str):
            found["replace"] = each_or_all("--replace", found["replace"])
        return found

    @cached_property
    def columns(self) -> tuple[Replaced, ...]:
        """How each private column is replaced."""
        assert isinstance(self.keep, tuple) and isinstance(self.replace, tuple)
        return tuple(
            Replaced(attribute.size, Fraction(keep), law)
            for attribute, keep, law in zip(
                self.domain.private, self.keep, self.replace, strict=True
            )
        )

    @cached_property
    def needs_all_rows(self) -> bool:
        return any(column.law == "identity" for column in self.columns)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(Fraction(1)).compose(*(Guarantee(column.gamma) for column in self.columns))

    @cached_property
    def private_channel(self) -> Product:
        return Product.of(*(column.channel for column in self.columns))

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        caveats = []
        for attribute, column in zip(self.domain.private, self.columns, strict=True):
            if column.size > 1 and column.keep == 1:
                caveats.append(f"'{attribute.name}' is kept as it is: nothing is promised about it")
            elif column.law == "identity":
                caveats.append(
                    f"'{attribute.name}' is replaced by its own distribution: a value that few "
                    "people hold is almost "
                    "certainly true where it is reported, so no gamma is promised"
                )
            elif math.isinf(column.gamma):
                caveats.append(
                    f"'{attribute.name}' has values that are never drawn, so reporting one proves "
                    "that it is true"
                )
        return tuple(caveats)

    def parameters(self) -> dict[str, Any]:
        names = self.domain.private.names
        return {
            "keep": {
                name: str(column.keep) for name, column in zip(names, self.columns, strict=True)
            },
            "replace": {
                name: column.law if isinstance(column.law, str) else list(column.law)
                for name, column in zip(names, self.columns, strict=True)
            },
        }

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the parameters of retention")
        keep = {name: value.fraction() for name, value in given["keep"].fields().items()}
        laws = {name: _received_law(law) for name, law in given["replace"].fields().items()}
        return cls(domain, keep, laws)

    def steps(self) -> tuple[Step, ...]:
        return tuple(column.step(place) for place, column in enumerate(self.columns))

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        """As its steps say; a column replaced by its own distribution needs all rows."""
        if not self.needs_all_rows:
            return super().randomise(columns, rng)
        return tuple(
            column.replaced(codes, rng)
            if column.law == "identity"
            else run_steps([replace(step, columns=(0,), reports=(0,))], (codes,), rng)[0]
            for column, step, codes in zip(self.columns, self._steps, columns, strict=True)
        )


@dataclass(frozen=True)
class Replaced:
    """How one column is replaced: kept with `keep`, else drawn from `law` ("uniform", "identity",
    or weights of sum 2^32).
    """

    size: int
    keep: Fraction
    law: str | tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.law, str):
            check_weights(self.law)

    @property
    def gamma(self) -> Gamma:
        """That of its step; a column's own distribution may have no mass at a value."""
        return math.inf if self.law == "identity" and self.size > 1 else self.step(0).gamma

    @property
    def least(self) -> Fraction:
        """The least mass of the law."""
        return Fraction(0) if self.law == "identity" else self.step(0).least

    def step(self, place: int) -> KeepOrDraw:
        """What a device does to the column at this place."""
        return KeepOrDraw(
            columns=(place,),
            reports=(place,),
            size=self.size,
            keep=int(self.keep * ONE),
            weights=None if isinstance(self.law, str) else self.law,
        )

    @property
    def channel(self) -> Retain:
        if self.law == "identity":
            return Retain(float(self.keep), (OwnLaw(self.size),))
        masses = None if isinstance(self.law, str) else np.array(self.law, dtype=np.float64) / ONE
        return Retain(float(self.keep), (Law(self.size, masses),))

    def replaced(self, column: Codes | Bits, rng: Keystream) -> Codes:
        """The reports of these codes, replaced by some of their own."""
        codes = np.asarray(column)
        drop = np.flatnonzero(~rng.chance(int(self.keep * ONE), 32, len(codes)))
        reports = codes.astype(code_dtype(self.size), copy=True)
        if len(drop):
            reports[drop] = codes[rng.below(len(codes), len(drop))]
        return reports


def _received_law(law: Untrusted) -> Replacement:
    return (
        law.word() if isinstance(law.value, str) else law.numbers(MOST_VALUES, least=0, highest=ONE)
    )


def thresholds(private: Domain, keep: Keep) -> tuple[Fraction, ...]:
    """One keep a private column, as multiples of 2^-32 rounded down."""
    if isinstance(keep, Mapping):
        keep = _in_order(private, "keep", keep)
    elif not isinstance(keep, Sequence):
        return (threshold("keep", keep),) * len(private)
    if len(keep) != len(private):
        raise ParameterError(
            f"{len(keep)} keeps for {len(private)} private columns; give one, or one a column"
        )
    return tuple(
        threshold(f"keep of '{name}'", value)
        for name, value in zip(private.names, keep, strict=True)
    )


def _replacements(private: Domain, replace: Any) -> tuple[str | tuple[int, ...], ...]:
    if isinstance(replace, Mapping):
        replace = _in_order(private, "replacement", replace, default="uniform")
    elif isinstance(replace, str) or not isinstance(replace, tuple):
        replace = (replace,) * len(private)
    if len(replace) != len(private):
        raise ParameterError(
            f"{len(replace)} replacements for {len(private)} private columns; give one, or one a "
            "column"
        )
    return tuple(
        _law(attribute.name, attribute.size, law)
        for attribute, law in zip(private, replace, strict=True)
    )


def _law(name: str, size: int, law: Replacement) -> str | tuple[int, ...]:
    if isinstance(law, str):
        if law not in LAWS:
            raise ParameterError(
                f"'{name}' cannot be replaced by '{law}'; use uniform, identity or a list of "
                "weights",
                hint=near_miss(law, LAWS),
            )
        return law
    try:
        weights = np.asarray(law, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            f"'{name}' cannot be replaced by a {type(law).__name__} that holds no weights; use "
            "uniform, identity or a list of weights"
        ) from None
    if weights.shape != (size,):
        raise ParameterError(
            f"the law of '{name}' has {weights.size} weights; the column has {size} values"
        )
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.max() <= 0:
        raise ParameterError(
            f"the law of '{name}' must be weights that are not negative, some of them above 0"
        )
    return tuple(integer_weights(weights).tolist())


def _in_order(
    private: Domain, what: str, values: Mapping[str, Any], default: Any = None
) -> list[Any]:
    for name in values:
        private.index(name)
    missing = [name for name in private.names if name not in values]
    if missing and default is None:
        raise ParameterError(
            f"no {what} for column '{missing[0]}'; give one for each private column"
        )
    return [values.get(name, default) for name in private.names]


def _shared_keep(
    guarantee: Guarantee, private: Domain, replacement: Replacement
) -> tuple[Fraction, ...]:
    """The largest keeps, in steps of 2^-32, with γ_j = γ^(1/k) whose exact product is
    not above γ.
    """
    shares = max(1, sum(attribute.size > 1 for attribute in private))
    excess = Fraction(math.expm1(guarantee.epsilon / shares))
    laws = _replacements(private, replacement)
    columns = [
        Replaced(attribute.size, Fraction(1, 2), law)
        for attribute, law in zip(private, laws, strict=True)
    ]
    counts = [
        _keep_count(name, column, excess)
        for name, column in zip(private.names, columns, strict=True)
    ]
    while min(counts) > 0:
        keeps = tuple(Fraction(count, ONE) for count in counts)
        gammas = (
            Fraction(replace(column, keep=keep).gamma)
            for column, keep in zip(columns, keeps, strict=True)
        )
        if math.prod(gammas) <= guarantee.gamma:
            return keeps
        counts = [count - 1 for count in counts]
    raise PrivacyError(
        f"column '{private.names[int(np.argmin(counts))]}' would keep less than one value in 2^32 "
        "under this guarantee",
        hint="use fewer columns, coarser numbers or a larger gamma",
    )


def _keep_count(name: str, column: Replaced, excess: Fraction) -> int:
    """keep = g·b / (g·b + 1) with g = γ_j - 1 and b the least mass, in units of 2^-32
    rounded down.
    """
    if column.least == 0:
        raise PrivacyError(
            f"the law of '{name}' never draws some value, so reporting it would prove it; give "
            "each a weight"
        )
    share = excess * column.least
    return math.floor(share / (share + 1) * ONE)
