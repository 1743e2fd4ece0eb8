"""Bits of one set depend on each other: their second moments against all sets one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.channels.unary_bits import SubsetBits


@pytest.mark.parametrize(("size", "chosen"), [(5, 3), (4, 2), (6, 4), (3, 1), (2, 1)])
def test_second_moments_are_those_of_all_sets(size: int, chosen: int) -> None:
    own, rng = 0.6, np.random.default_rng(1)
    other = (chosen - own) / (size - 1)
    channel = SubsetBits(np.full(size, own), np.full(size, 1 - other), (), chosen)
    first, second = rng.normal(size=(2, size + 1))
    sets = list(combinations(range(size), chosen))
    bits = np.array([[1.0, *(value in members for value in range(size))] for members in sets])
    for truth in range(size):
        holds = bits[:, 1 + truth] == 1
        chance = np.where(holds, own / holds.sum(), (1 - own) / max((~holds).sum(), 1))
        exact = float(chance @ ((bits @ first) * (bits @ second)))
        assert np.asarray(channel.second_moment(first, second))[truth] == pytest.approx(exact)
