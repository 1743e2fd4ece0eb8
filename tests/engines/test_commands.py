"""The commands read and write releases in databases by their address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.cli.app import app
from sfumato.cli.errors import Commands
from sfumato.domain import Category, Domain, Numeric
from sfumato.table import Table, save

DOMAIN = Domain((Category("sex", ("F", "M")), Numeric("age", 20, 79, cuts=(40, 60))))
ROWS = 3000


def sfumato(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """The exit code and the JSON object of a command."""
    import typer

    command = typer.main.get_command(app)
    assert isinstance(command, Commands)
    with pytest.raises(SystemExit) as ended:
        command.main([*arguments, "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


@pytest.fixture
def truth(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(1)
    save(
        Table(DOMAIN, (rng.integers(0, 2, ROWS), rng.integers(0, 60, ROWS))), tmp_path / "truth.csv"
    )
    DOMAIN.save(tmp_path / "schema.toml")
    return [str(tmp_path / "truth.csv"), "--schema", str(tmp_path / "schema.toml")]


@pytest.mark.parametrize("place", ["duckdb", "postgresql"])
def test_a_release_in_a_database_from_end_to_end(
    place: str,
    truth: list[str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    base = (
        f"duckdb://{tmp_path / 'all.db'}"
        if place == "duckdb"
        else request.getfixturevalue("postgres")
    )
    url, sql = f"{base}#people", "SELECT sex, COUNT(*), AVG(age) FROM t GROUP BY sex"
    how = ["--mechanism", "retention", "--keep", "0.8", "--seed", "5"]
    code, written = sfumato(capsys, "perturb", *truth, "-o", url, *how, "--force")
    assert (code, written["rows"]) == (0, ROWS)
    code, refused = sfumato(capsys, "perturb", *truth, "-o", url, *how)
    assert code == 2 and "already" in refused["error"]["message"]
    code, described = sfumato(capsys, "describe", url)
    assert (code, described["mechanism"], described["secure"]) == (0, "retention", False)
    file = str(tmp_path / "same.parquet")
    sfumato(capsys, "perturb", *truth, "-o", file, *how)
    answers = [
        sfumato(capsys, "query", *arguments)
        for arguments in (
            [url, sql],
            ["people", sql, "--engine", base],
            [file, sql],
            [file, sql, "--engine", "memory"],
            [file, sql, "--engine", "duckdb"],
        )
    ]
    assert [code for code, _ in answers] == [0] * 5
    first = answers[0][1]["rows"]
    for _, other in answers[1:]:
        for mine, theirs in zip(first, other["rows"], strict=True):
            assert mine["sex"] == theirs["sex"]
            for name in ("count", "avg_age"):
                assert mine[name] == pytest.approx(theirs[name])


def test_a_password_is_never_printed(truth: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    address = "postgresql://ann:s3cret@127.0.0.1:1/db#t"
    for command in (["query", address, "SELECT COUNT(*) FROM t"], ["describe", address]):
        code, found = sfumato(capsys, *command)
        assert (
            code == 2 and found["error"]["kind"] == "server" and "s3cret" not in json.dumps(found)
        )
    code, found = sfumato(
        capsys, "perturb", *truth, "-o", address, "--mechanism", "retention", "--keep", "0.5"
    )
    assert code == 2 and "s3cret" not in json.dumps(found)
