"""`sfumato reproduce` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from papers.base import Settings
from sfumato.cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_no_name_lists_the_names() -> None:
    assert "mask-table-7" in run().output and run().exit_code == 0
    papers = json.loads(run("--json").output)["papers"]
    assert {paper["name"] for paper in papers} >= {"mask", "frapp", "fp-nfp", "li-sarkar"}


def test_text_json_and_page(tmp_path: Path) -> None:
    result = run("frapp-figure-7", "li-sarkar-example", "--plot", tmp_path / "page.html")
    assert result.exit_code == 0 and "112.1" in result.output and "4.0718" in result.output
    assert "FRAPP figure 7" in (tmp_path / "page.html").read_text(encoding="utf-8")
    found = json.loads(run("frapp-figure-7", "--json").output)["reproductions"]
    assert found[0]["rows"][0] == {
        "data": "CENSUS",
        "mechanism": "DET-GD, RAN-GD",
        "length": 1,
        "condition number": {
            "paper": None,
            "printed": None,
            "ours": 112.11111111111111,
            "differs": False,
        },
    }


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("kept")
    for arguments, words in (
        (("mask-table-99",), "nothing called 'mask-table-99'"),
        (("frapp-figure-7", "--plot", tmp_path / "page.html"), "exists"),
        (("frapp-figure-7", "--plot", "page.txt"), "end it in .html"),
        (("frapp-figure-7", "--seeds", 0), "--seeds 0; a"),
        (("mask-table-7", "--data", tmp_path), "no file 'bms-webview-1.dat.gz'"),
    ):
        result = run(*arguments)
        assert (
            result.exit_code == 2 and words in result.output and result.output.count("\n") == 1
        ), result.output
    assert (tmp_path / "page.html").read_text() == "kept"


def test_progress_goes_from_part_to_part_and_seed_to_seed() -> None:
    shares: list[float] = []
    settings = Settings(seeds=4, tell=shares.append)
    assert list(settings.runs) == [1, 2, 3, 4] and shares == [0, 0.25, 0.5, 0.75]
    assert len(settings.runs) == 4 and settings.runs[0] == 1 and settings.counted == "4 seeds"
    assert list(Settings(seeds=2).runs) == [1, 2]


def test_a_pipe_may_say_how_wide_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = []
    for width in ("60", "100"):
        monkeypatch.setenv("COLUMNS", width)
        longest.append(max(map(len, run("frapp-figure-7").output.splitlines())))
    assert longest[0] <= 60 < longest[1] <= 100
