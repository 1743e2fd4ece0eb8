"""Which reports a program can give: all that it draws in the long run, and nothing besides."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
from tests.collect.vectors.vectors import records
from tests.mechanisms.programs import CASES, NUMBERS, QUESTIONNAIRE, Case

from sfumato.mechanisms.program import Program
from sfumato.mechanisms.steps import Draws, Subset
from sfumato.randomness import seeded


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_drawn_can_be_given(case: Case) -> None:
    draws = Draws.of(seeded(5))
    for record in records(case.program)[:60]:
        assert case.program.gives(case.program.randomise_one(record, draws))


def drawn(program: Program, record: list[Any], times: int) -> set[Any]:
    draws = Draws.of(seeded(11))
    reports = (program.randomise_one(record, draws) for _ in range(times))
    return {tuple(tuple(v) if isinstance(v, list) else v for v in report) for report in reports}


def test_nothing_else_can() -> None:
    """Against what is drawn in the long run: all that can be given, and nothing besides."""
    subset = Program(
        (Subset(columns=(0,), reports=(0,), sizes=(5,), answers=5, chosen=2, a=3, b=1),)
    )
    sets = [each for size in range(6) for each in combinations(range(5), size)]
    assert {(each,) for each in sets if subset.gives([each])} == drawn(subset, [3], 4000)
    every = product(*(range(column.size) for column in QUESTIONNAIRE.outputs))
    given = {report for report in every if QUESTIONNAIRE.gives(report)}
    seen = drawn(QUESTIONNAIRE, [1, 2, 3, 0], 6000) | drawn(QUESTIONNAIRE, [1, 2, 3, 1], 6000)
    assert given == seen and not QUESTIONNAIRE.gives_all


def test_a_column_that_the_question_does_not_write_is_blank() -> None:
    assert NUMBERS.gives([0, 3, []]) and NUMBERS.gives([1, 0, [0, 2]])
    assert not NUMBERS.gives([0, 3, [0, 2]]) and not NUMBERS.gives([1, 1, [0, 2]])
    assert not NUMBERS.gives([2, 0, []]) and not NUMBERS.gives([1, 0, [0]])
