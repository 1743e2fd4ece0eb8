"""Told: what reports say of parts of a table's axes, as sums over the means of its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.model.measurement import Measurement, Reconstruction

STACKED = 1 << 16  # entries of all slopes together up to which one table holds them
LEAST = 1e-300  # of a chance whose logarithm is taken
NOBODY = 1e-14  # a chance below this is 0 but for rounding: a public cell that nobody is in


class Normal(NamedTuple):
    """Means of some features that were reconstructed, and how much is known of them."""

    places: np.ndarray  # (n,)
    means: Floats  # (n,)
    information: Floats  # (n, n)


class Block(NamedTuple):
    """Answers whose probabilities are offset + slope · c, with c the means of some features."""

    places: np.ndarray  # (n,)
    slope: Floats  # (answers, n)
    offset: Floats  # (answers,)
    counts: Floats  # (answers,)
    people: Floats  # (answers,)

    def chances(self, means: Floats) -> Floats:
        return np.maximum(self.offset + self.slope @ means[self.places], LEAST)


class Seen(NamedTuple):
    """What the answers say at some law: how the log-likelihood moves with the means, and the
    weight of each answer, block by block.
    """

    pull: Floats  # (measured,)
    weights: list[Floats]  # (answers,) each


Weigh = Callable[[Block, Floats], Floats]  # a block and its chances -> (answers,)


@dataclass(frozen=True, eq=False)
class Told:
    """Measurements of parts of the axes.

    A question about a few axes sees only the means c of the features within them, so all such
    questions are blocks over c, built once.
    """

    shape: tuple[int, ...]
    ordered: tuple[bool, ...]
    answered: tuple[Measurement, ...]
    reconstructed: tuple[Reconstruction, ...]

    def __bool__(self) -> bool:
        return bool(self.answered or self.reconstructed)

    @cached_property
    def interactions(self) -> Interactions:
        """The interactions that some question held together."""
        parts: Sequence[Measurement | Reconstruction] = (*self.answered, *self.reconstructed)
        return Interactions.within_any(self.shape, self.ordered, {part.axes for part in parts})

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The answers, one block for the same axes; one for all where they are few."""
        by_axes: dict[Axes, list[Measurement]] = {}
        for part in self.answered:
            by_axes.setdefault(part.axes, []).append(part)
        blocks = [block_of(self.interactions, axes, parts) for axes, parts in by_axes.items()]
        size = self.interactions.size
        if len(blocks) > 1 and sum(len(block.counts) for block in blocks) * size <= STACKED:
            return (stacked(blocks, size),)
        return tuple(blocks)

    @cached_property
    def normals(self) -> tuple[Normal, ...]:
        """What was reconstructed."""
        return tuple(normal_of(self.interactions, part) for part in self.reconstructed)

    def value(self, means: Floats) -> float:
        """The log-likelihood."""
        total = 0.0
        for block in self.blocks:
            total += float(block.counts @ np.log(block.chances(means)))
        for normal in self.normals:
            away = means[normal.places] - normal.means
            total -= 0.5 * float(away @ normal.information @ away)
        return total

    def expected(self, means: Floats) -> Seen:
        """The weights that answers have on average: people / chance."""
        return self._seen(means, lambda block, chances: weighed(block.people, chances))

    def observed(self, means: Floats) -> Seen:
        """The weights that these very answers have: count / chance²."""
        return self._seen(means, lambda block, chances: weighed(block.counts / chances, chances))

    def _seen(self, means: Floats, weigh: Weigh) -> Seen:
        pull, weights = np.zeros(self.interactions.size), []
        for block in self.blocks:
            chances = block.chances(means)
            pull[block.places] += (block.counts / chances) @ block.slope
            weights.append(weigh(block, chances))
        for normal in self.normals:
            pull[normal.places] += normal.information @ (normal.means - means[normal.places])
        return Seen(pull, weights)

    def information(
        self, weights: Sequence[Floats], slopes: Floats
    ) -> Floats:  # (measured, size) -> (size, size)
        """The information on coefficients that move the means by these slopes."""
        carried = np.zeros(slopes.shape)
        for block, weight in zip(self.blocks, weights, strict=True):
            known = block.slope.T @ (weight[:, None] * block.slope)
            carried[block.places] += known @ slopes[block.places]
        for normal in self.normals:
            carried[normal.places] += normal.information @ slopes[normal.places]
        return np.asarray(slopes.T @ carried)


def weighed(numbers: Floats | float, chances: Floats) -> Floats:
    """Numbers over chances; nothing where nobody can give the answer."""
    return np.where(chances > NOBODY, numbers / chances, 0.0)


def block_of(measured: Interactions, axes: Axes, parts: Sequence[Measurement]) -> Block:
    """The answers to questions about the same axes as one block over the means of features."""
    matrix, places = measured.features(axes)
    cells = measured.cells(axes)
    table = np.column_stack([matrix, np.ones(cells)]) / cells
    told = np.concatenate([part.response.apply(table) for part in parts])
    people = [np.full(len(part.counts), part.people) for part in parts]
    counts = np.concatenate([part.counts for part in parts])
    return Block(places, told[:, :-1], told[:, -1], counts, np.concatenate(people))


def stacked(blocks: Sequence[Block], size: int) -> Block:
    """Many small blocks as one over all features."""
    slope = np.zeros((sum(len(block.counts) for block in blocks), size))
    start = 0
    for block in blocks:
        slope[start : start + len(block.counts), block.places] = block.slope
        start += len(block.counts)
    offset, counts, people = (
        np.concatenate(part)
        for part in zip(*((b.offset, b.counts, b.people) for b in blocks), strict=True)
    )
    return Block(np.arange(size), slope, offset, counts, people)


def normal_of(measured: Interactions, part: Reconstruction) -> Normal:
    """Reconstructed shares as reconstructed means of features."""
    matrix, places = measured.features(part.axes)
    covariance = matrix.T @ part.covariance @ matrix
    # Directions in which nothing is uncertain (known columns) would be infinitely informative.
    values, vectors = np.linalg.eigh(covariance)
    least = 1e-9 * max(float(values[-1]), 1e-300)
    information = (vectors / np.maximum(values, least)) @ vectors.T
    return Normal(places, part.shares @ matrix, information)
