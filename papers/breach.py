"""What a report reveals: exact posteriors, the (s, rho1, rho2) breaches of OLAP, and RAN-GD's
determinable range.

Sources: FRAPP (Agrawal, Haritsa and Prakash 2008) sections 3.1 and 6.1; OLAP (Agrawal, Srikant and
Thomas 2005) sections 5, 6.2 and 7.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from papers.probability import distribution, probabilities
from sfumato.errors import ParameterError
from sfumato.privacy.probability import check_breach, check_probability

Vector = NDArray[np.float64]


class Appliable(Protocol):
    """Anything that carries a distribution of truths to the distribution of reports, such as a
    channel.
    """

    def apply(self, counts: Any, /) -> Any:
        """The expected reports for these truths."""


@dataclass(frozen=True)
class Belief:
    """What is believed of one property: before any report, and at the least and most telling
    report.
    """

    prior: float
    lowest: float
    highest: float

    def breached_upward(self, rho1: float, rho2: float) -> bool:
        """Whether the property was at most rho1 likely and some report makes it at least rho2
        likely.
        """
        return self.prior <= rho1 and self.highest >= rho2

    def breached_downward(self, rho1: float, rho2: float) -> bool:
        """Whether the property was at least rho2 likely and some report makes it at most rho1
        likely.
        """
        return self.prior >= rho2 and self.lowest <= rho1


def posterior(prior: ArrayLike, channel: Appliable | NDArray[Any], holds: ArrayLike) -> Vector:
    """The probability that a property holds given each report, NaN for a report that cannot occur.

    P(Q | v) = Σ_{u: Q(u)} A[v,u] P(u) / Σ_u A[v,u] P(u)  (FRAPP section 3.1). The channel is a
    column-stochastic matrix or an object with `apply`; prior and holds have its input shape, the
    answer its output shape.

    >>> posterior([0.5, 0.25, 0.25], np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1,
    ...     0.8]]), [False, True, True])
    array([0.11111111, 0.81818182, 0.81818182])
    """
    truth = distribution("prior", prior)
    property_ = np.asarray(holds, dtype=bool)
    if property_.shape != truth.shape:
        raise ParameterError(
            f"the property covers {property_.shape} cells, but the prior has {truth.shape}"
        )
    reports = _reports(channel, truth)
    joint = _reports(channel, truth * property_)
    return np.asarray(
        np.divide(joint, reports, out=np.full(reports.shape, np.nan), where=reports > 0)
    )


def belief(prior: ArrayLike, channel: Appliable | NDArray[Any], holds: ArrayLike) -> Belief:
    """What is believed of a property before, and after the report that speaks least and most for
    it.

    >>> belief([0.05, 0.95], np.array([[0.95, 0.05], [0.05, 0.95]]), [True, False])
    Belief(prior=0.05, lowest=0.0027..., highest=0.5)
    """
    after = posterior(prior, channel, holds)
    before = float(np.sum(np.asarray(prior, dtype=np.float64) * np.asarray(holds, dtype=bool)))
    return Belief(before, float(np.nanmin(after)), float(np.nanmax(after)))


def relative_prior(prior: ArrayLike, law: ArrayLike, holds: ArrayLike) -> float:
    """How much more often a set of values occurs than its replacement law would draw it: p_S / m_S
    (OLAP definition 5).

    Its median over all sets is 1 (OLAP theorem 3). Under identity replacement, where the law is the
    prior, every set has 1.

    >>> relative_prior([0.5, 0.25, 0.25, 0.0], [0.25, 0.25, 0.25, 0.25], [True, False, False,
    ...     False])
    2.0
    """
    chosen = np.asarray(holds, dtype=bool)
    mass = float(distribution("law", law)[chosen].sum())
    share = float(distribution("prior", prior)[chosen].sum())
    if mass == 0:
        return math.inf if share else math.nan
    return share / mass


def safe_relative_prior_of_columns(
    keep: float, rho1: float, rho2: float, masses: Sequence[float]
) -> float:
    """The relative prior below which a box over k separately replaced columns has no rho1-to-rho2
    breach.

    ρ2(1-ρ1)(1-p)^k / ((1-ρ2) ∏((1-p)m_i + p)), OLAP theorem 5; masses m_i are what the replacement
    law of each column gives to its side of the box (the column's own distribution under identity
    replacement).

    >>> round(safe_relative_prior_of_columns(keep=0.2, rho1=0.1, rho2=0.95, masses=[0, 0]), 9)
    273.6
    """
    check_breach(rho1, rho2)
    check_probability("keep", keep)
    sides = _masses(masses)
    most = float(np.prod((1 - keep) * sides + keep))
    if most == 0:
        return math.inf
    return rho2 * (1 - rho1) * (1 - keep) ** sides.size / ((1 - rho2) * most)


def largest_keep_of_columns(
    relative_prior: float, rho1: float, rho2: float, masses: Sequence[float]
) -> float:
    """The largest retention at which a box over k replaced columns still has no breach (OLAP
    figures 13 and 14).

    The root in p of OLAP theorem 5, found by bisection and rounded down; 0 when no retention is
    safe.

    >>> round(largest_keep_of_columns(relative_prior=15, rho1=0.5, rho2=0.95, masses=[0.1, 0.1]), 4)
    0.4103
    """
    _check_relative_prior(relative_prior)
    safe, unsafe = 0.0, 1.0
    if safe_relative_prior_of_columns(safe, rho1, rho2, masses) <= relative_prior:
        return 0.0
    while True:
        middle = (safe + unsafe) / 2
        if middle in (safe, unsafe):
            return safe
        if safe_relative_prior_of_columns(middle, rho1, rho2, masses) > relative_prior:
            safe = middle
        else:
            unsafe = middle


def _masses(masses: Sequence[float]) -> Vector:
    if not len(masses):
        raise ParameterError(
            "no column is given; state the replacement mass of each column's side of the box"
        )
    return probabilities("masses", masses)


def _check_relative_prior(value: float) -> None:
    if not value > 0:
        raise ParameterError(f"relative_prior={value} must be above 0", relative_prior=value)


def _reports(channel: Appliable | NDArray[Any], truth: Vector) -> Vector:
    if not isinstance(channel, np.ndarray):
        return np.asarray(channel.apply(truth), dtype=np.float64)
    if channel.ndim != 2 or channel.shape[1] != truth.size:
        raise ParameterError(
            f"a matrix of shape {channel.shape} does not fit a prior of {truth.size} cells"
        )
    return np.asarray(channel @ truth.ravel(), dtype=np.float64)
