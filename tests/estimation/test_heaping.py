"""Round numbers on a grid, and those that it does not show."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Numeric
from sfumato.estimation.heaping import Heaping, moved_by_rounding


@pytest.mark.parametrize("number", [Numeric("x", 0, 5099), Numeric("x", -700, 4399)])
def test_a_cut_moves_as_the_people_who_round_do(number: Numeric) -> None:
    """Judged by people, one at every number, all of whom round to one unit; a step is 20."""
    numbers, codes = np.arange(number.min, number.max + 1), np.arange(1000, 1130)
    found, step = moved_by_rounding(number, 256, codes), (number.size - 1) / 255
    units = [2, 5, 10, 20, 25]
    assert len(found) == len(units)
    for unit, moves in zip(units, found, strict=True):
        rounded = np.floor(numbers / unit + 0.5) * unit
        for code, moved in zip(codes, moves, strict=True):
            last = number.min + code - 1
            more = np.count_nonzero(rounded <= last) - np.count_nonzero(numbers <= last)
            assert moved * step == pytest.approx(more, abs=0.5 + 1e-9)


def test_a_unit_of_the_number_itself_or_of_two_steps_is_none() -> None:
    assert moved_by_rounding(Numeric("x", 0, 255), 256, np.array([7])).shape == (0, 1)
    assert moved_by_rounding(Numeric("x", 0, 510, step=2), 256, np.array([7])).shape == (0, 1)


def test_everyone_who_rounds_stays() -> None:
    """Once all have rounded there are as many as before, and near an end nobody has."""
    for heaping in (Heaping(0.0, 5.1, ends=False), Heaping(2.3, 2.55, ends=False)):
        times, inside = heaping.rounding(256), heaping.inside(256)
        assert times[inside].mean() == pytest.approx(1, abs=0.05)
        assert (times[~inside] == 1).all() and (~inside).sum() <= heaping.period + 2
