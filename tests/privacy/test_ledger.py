"""The ledger composes, refuses with figures, repeats answers, and survives interruption and
company.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import time
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
    return Ledger.create(tmp_path / "ledger.db", costing(2.0))


def contents(ledger: Ledger) -> Account:
    """What another process reads."""
    return Ledger(ledger.path).account


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
    before = contents(ledger)
    with pytest.raises(PrivacyError) as refusal:
        ledger.charge("a", "four", costing(0.8))
    assert (
        str(refusal.value)
        == "this release costs epsilon 0.8, but 0.35 is left of 2 (3 entries in the ledger)"
    )
    assert refusal.value.facts["left"] == pytest.approx(0.35)
    assert contents(ledger) == before
    ledger.charge("b", "four", costing(0.8))
    assert ledger.left("b") == ledger.account.left("b") == pytest.approx(1.2)


def test_a_budget_may_be_spent_to_the_last(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db", costing(0.3))
    for release in ("one", "two", "three"):
        ledger.charge("a", release, costing(0.1))
    with pytest.raises(PrivacyError, match=r"but 0 is left of 0\.3 "):
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

    with pytest.raises(PrivacyError, match=r"costs epsilon 2\.5, but 2 is left of 2 \(0 entries"):
        ledger.answer("a", "survey", costing(2.5), draw)


def test_an_answer_that_cannot_be_repeated_says_so(ledger: Ledger) -> None:
    ledger.charge("a", "survey", costing(0.5))
    with pytest.raises(PrivacyError, match="was charged without its report"):
        ledger.answer("a", "survey", costing(0.5), lambda: [1])
    ledger.answer("a", "other", costing(0.5), lambda: [1])
    with pytest.raises(PrivacyError, match=r"answered at epsilon 0\.5 and is now asked at 0\.7"):
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
    free = Ledger.create(tmp_path / "free.db", None)
    free.charge("a", "fp-nfp", nothing)
    free.charge("a", "mask", costing(1.0))
    assert contents(free).spent("a") == free.spent("a") == math.inf
    assert free.left("a") == math.inf and free.spent("b") == 0
    with pytest.raises(ParameterError, match="a budget without bound limits nothing"):
        Ledger.create(tmp_path / "other.db", nothing)


def test_the_budget_stays_with_the_file(ledger: Ledger) -> None:
    assert Ledger(ledger.path).account.budget == pytest.approx(2.0)
    Ledger(ledger.path, budget=costing(2.0))
    with pytest.raises(
        ParameterError, match=r"has a budget of epsilon 2, not 3; open it without a budget"
    ):
        Ledger(ledger.path, budget=costing(3.0))


def test_an_interrupted_spending_leaves_the_ledger_as_it_was(ledger: Ledger) -> None:
    ledger.charge("a", "one", costing(0.5))
    before = contents(ledger)

    def interrupted() -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.answer("a", "two", costing(0.5), interrupted)
    assert contents(ledger) == before
    ledger.charge("a", "two", costing(0.5))


KILLED = """
import os, sys
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.ledger import Ledger
ledger, cost = Ledger(sys.argv[1]), Guarantee.from_epsilon(0.5)
with ledger.changing() as book:
    book.answer("a", "one", cost, lambda: ["first"])
    if sys.argv[2] == "before":
        os._exit(9)
