"""Small problems whose every cell can be written down."""

from __future__ import annotations

from itertools import product

import numpy as np

from sfumato.channels.contrasts import Interactions
from sfumato.channels.questionnaire_channel import Question
from sfumato.model.loglinear import Likelihood, LogLinear
from sfumato.model.observed import Answers
from sfumato.privacy.probability import ONE

SHAPE = (2, 3, 4)
ORDERED = (False, False, True)
GAMMA = 8.0
TENTH = round(ONE / 10)


def planted(seed: int = 2) -> np.ndarray:
    """A law as they are met: interactions of every order, the weaker the more columns they have
    and the rougher they are.
    """
    rng, every = np.random.default_rng(seed), Interactions.up_to(SHAPE, ORDERED, 3)
    size = np.array([0.5, 0.25, 0.08])[every.orders - 1][every.blocks] / every.degrees
    law = np.exp(every.features((0, 1, 2)).matrix @ (size * rng.normal(size=every.size)))
    return law / law.sum()


TRUTH = planted()


def questions() -> tuple[Question, ...]:
    """Singles, pairs, and the triple folded to seven answers four times."""
    rng = np.random.default_rng(7)
    folds = []
    for _ in range(4):
        fold = np.empty(24, dtype=int)
        fold[rng.permutation(24)] = np.arange(24) % 7
        folds.append(tuple(int(answer) for answer in fold))
    return (
        *(Question((axis,), SHAPE[axis], TENTH) for axis in range(3)),
        Question((0, 1), 6, TENTH),
        Question((0, 2), 8, TENTH),
        Question((1, 2), 12, TENTH),
        *(Question((0, 1, 2), 7, TENTH, fold) for fold in folds),
    )


QUESTIONS = questions()


def cells_of(question: Question, shape: tuple[int, ...]) -> list[int]:
    """The true answer of every record, one after the other."""
    answers = []
    for record in product(*map(range, shape)):
        cell = 0
        for axis in question.columns:
            cell = cell * shape[axis] + record[axis]
        answers.append(cell if question.map is None else question.map[cell])
    return answers


def chances(question: Question, law: np.ndarray, gamma: float = GAMMA) -> np.ndarray:
    """P(answer) from the definition of k-ary response."""
    mass = np.bincount(cells_of(question, SHAPE), law, minlength=question.answers)
    return (1 + (gamma - 1) * mass) / (gamma + question.answers - 1)


def answers(
    people: float, rng: np.random.Generator | None = None, law: np.ndarray = TRUTH
) -> Answers:
    """The answers of so many people; exactly those to be expected where there is no chance."""
    most = max(question.answers for question in QUESTIONS)
    counts = np.zeros((len(QUESTIONS), most))
    for place, question in enumerate(QUESTIONS):
        expected = chances(question, law)
        asked = people * question.share
        counts[place, : question.answers] = (
            asked * expected if rng is None else rng.multinomial(round(asked), expected)
        )
    return Answers(SHAPE, ORDERED, 0, GAMMA, QUESTIONS, counts)


def likelihood(reports: Answers, order: int) -> Likelihood:
    family = LogLinear(Interactions.up_to(SHAPE, ORDERED, order), np.ones(1))
    return Likelihood.of(family, reports.measurements((0, 1, 2)))
