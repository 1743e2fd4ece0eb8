"""`sfumato mine` as a person calls it."""

import json
import re

import pandas as pd
import pytest
from tests.mine.test_rules import baskets, flipped, mined
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.printing import show
from sfumato.evaluate import ErrorsByLength, LengthErrors
from sfumato.mine.rules import ABOVE_ONE, association_rules


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    run("generate", "survey", "--rows", 3000, "--seed", 1, "-o", folder / "survey.csv")
    schema = run("schema", folder / "survey.csv")
    keep = [
        block
        for block in schema.split("[[attribute]]")[1:]
        if any(f'"{n}"' in block for n in ("sex", "smoker", "region"))
    ]
    (folder / "schema.toml").write_text("".join(f"[[attribute]]{block}" for block in keep))
    perturb = (
        "perturb",
        folder / "survey.csv",
        "--schema",
        folder / "schema.toml",
        "--gamma",
        40,
        "--seed",
        2,
    )
    run(*perturb, "-o", folder / "release.parquet")
    run("generate", "quest", "T5.I2.D2K.N100", "--seed", 1, "-o", folder / "baskets.dat")
    run(
        "perturb",
        folder / "baskets.dat",
        "--keep",
        0.9,
        "--seed",
        2,
        "-o",
        folder / "baskets.parquet",
    )
    return folder


def test_itemsets_rules_and_errors_in_json(folder):
    output = run(
        "mine",
        folder / "release.parquet",
        "--min-support",
        0.1,
        "--rules",
        "--min-confidence",
        0.5,
        "--truth",
        folder / "survey.csv",
        "--json",
    )
    result = json.loads(output)
    assert (result["rows"], result["min_support"]) == (3000, 0.1)
    assert {"items", "length", "support", "stderr"} <= result["itemsets"][0].keys()
    assert all(itemset["stderr"] > 0 for itemset in result["itemsets"])
    assert {"if", "then", "support", "confidence", "lift", "stderr"} <= result["rules"][0].keys()
    assert {"length", "frequent", "support_error", "false_negatives", "false_positives"} <= result[
        "errors"
    ][0].keys()
    assert any("smoker=no" in itemset["items"] for itemset in result["itemsets"])


def test_true_data_have_no_errors(folder):
    result = json.loads(run("mine", folder / "baskets.dat", "--min-count", 100, "--json"))
    assert result["itemsets"] and all(itemset["stderr"] == 0 for itemset in result["itemsets"])
    assert "exact" in run(
        "mine", folder / "survey.csv", "--schema", folder / "schema.toml", "--min-support", 0.2
    )


def test_baskets_against_their_truth(folder):
    output = run(
        "mine",
        folder / "baskets.parquet",
        "--min-support",
        0.05,
        "--truth",
        folder / "baskets.dat",
        "--rules",
    )
    assert "Against the truth" in output and "± " in output and "rules" in output


def test_the_truth_stands_beside_every_itemset_and_rule(folder, tmp_path):
    """In every form; the true supports are those of the same itemsets, mined in the truth."""
    mined = ("mine", folder / "baskets.parquet", "--min-support", 0.05)
    beside = (*mined, "--truth", folder / "baskets.dat")
    names = tmp_path / "names.csv"
    names.write_text("".join(f"{item},thing {item}\n" for item in range(100)))
    exact = json.loads(run("mine", folder / "baskets.dat", "--min-count", 1, "--json"))["itemsets"]
    true = {frozenset(each["items"]): each["support"] for each in exact}
    found = json.loads(run(*beside, "--json"))["itemsets"]
    assert max(each["length"] for each in found) > 1
    for each in found:
        assert each["true_support"] == pytest.approx(true.get(frozenset(each["items"]), 0))
    told = [each["true_support"] for each in found]
    run(*beside, "--names", names, "--maximal", "-o", tmp_path / "few.json")
    few = json.loads((tmp_path / "few.json").read_text())["itemsets"]
    assert 0 < len(few) < len(found) and {each["true_support"] for each in few} <= {*told}
    for name, reader in (("all.csv", pd.read_csv), ("all.parquet", pd.read_parquet)):
        run(*beside, "-o", tmp_path / name)
        assert reader(tmp_path / name)["true_support"].tolist() == pytest.approx(told)
    assert " true " in run(*beside) and "true" not in run(*mined)
    assert "true_support" not in json.loads(run(*mined, "--json"))["itemsets"][0]

    ruled = (*beside, "--rules", "--min-confidence", 0.2)
    for each in json.loads(run(*ruled, "--json"))["rules"]:
        both, begin = (frozenset(each["if"] + more) for more in (each["then"], []))
        assert each["true_support"] == pytest.approx(true.get(both, 0))
        assert each["true_confidence"] == pytest.approx(true.get(both, 0) / true[begin])
    run(*ruled, "-o", tmp_path / "rules.csv")
    assert {"true_support", "true_confidence"} <= {*pd.read_csv(tmp_path / "rules.csv")}


