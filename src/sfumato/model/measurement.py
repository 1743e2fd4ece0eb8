"""Measurement: what was counted of reports about some axes of a table, how the table made it, and
what many of them say together of the means of its features (`channels.linear`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sfumato.channels import Channel
from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.channels.linear import Block, Design, Linear, Response
from sfumato.estimation.estimate import Estimate

LEAST = 1e-300  # of a chance whose logarithm is taken
NOBODY = 1e-14  # a chance below this is 0 but for rounding: a public cell that nobody is in


@dataclass(frozen=True, eq=False)
class Flat:
    """A channel between tables, as a map between flat vectors."""

    channel: Channel

    def apply(self, cells: Floats) -> Floats:
        table = cells.reshape(*self.channel.inputs, *cells.shape[1:])
        return np.asarray(self.channel.apply(table)).reshape(-1, *cells.shape[1:])

    def adjoint(self, weights: Floats) -> Floats:
        return np.asarray(self.channel.adjoint(weights.reshape(self.channel.outputs))).ravel()


@dataclass(frozen=True, eq=False)
class Measurement:
    """The answers to one question about some axes (ascending): each person who was asked gave one.

    The expected counts are people · (response applied to the marginal of these axes).

    >>> coin = Measurement.answered((0,), [60, 40], Response(gain=0.5, base=0.25, answers=2))
    >>> coin.people, coin.response.apply(np.array([0.7, 0.3])).tolist()
    (100.0, [0.6, 0.4])
    """

    axes: Axes
    response: Linear
    counts: Floats  # (answers,)

    @classmethod
    def answered(
        cls, axes: Axes, counts: Sequence[float] | Floats, response: Response
    ) -> Measurement:
        """The answers of k-ary response about these axes, public cell by public cell."""
        found = np.asarray(counts, dtype=np.float64).ravel()
        return cls(axes, replace(response, public=found.size // response.answers), found)

    @classmethod
    def counted(cls, axes: Axes, channel: Channel, tally: Floats) -> Measurement:
        """A tally that went through a channel over the marginal of these axes."""
        return cls(axes, Flat(channel), np.asarray(tally, dtype=np.float64).ravel())

    @property
    def people(self) -> float:
        """How many people answered."""
        return float(self.counts.sum())


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The reconstructed shares of the cells of some axes (ascending), and their covariance: what is
    known of reports that are counted several times.
    """

    axes: Axes
    shares: Floats  # (cells,)
    covariance: Floats  # (cells, cells)
    people: float

    @classmethod
    def of(cls, axes: Axes, found: Estimate, usual: Estimate) -> Reconstruction:
        """Counts found as shares, with the errors that are usual at a likely law; the people are a
        sample.

        The errors of the counts found themselves are below 0 where these are, and what seems to
        have no error would outweigh everything else that was reported.
        """
        every = np.arange(found.value.size)
        covariance = usual.cell_covariance(every, sampling=True) / found.rows**2
        return cls(axes, found.value.ravel() / found.rows, covariance, found.rows)


class Normal(NamedTuple):
    """Means of some features that were reconstructed, and how much is known of them."""

    places: np.ndarray  # (n,)
    means: Floats  # (n,)
    information: Floats  # (n, n)

    @classmethod
    def of(cls, interactions: Interactions, part: Reconstruction) -> Normal:
        """Reconstructed shares as reconstructed means of features."""
        matrix, places = interactions.features(part.axes)
        covariance = matrix.T @ part.covariance @ matrix
        # Directions in which nothing is uncertain (known columns) would be infinitely informative.
        values, vectors = np.linalg.eigh(covariance)
        least = 1e-9 * max(float(values[-1]), 1e-300)
        information = (vectors / np.maximum(values, least)) @ vectors.T
        return cls(places, part.shares @ matrix, information)


@dataclass(frozen=True, eq=False)
class Measurements:
    """Measurements of parts of a table's axes, as one: a question about a few axes sees only the
    means c of the features within them, so all counts are rows of one design over c.
    """

    shape: tuple[int, ...]
    ordered: tuple[bool, ...]
    answered: tuple[Measurement, ...]
    reconstructed: tuple[Reconstruction, ...]

    @classmethod
    def of(
        cls,
        interactions: Interactions,
        parts: Sequence[Measurement | Reconstruction],
        but: Axes | None = None,
    ) -> Measurements:
        """Those of them to which somebody answered, but for those of all the axes `but`; the ones
        about the same axes stand together.
        """
        answered = [p for p in parts if isinstance(p, Measurement) and p.people and p.axes != but]
        places = {axes: place for place, axes in enumerate(dict.fromkeys(p.axes for p in answered))}
        return cls(
            interactions.shape,
            interactions.ordered,
            tuple(sorted(answered, key=lambda part: places[part.axes])),
            tuple(part for part in parts if isinstance(part, Reconstruction)),
        )

    def __bool__(self) -> bool:
        return bool(self.answered or self.reconstructed)

    @cached_property
    def interactions(self) -> Interactions:
        """The interactions that some question held together."""
        parts: Sequence[Measurement | Reconstruction] = (*self.answered, *self.reconstructed)
        return Interactions.within_any(self.shape, self.ordered, {part.axes for part in parts})

    @cached_property
    def design(self) -> Design:
        """How the chance of each answer moves with the means."""
        by_axes: dict[Axes, list[Linear]] = {}
        for part in self.answered:
            by_axes.setdefault(part.axes, []).append(part.response)
        blocks = [Block.over(self.interactions, axes, each) for axes, each in by_axes.items()]
        return Design.of(self.interactions.size, blocks)

    @cached_property
    def _counts(self) -> Floats:  # (rows,)
        return np.concatenate([np.zeros(0), *(part.counts for part in self.answered)])

    @cached_property
    def _people(self) -> Floats:  # (rows,)
        sizes = [len(part.counts) for part in self.answered]
        return np.repeat([part.people for part in self.answered], sizes)

    @cached_property
    def normals(self) -> tuple[Normal, ...]:
        """What was reconstructed."""
        return tuple(Normal.of(self.interactions, part) for part in self.reconstructed)

    def _chances(self, means: Floats) -> Floats:  # (rows,)
        return np.maximum(self.design.chances(means), LEAST)

    def value(self, means: Floats) -> float:
        """The log-likelihood."""
        total = float(self._counts @ np.log(self._chances(means)))
        for normal in self.normals:
            away = means[normal.places] - normal.means
            total -= 0.5 * float(away @ normal.information @ away)
        return total

    def pull(self, means: Floats) -> Floats:  # (measured,)
        """How the log-likelihood moves with the means: Jᵀ(n/P)."""
        result = self.design.adjoint(self._counts / self._chances(means))
        for normal in self.normals:
            result[normal.places] += normal.information @ (normal.means - means[normal.places])
        return result

    def weights(self, means: Floats, *, observed: bool = False) -> Floats:  # (rows,)
        """The weight of each answer: on average people / chance; of these very answers count /
        chance².
        """
        chances = self._chances(means)
        return weighed(self._counts / chances if observed else self._people, chances)

    def information(self, weights: Floats, slopes: Floats) -> Floats:
        # (rows,), (measured, size) -> (size, size)
        """The information on coefficients that move the means by these slopes."""
        carried = self.design.carried(weights, slopes)
        for normal in self.normals:
            carried[normal.places] += normal.information @ slopes[normal.places]
        return np.asarray(slopes.T @ carried)


def weighed(numbers: Floats | float, chances: Floats) -> Floats:
    """Numbers over chances; nothing where nobody can give the answer."""
    return np.where(chances > NOBODY, numbers / chances, 0.0)
