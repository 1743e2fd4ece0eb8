"""Every result shows itself in a notebook: its numbers, and nothing that a label smuggles in."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import sfumato as sf
from sfumato.randomness import seeded
from sfumato.renderers.html import around, spans
from sfumato.renderers.text import SCREEN
from sfumato.table import Table
from sfumato.view import with_error

EVIL = "<script>alert(1)</script>\u202e"
LONG = "Ærøskøbing & 'Österlen' \"北京\" — " + "x" * 28  # sixty letters
PEOPLE = sf.Domain(
    (
        sf.Category("smoker", ("no", "yes")),
        sf.Category("town", ("Lyon", EVIL)),
        sf.Numeric("age", 0, 99, cuts=(30, 60)),
    )
)
RNG = np.random.default_rng(3)
TRUTH = Table(
    PEOPLE,
    (
        RNG.integers(0, 2, 4_000).astype(np.uint8),
        (RNG.random(4_000) < 0.2).astype(np.uint8),
        RNG.integers(0, 100, 4_000).astype(np.uint8),
    ),
)


TABLE = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "b"}
TAGS = TABLE | {"svg", "path", "circle", "pre", "span"}


class Read(HTMLParser):
    """The cells of a page and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.dots: list[float] = []
        self.seen: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        told = dict(attrs)
        self.dots += [float(told["cx"])] if tag == "circle" else []
        self.seen += [told["aria-label"]] if tag == "svg" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data.replace("\N{NO-BREAK SPACE}", " "))


@pytest.fixture(scope="module")
def release() -> sf.Release:
    return sf.perturb(TRUTH, sf.Retention(PEOPLE.binned(), 0.6), seeded(1))


def shown(result: object) -> Read:
    read = Read(result._repr_html_())
    assert read.open == [] and read.tags <= TAGS
    assert "\u202e" not in "".join(read.cells)
    return read


def test_estimates_show_every_cell_with_its_error(release: sf.Release) -> None:
    found = release.marginal(["smoker", "town"])
    read = shown(found)
    frame = found.to_pandas()
    assert list(frame.columns) == [
        "smoker",
        "town",
        "count",
        "count_stderr",
        "count_low",
        "count_high",
    ]
    pairs = zip(frame["count"], frame["count_stderr"], strict=True)
    assert all(with_error(*pair) in read.cells for pair in pairs)
    np.testing.assert_allclose(frame["count_high"] - frame["count"], 1.959964 * frame.count_stderr)
    assert found.to_polars().shape == frame.shape and len(found.to_dicts()) == len(frame)


def test_an_answer_shows_its_interval(release: sf.Release) -> None:
    answer = release.marginal(["smoker"]).where(smoker="yes")
    low, high = answer.interval()
    known = {f"{answer.value:,.0f} ± {answer.stderr:,.0f}", f"[{low:,.0f}, {high:,.0f}]"}
    assert known <= {*shown(answer).cells}
    assert "1,234.5 exact" in shown(sf.Answer(1234.5, 0.0)).cells
    assert answer.to_dict()["low"] == pytest.approx(answer.interval()[0])


def test_sources_and_domains_say_what_they_are(release: sf.Release) -> None:
    assert {"retention", "4,000"} <= set(shown(release).cells)
    assert "4,000" in shown(sf.Exact(TRUTH)).cells
    assert {"smoker", "age", "100"} <= set(shown(PEOPLE).cells)
    numbers = (sf.Numeric("age", 15, 95, cuts=(35, 55)), sf.Numeric("bmi", 12.5, 60, step=0.5))
    assert {"15 to 95 by 1, cut at 35, 55", "12.5 to 60 by 0.5"} <= set(
        shown(sf.Domain(numbers)).cells
    )
    assert "12.5 to 60 by 0.5" in repr(sf.Domain(numbers))


def test_what_is_mined_shows_its_numbers(release: sf.Release) -> None:
    found = sf.frequent_itemsets(release, 0.05)
    rules = sf.association_rules(found, min_confidence=0.2)
    best = found.support.argmax()
    assert with_error(found.support[best], found.stderr[best]) in shown(found).cells
    assert f"{len(rules)} rules in 4,000 rows" in shown(rules).cells
    assert found.to_polars().height == len(found) and rules.to_polars().height == len(rules)