def test_fewer_itemsets(folder, tmp_path):
    (tmp_path / "pairs.dat").write_text("1 2\n" * 8 + "3\n" * 2)  # 1 and 2 always together
    mined = ("mine", tmp_path / "pairs.dat", "--min-support", 0.1)
    assert len(json.loads(run(*mined, "--json"))["itemsets"]) == 4
    for kind in ("--maximal", "--closed"):
        assert [row["items"] for row in json.loads(run(*mined, kind, "--json"))["itemsets"]] == [
            ["3"],
            ["1", "2"],
        ]
    assert (
        len(json.loads(run("mine", folder / "release.parquet", "--top", 3, "--json"))["itemsets"])
        == 3
    )


def test_pictures_and_files(folder, tmp_path):
    for name in ("m.html", "m.png"):
        run(
            "mine",
            folder / "release.parquet",
            "--min-support",
            0.1,
            "--rules",
            "--min-confidence",
            0.1,
            "--truth",
            folder / "survey.csv",
            "--plot",
            tmp_path / name,
        )
    assert (tmp_path / "m.html").read_text().count("<img") == 3
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    for name in ("m.csv", "m.json", "m.parquet"):
        run("mine", folder / "release.parquet", "--min-support", 0.1, "-o", tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100


def test_files_are_in_the_order_that_was_asked_for(folder, tmp_path):
    """They were in that of the search, whatever --sort said."""
    mined = ("mine", folder / "baskets.dat", "--top", 60)
    ruled = (*mined, "--rules", "--min-confidence", 0.05)
    for by in ("lift", "support"):
        asked, files = (*ruled, "--sort", by), {}
        run(*asked, "-o", tmp_path / f"{by}.csv")
        run(*asked, "-o", tmp_path / f"{by}.json")
        run(*asked, "-o", tmp_path / f"{by}.parquet")
        files["csv"] = pd.read_csv(tmp_path / f"{by}.csv")[by]
        files["parquet"] = pd.read_parquet(tmp_path / f"{by}.parquet")[by]
        for told in ((tmp_path / f"{by}.json").read_text(), run(*asked, "--json")):
            files[told] = pd.Series([rule[by] for rule in json.loads(told)["rules"]])
        assert all(len(each) > 3 and each.is_monotonic_decreasing for each in files.values())
    unsorted = json.loads(run(*mined, "--json"))["itemsets"]
    supports = sorted((each["support"] for each in unsorted), reverse=True)
    assert supports != [each["support"] for each in unsorted]
    for name, reader in (("i.csv", pd.read_csv), ("i.parquet", pd.read_parquet)):
        run(*mined, "--sort", "support", "-o", tmp_path / name)
        assert reader(tmp_path / name)["support"].tolist() == supports
    run(*mined, "--sort", "support", "-o", tmp_path / "i.json")
    for told in ((tmp_path / "i.json").read_text(), run(*mined, "--sort", "support", "--json")):
        assert [each["support"] for each in json.loads(told)["itemsets"]] == supports


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--min-support", 0], "--min-support 0 is"),
        (["--min-support", 1.5], "--min-support 1.5 is"),
        ([], "say what is frequent: --min-support, --min-count or --top"),
        (["--min-support", 0.1, "--min-count", 5], "not both"),
        (["--min-support", 0.1, "--maximal", "--closed"], "not both"),
        (["--min-support", 0.1, "--truth", "nowhere.csv"], "nowhere.csv"),
        (["--min-support", 0.01, "--max-candidates", 3], "more than --max-candidates 3"),
        (["--min-support", 0.1, "--plot", "x.gif"], "x.gif"),
        (["--min-support", 0.1, "-o", "x.docx"], "x.docx"),
        (["--min-support", 0.1, "--rules", "--min-confidence", 2], "no fraction"),
        (["--min-support", 7], "--min-support 7 is no fraction"),
    ],
)
def test_bad_input_gets_one_clear_line(folder, arguments, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    output = run("mine", folder / "release.parquet", *arguments, code=2)
    assert words in output and len(output.strip().splitlines()) == 1
    error = json.loads(run("mine", folder / "release.parquet", *arguments, "--json", code=2))[
        "error"
    ]
    assert words in error["message"] + (error["hint"] or "")
    assert not list(tmp_path.iterdir())


def test_a_truth_that_does_not_belong(folder, tmp_path):
    lines = (folder / "survey.csv").read_text().splitlines(keepends=True)
    (tmp_path / "short.csv").write_text("".join(lines[:100]))
    assert "99 records" in run(
        "mine",
        folder / "release.parquet",
        "--min-support",
        0.1,
        "--truth",
        tmp_path / "short.csv",
        code=2,
    )
    (tmp_path / "other.csv").write_text("colour\nred\n")
    output = run(
        "mine",
        folder / "release.parquet",
        "--min-support",
        0.1,
        "--truth",
        tmp_path / "other.csv",
        code=2,
    )
    assert "smoker" in output or "sex" in output
    (tmp_path / "items.txt").write_text("1\n2\n3\n")
    assert "universe" in run(
        "mine",
        folder / "baskets.dat",
        "--min-support",
        0.1,
        "--items",
        tmp_path / "items.txt",
        code=2,
    )


def test_an_undefined_error_is_a_gap_in_the_picture_not_0():
    errors = [LengthErrors(1, 4, 4, 2.0, 0.0, 25.0), LengthErrors(2, 0, 3, None, None, None)]
    figure = ErrorsByLength(errors).plot()[0].figure
    heights = [axes.containers[0].lines[0].get_ydata().tolist() for axes in figure.axes]
    assert [each[0] for each in heights] == [2.0, 0.0, 25.0]
    assert all(each[1] != each[1] for each in heights)


def listed(output: str, heading: str) -> list[list[str]]:
    """The lines of a table that begins with this heading."""
    lines = output.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(heading)) + 1
    return [line.split("  ") for line in lines[start:] if line and not line.startswith("…")]


