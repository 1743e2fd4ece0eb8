"""Ranges of several numbers as people type them: two rounds, one fit, one question."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import app
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import SfumatoError
from sfumato.randomness import seeded
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


def test_cells_are_told_in_the_numbers_of_their_columns(tmp_path: Path) -> None:
    """They were codes, so that ages from 17 on began at 0, and people of 2^32 a share."""
    numbers = Numeric("age", 17, 90, cuts=(30, 60)), Numeric("pay", 0, 1_000_000, cuts=(5_000,))
    domain = Domain((*numbers, Category("sex", ("f", "m"))))
    domain.save(tmp_path / "s.toml")
    (tmp_path / "d.csv").write_text("age,pay,sex\n" + "17,100,f\n90,7000,m\n" * 50)
    line = f"perturb {tmp_path}/d.csv --schema {tmp_path}/s.toml --mechanism ranges --gamma 19"
    run(f"{line} -o {tmp_path}/r.parquet")
    told = run(f"describe {tmp_path}/r.parquet")
    for words in (
        r"cells begin at +age 17, 30, 60, pay 0, 5000, sex f, m",
        r"upper side from +age 30, pay 5000, sex m",
        r"asked about +one column 40 %, two columns 60 %",
        r"window widths +age 1\d, pay 1\d{5}",
    ):
        assert re.search(words, told), told


def test_the_same_seed_asks_the_same_people_the_same(folder: Path, tmp_path: Path) -> None:
    line = f"--schema {folder}/people.toml --gamma 19 --round 1"
    found = {}
    for name, seed in (("again", "--seed 1"), ("other", "--seed 2"), ("drawn", "")):
        path = tmp_path / f"{name}.parquet"
        data = shutil.copy(folder / "people.csv", tmp_path / f"{name}.csv")  # never asked
        run(f"perturb {data} {line} --mechanism ranges {seed} -o {path}")
        found[name] = _said(path)
    first = _said(folder / "one.parquet")
    assert first == found["again"]
    assert first != found["other"] and first != found["drawn"]


def _said(path: Path) -> tuple[Any, ...]:
    table = read_perturbed(path)
    assert table.provenance is not None
    return table.provenance.unnamed, *(np.asarray(column).tolist() for column in table.columns)


def test_ranges_are_asked_and_fitted_in_python_as_in_the_shell(
    folder: Path, tmp_path: Path
) -> None:
    data = str(shutil.copy(folder / "people.csv", tmp_path))  # where nobody was asked
    schema = f"{folder}/people.toml"
    one = sf.perturb(data, "ranges", seeded(1), schema=schema, gamma=19, round=1)
    two = sf.perturb(data, rng=seeded(1), schema=schema, round=2, after=one)
    for name, release in (("one", one), ("two", two)):
        release.save(tmp_path / f"{name}.parquet")
        assert _said(tmp_path / f"{name}.parquet") == _said(folder / f"{name}.parquet")
    answer = sf.query(sf.fit([one, two]), SQL).to_dicts()
    files = [f"{tmp_path}/{name}.parquet" for name in ("one", "two")]
    assert sf.query(sf.fit(files), SQL).to_dicts() == answer
    with pytest.raises(
        SfumatoError,
        match="other values of age, kids than these data have; give",
    ):
        sf.perturb({"age": [1, 2], "kids": [3, 4]}, round=2, after=one)
    with pytest.raises(SfumatoError, match="these are other people"):
        sf.perturb(sf.read(data, schema).take(np.arange(4000)), round=2, after=one)
    with pytest.raises(SfumatoError, match="use square-wave, without rounds"):
        sf.perturb(sf.read(data, DOMAIN.project(["age"])), "ranges", gamma=19, round=1)


def test_a_plan_without_cuts_says_how_several_numbers_are_asked(folder: Path) -> None:
    line = f"plan {folder}/people.toml --rows 8000 --gamma 19 --for"
    said = {purpose: CliRunner().invoke(app, [*line.split(), purpose]) for purpose in PURPOSES}
    assert "--round 1 --mechanism ranges" in " ".join(said["ranges"].stderr.split())
    assert "--round 1" not in said["means"].output


def test_the_second_round_alone_is_told_to_be_one(folder: Path) -> None:
    """It was fitted without a word that two fifths of the people were left out."""
    told = "this is round 2 alone, of a part of the people: fit all rounds together"
    for line in (
        f"fit {folder}/two.parquet -o {folder}/half.json",
        f'query {folder}/two.parquet "{SQL}" --fit',
    ):
        found = CliRunner().invoke(app, shlex.split(line))
        assert found.exit_code == 0 and told in " ".join(found.stderr.split())
    both = f"fit {folder}/one.parquet {folder}/two.parquet -o {folder}/whole.json"
    assert "alone" not in CliRunner().invoke(app, shlex.split(both)).stderr


REFUSED = [
    ("fit {f}/one.parquet {f}/one.parquet {f}/two.parquet -o {f}/x.json", "give each round once"),
    ("fit {f}/one.parquet -o {f}/x.json", "columns at once: round 2 is missing; fit both"),
    ('query {f}/one.parquet --fit "' + SQL + '"', "round 2 is missing"),
    ('query {f}/two.parquet "' + SQL + '"', "fit a model"),
    (
        "perturb {f}/people.csv --schema {f}/people.toml --round 2 --after {f}/two.parquet "
        "-o {f}/y.csv",
        "round 2 comes after round 1, which is not here; give all the rounds before it",
    ),
    (
        "perturb {f}/people.csv --schema {f}/people.toml --round 2 --after {f}/one.parquet "
        "--mechanism item-set -o {f}/y.csv",
        "--after is a round of ranges, and --mechanism item-set is none of that series",
    ),
    (
        "perturb {f}/people.csv --schema {f}/people.toml --round 2 --after {f}/one.parquet "
        "--cap 4 -o {f}/y.csv",
        "chosen by the rounds before it, and --cap would choose it anew",
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
    (
        "perturb {f}/people.csv --schema {f}/people.toml --round 3 --after {f}/one.parquet "
        "--after {f}/two.parquet -o {f}/y.csv",
        "of columns there are 2 rounds, and all are asked",
    ),
]


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_does_not_belong_together_is_refused(folder: Path, line: str, message: str) -> None:
    said = run(line.format(f=folder), 2)
    assert message in " ".join(said.split()), said
