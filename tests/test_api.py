"""The command's words in Python: on files, frames and sources alike, and messages of wrong
arguments; the packages of the same names stay where they were.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import api
from sfumato.randomness import seeded

RNG = np.random.default_rng(5)
PEOPLE = {
    "smoker": RNG.choice(["no", "yes"], 3_000, p=[0.7, 0.3]).tolist(),
    "sex": RNG.choice(["female", "male"], 3_000).tolist(),
}
COUNT = "SELECT COUNT(*) AS n FROM t WHERE smoker = 'yes'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("verbs")
    pandas.DataFrame(PEOPLE).to_csv(place / "people.csv", index=False)
    sf.propose_schema(PEOPLE).save(place / "people.toml")
    return place


@pytest.fixture(scope="module")
def release(folder: Path) -> sf.Release:
    made = sf.perturb(PEOPLE, gamma=19, rng=seeded(1))
    made.save(folder / "blurred.parquet")
    return made


def test_the_packages_stay_beside_the_functions() -> None:
    script = """
import sfumato as sf
from sfumato.plan.candidates import Plan
from sfumato.plan import plan_release, Candidate
import sfumato.mine.rules, sfumato.audit.attack
from sfumato.audit import Audit
assert callable(sf.plan) and callable(sf.audit) and callable(sf.mine)
assert sf.plan_release is plan_release and Candidate.__module__ == "sfumato.plan.candidates"
import sys
assert sys.modules["sfumato.plan"].Plan is Plan and sys.modules["sfumato.mine.rules"].Rules
from sfumato import plan
assert plan is sf.plan
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    with pytest.raises(AttributeError, match=r"'sfumato\.plan' has no attribute 'plam'"):
        _ = sys.modules["sfumato.plan"].plam


@pytest.mark.parametrize("form", ["file", "pandas", "arrow", "columns", "table", "truth"])
def test_true_data_are_asked_in_any_form(form: str, folder: Path) -> None:
    table = sf.read(PEOPLE)
    forms: dict[str, Any] = {
        "file": folder / "people.csv",
        "pandas": pandas.DataFrame(PEOPLE),
        "arrow": pa.table(PEOPLE),
        "columns": PEOPLE,
        "table": table,
        "truth": sf.Exact(table),
    }
    data, true = forms[form], PEOPLE["smoker"].count("yes")
    assert sf.query(data, COUNT).to_pandas()["n"].item() == true
    assert dict(zip(*_items(sf.mine(data, 0.25)), strict=True))["smoker=yes",] == true / 3_000
    assert sf.classify(data, "smoker", features=["sex"], model="bayes").target == "smoker"
    assert sf.plan(data, gamma=19).rows == 3_000
    assert sf.perturb(data, gamma=19, rng=seeded(1)).rows == 3_000


def _items(found: Any) -> tuple[list[tuple[str, ...]], list[float]]:
    return found.items, found.support.tolist()


def test_a_release_is_asked_by_its_file(release: sf.Release, folder: Path) -> None:
    file = folder / "blurred.parquet"
    asked = sf.query(file, COUNT).rows[0]["n"]
    assert asked.value == pytest.approx(sf.query(release, COUNT).rows[0]["n"].value)
    assert abs(asked.value - PEOPLE["smoker"].count("yes")) < 5 * asked.stderr
    assert sf.fit(file).rows == 3_000
    assert sf.audit(file, folder / "people.csv", rng=seeded(2)).people == 3_000


def test_an_audit_takes_the_order_from_its_file(folder: Path) -> None:
    made = sf.perturb(PEOPLE, gamma=19, rng=seeded(1), keep_order=True)
    np.save(folder / "order.npy", np.arange(3_000))
    found = sf.audit(made, PEOPLE, order=folder / "order.npy", rng=seeded(3))
    assert found.attacks and not found.left_out
    assert [check.name for check in found.failed] == [
        "the order of the reports was drawn by chance"
    ]


