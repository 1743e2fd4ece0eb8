"""`sfumato plan` and `sfumato audit`: what they print, what they draw, and what bad input gets."""

from __future__ import annotations

import json
import math
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.audit import audit_release
from sfumato.cli import app
from sfumato.cli.audit import MORE
from sfumato.cli.printing import show, show_brief
from sfumato.domain import Category, Domain, Numeric
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Retention
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import perturb
from sfumato.table import Table

PEOPLE = Domain(
    (
        Numeric("age", 0, 99, cuts=(20, 60)),
        Category("sex", ("F", "M")),
        Category("smoker", ("no", "yes")),
        Category("income", ("low", "high"), public=True),
    )
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    PEOPLE.save("people.toml")
    rng = np.random.default_rng(1)
    columns = (
        rng.integers(0, 100, 3000),
        rng.choice(list("FM"), 3000),
        rng.choice(["no", "yes"], 3000, p=[0.8, 0.2]),
    )
    rows = [
        f"{age},{sex},{smoker},{'high' if age > 50 else 'low'}"
        for age, sex, smoker in zip(*columns, strict=True)
    ]
    Path("people.csv").write_text("\n".join(["age,sex,smoker,income", *rows, ""]))
    Path("others.csv").write_text("\n".join(["age,sex,smoker,income", *rows[1:], rows[0], ""]))
    Path("fewer.csv").write_text("\n".join(["age,sex,smoker,income", *rows[1:], ""]))
    return tmp_path


def run(line: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, shlex.split(line))
    return done.exit_code, done.stdout, done.stderr


# An audit accuses an honest release once in a thousand, by its --false-alarm: what must be found
# clean here is drawn from a seed.


def result(line: str) -> dict[str, Any]:
    code, out, err = run(f"{line} --json")
    assert code == 0, err + out
    return json.loads(out)


@pytest.mark.usefixtures("folder")
def test_a_promise_that_all_lines_keep_is_said_once() -> None:
    _, alike, _ = run("plan people.toml --rows 3000 --gamma 19")
    assert alike.count("2.94") == 1 and "5 % becomes" not in alike
    _, different, _ = run("plan people.toml --rows 3000 --wanted-error 20%")
    assert "5 % becomes" in different


@pytest.mark.usefixtures("folder")
def test_what_is_typed_by_guess_is_understood_or_set_right() -> None:
    guess, known = (
        run(f"plan people.toml {name} 3000 --gamma 19") for name in ("--people", "--rows")
    )
    assert guess == known and guess[0] == 0
    code, _, said = run("plan --schema people.toml --rows 3000 --gamma 19")
    assert code == 2 and "it is given without a name: sfumato plan SCHEMA" in said


@pytest.mark.usefixtures("folder")
def test_a_plan_under_a_guarantee() -> None:
    plan = result("plan people.toml --rows 3000 --rho1 0.05 --rho2 0.50")
    assert plan["guarantee"]["gamma"] == 19 and plan["met"] is None
    said = "someone who believed 5 % before sees at most 50 % after"
    assert plan["words"][1] == f"under gamma 19 (epsilon 2.945) {said}"
    errors = [option["error"] for option in plan["mechanisms"]]
    assert errors == sorted(errors) and len(errors) == 10
    code, out, _ = run("plan people.toml --rows 3000 --gamma 19 --for means --details")
    assert code == 0 and "answers best: a mean" in out and "not possible" in out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("purpose", ["means", "quantiles", "ranges", "counts"])
def test_what_a_plan_says_to_type_works(purpose: str) -> None:
    """Every command, of a schema and of data, perturbs as it says."""
    Path("ages.csv").write_text("\n".join(["age", *map(str, range(100)), ""]))
    Domain((Numeric("age", 0, 99, cuts=(20, 60)),)).save("ages.toml")
    for asked in ("ages.toml", "ages.csv"):
        plan = result(f"plan {asked} --rows 100 --gamma 19 --for {purpose}")
        assert len(plan["mechanisms"]) >= 3
        for option in plan["mechanisms"]:
            line = option["command"].replace("DATA", "ages.csv").removeprefix("sfumato ")
            done = result(f"{line} --force")
            assert done["mechanism"] == option["mechanism"]
            assert done["gamma"] <= 19


@pytest.mark.usefixtures("folder")
def test_a_plan_for_an_accuracy_and_for_both() -> None:
    alone = result("plan people.toml --rows 30000 --wanted-error 10% --at-support 0.05")
    assert all(option["error"] <= 0.1 for option in alone["mechanisms"])
    hopeless = result("plan people.toml --rows 10 --wanted-error 1%")
    assert hopeless["words"][-1].startswith("that promises next to nothing")
    both = result("plan people.toml --rows 3000 --wanted-error 1% --gamma 19")
    assert both["met"] is False and "cannot be had together" in both["words"][-1]


@pytest.mark.usefixtures("folder")
def test_a_plan_for_data_without_a_schema() -> None:
    assert len(result("plan people.csv --rows 3000 --gamma 19 --for counts")["mechanisms"]) >= 4


def test_plans_and_audits_are_drawn(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    run(
        "perturb people.csv -o r.parquet --schema people.toml --mechanism gamma-diagonal --gamma "
        "19 --order order.npy --seed 1"
    )
    for line in (
        "plan people.toml --rows 3000 --gamma 19",
        "audit r.parquet --truth people.csv --order order.npy --seed 1",
    ):
        for name in ("page.html", "figure.png"):
            code, out, err = run(f"{line} --plot {name} --force")
            assert code == 0, err + out
            assert (folder / name).stat().st_size > 10_000
    page = (folder / "page.html").read_text()
    assert "Audit of a release" in page and "± stderr</th>" in page
    shown = re.findall(r'<td class="number">[\d.]+ ±\s([\d.]+)</td>', page)
    audited = result("audit r.parquet --truth people.csv --order order.npy --seed 1")
    told = [math.sqrt(a["right"] * (1 - a["right"]) / a["people"]) for a in audited["attacks"]]
    assert [*map(float, shown)] == [float(f"{100 * error:.2g}") for error in told]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("copies", [1, 3])
def test_an_audit(copies: int) -> None:
    perturb = (
        "perturb people.csv -o r.parquet --schema people.toml --mechanism gamma-diagonal "
        "--gamma 19 --order order.npy --seed 1"
    )
    run(f"{perturb} --copies {copies}")
    audit = result("audit r.parquet --truth people.csv --order order.npy --seed 1")
    assert audit["clean"] and audit["violations"] == []
    assert audit["copies"] == copies and (audit["siblings"] is None) == (copies == 1)
    assert audit["linkage"]["public_columns"] == ["income"]
    assert audit["empirical_gamma"]["lower_bound"] <= 19
    truth = "--truth people.csv --schema people.toml --order order.npy"
    code, out, _ = run(f"audit r.parquet {truth} --seed 1")
    assert code == 0 and out.startswith("nothing was found against the promise of gamma-diagonal")


@pytest.mark.usefixtures("folder")
def test_an_audit_that_finds_something_ends_with_exit_code_3() -> None:
    """A sorted file published in its order: the reports alone show it."""
    header, *rows = Path("people.csv").read_text().splitlines()
    rows.sort(key=lambda row: row.split(",")[2])
    Path("sorted.csv").write_text("\n".join([header, *rows, ""]))
    run(
        "perturb sorted.csv -o r.parquet --schema people.toml --mechanism gamma-diagonal --gamma "
        "19 --keep-order --seed 1"
    )
    code, out, err = run("audit r.parquet --truth sorted.csv --seed 1")
    assert code == 3 and not err
    assert "the order of the reports says nothing about the records" in out
    out = run("audit r.parquet --truth sorted.csv --seed 1 --details")[1]
    assert "against the promise" in out and "the smallest leaks this audit finds" in out
    code, out, _ = run("audit r.parquet --truth sorted.csv --seed 1 --json")
    shown = json.loads(out)
    assert code == 3 and not shown["clean"] and shown["smallest_leaks"]["unchanged_in_a_row"] > 1


@pytest.mark.usefixtures("folder")
def test_a_shuffled_release_without_its_order_is_judged_as_far_as_it_can_be() -> None:
    run("perturb people.csv -o r.parquet --schema people.toml --gamma 19 --seed 1")
    code, out, err = run("audit r.parquet --truth people.csv --seed 1")
    assert code == 0 and err.startswith("note: a clean audit is no proof") and err.count("\n") == 1
    assert "this audit leaves out: attacks and breaches" in out and "guessed right" not in out
    shown = result("audit r.parquet --truth people.csv --seed 1")
    assert shown["breaches"] is None and shown["attacks"] == [] and len(shown["left_out"]) == 1
    code, out, err = run("audit r.parquet --truth people.csv --plot a.png")
    assert code == 2 and not out and "without --order the attacks are left out" in err
    assert not Path("a.png").exists()


WIDE = Domain(tuple(Category(f"column_{place}", ("a", "b", "c")) for place in range(10)))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("mechanism", [GammaDiagonal.promising, lambda *_: Retention(WIDE, 0.5)])
def test_an_audit_of_ten_columns_fits_a_screen_and_the_rest_are_details(
    mechanism: Any, turned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(3).integers(0, 3, (1000, 10)).astype(np.uint8)
    truth = Table(WIDE, tuple(rows.T))
    release = perturb(truth, mechanism(Guarantee(19), WIDE), seeded(1), copies=2, keep_order=True)
    held = Table(WIDE, tuple(rows[::-1].T)) if turned else truth
    found = audit_release(release.table, held, rng=seeded(1))
    show_brief(found.brief(), MORE)
    out = capsys.readouterr().out
    lines = [part for line in out.splitlines() for part in (textwrap.wrap(line, 80) or [""])]
    assert len(lines) <= 23, out
    assert lines[0].startswith("nothing was found") == found.clean
    assert all(line in out for line in found.violations[:1])
    assert f"{len(found.checks)} checks, " in out and lines[-1].startswith("--details: ")
    gains = {name: max(a.gain for a in found.attacks if a.target == name) for name in WIDE.names}
    shown = [line.split()[0] for line in lines if line.startswith("column_")]
    assert 0 < len(shown) < 10
    assert sorted(gains.values(), reverse=True)[: len(shown)] == [gains[name] for name in shown]
    show(found.view(), most=None)
    told = capsys.readouterr().out
    assert all(sentence in told for sentence in found.sentences())
    assert told.count(" follow ") >= 10 and all(name in told for name in WIDE.names)


@pytest.mark.usefixtures("folder")
def test_an_audit_by_an_order_that_nobody_drew() -> None:
    """The order brings reports beside their records, and is judged itself."""
    run(
        "perturb people.csv -o r.parquet --schema people.toml --mechanism gamma-diagonal --gamma "
        "19 --keep-order"
    )
    np.save("order.npy", np.arange(3000))
    code, out, _ = run("audit r.parquet --truth people.csv --order order.npy --seed 1")
    assert code == 3 and "the order of the reports was drawn by chance" in out
    np.save("order.npy", np.arange(2999))
    code, out, err = run("audit r.parquet --truth people.csv --order order.npy")
    assert code == 2 and not out and "orders 2,999 reports, but the release has 3,000" in err


CASES = {
    "nothing asked": ("plan people.toml --rows 9", "nothing is asked for"),
    "two guarantees": (
        "plan people.toml --rows 9 --gamma 19 --epsilon 2",
        "given in more than one way",
    ),
    "rho1 alone": ("plan people.toml --rows 9 --rho1 0.05", "--rho1 and --rho2 belong together"),
    "rho outside": ("plan people.toml --rows 9 --rho1 0.05 --rho2 1.5", "strictly between 0 and 1"),
    "wrong way round": (
        "plan people.toml --rows 9 --rho1 0.5 --rho2 0.05",
        "--rho2 0.05 is not above --rho1 0.5",
    ),
    "gamma of one": ("plan people.toml --rows 9 --gamma 1", "--gamma 1 lets nothing through"),
    "error above one": (
        "plan people.toml --rows 9 --wanted-error 150%",
        "--wanted-error 150% must lie strictly between",
    ),
    "error in words": (
        "plan people.toml --rows 9 --wanted-error small",
        "--wanted-error small is not a share",
    ),
    "no rows": ("plan people.toml --rows 0 --gamma 19", "--rows 0 is too small"),
    "strange purpose": (
        "plan people.toml --rows 9 --gamma 19 --for rules",
        "cannot plan for 'rules'",
    ),
    "length of means": (
        "plan people.toml --rows 9 --gamma 19 --for means --length 2",
        "--length is of itemsets",
    ),
    "target of counts": (
        "plan people.toml --rows 9 --gamma 19 --for counts --target sex",
        "--target is for classes",
    ),
    "strange target": (
        "plan people.toml --rows 9 --gamma 19 --for classes --target sx",
        "did you mean 'sex'?",
    ),
    "no schema": ("plan peopel.toml --rows 9 --gamma 19", "no schema file 'peopel.toml'"),
    "truth audited": ("audit people.csv --truth people.csv", "'people.csv' carries no mechanism"),
    "perturbed truth": ("audit r.parquet --truth r.parquet", "is itself a perturbed file"),
    "fewer records": ("audit r.parquet --truth fewer.csv", "holds 2,999 records"),
    "another order": ("audit r.parquet --truth others.csv", "public column 'income' differs in"),
    "breach downward": (
        "audit r.parquet --truth people.csv --rho2 0.01",
        "--rho2 0.01 is not above rho1=0.05",
    ),
    "file in the way": (
        "audit r.parquet --truth people.csv --plot people.csv",
        "'people.csv' exists",
    ),
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_clear_line(name: str) -> None:
    line, words = CASES[name]
    if line.startswith("audit"):
        run(
            "perturb people.csv -o r.parquet --schema people.toml --mechanism gamma-diagonal "
            "--gamma 19 --keep-order"
        )
    code, out, err = run(line)
    assert code == 2 and not out, (out, err)
    assert words in err and err.count("\n") == 1 and "Traceback" not in err


# --- baskets


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    lines = (" ".join(map(str, sorted(rng.choice(12, 3, replace=False)))) for _ in range(200))
    Path("shop.dat").write_text("\n".join(lines) + "\n")
    Path("items.txt").write_text("\n".join(map(str, range(20))) + "\n")
    return tmp_path


def test_a_plan_of_baskets_takes_their_items_and_its_commands_can_be_typed(shop: Path) -> None:
    wish = "plan shop.dat --rows 200 --gamma 19 --length 1 --json"
    planned = [json.loads(run(f"{wish}{items}")[1]) for items in ("", " --items items.txt")]
    errors = [
        next(each["error"] for each in plan["mechanisms"] if each["name"] == "mask")
        for plan in planned
    ]
    assert errors[1] > 1.2 * errors[0]  # of twenty items, and not of the twelve that were bought
    commands = {each["name"]: each["command"] for each in planned[1]["mechanisms"]}
    assert all("perturb shop.dat --items items.txt " in line for line in commands.values())
    for name in ("mask", "item-set in rounds"):
        for line in commands[name].split(" && "):
            code, _, said = run(line.removeprefix("sfumato "))
            assert code == 0, said
    assert "--items items.txt" in run("plan shop.dat --items items.txt --rows 200 --gamma 19")[1]
    run("plan shop.dat --items items.txt --rows 200 --gamma 19 --plot plan.html")
    assert "--items items.txt" in Path("plan.html").read_text()


def test_a_plan_of_baskets_says_what_asking_once_tells_and_that_items_were_read_off(
    shop: Path,
) -> None:
    _, shown, said = run("plan shop.dat --rows 20000 --gamma 19")
    assert "asked once instead (item-set): single items to within" in shown
    assert "read off the true data" in said and "(baskets: --items)" in said
    _, _, said = run("plan shop.dat --items items.txt --rows 20000 --gamma 19")
    assert "read off" not in said
    _, shown, _ = run("plan shop.dat --rows 20000 --gamma 19 --length 1")
    assert "asked once" not in shown and "\nitem-set " in shown  # then both are in the table
    Path("large.txt").write_text(" ".join(map(str, range(5000))))
    _, shown, _ = run("plan shop.dat --items large.txt --rows 90000 --gamma 19")
    rough = "where most baskets hold more than 8 items, errors are about twice as large"
    assert f"no pairs; {rough}" in " ".join(shown.split())
    _, shown, _ = run("plan shop.dat --rows 200 --gamma 19")
    assert "not usable" in shown and "columns" not in shown.split("not usable")[1].split("\n")[0]


def test_data_tell_a_plan_how_many_people_there_are_and_a_schema_does_not(shop: Path) -> None:
    code, out, _ = run("plan shop.dat --gamma 19 --json")
    assert code == 0 and json.loads(out)["rows"] == len(Path("shop.dat").read_text().splitlines())
    assert json.loads(run("plan shop.dat --gamma 19 --rows 77 --json")[1])["rows"] == 77
    PEOPLE.save("people.toml")
    code, out, said = run("plan people.toml --gamma 19")
    assert code == 2 and not out
    assert said.strip().endswith("how many people report; give --rows, as in --rows 50000")


def test_another_gamma_than_the_one_asked_for_is_explained(shop: Path) -> None:
    assert "rounding" not in run("plan shop.dat --rows 20000 --gamma 19")[1]
    Path("wide.txt").write_text(" ".join(map(str, range(1500))))
    shown = run("plan shop.dat --items wide.txt --rows 20000 --gamma 19")[1]
    assert "\nmask: a smaller gamma than asked for is rounding towards privacy" in shown


def test_items_beside_a_schema_or_records_are_refused(shop: Path) -> None:
    PEOPLE.save("people.toml")
    code, _, said = run("plan people.toml --items items.txt --rows 200 --gamma 19")
    assert code == 2 and "--items and 'people.toml' both say what baskets may hold" in said
    Path("people.csv").write_text("sex\nF\nM\n")
    code, _, said = run("plan people.csv --items items.txt --rows 200 --gamma 19")
    assert code == 2 and "--items is for basket files" in said


@pytest.mark.parametrize(
    ("line", "what", "length"),
    [("", "an item", 1), ("--round 1 ", "two items together", 2)],
    ids=["once", "in rounds"],
)
def test_perturb_notes_where_baskets_would_tell_nothing(
    shop: Path, line: str, what: str, length: int
) -> None:
    """As a plan does, by the same figure."""
    how = f"--items items.txt {line}--gamma"
    code, _, said = run(f"perturb shop.dat {how} 19 -o few.parquet")
    assert code == 0 and f"with 200 people the support of {what} is off by " in said
    name = "item-set" if length == 1 else "item-set in rounds"
    wish = f"plan shop.dat --items items.txt --rows 200 --gamma 19 --length {length} --json"
    offers = json.loads(run(wish)[1])["mechanisms"]
    figures = next(each["stderr"]["support"] for each in offers if each["name"] == name)
    assert f"off by {100 * figures[length - 1]:.3g} points" in " ".join(said.split())
    Path("many.dat").write_text(25 * Path("shop.dat").read_text())
    code, _, said = run(f"perturb many.dat {how} 1000000 -o many.parquet")
    assert code == 0 and "will be usable" not in said


def test_an_option_of_item_set_alone_chooses_it(shop: Path) -> None:
    """--cap was refused as no option of mask, which nobody had named."""
    code, out, said = run("perturb shop.dat --gamma 19 --cap 3 -o o.parquet --json")
    assert code == 0 and json.loads(out)["mechanism"] == "item-set", said
    code, _, said = run("perturb shop.dat --mechanism mask --gamma 19 --cap 3 -o p.parquet")
    assert code == 2 and "--cap is no option of mask; it belongs to item-set" in said
    code, _, said = run("perturb shop.dat --cap 3 -o p.parquet")
    assert code == 2 and "it is not said what item-set should promise; give --gamma 19" in said