os._exit(9)
"""


@pytest.mark.parametrize(("moment", "found"), [("before", "second"), ("after", "first")])
def test_a_killed_process_has_spent_and_kept_its_report_or_neither(
    ledger: Ledger, moment: str, found: str
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(ledger.path), moment]
    assert subprocess.run(command, env=environment, check=False).returncode == 9
    assert ledger.spent("a") == pytest.approx(0.5 if moment == "after" else 0)
    assert ledger.answer("a", "one", costing(0.5), lambda: ["second"]) == [found]
    assert ledger.spent("a") == pytest.approx(0.5)


def test_changes_made_together_are_made_together_or_not_at_all(ledger: Ledger) -> None:
    with ledger.changing() as book:
        for release in ("one", "two"):
            book.charge("a", release, costing(0.5))
    with (
        pytest.raises(PrivacyError, match=r"0\.5 is left of 2 \(3 entries"),
        ledger.changing() as book,
    ):
        book.charge("a", "three", costing(0.5))
        book.charge("a", "four", costing(1.5))
    assert [entry.release for entry in ledger.of("a")] == ["one", "two"]


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
        "",
        "not json",
        "[]",
        "{}",
        '{"version": 1, "entries": []}',
        '{"version": 1, "budget": -1, "entries": []}',
        '{"version": 1, "budget": 1e400, "entries": []}',
        '{"version": 1, "budget": true, "entries": []}',
        '{"version": 1, "budget": "2", "entries": []}',
        '{"version": 1, "budget": NaN, "entries": []}',
        '{"version": 1, "budget": 1' + 400 * "0" + ', "entries": []}',
        '{"version": 1, "budget": 2, "entries": {}}',
        '{"version": 1, "budget": 2, "entries": [{"key": "a"}]}',
        '{"version": 2, "budget": 2, "entries": []}',
        100_000 * "[" + 100_000 * "]",
        "SQLite format 3\0 and then nothing of the kind",
    ],
)
def test_a_broken_file_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(text)
    with pytest.raises(FileError, match=r"ledger\.json is not a ledger"):
        Ledger(path, budget=costing(2.0)).charge("a", "one", costing(0.1))
    assert path.read_text() == text


OLD = {
    "key": "a",
    "release": "spring",
    "epsilon": 0.5,
    "attributes": ["age"],
    "at": "2026-05-01T00:00:00+00:00",
    "report": None,
}


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1e400},
        {"epsilon": -0.5},
        {"epsilon": "0.5"},
        {"epsilon": False},
        {"key": 7},
        {"at": None},
        {"attributes": "age"},
        {"attributes": [1]},
        {"more": 1},
    ],
)
def test_an_old_entry_that_makes_no_sense_is_not_carried_over(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "ledger.json"
    text = json.dumps({"version": 1, "budget": 2.0, "entries": [{**OLD, **change}]})
    path.write_text(text.replace("Infinity", "1e400"))
    with pytest.raises(FileError, match=r"ledger\.json is not a ledger"):
        Ledger(path)


def old_ledger(path: Path, budget: float | None = 2.0) -> None:
    entries = [OLD, {**OLD, "release": "autumn", "report": [3, "yes"]}, {**OLD, "key": "b"}]
    path.write_text(json.dumps({"version": 1, "budget": budget, "entries": entries}))


def test_a_ledger_of_version_0_1_0_goes_on(tmp_path: Path) -> None:
    """Its spendings, reports, budget, name and mode; whoever opens it later finds a database."""
    path = tmp_path / "ledger.json"
    old_ledger(path)
    path.chmod(0o664)
    for _ in range(2):
        ledger = Ledger(path, budget=costing(2.0))
        assert ledger.spent("a") == 1.0 and ledger.left("b") == 1.5 and ledger.pending() == ()
    assert path.stat().st_mode & 0o777 == 0o664
    assert ledger.answer("a", "autumn", costing(0.5), lambda: [4]) == [3, "yes"]
    first, second, third = ledger.account.entries
    assert (first.attributes, first.state, first.at) == (("age",), "charged", OLD["at"])
    assert (second.report, second.state, third.key) == ([3, "yes"], "sent", "b")
    with pytest.raises(PrivacyError, match=r"but 1 is left of 2 \(2 entries"):
        ledger.charge("a", "winter", costing(1.5))
    assert sorted(other.name for other in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock"]


def test_an_old_ledger_without_budget_stays_without(tmp_path: Path) -> None:
    old_ledger(tmp_path / "ledger.json", budget=None)
    assert Ledger(tmp_path / "ledger.json").budget == math.inf


def test_a_migration_that_fails_leaves_the_old_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    old_ledger(path)
    before = path.read_bytes()

    def broken(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", broken)
        with pytest.raises(OSError, match="no space"):
            Ledger(path)
    assert path.read_bytes() == before
    assert sorted(other.name for other in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock"]


def test_a_later_version_is_not_misread(ledger: Ledger) -> None:
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(FileError, match="ledger of version 3; this program reads versions 1 and 2"):
        Ledger(ledger.path)


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA application_id = 7",
        "UPDATE budget SET epsilon = 9e999",
        "UPDATE budget SET epsilon = 'much'",
        "DELETE FROM budget",
        "INSERT INTO budget VALUES (3.0)",
        "DROP TRIGGER spending",
        "CREATE TRIGGER more AFTER INSERT ON entry BEGIN DELETE FROM spent; END",
        "ALTER TABLE spent RENAME TO other",
        "CREATE UNIQUE INDEX more ON entry(key)",
        "CREATE VIEW more AS SELECT 1",
    ],
)
def test_a_database_that_is_no_ledger_or_has_no_clear_budget_is_refused(
    ledger: Ledger, statement: str
) -> None:
    with sqlite3.connect(ledger.path) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(FileError, match=r"ledger\.db is not a ledger"):
        Ledger(ledger.path)


def test_a_ledger_whose_names_are_no_text_is_refused_in_one_line(ledger: Ledger) -> None:
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT), sql = 'CREATE x'")
    connection.close()
    with pytest.raises(FileError, match=r"ledger\.db is not a ledger"):
        Ledger(ledger.path)


def test_a_view_without_end_in_the_place_of_a_table_keeps_nobody_waiting(ledger: Ledger) -> None:
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("DROP TABLE spent")
        connection.execute(
            "CREATE VIEW spent AS WITH RECURSIVE n(key, epsilon, times) AS (SELECT '', 1.0, 1"
            " UNION ALL SELECT key, epsilon + 1, 1 FROM n) SELECT * FROM n"
        )
    connection.close()
    with pytest.raises(FileError, match=r"ledger\.db is not a ledger"):
        Ledger(ledger.path)


@pytest.mark.parametrize("value", [b"\xff", None, "much"])
@pytest.mark.parametrize("column", ["key", "epsilon", "times"])
def test_what_was_spent_is_read_or_refused_in_one_line(
    ledger: Ledger, column: str, value: Any
) -> None:
    ledger.charge("ann", "one", costing(0.1))
    with sqlite3.connect(ledger.path) as connection:
        connection.execute(f"UPDATE OR IGNORE spent SET {column} = ?", (value,))
    connection.close()
    try:
        ledger.rename(str.casefold)
        ledger.spent("ann")
    except FileError as error:
        assert "\n" not in str(error)


def test_someone_elses_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE photo(name)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(FileError, match=r"photos\.db is not a ledger"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_mistyped_path_is_not_a_new_ledger(ledger: Ledger) -> None:
    wrong = ledger.path.with_name("leger.db")
    with pytest.raises(FileError, match=r"no ledger can be read at '.*leger\.db': No such file"):
        Ledger(wrong)
    assert not wrong.exists()
    with pytest.raises(FileError, match=r"is not a ledger"):
        Ledger(ledger.path.parent)
    ledger.path.unlink()
    with pytest.raises(FileError, match="no ledger can be read"):
        ledger.charge("a", "one", costing(0.1))


def test_a_ledger_is_created_once(ledger: Ledger, tmp_path: Path) -> None:
    ledger.charge("a", "one", costing(0.5))
    with pytest.raises(FileError, match=r"ledger\.db' exists already"):
        Ledger.create(ledger.path, costing(9.0))
    assert ledger.spent("a") == pytest.approx(0.5)
    for left in ("-wal", "-journal"):
        (tmp_path / f"other.db{left}").write_bytes(b"left behind")
        with pytest.raises(FileError, match=f"other.db{left}' exists already"):
            Ledger.create(tmp_path / "other.db", None)
        (tmp_path / f"other.db{left}").unlink()
    assert Ledger.create(tmp_path / "other.db", None).path.stat().st_mode & 0o777 == 0o600


def test_a_creation_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="no space"):
            Ledger.create(tmp_path / "ledger.db", None)
    assert list(tmp_path.iterdir()) == []


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that are synced from now on."""
    seen: list[str] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        seen.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return seen