def test_the_schema_may_be_a_file(folder: Path) -> None:
    planned = sf.plan(folder / "people.toml", 3_000, rho1=0.05, rho2=0.5)
    made = sf.perturb(
        folder / "people.csv", schema=folder / "people.toml", rho1=0.05, rho2=0.5, rng=seeded(1)
    )
    assert made.mechanism == planned.best.mechanism and made.mechanism.guarantee.gamma <= 19


def test_lists_of_items_are_baskets() -> None:
    assert sf.mine([["tea", "milk"], ["tea"], ["jam", "tea"]], 0.9).items == [("tea",)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda r: sf.perturb(PEOPLE, 3), "3 is no mechanism"),
        (lambda r: sf.perturb(PEOPLE), "not said what should be promised"),
        (lambda r: sf.perturb(PEOPLE, r.mechanism, gamma=19), "contradict each other"),
        (lambda r: sf.perturb(PEOPLE, "retention"), "not said what it should promise"),
        (lambda r: sf.perturb(PEOPLE, "retentoin", gamma=19), "no mechanism 'retentoin'"),
        (lambda r: sf.perturb(PEOPLE, gamma=19, epsilon=2), "more than one way"),
        (lambda r: sf.perturb(PEOPLE, rho1=0.05), "belong together"),
        (lambda r: sf.perturb(PEOPLE, r.mechanism, target="sex"), "no plan is asked for a target"),
        (lambda r: sf.plan(PEOPLE, gamma=9, target="sex", purpose="counts"), "is for classes"),
        (lambda r: sf.perturb(PEOPLE, gamma=19, rng=3), "rng=3 is no source of randomness"),
        (lambda r: sf.perturb(r, gamma=19), "were perturbed"),
        (lambda r: sf.perturb({"a": ["x"], "b": []}, gamma=19), "make no table"),
        (lambda r: sf.query(3, COUNT), "cannot read records from int"),
        (lambda r: sf.query(r, 3), "a question is SQL text, not a int"),
        (lambda r: sf.mine(r, "a"), "min_support='a' will not do; give a number"),
        (lambda r: sf.mine(r, 0.2, max_lenght=2), "did you mean 'max_length'"),
        (lambda r: sf.plan("people.toml", gamma=19), "no schema file|how many people"),
        (lambda r: sf.plan(PEOPLE, "many", gamma=19), "rows='many' is no whole number"),
        (lambda r: sf.plan(PEOPLE, gamma="x"), "gamma='x' is no number"),
        (lambda r: sf.audit(PEOPLE, PEOPLE), "it is no release"),
        (lambda r: sf.fit(PEOPLE), "it is no release"),
        (lambda r: sf.classify(r, "smokr"), "did you mean 'smoker'"),
        (lambda r: sf.classify(r, "smoker", model="forest"), "no model 'forest'"),
        (lambda r: sf.classify(r, "smoker", depth=3), "classify has no option 'depth'"),
        (lambda r: r.marginal(3), "columns must be a list of names"),
        (lambda r: sf.Retention(3, 0.5), "columns of a domain, not a int"),
        (lambda r: sf.Guarantee(True), "gamma=True is no number"),
        (lambda r: sf.pram(PEOPLE, "smoker", gamma="a"), "gamma='a' is no number"),
        (lambda r: sf.Domain.load(3), "a schema is read from a file"),
    ],
)
def test_wrong_arguments_are_told_in_words(wrong: Any, words: str, release: sf.Release) -> None:
    with pytest.raises(sf.SfumatoError, match=words):
        wrong(release)


def test_results_are_short_where_they_are_printed(release: sf.Release) -> None:
    found = sf.mine(release, 0.1)
    shown = [release, sf.Exact(sf.read(PEOPLE)), sf.read(PEOPLE), sf.fit(release)]
    assert all(len(repr(each)) < 200 and "array(" not in repr(each) for each in shown)
    for table in (found, sf.association_rules(found, min_confidence=0.2)):  # one screen
        assert repr(table).count("\n") < 24 and "array(" not in repr(table)


