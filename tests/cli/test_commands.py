"""Commands that go well: what they write, what they print, what their JSON holds."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.domain import Domain
from sfumato.table import read, read_perturbed


def run(line: str):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, result.stderr
    return result


def run_json(line: str) -> dict:
    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(run(line + " --json").stdout, parse_constant=refuse)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run("generate survey --rows 500 -o s.csv --schema s.toml")
    run("generate quest T5.I2.D300.N40 -o b.dat")
    return tmp_path


@pytest.mark.parametrize(
    "command", ["schema", "perturb", "describe", "generate quest", "generate survey"]
)
def test_every_command_has_help_with_an_example_and_json(command):
    text = " ".join(run(f"{command} --help").stdout.split())
    assert f"Example: sfumato {command}" in text and "--json" in text


def test_generated_data_repeat(folder):
    run("generate survey --rows 500 -o again.csv")
    assert (folder / "again.csv").read_bytes() == (folder / "s.csv").read_bytes()
    run("generate survey --rows 500 -o other.csv --seed 2")
    assert (folder / "other.csv").read_bytes() != (folder / "s.csv").read_bytes()
    made = run_json("generate quest D100 --items 7 --basket-size 3 --pattern-size 2 -o c.dat")
    assert made["rows"] == 100 and made["items"] == 7 and made["seed"] == 1
    assert read(folder / "c.dat").rows == 100


def test_a_proposed_schema_is_a_schema(folder):
    run("schema s.csv -o proposed.toml")
    domain = Domain.load("proposed.toml")
    assert domain.names == Domain.load("s.toml").names
    assert Domain.from_toml(run("schema s.csv").stdout) == domain
    assert Domain.from_dict(run_json("schema s.csv")["schema"]) == domain
    assert Domain.from_toml(run("schema s.csv -o -").stdout) == domain
    assert not Path("-").exists()
    assert read("s.csv", domain).rows == 500


def test_perturb_and_describe_say_the_same(folder):
    perturbed = run_json(
        "perturb s.csv -o p.parquet --schema s.toml --mechanism gamma-diagonal --rho1 0.05 --rho2 "
        "0.50"
    )
    described = run_json("describe p.parquet")
    assert described == {
        key: value for key, value in perturbed.items() if key not in ("output", "notes")
    }
    assert {
        "rows": 500,
        "mechanism": "gamma-diagonal",
        "gamma": 19.0,
        "secure": True,
        "copies": 1,
    }.items() <= described.items()
    assert described["epsilon"] == pytest.approx(2.944, abs=1e-3)
    assert described["worst_posterior"] == {"rho1": 0.05, "rho2": 0.5}
    assert described["condition"] == pytest.approx((19 + 46_080 - 1) / 18)
    assert described["domain"]["age"] == ["[18,30)", "[30,45)", "[45,60)", "[60,75)", "[75,90]"]


def test_the_guarantee_in_words(folder):
    run("perturb s.csv -o p.parquet --schema s.toml --mechanism gamma-diagonal --gamma 19")
    text = " ".join(run("describe p.parquet").stdout.split())
    assert "someone who believed 5 % before sees at most 50 % after" in text
    assert "gamma 19 (epsilon 2.945)" in text and "randomness secure" in text
    assert "believed 1 % before sees at most 16.2 % after" in " ".join(
        run("describe p.parquet --rho1 0.01").stdout.split()
    )


def test_copies_compose(folder):
    run(
        "perturb s.csv -o p.csv --schema s.toml --mechanism gamma-diagonal --gamma 3 --copies 3 "
        "--seed 4"
    )
    described = run_json("describe p.csv")
    assert (
        described["rows"],
        described["copies"],
        described["gamma"],
        described["gamma_per_copy"],
    ) == (1500, 3, 27.0, 3.0)
    assert described["secure"] is False and any(
        "not private" in caveat for caveat in described["caveats"]
    )
    assert "3 reports of each of 500 records" in run("describe p.csv").stdout


def test_the_promise_of_one_report_is_rounded_up(folder):
    run("perturb s.csv -o p.csv --schema s.toml --mechanism gamma-diagonal --gamma 3.0003 "
        "--copies 2")  # fmt: skip
    assert "of one report alone: gamma 3.001" in run("describe p.csv").stdout


def test_a_seed_repeats_and_secure_randomness_does_not(folder):
    for name, seed in (("a", "--seed 5"), ("b", "--seed 5"), ("c", ""), ("d", "")):
        run(
            f"perturb s.csv -o {name}.csv --schema s.toml --mechanism gamma-diagonal --gamma 19 "
            f"{seed}"
        )
    texts = [(folder / f"{name}.csv").read_bytes() for name in "abcd"]
    assert texts[0] == texts[1] and len(set(texts)) == 3


MECHANISMS = {
    "gamma-diagonal": "--epsilon 2.5",
    "randomized-gamma": "--gamma 19 --spread 0.25",
    "retention": "--gamma 19",
    "retention kept": "--keep 0.4",
    "retention each": "--keep age=0.3,sex=0.9 --replace age=uniform,sex=identity",
    "permuting": "--keep 0.4",
    "mask": "--gamma 19",
    "mask kept": "--keep 0.9",
    "mask apart": "--keep-ones 0.9 --keep-zeros 0.8",
    "fp-nfp": "--fp 0.9 --nfp 0.8 --min-support 0.3",
    "cut-and-paste": "--gamma 19",
    "cut-and-paste stated": "--cutoff 1 --insert 0.4",
    "matrix": "--matrix m.csv",
    "combined": "--gamma 19",
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism(folder, name):
    Domain.load("s.toml").project(["age", "sex"]).save("two.toml")
    rows = [[0.55 if row == column else 0.05 for column in range(10)] for row in range(10)]
    Path("m.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    options = f"--mechanism {name.split()[0]} {MECHANISMS[name]}"
    perturbed = run_json(f"perturb s.csv -o p.parquet --schema two.toml {options}")
    described = run_json("describe p.parquet")
    assert described["mechanism"] == name.split()[0] and described["rows"] == 500
    assert described["gamma"] == perturbed["gamma"]
    if "--gamma" in options:
        assert 1 < described["gamma"] <= 19
    if described["gamma"] is None:
        assert described["promises"].startswith("nothing")
    assert read_perturbed("p.parquet").mechanism.name == name.split()[0]
    run("describe p.parquet")


@pytest.mark.parametrize(
    "options",
    ["--gamma 19", "--keep 0.9", "--mechanism fp-nfp --fp 0.9 --nfp 0.8 --min-support 0.1"],
)
@pytest.mark.parametrize("name", ["p.dat", "p.dat.gz", "p.parquet", "p.csv"])
def test_baskets(folder, name, options):
    run(f"perturb b.dat -o {name} {options}")
    assert run_json(f"describe {name}")["rows"] == 300
    assert read_perturbed(name).rows == 300


def test_cut_and_paste_baskets_need_a_column_beside_them(folder):
    run("perturb b.dat -o p.parquet --mechanism cut-and-paste --cutoff 3 --insert 0.4")
    assert any("size" in caveat for caveat in run_json("describe p.parquet")["caveats"])


def test_a_basket_gamma_beyond_floats_is_still_json(folder):
    run("generate quest D100 --items 900 -o many.dat")
    Path("items.txt").write_text("\n".join(map(str, range(900))))
    described = run_json("perturb many.dat -o p.dat --items items.txt --keep 0.9")
    assert described["gamma"] is None and described["epsilon"] > 1900
    assert len(described["domain"]["items"]) == 900
    assert "gamma e^" in run("describe p.dat").stdout


def test_public_columns_are_named(folder):
    text = Path("s.toml").read_text().replace('name = "sex"\n', 'name = "sex"\npublic = true\n')
    Path("s.toml").write_text(text)
    described = run_json(
        "perturb s.csv -o p.parquet --schema s.toml --mechanism gamma-diagonal --gamma 19"
    )
    assert described["public"] == ["sex"] and any(
        "sex" in caveat for caveat in described["caveats"]
    )
    assert sorted(read_perturbed("p.parquet").to_arrow()["sex"].to_pylist()) == sorted(
        read("s.csv").to_arrow()["sex"].to_pylist()
    )


def test_dropped_columns_are_named(folder):
    Domain.load("s.toml").project(["age", "sex"]).save("two.toml")
    result = run(
        "perturb s.csv -o p.parquet --schema two.toml --mechanism gamma-diagonal --gamma 19"
    )
    assert result.stderr.startswith(
        "note: 8 columns are not in the schema and were dropped: region"
    )
    assert run_json(
        "perturb s.csv -o p.parquet --schema two.toml --mechanism gamma-diagonal --gamma 19 --force"
    )["notes"][0].startswith("8 columns")


def test_without_a_schema_one_is_proposed(folder):
    run("perturb s.csv -o p.parquet --mechanism gamma-diagonal --gamma 19")
    assert read_perturbed("p.parquet").domain.names == Domain.load("s.toml").names


def test_pipes(folder):
    command = [sys.executable, "-c", "from sfumato.cli import main; main()"]
    truth = Path("s.csv").read_bytes()
    made = subprocess.run(
        [*command, "perturb", "-", "-o", "-", "--mechanism", "gamma-diagonal", "--gamma", "19"],
        input=truth,
        capture_output=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    assert pq.read_table(pa.BufferReader(made.stdout)).num_rows == 500
    told = subprocess.run(
        [*command, "describe", "-", "--json"], input=made.stdout, capture_output=True, timeout=120
    )
    assert json.loads(told.stdout)["gamma"] == 19.0
    text = subprocess.run(
        [*command, "generate", "quest", "D50", "-o", "-"], capture_output=True, timeout=120
    ).stdout
    assert text.count(b"\n") == 50


def test_version():
    from sfumato import __version__

    assert run("--version").stdout == f"sfumato {__version__}\n"


def test_the_plan_behind_perturb_counts_the_people(tmp_path, monkeypatch) -> None:
    """Short lines are people too: a size guessed from bytes warned of 250 people where 5,000
    stand.
    """
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("a\n" + "x\ny\n" * 2_500)
    said = run("perturb one.csv --gamma 19 -o r.parquet").stderr
    assert "plan's best" in said
    assert "usable" not in said
    Path("few.csv").write_text("a\n" + "x\ny\n" * 25)
    warned = run("perturb few.csv --gamma 19 -o f.parquet").stderr
    assert "with 50 people the support of a value is off by" in " ".join(warned.split())
