"""Shares: how often each question of a questionnaire is dealt, and how well it will answer.

Everything is in closed form, at a truth in which all cells are equally likely. A question about q
with K cells and g answers tells each feature of an interaction A ⊆ q, per person, i_q =
(γ−1)²f(1−f)/(1+(γ−1)f)²/(K−1), f = 1/g, and nothing of others; I_A = Σ π_q i_q. The mean variance
of the cells of a marginal s is K_s⁻² Σ_{A⊆s} n_A/(N·I_A), n_A = Π(k_j−1) the features of A.

A model that expects n_A features of variance τ²_A has the posterior variance n_A/(N·I_A + 1/τ²_A)
(Bayesian optimal design: Chaloner and Verdinelli 1995), τ²_A being of one of several levels that it
learns (`expected_squares`): so a plan predicts what a model will be off by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.contrasts import Axes, Floats, independent, subsets

NORMAL = 0.8  # the mean size of a normal error, in standard errors
ROUNDS = 300
LARGE = 1.3  # questions of more cells than this times γ+1 are folded
MOST_ORDER = 3
# How far columns depend, as in the worlds of tests/worlds/schemas.py, where each follows one or two
# earlier ones for a share of the people: so many pairs a column are related, and Pearson's mean
# square contingency of one half, a quarter and a quarter of these is so much of the most it can be,
# hardly anything of the others; three columns have this beyond their pairs.
RELATED, LEVELS, THREE_TOGETHER = 3.0, np.array([1e-4, 0.015, 0.09, 0.28]), 0.06


def identity_limit(gamma: float) -> float:
    """The most cells that are each an answer of their own; larger questions are folded."""
    return LARGE * (gamma + 1)


def answers_of(cells: int, gamma: float) -> int:
    """How many answers a question about so many cells has: γ+1 tell most, where there are more."""
    return cells if cells <= identity_limit(gamma) else max(2, round(gamma + 1))


def information(gamma: float, answers: int, cells: int) -> float:
    """What one answer tells of each feature of the cells it is about.

    >>> round(information(19, 20, 20), 4), round(most_information(19) / 19, 4)
    (0.2244, 0.2244)
    """
    part = 1 / answers
    whole = (gamma - 1) ** 2 * part * (1 - part) / (1 + (gamma - 1) * part) ** 2
    return whole / (cells - 1)


def scattered(weights: Floats, shares: Floats) -> float:
    """The variance of the weight of one person, cells having these shares."""
    return float(shares @ weights**2) - float(shares @ weights) ** 2


def kary_variance(
    gamma: float, answers: int, even: Floats, weights: Floats, shares: Floats
) -> float:
    """What one answer of k-ary response adds to the variance of Σ weights·shares, `even` being the
    shares of the cells were all answers equally likely.
    """
    keep = (gamma - 1) / (gamma + answers - 1)
    return scattered(weights, keep * shares + (1 - keep) * even) / keep**2


def most_information(gamma: float) -> float:
    """The most that one report under this guarantee can tell of all features together."""
    return (gamma - 1) ** 2 / (4 * gamma)


@dataclass(frozen=True, eq=False)
class Workload:
    """What will be asked: the weight of each interaction's variance in the error to be made small.

    An interaction of n_A features of variance V_A each adds weight_A · V_A.
    """

    shape: tuple[int, ...]
    weights: Mapping[Axes, float]

    @classmethod
    def itemsets(cls, shape: Sequence[int], length: int, order: int = MOST_ORDER) -> Workload:
        """Supports of itemsets of every length up to this one, each marginal counting alike;
        interactions of more than `order` columns are left to the model.
        """
        columns = tuple(axis for axis, size in enumerate(shape) if size > 1)
        sizes = [1 / size**2 for size in shape]
        first = sum(sizes[axis] for axis in columns)
        second = sum(sizes[axis] ** 2 for axis in columns)
        weights = {}
        for axes in subsets(columns, min(order, length)):
            own = [sizes[axis] for axis in axes]
            rest = first - sum(own)
            wider = (1.0, rest, (rest**2 - second + sum(size**2 for size in own)) / 2)
            more = sum(wider[: max(0, min(length, MOST_ORDER) - len(axes)) + 1])
            weights[axes] = _features(shape, axes) * math.prod(own) * more
        return cls(tuple(shape), weights)

    @classmethod
    def marginals(cls, shape: Sequence[int], asked: Sequence[Axes]) -> Workload:
        """The cells of these marginals and no others."""
        weights: dict[Axes, float] = {}
        for axes in asked:
            cells = math.prod(shape[axis] for axis in axes)
            for part in subsets(tuple(sorted(axes))):
                more = _features(shape, part) / cells**2
                weights[part] = weights.get(part, 0.0) + more
        return cls(tuple(shape), weights)

    @classmethod
    def target(cls, shape: Sequence[int], axis: int) -> Workload:
        """One column with every other: what a classifier of it reads."""
        others = [place for place, size in enumerate(shape) if place != axis and size > 1]
        pairs = [(min(axis, place), max(axis, place)) for place in others]
        return cls.marginals(shape, pairs or [(axis,)])

    def least(self, gamma: float) -> float:
        """The smallest weighted variance per person that any report under this guarantee allows:
        (Σ √(n_A·weight_A))² over the most information.
        """
        sizes = [_features(self.shape, axes) for axes in self.weights]
        roots = [math.sqrt(n * w) for n, w in zip(sizes, self.weights.values(), strict=True)]
        return sum(roots) ** 2 / most_information(gamma)


def _features(shape: Sequence[int], axes: Axes) -> int:
    return math.prod(shape[axis] - 1 for axis in axes)


def set_information(shape: Sequence[int], axes: Axes, gamma: float) -> float:
    """What an answer about these axes tells of each of their features."""
    cells = math.prod(shape[axis] for axis in axes)
    return information(gamma, answers_of(cells, gamma), cells)


def level_weights(columns: int) -> Floats:  # (levels,)
    """How many of the pairs of so many columns depend at each level.

    >>> level_weights(3), level_weights(12)
    (array([0.  , 0.5 , 0.25, 0.25]), array([0.75  , 0.125 , 0.0625, 0.0625]))
    """
    related = min(1.0, RELATED / columns)
    return np.array([1 - related, related / 2, related / 4, related / 4])


def expected_squares(shape: Sequence[int], axes: Axes) -> Floats:  # (levels,)
    """τ² at each level: the mean square that each feature of an interaction has beyond what its
    parts imply; infinite of single columns, 0 of more columns than anything is taken to join.

    Columns of k₁ ≤ k₂ ≤ … values depend on one another as far as the least of them allows, so k₁−1
    of the Π(k_j−1) features can be large, and the mean of all is 1/((k₂−1)⋯) of that.

    >>> expected_squares((2, 2), (0,)), expected_squares((2, 3, 6), (1, 2)) * 5
    (array([inf, inf, inf, inf]), array([1.0e-04, 1.5e-02, 9.0e-02, 2.8e-01]))
    """
    if len(axes) == 1:
        return np.full(len(LEVELS), np.inf)
    wider = max(1, math.prod(sorted(shape[axis] - 1 for axis in axes)[1:]))
    if len(axes) == 2:
        return LEVELS / wider
    columns = sum(size > 1 for size in shape)  # of threes, about as many are related as columns
    each = THREE_TOGETHER * min(1.0, RELATED / (columns * (columns - 2)))
    return np.full(len(LEVELS), each / wider if len(axes) == MOST_ORDER else 0.0)


def best_shares(sets: Sequence[Axes], workload: Workload, gamma: float) -> Floats:  # (sets,)
    """The shares that make the workload's variance Σ weight_A / Σ_q π_q i_q smallest.

    The variance is convex in π, and π_q ← π_q·√(Σ_A weight_A i_q/I_A²), normalised, descends to its
    minimum.
    """
    rows, columns, told = _incidence(sets, workload, gamma)
    weights = np.array(list(workload.weights.values()))
    shares = np.full(len(sets), 1 / len(sets))
    for _ in range(ROUNDS):
        heard = np.bincount(columns, shares[rows] * told, minlength=len(weights))
        pull = np.bincount(rows, told * (weights / heard**2)[columns], minlength=len(sets))
        shares *= np.sqrt(pull)
        shares /= shares.sum()
    return shares


def _incidence(
    sets: Sequence[Axes], workload: Workload, gamma: float
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Which set tells of which interaction of the workload, and how much."""
    place = {axes: number for number, axes in enumerate(workload.weights)}
    order = max(map(len, place), default=1)
    rows, columns, told = [], [], []
    for number, axes in enumerate(sets):
        each = set_information(workload.shape, axes, gamma)
        for part in subsets(axes, order):
            if part in place:
                rows.append(number)
                columns.append(place[part])
                told.append(each)
    return np.array(rows, np.intp), np.array(columns, np.intp), np.array(told)


def mean_squares(weights: Floats, laws: Sequence[Floats]) -> dict[Axes, float]:
    """The mean square of each interaction of a table whose axes are independent with these laws
    (analysis of variance).

    With M_B the mean square of the mean over all axes but B, that of the interaction A is
    Σ_{B⊆A} (−1)^{|A∖B|} M_B.
    """
    every = tuple(range(weights.ndim))
    found = {
        axes: float((mean**2 * independent([laws[axis] for axis in axes])).sum())
        for axes, mean in _means(weights, laws).items()
    }
    return {
        axes: sum((-1) ** (len(axes) - len(part)) * found[part] for part in ((), *subsets(axes)))
        for axes in subsets(every)
    }


def _means(weights: Floats, laws: Sequence[Floats]) -> dict[Axes, Floats]:
    """The mean of a table over all axes but some, for any of them, each from one of an axis
    more.
    """
    every = tuple(range(weights.ndim))
    means = {every: weights}
    for axes in sorted([(), *subsets(every)], key=len, reverse=True)[1:]:
        left = next(axis for axis in every if axis not in axes)
        longer = tuple(sorted((*axes, left)))
        means[axes] = np.moveaxis(means[longer], longer.index(left), -1) @ laws[left]
    return means
