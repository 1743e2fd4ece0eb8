"""Bad input and bad usage: one line, exit code 2, no traceback, nothing written,
nothing changed.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.commands import COMMANDS, loaded
from sfumato.cli.errors import _kind

SCHEMA = """
[[attribute]]
name = "age"
type = "numeric"
min = 0
max = 99
cuts = [20, 60]

[[attribute]]
name = "sex"
type = "category"
values = ["F", "M"]
"""

CASES = {
    # files
    "missing file": (
        "perturb cencus.csv -o o.csv --gamma 19",
        "no file 'cencus.csv'; did you mean 'census.csv'?",
    ),
    "missing file, and the output is there": (
        "perturb cencus.csv -o there.csv --gamma 19",
        "no file 'cencus.csv'; did you mean 'census.csv'?",
    ),
    "folder": ("perturb folder.csv -o o.csv --gamma 19", "'folder.csv' is a folder"),
    "empty file": ("perturb empty.csv -o o.csv --gamma 19", "'empty.csv' is empty"),
    "header only": (
        "perturb header.csv -o o.csv --gamma 19 --schema s.toml",
        "'header.csv' has no rows",
    ),
    "header only, no schema yet": ("schema header.csv", "'header.csv' has no rows"),
    "ragged": (
        "perturb ragged.csv -o o.csv --gamma 19 --schema s.toml",
        "line 3 of 'ragged.csv' has 3 fields",
    ),
    "not UTF-8": (
        "perturb latin.csv -o o.csv --gamma 19 --schema s.toml",
        "'latin.csv' is not UTF-8 text",
    ),
    "not parquet": (
        "perturb fake.parquet -o o.csv --gamma 19",
        "'fake.parquet' is not a readable Parquet file",
    ),
    "no model": ('query absent.json "SELECT COUNT(*) FROM t"', "no file 'absent.json'"),
    "nothing to send": ("send http://127.0.0.1:1/x absent.csv", "no file 'absent.csv'"),
    "no model to draw from": ("generate fitted absent.json -o o.csv", "no file 'absent.json'"),
    "unknown kind": (
        "perturb census.txt -o o.csv --gamma 19",
        "'census.txt' has a name of an unknown kind",
    ),
    "bad basket": (
        "perturb bad.dat -o o.dat --gamma 19",
        "line 2 of 'bad.dat': 'milk' is not an item id",
    ),
    "strange item": (
        "perturb good.dat -o o.dat --gamma 19 --items items.txt",
        "line 1: item 2 is not in the universe",
    ),
    "blank lines": (
        "perturb blank.dat -o o.dat --gamma 19",
        "no basket of 'blank.dat' holds an item; a line holds",
    ),
    "blank lines, items named": (
        "perturb blank.dat -o o.parquet --gamma 19 --items items.txt",
        "no basket of 'blank.dat' holds an item; a line holds",
    ),
    "blank lines to mine, items named": (
        "mine blank.dat --items items.txt --min-support 0.1",
        "no basket of 'blank.dat' holds an item; a line holds",
    ),
    "blank lines of names": (
        "perturb blank.csv -o o.parquet --form lines --gamma 19 --items items.txt",
        "no basket of 'blank.csv' holds an item; a line holds",
    ),
    # values
    "one number only": (
        "perturb constant.csv -o o.parquet --mechanism square-wave --gamma 19",
        "'x' has one value only, so there is nothing to ask; leave it out of the schema",
    ),
    "one number only among others": (
        "perturb constant.csv -o o.parquet --mechanism piecewise --gamma 19 --schema x.toml",
        "'x' has one value only, so there is nothing to ask; leave it out of the schema",
    ),
    "few numbers": (
        "perturb few.csv -o o.parquet --mechanism square-wave --gamma 19",
        "none of y is one; use questionnaire, or say numeric in the schema",
    ),
    "word for number": (
        "perturb word.csv -o o.csv --gamma 19 --schema s.toml",
        "row 2, column 'age': 'old' is not a number",
    ),
    "outside": (
        "perturb outside.csv -o o.csv --gamma 19 --schema s.toml",
        "row 1, column 'age': 120 lies outside [0, 99]",
    ),
    "null": (
        "perturb null.csv -o o.csv --gamma 19 --schema s.toml",
        "row 2, column 'sex' is empty; say missing",
    ),
    "stranger": (
        "perturb stranger.csv -o o.csv --gamma 19 --schema s.toml",
        "'m' is not one of its values (F, M); did you mean",
    ),
    # schemas
    "missing schema": (
        "perturb census.csv -o o.csv --gamma 19 --schema none.toml",
        "no schema file 'none.toml'",
    ),
    "typo in schema": (
        "perturb census.csv -o o.csv --gamma 19 --schema typo.toml",
        "did you mean 'values'?",
    ),
    "no TOML": ("perturb census.csv -o o.csv --gamma 19 --schema items.txt", "is not valid TOML"),
    "unknown column": (
        "perturb census.csv -o o.csv --gamma 19 --schema column.toml",
        "no column 'agge' in 'census.csv' (age, sex)",
    ),
    # guarantees
    "gamma 1": ("perturb census.csv -o o.csv --gamma 1", "use gamma > 1"),
    "gamma below 1": ("perturb census.csv -o o.csv --gamma 0.5", "use gamma > 1"),
    "no gamma": ("perturb census.csv -o o.csv --gamma nan", "use gamma > 1"),
    "infinite gamma": ("perturb census.csv -o o.csv --gamma inf", "gamma must be finite"),
    "epsilon 0": ("perturb census.csv -o o.csv --epsilon 0", "use epsilon > 0"),
    "rho2 below rho1": ("perturb census.csv -o o.csv --rho1 0.5 --rho2 0.05", "use rho2 > rho1"),
    "rho2 as rho1": ("perturb census.csv -o o.csv --rho1 0.5 --rho2 0.5", "use rho2 > rho1"),
    "rho1 alone": ("perturb census.csv -o o.csv --rho1 0.05", "--rho1 and --rho2 belong together"),
    "two ways": (
        "perturb census.csv -o o.csv --gamma 19 --epsilon 2",
        "more than one way (--gamma, --epsilon)",
    ),
    "no way": (
        "perturb census.csv -o o.csv",
        "it is not said what should be promised; give --gamma",
    ),
    "too strong": (
        "perturb wide.dat -o o.dat --gamma 1.0001",
        "no mechanism can meet gamma 1.0001",
    ),
    # parameters
    "keep 0": ("perturb census.csv -o o.csv --mechanism retention --keep 0", "use 0 < keep <= 1"),
    "keep above 1": (
        "perturb census.csv -o o.csv --mechanism retention --keep 1.5",
        "use 0 < keep <= 1",
    ),
    "keep a word": (
        "perturb census.csv -o o.csv --mechanism retention --keep half",
        "--keep half is not a number",
    ),
    "keep for nobody": (
        "perturb census.csv -o o.csv --mechanism retention --keep agee=0.5",
        "did you mean 'age'?",
    ),
    "coin flips": (
        "perturb census.csv -o o.csv --mechanism mask --keep 0.5",
        "nothing can be reconstructed",
    ),
    "half a mask": (
        "perturb census.csv -o o.csv --mechanism mask --keep-ones 0.9",
        "mask needs --keep-zeros as well",
    ),
    "keep twice": (
        "perturb census.csv -o o.csv --mechanism mask --keep 0.9 --keep-ones 0.9",
        "cannot stand beside",
    ),
    "not its option": (
        "perturb census.csv -o o.csv --gamma 19 --fp 0.3",
        "--fp is no option of gamma-diagonal; it belongs to fp-nfp",
    ),
    "contradiction": (
        "perturb census.csv -o o.csv --mechanism mask --gamma 19 --keep 0.9",
        "contradict each other",
    ),
    "unknown mechanism": (
        "perturb census.csv -o o.csv --mechanism gama-diagonal --gamma 19",
        "did you mean 'gamma-diagonal'?",
    ),
    "no promise": (
        "perturb census.csv -o o.csv --mechanism permuting --gamma 19",
        "permuting promises no gamma",
    ),
    "no keep": ("perturb census.csv -o o.csv --mechanism permuting", "permuting needs --keep"),
    "no matrix": (
        "perturb census.csv -o o.csv --mechanism matrix --matrix none.csv",
        "no matrix file 'none.csv'",
    ),
    "records by baskets": (
        "perturb good.dat -o o.dat --mechanism gamma-diagonal --gamma 19",
        "use the mask mechanism",
    ),
    "no copies": (
        "perturb census.csv -o o.csv --mechanism retention --gamma 19 --copies 0",
        "reported at least once",
    ),
    "items of records": (
        "perturb census.csv -o o.csv --gamma 19 --items items.txt",
        "--items is for basket files",
    ),
    "two universes": (
        "perturb good.dat -o o.dat --gamma 19 --items items.txt --schema s.toml",
        "give one of them",
    ),
    # outputs
    "output exists": (
        "perturb census.csv -o there.csv --gamma 19",
        "'there.csv' exists already; use --force, in Python force=True",
    ),
    "records as a schema": (
        "perturb census.csv -o o.csv --schema census.csv --gamma 19",
        "'census.csv' is a file of records (.csv), and a schema is TOML; sfumato schema census.csv",
    ),
    "schema exists": ("schema census.csv -o s.toml", "'s.toml' exists already; use --force"),
    "data exists": ("generate survey -o there.csv", "'there.csv' exists already"),
    "no folder": ("perturb census.csv -o none/o.csv --gamma 19", "no folder 'none'"),
    "a share in per cent": (
        "mine census.csv --min-support 2%",
        "--min-support 2% is not a number; write 0.02; see sfumato mine --help",
    ),
    "a schema for records": (
        "query s.toml 'SELECT COUNT(*) FROM t'",
        "'s.toml' is called like a schema or a campaign, and records or reports belong here",
    ),
    "output kind": ("perturb census.csv -o o.xlsx --gamma 19", "unknown kind"),
    "FIMI records": (
        "perturb census.csv -o o.dat --mechanism retention --gamma 19",
        "use .parquet",
    ),
    # other commands
    "describe truth": ("describe census.csv", "'census.csv' carries no mechanism"),
    "prior": ("describe census.csv --rho1 1", "strictly between 0 and 1"),
    "no people": ("generate survey --rows 0 -o o.csv", "at least 1 row"),
    "no data set": ("generate quest T10.X4 -o o.dat", "does not name a Quest data set"),
    # usage
    "unknown option": ("perturb census.csv -o o.csv --gama 19", "No such option: --gama"),
    "unknown command": ("decribe o.csv", "No such command 'decribe'"),
    "no output": ("perturb census.csv --gamma 19", "Missing option"),
    "gamma a word": (
        "perturb census.csv -o o.csv --gamma much",
        "--gamma much is not a number; write digits, as in 19 or 0.5; see sfumato perturb --help",
    ),
    "nothing for gamma": (
        "perturb census.csv -o o.csv --gamma=",
        "--gamma '' is not a number; write digits",
    ),
    "half a row": (
        "plan s.toml --people 1.5 --gamma 19",
        "--people 1.5 is not a whole number; write digits, as in 20; see sfumato plan --help",
    ),
    "no port": ("serve --port=http", "--port http is not a whole number"),
    "no patterns": (
        "generate quest T10.I4.D1K -o o.dat --patterns x",
        "--patterns x is not a whole",
    ),
    "consequents": (
        "mine good.dat --max-consequents 0",
        "--max-consequents 0 is too small; at least 1",
    ),
    "too many": (
        "perturb good.dat -o o.dat --gamma 19 --find 5000",
        "--find 5000 is too large; at most 4096",
    ),
}


NUMBERS = [
    (name, parameter.opts[0])
    for name in COMMANDS
    for parameter in loaded(name).params
    if _kind(parameter)
]


@pytest.mark.parametrize(("name", "flag"), NUMBERS, ids=lambda word: word.lstrip("-"))
def test_every_option_that_takes_a_number_says_so_in_our_words(name, flag):
    result = CliRunner().invoke(app, [name, "x", flag, "nineteen"])
    assert result.exit_code == 2 and "Input should" not in result.output
    assert result.stderr.startswith(f"sfumato: {flag} nineteen is not a "), result.stderr
    assert result.stderr.endswith(f"; see sfumato {name} --help\n")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    files = {
        "census.csv": "age,sex\n30,F\n40,M\n",
        "census.txt": "age,sex\n30,F\n",
        "empty.csv": "",
        "header.csv": "age,sex\n",
        "ragged.csv": "age,sex\n30,F\n40,M,1\n",
        "fake.parquet": "PAR1 and no more",
        "bad.dat": "1 2\n3 milk\n",
        "good.dat": "1 2\n3\n",
        "wide.dat": " ".join(map(str, range(500))) + "\n",
        "items.txt": "1 3\n",
        "blank.dat": "\n \n\n",
        "blank.csv": "\n,,\n\n",
        "constant.csv": "x,age\n5,30\n5,40\n",
        "x.toml": SCHEMA.replace("sex", "x").replace('["F", "M"]', '["5"]'),
        "few.csv": "y\n1\n2\n2\n",
        "word.csv": "age,sex\n30,F\nold,M\n",
        "outside.csv": "age,sex\n120,F\n",
        "null.csv": "age,sex\n30,F\n40,\n",
        "stranger.csv": "age,sex\n30,F\n40,m\n",
        "s.toml": SCHEMA,
        "typo.toml": SCHEMA.replace("values", "vlues"),
        "column.toml": SCHEMA.replace('"age"', '"agge"'),
        "there.csv": "what was there before\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.csv").write_bytes("age,sex\n30,é\n".encode("latin1"))
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        name: (folder / name).read_bytes() if (folder / name).is_file() else None
        for name in os.listdir(folder)
    }


@pytest.mark.parametrize("line, words", CASES.values(), ids=CASES.keys())
def test_one_line_and_exit_code_2(folder, line, words):
    before = contents(folder)
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("sfumato: ") and words in result.stderr
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    assert contents(folder) == before


@pytest.mark.parametrize("line, words", CASES.values(), ids=CASES.keys())
def test_the_same_as_json(folder, line, words):
    result = CliRunner().invoke(app, shlex.split(line + " --json"))
    assert result.exit_code == 2 and result.stderr == ""
    error = json.loads(result.stdout)["error"]
    assert set(error) == {"kind", "message", "hint"}
    assert words in (f"{error['message']}; {error['hint']}" if error["hint"] else error["message"])


def test_truncated_parquet(folder):
    runner = CliRunner()
    assert (
        runner.invoke(app, shlex.split("generate survey --rows 5000 -o s.parquet")).exit_code == 0
    )
    whole = Path("s.parquet").read_bytes()
    Path("cut.parquet").write_bytes(whole[: len(whole) // 2])
    result = runner.invoke(app, shlex.split("perturb cut.parquet -o o.parquet --gamma 19"))
    assert result.exit_code == 2 and "'cut.parquet' is not a readable Parquet file" in result.stderr
    assert not Path("o.parquet").exists()


def test_standard_output_is_not_for_two(folder):
    result = CliRunner().invoke(app, shlex.split("perturb census.csv -o - --gamma 19 --json"))
    assert (
        result.exit_code == 2
        and "both want standard output" in json.loads(result.stdout)["error"]["message"]
    )


def test_perturbing_twice_is_refused(folder):
    runner = CliRunner()
    assert runner.invoke(app, shlex.split("perturb census.csv -o p.csv --gamma 19")).exit_code == 0
    result = runner.invoke(app, shlex.split("perturb p.csv -o q.csv --gamma 19"))
    assert result.exit_code == 2 and "perturbed already" in result.stderr


def test_a_fault_of_ours_is_one_line_and_exit_code_1(folder, monkeypatch):
    from sfumato.table import proposal

    def broken(*_: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(proposal, "_propose_records", broken)
    result = CliRunner().invoke(app, ["schema", "census.csv"])
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "sfumato: ZeroDivisionError: division by zero; this is a fault of Sfumato"
    )
    assert result.stderr.count("\n") == 1
    result = CliRunner().invoke(app, ["schema", "census.csv", "--json"])
    assert result.exit_code == 1 and json.loads(result.stdout)["error"]["kind"] == "fault"
    monkeypatch.setenv("SFUMATO_DEBUG", "1")
    assert "Traceback" in CliRunner().invoke(app, ["schema", "census.csv"]).stderr


def test_a_real_process_fails_the_same_way(folder):
    command = [
        sys.executable,
        "-c",
        "from sfumato.cli import main; main()",
        "perturb",
        "cencus.csv",
        "-o",
        "o.csv",
        "--mechanism",
        "gamma-diagonal",
        "--gamma",
        "19",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "sfumato: no file 'cencus.csv'; did you mean 'census.csv'?\n"


def test_an_interrupt_leaves_nothing_behind(folder):
    with Path("large.csv").open("w") as large:
        large.write("age,sex\n")
        large.writelines(["30,F\n40,M\n" * 10_000] * 200)
    before = set(os.listdir(folder))
    command = [
        sys.executable,
        "-c",
        "from sfumato.cli import main; main()",
        "perturb",
        "large.csv",
        "-o",
        "o.csv.gz",
    ]
    options = [
        "--schema",
        "s.toml",
        "--mechanism",
        "gamma-diagonal",
        "--gamma",
        "19",
        "--copies",
        "50",
    ]  # work for long enough to be interrupted in
    started = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while (
        set(os.listdir(folder)) == before and started.poll() is None and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=60)
    assert started.returncode == 130 and errors.count("\n") <= 1 and "Traceback" not in errors
    assert set(os.listdir(folder)) == before
