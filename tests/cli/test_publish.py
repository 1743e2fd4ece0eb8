"""`sfumato identify`, `swap` and `hide` as a person calls them."""

import hashlib
import json
import re
from html import unescape
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from papers.li_sarkar import insurance
from sfumato.cli import app


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def told(*arguments: object, code: int = 0) -> dict[str, Any]:
    """The JSON object on standard output; notes go elsewhere."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


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
            "--anyway",
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
        "--anyway",
        "--plot",
        page,
        "--seed",
        1,
    )
    assert (
        "proved optimal" in text
        and "An intruder is right about" in text
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
    assert "hiding failure" in text and "10 11" in text
    shown = re.findall(r"<tr><td>(10 [^<]*)</td>.*<td>hidden", page.read_text())
    assert shown == ["10 11", "10 -&gt; 15"]  # the numbers that the bars draw, as a table


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
        "--json",
    )
    found = json.loads(text)
    assert found["changed"] == 0 and "nothing was changed" in found["notes"][0]
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "in.csv").read_text()


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Two thousand people: a number, two words, a weight, a skewed secret."""
    rng = np.random.default_rng(3)
    age = rng.integers(18, 80, 2000)
    table = pyarrow.table(
        {
            "age": age,
            "town": rng.choice(["Ghent", "Lyon", "Turin", "York"], 2000),
            "shoe": rng.integers(35, 47, 2000),
            "weight": rng.integers(5, 50, 2000),
            "ill": np.where(rng.random(2000) < 0.1 + 0.2 * (age > 50), "yes", "no"),
        }
    )
    path = tmp_path_factory.mktemp("people") / "people.csv"
    pyarrow.csv.write_csv(table, path)
    return path


KEYS = ("--confidential", "ill", "--keys", "age,town,shoe", "--seed", 1)


def test_a_swap_that_cannot_be_had_says_what_would_do_and_that_does(people, tmp_path):
    output = tmp_path / "out.csv"
    text = run("swap", people, "-o", output, *KEYS, "--proportion", 0.9, "--json", code=2)
    error = json.loads(text)["error"]
    assert error["kind"] == "privacy" and "cannot stay" in error["message"]
    assert not output.exists()
    assert "=" not in error["hint"]  # as it is typed, not as in Python
    drift = error["hint"].split("--drift ")[1].split()[0]
    found = told(
        *("swap", people, "-o", output, *KEYS, "--proportion", 0.9),
        *("--drift", drift, "--json", "--anyway"),
    )
    assert 0 < found["marginal_drift"] <= int(drift)
    least = ("--proportion", 0.9, "--drift", "any", "--force", "--json", "--anyway")
    again = told("swap", people, "-o", output, *KEYS, *least)
    assert again["marginal_drift"] == int(drift) and again["changed"] == found["changed"]
    assert again["objective"] == pytest.approx(found["objective"])
    before, after = ({t["value"]: t[when] for t in found["totals"]} for when in ("before", "after"))
    assert abs(before["no"] - after["no"]) == found["marginal_drift"]


def test_the_stated_limit_is_kept_in_the_file_that_is_written(people, tmp_path):
    output = tmp_path / "out.csv"
    options = ("--proportion", 0.4, "--drift", "any", "--max-posterior", 0.85, "--json")
    found = told("swap", people, "-o", output, *KEYS, *options)
    truth, release = pyarrow.csv.read_csv(people), pyarrow.csv.read_csv(output)
    keys = list(zip(*(truth[k].to_pylist() for k in ("age", "town", "shoe")), strict=True))
    shown: dict[str, list[str]] = {}
    for key, true, seen in zip(
        keys, truth["ill"].to_pylist(), release["ill"].to_pylist(), strict=True
    ):
        if keys.count(key) == 1:
            shown.setdefault(seen, []).append(true)
    surest = max(max(map(true.count, set(true))) / len(true) for true in shown.values())
    assert surest == pytest.approx(found["intruder"]["worst"]["posterior"])
    assert surest <= 0.85


