"""Canaries: no command prints a password that was typed, or a value that no mechanism reported."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import sfumato as sf
from sfumato.address import redacted, without_secrets
from sfumato.cli import app
from sfumato.cli.commands import COMMANDS, loaded
from sfumato.domain import Category, Domain, Numeric
from sfumato.engines.opening import Location
from sfumato.errors import ParameterError
from sfumato.randomness import seeded
from sfumato.table import Table, save

PASSWORD = "c4nary-Pa55"
HALF = PASSWORD.partition("-")
# A server that nobody listens at: port 1 refuses at once.
ADDRESSES = {
    "before the host": f"postgresql://ann:{PASSWORD}@127.0.0.1:1/db",
    "as an option": f"postgresql://127.0.0.1:1/db?user=ann&password={PASSWORD}",
    "with a #": f"postgresql://ann:{HALF[0]}#{HALF[2]}@127.0.0.1:1/db",
    "with an @ and a /": f"postgresql://ann:{HALF[0]}@/{HALF[2]}@127.0.0.1:1/db",
    "with a ?": f"postgresql://ann:{HALF[0]}?{HALF[2]}@127.0.0.1:1/db",
    "with a blank": f"postgresql://ann:{HALF[0]} {HALF[2]}@127.0.0.1:1/db",
    "an option with an @": f"postgresql://127.0.0.1:1/db?password={HALF[0]}@{HALF[2]}",
    "another scheme": f"mysql://ann:{PASSWORD}@127.0.0.1:1/db",
    "a mistyped scheme": f"postgresq://ann:{PASSWORD}@127.0.0.1:1/db",
    "in words": f"host=127.0.0.1 port=1 user=ann password={PASSWORD}",
}
# They open no address, start work that takes long, or never end.
LEFT_OUT = {"demo", "reproduce", "serve", "simulate", "generate"}
DOMAIN = Domain((Category("sex", ("F", "M")), Numeric("age", 0, 49, cuts=(20,))))


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and all that it printed."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["sfumato", *arguments])
        typer.main.get_command(app).main(list(arguments))
    return int(ended.value.code or 0), "".join(capfd.readouterr())


def lines_with(address: str) -> list[list[str]]:
    """Command lines with an address in every place that takes a word: as every argument, and as
    each option in turn.
    """
    lines = []
    for name in COMMANDS:
        if name in LEFT_OUT:
            continue
        command: Any = loaded(name)
        if hasattr(command, "commands"):
            lines.append([name, address])
            continue
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option" and not p.is_flag]
        given = [name, *([address] * max(len(arguments), 1))]
        needed = [word for p in options if p.required for word in (p.opts[0], address)]
        lines += [given, [*given, *needed], [*given, *needed, "surplus", address]]
        lines += [[*given, *needed, p.opts[0], address] for p in options]
    return lines


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_command_prints_a_password(
    name: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for table, more in (("", ["--json"]), ("#t", [])):
        for line in lines_with(ADDRESSES[name] + table):
            code, told = run(capfd, *line, *more)
            assert code != 0, line
            for part in (PASSWORD, HALF[0], HALF[2]):
                assert part not in told, (line, told)


@pytest.mark.parametrize("name", ["before the host", "as an option"])
def test_what_was_written_is_told_without_the_password(
    name: str, postgres: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the address works, what is printed names the place and not the secret."""
    save(Table(DOMAIN, (np.arange(60) % 2, np.arange(60) % 50)), tmp_path / "t.csv")
    DOMAIN.save(tmp_path / "s.toml")
    host = postgres.partition("?host=")[2]
    address = {
        "before the host": f"postgresql://postgres:{PASSWORD}@/postgres?host={host}",
        "as an option": f"postgresql:///postgres?user=postgres&password={PASSWORD}&host={host}",
    }[name] + "#canary"
    perturb = ["perturb", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "s.toml")]
    how = ["--mechanism", "retention", "--keep", "0.5", "--force"]
    for line in (
        [*perturb, "-o", address, *how],
        [*perturb, "-o", address, *how, "--json"],
        ["describe", address],
        ["query", address, "SELECT COUNT(*) FROM t"],
        ["mine", address, "--min-support", "0.1", "--json"],
        ["query", address, "SELECT no FROM t"],
    ):
        code, told = run(capfd, *line)
        assert code == (2 if line[-1] == "SELECT no FROM t" else 0), told
        assert PASSWORD not in told
        if "perturb" in line:
            assert "postgresql:///postgres#canary" in told


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_is_shown_without_its_secret(name: str) -> None:
    for text in (redacted(ADDRESSES[name]), without_secrets(f"no file '{ADDRESSES[name]}' here")):
        assert not any(part in text for part in (PASSWORD, HALF[0], HALF[2])), text
    collapsed = str(Path(ADDRESSES[name]))  # a path has no two slashes in a row
    assert PASSWORD not in without_secrets(collapsed) and HALF[2] not in without_secrets(collapsed)


