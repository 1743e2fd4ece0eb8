"""The ledger composes, refuses with figures, repeats answers, and survives interruption and
company.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import FileError, ParameterError, PrivacyError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.ledger import Account, Entry, Ledger, pseudonym


def costing(epsilon: float) -> Guarantee:
    return Guarantee.from_epsilon(epsilon)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.json", budget=costing(2.0))


def entry(key: str, epsilon: float, *attributes: str) -> Entry:
    return Entry(key, "release", epsilon, attributes, "2026-11-15T00:00:00+00:00")


@given(
    epsilons=st.lists(
        st.tuples(st.sampled_from("abc"), st.floats(0.01, 5)), min_size=1, max_size=12
    ),
)
def test_reports_of_one_key_add_and_people_do_not(epsilons: list[tuple[str, float]]) -> None:
    account = Account(tuple(entry(key, epsilon) for key, epsilon in epsilons))
    spent = {key: sum(epsilon for other, epsilon in epsilons if other == key) for key in "abc"}
    assert {key: account.spent(key) for key in "abc"} == pytest.approx(spent)
    assert account.worst() == pytest.approx(max(spent.values()))


def test_composition_agrees_with_the_guarantee() -> None:
    account = Account(tuple(entry("a", Guarantee(19).epsilon) for _ in range(50)))
    assert account.spent("a") == pytest.approx(Guarantee(19).repeated(50).epsilon)


def test_overlapping_releases_count_against_each_attribute_they_share() -> None:
    account = Account(
        (
            entry("a", 0.5, "age", "sex"),
            entry("a", 0.25, "sex", "income"),
            entry("a", 1.0, "height"),
        )
    )
    assert account.spent_on("a", ["sex"]) == 0.75
    assert account.spent_on("a", ["age"]) == 0.5
    assert account.spent_on("a", ["age", "income"]) == 0.75
    assert account.spent("a") == 1.75


def test_a_budget_refuses_with_the_figures(ledger: Ledger) -> None:
    for release, epsilon in (("one", 0.5), ("two", 0.65), ("three", 0.5)):
        ledger.charge("a", release, costing(epsilon))
    before = ledger.path.read_bytes()
    with pytest.raises(PrivacyError) as refusal:
        ledger.charge("a", "four", costing(0.8))
    assert (
        str(refusal.value)
        == "this release costs epsilon 0.80, but 0.35 is left of 2.00 (3 entries in the ledger)"
    )
    assert refusal.value.facts["left"] == pytest.approx(0.35)
    assert ledger.path.read_bytes() == before
    ledger.charge("b", "four", costing(0.8))
    assert ledger.account.left("b") == pytest.approx(1.2)


def test_a_budget_may_be_spent_to_the_last(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json", budget=costing(0.3))
    for release in ("one", "two", "three"):
        ledger.charge("a", release, costing(0.1))
    with pytest.raises(PrivacyError, match=r"but 0\.00 is left of 0\.30"):
        ledger.charge("a", "four", costing(0.001))


def test_the_same_release_charged_again_costs_again(ledger: Ledger) -> None:
    ledger.charge("a", "survey", costing(0.5))
    ledger.charge("a", "survey", costing(0.5))
    assert ledger.account.spent("a") == pytest.approx(1.0)


def test_an_answer_is_drawn_once_and_repeated_for_nothing(ledger: Ledger) -> None:
    drawn: list[int] = []

    def draw() -> list[int]:
        drawn.append(len(drawn))
        return [7, drawn[-1]]

    first = ledger.answer("a", "survey", costing(1.5), draw, ["age"])
    again = Ledger(ledger.path).answer("a", "survey", costing(1.5), draw, ["age"])
    assert first == again == [7, 0]
    assert drawn == [0]
    assert ledger.account.spent("a") == pytest.approx(1.5)
    assert ledger.account.of("a")[0].attributes == ("age",)


def test_a_refused_answer_is_never_drawn(ledger: Ledger) -> None:
    def draw() -> Any:
        raise AssertionError("the record was perturbed although the budget was spent")

    with pytest.raises(
        PrivacyError, match=r"costs epsilon 2\.50, but 2\.00 is left of 2\.00 \(0 entries"
    ):
        ledger.answer("a", "survey", costing(2.5), draw)


def test_an_answer_that_cannot_be_repeated_says_so(ledger: Ledger) -> None:
    ledger.charge("a", "survey", costing(0.5))
    with pytest.raises(PrivacyError, match="was charged without its report"):
        ledger.answer("a", "survey", costing(0.5), lambda: [1])
    ledger.answer("a", "other", costing(0.5), lambda: [1])
    with pytest.raises(PrivacyError, match=r"answered at epsilon 0\.50 and is now asked at 0\.70"):
        ledger.answer("a", "other", costing(0.7), lambda: [1])


@pytest.mark.parametrize("report", [None, {1, 2}, [math.nan]])
def test_a_report_that_json_cannot_hold_costs_nothing(ledger: Ledger, report: Any) -> None:
    with pytest.raises(ParameterError):
        ledger.answer("a", "survey", costing(0.5), lambda: report)
    assert ledger.account.entries == ()


def test_a_release_without_bound_needs_a_ledger_without_budget(
    tmp_path: Path, ledger: Ledger
) -> None:
    nothing = Guarantee(math.inf)
    with pytest.raises(PrivacyError, match="costs epsilon inf"):
        ledger.charge("a", "fp-nfp", nothing)
    free = Ledger(tmp_path / "free.json")
    free.charge("a", "fp-nfp", nothing)
    assert Ledger(free.path).account.spent("a") == math.inf
    assert "Infinity" not in free.path.read_text()


def test_the_budget_stays_with_the_file(ledger: Ledger) -> None:
    assert Ledger(ledger.path).account.budget == pytest.approx(2.0)
    Ledger(ledger.path, budget=costing(2.0))
    with pytest.raises(
        ParameterError, match=r"has a budget of epsilon 2\.00, not 3\.00; open it without a budget"
    ):
        Ledger(ledger.path, budget=costing(3.0))


def test_an_interrupted_write_leaves_the_old_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.charge("a", "one", costing(0.5))
    before = ledger.path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge("a", "two", costing(0.5))
    assert ledger.path.read_bytes() == before
    assert sorted(path.name for path in ledger.path.parent.iterdir()) == [
        "ledger.json",
        "ledger.json.lock",
    ]
    ledger.charge("a", "two", costing(0.5))


CHARGE_FIVE_TIMES = """
import sys
from sfumato.errors import PrivacyError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.ledger import Ledger
for turn in range(5):
    try:
        Ledger(sys.argv[1]).charge("a", f"{sys.argv[2]}-{turn}", Guarantee.from_epsilon(0.2))
    except PrivacyError:
        print("refused")
