"""Measurement: what was counted of reports about some axes of a table, and how the
table made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel
from sfumato.channels.contrasts import Axes, Floats
from sfumato.estimation.estimate import Estimate


class Linear(Protocol):
    """A linear map from the cells of some axes to the probabilities of answers."""

    def apply(self, cells: Floats) -> Floats:  # (cells, …) -> (answers, …)
        """The answers to be expected of these cells; a further axis is a batch."""

    def adjoint(self, weights: Floats) -> Floats:  # (answers,) -> (cells,)
        """For each cell, the expected weight of its answer."""


@dataclass(frozen=True, eq=False)
class Response:
    """k-ary response: P(z, y) = base · p(z) + gain · p(z, cells that `groups` maps to y).

    Without groups every cell is an answer of its own. z is the cell of public axes, which come
    first and are reported as they are; without public axes there is one z.
    """

    gain: float
    base: float
    answers: int
    groups: Sequence[int] | None = None  # (private cells,)
    public: int = 1  # public cells

    def apply(self, cells: Floats) -> Floats:
        table = cells.reshape(self.public, -1, *cells.shape[1:])
        folded = table if self.groups is None else self._folded(table)
        result = self.gain * folded + self.base * table.sum(axis=1, keepdims=True)
        return result.reshape(-1, *cells.shape[1:])

    @cached_property
    def _runs(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The cells by answer, where each answer's begin among them, and the answers there are."""
        groups = np.asarray(self.groups)
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        return order, starts, present

    def _folded(self, table: Floats) -> Floats:  # (public, cells, …) -> (public, answers, …)
        """The sums of the cells of each answer, all at once: one by one they are most of the cost
        of a fit over wide columns.
        """
        order, starts, present = self._runs
        folded = np.zeros((self.public, self.answers, *table.shape[2:]))
        folded[:, present] = np.add.reduceat(table[:, order], starts, axis=1)
        return folded

    def adjoint(self, weights: Floats) -> Floats:
        table = weights.reshape(self.public, self.answers)
        spread = table if self.groups is None else table[:, np.asarray(self.groups)]
        return (self.gain * spread + self.base * table.sum(axis=1, keepdims=True)).ravel()


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

    >>> coin = Measurement.answered((0,), [60, 40], gain=0.5, base=0.25)
    >>> coin.people, coin.response.apply(np.array([0.7, 0.3])).tolist()
    (100.0, [0.6, 0.4])
    """

    axes: Axes
    response: Linear
    counts: Floats  # (answers,)

    @classmethod
    def answered(
        cls,
        axes: Axes,
        counts: Sequence[float] | Floats,
        *,
        gain: float,
        base: float,
        groups: Sequence[int] | None = None,
        public: int = 1,
    ) -> Measurement:
        """The answers of k-ary response about these axes, public cell by public cell."""
        found = np.asarray(counts, dtype=np.float64).ravel()
        response = Response(gain, base, found.size // public, groups, public)
        return cls(axes, response, found)

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
