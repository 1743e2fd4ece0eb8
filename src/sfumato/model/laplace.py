"""Laplace: how sure a fitted law is of any weighted sum of its cells.

The coefficients are normal around those found, with covariance (information + prior)⁻¹. Two things
make this honest. The variances were learned from the same reports, and one that came out small
says "nothing was seen", not "nothing is there": for errors they are floored. And interactions of
three columns count whether or not the model holds them: what the reports do not say of them stays
as open as the floor leaves it. Errors include that the people are a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from sfumato.channels.contrasts import Floats, Interactions, subsets
from sfumato.model.fitting import FIRST_ORDER, ROUGHNESS, Fit
from sfumato.model.loglinear import Likelihood, LogLinear

FLOORS = (FIRST_ORDER, 0.04, 0.005)  # least variances by order, for errors only
ORDER = len(FLOORS)


@dataclass(frozen=True, eq=False)
class Laplace:
    """The normal law of a fit's errors."""

    fit: Fit

    @cached_property
    def _family(self) -> LogLinear:
        """The fitted law's family, with every interaction of up to three axes."""
        family = self.fit.likelihood.family
        held = family.interactions.sets
        known = set(held)
        public = {
            part for part in subsets(family.axes, ORDER) if part not in known and self._shown(part)
        }
        more = tuple(part for part in subsets(family.axes, ORDER) if part not in known | public)
        own = family.interactions
        return LogLinear(Interactions(own.shape, own.ordered, held + more), family.masses)

    def _shown(self, part: tuple[int, ...]) -> bool:
        """Whether an interaction is of public axes alone, whose margin is known."""
        return part[-1] < self.fit.likelihood.family.public

    @cached_property
    def _root(self) -> Floats:  # (size, size), lower triangular
        """L with L Lᵀ = information + prior."""
        family, fit = self._family, self.fit
        likelihood = Likelihood(family, fit.likelihood.measurements)
        _, information = likelihood.score(fit.law)
        floors = np.array(
            [FLOORS[order - 1] for order in np.minimum(family.interactions.orders, ORDER)]
        )
        floors[: len(fit.variances)] = np.maximum(floors[: len(fit.variances)], fit.variances)
        precision = family.interactions.degrees**ROUGHNESS / floors[family.interactions.blocks]
        return np.linalg.cholesky(information + np.diag(precision))

    def spread(self, weights: Floats) -> Floats:  # (cells, n) -> (size, n)
        """Columns whose products are the covariances of the weighted sums of shares."""
        slopes = self._family.slopes(self.fit.law, weights)
        return np.asarray(solve_triangular(self._root, slopes.T, lower=True, check_finite=False))
