"""Permuting: in each column, permute the values of a random part of the rows among themselves (OLAP
§3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np

from sfumato.arguments import checked
from sfumato.channels import OwnLaw, Product, Retain
from sfumato.domain import Codes, Columns, Domain, codes_of
from sfumato.errors import PrivacyError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.parameters import KEEP, keep_of
from sfumato.mechanisms.retention import Keep, thresholds
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import ONE
from sfumato.randomness import Keystream
from sfumato.untrusted import Untrusted


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
    def parsed(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"keep": keep_of(given["keep"])} if "keep" in given else {}

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
        return Guarantee(float("inf"))

    @cached_property
    def private_channel(self) -> Product:
        pairs = zip(self.domain.private.shape, self.keeps, strict=True)
        return Product.of(
            *(Retain(float(keep), (OwnLaw(size, permuted=True),)) for size, keep in pairs)
        )

    def parameters(self) -> dict[str, Any]:
        return {
            "keep": {
                name: str(keep)
                for name, keep in zip(self.domain.private.names, self.keeps, strict=True)
            }
        }

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        keep = Untrusted(parameters, "the parameters of permuting")["keep"].fields()
        return cls(domain, {name: value.fraction() for name, value in keep.items()})

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        pairs = zip(self.keeps, codes_of(columns), strict=True)
        return tuple(_swapped(codes, keep, rng) for keep, codes in pairs)


def _swapped(codes: Codes, keep: Fraction, rng: Keystream) -> Codes:
    rows = np.flatnonzero(~rng.chance(int(keep * ONE), 32, len(codes)))
    reports = codes.copy()
    reports[rows] = codes[rows[rng.permutation(len(rows))]]
    return reports
