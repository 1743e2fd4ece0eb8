"""The commands read and write releases in databases by their address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.cli import app
from sfumato.cli.commands import Commands
from sfumato.domain import Category, Domain, Numeric
from sfumato.table import Table, save

if TYPE_CHECKING:
    from psycopg import Connection

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


@pytest.fixture
def quiet(postgres: str) -> Iterator[Connection[Any]]:
    """A connection to a server that writes nothing on its own account."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres, autocommit=True) as connection:
        for setting in ("SET autovacuum = off", "RESET autovacuum"):
            connection.execute(f"ALTER SYSTEM {setting}")
            connection.execute("SELECT pg_reload_conf()")
            if setting.startswith("SET"):
                yield connection


# Whoever came later than this connection, and has not gone.
OTHERS = """
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND backend_start >
(SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())
"""


def _scans(connection: Connection[Any]) -> int:
    """How often the rows of the table were read, as the server counts it: each of its processes
    tells when it ends, which on a busy machine is some time after its client has ended.
    """
    for _ in range(600):
        connection.execute("SELECT pg_stat_clear_snapshot()")
        if connection.execute(OTHERS).fetchall() == [(0,)]:
            break
        time.sleep(0.1)
    connection.execute("SELECT pg_stat_clear_snapshot()")
    found = connection.execute("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'counted'")
    return int(found.fetchall()[0][0])


def _command(cache: Path, *arguments: str) -> dict[str, Any]:
    """What a command prints that is a process of its own: what it counted, the server knows."""
    done = subprocess.run(
        [sys.executable, "-m", "sfumato", *arguments, "--json"],
        env={**os.environ, "SFUMATO_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_second_command_reads_no_rows_in_postgresql_and_none_is_stale(
    postgres: str, truth: list[str], tmp_path: Path, quiet: Connection[Any]
) -> None:
    url, cache = f"{postgres}#counted", tmp_path / "cache"
    written = ["perturb", *truth, "-o", url, "--mechanism", "questionnaire", "--gamma", "19"]

    def ask(sql: str, *options: str) -> dict[str, Any]:
        return _command(cache, "query", url, sql, *options)

    _command(cache, *written, "--force")
    by_sex, of_old = "SELECT sex, COUNT(*) FROM t GROUP BY sex", "SELECT COUNT(*) FROM t WHERE "
    first, scans = ask(by_sex), _scans(quiet)
    assert scans  # the first question reads the rows
    assert ask(by_sex) == first
    ask(f"{of_old} age >= 40 AND sex = 'F'")
    assert _scans(quiet) == scans  # and no other does
    assert ask(by_sex, "--no-cache") == first
    assert _scans(quiet) > scans
    quiet.execute("UPDATE counted SET question = (SELECT max(question) FROM counted)")
    assert ask(by_sex) != first  # what others wrote is counted
    _command(cache, *written, "--force")
    assert ask(by_sex)["rows"] != first["rows"]  # other noise
    assert ask(by_sex) == ask(by_sex, "--no-cache")
