"""`sfumato fit`, and a model where the other commands take a release."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.domain import Category, Domain, Numeric
from sfumato.table import Table, save

DOMAIN = Domain(
    (
        Category("smoker", ("no", "yes")),
        Category("pet", ("cat", "dog", "eel")),
        Numeric("age", 0, 99, cuts=(25, 50, 75)),
        Category("ill", ("no", "yes")),
    )
)


def run(line: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command line."""
    found = CliRunner().invoke(app, shlex.split(line))
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("fit")
    DOMAIN.save(found / "people.toml")
    rng = np.random.default_rng(2)
    smoker = rng.integers(0, 2, 20_000)
    ill = (rng.random(20_000) < 0.1 + 0.4 * smoker).astype(np.uint8)
    columns = (
        smoker.astype(np.uint8),
        rng.integers(0, 3, 20_000).astype(np.uint8),
        rng.integers(0, 100, 20_000).astype(np.uint8),
        ill,
    )
    save(Table(DOMAIN, columns), found / "people.csv")
    return found


def result(line: str) -> dict:
    code, out, err = run(f"{line} --json")
    assert code == 0, err
    return json.loads(out)


def test_a_release_is_fitted_and_its_model_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    made = result("perturb people.csv --schema people.toml --gamma 19 -o r.parquet --seed 1")
    assert made["mechanism"] == "questionnaire" and made["condition"] is None
    assert sum(question["share"] for question in made["questions"]) == pytest.approx(1)
    fitted = result("fit r.parquet -o m.json")
    assert fitted["rows"] == 20_000 and fitted["order"] == 3
    assert result("describe m.json")["fitted_to"]["mechanism"] == "questionnaire"
    where = "smoker='yes' AND ill='yes' AND pet='cat' AND age < 50"
    sql = f'"SELECT COUNT(*) AS n FROM t WHERE {where}"'
    for file in ("m.json", "r.parquet --fit"):
        parts = file.split()
        answer = result(f"query {parts[0]} {sql} {' '.join(parts[1:])}")["rows"][0]["n"]
        assert answer["assumes"] == "no interaction of more than 3 columns"
        assert abs(answer["value"] - 20_000 * 0.5 * 0.5 / 3 * 0.5) < 6 * answer["stderr"]
    mined = result("mine m.json --min-support 0.03")
    assert max(itemset["length"] for itemset in mined["itemsets"]) == 4
    compared = result("mine m.json --min-support 0.05 --truth people.csv")
    assert compared["errors"][1]["support_error"] < 20
    assert result("classify m.json --target ill --test people.csv")["auc"] > 0.6
    drawn = result("generate fitted m.json --rows 20000 -o drawn.csv --seed 2")
    assert drawn["rows"] == 20_000 and "smoker" in drawn["columns"]
    both = "\"SELECT COUNT(*) AS n FROM t WHERE smoker = 'yes' AND ill = 'yes'\""
    synthetic = result(f"query drawn.csv {both}")["rows"][0]["n"]
    read = result(f"query drawn.csv {both} --schema people.toml")["rows"][0]["n"]
    assert read == synthetic  # the schema of the true records reads the synthetic ones
    old = '"SELECT COUNT(*) AS n, AVG(age) AS mean FROM t WHERE age >= 75"'
    older = result(f"query drawn.csv {old} --schema people.toml")["rows"][0]
    foretold = result('query m.json "SELECT COUNT(*) AS n FROM t WHERE age >= 75"')["rows"][0]["n"]
    assert abs(older["n"]["value"] - foretold["value"]) < 5 * (20_000 * 0.25) ** 0.5
    assert abs(older["mean"]["value"] - (75 + 99) / 2) < 1  # evenly within the bin
    model = result(f"query m.json {both}")["rows"][0]["n"]
    assert abs(synthetic["value"] - model["value"]) < 5 * (20_000 * 0.25) ** 0.5
    plain = result("mine r.parquet --min-support 0.03")
    assert max(itemset["length"] for itemset in plain["itemsets"]) == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fit people.csv -o x.json", "carries no mechanism"),
        ("generate fitted people.csv -o x.csv", "is no model"),
        ("fit r.parquet -o m.json", "exists"),
        ("fit r.parquet -o y.json --order 5", "use 2 or 3"),
        ('query m.json "SELECT COUNT(*) FROM t WHERE age < 40"', "its cuts are 25, 50, 75"),
        ('query m.json "SELECT AVG(age) FROM t"', "known in bins"),
        (
            'query r.parquet "SELECT smoker, pet, age, ill, COUNT(*) FROM t GROUP BY 1, 2, 3, 4"',
            "fit a model",
        ),
        (
            "perturb people.csv --schema people.toml --gamma 19 --questions pairs:0.5 -o z.parquet",
            "sum to 0.5",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.chdir(folder)
    if not (folder / "m.json").exists():
        result("perturb people.csv --schema people.toml --gamma 19 -o r.parquet --seed 1")
        result("fit r.parquet -o m.json")
    code, _, err = run(line)
    assert code == 2 and said in err and len(err.strip().splitlines()) == 1, err


def test_questions_are_named_and_what_is_left_out_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    common = "perturb people.csv --schema people.toml --gamma 19 --seed 1 --force -o n.parquet"
    code, out, err = run(f"{common} --questions smoker+ill:0.6,singles:0.4 --json")
    assert code == 0, err
    shares = {tuple(q["columns"]): q["share"] for q in json.loads(out)["questions"]}
    assert shares["smoker", "ill"] == pytest.approx(0.6) and len(shares) == 5
    Domain(DOMAIN.attributes[:2]).save(folder / "two.toml")
    code, _, err = run(
        "perturb people.csv --schema two.toml --gamma 19 --seed 1 --force -o n.parquet "
        "--questions singles:0.1,pairs:0.5,triples:0.4"
    )
    assert code == 0 and "triples were left out and the other shares rescaled" in err


def test_what_is_asked_is_said_in_words_and_what_pairs_alone_cannot_tell(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    common = "perturb people.csv --schema people.toml --gamma 19 --seed 1 --force -o p.parquet"
    code, out, err = run(f"{common} --questions singles:0.4,pairs:0.6")
    assert code == 0, err
    words = " ".join(out.split())
    assert "4 about one column (40 %), 6 about 2 at once (60 %)" in words and "weight" not in words
    code, _, err = run("fit p.parquet -o p.json --force")
    assert code == 0 and "an answer about more than 2 columns may assume" in " ".join(err.split())


def test_further_reports_multiply_gamma_and_are_not_fitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = run(
        "perturb people.csv --schema people.toml --gamma 19 --force -o c.parquet --copies 3"
    )
    said = "gamma 6859 (epsilon 8.834) of one report alone: gamma 19"
    assert code == 0 and said in " ".join(out.split()), err
    code, _, err = run("fit c.parquet -o c.json --force")
    assert code == 2 and "holds 3 reports of each" in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ("town+ill:0.6,singles:0.4", "'town', which is public"),
        ("town:1", "'town', which is public"),
        ("ill+ill:0.6,singles:0.4", "names a column twice"),
        ("smoker+ill:0.6,singles:0.5", "sum to 1.1"),
        ("smoker+ill:1", "no question asks about"),
        ("quads:1", "no share of questions"),
        ("smokr:1", "did you mean 'smoker'"),
        ("singles:x", "no share; use a number above 0"),
        ("singles:0.5,ill:-0.5", "no share; use a number above 0"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, questions: str, said: str
) -> None:
    monkeypatch.chdir(folder)
    open_town = Domain((*DOMAIN.attributes, Category("town", ("a", "b"), public=True)))
    open_town.save(folder / "open.toml")
    line = "perturb people.csv --schema open.toml --gamma 19 -o q.parquet --questions "
    code, _, err = run(line + questions)
    assert code == 2 and said in err and len(err.strip().splitlines()) == 1, err
