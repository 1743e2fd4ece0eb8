"""Linear measurements: answers whose chances are linear in unknowns, and all that follows from it.

The table over any axes is a sum of features (`contrasts`), so the chance of an answer about them is
linear in the means c of these features: P(row) = offset + J c, J the design matrix. With N people
asked, W = diag(N/P) is the inverse covariance of the shares n/N (but for their sum), and everything
is a functional of these: generalised least squares c = C JᵀW(n/N − offset) with C = (JᵀWJ)⁻¹ and
the influence WJC of each row; the variance wᵀCw predicted before anyone is asked; the score
Jᵀ(n/P) and Fisher information JᵀWJ of a model. JᵀWJ is built here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.contrasts import Axes, Floats, Interactions, features_of, independent, subsets
from sfumato.channels.limits import FEW_UNKNOWNS, STACKED

DEPENDENT = 1e-10  # of the largest pivot: a smaller one is 0 but for rounding
DETERMINED = 1e-6  # how much of a sum may lie outside of what the reports determine
MOST_STEPS, CLOSE = 30, 1e-3  # of conjugate gradients: how many, and what is too little to go on

Plain = Mapping[Axes, Mapping[int, float]]  # axes asked at once -> share of people, by answers


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

    @classmethod
    def kary(
        cls, gamma: float, answers: int, cells: int, groups: Sequence[int] | None = None
    ) -> Response:
        """That of a question of so many answers to some of its axes, which have so many cells: the
        answers of its other axes are summed, so the gain stays and the base is multiplied.
        """
        total = gamma + answers - 1
        if groups is not None:
            return cls((gamma - 1) / total, 1 / total, answers, groups)
        return cls((gamma - 1) / total, answers / cells / total, cells)

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


class Block(NamedTuple):
    """Rows about the same axes, which move with the means of few of the features."""

    places: NDArray[np.intp]  # (n,) of these features among all
    slope: Floats  # (rows, n)
    offset: Floats  # (rows,)

    @classmethod
    def over(cls, interactions: Interactions, axes: Axes, responses: Iterable[Linear]) -> Block:
        """The answers of some responses over the cells of the same axes."""
        matrix, places = interactions.features(axes)
        cells = interactions.cells(axes)
        table = np.column_stack([matrix, np.ones(cells)]) / cells
        rows = np.concatenate([each.apply(table) for each in responses])
        return cls(places, rows[:, :-1], rows[:, -1])


@dataclass(frozen=True, eq=False)
class Design:
    """How the chances of rows move with the means c of features: offset + J c, block by block."""

    size: int  # of the features
    blocks: tuple[Block, ...]  # the rows, one block's after the other's

    @classmethod
    def of(cls, size: int, blocks: Sequence[Block]) -> Design:
        """That of these blocks; one for all where they are many and small."""
        rows = sum(len(block.offset) for block in blocks)
        if len(blocks) < 2 or rows * size > STACKED:
            return cls(size, tuple(blocks))
        slope = np.zeros((rows, size))
        for block, own in zip(blocks, _runs(blocks), strict=True):
            slope[own, block.places] = block.slope
        offset = np.concatenate([block.offset for block in blocks])
        return cls(size, (Block(np.arange(size), slope, offset),))

    @cached_property
    def _each(self) -> tuple[tuple[slice, Block], ...]:
        return tuple(zip(_runs(self.blocks), self.blocks, strict=True))

    @cached_property
    def offset(self) -> Floats:  # (rows,)
        """What is expected of each row where all cells are equally likely."""
        return np.concatenate([np.zeros(0), *(block.offset for block in self.blocks)])

    def apply(self, means: Floats) -> Floats:  # (features, …) -> (rows, …)
        """J c."""
        if len(self.blocks) == 1:
            return np.asarray(self.blocks[0].slope @ means[self.blocks[0].places])
        empty = np.zeros((0, *means.shape[1:]))
        return np.concatenate([empty, *(each.slope @ means[each.places] for each in self.blocks)])

    def chances(self, means: Floats) -> Floats:  # (features,) -> (rows,)
        """What is expected of each row: offset + J c."""
        return self.offset + self.apply(means)

    def adjoint(self, values: Floats) -> Floats:  # (rows,) -> (features,)
        """Jᵀ v."""
        result = np.zeros(self.size)
        for rows, block in self._each:
            result[block.places] += values[rows] @ block.slope
        return result

    def information(self, weights: Floats) -> Floats:  # (rows,) -> (features, features)
        """JᵀWJ, from the rows of each block, which move with few of the features."""
        result = np.zeros((self.size, self.size))
        for rows, block in self._each:
            result[np.ix_(block.places, block.places)] += squared(block.slope, weights[rows])
        return result

    def carried(self, weights: Floats, slopes: Floats) -> Floats:  # (features, n) -> (features, n)
        """JᵀWJ times slopes."""
        result = np.zeros(slopes.shape)
        for rows, block in self._each:
            known = squared(block.slope, weights[rows])
            result[block.places] += known @ slopes[block.places]
        return result


def _runs(blocks: Sequence[Block]) -> Iterator[slice]:
    """Where the rows of each block stand among all."""
    end = 0
    for block in blocks:
        start, end = end, end + len(block.offset)
        yield slice(start, end)


def squared(slope: Floats, weights: Floats) -> Floats:  # (rows, n), (rows,) -> (n, n)
    """JᵀWJ of a few rows: what they tell of all that they move with."""
    return np.asarray(slope.T @ (weights[:, None] * slope))


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Generalised least squares of rows that so many people answered with these chances
    (Gauss–Markov; Aitken 1936).
    """

    design: Design
    people: Floats  # (rows,)
    chances: Floats  # (rows,)

    @cached_property
    def _weights(self) -> Floats:  # (rows,)
        return self.people / self.chances

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats | None]:
        """C = (JᵀWJ)⁻¹, and the directions that the reports do not determine, if any."""
        information = self.design.information(self._weights)
        found = inverted(information)
        if found is not None:
            return found, None
        return singular_inverse(information)

    @property
    def covariance(self) -> Floats:  # (features, features)
        """C, the covariance of the estimated means."""
        return self._inverse[0]

    def shares(self, counts: Floats) -> Floats:  # (rows,) -> (rows,)
        """Counts over the people who were asked."""
        return np.asarray(counts / np.maximum(self.people, 1e-300))

    def means(self, counts: Floats) -> Floats:  # (rows,) -> (features,)
        """The estimated means of the features: C JᵀW(n/N − offset)."""
        beyond = self._weights * (self.shares(counts) - self.design.offset)
        return np.asarray(self.covariance @ self.design.adjoint(beyond))

    @cached_property
    def expected(self) -> Floats:  # (features,)
        """The means at which the chances are those that the weights were made for."""
        return np.asarray(
            self.covariance
            @ self.design.adjoint(self._weights * (self.chances - self.design.offset))
        )

    def determines(self, places: NDArray[np.intp], sums: Floats) -> bool:  # (n, m)
        """Whether the reports determine these sums of the means of some features."""
        unknown = self._inverse[1]
        if unknown is None:
            return True
        size = np.maximum(np.linalg.norm(sums, axis=0), 1e-300)
        missed = np.linalg.norm(unknown[places].T @ sums, axis=0)
        return bool((missed <= DETERMINED * size).all())

    def influence(self, places: NDArray[np.intp], sums: Floats) -> Floats:  # (n, m) -> (rows, m)
        """What the share of its question that each row has adds to these sums of means: WJC."""
        return self._weights[:, None] * self.design.apply(self.covariance[:, places] @ sums)

    def variance_at(self, chances: Floats, wanted: Floats) -> float:  # (rows,), (features,)
        """wᵀ(JᵀWJ)⁻¹w with other chances of the rows: by conjugate gradients from these least
        squares, which come near within a few steps.
        """
        weights = self.people / chances
        found, left, move, before = 0.0, wanted, np.zeros(len(wanted)), 1.0
        for _ in range(MOST_STEPS):
            better = self.covariance @ left
            size = float(left @ better)
            if size <= CLOSE * found:
                break
            move = better + size / before * move
            moved = self.design.adjoint(weights * self.design.apply(move))
            step = size / float(move @ moved)
            found, left, before = found + step * size, left - step * moved, size
        return found


