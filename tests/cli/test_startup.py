"""Commands start quickly: what they do not use is not loaded."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

HEAVY = ("scipy", "numba", "sklearn", "duckdb", "matplotlib", "pandas", "pyspark")

LOADED = """
import json, sys
sys.argv = ["sfumato", *sys.argv[1:]]
from sfumato.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""

TYPER_ALONE = """
import typer
app = typer.Typer()
@app.command()
def one(name: str, count: int = 1) -> None:
    "The first."
@app.command()
def two(name: str, count: int = 1) -> None:
    "The second."
app(["--help"])
"""


def loaded_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_loads_neither_arrays_nor_tables(arguments):
    assert not loaded_by(*arguments) & {*HEAVY, "numpy", "pyarrow", "cryptography"}


def test_describe_loads_no_heavy_library(tmp_path):
    from typer.testing import CliRunner

    from sfumato.cli import app

    for line in (
        ["generate", "survey", "--rows", "100"],
        ["perturb", f"{tmp_path}/a.csv", "--gamma", "19"],
    ):
        output = "a.csv" if line[0] == "generate" else "b.parquet"
        assert CliRunner().invoke(app, [*line, "-o", f"{tmp_path}/{output}"]).exit_code == 0
    assert not loaded_by("describe", f"{tmp_path}/b.parquet") & set(HEAVY)


def test_mining_true_records_loads_no_heavy_library(tmp_path):
    (tmp_path / "t.csv").write_text("c\na\nb\n" * 2)
    loaded = loaded_by("mine", f"{tmp_path}/t.csv", "--min-support", "0.1", "--json")
    assert not loaded & {*HEAVY, "sqlglot", "rich"} and "pyarrow" in loaded


def test_pyspark_finds_pandas_again():
    """pyspark needs it, so that it is hidden only until then, whatever the files are called."""
    script = """
import sys
import sfumato.cli
sfumato.cli.app = lambda **_: None
sys.argv = ["sfumato", "mine", "local.csv"]
sfumato.cli.main()
try:
    import pandas
except ModuleNotFoundError:
    import pyspark, pandas
    print("found with pyspark")
"""
    pytest.importorskip("pandas")
    pytest.importorskip("pyspark")
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "found with pyspark\n", done.stderr


def seconds(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *command], capture_output=True, check=True, timeout=120)
    return time.perf_counter() - start


def test_help_is_within_three_times_of_typer_alone():
    # The least of several runs, one after the other in turn, so that a busy machine slows both
    # alike.
    pairs = [
        (seconds("-c", "from sfumato.cli import app; app(['--help'])"), seconds("-c", TYPER_ALONE))
        for _ in range(5)
    ]
    ours, alone = (min(times) for times in zip(*pairs, strict=True))
    assert ours < 3 * alone, f"{ours:.2f} s against {alone:.2f} s"
