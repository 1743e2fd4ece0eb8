"""Every name leads to a module that can answer for it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from papers.base import Settings
from papers.registry import PAPERS, parts_of, reproduce
from sfumato.errors import ParameterError

NAMES = [part for paper in PAPERS.values() for part in paper.parts]


def test_a_paper_stands_for_its_tables_and_all_for_every_paper() -> None:
    assert parts_of(["fp-nfp"]) == {"fp-nfp": list(PAPERS["fp-nfp"].parts)}
    assert [part for parts in parts_of(["all"]).values() for part in parts] == NAMES
    assert parts_of(["mask-table-7", "frapp-table-3", "mask-table-7"]) == {
        "mask": ["mask-table-7"],
        "frapp": ["frapp-table-3"],
    }


def test_an_unknown_name_is_told_its_neighbour() -> None:
    with pytest.raises(ParameterError, match="did you mean 'mask-table-7'"):
        parts_of(["mask-table7"])


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_has_its_module(paper: str) -> None:
    assert callable(import_module(f"papers.{PAPERS[paper].module}").reproduce)


SLOW = {
    "frapp-table-3",
    "fp-nfp-table-2",
    "fp-nfp-table-5",
    "fp-nfp-table-6",
    "li-sarkar-table-4",
}  # larger files or trees


@pytest.mark.parametrize("paper", PAPERS)
def test_a_quick_run_of_a_paper(paper: str, data_dir: Path) -> None:
    names = [name for name in PAPERS[paper].parts if name not in SLOW]
    done = list(reproduce(names, Settings(data_dir, quick=True)))
    assert sorted(one.name for one in done) == sorted(names)
    for one in done:
        assert one.rows and one.notes and one.to_text().startswith(one.title)
        assert one.to_dict()["name"] == one.name
