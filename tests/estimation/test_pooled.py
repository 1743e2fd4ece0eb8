"""Estimates about several groups of people: the precise ones count for more."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.pooled import pooled, summed
from sfumato.randomness import seeded
from sfumato.table import Table

PETS = Domain((Category("pet", ("cat", "dog", "eel")),))


def estimate(rows: int, keep: float, seed: int) -> Estimate:
    truth = np.random.default_rng(seed).choice(3, rows, p=[0.6, 0.3, 0.1]).astype(np.uint8)
    return sf.perturb(Table(PETS, (truth,)), sf.Retention(PETS, keep), seeded(seed)).marginal(
        ["pet"]
    )


@pytest.mark.parametrize("rows", [(5000, 5000), (2000, 9000)])
def test_a_group_weighs_as_it_is_precise(rows: tuple[int, int]) -> None:
    """The least variance of any weighted mean of the two shares, found by trying them all."""
    both = [estimate(rows[0], 0.9, 1), estimate(rows[1], 0.2, 2)]
    mass = np.clip(summed(both).value / sum(rows), 0, 1)
    spread = float((mass * (1 - mass)).sum())
    variances = [
        (each.stderr**2).sum() / n**2 + spread / n for each, n in zip(both, rows, strict=True)
    ]
    tried = np.linspace(0, 1, 100_001)
    best = tried[np.argmin(tried**2 * variances[0] + (1 - tried) ** 2 * variances[1])]
    shares = [each.value / n for each, n in zip(both, rows, strict=True)]
    expected = sum(rows) * (best * shares[0] + (1 - best) * shares[1])
    found = pooled(both)
    assert found.value == pytest.approx(expected, rel=1e-3, abs=1.0)
    assert not np.allclose(found.value, summed(both).value, rtol=1e-3)
    assert best > 0.5  # the group with less noise, whichever is larger