def inverted(matrix: Floats, least: float = 1e-5) -> Floats | None:
    """The inverse of a positive definite matrix; None where it is not, or hardly: where a pivot is
    so little of the greatest.
    """
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:  # some direction is not determined
        return None
    pivots = np.diag(factor)
    if pivots.min(initial=1.0) <= least * pivots.max(initial=1.0):
        return None
    if len(matrix) <= FEW_UNKNOWNS:
        half = np.linalg.inv(factor)
        return np.asarray(half.T @ half)
    from scipy.linalg.lapack import dpotri

    half = dpotri(factor, lower=True)[0]
    return np.asarray(half + np.tril(half, -1).T - np.triu(half, 1))


def singular_inverse(matrix: Floats) -> tuple[Floats, Floats]:  # (n, n) -> (n, n), (n, unknown)
    """The Moore–Penrose inverse of a positive semidefinite matrix, and a basis of what it sends to
    0: by Cholesky with pivoting (Higham 1990), for a tenth of the time of its eigenvalues.

    Of the pivoted factor [L; K] the null space is [−L⁻ᵀKᵀ; 1], and with any generalised inverse G
    and an orthonormal basis U of it the inverse is (1 − UUᵀ)G(1 − UUᵀ).
    """
    if not matrix.any():
        return np.zeros_like(matrix), np.eye(len(matrix))
    from scipy.linalg import qr, solve_triangular
    from scipy.linalg.lapack import dpotri, dpstrf

    least = DEPENDENT * float(np.diag(matrix).max())
    factor, pivots, rank, _ = dpstrf(matrix, lower=True, tol=least)
    order, known = pivots - 1, factor[:rank, :rank]
    back = np.zeros((len(matrix), len(matrix) - rank))
    back[order[:rank]] = -solve_triangular(known, factor[rank:, :rank].T, trans=1, lower=True)
    back[order[rank:]] = np.eye(len(matrix) - rank)
    unknown = qr(back, mode="economic", check_finite=False)[0]
    half, inverse = np.tril(dpotri(known, lower=True)[0]), np.zeros(matrix.shape)
    inverse[np.ix_(order[:rank], order[:rank])] = half + np.tril(half, -1).T
    for _ in range(2):  # from either side
        inverse = (inverse - unknown @ (unknown.T @ inverse)).T
    return inverse, np.asarray(unknown)


