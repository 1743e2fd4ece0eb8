"""Non-uniform draws for synthetic data, made from the uniform numbers of a keystream so that a seed
repeats everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.randomness import Keystream

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def exponential(rng: Keystream, count: int) -> Floats:
    """Exponential numbers of mean 1, by inversion."""
    return -np.log1p(-rng.random(count))


def normal(rng: Keystream, count: int) -> Floats:
    """Standard normal numbers (Box and Muller 1958)."""
    radius = np.sqrt(2 * exponential(rng, count))
    return radius * np.cos(2 * np.pi * rng.random(count))


def poisson(rng: Keystream, mean: float, count: int) -> Integers:
    """Poisson numbers of the given mean, by inversion of the tabulated distribution function."""
    longest = int(mean + 12 * np.sqrt(mean) + 30)
    logarithms = np.log(np.maximum(np.arange(longest + 1), 1)).cumsum()
    mass = (
        np.exp(np.arange(longest + 1) * np.log(mean) - mean - logarithms)
        if mean > 0
        else np.ones(1)
    )
    return choice(rng, mass, count)


def choice(rng: Keystream, weights: NDArray[np.floating], count: int) -> Integers:
    """Indices drawn with probability proportional to their weights, by inversion."""
    edges = np.cumsum(weights)
    drawn = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    return np.minimum(drawn, len(edges) - 1).astype(np.int64)


def happens(
    rng: Keystream, chance: NDArray[np.floating]
) -> NDArray[np.bool_]:  # (rows,) -> (rows,)
    """True where an event of that row's own probability happens."""
    return rng.random(len(chance)) < chance


def pick(rng: Keystream, chances: NDArray[np.floating]) -> Integers:  # (rows, values) -> (rows,)
    """One value a row, from that row's own (unnormalised) probabilities."""
    edges = np.cumsum(chances, axis=1)
    return (
        (edges <= (rng.random(len(edges)) * edges[:, -1])[:, None])
        .sum(axis=1)
        .clip(max=edges.shape[1] - 1)
    )
