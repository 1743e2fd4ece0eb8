"""Folders of Parquet parts, as Spark writes them: read as one table, in the order of the parts."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.domain import Category, Domain
from sfumato.errors import FileError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.privacy.guarantee import Guarantee
from sfumato.table import Provenance, read, read_perturbed

PETS = Domain((Category("pet", ("cat", "dog", "eel")),))


@pytest.fixture
def folder(tmp_path):
    for place, names in enumerate((["cat", "dog"], ["eel"])):
        pq.write_table(pa.table({"pet": names}), tmp_path / f"part-{place}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.parquet.crc").write_bytes(b"crc")
    (tmp_path / "_draft.parquet").write_bytes(b"no Parquet")
    return tmp_path


def describe(folder, rows: int) -> None:
    provenance = Provenance(GammaDiagonal.promising(Guarantee(19), PETS), True)
    (folder / "_sfumato.json").write_text(json.dumps({**provenance.describe(), "rows": rows}))


def test_the_parts_are_one_table(folder):
    table = read(folder, PETS)
    assert table.provenance is None and table.column("pet").tolist() == [0, 1, 2]


def test_the_description_makes_it_a_release(folder):
    describe(folder, 3)
    table = read_perturbed(folder)
    assert table.secure and table.rows == 3 and table.mechanism.name == "gamma-diagonal"


def test_a_part_too_many_is_noticed(folder):
    describe(folder, 3)
    pq.write_table(pa.table({"pet": ["eel"]}), folder / "part-2.parquet")
    with pytest.raises(FileError, match="has 4 rows, but its description speaks of 3"):
        read_perturbed(folder)


def test_a_folder_without_parts_is_no_table(tmp_path):
    with pytest.raises(FileError, match=r"holds no \.parquet parts"):
        read(tmp_path)
