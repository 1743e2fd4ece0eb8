"""FRAPP's table and figures: frequent itemsets of CENSUS, DET-GD's errors, condition numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from papers import frapp
from papers.base import Settings
from papers.data_sets import census
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mine.itemsets import Itemsets, frequent_itemsets
from sfumato.privacy.guarantee import Guarantee
from sfumato.release import Exact
from sfumato.table import Table

SEEDS = range(1, 4)
MEASURED = np.array([18, 20, 16, 9, 6, 5])  # before, with one seed
MEANS = np.array([17.9, 20.2, 15.6, 9.7, 6.5, 4.7])  # over 40 other seeds
SPREAD = np.array([5.8, 3.3, 1.7, 1.25, 0.8, 1.1])  # of one of them


@pytest.fixture(scope="module")
def people(data_dir: Path) -> Table:
    return Table.from_arrow(*census(data_dir))


@pytest.fixture(scope="module")
def truth(people: Table) -> Itemsets:
    return frequent_itemsets(Exact(people), frapp.MIN_SUPPORT)


def det_gd_errors(people: Table, truth: Itemsets, versions: int) -> np.ndarray:
    mechanism = GammaDiagonal.promising(Guarantee(19), people.domain)
    runs = [frapp.mechanism_errors(people, truth, mechanism, seed, versions) for seed in SEEDS]
    return np.mean(
        [[run[length].support_error or 0.0 for length in truth.by_length()] for run in runs], axis=0
    )


def assert_as_known(errors: np.ndarray) -> None:
    np.testing.assert_array_less(
        np.abs(errors - MEANS), 5.2 * SPREAD * np.sqrt(1 / len(SEEDS) + 1 / 40)
    )


def test_det_gd_with_50_versions(people: Table, truth: Itemsets) -> None:
    errors = det_gd_errors(people, truth, frapp.VERSIONS)
    assert_as_known(errors)
    np.testing.assert_array_less(
        np.abs(errors - MEASURED), 5.2 * SPREAD * np.sqrt(1 / len(SEEDS) + 1)
    )


def test_a_fifth_of_the_versions_is_seen(people: Table, truth: Itemsets) -> None:
    with pytest.raises(AssertionError):
        assert_as_known(det_gd_errors(people, truth, frapp.VERSIONS // 5))


def test_one_version_is_useless(people: Table, truth: Itemsets) -> None:
    assert det_gd_errors(people, truth, 1)[:3].min() > 50


def test_table_3(data_dir: Path) -> None:
    found = frapp.table_3(Settings(data_dir))
    ours = [int(cell.value or 0) for cell in found.column("frequent itemsets")]
    assert ours[:6] == [19, 102, 204, 164, 64, 9]
    assert ours[6:12] == [19, 102, 203, 166, 63, 9]
    assert not any(cell.differs for cell in found.column("frequent itemsets")[12:])


def test_figure_2_by_its_words(data_dir: Path) -> None:
    found = frapp.errors_figure("frapp-figure-2", Settings(data_dir, quick=True))
    rows = {row.labels: row.cells for row in found.rows}
    assert rows["C&P", 4][2].paper == rows["C&P", 4][2].value == 100
    assert rows["MASK", 6][2].paper == rows["MASK", 6][2].value == 100
    assert rows["DET-GD", 5][2].paper is None
    assert (rows["MASK", 1][1].value or 0) < (rows["DET-GD", 1][1].value or 0)
    assert (rows["MASK", 4][1].value or 0) > 10 * (rows["DET-GD", 4][1].value or 0)
    assert any("epsilon" in note for note in found.notes)


def test_figure_6(data_dir: Path) -> None:
    found = frapp.figure_6(Settings(data_dir, quick=True))
    low, high = found.column("least posterior (%)"), found.column("largest posterior (%)")
    assert [round(cell.value or 0, 1) for cell in low[:5]] == [50.0, 42.8, 33.2, 19.9, 0.0]
    assert round(high[2].value or 0, 1) == 60.1
    assert not any(cell.differs for cell in [*low, *high])
    assert [row.labels[0] for row in found.rows] == ["CENSUS"] * 5 + ["HEALTH"] * 5


def test_figure_1_by_its_words() -> None:
    found = {row.labels: row.cells[0].value or 0 for row in frapp.figure_1().rows}
    assert found["whole record", 50] < 0.1 and 0.23 < found["whole record", 100] < 0.25
    for values in (2, 4, 8):
        assert 0.4 < found[f"attribute of {values} values", 100] < 0.6


def test_figure_3_is_told_to_be_a_stand_in(data_dir: Path) -> None:
    found = frapp.errors_figure("frapp-figure-3", Settings(data_dir, quick=True))
    rows = {row.labels: row.cells for row in found.rows}
    assert rows["C&P", 4][2].value == 100
    assert (rows["MASK", 4][1].value or math.inf) > 5 * (rows["DET-GD", 4][1].value or 0)
    assert any("not published" in note for note in found.notes)


def test_figure_7() -> None:
    rows = {row.labels: row.cells[0].value or 0 for row in frapp.figure_7().rows}
    assert {round(rows["CENSUS", "DET-GD, RAN-GD", length], 1) for length in range(1, 7)} == {112.1}
    assert round(rows["HEALTH", "DET-GD, RAN-GD", 7], 1) == 417.7
    assert round(rows["CENSUS", "MASK", 6], -4) == 300_000
    assert np.isinf(rows["CENSUS", "C&P", 4])