def test_plans_and_audits_show_their_words(release: sf.Release) -> None:
    plan = sf.plan_release(PEOPLE, 4_000, guarantee=sf.Guarantee(19))
    assert plan.best.name in shown(plan).cells and plan.sentences()[0] in shown(plan).cells
    audit = sf.audit_release(release, sf.Exact(TRUTH), rng=seeded(2))
    assert audit.sentences()[0] in shown(audit).cells
    with pytest.raises(sf.SfumatoError, match="not a dict"):
        sf.audit_release(release, {"smoker": ["yes"]})


def test_owners_see_what_was_done() -> None:
    rng = np.random.default_rng(5)
    frame = pa.table(
        {
            "age": rng.integers(20, 60, 200),
            "town": rng.choice(["Lyon", EVIL], 200),
            "ill": rng.choice(["no", "yes"], 200),
        }
    )
    assert "town" in shown(sf.identify(frame, confidential="ill")).cells
    swapped = sf.swap(frame, 0.2, confidential="ill", max_posterior=1.0, rng=seeded(1))
    assert "ill" in shown(swapped).cells
    baskets = [["tea", "milk"]] * 4 + [["tea"]] * 2 + [["milk"]] * 2
    hidden = sf.hide(baskets, ["tea milk"], min_count=3)
    assert "entries removed" in shown(hidden).cells


PICTURED = ("Estimate", "Answer", "CubeResult", "Itemsets", "Rules", "Plan", "HideReport")
LEARNED = ("DecisionTree", "NaiveBayes")


@pytest.mark.parametrize("name", (*PICTURED, *LEARNED, "PramReport"))
def test_numbers_stand_beside_a_small_picture_of_them(name: str) -> None:
    read = shown(results()[name])
    assert len(read.seen) == len(read.dots) > 0 and all(read.seen)
    assert all(0 <= dot <= 150 for dot in read.dots)


def test_the_pictures_are_true_to_scale(release: sf.Release) -> None:
    found = release.marginal(["smoker", "town"])
    value, dots = found.value.ravel(), np.array(shown(found).dots)
    slope, foot = np.polyfit(value, dots, 1)
    np.testing.assert_allclose(dots, foot + slope * value, atol=0.06)  # one axis for all lines
    low, high = (value + side * 1.96 * found.stderr.ravel() for side in (-1, 1))
    html = found._repr_html_()
    for ends in zip(*(foot + slope * end for end in (low, high)), strict=True):
        assert min(abs(start - ends[0]) + abs(stop - ends[1]) for start, stop in lines(html)) < 0.2


def lines(html: str) -> list[tuple[float, float]]:
    """Where the drawn intervals begin and end."""
    found = re.findall(r'd="M([\d.-]+) 7H([\d.-]+)', html)
    return [(float(start), float(stop)) for start, stop in found]


def test_what_is_undefined_is_not_drawn() -> None:
    known, unknown = spans([(2.0, 1.0, 3.0), (math.nan, 0.0, 1.0)])
    assert "<circle" in known and unknown == ""
    assert spans(around([1.0, 2.0], [math.inf, 0.5]))[0] == ""
    (alone,) = spans(around([2.0], [math.nan]))
    assert 'aria-label="2"' in alone


def test_looking_at_a_result_loads_no_drawing_library() -> None:
    look = "import sfumato as sf, sys; sf.Answer(3.0, 1.0)._repr_html_(); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert "matplotlib" not in ended.stdout.split()


OWNED = pa.table(
    {
        "age": RNG.integers(20, 60, 200),
        EVIL: RNG.choice(["Lyon", EVIL, LONG], 200),
        "ill": RNG.choice(["no", LONG], 200),
    }
)
BASKETS = [[EVIL, LONG]] * 4 + [[EVIL]] * 2 + [[LONG]] * 2


