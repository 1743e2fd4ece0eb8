"""Laplace: how sure a fitted law is of any weighted sum of its cells.

The coefficients are normal around those found, with covariance (information + prior)⁻¹. Two things
make this honest. The variances were learned from the same reports, and one that came out small
says "nothing was seen", not "nothing is there": for errors they are floored. And interactions of
three columns count whether or not the model holds them: what the reports do not say of them stays
as open as the floor leaves it, or as some part of what the pairs of these columns show. Errors
include that the people are a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sfumato.channels.contrasts import Axes, Floats, Interactions, subsets
from sfumato.memory import remembered
from sfumato.model.fitting import FIRST_ORDER, Fit
from sfumato.model.loglinear import LogLinear

FLOORS = (FIRST_ORDER, 0.04, 0.005)  # least variances by order, for errors only
ORDER = len(FLOORS)
KEPT = 1 << 24  # entries of tables that are remembered
TRIALS = 32  # draws of the coefficients by which the bends of shares are known


class LaplaceMarginal(NamedTuple):
    """The cells of some axes: their shares, and rows whose products are their covariances."""

    share: Floats  # (cells,)
    spread: Floats  # (coefficients and trials, cells)


def entries_of(marginal: LaplaceMarginal) -> int:
    """The numbers that a marginal takes in memory."""
    return marginal.spread.size


@dataclass(frozen=True, eq=False)
class Laplace:
    """The normal law of a fit's errors."""

    fit: Fit
    unheld_scale: float = 0.0  # of the pairs' variance: that of interactions left out

    @cached_property
    def _family(self) -> LogLinear:
        """The fitted law's family, with every interaction of up to three axes."""
        family = self.fit.likelihood.family
        own = family.interactions
        more = tuple(
            part
            for part in subsets(family.axes, ORDER)
            if part not in set(own.sets) and part[-1] >= family.public
        )
        return LogLinear(Interactions(own.shape, own.ordered, own.sets + more), family.masses)

    @cached_property
    def _root(self) -> Floats:  # (size, size), lower triangular
        """L with L Lᵀ = information + prior."""
        family, fit = self._family, self.fit
        _, information = replace(fit.likelihood, family=family).score(fit.law)
        orders = np.minimum(family.interactions.orders, ORDER)
        floors = np.array(FLOORS)[orders - 1]
        own = len(fit.variances)
        floors[:own] = np.maximum(floors[:own], fit.variances)
        floors[own:] = np.maximum(floors[own:], self.unheld_scale * self._usual(own))
        precision = family.interactions.degrees**fit.roughness / floors[family.interactions.blocks]
        return np.linalg.cholesky(information + np.diag(precision))

    def _usual(self, own: int) -> Floats:  # (interactions after the first ones,)
        """The geometric mean of the variances of the pairs within each interaction that the law
        leaves out.
        """
        sets = self._family.interactions.sets
        logs = dict(zip(sets[:own], np.log(self.fit.variances), strict=True))
        inside = [
            [logs[pair] for pair in combinations(part, 2) if pair in logs] for part in sets[own:]
        ]
        return np.array([np.exp(np.mean(each)) if each else 0.0 for each in inside])

    @cached_property
    def _moves(self) -> Floats:  # (cells, size)
        """How the share of each cell moves with the coefficients."""
        return self._family.moves(self.fit.law)

    @cached_property
    def _bends(self) -> Floats:  # (cells, trials)
        """What shares move beyond the straight line, at coefficients drawn from their own law.

        Where reports leave the logarithm of a small share open by several units, its slope is
        small only because the share is: it may be hundreds of times as large.
        """
        from scipy.linalg import solve_triangular

        family, fit = self._family, self.fit
        size = family.interactions.size
        drawn = np.random.default_rng(0).normal(size=(size, TRIALS // 2))
        steps = solve_triangular(self._root, drawn, lower=True, trans="T", check_finite=False)
        steps = np.concatenate([steps, -steps], axis=1)
        centre = np.concatenate([fit.theta, np.zeros(size - len(fit.theta))])
        beyond = family.laws(centre[:, None] + steps) - fit.law[:, None] - self._moves @ steps
        return np.asarray(beyond / np.sqrt(TRIALS))

    @remembered(KEPT, entries_of)
    def marginal(self, axes: Axes) -> LaplaceMarginal:
        """The cells of some axes (ascending)."""
        from scipy.linalg import solve_triangular

        shape = self._family.interactions.shape
        rest = tuple(axis for axis in range(len(shape)) if axis not in axes)
        share = self.fit.law.reshape(shape).sum(axis=rest).ravel()
        moves, bends = (
            table.reshape(*shape, -1).sum(axis=rest).reshape(len(share), -1)
            for table in (self._moves, self._bends)
        )
        spread = solve_triangular(self._root, moves.T, lower=True, check_finite=False)
        return LaplaceMarginal(share, np.concatenate([spread, bends.T]))
