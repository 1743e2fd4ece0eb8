"""Log-linear laws of a table, and the likelihood of what was measured of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.model.measurement import Measurement, Reconstruction


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

    def law(self, theta: Floats) -> Floats:  # (cells,)
        """The law with these coefficients."""
        energy = (self.features @ theta).reshape(len(self.masses), -1)
        weights = np.exp(energy - energy.max(axis=1, keepdims=True))
        return (weights * (self.masses / weights.sum(axis=1))[:, None]).ravel()

    def grouped(self, table: Floats) -> Floats:  # (cells, n) -> (public cells, n)
        """Each column summed within each public cell."""
        return table.reshape(len(self.masses), -1, table.shape[1]).sum(axis=1)

    def moves(self, law: Floats) -> Floats:  # (cells, size)
        """How the share of each cell moves with the coefficients: p(φ − E[φ | public cell])."""
        table = self.features.reshape(len(self.masses), -1, self.interactions.size)
        weights = law.reshape(len(self.masses), -1, 1)
        means = (weights * table).sum(axis=1) / np.maximum(self.masses, 1e-300)[:, None]
        return (weights * (table - means[:, None])).reshape(self.features.shape)

    def slopes(self, law: Floats, of: Floats) -> Floats:  # (cells, n) -> (n, size)
        """How the law's means of some functions of the cells move with the coefficients: their
        covariances with the features, within public cells.
        """
        weighted = law[:, None] * of
        known = self.masses > 0
        means = self.grouped(law[:, None] * self.features)[known]
        shared = (self.grouped(weighted)[known] / self.masses[known, None]).T @ means
        return weighted.T @ self.features - shared


class Normal(NamedTuple):
    """Means of some features that were reconstructed, and how much is known of them."""

    places: np.ndarray  # (n,)
    means: Floats  # (n,)
    information: Floats  # (n, n)


class Block(NamedTuple):
    """Answers whose probabilities are offset + slope · c, with c the means of some features."""

    places: np.ndarray  # (n,)
    slope: Floats  # (answers, n)
    offset: Floats  # (answers,)
    counts: Floats  # (answers,)
    people: Floats  # (answers,)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of measurements under the log-linear laws of a table.

    A question about a few axes sees only the means c of the features within them, so all such
    questions are blocks over c, built once. A measurement of all axes at once is kept as it is.
    """

    family: LogLinear
    measurements: tuple[Measurement | Reconstruction, ...]

    @cached_property
    def _answered(self) -> list[Measurement]:
        return [m for m in self.measurements if isinstance(m, Measurement) and m.people]

    @cached_property
    def _whole(self) -> list[Measurement]:
        return [part for part in self._answered if part.axes == self.family.axes]

    @cached_property
    def _parts(self) -> list[Measurement]:
        return [part for part in self._answered if part.axes != self.family.axes]

    @cached_property
    def _reconstructed(self) -> list[Reconstruction]:
        return [part for part in self.measurements if isinstance(part, Reconstruction)]

    @cached_property
    def measured(self) -> Interactions:
        """The interactions that some question held together."""
        model = self.family.interactions
        return Interactions.within_any(
            model.shape,
            model.ordered,
            {p.axes for p in self._parts} | {p.axes for p in self._reconstructed},
        )

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """What was measured of parts of the axes."""
        by_axes: dict[Axes, list[Measurement]] = {}
        for part in self._parts:
            by_axes.setdefault(part.axes, []).append(part)
        return tuple(block_of(self.measured, axes, parts) for axes, parts in by_axes.items())

    @cached_property
    def normals(self) -> tuple[Normal, ...]:
        """What was reconstructed."""
        return tuple(normal_of(self.measured, part) for part in self._reconstructed)

    @cached_property
    def _features(self) -> Floats:  # (cells, measured)
        if self.measured.sets == self.family.interactions.sets:
            return self.family.features
        return self.measured.features(self.family.axes).matrix

    def value(self, law: Floats) -> float:
        """The log-likelihood."""
        total = 0.0
        if self.measured.sets:
            means = law @ self._features
            for block in self.blocks:
                chances = block.offset + block.slope @ means[block.places]
                total += float(block.counts @ np.log(np.maximum(chances, 1e-300)))
            for normal in self.normals:
                away = means[normal.places] - normal.means
                total -= 0.5 * float(away @ normal.information @ away)
        for part in self._whole:
            chances = np.maximum(part.response.apply(law), 1e-300)
            total += float(part.counts @ np.log(chances))
        return total

    def score(self, law: Floats) -> tuple[Floats, Floats]:  # (size,), (size, size)
        """The gradient of the log-likelihood in the coefficients, and the information on them."""
        size = self.family.interactions.size
        gradient, information = np.zeros(size), np.zeros((size, size))
        if self.measured.sets:
            slopes = self.family.slopes(law, self._features)
            pull, weight = self._of_means(law @ self._features)
            gradient += pull @ slopes
            information += slopes.T @ (weight @ slopes)
        for part in self._whole:
            pull, weight = self._of_table(part, law)
            gradient, information = gradient + pull, information + weight
        return gradient, information

    def _of_means(self, means: Floats) -> tuple[Floats, Floats]:
        gradient = np.zeros(self.measured.size)
        information = np.zeros((self.measured.size, self.measured.size))
        for block in self.blocks:
            chances = np.maximum(block.offset + block.slope @ means[block.places], 1e-300)
            gradient[block.places] += (block.counts / chances) @ block.slope
            weighted = (block.people / chances)[:, None] * block.slope
            information[np.ix_(block.places, block.places)] += block.slope.T @ weighted
        for normal in self.normals:
            away = normal.means - means[normal.places]
            gradient[normal.places] += normal.information @ away
            information[np.ix_(normal.places, normal.places)] += normal.information
        return gradient, information

    def _of_table(self, part: Measurement, law: Floats) -> tuple[Floats, Floats]:
        chances = np.maximum(part.response.apply(law), 1e-300)
        moves = part.response.apply(self.family.moves(law))
        gradient = (part.counts / chances) @ moves
        return gradient, moves.T @ ((part.people / chances)[:, None] * moves)


def block_of(measured: Interactions, axes: Axes, parts: Sequence[Measurement]) -> Block:
    """The answers to questions about the same axes as one block over the means of features."""
    matrix, places = measured.features(axes)
    cells = measured.cells(axes)
    slopes = [part.response.apply(matrix / cells) for part in parts]
    offsets = [part.response.apply(np.full(cells, 1 / cells)) for part in parts]
    people = [np.full(len(part.counts), part.people) for part in parts]
    return Block(
        places,
        np.concatenate(slopes),
        np.concatenate(offsets),
        np.concatenate([part.counts for part in parts]),
        np.concatenate(people),
    )


def normal_of(measured: Interactions, part: Reconstruction) -> Normal:
    """Reconstructed shares as reconstructed means of features."""
    matrix, places = measured.features(part.axes)
    covariance = matrix.T @ part.covariance @ matrix
    # Directions in which nothing is uncertain (known columns) would be infinitely informative.
    values, vectors = np.linalg.eigh(covariance)
    least = 1e-9 * max(float(values[-1]), 1e-300)
    information = (vectors / np.maximum(values, least)) @ vectors.T
    return Normal(places, part.shares @ matrix, information)
