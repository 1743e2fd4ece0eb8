"""Estimates from several releases about different people: counts, sums and supports, added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Cells
from sfumato.errors import EstimationError
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import Evidence, Product, paired
from sfumato.estimation.moments import PowerSums
from sfumato.estimation.supports.supports import Floats, Integers, Measured, Supports


@dataclass(frozen=True, eq=False)
class Share:
    """The evidence of one release: its people, and the weight g of its estimate x̂/copies in the
    sum.
    """

    evidence: Evidence
    copies: int
    people: int
    weight: float = 1.0

    @property
    def factor(self) -> float:
        """What its raw total is multiplied by."""
        return self.weight / self.copies


@dataclass(frozen=True, eq=False)
class SummedEvidence(Evidence):
    """Estimates of disjoint groups of people, added: their noises are independent, so their
    covariances add.

    The counts of the union are the sum of the counts, whatever each group's mechanism, so every
    weight is 1. Where the groups are samples of one population, a weight g_i ≠ 1 lets the precise
    ones speak for the noisy ones (`pooled`): Σ g_i·x̂_i is then off by Σ (g_i - 1)·x_i as well,
    whose covariance is Σ (g_i - 1)²·n_i·(diag(p) - ppᵀ), p the population's shares.
    """

    shares: tuple[Share, ...]

    @cached_property
    def estimated(self) -> NDArray[Any]:
        return np.sum([share.factor * share.evidence.estimated for share in self.shares], axis=0)

    @cached_property
    def cell_variances(self) -> NDArray[Any]:
        noise = self._noise(lambda part: part.cell_variances)
        return noise + self._spread * self._mass * (1 - self._mass)

    @property
    def exact(self) -> bool:
        return all(share.evidence.exact for share in self.shares) and self._spread == 0

    @cached_property
    def _mass(self) -> NDArray[Any]:
        return self.estimated / sum(share.people for share in self.shares)

    @cached_property
    def _spread(self) -> float:
        return float(sum((share.weight - 1) ** 2 * share.people for share in self.shares))

    def covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:
        """What the parts leave open, added, and what letting some groups speak for others adds:
        that of people drawn from all.
        """
        noise = self._noise(lambda part: part.covariances(first, second, product))
        if not self._spread:
            return noise
        mass = self._mass.reshape(1, -1)
        sums = (mass @ each.reshape(-1, each.shape[-1]) for each in (first, second))
        drawn = product(self._mass, first, second) - product(np.ones(1), *sums)
        return noise + self._spread * drawn

    def _noise(self, of: Callable[[Evidence], NDArray[Any]]) -> NDArray[Any]:
        return np.sum([share.factor**2 * of(share.evidence) for share in self.shares], axis=0)

    def merged(self, axes: Sequence[int], merges: Sequence[Cells]) -> Evidence:
        return SummedEvidence(
            tuple(replace(s, evidence=s.evidence.merged(axes, merges)) for s in self.shares)
        )


def summed(estimates: Sequence[Estimate]) -> Estimate:
    """The counts of all the people of these estimates, which are about the same cells and different
    people.
    """
    shares = tuple(Share(each.evidence, each.copies, each.rows) for each in estimates)
    return Estimate(
        estimates[0].cells, sum(each.rows for each in estimates), SummedEvidence(shares)
    )


def pooled(estimates: Sequence[Estimate]) -> Estimate:
    """The same counts where all the people are samples of one population: each share p̂_i is
    weighted by 1 / its variance.

    Var p̂_i = A_i/n_i² + s/n_i, A_i the summed variance of the noise and s = Σ p(1 - p) of the
    sampling, so with a_i = n_i²/(A_i + n_i·s) the weight of x̂_i is g_i = N·(a_i/n_i)/Σ a: the
    least error that is possible without bias.
    """
    whole = summed(estimates)
    people = np.array([each.rows for each in estimates], dtype=np.float64)
    noise = np.array([float(np.maximum(each.stderr**2, 0).sum()) for each in estimates])
    mass = np.clip(whole.value / whole.rows, 0.0, 1.0)
    precision = people**2 / np.maximum(
        noise + people * float((mass * (1 - mass)).sum()), np.finfo(float).tiny
    )
    weights = people.sum() * precision / people / precision.sum()
    assert isinstance(whole.evidence, SummedEvidence)
    shares = (
        replace(share, weight=float(g))
        for share, g in zip(whole.evidence.shares, weights, strict=True)
    )
    return replace(whole, evidence=SummedEvidence(tuple(shares)))


@dataclass(frozen=True, eq=False)
class SummedMoments:
    """Sums of powers over disjoint groups of people, added: values and covariances add."""

    parts: tuple[PowerSums, ...]

    def assumes(self, squares: bool) -> str | None:
        return next(filter(None, (part.assumes(squares) for part in self.parts)), None)

    def about(self, centre: float, squares: bool = True) -> NDArray[Any]:  # (*cells, 3)
        """The estimated sums of (number - centre)^p, p = 0, 1, 2, in each cell."""
        return np.sum([part.about(centre, squares) for part in self.parts], axis=0)

    def covariance_matrix(
        self, weights: NDArray[Any], centre: float
    ) -> NDArray[Any]:  # (*cells, 3, n) -> (n, n)
        """The covariances of the estimates of n weighted sums of the values about a centre."""
        return np.sum([part.covariance_matrix(weights, centre) for part in self.parts], axis=0)


@dataclass(frozen=True, eq=False)
class SummedSupports:
    """Counts of itemsets over disjoint groups of people, added part by part (`Measured.added`)."""

    shrunk: ClassVar[bool] = False

    parts: tuple[Supports, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return self.parts[0].names

    @property
    def groups(self) -> Integers:
        return self.parts[0].groups

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def exact(self) -> bool:
        return all(part.exact for part in self.parts)

    @property
    def longest(self) -> int | None:
        limits = [part.longest for part in self.parts if part.longest is not None]
        return min(limits) if limits else None

    def empty(self) -> Measured:
        return Measured.added([part.empty() for part in self.parts])

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        pairs = zip(self.parts, shorter.parts, strict=True)
        return Measured.added([part.measure(itemsets, subsets, piece) for part, piece in pairs])

    def covariances(
        self, itemsets: NDArray[np.int32], observed: Floats, count: Floats
    ) -> tuple[Floats, Floats]:
        if self.exact:
            return np.zeros_like(observed), np.zeros_like(observed)
        raise EstimationError(
            "the errors of rules need each release's own counts, which a sum of releases does "
            "not keep",
            hint="mine itemsets, or the rules of each release on its own",
        )