def test_every_result_draws_itself(release: sf.Release) -> None:
    pytest.importorskip("matplotlib")
    made = sf.perturb(PEOPLE, gamma=19, rng=seeded(1), keep_order=True)
    truth = sf.Exact(sf.read(PEOPLE, release.domain))
    found, estimate = sf.mine(release, 0.1), release.marginal(["smoker", "sex"])
    asked = sf.query(release, "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex")
    people = pa.table({"age": [31, 31, 52, 52, 33], "ill": ["no", "yes", "no", "no", "no"]})
    hidden = sf.hide([["tea", "milk"]] * 4 + [["tea"]] * 2, ["tea milk"], min_count=3)
    drawn = [
        estimate.where(smoker="yes").plot(),
        estimate.plot(truth.marginal(["smoker", "sex"])),
        release.plot(truth=truth)[0],
        sf.fit(release).plot()[0],
        found.plot(),
        sf.association_rules(found, min_confidence=0.2).plot(),
        asked.plot()[0],
        sf.plan(PEOPLE, gamma=19).plot(),
        sf.audit(made, truth, rng=seeded(2)).plot(),
        sf.classify(release, "smoker").plot(),
        sf.identify(people, confidential="ill").plot(),
        sf.suppress(people, k=2, keys=["age"]).plot(),
        sf.pram(PEOPLE, "smoker", gamma=19).plot(),
        hidden.plot(),
    ]
    for axes in drawn:
        axes.figure.canvas.draw()
    bars = [bar.get_height() for bar in drawn[1].patches]
    assert bars == truth.marginal(["smoker", "sex"]).value.ravel().tolist()
    with pytest.raises(sf.SfumatoError, match="the shape"):
        estimate.plot(np.zeros(3))


def test_the_truth_beside_a_release_may_be_finer(release: sf.Release) -> None:
    pytest.importorskip("matplotlib")
    ages = sf.Domain((sf.Numeric("age", 0, 9, cuts=(5,)),))
    truth = sf.read({"age": [1, 2, 7, 8, 8] * 40}, ages)
    made = sf.perturb(truth, sf.GammaDiagonal.promising(sf.Guarantee(19), ages), seeded(1))
    panel = made.plot(truth=sf.Exact(truth))[0]
    assert [bar.get_height() for bar in panel.patches] == [80, 120]
    otherwise = sf.read({"age": [1, 2, 7, 8, 8] * 40}, sf.Domain((sf.Numeric("age", 0, 9),)))
    with pytest.raises(sf.SfumatoError, match="the truth cuts 'age' otherwise"):
        made.plot(truth=sf.Exact(otherwise))


def test_true_supports_are_those_of_the_truth(release: sf.Release) -> None:
    from sfumato.evaluate import true_supports

    truth = sf.Exact(sf.read(PEOPLE, release.domain))
    found = sf.mine(release, 0.05)
    turned = sf.read(PEOPLE, sf.Domain(tuple(reversed(release.domain.attributes))))
    for records in (truth, sf.Exact(turned)):
        for items, support in zip(found.items, true_supports(found, records), strict=True):
            wanted = dict(item.split("=") for item in items)
            assert support == truth.marginal(list(wanted)).share(**wanted).value


@pytest.mark.parametrize(("asked", "kept"), [({}, False), ({"keep_order": True}, True)])
def test_reports_are_shuffled_unless_it_is_asked_otherwise(
    asked: dict[str, bool], kept: bool
) -> None:
    """A sorted file gives itself away by its order."""
    rows = {"smoker": ["no"] * 2000 + ["yes"] * 2000, "sex": ["female", "male"] * 2000}
    domain = sf.propose_schema(rows)
    release = sf.perturb(rows, sf.Retention(domain, 0.9), rng=seeded(3), **asked)
    halves = release.table.column("smoker").reshape(2, 2000).mean(axis=1)
    assert (halves[1] - halves[0] > 0.5) == kept


def test_a_source_draws_the_columns_that_are_named(release: sf.Release) -> None:
    assert len(release.plot()) == 2
    assert len(release.plot(["sex"])) == 1