@pytest.mark.parametrize(
    "text", ["census.csv", "duckdb://a@b.db#t", "see https://example.org/help for more", "a = b"]
)
def test_what_holds_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_an_address_that_needs_a_guess_is_not_opened() -> None:
    for name in ("with a #", "with an @ and a /", "with a ?", "an option with an @"):
        with pytest.raises(ParameterError, match=r"without a guess; write # as %23.*PGPASSWORD"):
            Location.parse(ADDRESSES[name] + "#t")
    found = Location.parse("postgresql://ann:a%23b%40c@host:5432/db?sslmode=require#my%20table")
    assert found is not None and found.table == "my table"


@pytest.mark.parametrize("command", ["perturb", "query", "mine", "classify"])
def test_help_names_better_places_for_a_password(
    command: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, told = run(capfd, command, "--help")
    assert code == 0 and "PGPASSWORD" in told and ".pgpass" in told


# Values.

CANARY = "HIV-CANARY-4711"


@pytest.fixture
def strange(tmp_path: Path) -> list[Path]:
    """Releases in which a value stands that no mechanism reports: someone's true one, perhaps."""
    rng = np.random.default_rng(1)
    table = Table(DOMAIN, (rng.integers(0, 2, 300), rng.integers(0, 50, 300)))
    release = sf.perturb(table, sf.Retention(DOMAIN, 0.8), seeded(1))
    paths = [tmp_path / "p.parquet", tmp_path / "p.csv"]
    for path in paths:
        release.save(path)
    whole = pq.ParquetFile(paths[0])
    told, mark = whole.schema_arrow.metadata, whole.metadata.metadata[b"sfumato.release"]
    words = [CANARY, *pq.read_table(paths[0]).column("sex").to_pylist()[1:]]
    changed = pq.read_table(paths[0]).set_column(0, "sex", pa.array(words))
    changed = changed.replace_schema_metadata(told)
    with pq.ParquetWriter(paths[0], changed.schema) as writer:
        writer.write_table(changed)
        writer.add_key_value_metadata({b"sfumato.release": mark})
    lines = paths[1].read_text().splitlines()
    for place, line in ((5, f"{CANARY},20"), (6, f"F,{CANARY}")):
        lines[place] = line
    paths[1].write_text("\n".join(lines) + "\n")
    side = tmp_path / "p.csv.sfumato.json"
    description = json.loads(side.read_text())
    del description["digest"]  # as version 0.1.0 wrote it
    side.write_text(json.dumps({**description, "format": 1}))
    save(table, tmp_path / "truth.csv")
    return paths


def test_no_command_prints_a_value_that_was_never_reported(
    strange: list[Path], capfd: pytest.CaptureFixture[str]
) -> None:
    refused = 0
    for path in strange:
        truth = ["--truth", str(path.with_name("truth.csv"))]
        for line in (
            ["describe", str(path)],
            *(
                ["query", str(path), f"SELECT {what} FROM t", "--engine", engine, "--no-cache"]
                for what in ("COUNT(*)", "AVG(age)", "sex, COUNT(*)", "MEDIAN(age)", "nothing")
                for engine in ("memory", "duckdb")
            ),
            ["mine", str(path), "--min-support", "0.1"],
            ["mine", str(path), "--min-support", "0.1", "--engine", "duckdb", *truth],
            ["classify", str(path), "--target", "sex"],
            ["audit", str(path), *truth],
        ):
            for more in ([], ["--json"]):
                code, told = run(capfd, *line, *more)
                assert code in (0, 2) and CANARY not in told, (line, told)
                refused += code == 2
    assert refused > 20
