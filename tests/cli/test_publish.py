"""`sfumato identify`, `swap` and `hide` as a person calls them."""

import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.reproduce.li_sarkar import insurance


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("publish")
    pyarrow.csv.write_csv(insurance(), folder / "insurance.csv")
    pyarrow.parquet.write_table(insurance(), folder / "insurance.parquet")
    rng = np.random.default_rng(1)
    baskets = [
        " ".join(str(10 + i) for i in range(8) if i == 7 or rng.random() < 0.5) for _ in range(400)
    ]
    (folder / "baskets.dat").write_text("\n".join(baskets) + "\n")
    (folder / "secret.txt").write_text("10 11\n12 13 14\n10 -> 15\n")
    return folder


@pytest.mark.parametrize("file", ["insurance.csv", "insurance.parquet"])
def test_identify_prints_the_documented_object(folder, file):
    found = json.loads(run("identify", folder / file, "--confidential", "Amount", "--json"))
    wanted = {"records": 16, "unique": 6, "collective": 6, "groups": 3, "unidentifiable": 4}
    assert {name: found[name] for name in wanted} == wanted


def test_identify_in_words(folder):
    text = run("identify", folder / "insurance.csv", "--confidential", "Amount")
    assert "6 in 3 groups" in text and "Location" in text


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_swap_writes_the_release_and_the_documented_object(folder, tmp_path, name):
    output, reveal = tmp_path / name, tmp_path / "changed.json"
    found = json.loads(
        run(
            "swap",
            folder / "insurance.csv",
            "-o",
            output,
            "--confidential",
            "Amount",
            "--proportion",
            0.5,
            "--classifier",
            "none",
            "--reveal",
            reveal,
            "--json",
        )
    )
    assert (found["changed"], found["marginal_drift"], found["optimal"]) == (6, 0, True)
    assert found["objective"] == pytest.approx(2.1353, abs=5e-5)
    read = pyarrow.parquet.read_table if name.endswith("parquet") else pyarrow.csv.read_csv
    released, true = read(output), insurance()
    assert released.drop(["Amount"]).equals(true.drop(["Amount"]))
    changed = [
        row for row in range(16) if released["Amount"][row].as_py() != true["Amount"][row].as_py()
    ]
    assert json.loads(reveal.read_text())["changed_rows"] == [row + 1 for row in changed]


def test_swap_in_words_with_a_page(folder, tmp_path):
    page = tmp_path / "page.html"
    text = run(
        "swap",
        folder / "insurance.csv",
        "-o",
        tmp_path / "out.csv",
        "--confidential",
        "Amount",
        "--proportion",
        0.5,
        "--plot",
        page,
        "--seed",
        1,
    )
    assert (
        "proved optimal" in text
        and "an intruder is right about" in text
        and "not for release" in text
    )
    assert page.read_text().count("<img") + page.read_text().count("<svg") >= 2


def test_a_field_with_commas_and_quotes_survives(tmp_path):
    (tmp_path / "in.csv").write_text('name,town,secret\n"a ""b"", c",x,1\nd,,2\n"",y,1\n')
    run(
        "swap",
        tmp_path / "in.csv",
        "-o",
        tmp_path / "out.csv",
        "--confidential",
        "secret",
        "--keys",
        "town",
        "--proportion",
        0.6,
        "--classifier",
        "none",
    )
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("in.csv", "out.csv"))
    assert [line.rpartition(",")[0] for line in before] == [
        line.rpartition(",")[0] for line in after
    ]


def test_hide_writes_baskets_without_the_patterns(folder, tmp_path):
    output, reveal = tmp_path / "out.dat", tmp_path / "cells.json"
    found = json.loads(
        run(
            "hide",
            folder / "baskets.dat",
            "-o",
            output,
            "--patterns",
            folder / "secret.txt",
            "--min-support",
            0.1,
            "--min-confidence",
            0.4,
            "--reveal",
            reveal,
            "--json",
        )
    )
    assert {
        "hiding_failure",
        "misses_cost",
        "artifactual",
        "dissimilarity",
        "changed_transactions",
    } <= found.keys()
    assert found["hiding_failure"] == 0
    baskets = [set(line.split()) for line in output.read_text().splitlines()]
    assert len(baskets) == 400
    assert sum({"10", "11"} <= basket for basket in baskets) == 39
    assert sum({"10", "15"} <= basket for basket in baskets) < 0.4 * sum(
        "10" in basket for basket in baskets
    )
    assert len(json.loads(reveal.read_text())["removed"]) == found["removed"]


def test_hide_in_words_with_a_page(folder, tmp_path):
    page = tmp_path / "page.html"
    text = run(
        "hide",
        folder / "baskets.dat",
        "-o",
        tmp_path / "out.dat",
        "--patterns",
        folder / "secret.txt",
        "--min-count",
        40,
        "--min-confidence",
        0.4,
        "--method",
        "iga",
        "--plot",
        page,
    )
    assert "hiding failure" in text and "10 11" in text and page.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--confidential", "Amout", "--proportion", "0.5"], "did you mean 'Amount'"),
        (["--confidential", "Amount", "--proportion", "1.5"], "outside (0, 1]"),
        (["--confidential", "Gender", "--proportion", "1"], "flipping them back"),
        (["--confidential", "Amount", "--proportion", "0.5", "--bin", "Age"], "does not say how"),
        (
            ["--confidential", "Amount", "--proportion", "0.5", "--bin", "Age=width:3"],
            "does not hold numbers only",
        ),
        (
            ["--confidential", "Amount", "--proportion", "0.5", "--method", "magic"],
            "no swapping method",
        ),
    ],
)
def test_bad_swaps_end_with_code_2_and_write_nothing(folder, tmp_path, arguments, words):
    output = run(
        "swap", folder / "insurance.csv", "-o", tmp_path / "out.csv", "--json", *arguments, code=2
    )
    assert words in json.dumps(json.loads(output)["error"], ensure_ascii=False)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("10 99", "item '99' never occurs"), ("", "names no pattern"), ("10 ->", "is no pattern")],
)
def test_bad_patterns_end_with_code_2(folder, tmp_path, pattern, words):
    (tmp_path / "secret.txt").write_text(pattern)
    arguments = ("--patterns", tmp_path / "secret.txt", "--min-support", 0.1, "--json")
    output = run("hide", folder / "baskets.dat", "-o", tmp_path / "out.dat", *arguments, code=2)
    assert words in json.loads(output)["error"]["message"]


def test_nothing_identifiable_is_success(tmp_path):
    (tmp_path / "in.csv").write_text("key,secret\n" + "a,x\na,y\n" * 4)
    text = run(
        "swap",
        tmp_path / "in.csv",
        "-o",
        tmp_path / "out.csv",
        "--confidential",
        "secret",
        "--proportion",
        0.5,
        "--classifier",
        "none",
        "--json",
    )
    found = json.loads(text)
    assert found["changed"] == 0 and "nothing was changed" in found["notes"][0]
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "in.csv").read_text()
