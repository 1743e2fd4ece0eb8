"""`sfumato regress` and `sfumato compare` as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli import app


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("regress")
    run("generate", "survey", "--rows", 8000, "--seed", 1, "-o", folder / "people.csv")
    run("schema", folder / "people.csv", "-o", folder / "schema.toml")
    blur = ("perturb", folder / "people.csv", "--schema", folder / "schema.toml", "--seed", 3)
    run(*blur, "--mechanism", "retention", "--keep", 0.8, "-o", folder / "release.parquet")
    return folder


def test_a_regression_is_printed_drawn_and_handed_on(folder: Path) -> None:
    ask = ("regress", folder / "release.parquet", "diabetes ~ sex + exercise")
    output = run(*ask, "--reference", "exercise=none", "--plot", folder / "forest.svg")
    assert "odds ratio" in output and "computed from  reports" in output
    assert (folder / "forest.svg").read_text().startswith("<?xml")
    said = json.loads(run(*ask, "--json", "--rows-fixed", "--level", 0.9).splitlines()[-1])
    assert said["family"] == "logit" and said["level"] == 0.9 and said["sampling"] is False
    assert [each["term"] for each in said["terms"]] == ["sex", "exercise"]


def test_true_records_are_read_too(folder: Path) -> None:
    said = run("regress", folder / "people.csv", "diabetes ~ sex", "--json").splitlines()[-1]
    assert json.loads(said)["from"] == "true records"


def test_groups_are_compared(folder: Path) -> None:
    ask = ("compare", folder / "release.parquet", "--by", "exercise", "--of", "smoker")
    output = run(*ask, "--power", "3%", "--plot", folder / "groups.svg")
    assert "Cramér's V" in output and "a difference of 3 points" in output
    said = json.loads(run(*ask, "--json").splitlines()[-1])
    assert said["independence"]["df"] == 2 and len(said["differences"]) == 3


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("regress", "diabetes ~ sexx"), "did you mean 'sex'"),
        (("regress", "exercise ~ sex"), "is no yes/no"),
        (("regress", "diabetes ~ sex", "--reference", "sex"), "names no column and value"),
        (("regress", "diabetes ~ sex", "--level", "2"), "between 0 and 1"),
        (("regress", "diabetes ~ sex", "--family", "probit"), "no family"),
        (("compare", "--by", "sexx", "--of", "smoker"), "did you mean 'sex'"),
        (("compare", "--by", "sex", "--of", "smoker", "--power", "much"), "is no difference"),
        (("compare", "--by", "sex", "--of", "smoker", "--power", "3"), "three points as 3%"),
        (("compare", "--by", "sex", "--of", "smoker", "--level", "1"), "between 0 and 1"),
    ],
)
def test_bad_input_is_one_line(folder: Path, words: tuple[str, ...], found: str) -> None:
    output = run(words[0], folder / "release.parquet", *words[1:], code=2)
    assert found in " ".join(output.split()) and "Traceback" not in output
