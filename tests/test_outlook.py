"""The outlook says what its closed forms give, and names a remedy only where it helps."""

from __future__ import annotations

import re

import pytest

from sfumato.domain import Category, Domain
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.plan.sample_sizes import SAID, USABLE, SampleSizes, _rounded
from sfumato.plan.workload import PlanWorkload
from sfumato.privacy.guarantee import Guarantee

NINETEEN = Guarantee(19)


def columns(number: int, values: int) -> Domain:
    labels = tuple(f"v{place}" for place in range(values))
    return Domain(tuple(Category(f"c{place}", labels) for place in range(number)))


def outlook(domain: Domain, people: int) -> SampleSizes:
    return SampleSizes(Questionnaire.promising(NINETEEN, domain), PlanWorkload(domain), people)


@pytest.mark.parametrize(
    ("people", "told"),
    [(1, 1), (7.2, 8), (12.1, 13), (100, 100), (101, 110), (1999, 2000), (99_001, 100_000)],
)
def test_people_are_told_to_two_figures_upwards(people: float, told: int) -> None:
    assert _rounded(people) == told


def test_the_errors_of_the_first_lengths_are_said() -> None:
    found = outlook(columns(6, 3), 50_000)
    said = found.sentences()[0]
    # of more columns, or where reports alone are no answer, a model answers, which is not unbiased
    held = sum(map(found.unaided, (1, 2, 3, 4)))
    assert f"at lengths 1 to {held}: " in said and held < SAID < len(found.errors)
    numbers = re.search(r"lengths 1 to \d: ([\d., ]+) %$", said)[1].split(", ")
    assert numbers == [f"{100 * found.error(length):.1f}" for length in range(1, held + 1)]
    even, beyond = found.sentences()[1:3]
    assert f"it would be {100 * found.even:.1f} % at length 2" in even
    assert f"below {100 * found.least:.1f} %" in even and found.least < found.even
    assert f"more than {held} columns at once a model answers" in beyond


def test_one_column_has_one_length() -> None:
    assert " at length 1: " in outlook(columns(1, 3), 50_000).sentences()[0]


def test_halving_is_a_remedy_only_where_it_helps() -> None:
    few, many = outlook(columns(6, 2), 300), outlook(columns(6, 8), 300)
    assert not few.usable and not any("halve" in each for each in few.remedies())
    (said,) = [each for each in many.remedies() if "halve" in each]
    told = int(re.search(r"\((\d+) % then\)", said)[1]) / 100
    halved = outlook(columns(6, 4), 300)
    assert told == pytest.approx(halved.error(), rel=0.2) and told < 0.9 * many.error()


def test_as_many_people_as_are_asked_for_make_it_usable() -> None:
    found = outlook(columns(6, 8), 300)
    (said,) = [each for each in found.remedies() if re.fullmatch(r"ask [\d,]+ people", each)]
    needed = int(said.split()[1].replace(",", ""))
    assert found.error() > USABLE >= outlook(columns(6, 8), needed).error()
    assert outlook(columns(6, 8), round(0.9 * needed)).error() > USABLE  # and hardly fewer do


def test_fewer_columns_are_a_remedy_only_if_enough() -> None:
    found = outlook(columns(8, 4), 3000)
    said = [each for each in found.remedies() if "columns instead of 8" in each]
    held = [number for number, error in found.by_columns if error <= USABLE]
    assert said == [f"ask {max(held)} columns instead of 8"] if held else not said


def test_the_promise_named_is_the_strictest_that_would_do() -> None:
    found = outlook(columns(6, 8), 3000)
    (said,) = [each for each in found.remedies() if each.startswith("promise gamma")]
    gamma = int(said.split()[2])
    asked = columns(6, 8)
    enough = SampleSizes(
        Questionnaire.promising(Guarantee(gamma), asked), PlanWorkload(asked), 3000
    )
    assert gamma > 19 and enough.usable and said.endswith("instead of 19")
