"""The law of ratios is smoothed evenly on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.estimation.baskets.priors import SMOOTH, LiftPrior, NoisyObservation


def test_smoothing_moves_nothing_and_widens_by_what_it_says() -> None:
    law = LiftPrior.supposed()
    spike = np.zeros(len(law.grid))
    spike[len(spike) // 2] = 1.0
    found = law._smoothed(spike)
    middle = law.grid[len(spike) // 2]
    assert found.sum() == pytest.approx(1.0)
    assert found @ law.grid == pytest.approx(middle, abs=1e-9)
    assert np.sqrt(found @ (law.grid - middle) ** 2) == pytest.approx(SMOOTH, rel=0.05)


def test_what_nearly_everybody_holds_is_no_surer_than_its_reports() -> None:
    """A law that ends at 1 made the errors of supports near it too small and drew them down: four
    of five intervals held where 19 of 20 should.
    """
    rng = np.random.default_rng(3)
    true, error = np.repeat([0.5, 0.975, 1.0], 400), 0.013
    told = NoisyObservation.normal(
        true + error * rng.standard_normal(len(true)), np.full(1200, error**2)
    )
    for known in (
        LiftPrior.of_items(told).known(np.ones(1200), told),
        LiftPrior.supposed().known(np.full(1200, 0.8), told),
    ):
        held = (np.abs(known.mean - true) < 1.96 * known.stderr).reshape(3, -1).mean(axis=1)
        assert held[:2] == pytest.approx(0.95, abs=0.03) and held[2] > 0.95
        assert known.mean.max() <= 1 and known.stderr == pytest.approx(error, rel=0.1)