@pytest.mark.skipif(sys.platform != "linux", reason="names open files by /proc")
def test_a_ledgers_name_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new name in a folder is on disk only once the folder is synced; what it names, before."""
    seen = synced(monkeypatch)
    Ledger.create(tmp_path / "ledger.db", None)
    assert seen == [str(tmp_path)]
    old_ledger(tmp_path / "old.json")
    seen.clear()
    Ledger(tmp_path / "old.json")
    assert len(seen) == 2 and seen[0].startswith(f"{tmp_path}/.old.json.")
    assert seen[1] == str(tmp_path)


def test_a_link_is_the_ledger_itself(ledger: Ledger, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(ledger.path)
    other = Ledger(link)
    assert other.path == ledger.path
    other.charge("a", "one", costing(1.5))
    with pytest.raises(PrivacyError, match=r"0\.5 is left of 2 "):
        ledger.charge("a", "two", costing(1.5))
    assert link.is_symlink()
    link.unlink()
    os.link(ledger.path, link)
    for path in (ledger.path, link):
        with pytest.raises(FileError, match=r"has 2 names \(hard links\)"):
            Ledger(path)


def test_the_mode_stays(ledger: Ledger) -> None:
    ledger.path.chmod(0o664)
    ledger.charge("a", "one", costing(0.5))
    assert ledger.path.stat().st_mode & 0o777 == 0o664


def test_a_ledger_that_cannot_be_written_says_so(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.privacy.ledger_file.PATIENCE", 0.05)
    with (
        ledger.changing(),
        pytest.raises(FileError, match=r"ledger\.db cannot be used: .*locked"),
    ):
        ledger.charge("a", "one", costing(0.5))
    assert ledger.spent("a") == 0


def test_a_spending_and_a_reader_do_not_wait_for_each_other(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.privacy.ledger_file.PATIENCE", 0.05)
    with ledger.changing() as book:
        book.charge("a", "one", costing(0.5))
        assert ledger.spent("a") == 0
    assert ledger.spent("a") == pytest.approx(0.5)


def test_a_report_is_pending_until_it_has_arrived(ledger: Ledger) -> None:
    for key in "ab":
        ledger.answer(key, "survey", costing(0.5), lambda own=key: [own])
    assert [entry.report for entry in Ledger(ledger.path).pending()] == [["a"], ["b"]]
    assert [entry.report for entry in ledger.pending("b")] == [["b"]]
    ledger.mark_sent("a", "survey")
    assert [entry.key for entry in ledger.pending()] == ["b"] and not ledger.pending("a")
    assert ledger.answer("a", "survey", costing(0.5), lambda: ["new"]) == ["a"]
    with pytest.raises(ParameterError, match="no report of this key in release 'other'"):
        ledger.mark_sent("a", "other")
    ledger.charge("a", "charged", costing(0.5))
    with pytest.raises(ParameterError, match="no report of this key in release 'charged'"):
        ledger.mark_sent("a", "charged")


def test_a_new_round_costs_again(ledger: Ledger) -> None:
    draws = iter("xyz")
    assert ledger.answer("a", "survey/1", costing(0.75), lambda: next(draws)) == "x"
    assert ledger.answer("a", "survey/2", costing(0.75), lambda: next(draws)) == "y"
    with pytest.raises(PrivacyError, match=r"0\.5 is left"):
        ledger.answer("a", "survey/3", costing(0.75), lambda: next(draws))
    assert ledger.spent("a") == pytest.approx(1.5)


def test_a_campaign_may_have_a_smaller_budget_than_the_ledger(ledger: Ledger) -> None:
    ledger.answer("a", "one", costing(0.75), lambda: [1], budget=costing(1.0))
    with pytest.raises(PrivacyError, match=r"costs epsilon 0\.75, but 0\.25 is left of 1 "):
        ledger.answer("a", "two", costing(0.75), lambda: [1], budget=costing(1.0))
    ledger.answer("a", "two", costing(0.75), lambda: [1], budget=costing(9.0))
    with pytest.raises(PrivacyError, match=r"0\.5 is left of 2 "):
        ledger.answer("a", "three", costing(0.75), lambda: [1], budget=costing(9.0))


def test_what_was_forgotten_is_gone_and_still_counts(ledger: Ledger) -> None:
    secret = "a report that nobody shall find here"
    ledger.answer("a", "survey", costing(0.5), lambda: secret)
    ledger.forget("a", "survey")
    assert ledger.pending() == () and ledger.of("a")[0].report is None
    assert not any(secret.encode() in path.read_bytes() for path in ledger.path.parent.iterdir())
    assert ledger.answer("a", "survey", costing(0.5), lambda: "second") == "second"
    assert ledger.answer("a", "survey", costing(0.5), lambda: "third") == "second"
    assert ledger.spent("a") == pytest.approx(1.0)
    with pytest.raises(ParameterError, match="no report of this key"):
        ledger.forget("a", "other")


def test_a_question_is_dealt_once_whatever_happens_next(ledger: Ledger) -> None:
    draws = iter(range(10))
    assert ledger.deal("a", "survey/1", lambda: {"question": next(draws)}) == {"question": 0}
    ledger.answer("a", "survey/1", costing(0.5), lambda: [1])
    ledger.forget("a", "survey/1")
    assert Ledger(ledger.path).deal("a", "survey/1", lambda: next(draws)) == {"question": 0}
    assert ledger.deal("b", "survey/1", lambda: next(draws)) == 1
    assert ledger.deal("a", "survey/2", lambda: next(draws)) == 2
    assert ledger.spent("b") == 0
    with pytest.raises(ParameterError, match="a dealt value cannot be None"):
        ledger.deal("c", "survey/1", lambda: None)


def test_a_charge_and_a_report_of_one_release_both_count(ledger: Ledger) -> None:
    """Charging a release that was answered costs again, and the answer can still be repeated."""
    ledger.answer("a", "survey", costing(0.5), lambda: [1])
    ledger.charge("a", "survey", costing(0.5))
    assert ledger.answer("a", "survey", costing(0.5), lambda: [2]) == [1]
    assert ledger.spent("a") == pytest.approx(1.0)
    assert [entry.state for entry in ledger.of("a")] == ["pending", "charged"]


def test_a_hundred_thousand_entries_answer_in_milliseconds(tmp_path: Path) -> None:
    """Of CPU, for one key or for many; version 0.1.0 took 3.7 s."""
    ledger = Ledger.create(tmp_path / "ledger.db", costing(600.0))
    with ledger.changing() as book:
        for number in range(50_000):
            book.charge("everyone", f"release {number}", costing((1 + number % 3) / 200))
            book.charge(f"person {number}", "survey", costing(0.5))
    assert ledger.spent("everyone") == pytest.approx(499.995, abs=1e-9)
    times = []
    for number in range(15):
        start = time.process_time()
        ledger.answer("everyone", f"answer {number}", costing(0.2), lambda: [1])
        ledger.answer(f"person {number}", "answer", costing(0.2), lambda: [1])
        times.append((time.process_time() - start) / 2)
    assert sorted(times)[7] < 0.02


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"the ledger cannot be kept in .*No such file"):
        Ledger.create(tmp_path / "missing" / "ledger.db", None)


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