def plain_variance(
    asked: Plain, gamma: float, laws: Sequence[Floats], weights: Floats, truth: Floats
) -> float:
    """What one person adds to the variance of Σ weights·p over a table whose true shares are
    `truth`, the people not being held fixed, in closed form; `laws` are the shares of each axis's
    cells were all values equally likely.

    Where every cell is an answer of its own and cells are even within those asked about, what other
    columns tell is orthogonal to what is asked, and a table of the asked cells is all it takes: the
    general path (`Questions.predicted_variance`) gives the same and takes some hundred times as
    long, but folded questions, which mix everything, need it.

    >>> halves = [np.array([0.5, 0.5])]  # 1/(4·keep²): k-ary response of two answers keeps half
    >>> found = plain_variance({(0,): {2: 1.0}}, 3.0, halves, np.array([0.0, 1.0]), halves[0])
    >>> round(found, 6)
    1.0
    """
    layout = _layout(tuple(asked), tuple(map(len, laws)))
    information, wanted = _told(asked, gamma, laws, laws, weights, truth, layout)
    return float(wanted @ np.linalg.solve(information, wanted))


def posterior_variance(
    asked: Plain,
    gamma: float,
    laws: Sequence[Floats],
    weights: Floats,
    truth: Floats,
    folds: Mapping[Axes, float],
    prior: Mapping[Axes, float],
) -> float:
    """The same of a model's answer, the people being held fixed: the mean squared error of the
    posterior mean (Bayesian linear regression), times the people.

    `truth` is the product of its margins; the features are orthonormal under it, so sampling gives
    each a variance of 1/N, and `prior` are the precisions over N that the interactions have beside
    what is asked, of all that the answer counts with; `folds` is what folded questions tell of each
    of their features.

    >>> halves = [np.array([0.5, 0.5])] * 2  # nobody is asked about both: the prior alone remains
    >>> alone = {(0,): {2: 0.5}, (1,): {2: 0.5}}
    >>> prior, cell = {(0,): 0.0, (1,): 0.0, (0, 1): 10.0}, np.array([[0.0, 0.0], [0.0, 1.0]])
    >>> even = np.full((2, 2), 0.25)
    >>> with_pair = posterior_variance(alone, 3.0, halves, cell, even, {}, prior)
    >>> round(with_pair - posterior_variance(alone, 3.0, halves, cell, even, {}, {}), 6)
    0.00625
    """
    every = range(truth.ndim)
    margins = [truth.sum(axis=tuple(other for other in every if other != axis)) for axis in every]
    layout = _layout(tuple(asked), tuple(map(len, laws)), tuple(prior))
    information, wanted = _told(asked, gamma, laws, margins, weights, truth, layout)
    each = (np.array([known.get(part, 0.0) for part in layout.sets]) for known in (folds, prior))
    folded, expected = (np.repeat(values, layout.sizes) for values in each)
    information += np.diag(folded)
    moved = np.linalg.solve(information + np.diag(expected), wanted)
    seen = information @ moved  # what the answers, which sampling moved, add to the answer
    return float(wanted @ moved - seen @ seen)


