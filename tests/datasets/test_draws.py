"""The draws follow their distributions, and the tests would notice one that is five per
cent off.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, factorial

import numpy as np
import pytest

from sfumato.datasets.nonuniform import choice, exponential, happens, normal, pick, poisson
from sfumato.randomness import Keystream, seeded

COUNT = 200_000
Draw = Callable[[Keystream], np.ndarray]


def far(values: np.ndarray, mean: float) -> bool:
    """Whether the average is more than 5 standard errors from this mean (by chance once in 1.7
    million seeds).
    """
    return abs(values.mean() - mean) > 5 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (lambda rng: exponential(rng, COUNT), 1.0),
        (lambda rng: exponential(rng, COUNT) > 2, exp(-2)),
        (lambda rng: normal(rng, COUNT) ** 2, 1.0),
        (lambda rng: normal(rng, COUNT) > 1, 0.158655),
        (lambda rng: poisson(rng, 9, COUNT), 9.0),
        (lambda rng: (poisson(rng, 9, COUNT) - 9) ** 2, 9.0),
        (lambda rng: poisson(rng, 900, COUNT), 900.0),
        (lambda rng: poisson(rng, 3, COUNT) == 2, exp(-3) * 9 / factorial(2)),
        (lambda rng: choice(rng, np.array([1.0, 0.0, 3.0]), COUNT) == 2, 0.75),
        (lambda rng: happens(rng, np.full(COUNT, 0.3)), 0.3),
        (lambda rng: pick(rng, np.tile([2.0, 1.0, 1.0], (COUNT, 1))) == 0, 0.5),
    ],
)
def test_means_are_met_and_five_per_cent_off_is_noticed(draw: Draw, mean: float) -> None:
    values = np.asarray(draw(seeded(11)), dtype=float)
    assert not far(values, mean)
    assert far(values, 1.05 * mean)


def test_impossible_values_never_come() -> None:
    assert not (choice(seeded(1), np.array([1.0, 0.0, 3.0]), COUNT) == 1).any()
    assert not (pick(seeded(1), np.tile([1.0, 0.0, 1.0], (COUNT, 1))) == 1).any()
    assert not poisson(seeded(1), 0, 100).any()
    assert not happens(seeded(1), np.zeros(100)).any()
    assert happens(seeded(1), np.ones(100)).all()