"""


def test_processes_in_company_never_overspend(ledger: Ledger) -> None:
    """Four processes try twenty charges of 0.2 on a budget of 2: exactly ten fit and
    none is lost.
    """
    command = [sys.executable, "-c", CHARGE_FIVE_TIMES, str(ledger.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [
        subprocess.Popen([*command, str(name)], stdout=subprocess.PIPE, text=True, env=environment)
        for name in range(4)
    ]
    refused = sum(process.communicate()[0].count("refused") for process in running)
    assert all(process.returncode == 0 for process in running)
    assert refused == 10
    assert len(ledger.account.entries) == 10
    assert ledger.account.spent("a") == pytest.approx(2.0)


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        '{"version": 1, "entries": []}',
        '{"version": 1, "budget": -1, "entries": []}',
        '{"version": 1, "budget": 2, "entries": [{"key": "a"}]}',
    ],
)
def test_a_broken_file_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(text)
    with pytest.raises(FileError, match=r"ledger\.json is not a ledger"):
        Ledger(path, budget=costing(2.0)).charge("a", "one", costing(0.1))
    assert path.read_text() == text


def test_a_later_version_is_not_misread(ledger: Ledger) -> None:
    stored = json.loads(ledger.path.read_text())
    ledger.path.write_text(json.dumps({**stored, "version": 2}))
    with pytest.raises(FileError, match="ledger of version 2; this program reads version 1"):
        _ = Ledger(ledger.path).account


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"the ledger cannot be kept in .*No such file"):
        Ledger(tmp_path / "missing" / "ledger.json")


def test_pseudonyms_are_stable_in_a_scope_and_unlike_elsewhere() -> None:
    secret = bytes(range(32))
    assert pseudonym(secret, "spring") == pseudonym(secret, "spring")
    assert (
        len(
            {
                pseudonym(secret, "spring"),
                pseudonym(secret, "autumn"),
                pseudonym(secret[::-1], "spring"),
            }
        )
        == 3
    )
    with pytest.raises(ParameterError, match="a secret of 3 bytes can be guessed"):
        pseudonym(b"abc", "spring")
