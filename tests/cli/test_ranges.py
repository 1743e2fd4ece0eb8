"""Ranges of several numbers as people type them: two rounds, one fit, one question."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli.app import app
from sfumato.domain import Domain, Numeric
from sfumato.table import Table, read_perturbed, save

DOMAIN = Domain((Numeric("age", 0, 79), Numeric("kids", 0, 7)))
ROWS = 8_000
PURPOSES = ("ranges", "means")
SQL = "SELECT COUNT(*) AS n FROM t WHERE age BETWEEN 20 AND 44 AND kids >= 2"


def run(line: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, shlex.split(line))
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else found.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("ranges")
    rng = np.random.default_rng(1)
    age = np.clip(rng.gamma(6.0, 5.0, ROWS), 0, 79).astype(np.uint8)
    kids = np.minimum(rng.poisson(age / 20), 7).astype(np.uint8)
    DOMAIN.save(found / "people.toml")
    save(Table(DOMAIN, (age, kids)), found / "people.csv")
    start = f"perturb {found}/people.csv --schema {found}/people.toml --seed 1 --round"
    run(f"{start} 1 --mechanism ranges --gamma 19 -o {found}/one.parquet")
    run(f"{start} 2 --after {found}/one.parquet -o {found}/two.parquet")
    return found


def test_two_rounds_are_fitted_and_asked(folder: Path) -> None:
    run(f"fit {folder}/one.parquet {folder}/two.parquet -o {folder}/m.json")
    asked = run(f'query {folder}/m.json "{SQL}" --json')
    true = run(f'query {folder}/people.csv --schema {folder}/people.toml "{SQL}" --json')
    (answer,), (exact,) = (json.loads(text)["rows"] for text in (asked, true))
    assert 0 < answer["n"]["stderr"] < 0.1 * ROWS
    assert abs(answer["n"]["value"] - exact["n"]["value"]) < 4 * answer["n"]["stderr"]


def test_the_same_seed_asks_the_same_people_the_same(folder: Path, tmp_path: Path) -> None:
    line = f"perturb {folder}/people.csv --schema {folder}/people.toml --gamma 19 --round 1"
    found = {}
    for name, seed in (("again", "--seed 1"), ("other", "--seed 2"), ("drawn", "")):
        path = tmp_path / f"{name}.parquet"
        run(f"{line} --mechanism ranges {seed} -o {path}")
        found[name] = _said(path)
    first = _said(folder / "one.parquet")
    assert first == found["again"]
    assert first != found["other"] and first != found["drawn"]


def _said(path: Path) -> tuple[Any, ...]:
    table = read_perturbed(path)
    assert table.provenance is not None
    return table.provenance.unnamed, *(np.asarray(column).tolist() for column in table.columns)


def test_a_plan_without_cuts_says_how_several_numbers_are_asked(folder: Path) -> None:
    line = f"plan {folder}/people.toml --rows 8000 --gamma 19 --for"
    said = {purpose: CliRunner().invoke(app, [*line.split(), purpose]) for purpose in PURPOSES}
    assert "--round 1 --mechanism ranges" in " ".join(said["ranges"].stderr.split())
    assert "--round 1" not in said["means"].output


REFUSED = [
    ("fit {f}/one.parquet {f}/one.parquet {f}/two.parquet -o {f}/x.json", "given twice"),
    ("fit {f}/one.parquet -o {f}/x.json", "columns at once"),
    ('query {f}/two.parquet "' + SQL + '"', "fit a model"),
    (
        "perturb {f}/people.csv --schema {f}/people.toml --round 2 --after {f}/two.parquet "
        "-o {f}/y.csv",
        "about numbers there are two, the second --after the first",
    ),
    (
        "perturb {f}/people.csv --schema {f}/people.toml --mechanism ranges --gamma 19 "
        "-o {f}/y.csv",
        "no cuts",
    ),
    (
        "perturb {f}/people.csv --schema {f}/people.toml --round 2 --after {f}/one.parquet "
        "--gamma 3 -o {f}/y.csv",
        "promised",
    ),
]


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_does_not_belong_together_is_refused(folder: Path, line: str, message: str) -> None:
    said = run(line.format(f=folder), 2)
    assert message in " ".join(said.split()), said
