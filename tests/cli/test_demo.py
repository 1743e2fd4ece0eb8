"""The demonstration: what it prints, what it writes, and that its intervals are honest."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from sfumato.cli import app


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(
        app, ["demo", "-o", str(folder / "new" / "folder"), "--rows", "20000", "--seed", "1"]
    )
    assert result.exit_code == 0, result.output
    return result.stdout, (folder / "new" / "folder" / "report.html").read_text()


def test_what_was_promised_and_what_was_found(shown):
    text = " ".join(shown[0].split())
    assert (
        "gamma 19 (epsilon 2.945): someone who believed 5 % before sees at most 50 % after" in text
    )
    assert "a seed: an experiment, not private" in text
    assert "of 11 intervals at the 95 % level hold the truth" in text
    assert "How many smokers have diabetes?" in text and "smoker=no diabetes=no" in text


def test_the_report_holds_the_same_and_a_picture(shown):
    page = shown[1]
    assert "What was recovered" in page and "reconstructed" in page
    assert "<img " in page and "http://" not in page.replace("http://www.w3.org", "")


def test_the_report_says_where_it_comes_from(shown):
    _, _, end = shown[1].partition("Where this comes from")
    for told in ("synthetic", "20,000", "gamma-diagonal", "gamma 19", "Sfumato 0.", "seeded"):
        assert told in end


def test_json(tmp_path):
    result = CliRunner().invoke(
        app, ["demo", "-o", str(tmp_path), "--rows", "20000", "--seed", "1", "--json"]
    )
    found = json.loads(result.stdout)
    assert found["gamma"] == 19.0 and found["secure"] is False and len(found["marginals"]) == 11
    # Eleven estimates of one release: none is five standard errors off but once in a million seeds.
    assert all(
        abs(cell["estimate"] - cell["truth"]) < 5 * cell["stderr"] for cell in found["marginals"]
    )
    assert sum(cell["truth"] for cell in found["marginals"] if cell["attribute"] == "sex") == 20000


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "there").write_text("")
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "there"), "--rows", "100"])
    assert result.exit_code == 2 and "cannot make the folder" in result.stderr
