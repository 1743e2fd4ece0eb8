"""HDG, re-implemented from its published formulas: ranges of several numbers by one grid a person
(Yang, Wang, Li, Cheng and Su, "Answering multi-dimensional range queries under local differential
privacy", VLDB 2020).

Each person is asked about one of all one- and two-dimensional grids by optimised unary encoding
(whose variance is that of optimised local hashing), the grids' sizes being the paper's guideline
(α1 = 0.7, α2 = 0.03, the nearest powers of two). Then come non-negativity by norm-sub, consistency
of all grids of a column, the response matrix of each pair by weighted update, and ranges of more
columns by weighted update of their 2^k parts with the answers for each two. What the paper
leaves open is as in its authors' program: 100 rounds of consistency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

ALPHA_ONE, ALPHA_TWO = 0.7, 0.03
ROUNDS = 100  # of norm-sub and consistency
UPDATES = 100

Range = tuple[float, float]  # shares of a column's values: from, to


def guideline(people: int, columns: int, epsilon: float) -> tuple[int, int]:
    """The cells of a column in one- and in two-dimensional grids."""
    groups, gamma = columns + math.comb(columns, 2), math.exp(epsilon)
    each = people / groups
    one = (each * (gamma - 1) ** 2 * ALPHA_ONE**2 / (2 * gamma)) ** (1 / 3)
    two = math.sqrt(2 * ALPHA_TWO * (gamma - 1) * math.sqrt(each / gamma))
    coarse = _power_of_two(two)
    return max(_power_of_two(one), coarse), coarse


def _power_of_two(size: float) -> int:
    """The nearest by its distance, as the authors round, and at least 2."""
    below = 2 ** int(math.log2(max(size, 1.0)))
    return max(2, below if size - below <= 2 * below - size else 2 * below)


def encoded(codes: np.ndarray, cells: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """The shares of the cells from one optimised unary encoding a person, without bias."""
    inside, people = np.bincount(codes, minlength=cells), len(codes)
    kept, made = 0.5, 1 / (math.exp(epsilon) + 1)
    support = rng.binomial(inside, kept) + rng.binomial(people - inside, made)
    return np.asarray((support / people - made) / (kept - made))


def norm_sub(shares: np.ndarray) -> np.ndarray:
    """The nearest shares that are not negative and sum to 1."""
    found = shares.copy()
    while True:
        above = found > 0
        found[~above] = 0
        found[above] += (1 - found[above].sum()) / max(above.sum(), 1)
        if (found >= -1e-12).all():
            return np.maximum(found, 0)


@dataclass(frozen=True, eq=False)
class Hybrid:
    """What the grids say once they agree."""

    one: list[np.ndarray]  # (fine,) a column
    two: dict[tuple[int, int], np.ndarray]  # (coarse, coarse) a pair
    people: int

    @classmethod
    def of(cls, parts: np.ndarray, epsilon: float, rng: np.random.Generator) -> Hybrid:
        """From records (people, columns), each number as a share of its column's values."""
        people, columns = parts.shape
        fine, coarse = guideline(people, columns, epsilon)
        pairs = list(combinations(range(columns), 2))
        group = rng.integers(0, columns + len(pairs), people)
        one = [
            encoded((parts[group == axis, axis] * fine).astype(int), fine, epsilon, rng)
            for axis in range(columns)
        ]
        two = {}
        for place, (first, second) in enumerate(pairs, columns):
            cells = (parts[group == place] * coarse).astype(int)
            codes = cells[:, first] * coarse + cells[:, second]
            two[first, second] = encoded(codes, coarse**2, epsilon, rng).reshape(coarse, coarse)
        found = cls(one, two, people)
        for _ in range(ROUNDS):
            found = found._positive()._agreeing()
        return found._positive()

    @property
    def _sizes(self) -> tuple[int, int]:
        return len(self.one[0]), len(next(iter(self.two.values())))

    def _positive(self) -> Hybrid:
        two = {pair: norm_sub(t.ravel()).reshape(t.shape) for pair, t in self.two.items()}
        return Hybrid([norm_sub(each) for each in self.one], two, self.people)

    def _agreeing(self) -> Hybrid:
        """The same with every grid of a column having the same sums over its coarse cells, their
        mean weighted by how few cells were summed.
        """
        (fine, coarse), one, two = self._sizes, list(self.one), dict(self.two)
        each = fine // coarse
        for axis in range(len(one)):
            own = [pair for pair in two if axis in pair]
            views = [one[axis].reshape(coarse, each).sum(axis=1)]
            views += [two[pair].sum(axis=1 - pair.index(axis)) for pair in own]
            mean = np.average(views, axis=0, weights=[1 / each, *[1 / coarse] * len(own)])
            one[axis] = one[axis] + np.repeat((mean - views[0]) / each, each)
            for pair, view in zip(own, views[1:], strict=True):
                moved = (mean - view) / coarse
                two[pair] = two[pair] + (moved[:, None] if pair[0] == axis else moved)
        return Hybrid(one, two, self.people)

    @cached_property
    def _matrices(self) -> dict[tuple[int, int], np.ndarray]:
        return {pair: self._matrix(pair) for pair in self.two}

    def _matrix(self, pair: tuple[int, int]) -> np.ndarray:  # (fine, fine)
        """The law of two columns by weighted update from their three grids."""
        fine, coarse = self._sizes
        each, (rows, columns) = fine // coarse, (self.one[axis] for axis in pair)
        law = np.full((fine, fine), 1 / fine**2)
        for _ in range(UPDATES):
            before = law
            law = law * _ratio(rows, law.sum(axis=1))[:, None]
            law = law * _ratio(columns, law.sum(axis=0))
            sums = law.reshape(coarse, each, coarse, each).sum(axis=(1, 3))
            law = law * np.kron(_ratio(self.two[pair], sums), np.ones((each, each)))
            if np.abs(law - before).sum() < 1 / self.people:
                break
        return law

    def share(self, axes: Sequence[int], ranges: Sequence[Range]) -> float:
        """The share of people within ranges of some columns (ascending)."""
        fine, number = self._sizes[0], len(axes)
        edges = np.linspace(0, 1, fine + 1)
        inside = [
            np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None) * fine
            for low, high in ranges
        ]
        parts = np.full((2,) * number, 0.5**number)
        told = {
            (first, second): inside[first]
            @ self._matrices[axes[first], axes[second]]
            @ inside[second]
            for first, second in combinations(range(number), 2)
        }
        for _ in range(UPDATES):
            before = parts
            for pair, share in told.items():
                parts = _moved(parts, pair, float(share))
            if np.abs(parts - before).sum() < 1 / self.people:
                break
        return float(parts[(1,) * number])


def _moved(parts: np.ndarray, pair: tuple[int, int], share: float) -> np.ndarray:
    """The parts once those inside the ranges of two columns have this share; they sum to 1."""
    here = tuple(1 if axis in pair else slice(None) for axis in range(parts.ndim))
    found, held = parts.copy(), parts[here].sum()
    if held > 0:
        found[here] *= share / held
    return np.asarray(found / found.sum())


def _ratio(wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
    return np.where(found > 0, wanted / np.maximum(found, 1e-300), 0.0)
