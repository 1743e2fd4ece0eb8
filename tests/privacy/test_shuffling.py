"""The shuffled epsilon against an enumeration of shuffled reports, and the design's figures."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations_with_replacement

import pytest

from sfumato.domain import Category, Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.combined import Combined
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.shuffle_amplification import shuffled_epsilon

Law = dict[tuple[int, ...], float]


def report(
    gamma: float, questions: list[tuple[float, int]], truths: tuple[int, ...]
) -> list[float]:
    """The chances of each report, questions one after the other, of a person with these truths."""
    return [
        share * (gamma if answer == truth else 1) / (gamma + answers - 1)
        for (share, answers), truth in zip(questions, truths, strict=True)
        for answer in range(answers)
    ]


def shuffled(chances: list[list[float]]) -> Law:
    """The law of how many people sent each report."""
    law: Law = {(0,) * len(chances[0]): 1.0}
    for person in chances:
        after: Law = defaultdict(float)
        for counts, chance in law.items():
            for place, own in enumerate(person):
                more = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
                after[more] += chance * own
        law = after
    return law


def exact_delta(gamma: float, questions: list[tuple[float, int]], people: int, epsilon: float):
    """The worst Σ max(P − e^ε Q, 0) over everything the others may have."""
    ones, twos = (0,) * len(questions), (1,) * len(questions)
    kinds = [ones, twos, tuple(answers - 1 for _, answers in questions)]
    worst = 0.0
    for others in combinations_with_replacement(dict.fromkeys(kinds), people - 1):
        beside = [report(gamma, questions, each) for each in others]
        first, second = (shuffled([report(gamma, questions, own), *beside]) for own in (ones, twos))
        found = sum(max(first[c] - math.exp(epsilon) * second[c], 0.0) for c in first)
        worst = max(worst, found)
    return worst


@pytest.mark.parametrize("gamma", [2, 19])
@pytest.mark.parametrize("questions", [[(1.0, 2)], [(1.0, 4)], [(0.3, 2), (0.7, 3)]])
@pytest.mark.parametrize("delta", [0.2, 0.05, 1e-3])
def test_the_bound_holds_for_every_crowd_of_few(gamma, questions, delta):
    for people in (2, 5):
        found = shuffled_epsilon(Guarantee(gamma), people, delta, questions)
        assert exact_delta(gamma, questions, people, found) <= delta


def test_half_of_the_bound_does_not_hold():
    found = shuffled_epsilon(Guarantee(3), 12, 0.01)
    assert found < Guarantee(3).epsilon
    assert exact_delta(3, [(1.0, 2)], 12, found / 2) > 0.01


def test_it_is_as_the_design_says():
    wanted = {2: (0.80, 0.22, 0.064), 5: (0.73, 0.205, 0.060), 20: (0.54, 0.156, 0.046)}
    for answers, bars in wanted.items():
        for reports, bar in zip((10**3, 10**4, 10**5), bars, strict=True):
            found = shuffled_epsilon(Guarantee(19), reports, questions=[(1.0, answers)])
            assert 0.95 * bar < found < bar


def test_programs_say_where_they_are_k_ary():
    colours, sizes = Category("colour", tuple("rgb")), Category("size", tuple("sml"))
    domain = Domain((colours, sizes))
    dealt = Questionnaire.promising(Guarantee(19), domain, questions="colour:0.25,pairs:0.75")
    assert dealt.program().kary == ((0.75, 9), (0.25, 3))
    assert GammaDiagonal.promising(Guarantee(19), domain).program().kary == ((1.0, 9),)
    assert Combined.promising(Guarantee(19), domain).program().kary == ()


def test_no_float_is_too_small_for_a_huge_promise():
    huge = Guarantee(10**400)
    assert shuffled_epsilon(huge, 1000) == huge.epsilon


def test_more_reports_never_hide_less_and_it_is_never_above_the_promise():
    found = [shuffled_epsilon(Guarantee(9), n) for n in (1, 2, 10, 300, 1234, 5000, 99_999, 10**6)]
    assert found == sorted(found, reverse=True)
    assert max(found) <= Guarantee(9).epsilon
    assert shuffled_epsilon(Guarantee(9), 12_399) == shuffled_epsilon(Guarantee(9), 12_300)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ParameterError, match="hide nobody"):
        shuffled_epsilon(Guarantee(2), 0)
    with pytest.raises(ParameterError, match="delta"):
        shuffled_epsilon(Guarantee(2), 10, 0)
    assert shuffled_epsilon(Guarantee(math.inf), 100) == math.inf


@pytest.mark.parametrize("delta", [0.0, 1.0, 1.5, -0.1, float("nan")])
def test_a_chance_that_is_none_is_refused(delta):
    with pytest.raises(ParameterError, match="strictly between 0 and 1"):
        shuffled_epsilon(Guarantee(19), 100, delta)