@cache
def results() -> dict[str, object]:
    """One of every result, of columns and values that are called as badly as can be."""
    truth = sf.read({EVIL: ["no", EVIL] * 300, LONG: [LONG, "a", "b"] * 200})
    release = sf.perturb(truth, sf.Retention(truth.domain, 0.6), seeded(1))
    alike = sf.read({EVIL: ["no", EVIL] * 300, LONG: ["a", LONG] * 300})  # evidence to be sure of
    learned = sf.perturb(alike, sf.Retention(alike.domain, 0.9), seeded(1))
    found = sf.mine(release, 0.05)
    swapped = sf.swap(OWNED, 0.2, confidential="ill", max_posterior=1.0, rng=seeded(1))
    hidden = sf.hide(BASKETS, [[EVIL, LONG]], min_count=3, rng=seeded(1))
    blanked = sf.suppress(OWNED, 2, keys=[EVIL, "ill"], rng=seeded(1))
    replaced = sf.pram(OWNED, [EVIL, "ill"], gamma=19, rng=seeded(1))
    named = EVIL.replace('"', '""')
    tree = sf.classify(truth, EVIL, features=[LONG], significance=None)
    every = [
        *(tree, sf.classify(learned, LONG, model="bayes"), tree.quality(truth)),
        *(sf.Reconstructed(EVIL, features=[LONG]).fit(release), sf.itemset_errors(found, found)),
        *(release, sf.Exact(truth), truth.domain, release.marginal([EVIL, LONG]), found),
        *(release.marginal([EVIL]).where(**{EVIL: EVIL}), sf.fit(release), swapped, hidden),
        *(sf.association_rules(found, min_confidence=0.1), swapped.reports[0], hidden.report),
        *(blanked, blanked.report, replaced, replaced.reports[0]),
        sf.query(release, f'SELECT "{named}", COUNT(*) AS n FROM t GROUP BY "{named}"'),
        *(sf.plan(truth, gamma=19), sf.audit(release, truth, rng=seeded(2))),
        sf.identify(OWNED, confidential="ill"),
    ]
    return {type(each).__name__: each for each in every}


RESULTS = (
    *("Release", "Exact", "Domain", "Estimate", "Itemsets", "Answer", "Model", "Rules"),
    *("SwapRelease", "SwapReport", "HideRelease", "HideReport", "SuppressRelease"),
    *("SuppressReport", "PramRelease", "PramReport", "CubeResult", "Plan", "Audit"),
    *("Identification", "DecisionTree", "NaiveBayes", "Quality", "Reconstructed"),
    "ErrorsByLength",
)


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_frames_a_dict_a_page_and_a_picture(name: str) -> None:
    import matplotlib.pyplot as plt

    result = results()[name]
    table = result.to_arrow()
    assert table.num_rows > 0 and len(set(table.column_names)) == table.num_columns
    for frame in (result.to_pandas(), result.to_polars()):
        assert frame.shape == table.shape and set(frame.columns) == set(table.column_names)
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False)) and result.to_dicts()
    assert shown(result).cells
    # the attacks of an audit need the order of the reports; the cells of others are many
    if name not in {"Audit", "Reconstructed"}:
        assert result.plot() is not None
    plt.close("all")


TOLD = (
    *(
        "SwapRelease",
        "SwapReport",
        "HideRelease",
        "HideReport",
        "SuppressRelease",
        "Identification",
    ),
    *("SuppressReport", "PramRelease", "PramReport", "CubeResult", "Plan", "Audit", "Quality"),
    *("Itemsets", "Rules", "Domain"),
)


@pytest.mark.parametrize("name", TOLD)
def test_a_result_at_the_prompt_is_one_screen_with_the_figures_of_the_notebook(name: str) -> None:
    """They were constructors of up to 24,700 letters."""
    result = results()[name]
    told = repr(result)
    lines = told.splitlines()
    assert 0 < len(lines) <= SCREEN and max(map(len, lines)) <= 160
    assert "\u202e" not in told and f"{name}(" not in told
    if name not in {"Plan", "Audit"}:  # their words come in another order
        figures = [
            cell for cell in shown(result).cells if re.fullmatch(r"[\d,.]+( %| ± .*)?", cell)
        ]
        assert figures and all(figure in told for figure in figures)


