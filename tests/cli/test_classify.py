"""`sfumato classify` as a person calls it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.mine.quality import Quality


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    run("generate", "survey", "--rows", 8000, "--seed", 1, "-o", folder / "train.csv")
    run("generate", "survey", "--rows", 2000, "--seed", 2, "-o", folder / "test.csv")
    run("schema", folder / "train.csv", "-o", folder / "schema.toml")
    perturb = (
        "perturb",
        folder / "train.csv",
        "--schema",
        folder / "schema.toml",
        "--mechanism",
        "retention",
        "--seed",
        3,
    )
    run(*perturb, "--keep", 0.8, "-o", folder / "release.parquet")
    run(*perturb, "--keep", 0.01, "-o", folder / "noise.parquet")
    return folder


def test_a_tree_and_how_good_it_is(folder):
    output = run(
        "classify",
        folder / "release.parquet",
        "--target",
        "income",
        "--test",
        folder / "test.csv",
        "--truth",
        folder / "train.csv",
        "--json",
    )
    result = json.loads(output[output.index("{") :].splitlines()[0])
    assert (result["target"], result["rows"], result["records"]) == ("income", 8000, 2000)
    assert result["accuracy"] >= result["baseline"]["accuracy"] - 0.02 and result["auc"] > 0.55
    assert len(result["confusion"]) == len(result["classes"]) == 3
    assert result["truth"]["auc"] >= result["auc"] - 0.03
    assert 0.3 < result["agreement"]["same_label"] <= 1
    assert result["tree"].count("\n") >= 1 and "<" in result["tree"]


def test_words_for_people(folder):
    output = run(
        "classify",
        folder / "release.parquet",
        "--target",
        "income",
        "--test",
        folder / "test.csv",
        "--truth",
        folder / "train.csv",
    )
    for words in (
        "judged on the test records",
        "from the truth",
        "balanced",
        "same label",
        "truth \\ predicted",
        "% of",
    ):
        assert words in output


def test_without_test_records_it_says_that_it_flatters_itself(folder):
    assert "which flatters it" in run("classify", folder / "release.parquet", "--target", "income")
    assert "nothing to judge" in run(
        "classify", folder / "release.parquet", "--target", "income", "--model", "bayes"
    )


def test_any_engine_counts_the_same_tree(folder):
    asked = ("classify", folder / "release.parquet", "--target", "diabetes", "--json")
    trees = [
        json.loads(run(*asked, *engine).splitlines()[0])["tree"]
        for engine in ((), ("--engine", "duckdb"))
    ]
    assert trees[0] == trees[1] and "\n" in trees[0]


def test_bayes(folder):
    output = run(
        "classify",
        folder / "train.csv",
        "--target",
        "income",
        "--model",
        "bayes",
        "--test",
        folder / "test.csv",
        "--json",
    )
    result = json.loads(output.splitlines()[0])
    assert result["auc"] > 0.6 and result["tree"] is None


def test_a_tree_that_finds_nothing_says_so(folder):
    output = run("classify", folder / "noise.parquet", "--target", "sex")
    assert "no split is significant in 8,000 rows" in output


@pytest.mark.parametrize("form", ["png", "svg", "html"])
def test_the_tree_as_a_picture(folder, tmp_path, form):
    run(
        "classify",
        folder / "release.parquet",
        "--target",
        "income",
        "--plot",
        tmp_path / f"tree.{form}",
    )
    assert (tmp_path / f"tree.{form}").stat().st_size > 2000
    if form == "html":  # and how many of each class were taken for which
        assert "truth \\ predicted</th>" in (tmp_path / "tree.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "incom"), "did you mean 'income'"),
        (("--target", "income", "--model", "tre"), "did you mean 'tree'"),
        (("--target", "income", "--criterion", "gina"), "did you mean 'gini'"),
        (("--target", "income", "--features", "agee"), "did you mean 'age'"),
        (("--target", "income", "--model", "bayes", "--plot", "x.png"), "draws a tree"),
        (("--target", "income", "--max-depth", "0"), "use max_depth >= 1"),
    ],
)
def test_bad_usage_is_one_line(folder, arguments, message):
    output = run("classify", folder / "release.parquet", *arguments, code=2)
    assert message in output and "Traceback" not in output


def test_unseen_values_in_test_records_are_named(folder, tmp_path):
    lines = (folder / "test.csv").read_text().splitlines()
    strange = lines[1].replace("female", "femal").replace(",male", ",femal")
    (tmp_path / "strange.csv").write_text("\n".join([lines[0], strange]) + "\n")
    output = run(
        "classify",
        folder / "release.parquet",
        "--target",
        "income",
        "--test",
        tmp_path / "strange.csv",
        code=2,
    )
    assert "column 'sex': 'femal' is not one of its values" in output


@pytest.mark.parametrize(
    ("predicted", "words"),
    [
        ([0] * 100, "it is not better than always saying 'no'"),
        ([0] * 98 + [1] * 2, "it is not surely better than always saying 'no'"),
        ([0] * 70 + [1] * 30, None),
    ],
)
def test_a_classifier_no_better_than_the_majority_says_so(predicted, words):
    truth = np.array([0] * 70 + [1] * 30)
    found = Quality(("no", "yes"), truth, np.array(predicted), np.full((100, 2), 0.5))
    said = found.verdict
    assert (words is None and said == ()) or (words in said[0] and "(0.7000)" in said[0])