def test_binned_keys_go_out_in_bins_or_raw_with_a_word_about_it(people, tmp_path):
    cut = ("--bin", "age=width:20", "--bin", "shoe=width:9", "--proportion", 0.2, "--drift", "any")
    binned = told("swap", people, "-o", tmp_path / "bins.csv", *KEYS, *cut, "--json")
    ages = set(pyarrow.csv.read_csv(tmp_path / "bins.csv")["age"].to_pylist())
    assert len(ages) == 20 and all(age.startswith("[") for age in ages)
    assert not any("unique in the file as released" in note for note in binned["notes"])
    raw = told("swap", people, "-o", tmp_path / "raw.csv", *KEYS, *cut, "--release-raw", "--json")
    assert pyarrow.csv.read_csv(tmp_path / "raw.csv")["age"][0].as_py() > 17
    assert any("unique in the file as released" in note for note in raw["notes"])
    unique = [one["released"]["ill"]["sample_uniques"] for one in (binned, raw)]
    assert unique[0] < unique[1]


def test_identify_tells_the_population_of_a_sample(people):
    arguments = ("--confidential", "ill", "--keys", "age,town,shoe")
    found = told("identify", people, *arguments, "--weights", "weight", "--json")
    population = found["population"]
    assert population["size"] == sum(pyarrow.csv.read_csv(people)["weight"].to_pylist())
    assert 0 < population["right_matches"]["value"] < 1
    assert "independent" in population["assumes"]
    text = run("identify", people, *arguments, "--population", 50_000)
    assert "as a sample of 50,000 people" in text and "a unique match is right with" in text
    page = people.with_name("sample.html")
    run("identify", people, *arguments, "--population", 50_000, "--plot", page)
    seen = page.read_text(encoding="utf-8")
    assert "as a sample of 50,000 people" in seen and "a unique match is right with" in seen
    message = run("identify", people, *arguments, "--population", 10, "--json", code=2)
    assert "smaller than the 2,000 records" in json.loads(message)["error"]["message"]


DOSSIERS = {
    "identify": ("--confidential", "ill", "--keys", "age,town,shoe", "--population", 9000),
    "swap": (*KEYS, "--proportion", 0.2, "--drift", "any"),
    "suppress": ("--confidential", "ill", "--k", 3, "--seconds", 1, "--keys", "age,town,shoe"),
    "pram": ("--column", "ill", "--gamma", 9, "--within", "town"),
}


@pytest.mark.parametrize("command", DOSSIERS)
def test_a_dossier_is_a_page_and_its_numbers(people, tmp_path, command):
    output = () if command == "identify" else ("-o", tmp_path / "out.csv")
    options = (*DOSSIERS[command], "--dossier", tmp_path / "record.html")
    found = told(command, people, *output, *options, "--json")
    page = (tmp_path / "record.html").read_text()
    record = json.loads((tmp_path / "record.json").read_text())
    for heading in ("What was done", "Risk", "What remains"):
        assert heading in page
    assert record["remains"] and all(word in page for word in ("SHA-256", "people.csv"))
    assert record["files"]["input"]["sha256"] == hashlib.sha256(people.read_bytes()).hexdigest()
    if output:
        written = (tmp_path / "out.csv").read_bytes()
        assert record["files"]["output"]["sha256"] == hashlib.sha256(written).hexdigest()
        assert "What it cost" in page
    assert {name: found[name] for name in record["result"] if name != "seconds"} == {
        name: value for name, value in record["result"].items() if name != "seconds"
    }
    again = run(command, people, *output, *options, "--json", code=2)
    assert "exists" in json.loads(again)["error"]["message"]


def test_a_swaps_dossier_warns_beside_the_count(people, tmp_path):
    keys = ("--confidential", "ill", "--keys", "age,town", "--seed", 1)
    options = (*keys, "--proportion", 0.2, "--drift", "any", "--dossier", tmp_path / "d")
    found = told("swap", people, "-o", tmp_path / "out.csv", *options, "--json")
    grouped = found["intruder"]["grouped"]
    assert grouped and f"of the {grouped:,} records of groups" in (tmp_path / "d.html").read_text()
    assert "no protection by itself" in (tmp_path / "d.html").read_text()


