"""A file that lies about itself is found out, and a question without end is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.hostile.corpus import COUNT, described
from typer.testing import CliRunner

from sfumato.cli import app


def told(folder: Path, rows: int, name: str = "f.csv") -> str:
    """A CSV file of two rows whose description speaks of so many."""
    text = b"c\na\nb\n"
    path = folder / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    side = json.dumps({**described(), "rows": rows})
    (folder / f"{name}.sfumato.json").write_text(side)
    return str(path)


@pytest.mark.parametrize("rows", [1, 3, 10**15])
@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz"])
def test_rows_that_are_not_there_are_not_counted(tmp_path: Path, rows: int, name: str) -> None:
    done = CliRunner().invoke(app, ["query", told(tmp_path, rows, name), COUNT])
    assert done.exit_code == 2 and "description speaks of" in done.stderr


def test_rows_that_are_there_are_counted(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["query", told(tmp_path, 2), COUNT, "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["count"]["value"] == 2


def test_a_description_of_more_rows_than_bytes_is_not_repeated(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["describe", told(tmp_path, 10**15)])
    assert done.exit_code == 2 and "1,000,000,000,000,000" in done.stderr


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 5000 + "c = 'a'" + ")" * 5000,
        "NOT " * 5000 + "c = 'a'",
        " OR ".join(["c = 'a'"] * 10_000),
        "c = '" + "a" * 2_000_000 + "'",
    ],
    ids=["brackets", "nots", "ors", "letters"],
)
def test_a_question_without_end_is_one_line(tmp_path: Path, condition: str) -> None:
    (tmp_path / "t.csv").write_text("c\na\nb\n" * 2)
    words = ["query", str(tmp_path / "t.csv"), f"{COUNT} WHERE {condition}"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and done.stderr.count("\n") == 1, done.stderr


def test_a_cube_of_many_columns_and_a_deep_campaign_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("c,d\na,1\nb,2\n" * 2)
    (tmp_path / "c.toml").write_text("a = " + "[" * 100_000)
    cube = f"{COUNT} GROUP BY CUBE ({', '.join(['c', 'd'] * 20)})"
    for words, said in (
        (["query", str(tmp_path / "t.csv"), cube], "CUBE of 40 columns"),
        (["campaign", "check", str(tmp_path / "c.toml")], "nested too deep"),
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2 and said in done.stderr, done.output
