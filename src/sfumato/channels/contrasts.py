"""Contrasts: a table written as a sum of interactions, so that what a question says of its columns
is said once.

Every axis of size k has k orthogonal contrasts of mean square 1, the first of them constant:
Helmert contrasts for names, orthogonal polynomials for ordered cells. An interaction A takes one
contrast other than the constant from each of its axes; its features are their products. A marginal
over the axes s is then p_s = (1/K_s)(1 + Σ_{A ⊆ s} Φ_A c_A) with c_A = Σ_x p(x) Φ_A(x), whatever
else p holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.limits import SMALL

Floats = NDArray[Any]
Axes = tuple[int, ...]


@lru_cache(maxsize=256)
def contrasts(size: int, ordered: bool = False) -> Floats:  # (size, size)
    """Orthogonal columns of mean square 1, the first constant: polynomials if the cells are
    ordered, else Helmert's.

    >>> contrasts(2).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    basis = _polynomials(size) if ordered else _helmert(size)
    basis.flags.writeable = False  # one table for all who ask
    return basis


def _polynomials(size: int) -> Floats:
    """Each column is the position times the one before, made orthogonal to all before it (twice:
    powers of the position themselves would be parallel to rounding from some twenty cells on).
    """
    middle = (size - 1) / 2
    position = (np.arange(size) - middle) / max(middle, 1.0)
    basis = np.ones((size, size))
    for degree in range(1, size):
        column = position * basis[:, degree - 1]
        for _ in range(2):
            column -= basis[:, :degree] @ (basis[:, :degree].T @ column) / size
        basis[:, degree] = column * math.sqrt(size) / np.linalg.norm(column)
    return basis


def _helmert(size: int) -> Floats:
    """Column j compares the first j cells with the next one."""
    basis = np.triu(np.ones((size, size)), 1) - np.diag(np.arange(size, dtype=np.float64))
    basis[:, 0] = 1.0
    return np.asarray(basis * math.sqrt(size) / np.linalg.norm(basis, axis=0))


def degrees(size: int, ordered: bool = False) -> Floats:  # (size,)
    """How rough each contrast is: the degree of its polynomial, 1 for names and for the
    constant.
    """
    return np.maximum(np.arange(size, dtype=np.float64), 1.0) if ordered else np.ones(size)


class Features(NamedTuple):
    """The features of the interactions within some axes, and their places among all of them."""

    matrix: Floats  # (cells of the axes, n)
    places: NDArray[np.intp]  # (n,)