def test_a_long_answer_at_the_prompt_is_cut_and_says_where_the_rest_is() -> None:
    ages = {"age": [*range(60)] * 20}
    told = repr(sf.query(ages, "SELECT age, COUNT(*) AS n FROM t GROUP BY age")).splitlines()
    assert len(told) <= SCREEN and told[-1] == "the rest: to_dict(), and in a notebook"
    assert told[1].split() == ["0", "20", "exact"]
    few = sf.query({"code": ["a", "b"] * 4}, "SELECT code, COUNT(*) AS n FROM t GROUP BY code")
    assert repr(few).splitlines() == ["code        n", "a     4 exact", "b     4 exact"]


def test_a_plan_at_the_prompt_says_what_to_type_and_an_offer_what_it_promises() -> None:
    plan = sf.plan({"smoker": ["no", "yes"] * 50, "sex": ["f", "m", "m", "f"] * 25}, gamma=19)
    told = " ".join(repr(plan).replace("\\\n", "").split())
    assert plan.commands()[0][1] in told and plan.sentences()[0] in told
    assert repr(plan.best).startswith(f"{plan.best.name} for 100 people: gamma 19 (epsilon 2.945)")


def test_a_plan_names_the_file_it_was_made_for(tmp_path: Path) -> None:
    """It said DATA --schema SCHEMA, where the shell's names the file."""
    (tmp_path / "d.csv").write_text("smoker,sex\n" + "no,f\nyes,m\n" * 50)
    PEOPLE.save(tmp_path / "people.toml")
    told = sf.plan(str(tmp_path / "d.csv"), gamma=19).commands()[0][1]
    assert f"perturb {tmp_path / 'd.csv'} " in told and "--schema" not in told
    schema = sf.plan(tmp_path / "people.toml", 100, gamma=19)
    assert f"perturb DATA --schema {tmp_path / 'people.toml'} " in schema.commands()[0][1]
    assert "perturb mine.csv " in schema.commands(data="mine.csv", schema=None)[0][1]
    assert "perturb DATA --schema SCHEMA" in sf.plan(PEOPLE, 100, gamma=19).commands()[0][1]


@pytest.mark.parametrize("wish", [{}, {"target": "sex"}, {"purpose": "counts"}])
def test_what_a_plan_says_in_python_makes_its_best(wish: dict[str, str]) -> None:
    data = {"smoker": ["no", "yes"] * 50, "sex": ["f", "m", "m", "f"] * 25, "town": ["a"] * 100}
    data["town"][:30] = ["b"] * 30
    smoker, sex, town = sf.propose_schema(data)
    schema = sf.Domain((smoker, sex, replace(town, public=True)))
    plan = sf.plan(schema, 100, gamma=19, **wish)
    (call,) = plan.best.calls(plan.guarantee)
    assert " ".join(call.split()) in " ".join(repr(plan).split())
    made = eval(call, {"sf": sf, "data": data, "schema": schema})
    assert made.mechanism == plan.best.mechanism