def test_hiding_has_a_dossier_a_margin_and_wall_time(folder, tmp_path):
    options = ("--min-count", 60, "--min-confidence", 0.4, "--margin", "10%", "--seconds", 1)
    arguments = ("-o", tmp_path / "out.dat", "--patterns", folder / "secret.txt", *options)
    found = told(
        "hide", folder / "baskets.dat", *arguments, "--dossier", tmp_path / "record", "--json"
    )
    assert found["margin"] == 6 and found["seconds"] >= found["hiding_seconds"] > 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["files"]["patterns"]["name"] == "secret.txt"
    baskets = [set(line.split()) for line in (tmp_path / "out.dat").read_text().splitlines()]
    assert sum({"10", "11"} <= basket for basket in baskets) < 60 - 6
    text = run("hide", folder / "baskets.dat", *arguments, "--margin", "soon", code=2)
    assert "exists" in text or "no margin" in text


def test_a_dossier_speaks_as_the_shell_does(folder, people, tmp_path):
    """Shares are per cent in both; the dossier of hiding had 0.01235 where the shell had 1.24 %."""
    options = ("--min-count", 60, "--min-confidence", 0.4, "--seconds", 1)
    arguments = ("-o", tmp_path / "out.dat", "--patterns", folder / "secret.txt", *options)
    page = tmp_path / "trade.html"
    files = ("--dossier", tmp_path / "hidden", "--plot", page)
    text = run("hide", folder / "baskets.dat", *arguments, *files)
    dossier = words_of(tmp_path / "hidden.html")
    said = [line for line in text.splitlines() if "%" in line]
    assert len(said) >= 4
    for line in said:
        name, figure = re.split("  +", line.strip(), maxsplit=1)
        assert f"{name} {figure}" in dossier
    assert re.search(r"ψ (iga|.*), misses cost .* 0.1 [0-9.]+ % ", words_of(page))
    seen = ("--confidential", "ill", "--keys", "age,town,shoe", "--population", 50_000)
    run("identify", people, *seen, "--dossier", tmp_path / "seen")
    assert "sampling fraction 4.000 %" in words_of(tmp_path / "seen.html")


def words_of(page):
    """The words of a page, without its marks."""
    text = unescape(re.sub("<[^>]+>", " ", page.read_text(encoding="utf-8")))
    return " ".join(text.split())


def test_suppress_writes_what_it_says(people, tmp_path):
    output, reveal = tmp_path / "out.csv", tmp_path / "cells.json"
    options = ("--keys", "age,town,shoe", "--bin", "age=frequency:4", "--k", 4, "--seconds", 1)
    found = told("suppress", people, "-o", output, *options, "--reveal", reveal, "--json")
    table = pyarrow.csv.read_csv(
        output, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    )
    rows = list(zip(*(table[k].to_pylist() for k in ("age", "town", "shoe")), strict=True))
    assert min(rows.count(row) for row in set(rows)) >= 4
    blanks = sum(cell is None for row in rows for cell in row)
    assert blanks == found["cells"] == len(json.loads(reveal.read_text())["blanked"])
    text = run("suppress", people, "-o", tmp_path / "b.csv", *options)
    assert "cells blanked" in text and "smallest group" in text


def test_pram_keeps_counts_nearly_and_tells_gamma(people, tmp_path):
    options = ("--column", "ill", "--rho1", 0.05, "--rho2", 0.5)
    found = told("pram", people, "-o", tmp_path / "out.csv", *options, "--json")
    assert 18.9 < found["gamma"] <= 19 and found["secure"]
    shown = pyarrow.csv.read_csv(tmp_path / "out.csv")["ill"].to_pylist()
    for count in found["columns"][0]["counts"]:
        assert shown.count(count["value"]) == count["shown"]
        assert abs(count["shown"] - count["true"]) < 6 * count["stderr"]
    text = run("pram", people, "-o", tmp_path / "b.csv", *options, "--seed", 1)
    assert "not for release" in text and "gamma" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("swap", *KEYS, "--proportion", 0.2, "--drift", "some"), "is no number of records"),
        (("swap", *KEYS, "--proportion", 0.2, "--max-posterior", 2), "lies outside (0, 1]"),
        (("suppress", "--k", 3), "which columns an intruder may know was not said"),
        (("suppress", "--keys", "age", "--k", 1), "--k 1 asks for nothing"),
        (("pram", "--column", "ill"), "say how much is replaced, one way"),
        (("pram", "--column", "il", "--gamma", 9), "did you mean 'ill'"),
        (
            ("swap", *KEYS, "--proportion", 0.2, "--dossier", "D", "--plot", "D.html"),
            "is to hold two things",
        ),
        (("swap", *KEYS, "--proportion", 0.2, "--dossier", "D.pdf"), "not '.pdf'"),
    ],
)
def test_bad_wishes_of_owners_end_with_code_2(people, tmp_path, arguments, words):
    command, *options = arguments
    output = run(command, people, "-o", tmp_path / "out.csv", "--json", *options, code=2)
    assert words in json.dumps(json.loads(output)["error"], ensure_ascii=False)
    assert not (tmp_path / "out.csv").exists()


