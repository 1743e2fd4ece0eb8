"""MASK's privacy by formula, against its printed table and what its text says of the figures."""

import numpy as np
import pytest

from papers import mask_privacy


def curve(found, first: float) -> np.ndarray:
    return np.array([row.cells[0].value for row in found.rows if row.labels[0] == first])


def test_table_1_is_the_printed_one_cut_off() -> None:
    rows = mask_privacy.table_1().rows
    assert [int(row.cells[0].value + 1e-9) for row in rows] == [89, 88, 87, 83, 76, 0]


@pytest.mark.parametrize("support", mask_privacy.SUPPORTS)
def test_figure_1_is_symmetric_and_lowest_in_the_middle(support: float) -> None:
    found = curve(mask_privacy.figure_1(), support)
    assert np.allclose(found, found[::-1]) and np.argmin(found) == len(found) // 2


def test_figure_1_by_simulation() -> None:
    """Ones of support 0.3 flipped at p = 0.9 and guessed by their posterior."""
    rng = np.random.default_rng(5)
    ones = rng.random(400_000) < 0.3
    shown = np.where(rng.random(len(ones)) < 0.9, ones, ~ones)
    chance = {value: ones[shown == value].mean() for value in (True, False)}
    guessed = np.where(shown[ones], chance[True], chance[False]).mean()
    keep = mask_privacy.KEEPS.index(0.9)
    assert curve(mask_privacy.figure_1(), 0.3)[keep] == pytest.approx(guessed, abs=0.005)


def test_figure_2_has_its_knees_at_the_ends() -> None:
    found = curve(mask_privacy.figure_2(), 0.9)
    assert np.ptp(found[2:-2]) < 8 and found[0] < 1e-9 and found[-1] < 1e-9
