"""Every command answers from the files of version 0.2.0 what that version answered: values and
errors to 1e-9, the numbers of the text in their order, and refusals by their kind.

A case that fails says where first. If an answer changed on purpose, `python -m tests.golden.freeze`
with words of its line writes it anew, and the commit says why.
"""

from __future__ import annotations

import copy
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.golden.net import (
    EXPECTED,
    FILES,
    WITHIN,
    Case,
    Room,
    compared,
    difference,
    expected,
    load,
)

from sfumato.cli.commands import COMMANDS
from sfumato.mechanisms.registry import MECHANISMS
from sfumato.table import reader_of

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")
CASES = load()
WANTED = {table: expected(table) for table in {case.table for case in CASES}}
# Commands with nothing to hold: they serve, speak to servers, or repeat papers and the demo.
UNHELD = {"demo", "reproduce", "serve", "send", "simulate"}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """The files, copied to where commands may write."""
    return Room(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.table}: {case}")
def test_it_answers_as_version_0_2_0_did(case: Case, room: Room) -> None:
    told = compared(case, WANTED[case.table][case.line], room.run(case))
    assert told is None, f"{case}\n{told}"


def test_every_expectation_belongs_to_a_case_and_every_case_has_one() -> None:
    for table, answers in WANTED.items():
        assert answers.keys() == {case.line for case in CASES if case.table == table}
    assert {path.name.split(".")[0] for path in EXPECTED.iterdir()} == WANTED.keys()


def test_every_mechanism_and_every_command_is_held() -> None:
    releases = {path for path in FILES.glob("*.parquet") if "truth" not in path.stem}
    made = [reader_of(path).provenance for path in releases if path.stem != "weighted"]
    held = {each.mechanism.name for each in made if each}
    assert len(held) == 17 and held <= set(MECHANISMS)  # all that version 0.2.0 knew
    asked = {shlex.split(case.line)[0] for case in CASES if not case.call and not case.hostile}
    assert len(asked & set(COMMANDS)) == 18 and not asked & UNHELD  # and 23 commands


def places(answer: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every number of an answer but whole ones and those of the text."""
    if isinstance(answer, dict | list):
        parts = answer.items() if isinstance(answer, dict) else enumerate(answer)
        return [each for name, part in parts for each in places(part, (*path, name))]
    return [path] if isinstance(answer, float) else []


def changed(answer: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The answer with another value at one place."""
    other = copy.deepcopy(answer)
    inner = other
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value(inner[path[-1]])
    return other


@pytest.mark.parametrize("table", ["query", "mine", "classify", "plan", "arrow", "audit"])
def test_a_number_that_moves_by_a_millionth_is_caught(table: str) -> None:
    held = [each for each in CASES if each.table == table and each.within == WITHIN]
    seen = 0
    for case in held[:40]:
        answer = WANTED[table][case.line]
        for path in places(answer)[:3]:
            moved = changed(answer, path, lambda value: value * (1 + 1e-6) + 1e-6)
            told = difference(answer, moved, case.within)
            assert told and str(path[-1]) in told.partition(":")[0], (case, path)
            seen += 1
    assert seen > 20


def test_a_run_against_a_moved_expectation_fails_where_it_moved(room: Room) -> None:
    line = 'query questionnaire.parquet "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"'
    case = next(each for each in CASES if each.line == line)
    answer, wanted = room.run(case), WANTED["query"][line]
    assert difference(wanted, answer, WITHIN) is None
    moved = changed(wanted, ("json", "rows", 1, "n", "stderr"), lambda value: value * (1 + 1e-6))
    assert str(difference(moved, answer, WITHIN)).startswith(".json.rows[1].n.stderr: ")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("code",), lambda _: 2),
        (("json", "rows", 0, "sex"), lambda _: "other"),
        (("json", "rows", 0), lambda row: {**row, "more": 1}),
        (("json", "rows"), lambda rows: rows[::-1]),
        (("numbers",), lambda shown: [shown[1], shown[0], *shown[2:]]),
        (("numbers",), lambda shown: shown[:-1]),
    ],
)
def test_what_is_not_a_number_is_held_too(path: tuple[Any, ...], value: Any) -> None:
    line = 'query questionnaire.parquet "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex"'
    wanted = WANTED["query"][line]
    assert difference(wanted, changed(wanted, path, value), WITHIN) is not None


def test_rounding_for_people_may_fall_to_either_side_by_one_digit() -> None:
    assert difference({"numbers": ["0.125"]}, {"numbers": ["0.126"]}, WITHIN) is None
    assert difference({"numbers": ["0.125"]}, {"numbers": ["0.127"]}, WITHIN)
    assert difference({"numbers": ["1,125"]}, {"numbers": ["1,126"]}, WITHIN)


def test_the_files_are_few_and_small() -> None:
    sizes = [path.stat().st_size for path in Path(FILES).iterdir()]
    assert max(sizes) < 500_000 and sum(sizes) < 3_000_000
