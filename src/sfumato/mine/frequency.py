"""Frequency: how probable it is that an itemset is truly frequent, given all that was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation.supports.supports import Floats
from sfumato.mine import limits

# Supports are resolved in cells that widen by a third of a doubling, down to one row in 33,000.
EDGES = np.r_[0.0, 2.0 ** (-np.arange(45, -1, -1) / 3)]
STEPS = 60  # of the fit
IMAGINED = 2.0  # candidates of every support alike, who keep a prior of few candidates open
BOUND_ERRORS = 3.0  # an itemset is no more frequent than its subsets and this many of their errors


def normal_below(reach: Floats) -> Floats:
    """How probable it is that a normal error is at most so many standard errors."""
    from scipy.special import ndtr

    return np.asarray(ndtr(reach))


def evenly(many: int, most: int) -> NDArray[np.intp]:
    """At most so many of many places, spread evenly.

    >>> evenly(9, 3).tolist(), evenly(2, 3).tolist()
    ([0, 4, 8], [0, 1])
    """
    return np.linspace(0, many - 1, min(most, many)).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Estimated supports of itemsets of one length, and the most that each can be."""

    support: Floats
    stderr: Floats
    most: Floats  # by the subsets, at most 1

    def take(self, rows: NDArray[np.intp] | slice) -> Candidates:
        """Some of them."""
        return Candidates(self.support[rows], self.stderr[rows], self.most[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Candidates]) -> Candidates:
        """Those of all parts."""
        return cls(
            np.concatenate([part.support for part in parts]),
            np.concatenate([part.stderr for part in parts]),
            np.concatenate([part.most for part in parts]),
        )

    def sample(self, number: int) -> Candidates:
        """At most this many of them, spread evenly."""
        return self.take(evenly(len(self.support), number))

    def weights(self, edges: Floats) -> Floats:  # (itemsets, cells)
        """How likely each estimate is if the true support lies in each cell, up to a factor of the
        itemset's own; a cell beyond the most it can be has none.
        """
        from scipy.special import log_ndtr

        ends = np.minimum(edges[None, :], self.most[:, None])
        below = (ends - self.support[:, None]) / self.stderr[:, None]
        low, high = below[:, :-1], below[:, 1:]
        # Far out on either side a difference of two shares is one of two small tails.
        flipped = low > 0
        low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
        with np.errstate(divide="ignore"):
            tail = log_ndtr(high)
            logs = tail + np.log1p(-np.exp(np.minimum(log_ndtr(low) - tail, 0)))
        most = np.maximum(logs.max(axis=1, keepdims=True), -1e300)
        weights: Floats = np.exp(logs - most)
        return weights


@dataclass(frozen=True, eq=False)
class Prior:
    """How true supports are spread among the candidates of one length, by what all of them show.

    Fitted to the estimates and their normal errors by the EM algorithm, smoothed at every step so
    that it does not chase single candidates (empirical Bayes, Robbins 1956; EMS, Silverman et al.
    1990). A high estimate among many that are noise is so taken for noise.
    """

    density: Floats  # (cells,)

    @classmethod
    def even(cls) -> Prior:
        """All supports alike."""
        return cls(np.ones(len(EDGES) - 1))

    @classmethod
    def fitted(cls, candidates: Candidates) -> Prior:
        """The prior of candidates whose errors are not 0."""
        widths = np.diff(EDGES)
        even = np.full(len(widths), 1 / len(widths))
        likely = candidates.sample(limits.FITTED).weights(EDGES) / widths
        masses = even
        for _ in range(STEPS):
            total = likely @ masses
            each = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
            masses = _smoothed(masses * (each @ likely) + IMAGINED * even)
        return cls(masses / widths)

    def probability(self, candidates: Candidates, goal: float) -> Floats:
        """The probability that each true support is at least `goal`."""
        edges = np.unique(np.r_[EDGES, min(goal, 1.0)])
        cells = np.searchsorted(EDGES, edges[:-1], side="right") - 1
        above = edges[:-1] >= goal
        parts = [np.zeros(0)]
        for start in range(0, len(candidates.support), limits.WEIGHED):
            part = candidates.take(slice(start, start + limits.WEIGHED))
            joint = part.weights(edges) * self.density[cells]
            share = joint[:, above].sum(axis=1) / np.maximum(joint.sum(axis=1), 1e-300)
            parts.append(np.minimum(share, 1.0))  # two sums of the same may differ by rounding
        return np.concatenate(parts)


def _smoothed(masses: Floats) -> Floats:
    """Masses of sum 1, each a half of its own and a quarter of either neighbour's."""
    mixed: Floats = 2 * masses
    mixed[1:] += masses[:-1]
    mixed[:-1] += masses[1:]
    mixed[[0, -1]] += masses[[0, -1]]  # beyond either end it goes on as it ended
    return mixed / mixed.sum()


def most_by_subsets(subsets: NDArray[np.int32], support: Floats, stderr: Floats) -> Floats:
    """The most that the support of each itemset can be, by the estimates of its subsets.

    >>> most_by_subsets(np.array([[0, 1]]), np.array([0.5, 0.2]), np.array([0.01, 0.02]))
    array([0.26])
    """
    known = support[subsets] + BOUND_ERRORS * stderr[subsets]
    return np.clip(known.min(axis=1), 1e-12, 1.0)
