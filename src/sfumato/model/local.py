"""Local fits: the law of a few columns from all that the reports say of them, where the table of
all columns is too large to be written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.model.fitting import FIRST_ORDER, Fit, fit, learn_together, loosened, refitted
from sfumato.model.loglinear import Likelihood, LogLinear
from sfumato.model.observed import Reports
from sfumato.progress import Progress, silent


def likelihood_over(reports: Reports, axes: Axes, order: int) -> Likelihood:
    """The likelihood of everything the reports say of these axes alone, under log-linear laws of
    this order.
    """
    public = sum(axis < reports.public for axis in axes)
    family = LogLinear(interactions_over(reports, axes, order), reports.masses(axes[:public]))
    return Likelihood.of(family, reports.measurements(axes))


def interactions_over(reports: Reports, axes: Axes, order: int) -> Interactions:
    """The interactions of these axes up to this order, those of public axes alone left out."""
    public = sum(axis < reports.public for axis in axes)
    shape = tuple(reports.shape[axis] for axis in axes)
    ordered = tuple(reports.ordered[axis] for axis in axes)
    every = Interactions.up_to(shape, ordered, order)
    return Interactions(shape, ordered, tuple(p for p in every.sets if p[-1] >= public))


def freed(found: Fit, reports: Reports, axes: Axes) -> Fit:
    """The fit with each interaction that single reports speak of as free as they leave it: nearly
    the maximum of the likelihood, so that what is computed of it is not drawn towards 0.
    """
    sets = found.likelihood.family.interactions.sets
    held = [reports.held(tuple(axes[place] for place in part)) for part in sets]
    return loosened(found, np.where(held, np.inf, 1.0))


class Joined(NamedTuple):
    """What was learned of two axes: where their law lies, and how far its coefficients may go."""

    theta: Floats  # (size,)
    variance: float  # of what joins them
    roughness: float


def pairs_of(reports: Reports) -> list[Axes]:
    """Every pair of axes that has a private one."""
    pairs = combinations(range(len(reports.shape)), 2)
    return [pair for pair in pairs if pair[1] >= reports.public]


@dataclass(frozen=True, eq=False)
class LocalFits:
    """The laws of any few axes, each fitted when it is asked for.

    The variance of every pair is learned once, from the fits of all pairs together; the fit of more
    axes is of order 2 and keeps these variances, or so many times as large ones. Where no pair is
    known, it is that of single columns.
    """

    reports: Reports
    prior_scale: float = 1.0
    tell: Progress = silent
    known: Mapping[Axes, Joined] | None = None  # the pairs, where they were learned before
    free: bool = False  # whether fits are `freed`

    @cached_property
    def pairs(self) -> Mapping[Axes, Joined]:
        """What is learned of every pair of axes that has a private one."""
        if self.known is not None:
            return self.known
        pairs = pairs_of(self.reports)
        likelihoods = [likelihood_over(self.reports, pair, 2) for pair in pairs]
        fits = learn_together(likelihoods, self.tell)
        found = [Joined(f.theta, float(f.variances[-1]), f.roughness) for f in fits]
        return dict(zip(pairs, found, strict=True))

    def fit(self, axes: Axes) -> Fit:
        """The law of these axes."""
        if not self.pairs:
            return fit(likelihood_over(self.reports, axes, 1), learn=False)
        likelihood = likelihood_over(self.reports, axes, 2)
        sets = likelihood.family.interactions.sets
        held = [tuple(axes[place] for place in part) for part in sets]
        variances = [self.pairs[p].variance if len(p) == 2 else FIRST_ORDER for p in held]
        start = np.concatenate([np.zeros(0), *map(self._known, held)])  # none of public axes alone
        found = refitted(likelihood, start, np.array(variances), roughness=self.roughness)
        if self.free:
            return freed(found, self.reports, axes)
        return loosened(found, self.prior_scale)

    @property
    def roughness(self) -> float:
        """The power of degrees that the pairs learned together."""
        return next(iter(self.pairs.values())).roughness

    def _known(self, part: Axes) -> Floats:
        """The coefficients of an axis, or of two together, in a pair that holds it."""
        pair = part if len(part) == 2 else next(pair for pair in self.pairs if part[0] in pair)
        own = tuple(pair.index(axis) for axis in part)
        return self.pairs[pair].theta[interactions_over(self.reports, pair, 2).places(own)]