def _told(
    asked: Plain,
    gamma: float,
    laws: Sequence[Floats],
    margins: Sequence[Floats],
    weights: Floats,
    truth: Floats,
    layout: _Layout,
) -> tuple[Floats, Floats]:
    """What a person tells of the features that are orthonormal under independent margins, and what
    each adds to Σ weights·p.
    """
    bases, joint = [_contrasts(law) for law in margins], independent(margins)
    features = features_of(bases, layout.sets)
    table = features.reshape(*joint.shape, -1)
    information = np.zeros((features.shape[1], features.shape[1]))
    for axes, part in zip(asked, layout.parts, strict=True):
        even, usual = (independent([each[a] for a in axes]).ravel() for each in (laws, margins))
        each = _information(asked[axes], gamma, even, truth.sum(axis=part.others).ravel())
        slope = table[part.cells].reshape(len(even), -1)[:, part.features]
        information[part.both] += squared(slope, each * usual**2)
    return information, (joint * weights).ravel() @ features


class _Part(NamedTuple):
    """Where in the table and among the features lies what some axes tell."""

    others: Axes
    cells: tuple[Any, ...]
    features: NDArray[np.intp]
    both: tuple[NDArray[Any], ...]


class _Layout(NamedTuple):
    sets: tuple[Axes, ...]
    sizes: tuple[int, ...]  # features of each
    parts: tuple[_Part, ...]


@lru_cache(maxsize=1024)
def _layout(
    asked: tuple[Axes, ...], shape: tuple[int, ...], more: tuple[Axes, ...] = ()
) -> _Layout:
    """The interactions that are told, and any more, and where each set of axes finds its own; many
    itemsets have the same.
    """
    sets = tuple(sorted({part for axes in asked for part in subsets(axes)} | {*more}))
    sizes = tuple(math.prod(shape[axis] - 1 for axis in part) for part in sets)
    parts = []
    for axes in asked:
        inside = np.repeat([set(part) <= set(axes) for part in sets], sizes)
        others = tuple(axis for axis in range(len(shape)) if axis not in axes)
        cells = tuple(0 if axis in others else slice(None) for axis in range(len(shape)))
        places = np.flatnonzero(inside)
        parts.append(_Part(others, cells, places, np.ix_(places, places)))
    return _Layout(sets, sizes, tuple(parts))


def _information(shares: Mapping[int, float], gamma: float, even: Floats, truth: Floats) -> Floats:
    """What a person tells of each cell: Σ share·α²/P(an answer within it)."""
    result = np.zeros(len(even))
    for answers, share in shares.items():
        total = gamma + answers - 1
        chances = (answers * even + (gamma - 1) * truth) / total
        result += share * ((gamma - 1) / total) ** 2 / chances
    return result


def _contrasts(law: Floats) -> Floats:  # (cells, cells)
    """Columns that are orthogonal and of mean square 1 under a law, the first constant."""
    if len(law) == 2:
        odds = math.sqrt(law[1] / law[0])
        return np.array([[1.0, odds], [1.0, -1 / odds]])
    roots, start = np.sqrt(law), np.eye(len(law))
    start[:, 0] = 1.0
    basis, turned = np.linalg.qr(roots[:, None] * start)
    return np.asarray(basis * np.sign(np.diag(turned)) / roots[:, None])
