"""Predicted variance in closed form: what one person will add to the variance of an unbiased
answer, before any is asked (optimal design).

Generalised least squares over the questions that people are dealt leave w·p the variance
wᵀ(JᵀWJ)⁻¹w, W the share of each question over the chance of each of its answers. Where every cell
is an answer of its own and cells are even within those asked about, what other columns tell is
orthogonal to what is asked, and a table of the asked cells is all it takes: the general path
(`Questions.predicted_variance`) gives the same and takes some hundred times as long, but folded
questions, which mix everything, need it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.contrasts import Axes, Floats, features_of, independent, subsets
from sfumato.channels.linear import squared

Plain = Mapping[Axes, Mapping[int, float]]  # axes asked at once -> share of people, by answers


def plain_variance(
    asked: Plain,
    gamma: float,
    laws: Sequence[Floats],
    weights: Floats,
    truth: Floats,
    order: int | None = None,
) -> float:
    """What one person adds to the variance of Σ weights·p over a table whose true shares are
    `truth`, the people not being held fixed; `laws` are the shares of each axis's cells were all
    values equally likely.

    An interaction that no question holds is supposed away, as a model supposes it, and so are those
    of more axes than `order`.

    >>> halves = [np.array([0.5, 0.5])]  # 1/(4·keep²): k-ary response of two answers keeps half
    >>> found = plain_variance({(0,): {2: 1.0}}, 3.0, halves, np.array([0.0, 1.0]), halves[0])
    >>> round(found, 6)
    1.0
    """
    layout = _layout(tuple(asked), tuple(map(len, laws)), order)
    features, joint = features_of([_contrasts(law) for law in laws], layout.sets), independent(laws)
    table = features.reshape(*joint.shape, -1)
    information = np.zeros((features.shape[1], features.shape[1]))
    for axes, part in zip(asked, layout.parts, strict=True):
        even = independent([laws[axis] for axis in axes]).ravel()
        each = _information(asked[axes], gamma, even, truth.sum(axis=part.others).ravel())
        slope = table[part.cells].reshape(len(even), -1)[:, part.features]
        information[part.both] += squared(slope, each * even**2)
    wanted = (joint * weights).ravel() @ features
    return float(wanted @ np.linalg.solve(information, wanted))


class _Part(NamedTuple):
    """Where in the table and among the features lies what some axes tell."""

    others: Axes
    cells: tuple[Any, ...]
    features: NDArray[np.intp]
    both: tuple[NDArray[Any], ...]


class _Layout(NamedTuple):
    sets: tuple[Axes, ...]
    parts: tuple[_Part, ...]


@lru_cache(maxsize=1024)
def _layout(asked: tuple[Axes, ...], shape: tuple[int, ...], order: int | None) -> _Layout:
    """The interactions that are told, and where each set of axes finds its own; many itemsets have
    the same.
    """
    sets = tuple(sorted({part for axes in asked for part in subsets(axes, order)}))
    sizes = [int(np.prod([shape[axis] - 1 for axis in part])) for part in sets]
    parts = []
    for axes in asked:
        inside = np.repeat([set(part) <= set(axes) for part in sets], sizes)
        others = tuple(axis for axis in range(len(shape)) if axis not in axes)
        cells = tuple(0 if axis in others else slice(None) for axis in range(len(shape)))
        places = np.flatnonzero(inside)
        parts.append(_Part(others, cells, places, np.ix_(places, places)))
    return _Layout(sets, tuple(parts))


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
