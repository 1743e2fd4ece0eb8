"""Log-linear laws of a table, and the likelihood of what was measured of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.channels.linear import squared
from sfumato.model.measurement import LEAST, Measurement, Measurements, Reconstruction, weighed


@dataclass(frozen=True, eq=False)
class LogLinear:
    """The laws p(z, x) = mass_z · softmax_x(Φθ) of a table whose first axes z are public.

    The public margin is known and held fixed; without public axes there is one mass, 1.
    Interactions of public axes alone say nothing and are not among the model's.
    """

    interactions: Interactions
    masses: Floats  # (public cells,)

    @property
    def axes(self) -> Axes:
        return tuple(range(len(self.interactions.shape)))

    @cached_property
    def public(self) -> int:
        """How many axes are public: the first ones, whose cells have the masses."""
        sizes = np.cumprod([1, *self.interactions.shape])
        return int(np.flatnonzero(sizes == len(self.masses))[0])

    @cached_property
    def features(self) -> Floats:  # (cells, size)
        return self.interactions.features(self.axes).matrix

    @property
    def cells(self) -> int:
        return math.prod(self.interactions.shape)

    def singles(self) -> LogLinear:
        """The laws without interactions."""
        own = self.interactions
        alone = tuple(part for part in own.sets if len(part) == 1)
        return LogLinear(Interactions(own.shape, own.ordered, alone), self.masses)

    def law(self, theta: Floats) -> Floats:  # (cells,)
        """The law with these coefficients."""
        return self.laws(theta[:, None])[:, 0]

    def laws(self, theta: Floats) -> Floats:  # (size, n) -> (cells, n)
        """The laws with each of these coefficients."""
        energy = self.interactions.energies(theta)
        energy = energy.reshape(len(self.masses), -1, theta.shape[1])
        weights = np.exp(energy - energy.max(axis=1, keepdims=True))
        weights *= self.masses[:, None, None] / weights.sum(axis=1, keepdims=True)
        return weights.reshape(-1, theta.shape[1])

    def moves(self, law: Floats) -> Floats:  # (cells, size)
        """How the share of each cell moves with the coefficients: p(φ − E[φ | public cell])."""
        groups, size = len(self.masses), self.interactions.size
        table = self.features.reshape(groups, self.cells // groups, size)
        shares = law.reshape(groups, 1, -1)
        moves = table - (shares @ table) / np.maximum(self.masses, LEAST)[:, None, None]
        moves *= shares.transpose(0, 2, 1)
        return moves.reshape(self.features.shape)

    def bend(self, law: Floats, moves: Floats, worth: Floats) -> Floats:  # (size, size)
        """The second derivative of Σ worth · share in the coefficients: the worth of a cell, less
        the mean of its public cell, weighs the squares of what the features are beyond theirs.
        """
        shares = law.reshape(len(self.masses), -1)
        table = worth.reshape(shares.shape)
        means = (shares * table).sum(axis=1) / np.maximum(self.masses, LEAST)
        beyond = (table - means[:, None]).ravel() / np.maximum(law, LEAST)
        return squared(moves, beyond)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of measurements under the log-linear laws of a table.

    What was measured of parts of the axes is said by the means of their features; a measurement of
    all axes at once is kept as it is.
    """

    family: LogLinear
    parts: Measurements
    full: tuple[Measurement, ...]  # measurements of all axes

    @classmethod
    def of(
        cls, family: LogLinear, measurements: Sequence[Measurement | Reconstruction]
    ) -> Likelihood:
        """The likelihood of all these measurements together."""
        parts = Measurements.of(family.interactions, measurements, but=family.axes)
        answered = [part for part in measurements if isinstance(part, Measurement) and part.people]
        return cls(family, parts, tuple(p for p in answered if p.axes == family.axes))

    def means(self, law: Floats) -> Floats:  # (measured,)
        """The means of the features that were measured."""
        return self.parts.interactions.means(law[:, None])[:, 0]

    def value(self, law: Floats) -> float:
        """The log-likelihood."""
        total = self.parts.value(self.means(law)) if self.parts else 0.0
        for part in self.full:
            chances = np.maximum(part.response.apply(law), LEAST)
            total += float(part.counts @ np.log(chances))
        return total

    def score(self, law: Floats) -> tuple[Floats, Floats]:  # (size,), (size, size)
        """The gradient of the log-likelihood in the coefficients, and the information that such
        answers have on them on average.
        """
        return self._along(law, self.family.moves(law))

    def curvature(self, law: Floats) -> tuple[Floats, Floats]:  # (size,), (size, size)
        """The gradient, and how it falls along each coefficient: the information that these very
        answers have, which need not be positive far from the maximum.
        """
        moves = self.family.moves(law)
        gradient, falls = self._along(law, moves, observed=True)
        worth = np.zeros(self.family.cells)  # how the likelihood moves with each cell's share
        if self.parts:
            pull = self.parts.pull(self.means(law))
            worth += self.parts.interactions.energies(pull[:, None])[:, 0]
        for part in self.full:
            chances = np.maximum(part.response.apply(law), LEAST)
            worth += part.response.adjoint(part.counts / chances)
        return gradient, falls - self.family.bend(law, moves, worth)

    def _along(
        self, law: Floats, moves: Floats, *, observed: bool = False
    ) -> tuple[Floats, Floats]:  # (size,), (size, size)
        """The gradient along coefficients that move the cells so, and the information on them."""
        size = moves.shape[1]
        gradient, information = np.zeros(size), np.zeros((size, size))
        if self.parts:
            means, slopes = self.means(law), self.parts.interactions.means(moves)
            gradient += self.parts.pull(means) @ slopes
            weights = self.parts.weights(means, observed=observed)
            information += self.parts.information(weights, slopes)
        for part in self.full:
            chances = np.maximum(part.response.apply(law), LEAST)
            slopes = part.response.apply(moves)
            gradient += (part.counts / chances) @ slopes
            seen = part.counts / chances if observed else part.people
            information += squared(slopes, weighed(seen, chances))
        return gradient, information
