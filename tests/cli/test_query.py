"""`sfumato query` as a person calls it."""

import json

import pytest
from typer.testing import CliRunner

from sfumato.cli import app


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("query")
    run("generate", "survey", "--rows", 5000, "--seed", 1, "-o", folder / "survey.csv")
    run(
        "perturb",
        folder / "survey.csv",
        "--mechanism",
        "retention",
        "--keep",
        0.6,
        "--seed",
        2,
        "-o",
        folder / "release.parquet",
    )
    return folder / "release.parquet"


def test_json_has_the_stated_shape(release):
    result = json.loads(run("query", release, "SELECT sex, COUNT(*) FROM t GROUP BY sex", "--json"))
    assert result["columns"] == ["sex", "count"] and result["method"] == "invert"
    assert [row["sex"] for row in result["rows"]] == ["female", "male"]
    assert set(result["rows"][0]["count"]) == {"value", "stderr", "low", "high"}
    assert sum(row["count"]["value"] for row in result["rows"]) == pytest.approx(5000)


def test_people_read_a_table_with_errors(release):
    output = run("query", release, "SELECT smoker, COUNT(*) AS n, AVG(age) FROM t GROUP BY smoker")
    assert "± " in output and "95 % interval" in output and "avg_age" in output
    assert "exact" in run("query", release, "SELECT COUNT(*) FROM t")


def test_rows_needed_and_the_likely_counts(release):
    one = json.loads(
        run(
            "query",
            release,
            "SELECT smoker, COUNT(*) FROM t GROUP BY smoker",
            "--within",
            "2%",
            "--json",
        )
    )
    assert one["within"]["theorem_1"] > one["within"]["rows"] > 0
    assert one["within"]["words"].startswith("within 2 % of each answer, at 95 %: ")
    two = json.loads(
        run(
            "query",
            release,
            "SELECT COUNT(*) FROM t WHERE smoker = 'yes' AND age > 50",
            "--within",
            "0.02",
            "--json",
        )
    )
    assert two["within"]["theorem_1"] is None and two["within"]["rows"] > 0
    assert (
        json.loads(
            run(
                "query",
                release,
                "SELECT smoker, COUNT(*) FROM t GROUP BY 1",
                "--method",
                "em",
                "--json",
            )
        )["method"]
        == "em"
    )


def test_groups_are_drawn(release, tmp_path):
    run(
        "query",
        release,
        "SELECT region, COUNT(*), AVG(bmi) FROM t GROUP BY region",
        "--plot",
        tmp_path / "q.png",
    )
    assert (tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["SELECT COUNT(*) FROM t WHERE"], "does not parse"),
        (["SELECT COUNT(*) FROM t WHERE smokr = 'yes'"], "did you mean 'smoker'"),
        (["SELECT MAX(age) FROM t"], "MAX"),
        (["SELECT COUNT(*) FROM t", "--method", "guess"], "no method 'guess'"),
        (["SELECT COUNT(*) FROM t", "--level", "95"], "--level 95"),
        (["SELECT COUNT(*) FROM t", "--within", "much"], "not a share"),
        (["SELECT COUNT(*) FROM t WHERE age > 500"], "outside its domain"),
    ],
)
def test_bad_input_gets_one_clear_line(release, arguments, words):
    output = run("query", release, *arguments, code=2)
    assert words in output and len(output.strip().splitlines()) == 1
    assert words in json.loads(run("query", release, *arguments, "--json", code=2))["error"][
        "message"
    ] + str(json.loads(run("query", release, *arguments, "--json", code=2))["error"]["hint"])


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """0, 1 and 2 in a column that may hold a thousand million."""
    folder = tmp_path_factory.mktemp("narrow")
    numbers = [0, 1, 2, 1, 1, 0, 2, 2, 1, 0] * 100
    (folder / "inc.csv").write_text("income\n" + "\n".join(map(str, numbers)) + "\n")
    (folder / "inc.toml").write_text(
        '[[attribute]]\nname = "income"\ntype = "numeric"\nmin = 0\nmax = 1000000000\n'
    )
    return folder


def test_a_narrow_column_of_a_wide_range_has_its_own_spread_and_quantiles(narrow):
    """Version 0.1.0 said -4,691.597, 1,953,124.5 and 3,515,624.1, all of them exact."""
    sql = "SELECT VAR_SAMP(income) AS v, MEDIAN(income) AS m, PERCENTILE_DISC(0.9) WITHIN GROUP "
    sql += "(ORDER BY income) AS p, SUM(income) AS s FROM t"
    schema = ("--schema", narrow / "inc.toml")
    (row,) = json.loads(run("query", narrow / "inc.csv", sql, *schema, "--json"))["rows"]
    assert row["v"]["value"] == pytest.approx(0.6 * 1000 / 999, rel=1e-14)
    assert (row["m"]["value"], row["p"]["value"], row["s"]["value"]) == (1, 2, 1000)
    assert "1,000 exact" in run("query", narrow / "inc.csv", sql, *schema)


def test_what_is_undefined_is_a_dash_and_null(narrow):
    sql = "SELECT SUM(income) AS s, COUNT(*) AS n FROM t WHERE income > 5"
    schema = ("--schema", narrow / "inc.toml")
    assert "–" in run("query", narrow / "inc.csv", sql, *schema)
    (row,) = json.loads(run("query", narrow / "inc.csv", sql, *schema, "--json"))["rows"]
    assert set(row["s"].values()) == {None} and row["n"]["value"] == 0


def test_a_picture_leaves_out_what_is_undefined(narrow):
    target = narrow / "q.svg"
    sql = (
        "SELECT income < 2 AS low, STDDEV(income) FILTER (WHERE income > 1) AS s FROM t GROUP "
        "BY low"
    )
    run("query", narrow / "inc.csv", sql, "--schema", narrow / "inc.toml", "--plot", target)
    assert target.read_text().startswith("<?xml")


def test_what_is_exact_of_a_release_is_not_called_true_records(release, tmp_path):
    run("query", release, "SELECT COUNT(*) FROM t", "--plot", tmp_path / "n.html")
    page = (tmp_path / "n.html").read_text(encoding="utf-8")
    assert "Exact: no noise" in page and "true records" not in page


def test_many_answers_have_their_intervals_too(release):
    asked = "SELECT smoker, COUNT(*) AS n, AVG(age), MEDIAN(age) FROM t GROUP BY smoker"
    lines = run("query", release, asked).splitlines()
    assert lines[0].split("  ")[0] == "smoker" and lines[0].endswith("95 % interval")
    told = [line.split() for line in lines[1:7]]
    assert [(line[0], line[1]) for line in told] == [
        (group, name) for group in ("no", "yes") for name in ("n", "avg_age", "median_age")
    ]
    assert all("±" in line and line[-1].endswith("]") for line in told)
    shown = json.loads(run("query", release, asked, "--json"))
    assert shown["columns"] == ["smoker", "n", "avg_age", "median_age"]


def test_two_answers_with_long_names_stand_one_below_the_other(release):
    quartiles = (f"PERCENTILE_CONT(0.{q}) WITHIN GROUP (ORDER BY age)" for q in (25, 75))
    lines = run("query", release, f"SELECT {', '.join(quartiles)} FROM t").splitlines()
    assert [line.split()[0] for line in lines[:3]] == [
        "answer",
        "percentile_cont_0.25_age",
        "percentile_cont_0.75_age",
    ]
    (heads, *_) = run("query", release, "SELECT AVG(age), MEDIAN(age) FROM t").splitlines()
    assert heads.count("± stderr") == 1 and heads.count("interval") == 2