def test_the_shortest_come_first_unless_sorted(folder):
    asked = ("mine", folder / "baskets.dat", "--min-support", 0.01, "--show", 200)
    lengths = [len(line[0].split(", ")) for line in listed(run(*asked), "itemset")]
    assert lengths == sorted(lengths) and lengths[-1] > 1
    found = listed(run(*asked, "--sort", "support"), "itemset")
    supports = [float(next(part for part in line[1:] if part.strip()).split()[0]) for line in found]
    assert supports == sorted(supports, reverse=True)


@pytest.mark.parametrize("by", ["support", "lift", "confidence"])
def test_rules_are_sorted(folder, by):
    asked = ("mine", folder / "baskets.dat", "--min-support", 0.005, "--show", 500, "--rules")
    output = run(*asked, "--min-confidence", 0.3, "--sort", by)
    rules = listed(output.partition(" rules in")[2], "if")
    place = {"support": 1, "confidence": 2, "lift": 3}[by]
    figures = [float([p for p in line[1:] if p.strip()][place].split()[0]) for line in rules]
    assert len(figures) > 3 and figures == sorted(figures, reverse=True)


@pytest.mark.parametrize(
    ("extra", "words"),
    [(["lifft"], "did you mean 'lift'"), (["lift"], "only rules have a lift; add --rules")],
)
def test_what_cannot_be_sorted_by_is_told(folder, extra, words):
    asked = ("mine", folder / "baskets.dat", "--min-support", 0.01, "--sort")
    assert words in run(*asked, *extra, code=2)


