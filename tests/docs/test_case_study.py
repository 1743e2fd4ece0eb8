"""The case study says what its blocks are, and its figures are those of the public file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from docs_build.blocks import blocks
from docs_build.case_study import PAGE, SOURCE, bare, printouts, renamed, unprinted
from sfumato.cli.commands import COMMANDS

LINE = re.compile(r"^(under 20k|20k-50k|50k\+) +(no|yes) +([\d,]+) (?:± ([\d,]+)|exact)", re.M)


def test_the_page_has_the_words_and_blocks_of_its_source() -> None:
    assert bare(PAGE.read_text(encoding="utf-8")) == unprinted()


def test_a_word_that_was_typed_into_the_page_would_be_seen() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert bare(page.replace("one report a person", "two reports a person", 1)) != unprinted()


def test_the_build_does_not_run_its_blocks() -> None:
    assert blocks(PAGE.read_text(encoding="utf-8")) == []
    assert renamed("```sh lines=2\nls\n```") == "```bash lines=2\nls\n```"


def test_its_commands_exist() -> None:
    asked = re.findall(r"^sfumato (\w+)", SOURCE.read_text(encoding="utf-8"), re.M)
    assert len(asked) > 8 and set(asked) <= set(COMMANDS)


def counts(printed: str) -> tuple[list[float], list[float]]:
    """The counts of income and diabetes that were printed, and their errors (0 where exact)."""
    found = LINE.findall(printed)
    assert len(found) == 6
    value, error = (
        [float((line[part] or "0").replace(",", "")) for line in found] for part in (2, 3)
    )
    return value, error


def test_its_figures_are_those_of_the_file(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (data_dir / "health.csv.gz").exists():
        pytest.skip("health.csv.gz is not among the shared data sets")
    pytest.importorskip("pandas")
    monkeypatch.setenv("SFUMATO_DATA", str(data_dir))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(SOURCE.read_text(encoding="utf-8"))[:2]:  # the people and the schema
        exec(block.text, names)
    printed = [text for text in printouts(PAGE.read_text(encoding="utf-8")) if LINE.search(text)]
    (found, errors), (true, _) = map(counts, printed)

    people = sf.read("people.csv", sf.Domain.load("health.toml"))
    assert [*sf.Exact(people).marginal(["income", "diabetes"]).value.ravel()] == true
    other = sf.perturb(people, gamma=19, target="diabetes", rng=sf.seeded(7))
    again = other.marginal(["income", "diabetes"]).to_pandas()
    np.testing.assert_allclose(again["count_stderr"], errors, rtol=0.05)
    apart = (again["count"] - found) / np.hypot(again["count_stderr"], errors)
    assert abs(apart).max() < 5.5  # by chance once in four million
    assert max(abs(np.subtract(found, true)) / errors) < 5.5


def test_the_letters_of_its_picture_can_be_seen() -> None:
    """Rounded to tenths, as places are, the scale of letters that are drawn as paths was nought."""
    picture = PAGE.with_name("case-study-shares.svg").read_text(encoding="utf-8")
    scales = [float(scale) for scale in re.findall(r"scale\(([\d.]+)", picture)]
    assert scales and min(scales) > 0
