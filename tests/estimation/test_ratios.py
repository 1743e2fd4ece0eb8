"""The law of ratios is smoothed evenly on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.estimation.ratios import SMOOTH, Ratios


def test_smoothing_moves_nothing_and_widens_by_what_it_says() -> None:
    law = Ratios.supposed()
    spike = np.zeros(len(law.grid))
    spike[len(spike) // 2] = 1.0
    found = law._smoothed(spike)
    middle = law.grid[len(spike) // 2]
    assert found.sum() == pytest.approx(1.0)
    assert found @ law.grid == pytest.approx(middle, abs=1e-9)
    assert np.sqrt(found @ (law.grid - middle) ** 2) == pytest.approx(SMOOTH, rel=0.05)