def test_a_page_carries_numbers_truth_and_origin(folder, tmp_path):
    page = tmp_path / "mined.html"
    run(
        *("mine", folder / "release.parquet", "--min-support", 0.1, "--max-length", 2, "--rules"),
        *("--min-confidence", 0.5, "--truth", folder / "survey.csv", "--plot", page),
    )
    text = page.read_text(encoding="utf-8")
    for words in ("P(frequent)", ">true<", "Rules", "Against the truth", "Where this comes from"):
        assert words in text
    for fact in ("release.parquet", "3,000", "gamma 40", "seeded", "Sfumato 0."):
        assert fact in text
    assert re.search(r'<td class="number">0\.\d{4} ±\xa00\.\d{4}</td>', text)
    assert 'alt="Supports ± standard error, drawn with 95 % intervals: ' in text


def test_a_model_is_advised_only_for_itemsets_that_were_asked_for(folder, tmp_path):
    release = tmp_path / "pairs.parquet"
    asked = ("--mechanism", "questionnaire", "--questions", "pairs:1", "--gamma", 40, "--seed", 2)
    where = ("--schema", folder / "schema.toml", "-o", release)
    run("perturb", folder / "survey.csv", *where, *asked)
    said = "itemsets of more than 2 need a model"
    assert said in run("mine", release, "--min-support", 0.2)
    assert said not in run("mine", release, "--min-support", 0.2, "--max-length", 2)


def test_a_confidence_above_one_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    implied = association_rules(mined(flipped(baskets(), 0.75, 5), keep=0.75), min_confidence=0.1)
    show(implied.take(implied.metrics["confidence"] > 1.001).view())
    assert ABOVE_ONE in capsys.readouterr().err
    show(implied.take(implied.metrics["confidence"] < 1).view())
    assert ABOVE_ONE not in capsys.readouterr().err


@pytest.mark.parametrize(
    "file, extra, words",
    [
        ("asked.parquet", "0.02", "more than 1 item together, so nothing is known of longer"),
        ("asked.parquet", "0.99", "lower it, or see the strongest by --top 20; more people"),
        ("baskets.dat", "0.99", "no itemset reaches support 0.99: lower it, or see"),
        ("baskets.dat", "0.12", "a rule needs two items, and no two reach this support"),
        ("baskets.dat", "0.02 --min-confidence 1", "no rule between these itemsets is as sure"),
        ("baskets.dat", "0.02 --max-length 1", "raise --max-length"),
    ],
)
def test_where_nothing_is_found_it_is_said_why_and_what_would_do(folder, file, extra, words):
    if not (folder / "asked.parquet").exists():
        asked = ("--gamma", 19, "--mechanism", "item-set", "--seed", 3)
        run("perturb", folder / "baskets.dat", *asked, "-o", folder / "asked.parquet")
    mined = ("mine", folder / file, "--rules", "--min-support", *extra.split())
    result = CliRunner().invoke(app, list(map(str, mined)))
    assert "\n0 rules" in result.stdout and result.stderr.count("note: ") == 1
    assert words in result.stderr


def test_what_is_found_gets_no_reason_why_not(folder):
    mined = ("mine", folder / "baskets.dat", "--rules", "--min-support", 0.01)
    result = CliRunner().invoke(app, [*map(str, mined), "--min-confidence", "0.1"])
    assert "\n0 rules" not in result.stdout and result.stderr == ""


def test_it_is_said_of_what_errors_are_a_percentage(folder):
    mined = ("mine", folder / "baskets.parquet", "--min-support", 0.05)
    assert "the others: of the truly frequent" in run(*mined, "--truth", folder / "baskets.dat")
