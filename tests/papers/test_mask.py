"""MASK's tables: the numbers that must be met, and that a channel taken 5 % wrong is seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from papers import mask
from papers.base import Settings
from sfumato.evaluate import itemset_errors
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mine.itemsets import Itemsets, frequent_itemsets
from sfumato.randomness import seeded
from sfumato.release import Exact, Release, perturb
from sfumato.table import Table

SEEDS = range(1, 5)
SUPPORT_ERRORS = np.array([6.24, 4.29, 2.73, 2.52])
SPREAD = np.array([0.41, 0.24, 0.28, 1.1])  # of one run, over 40 seeds


@pytest.fixture(scope="module")
def visits(data_dir: Path) -> Table:
    return mask.repeated_visits(data_dir, mask.REPEATS)


@pytest.fixture(scope="module")
def truth(visits: Table) -> Itemsets:
    return frequent_itemsets(Exact(visits), min_count=mask.minimum_count(visits.rows, 0.25))


def support_errors(release: Release, truth: Itemsets) -> list[float]:
    found = frequent_itemsets(
        release, min_count=mask.minimum_count(release.rows, 0.25), prune_errors=0, max_length=4
    )
    return [errors.support_error or 0.0 for errors in itemset_errors(found, truth)]


def assert_as_in_theory(means: np.ndarray) -> None:
    # Five standard errors of a mean over our seeds, and of one over ten measured before.
    np.testing.assert_array_less(
        np.abs(means - SUPPORT_ERRORS), 5 * SPREAD * np.sqrt(1 / len(SEEDS) + 1 / 10)
    )


def test_the_frequent_itemsets_of_table_7(truth: Itemsets) -> None:
    assert truth.by_length() == {1: 249, 2: 239, 3: 73, 4: 4}


def test_the_support_errors_of_table_7(visits: Table, truth: Itemsets) -> None:
    releases = (perturb(visits, BitFlip(visits.domain, 0.9, 0.9), seeded(seed)) for seed in SEEDS)
    assert_as_in_theory(np.mean([support_errors(release, truth) for release in releases], axis=0))


def test_a_keep_five_per_cent_off_is_rejected(visits: Table, truth: Itemsets) -> None:
    release = perturb(visits, BitFlip(visits.domain, 0.9 * 1.05, 0.9 * 1.05), seeded(1))
    provenance = replace(release.provenance, mechanism=BitFlip(visits.domain, 0.9, 0.9))
    mistaken = Release.of(replace(release.table, provenance=provenance))
    with pytest.raises(AssertionError):
        assert_as_in_theory(np.array(support_errors(mistaken, truth)))


def test_the_minimum_count_is_cut_off() -> None:
    assert (
        mask.minimum_count(59_602, 0.25),
        mask.minimum_count(59_602, 0.5),
        mask.minimum_count(10**6, 0.25),
    ) == (
        149,
        298,
        2500,
    )


def test_a_quick_table(data_dir: Path) -> None:
    tables = list(mask.reproduce(["mask-table-8", "mask-table-9"], Settings(data_dir, quick=True)))
    relaxed, strict = tables
    assert [row.labels for row in relaxed.rows] == [(1,), (2,)]
    assert [cell.paper for cell in relaxed.column("σ+ (%)")] == [0.40, 23.43]
    assert [cell.value for cell in strict.column("|F|")] == [150, 45]
    assert "privacy of ones by eq. 1: 89 % in §6.2, 88.5 % here" in strict.notes