def test_a_page_traces_proportions_with_gaps_where_none_can_be_had(people, tmp_path):
    page = tmp_path / "page.html"
    run(
        *("swap", people, "-o", tmp_path / "out.csv", *KEYS),
        *("--proportion", 0.2, "--drift", 80, "--plot", page),
    )
    assert page.read_text().count("<img") == 2


def test_a_page_shows_the_risk_of_every_column_that_was_exchanged(folder, tmp_path):
    page = tmp_path / "page.html"
    run(
        *("swap", folder / "insurance.csv", "-o", tmp_path / "out.csv", "--drift", "any"),
        *("--confidential", "Amount,Gender", "--proportion", 0.5, "--anyway"),
        *("--plot", page, "--seed", 1),
    )
    text = page.read_text()
    assert "<h1>Swapping Amount, Gender</h1>" in text
    for name in ("Amount", "Gender"):
        assert f"<h2>Risk before and after: {name}</h2>" in text
    assert text.count("An intruder is right about") == 2 and text.count("<img") == 3


def test_a_release_that_misses_the_aim_is_written_only_if_that_is_said(people, tmp_path):
    output = tmp_path / "out.csv"
    options = (*KEYS, "--proportion", 0.2, "--drift", "any", "--max-gain", 0.1)
    error = json.loads(run("swap", people, "-o", output, *options, "--json", code=2))["error"]
    assert error["kind"] == "privacy" and "the aim of at most 0.1 is missed" in error["message"]
    assert "a larger --proportion" in error["hint"] and "--anyway" in error["hint"]
    assert not output.exists()
    found = told("swap", people, "-o", output, *options, "--json", "--anyway")
    assert output.exists() and not found["verdict"]["met"]
    intruder = found["intruder"]
    alone = max(intruder[way] for way in ("believing", "keys_alone", "weighing_keys"))
    together = max(intruder["groups_believing"], intruder["groups_informed"])
    gains = alone - intruder["baseline"], together - intruder["groups_baseline"]
    assert found["verdict"]["gain"] == pytest.approx(100 * max(gains))
    looser = told("swap", people, "-o", output, *options[:-1], 100, "--json", "--force")
    assert looser["verdict"]["met"]
    wrong = run("swap", people, "-o", output, *options[:-1], 101, "--json", "--force", code=2)
    assert "--max-gain 101 is no number of percentage points" in wrong


def test_words_page_and_dossier_begin_with_the_verdict(people, tmp_path):
    kept = tmp_path / "kept.html"
    options = ("--keys", "age,town", "--k", 3, "--seconds", 1, "--dossier", kept)
    text = run("suppress", people, "-o", tmp_path / "out.csv", *options)
    sentence = (
        "An intruder gains 33.3 points over no release, most about which record is whose (33.3 % "
        "right, 0.0 % without): the aim of at most 33.3 is met"
    )
    assert " ".join(text.split()).startswith(f"written: {tmp_path / 'out.csv'} {sentence}")
    page = kept.read_text().replace("&nbsp;", " ").replace("\u00a0", " ")
    assert f'</h1>\n<p class="verdict good">{sentence}</p>' in page
    assert json.loads(kept.with_suffix(".json").read_text())["verdict"]["text"] == sentence
    whole = run("identify", people, "--confidential", "ill", "--keys", "age,town,shoe")
    assert "as much as from the untouched file" in whole and "is missed" in whole