def test_a_release_is_planned_for_as_many_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plan = api.plan_release
    monkeypatch.setattr(
        api,
        "plan_release",
        lambda domain, rows, **how: asked.append(rows) or plan(domain, rows, **how),
    )
    truth = {"sex": ["f", "m"] * 50, "smoker": ["yes", "no", "no", "no"] * 25}
    assert sf.perturb(truth, gamma=19).rows == 100
    assert asked == [100]


def test_a_target_is_asked_about_as_on_the_command_line() -> None:
    """It was left out without a word, unless the purpose was said to be classes too."""
    truth = {f"q{n}": ["a", "b", "c"] * 40 for n in range(8)}
    given = sf.perturb(truth, gamma=19, target="q3").mechanism
    asked = sf.Questionnaire.promising(sf.Guarantee(19), given.domain, target="q3")
    assert given == asked
    assert given != sf.perturb(truth, gamma=19).mechanism
    assert sf.plan(truth, 1_000, gamma=19, target="q3").best.mechanism == asked


def test_a_mechanism_is_named_as_on_the_command_line() -> None:
    """What a plan recommends can be typed in at the prompt too."""
    for name in ("retention", "questionnaire", "gamma-diagonal"):
        release = sf.perturb(PEOPLE, mechanism=name, gamma=19)
        assert release.mechanism.name == name and release.mechanism.guarantee.gamma <= 19


def test_items_are_called_by_name_as_in_the_shell(tmp_path: Path) -> None:
    baskets = [[24, 7], [24], [24, 7]]
    (tmp_path / "names.csv").write_text("24,milk\n7,bread\n")
    found = sf.mine(baskets, 0.5, names=tmp_path / "names.csv")
    assert sorted(map(sorted, found.items)) == [["bread"], ["bread", "milk"], ["milk"]]
    assert sf.mine(baskets, 0.9, names={24: "milk"}).items == [("milk",)]
    assert sf.association_rules(found, min_confidence=0.9).names == ["bread → milk"]
    with pytest.raises(sf.SfumatoError, match="names calls none of these items"):
        sf.mine(baskets, 0.5, names={1: "salt"})
    with pytest.raises(sf.SfumatoError, match="names is for the items of baskets"):
        sf.mine({"tea": ["yes", "no"]}, 0.5, names={"tea": "milk"})


def test_results_of_true_baskets_read_as_what_they_are() -> None:
    found = sf.mine([["tea", "milk"], ["tea"]], 0.5)
    assert "exact" in repr(found) and "0.0000" not in repr(found)
    told = repr(sf.itemset_errors(found, found)).splitlines()
    assert any(line.split()[:3] == ["length", "frequent", "found"] for line in told)
    assert "LengthErrors" not in "".join(told)


def test_the_rounds_that_a_plan_names_can_be_typed_in() -> None:
    """They were broken in the middle of an option and its file."""
    basket = sf.Domain((sf.Items("basket", tuple(map(str, range(300)))),))
    plan = sf.plan(basket, 60_000, gamma=19)
    lines = repr(plan).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("  sfumato"))
    typed = (
        "\n".join(line.removeprefix("  ") for line in lines[first:])
        .replace(" \\\n ", "")
        .replace("&&\n", "&& ")
    )
    assert typed == plan.commands()[0][1] and len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_a_list_of_dictionaries_is_a_table_of_records() -> None:
    """It was read as baskets of its keys: everyone held 'smoker'."""
    people = [{"smoker": "yes"}] * 300 + [{"smoker": "no", "sex": "f"}] * 700
    rows = sf.query(people, "SELECT smoker, COUNT(*) AS n FROM t GROUP BY smoker").rows
    assert {row["smoker"]: row["n"].value for row in rows} == {"yes": 300, "no": 700}
    with pytest.raises(sf.SfumatoError, match="not a list of items"):
        sf.query([{"smoker": "yes"}, ["tea"]], "SELECT COUNT(*) FROM t")
