"""Contrasts are orthogonal and of mean square 1; marginals come back from the means of their
interactions, whatever else the table holds.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.channels.contrasts import Interactions, contrasts, degrees, subsets


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 20, 100])
def test_contrasts_are_orthogonal_with_mean_square_one(size: int, ordered: bool) -> None:
    matrix = contrasts(size, ordered)
    np.testing.assert_allclose(matrix.T @ matrix, size * np.eye(size), atol=1e-9 * size)
    np.testing.assert_allclose(matrix[:, 0], 1)


def test_ordered_contrasts_are_polynomials_of_their_degree() -> None:
    matrix, place = contrasts(6, True), np.arange(6.0)
    for degree in range(6):
        fitted = np.polyval(np.polyfit(place, matrix[:, degree], degree), place)
        np.testing.assert_allclose(fitted, matrix[:, degree], atol=1e-8)
    assert degrees(6, True).tolist() == [1, 1, 2, 3, 4, 5]
    assert degrees(6).tolist() == [1] * 6


def test_degrees_of_a_product_multiply() -> None:
    pairs = Interactions.up_to((3, 4, 2), (True, True, False), 2)
    assert pairs.degrees[pairs.places((0, 1))].tolist() == [1, 2, 3, 2, 4, 6]
    assert pairs.degrees[pairs.places((1, 2))].tolist() == [1, 2, 3]


def test_a_marginal_is_its_interactions_and_nothing_else() -> None:
    shape = (3, 2, 4)
    table = np.random.default_rng(1).dirichlet(np.ones(24)).reshape(shape)
    every = Interactions.up_to(shape, (True, False, False), 3)
    means = table.ravel() @ every.features((0, 1, 2)).matrix
    for axes in subsets((0, 1, 2)):
        rest = tuple(axis for axis in range(3) if axis not in axes)
        marginal = table.sum(axis=rest).ravel()
        matrix, places = every.features(axes)
        np.testing.assert_allclose((1 + matrix @ means[places]) / marginal.size, marginal)


def test_interactions_within_any_set_are_listed_once() -> None:
    found = Interactions.within_any((2, 3, 2), (False,) * 3, [(0, 1), (1, 2)])
    assert found.sets == ((0,), (1,), (2,), (0, 1), (1, 2))
    assert found.size == 1 + 2 + 1 + 2 + 2
    assert set(found.sets) == set(subsets((0, 1))) | set(subsets((1, 2)))
    assert (0, 2) not in found.sets and len(list(combinations(range(3), 2))) == 3
