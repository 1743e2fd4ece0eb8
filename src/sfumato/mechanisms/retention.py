"""Retention: keep each column's value, or draw it afresh from a public distribution (retention
replacement, OLAP §3); Permuting: permute the values of a random part of the rows among themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np

from sfumato.arguments import checked
from sfumato.channels import Distribution, Product, Retain
from sfumato.domain import Columns, Domain, code_dtype, codes_of
from sfumato.errors import ParameterError, PrivacyError, near_miss
from sfumato.mechanisms.base import Mechanism, by_parameters, steps_of
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.parameters import KEEP, Option, each_or_all
from sfumato.mechanisms.steps import KeepOrDraw
from sfumato.mechanisms.steps.step import product_of, run_steps
from sfumato.mechanisms.weights import integer_weights, threshold
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.probability import ONE
from sfumato.randomness import Keystream
from sfumato.untrusted import MOST_VALUES, Untrusted

Keep = float | Fraction | Mapping[str, float | Fraction] | Sequence[float | Fraction]
Replacement = str | Sequence[float]  # "uniform", "identity", or the weights of a distribution
REPLACEMENTS = ("uniform", "identity")


@checked
@dataclass(frozen=True, repr=False)
class Retention(Mechanism):
    """Keep the value of column j with probability keep_j, else draw it from the column's
    distribution; columns are independent.

    Agrawal, Srikant and Thomas 2005. What is drawn is uniform (on the grid of a number, on the
    values of a category), the column's own distribution ("identity"), or stated as weights. γ =
    ∏ (1 + keep_j / ((1-keep_j)·b_j)), b_j the distribution's least mass.

    >>> from sfumato.domain import Category
    >>> coin = Retention(Domain((Category("coin", ("heads", "tails")),)), keep=0.5)
    >>> coin.guarantee, coin.private_channel.to_dense().tolist()
    (Guarantee(gamma=3), [[0.75, 0.25], [0.25, 0.75]])
    """

    name = "retention"
    summary = "columns one by one, numbers stay numbers (OLAP)"
    options = (
        KEEP,
        Option(
            "replace",
            "uniform or identity, or one a column",
            str,
            beside=True,
            needed=False,
            read=lambda given: each_or_all("--replace", given) if isinstance(given, str) else given,
        ),
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
        trial = cls(domain, 0.5, replace)  # whose steps say what is drawn least often
        private, counts = domain.private, list[int]()
        several = max(1, sum(attribute.size > 1 for attribute in private))
        excess = math.expm1(guarantee.epsilon / several)
        for name, step, drawn in zip(private.names, trial.steps(), trial.drawn, strict=True):
            if drawn == "identity" or step.least == 0:
                raise PrivacyError(
                    f"some value of '{name}' is never drawn, so reporting it would prove it; give "
                    "each a weight"
                )
            share = Fraction(excess) * step.least  # keep = g·b / (g·b + 1), g = γ_j - 1
            counts.append(math.floor(share / (share + 1) * ONE))
        while min(counts) > 0:
            made = cls(domain, [Fraction(count, ONE) for count in counts], trial.drawn)
            if guarantee.allows(made.guarantee):
                return made
            counts = [count - 1 for count in counts]
        raise PrivacyError(
            f"column '{private.names[int(np.argmin(counts))]}' would keep less than one value in "
            "2^32 under this guarantee",
            hint="use fewer columns, coarser numbers or a larger gamma",
        )

    @property
    def keeps(self) -> tuple[Fraction, ...]:
        """The keep of each private column."""
        assert isinstance(self.keep, tuple)
        return self.keep

    @property
    def drawn(self) -> tuple[str | tuple[int, ...], ...]:
        """What each private column is drawn from: "uniform", its own distribution ("identity"), or
        weights of sum 2^32.
        """
        assert isinstance(self.replace, tuple)
        found: tuple[Any, ...] = self.replace
        return found

    @by_parameters
    def needs_all_rows(self) -> bool:
        return "identity" in self.drawn

    def steps(self) -> tuple[KeepOrDraw, ...]:
        columns = zip(self.domain.private, self.keeps, self.drawn, strict=True)
        return tuple(
            KeepOrDraw(
                columns=(place,),
                reports=(place,),
                size=attribute.size,
                keep=int(keep * ONE),
                weights=None if isinstance(drawn, str) else drawn,
            )
            for place, (attribute, keep, drawn) in enumerate(columns)
        )

    @cached_property
    def gammas(self) -> tuple[Gamma, ...]:
        """That of each column; its own distribution may have no mass at a value."""
        pairs = zip(self.steps(), self.drawn, strict=True)
        return tuple(
            math.inf if drawn == "identity" and step.size > 1 else step.gamma
            for step, drawn in pairs
        )

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(product_of(self.gammas))

    @cached_property
    def private_channel(self) -> Product:
        factors, sizes = [], self.domain.private.shape
        for size, keep, drawn in zip(sizes, self.keeps, self.drawn, strict=True):
            masses = None if isinstance(drawn, str) else np.array(drawn, dtype=np.float64) / ONE
            part = Distribution(size, masses, own=drawn == "identity")
            factors.append(Retain(float(keep), (part,)))
        return Product.of(*factors)

    @by_parameters
    def caveats(self) -> tuple[str, ...]:
        caveats = []
        columns = zip(self.domain.private, self.keeps, self.drawn, self.gammas, strict=True)
        for attribute, keep, drawn, gamma in columns:
            if attribute.size > 1 and keep == 1:
                caveats.append(f"'{attribute.name}' is kept as it is: nothing is promised about it")
            elif drawn == "identity":
                caveats.append(
                    f"'{attribute.name}' is replaced by its own distribution: a value that few "
                    "people hold is almost "
                    "certainly true where it is reported, so no gamma is promised"
                )
            elif math.isinf(gamma):
                caveats.append(
                    f"'{attribute.name}' has values that are never drawn, so reporting one proves "
                    "that it is true"
                )
        return tuple(caveats)

    def parameters(self) -> dict[str, Any]:
        names = self.domain.private.names
        drawn = (each if isinstance(each, str) else list(each) for each in self.drawn)
        return {
            "keep": dict(zip(names, map(str, self.keeps), strict=True)),
            "replace": dict(zip(names, drawn, strict=True)),
        }

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the parameters of retention")
        return cls(
            domain,
            {name: value.fraction() for name, value in given["keep"].fields().items()},
            {
                name: drawn.word()
                if isinstance(drawn.value, str)
                else drawn.numbers(MOST_VALUES, least=0, highest=ONE)
                for name, drawn in given["replace"].fields().items()
            },
        )

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        """As its steps say; a column replaced by its own distribution needs all rows."""
        if not self.needs_all_rows:
            return super().randomise(columns, rng)
        found = list[Any]()
        for column, step, drawn in zip(columns, steps_of(self), self.drawn, strict=True):
            if drawn != "identity":
                found += run_steps([replace(step, columns=(0,), reports=(0,))], (column,), rng)
                continue
            assert isinstance(step, KeepOrDraw)
            codes = np.asarray(column)
            drop = np.flatnonzero(~rng.chance(step.keep, 32, len(codes)))
            reports = codes.astype(code_dtype(step.size), copy=True)
            if len(drop):
                reports[drop] = codes[rng.below(len(codes), len(drop))]
            found.append(reports)
        return tuple(found)


@checked
@dataclass(frozen=True, repr=False)
class Permuting(Mechanism):
    """Each value stays with probability keep_j; those that do not are dealt out again among the
    rows that gave them up.

    Agrawal, Srikant and Thomas 2005: identity replacement without chance in the single column,
    whose counts are exactly those of the truth. A data owner's method: it needs all rows.

    >>> from sfumato.domain import Category
    >>> Permuting(Domain((Category("coin", ("heads", "tails")),)), keep=0.5).guarantee
    Guarantee(gamma=inf)
    """

    name = "permuting"
    summary = "an owner's method: values change places, column by column; no guarantee"
    options = (KEEP,)
    promises = False
    needs_all_rows = True
    caveats = (
        "permuting promises no gamma: a value that few people hold stays in the table, and whoever "
        "is known to hold it is found again with the probability keep",
        "every column on its own is published as it is; only the links between columns are blurred",
    )
    domain: Domain
    keep: Keep  # one for all or one a private column; kept as multiples of 2^-32

    def __post_init__(self) -> None:
        check_cells(self.name, self.domain)
        object.__setattr__(self, "keep", thresholds(self.domain.private, self.keep))

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> NoReturn:
        raise PrivacyError(
            "permuting promises no gamma: every value that is published was someone's, and a rare "
            "one still points to its owner",
            hint="use gamma-diagonal or retention for a guarantee, or state the keep yourself",
        )

    @property
    def keeps(self) -> tuple[Fraction, ...]:
        """The keep of each private column."""
        assert isinstance(self.keep, tuple)
        return self.keep

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(math.inf)

    @cached_property
    def private_channel(self) -> Product:
        pairs = zip(self.domain.private.shape, self.keeps, strict=True)
        return Product.of(
            *(
                Retain(float(keep), (Distribution(size, own=True, permuted=True),))
                for size, keep in pairs
            )
        )

    def parameters(self) -> dict[str, Any]:
        return {"keep": dict(zip(self.domain.private.names, map(str, self.keeps), strict=True))}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        keep = Untrusted(parameters, "the parameters of permuting")["keep"].fields()
        return cls(domain, {name: value.fraction() for name, value in keep.items()})

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        found = []
        for keep, codes in zip(self.keeps, codes_of(columns), strict=True):
            rows = np.flatnonzero(~rng.chance(int(keep * ONE), 32, len(codes)))
            reports = codes.copy()
            reports[rows] = codes[rows[rng.permutation(len(rows))]]
            found.append(reports)
        return tuple(found)


def thresholds(private: Domain, keep: Keep) -> tuple[Fraction, ...]:
    """One keep a private column, as multiples of 2^-32 rounded down."""
    if not isinstance(keep, Mapping | Sequence):
        return (threshold("keep", keep),) * len(private)
    listed = _listed(private, "keep", keep)
    pairs = zip(private.names, listed, strict=True)
    return tuple(threshold(f"keep of '{name}'", value) for name, value in pairs)


def _replacements(private: Domain, replace: Any) -> tuple[str | tuple[int, ...], ...]:
    """What is drawn for each private column: by its word, or as weights of sum 2^32."""
    if isinstance(replace, str) or not isinstance(replace, tuple | Mapping):
        replace = (replace,) * len(private)
    found: list[str | tuple[int, ...]] = []
    listed = _listed(private, "replacement", replace, default="uniform")
    for attribute, drawn in zip(private, listed, strict=True):
        if isinstance(drawn, str):
            if drawn not in REPLACEMENTS:
                raise ParameterError(
                    f"'{attribute.name}' cannot be replaced by '{drawn}'; use uniform, identity or "
                    "a list of weights",
                    hint=near_miss(drawn, REPLACEMENTS),
                )
            found.append(drawn)
            continue
        try:
            weights = np.asarray(drawn, dtype=np.float64)
        except (TypeError, ValueError):
            raise ParameterError(
                f"'{attribute.name}' cannot be replaced by a {type(drawn).__name__} that holds no "
                "weights; use uniform, identity or a list of weights"
            ) from None
        if weights.shape != (attribute.size,):
            raise ParameterError(
                f"{weights.size} weights are given for '{attribute.name}'; the column has "
                f"{attribute.size} values"
            )
        if not np.isfinite(weights).all() or weights.min() < 0 or weights.max() <= 0:
            raise ParameterError(
                f"what replaces '{attribute.name}' must be weights that are not negative, some of "
                "them above 0"
            )
        found.append(tuple(integer_weights(weights).tolist()))
    return tuple(found)


def _listed(private: Domain, what: str, given: Any, default: Any = None) -> Sequence[Any]:
    """One value for each private column, of a mapping by their names or a list of as many."""
    if isinstance(given, Mapping):
        for name in given:
            private.index(name)
        missing = [name for name in private.names if name not in given]
        if missing and default is None:
            raise ParameterError(
                f"no {what} for column '{missing[0]}'; give one for each private column"
            )
        return [given.get(name, default) for name in private.names]
    if len(given) != len(private):
        raise ParameterError(
            f"{len(given)} {what}s for {len(private)} private columns; give one, or one a column"
        )
    listed: Sequence[Any] = given
    return listed