@dataclass(frozen=True, eq=False)
class Interactions:
    """Some interactions of the axes of a table, and the features of each, one after the other.

    >>> pairs = Interactions.up_to((2, 3), (False, False), 2)
    >>> pairs.sets, pairs.size
    (((0,), (1,), (0, 1)), 5)
    """

    shape: tuple[int, ...]
    ordered: tuple[bool, ...]
    sets: tuple[Axes, ...]
    _kept: dict[Axes, Features] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def up_to(cls, shape: Sequence[int], ordered: Sequence[bool], order: int) -> Interactions:
        """Every interaction of at most `order` axes."""
        every = tuple(range(len(shape)))
        return cls(tuple(shape), tuple(ordered), subsets(every, order))

    @classmethod
    def within_any(
        cls, shape: Sequence[int], ordered: Sequence[bool], sets: Iterable[Axes]
    ) -> Interactions:
        """Every interaction whose axes some set holds together."""
        found = {inside for axes in sets for inside in subsets(tuple(sorted(axes)))}
        ranked = tuple(sorted(found, key=lambda axes: (len(axes), axes)))
        return cls(tuple(shape), tuple(ordered), ranked)

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """How many features each interaction has."""
        return np.array([math.prod(self.shape[a] - 1 for a in axes) for axes in self.sets], np.intp)

    @cached_property
    def orders(self) -> NDArray[np.intp]:
        """How many axes each interaction has."""
        return np.array([len(axes) for axes in self.sets], np.intp)

    @property
    def size(self) -> int:
        """How many features there are."""
        return int(self.sizes.sum())

    @cached_property
    def blocks(self) -> NDArray[np.intp]:  # (size,)
        """The interaction of each feature."""
        return np.repeat(np.arange(len(self.sets)), self.sizes)

    @cached_property
    def degrees(self) -> Floats:  # (size,)
        """The product of the degrees of each feature's contrasts."""
        return np.concatenate([self._degrees(axes) for axes in self.sets] or [np.zeros(0)])

    def _degrees(self, axes: Axes) -> Floats:
        result: Floats = np.ones(1)
        for axis in axes:
            own = degrees(self.shape[axis], self.ordered[axis])[1:]
            result = np.multiply.outer(result, own).ravel()
        return result

    @cached_property
    def _starts(self) -> dict[Axes, int]:
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        return {axes: int(start) for axes, start in zip(self.sets, starts, strict=False)}

    @cached_property
    def _contrasts(self) -> list[Floats]:
        return [contrasts(k, o) for k, o in zip(self.shape, self.ordered, strict=True)]

    def places(self, axes: Axes) -> NDArray[np.intp]:
        """Where the features of one interaction stand among all."""
        start = self._starts[axes]
        return np.arange(start, start + math.prod(self.shape[axis] - 1 for axis in axes))

    def cells(self, axes: Axes) -> int:
        """How many cells the table over these axes has."""
        return math.prod(self.shape[axis] for axis in axes)

    def features(self, axes: Axes) -> Features:
        """The features, on the cells of these axes (ascending), of the interactions that lie within
        them.
        """
        if axes not in self._kept:
            inside = [part for part in self.sets if set(part) <= set(axes)]
            kinds = tuple((self.shape[axis], self.ordered[axis]) for axis in axes)
            within = tuple(tuple(axes.index(axis) for axis in part) for part in inside)
            small = self.cells(axes) <= SMALL
            matrix = (_small_features if small else _features)(kinds, within)
            places = [self.places(part) for part in inside]
            self._kept[axes] = Features(matrix, np.concatenate([np.zeros(0, np.intp), *places]))
        return self._kept[axes]

    @cached_property
    def _spots(self) -> NDArray[np.intp]:  # (size,)
        """Where each feature stands in the table of all products of contrasts."""
        strides = np.cumprod([1, *self.shape[:0:-1]])[::-1]
        spots = [self._spot(axes, strides) for axes in self.sets]
        return np.concatenate([np.zeros(0, np.intp), *spots])

    def _spot(self, axes: Axes, strides: NDArray[Any]) -> NDArray[np.intp]:
        found = np.zeros(1, np.intp)
        for axis in axes:
            found = np.add.outer(found, strides[axis] * np.arange(1, self.shape[axis])).ravel()
        return found

    def means(self, table: Floats) -> Floats:  # (cells, n) -> (size, n)
        """Σ_x Φ(x)·table(x) of every feature, summed axis by axis: Φ is not written down."""
        return self._along(table, [basis.T for basis in self._contrasts])[self._spots]

    def energies(self, theta: Floats) -> Floats:  # (size, n) -> (cells, n)
        """Φθ, axis by axis."""
        table = np.zeros((math.prod(self.shape), theta.shape[1]))
        table[self._spots] = theta
        return self._along(table, self._contrasts)

    def _along(self, table: Floats, changes: Sequence[Floats]) -> Floats:
        """A table of cells with each axis changed by a matrix of its own."""
        shape, before = table.shape, 1
        for change in changes:
            table = change @ table.reshape(before, len(change), -1)
            before *= len(change)
        return table.reshape(shape)


Kinds = tuple[tuple[int, bool], ...]  # the size of each axis, and whether it is ordered


def features_of(bases: Sequence[Floats], sets: Iterable[Axes]) -> Floats:  # (cells, n)
    """The features of some interactions on the cells of a table: of each axis in turn a contrast of
    its basis, whose first column is constant.
    """
    cells = math.prod(map(len, bases))
    columns = (_columns(bases, part) for part in sets)
    return np.concatenate([np.zeros((cells, 0)), *columns], axis=1)


def _columns(bases: Sequence[Floats], part: Axes) -> Floats:
    """The Kronecker product of contrasts; for small tables NumPy's own takes ten times as long."""
    result: Floats = np.ones((1, 1))
    for axis, basis in enumerate(bases):
        own = basis[:, 1:] if axis in part else basis[:, :1]
        cells = result[:, None, :, None] * own[None, :, None, :]
        result = cells.reshape(len(result) * len(own), -1)
    return result


def _features(kinds: Kinds, sets: tuple[Axes, ...]) -> Floats:  # (cells, n)
    """The features of interactions of axes of these kinds."""
    return features_of([contrasts(*kind) for kind in kinds], sets)


@lru_cache(maxsize=1024)
def _small_features(kinds: Kinds, sets: tuple[Axes, ...]) -> Floats:
    """The same of few cells, remembered: questions of many columns are of few kinds."""
    matrix = _features(kinds, sets)
    matrix.flags.writeable = False
    return matrix


def independent(laws: Sequence[Floats]) -> Floats:
    """The law of independent axes together, in the shape of their table."""
    return reduce(np.multiply.outer, laws, np.ones(()))


def subsets(axes: Axes, most: int | None = None) -> tuple[Axes, ...]:
    """The non-empty subsets of some axes, the smallest first.

    >>> subsets((0, 2))
    ((0,), (2,), (0, 2))
    """
    sizes = range(1, (len(axes) if most is None else min(most, len(axes))) + 1)
    return tuple(part for size in sizes for part in combinations(axes, size))
