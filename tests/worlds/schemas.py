"""Worlds of any schema: few or many columns, small or large, few or many people, any promise; how
far columns depend on one another is written down here, and what a plan expects is its mean
(`mechanisms/shares.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Category, Domain
from sfumato.table import Table

Codes = NDArray[Any]


@dataclass(frozen=True, eq=False)
class SchemaWorld:
    """People of a random schema, and how strong a promise they were given."""

    gamma: float
    table: Table

    @classmethod
    def drawn(cls, seed: int) -> SchemaWorld:
        """Two to forty columns of two to sixty values, 200 to 500,000 people, γ from 2 to 1,000,
        each evenly on a logarithmic scale.
        """
        rng = np.random.default_rng(seed)
        sizes = sizes_drawn(rng)
        people = int(np.exp(rng.uniform(math.log(200), math.log(500_000))))
        gamma = round(float(np.exp(rng.uniform(math.log(2), math.log(1000)))), 2)
        codes = tuple(column.astype(np.uint8) for column in columns(rng, sizes, people))
        return cls(gamma, Table(domain_of(sizes), codes))


def domain_of(sizes: Sequence[int]) -> Domain:
    """Columns of so many words each."""
    words = [tuple(f"v{value}" for value in range(size)) for size in sizes]
    return Domain(tuple(Category(f"c{place}", each) for place, each in enumerate(words)))


def sizes_drawn(rng: np.random.Generator) -> list[int]:
    """How many values each column has: up to a bound that all columns share."""
    number = round(math.exp(rng.uniform(math.log(2), math.log(40))))
    most = math.exp(rng.uniform(math.log(2), math.log(60)))
    return [round(math.exp(each)) for each in rng.uniform(math.log(2), math.log(most), number)]


def columns(rng: np.random.Generator, sizes: Sequence[int], people: int) -> list[Codes]:
    """Each column has a law of its own (Dirichlet, 2), and for a share of the people that is its
    own too (Beta(1, 2), a third on average) it is instead what a random map makes of one or two
    earlier columns: so pairs and threes of columns depend.
    """
    found: list[Codes] = []
    for place, size in enumerate(sizes):
        own = rng.choice(size, people, p=rng.dirichlet(np.full(size, 2.0)))
        if place:
            number = min(place, int(rng.integers(1, 3)))
            earlier = rng.choice(place, number, replace=False)
            shape = [sizes[each] for each in earlier]
            follows = rng.integers(0, size, math.prod(shape))
            cell = np.ravel_multi_index(tuple(found[each] for each in earlier), shape)
            own = np.where(rng.random(people) < rng.beta(1, 2), follows[cell], own)
        found.append(own)
    return found


def dependence(seed: int, people: int = 100_000) -> tuple[list[float], list[float]]:
    """Of all pairs of columns of a world, and of some threes, the mean square of a feature beyond
    what its parts imply, times what `expected_square` divides by.
    """
    rng = np.random.default_rng(seed)
    sizes = sizes_drawn(rng)
    codes = columns(rng, sizes, people)
    pairs, threes = list(combinations(range(len(sizes)), 2)), []
    for axes in combinations(range(len(sizes)), 3):
        if math.prod(sizes[axis] for axis in axes) <= 600:
            threes.append(axes)
    few = [threes[place] for place in rng.permutation(len(threes))[:12]]
    return (
        [_beyond(codes, sizes, axes, people) for axes in pairs],
        [_beyond(codes, sizes, axes, people) for axes in few],
    )


def _beyond(
    codes: Sequence[Codes], sizes: Sequence[int], axes: Sequence[int], people: int
) -> float:
    """Σ (p − q)²/e over the features, e being independence and q what the pairs imply."""
    shape = [sizes[axis] for axis in axes]
    places = np.ravel_multi_index(tuple(codes[axis] for axis in axes), shape)
    table = np.bincount(places, minlength=math.prod(shape)).reshape(shape) / people
    even = np.ones(())
    for axis in range(len(axes)):
        rest = tuple(other for other in range(len(axes)) if other != axis)
        even = np.multiply.outer(even, table.sum(axis=rest))
    implied = even if len(axes) == 2 else _fitted_to_pairs(table)
    seen = even > 0
    features = math.prod(size - 1 for size in shape)
    square = float(((table - implied)[seen] ** 2 / even[seen]).sum()) - features / people
    return square / features * math.prod(sorted(size - 1 for size in shape)[1:])


def _fitted_to_pairs(table: NDArray[Any]) -> NDArray[Any]:
    """The law without a three-way interaction (iterative proportional fitting)."""
    found = np.full(table.shape, 1 / table.size)
    for _ in range(50):
        for axis in range(3):
            wanted, has = table.sum(axis=axis, keepdims=True), found.sum(axis=axis, keepdims=True)
            found = found * np.divide(wanted, has, out=np.zeros_like(has), where=has > 0)
    return found
