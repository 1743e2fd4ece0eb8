"""The papers' figures as pages: a table replaces its own section, and every kept one is linked."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs_build.papers import FIGURES, keep, sections_of, small_svg, verdicts
from papers.base import LENGTH, Cell, Printed, Reproduction, Row, Runs
from sfumato.renderers.picture import draw, figure_of
from sfumato.view import Chart, Panel, Series


def found(name: str, ours: float) -> Reproduction:
    """A table of one line."""
    runs = Runs(tuple(ours + step for step in (0.0, 0.1) * 6))
    row = Row((1,), (Cell(Printed("5.10"), runs),))
    return Reproduction(name, f"Table {name}", (LENGTH,), ("error (%)",), (row,), ("a note",))


def test_a_table_takes_the_place_of_its_own_section(tmp_path: Path) -> None:
    for name, ours in (("mask-table-3", 5.0), ("mask-table-2", 5.0), ("mask-table-3", 9.0)):
        keep(found(name, ours), "mask", 12, tmp_path)
    kept = sections_of((tmp_path / "mask.md").read_text(encoding="utf-8"))
    assert list(kept) == ["mask-table-2", "mask-table-3"]
    assert "| 1 | 5.10 | 5.050 ± 0.052 |" in kept["mask-table-2"]
    assert "within error" in kept["mask-table-2"] and "misses 1 of 1" in kept["mask-table-3"]
    assert (tmp_path / "mask-table-3.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_a_small_picture_keeps_its_words_and_cuts_bars_at_its_edge() -> None:
    pytest.importorskip("matplotlib")
    line = Series("support 0.01", [0.125, 0.5], [0.1, 0.1])
    other = Series("support 0.1", [0.25, 0.5], [0.1, 0.1])
    panel = Panel("lines", [1, 2], [line, other], quantity="share", across="p")
    text = small_svg(figure_of(draw(Chart(panel))))
    assert ">support 0.01<" in text and ">support 0.1<" in text
    assert "clip-path=" in text
    assert len(text) < 11_000  # 11,600 where places are not rounded


def test_every_kept_table_is_listed_with_its_verdict_and_has_its_picture() -> None:
    listed = verdicts()
    pages = [page.read_text(encoding="utf-8") for page in FIGURES.glob("*.md")]
    kept = [name for page in pages for name in sections_of(page)]
    assert len(kept) > 30 and all(f"#{name})" in listed for name in kept)
    drawn = {picture.stem for picture in FIGURES.glob("*.svg")}
    assert drawn == {name for name in kept if any(f"({name}.svg)" in page for page in pages)}
