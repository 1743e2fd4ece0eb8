"""Random worlds: people whose columns depend on one another by chance, and the truth beside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Category, Domain
from sfumato.table import Table

KINDS = ("independent", "some", "strong", "copies")


@dataclass(frozen=True, eq=False)
class World:
    """People, and how strong a promise they were given."""

    kind: str  # how far columns depend
    gamma: float
    table: Table

    @classmethod
    def drawn(cls, seed: int) -> World:
        """Three to six columns of two to eight values, 700 to 20,000 people, γ from 3 to 60. A
        column copies an earlier one for a share of the people: nobody, some, most, or (the first
        two, nearly duplicates) 97 %.
        """
        rng = np.random.default_rng(seed)
        sizes = [int(size) for size in rng.choice([2, 2, 2, 3, 4, 5, 8], rng.integers(3, 7))]
        people = int(np.exp(rng.uniform(math.log(700), math.log(20_000))))
        gamma, kind = float(rng.choice([3, 9, 19, 19, 60])), str(rng.choice(KINDS))
        columns: list[NDArray[Any]] = []
        for place, size in enumerate(sizes):
            own = rng.choice(size, people, p=rng.dirichlet(np.full(size, 2.0)))
            columns.append(own if not place else _copied(rng, kind, columns, sizes, place, own))
        names = [Category(f"c{j}", tuple(f"v{v}" for v in range(k))) for j, k in enumerate(sizes)]
        codes = tuple(column.astype(np.uint8) for column in columns)
        return cls(kind, gamma, Table(Domain(tuple(names)), codes))


def _copied(
    rng: np.random.Generator,
    kind: str,
    columns: list[NDArray[Any]],
    sizes: list[int],
    place: int,
    own: NDArray[Any],
) -> NDArray[Any]:
    """A column that follows an earlier one for a share of the people."""
    if kind == "independent":
        return own
    other, size = int(rng.integers(0, place)), sizes[place]
    copies = 0.97 if place == 1 else 0.0
    shares = {"some": rng.uniform(0, 0.4), "strong": rng.uniform(0.2, 0.9), "copies": copies}
    alike = sizes[other] == size
    follows = rng.permutation(size) if alike else rng.integers(0, size, sizes[other])
    return np.where(rng.random(len(own)) < shares[kind], follows[columns[other]], own)
