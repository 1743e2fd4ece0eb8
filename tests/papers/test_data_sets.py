"""The public data sets: the marginals that the data's README states and the frequent itemsets that
the papers count.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from papers.data_sets import (
    basket_path,
    census,
    data_directory,
    health,
    salary,
    salary_split,
)
from sfumato.datasets import Records
from sfumato.domain import Numeric
from sfumato.errors import FileError, ParameterError


def marginal(records: Records, name: str, cuts: tuple[float, ...] | None = None) -> list[int]:
    attribute = records.domain[name]
    codes = attribute.encode(records.table[name])
    if isinstance(attribute, Numeric):
        cells = attribute.cells_by_cuts(cuts or attribute.cuts)
        return np.bincount(cells.assign(codes), minlength=cells.size).tolist()
    return np.bincount(codes, minlength=attribute.size).tolist()


def binned(records: Records) -> list[np.ndarray]:
    return [
        attribute.encode(records.table[attribute.name].combine_chunks())
        for attribute in records.domain.binned()
    ]


def frequent_by_length(records: Records, least: float) -> list[int]:
    columns, shape = binned(records), records.domain.binned().shape
    lengths = [0] * len(shape)
    for length in range(1, len(shape) + 1):
        for axes in combinations(range(len(shape)), length):
            keys = np.ravel_multi_index([columns[a] for a in axes], [shape[a] for a in axes])
            lengths[length - 1] += int((np.bincount(keys) >= least).sum())
    return lengths


def occupied(columns: list[np.ndarray], shape: tuple[int, ...]) -> int:
    return len(np.unique(np.ravel_multi_index(columns, shape)))


def test_census_has_the_papers_cells_and_itemsets(data_dir: Path) -> None:
    records = census(data_dir)
    assert records.table.num_rows == 48_842
    assert records.domain.binned().cells == 2_000
    assert frequent_by_length(records, 0.02 * 48_842) == [19, 102, 204, 164, 64, 9]
    assert marginal(records, "native_country") == [43_832, 5_010]
    assert marginal(records, "sex") == [16_192, 32_650]


def test_census_cut_after_each_bound_has_the_marginals_of_the_data_readme(data_dir: Path) -> None:
    """The README closes intervals on the right (cut *after* 35): the same as cutting whole numbers
    one higher.
    """
    records = census(data_dir)
    assert marginal(records, "age", (36, 56, 76)) == [22_346, 20_248, 5_875, 373]
    weights = (100_001, 200_001, 300_001, 400_001)
    assert marginal(records, "fnlwgt", weights) == [8_560, 21_720, 11_926, 4_748, 1_888]
    assert marginal(records, "hours_per_week", (21, 41, 61, 81)) == [
        4_453,
        30_037,
        12_676,
        1_358,
        318,
    ]


def test_health_has_the_marginals_of_the_data_readme(data_dir: Path) -> None:
    records = health(data_dir)
    assert records.table.num_rows == 253_680
    assert records.domain.binned().cells == 7_500
    assert {name: marginal(records, name) for name in records.domain.names} == {
        "age": [5_700, 32_544, 93_122, 104_951, 17_363],
        "physical_days": [160_052, 48_141, 14_414, 11_673, 19_400],
        "mental_days": [175_680, 42_780, 11_850, 11_282, 12_088],
        "access": [12_417, 16_775, 224_488],
        "sex": [141_974, 111_706],
        "income": [37_588, 216_092],
        "health": [45_299, 89_084, 75_646, 31_570, 12_081],
    }
    assert occupied(binned(records), records.domain.binned().shape) == 4_972


def test_salary_has_the_papers_attributes_and_the_published_split(data_dir: Path) -> None:
    records = salary(data_dir)
    train, test = salary_split(data_dir)
    assert records.domain.binned().shape == (2, 4, 8, 5, 2)
    assert records.table.num_rows == 48_842 - 2_799 == train.table.num_rows + test.table.num_rows
    assert sum(marginal(records, "workclass")) == records.table.num_rows
    assert marginal(records, "income") == [
        a + b for a, b in zip(marginal(train, "income"), marginal(test, "income"), strict=True)
    ]


def test_basket_files_are_found(data_dir: Path) -> None:
    assert basket_path("bms-webview-1", data_dir).name == "bms-webview-1.dat.gz"


def test_unknown_basket_data_set_shows_the_near_miss() -> None:
    with pytest.raises(ParameterError, match="did you mean 'retail'"):
        basket_path("retial")


def test_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no file 'adult.csv.gz' in .*; set SFUMATO_DATA"):
        census(tmp_path)


def test_broken_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "adult.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(FileError, match=r"cannot read .*adult.csv.gz"):
        census(tmp_path)


def test_directory_comes_from_argument_then_environment_then_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SFUMATO_DATA", "elsewhere")
    assert data_directory("here") == Path("here")
    assert data_directory() == Path("elsewhere")
    monkeypatch.delenv("SFUMATO_DATA")
    assert data_directory() == Path("..", "shared", "data")