@pytest.mark.parametrize("wish", [{}, {"target": "sex"}])
@pytest.mark.parametrize("form", ["frame", "file", "schema", "table"])
def test_what_a_plan_of_data_says_in_python_runs_as_typed(
    form: str, wish: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people = pa.table({"smoker": ["no", "yes"] * 50, "sex": ["f", "m", "m", "f"] * 25})
    csv.write_csv(people, "people.csv")
    sf.propose_schema(people).save("people.toml")
    planned = {"file": "people.csv", "schema": "people.toml", "table": sf.read(people)}
    plan = sf.plan(planned.get(form, people), 100, gamma=19, **wish)
    (call,) = plan.calls()
    assert call in repr(plan).replace("\n", " ") or " ".join(call.split()) in repr(plan)
    known = {"sf": sf, "data": planned["table"] if form == "table" else people}
    assert eval(call, known).mechanism == plan.best.mechanism
    assert ("people.csv" in call, "people.toml" in call) == (form == "file", form == "schema")


def test_one_round_of_several_says_so_in_python_too() -> None:
    baskets = [["tea", "milk"], *([[f"i{n}" for n in range(40)]] * 400)]
    one = sf.perturb(baskets, gamma=19, round=1, rng=sf.seeded(1))
    found = sf.mine(one, top=5)
    assert "round 1 alone" in found.notes[0] and "round 1 alone" in " ".join(repr(found).split())
    assert not sf.mine(baskets, top=5).notes


def test_what_a_plan_says_of_rounds_in_python_asks_them() -> None:
    data = [["tea", "milk"], *([[f"i{n}" for n in range(40)]] * 40)]
    plan = sf.plan(data, gamma=19)
    calls = plan.calls()
    assert plan.best.name == "item-set in rounds" and len(calls) == 3
    known = {"sf": sf, "data": data}
    for call in calls:
        assert call in " ".join(repr(plan).split())
        exec(call, known)
    found = sf.mine([known[name] for name in ("one", "two", "three")], top=1)
    assert found.rows == 41


def test_a_mechanism_at_the_prompt_says_what_it_promises() -> None:
    made = sf.perturb({"smoker": ["no", "yes"] * 50}, "questionnaire", gamma=19).mechanism
    assert repr(made) == "questionnaire of smoker: gamma 19 (epsilon 2.945)"


def test_frames_hold_the_figures_of_the_result() -> None:
    found = results()
    assert found["Release"].to_arrow().equals(found["Release"].table.to_arrow())
    assert found["SwapRelease"].to_arrow() is found["SwapRelease"].table
    answer = found["Answer"]
    row = dict(zip(("low", "high"), answer.interval(), strict=True))
    assert answer.to_dicts() == [{"value": answer.value, "stderr": answer.stderr, **row}]
    model = found["Model"].to_pandas().query("column == @LONG")
    marginal = found["Model"].marginal([LONG])
    np.testing.assert_allclose(model["count"], marginal.value)
    assert model["value"].tolist() == list(marginal.cells[0].labels)
    domain = found["Domain"].to_dict()
    assert domain["attribute"][0]["name"] == EVIL  # its own form, that of the schema
    assert found["Domain"].to_dicts()[1]["labels"] == list(found["Domain"][LONG].labels)
    assert found["Plan"].to_pandas()["mechanism"][0] == found["Plan"].best.name
    assert len(found["Audit"].to_pandas()) == len(found["Audit"].checks)
    hidden = found["HideReport"].to_dicts()[0]
    assert (hidden["count_before"], hidden["found_after"]) == (4, False)


def test_a_column_called_count_stays_beside_the_count() -> None:
    people = sf.Exact(sf.read({"count": ["a", "b", "b"], "count_low": ["x", "y", "y"]}))
    frame = people.marginal(["count", "count_low"]).to_pandas()
    assert {"count", "count_2", "count_low", "count_low_2"} < set(frame.columns)
    assert "<td>b</td>" in people.marginal(["count", "count_low"])._repr_html_()
    assert people.marginal(["count"]).to_dict()["count_2"] == ["a", "b"]


WRONG = {
    "mine max_length": lambda: sf.mine(BASKETS, 0.2, max_length="two"),
    "mine min_count": lambda: sf.mine(BASKETS, min_count=[3]),
    "mine candidates": lambda: sf.mine(BASKETS, 0.2, max_candidates=None),
    "rules of a list": lambda: sf.association_rules(BASKETS),
    "rules min_confidence": lambda: sf.association_rules(sf.mine(BASKETS, 0.2), min_confidence="a"),
    "query method": lambda: sf.query(TRUTH, "SELECT COUNT(*) FROM t", method=3),
    "plan purpose": lambda: sf.plan(PEOPLE, 9, gamma=19, purpose=3),
    "plan length": lambda: sf.plan(PEOPLE, 9, gamma=19, length=2.5),
    "plan pairs": lambda: sf.plan(PEOPLE, 9, gamma=19, pairs=["smoker", "age"]),
    "perturb copies": lambda: sf.perturb(TRUTH, gamma=19, copies=1.5),
    "fit order": lambda: sf.fit(results()["Release"], order=np.arange(2)),
    "classify target": lambda: sf.classify(TRUTH, 3),
    "classify model": lambda: sf.classify(TRUTH, "smoker", model=["tree"]),
    "classify features": lambda: sf.classify(TRUTH, "smoker", features=3),
    "classify depth": lambda: sf.classify(TRUTH, "smoker", max_depth=None),
    "audit order": lambda: sf.audit(results()["Release"], results()["Exact"], order=3),
    "audit rng": lambda: sf.audit(results()["Release"], results()["Exact"], rng=3),
    "hide rng": lambda: sf.hide(BASKETS, [[EVIL, LONG]], min_count=3, rng=3),
    "hide margin": lambda: sf.hide(BASKETS, [[EVIL, LONG]], min_count=3, margin=float("nan")),
    "hide disclosure": lambda: sf.hide(BASKETS, [[EVIL, LONG]], min_count=3, disclosure="a"),
    "swap rng": lambda: sf.swap(OWNED, 0.2, confidential="ill", rng=np.random.default_rng(1)),
    "swap bins": lambda: sf.swap(OWNED, 0.2, confidential="ill", bins="age"),
    "swap method": lambda: sf.swap(OWNED, 0.2, confidential="ill", method=["greedy"]),
    "swap folds": lambda: sf.swap(OWNED, 0.2, confidential="ill", folds=-1),
    "identify weights": lambda: sf.identify(OWNED, confidential="ill", weights=3),
    "identify population": lambda: sf.identify(OWNED, confidential="ill", population="all"),
    "suppress seconds": lambda: sf.suppress(OWNED, 2, keys=["ill"], seconds=None),
    "pram columns": lambda: sf.pram(OWNED, 3, gamma=19),
    "pram within": lambda: sf.pram(OWNED, "ill", gamma=19, within=[3]),
    "marginal": lambda: sf.Exact(TRUTH).marginal([["smoker"]]),
    "interval": lambda: sf.Answer(1.0, 1.0).interval("95 %"),
    "retention": lambda: sf.Retention(PEOPLE.binned(), "half"),
    "category": lambda: sf.Category("smoker", 3),
    "cuts": lambda: sf.Numeric("age", 0, 99, cuts=30),
    "domain": lambda: sf.Domain(["smoker"]),
    "seed": lambda: sf.seeded(None),
    "seed of no number": lambda: sf.seeded(math.inf),
    "read schema": lambda: sf.read({"a": ["x", "y"]}, "schema.toml"),
    "sample rows": lambda: sf.sample(results()["Model"], "ten"),
    "sample a release": lambda: sf.sample(results()["Release"], 10),
    "save a list": lambda: sf.save_model(BASKETS, "baskets.json"),
    "fit a list": lambda: sf.fit_release(BASKETS),
    "errors of lists": lambda: sf.itemset_errors(BASKETS, BASKETS),
    "plan guarantee": lambda: sf.plan_release(PEOPLE, 9, guarantee="gamma 19"),
    "plan domain": lambda: sf.plan_release(None, 9, guarantee=sf.Guarantee(19)),
    "pram gamma": lambda: sf.pram(OWNED, "ill", gamma=math.inf),
    "perturb copies beyond reason": lambda: sf.perturb(TRUTH, gamma=19, copies=10**30),
}


MISSPELT = {
    "perturb": lambda: sf.perturb(TRUTH, gama=19),
    "plan": lambda: sf.plan(PEOPLE, 9, gama=19),
    "query": lambda: sf.query(TRUTH, "SELECT COUNT(*) FROM t", metod="em"),
    "fit": lambda: sf.fit(results()["Release"], ordr=2),
    "audit": lambda: sf.audit(results()["Release"], results()["Exact"], oder=None),
    "identify": lambda: sf.identify(OWNED, confidental="ill"),
    "swap": lambda: sf.swap(OWNED, 0.2, confidental="ill"),
    "suppress": lambda: sf.suppress(OWNED, 2, key=["ill"]),
    "pram": lambda: sf.pram(OWNED, "ill", gama=19),
    "hide": lambda: sf.hide(BASKETS, [[EVIL]], min_cout=3),
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_argument_is_told_with_its_near_miss(name: str) -> None:
    with pytest.raises(sf.SfumatoError, match=rf"^{name} has no option .*did you mean") as told:
        MISSPELT[name]()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_told_in_one_line(name: str) -> None:
    with pytest.raises(sf.SfumatoError) as told:
        WRONG[name]()
    assert "\n" not in str(told.value) and len(str(told.value)) < 400


def test_records_and_a_classifiers_quality_are_frames_too() -> None:
    people = {"sex": ["f", "m", "m", "f"] * 50, "smoker": ["no", "no", "yes", "no"] * 50}
    table = sf.read(people)
    assert table.to_pandas().to_dict("list") == people == table.to_dict()
    quality = sf.classify(people, "smoker", features=["sex"]).quality(people)
    counted = quality.to_pandas()
    assert (
        list(counted.columns) == ["truth", "predicted", "count"] and counted["count"].sum() == 200
    )
    assert "truth \\ predicted" in quality._repr_html_() and "AUC" in quality._repr_html_()
    assert quality.to_dict()["records"] == 200


def test_whatever_is_held_in_a_hand_shows_itself(release: sf.Release) -> None:
    promise = sf.Guarantee(19)
    assert "5 % before, at most 50 % after" in shown(promise).cells
    assert promise.to_dict()["worst_posterior"] == pytest.approx(0.5)
    assert str(release.mechanism.guarantee) in shown(release.mechanism).cells
    best = sf.plan(PEOPLE, 4_000, gamma=19).best
    assert best.command() in "".join(shown(best).cells)
    both = sf.combine([release, release])
    assert "8,000 people in 2 releases" in shown(both).cells and "8,000" in repr(both)
    assert "4,000" in shown(TRUTH).cells and "retention" in shown(release.table).cells
    assert "Lyon" not in "".join(shown(TRUTH).cells)  # no record is shown
    assert "it has learned nothing yet: fit(source)" in shown(sf.NaiveBayes("smoker")).cells


def test_leaves_show_their_people_and_their_errors(release: sf.Release) -> None:
    tree = sf.DecisionTree("smoker", features=["town"], significance=None, max_depth=1).fit(release)
    table = release.marginal(["town", "smoker"])
    frame = tree.to_pandas().sort_values("count", ascending=False)
    towns = [table.where(town=town) for town in ("Lyon", EVIL)]
    np.testing.assert_allclose(frame["count"], [town.value for town in towns])
    np.testing.assert_allclose(frame["count_stderr"], [town.stderr for town in towns])
    weights = {town: table.indicator(town=town) for town in ("Lyon", EVIL)}
    for town, line in zip(weights, frame.itertuples(), strict=True):
        labelled = table.indicator(town=town, smoker=line.label)
        assert line.share_stderr == pytest.approx(table.ratio(labelled, weights[town]).stderr)
        assert f"{line.count:,.0f} ± {line.count_stderr:,.0f}" in shown(tree).cells
    exact = sf.DecisionTree("smoker", features=["town"], significance=None).fit(TRUTH).to_pandas()
    assert not exact[["count_stderr", "share_stderr"]].any(axis=None)


def test_naive_bayes_shows_what_speaks_for_a_class(release: sf.Release) -> None:
    bayes = sf.NaiveBayes("smoker", features=["town"], smoothing=0).fit(release)
    table = release.marginal(["town", "smoker"])
    frame = bayes.to_pandas().set_index(["value", "class"])
    for town in ("Lyon", EVIL):
        for smoker in ("no", "yes"):
            line, found = frame.loc[(town, smoker)], table.where(town=town, smoker=smoker)
            assert (line["count"], line["count_stderr"]) == pytest.approx(
                (found.value, found.stderr)
            )
            ratio = table.ratio(
                table.indicator(town=town, smoker=smoker), table.indicator(smoker=smoker)
            )
            assert (line["share"], line["share_stderr"]) == pytest.approx(
                (ratio.value, ratio.stderr)
            )
    first = bayes.telling(0, 1)[0]
    assert with_error(first.times.value, first.times.stderr) in shown(bayes).cells
    with pytest.raises(sf.SfumatoError, match="place=9"):
        bayes.telling(9)
