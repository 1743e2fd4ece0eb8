"""`sfumato fit`, and a model where the other commands take a release."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli.app import app
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
    plain = result("mine r.parquet --min-support 0.03")
    assert max(itemset["length"] for itemset in plain["itemsets"]) == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fit people.csv -o x.json", "carries no mechanism"),
        ("fit r.parquet -o m.json", "exists"),
        ("fit r.parquet -o y.json --order 5", "use 2 or 3"),
        ('query m.json "SELECT COUNT(*) FROM t WHERE age < 40"', "its cuts are 25, 50, 75"),
        ('query m.json "SELECT AVG(age) FROM t"', "perturbed in bins"),
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
