"""Questionnaire: each person is dealt one small question and answers it at the full guarantee."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels.contrasts import subsets
from sfumato.channels.linear import Plain, plain_variance, posterior_variance
from sfumato.channels.questionnaire_channel import Question, Questions, System
from sfumato.domain import Category, Cells, Columns, Domain
from sfumato.errors import ParameterError, SchemaError, Unanswerable, listing
from sfumato.mechanisms.base import (
    Mechanism,
    Within,
    by_parameters,
    check_kept,
    every_cell,
    is_public,
    safe_log,
)
from sfumato.mechanisms.gamma_diagonal import check_cells
from sfumato.mechanisms.limits import (
    DENSE,
    FINENESS,
    MOST_CELLS,
    MOST_MAPPED,
    MOST_PREDICTED,
    MOST_QUESTIONS,
    MOST_TOTAL,
    PREDICTED,
)
from sfumato.mechanisms.parameters import AskedSet, Option
from sfumato.mechanisms.question_choice import (
    FEW_CELLS,
    FEW_COLUMNS,
    USUAL,
    asked,
    asked_about,
    by_order,
    cover,
    free_column,
    least_number,
    stated,
)
from sfumato.mechanisms.shares import (
    MOST_ORDER,
    Workload,
    expected_squares,
    information,
    level_weights,
    mean_squares,
    scattered,
)
from sfumato.mechanisms.steps import Deal, Kary, Step
from sfumato.observation import CellTally, Observation
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.probability import ONE
from sfumato.untrusted import Untrusted

BESIDE_TARGET = 0.3  # the share of questions about other columns where one is to be predicted


@checked
@dataclass(frozen=True, repr=False)
class Questionnaire(Mechanism):
    """One question of many, dealt by chance; its answer by k-ary response.

    Question q asks for the cell of a few columns, or for the group that a public map puts it in, t
    = h_q(x), one of g answers. With γ = a/b in integers, u below a + b(g−1) is drawn: u < a reports
    t, any other u reports (t + 1 + ⌊(u−a)/b⌋) mod g. So P(q, y | x) = π_q · (a if y = h_q(x) else
    b) / (a + b(g_q−1)).

    **Proof of the guarantee.** π_q is drawn from randomness that no record enters, and the
    denominator depends on q alone. For two records x, x′ and any report (q, y) both cancel, and
    P(q, y | x) / P(q, y | x′) is a ratio of two numbers out of {a, b}: at most a/b = γ, and equal
    to it for every question that tells the two records apart. Nothing else leaves the device. ∎

    >>> from sfumato.domain import Category
    >>> sides = ("heads", "tails")
    >>> coins = Domain((Category("first", sides), Category("second", sides)))
    >>> mechanism = Questionnaire.promising(Guarantee(3), coins, questions="singles:0.5,pairs:0.5")
    >>> mechanism.guarantee, [question.columns for question in mechanism.questions]
    (Guarantee(gamma=3), [(0,), (1,), (0, 1)])
    """

    name = "questionnaire"
    summary = "records: one small question a person, answered at the full guarantee"
    options = (
        Option(
            "questions",
            "which are asked and how often, as in singles:0.1,pairs:0.5,triples:0.4 or "
            "singles:0.4,age+sex:0.6",
            str,
            beside=True,
            needed=False,
            remarks=lambda mechanism, given: stated(given, mechanism.domain)[2],
        ),
        Option(
            "target",
            "the column to be predicted: most questions are about it",
            str,
            beside=True,
            needed=False,
        ),
    )
    domain: Domain
    gamma: Gamma
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        check_cells(self.name, self.domain)
        if not 1 < self.gamma < math.inf:
            raise ParameterError(
                f"gamma={float(self.gamma):g} promises nothing or tells nothing; use a finite "
                "gamma > 1"
            )
        object.__setattr__(self, "gamma", _simple(Fraction(self.gamma), self._most_answers))
        self._check_questions()

    @property
    def _most_answers(self) -> int:
        return max((question.answers for question in self.questions), default=2)

    def _check_questions(self) -> None:
        shape, names = self.domain.private.shape, self.domain.private.names
        if not 0 < len(self.questions) <= MOST_QUESTIONS:
            raise ParameterError(
                f"a questionnaire has {len(self.questions):,} questions; use 1 to "
                f"{MOST_QUESTIONS:,}"
            )
        if sum(len(question.map or ()) for question in self.questions) > MOST_MAPPED:
            raise ParameterError(
                f"the maps of these questions have more than {MOST_MAPPED:,} cells",
                hint="give large columns fewer values, or ask about fewer columns at once",
            )
        for place, question in enumerate(self.questions, 1):
            check_question(place, question, shape, names)
        if sum(question.weight for question in self.questions) != ONE:
            raise ParameterError("the weights of the questions must sum to 2^32")
        never = set(asked_about(shape)) - {a for q in self.questions for a in q.columns}
        if never:
            raise ParameterError(
                f"no question asks about {listing(names[axis] for axis in sorted(never))}",
                hint="ask about it, or leave it out of the schema",
            )

    @classmethod
    def promising(
        cls,
        guarantee: Guarantee,
        domain: Domain,
        *,
        questions: str | None = None,
        target: str | None = None,
    ) -> Self:
        """The questions that a text states (singles:0.1,pairs:0.5,triples:0.4), else the usual ones
        for few columns and a planned cover for many; with a target, those about it.
        """
        domain = domain.binned()
        check_cells(cls.name, domain)
        private, gamma = domain.private, float(guarantee.gamma)
        _check_values(private)
        if not 1 < gamma < math.inf:
            raise ParameterError(f"gamma={gamma:g} cannot be promised by a questionnaire")
        sets, shares = _chosen(domain, gamma, questions, target)
        kept = _simple(Fraction(guarantee.gamma), MOST_CELLS)
        mechanism = cls(domain, kept, asked(sets, shares, private.shape, gamma))
        check_kept(mechanism, guarantee)
        return mechanism

    def parameters(self) -> dict[str, Any]:
        names = self.domain.private.names
        return {
            "gamma": str(Fraction(self.gamma)),
            "questions": [
                {"columns": [names[axis] for axis in each.columns], "weight": each.weight}
                | ({} if each.map is None else {"answers": each.answers, "map": list(each.map)})
                for each in self.questions
            ],
        }

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, "the questionnaire's parameters")
        entries = given["questions"].entries(MOST_QUESTIONS)
        return cls(domain, given["gamma"].fraction(), tuple(_read(domain, e) for e in entries))

    # What is reported.

    @cached_property
    def private_reports(self) -> Domain:
        taken = {attribute.name for attribute in self.domain if attribute.public}
        names = self._private.names
        labels: list[str] = []
        seen: Counter[tuple[int, ...]] = Counter()
        for each in self.questions:
            seen[each.columns] += 1
            label = " × ".join(names[axis] for axis in each.columns)
            labels.append(label if each.map is None else f"{label} #{seen[each.columns]}")
        answers = tuple(map(str, range(self._most_answers)))
        return Domain(
            (
                Category(free_column("question", taken), tuple(labels)),
                Category(free_column("answer", taken), answers),
            )
        )

    def steps(self) -> tuple[Step, ...]:
        shape, gamma = self._private.shape, Fraction(self.gamma)
        kary = tuple(
            Kary(
                columns=each.columns,
                reports=(1,),
                sizes=tuple(shape[axis] for axis in each.columns),
                answers=each.answers,
                map=each.map,
                a=gamma.numerator,
                b=gamma.denominator,
            )
            for each in self.questions
        )
        weights = tuple(each.weight for each in self.questions)
        read = tuple(sorted({axis for each in self.questions for axis in each.columns}))
        return (Deal(columns=read, reports=(0, 1), weights=weights, questions=kary),)

    # What it says.

    @cached_property
    def _system(self) -> System:
        return System(self._private.shape, self.questions, float(self.gamma))

    @cached_property
    def largest(self) -> int:
        """The most columns that one question holds together."""
        return max(len(each.columns) for each in self.questions)

    @by_parameters
    def together(self) -> tuple[tuple[str, ...], ...]:
        names = self._private.names
        sets = dict.fromkeys(each.columns for each in self.questions)
        return tuple(tuple(names[axis] for axis in axes) for axes in sets)

    @by_parameters
    def details(self) -> Mapping[str, Any]:
        names, shape = self._private.names, self._private.shape
        return {
            "questions": [
                {
                    "columns": [names[axis] for axis in each.columns],
                    "cells": math.prod(shape[axis] for axis in each.columns),
                    "answers": each.answers,
                    "share": each.share,
                }
                for each in self.questions
            ]
        }

    @by_parameters
    def at_once(self) -> int:
        every = asked_about(self._private.shape)
        for order in range(2, self.largest + 1):
            if not all(map(self._information, combinations(every, order))):
                return order - 1
        return self.largest

    def _channel(self, cells: Sequence[Cells]) -> Questions:
        private = self._private
        places = [private.axis(part.name) for part in cells]
        axes = tuple(sorted(places))
        shown = tuple(part.size for part in cells)
        codes = np.indices([private.shape[axis] for axis in axes]).reshape(len(axes), -1)
        coarse = [
            part.assign(codes[axes.index(place)]).astype(np.intp)
            for part, place in zip(cells, places, strict=True)
        ]
        view = np.ravel_multi_index(tuple(coarse), shown)
        return Questions(self._system.about(axes), axes, view, shown)

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        names = [part.name for part in cells]
        if not self._held({self._private.axis(name) for name in names}):
            raise Unanswerable(
                f"no question held {listing(names)} together ({self.largest} columns at once at "
                "most)",
                hint="fit a model (sfumato fit), or ask about fewer columns at once",
                columns=tuple(names),
                largest=self.largest,
            )
        tally = CellTally(tuple(attribute.cells() for attribute in self.private_reports))
        return Observation(tuple(cells), tally, self._channel(cells))

    def _held(self, axes: Set[int]) -> bool:
        """Whether some question holds these columns together, those of one value left aside."""
        wanted = axes & {*asked_about(self._private.shape)}
        return any(wanted <= each.held for each in self.questions)

    @by_parameters
    def asked_sets(self) -> tuple[AskedSet, ...]:
        """Questions whose every cell is an answer say the same together; of a folded set each fold
        is needed.
        """
        names = self._private.names
        shares: list[tuple[frozenset[int], float, bool]]
        shares = [(each.held, each.weight, False) for each in self._unfolded]
        shares += [(held, weight, True) for held, weight in self._least_folds.items()]
        return tuple(
            AskedSet(frozenset(names[axis] for axis in held), weight / ONE, folded)
            for held, weight, folded in shares
        )

    @cached_property
    def _least_folds(self) -> dict[frozenset[int], float]:
        """The least weight of a fold of each folded set of columns, were there no more folds than
        are needed: some of more may go unanswered.
        """

        def needed(folds: Sequence[Question]) -> int:
            return least_number(len(folds[0].map or ()), max(each.answers for each in folds))

        found: dict[frozenset[int], list[Question]] = {}
        for each in self.questions:
            if each.map is not None:
                found.setdefault(each.held, []).append(each)
        return {
            held: min(each.weight for each in folds) * max(1.0, len(folds) / needed(folds))
            for held, folds in found.items()
        }

    def predicted_variance(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float | None:
        """The variance of the planned least squares at this truth, less what holding the people
        fixed takes away.
        """
        if any(is_public(self.domain, part) for part in cells):
            return None
        key = (*(part.key for part in cells), weights.tobytes(), shares.tobytes())
        if key not in self._variances:
            seen = scattered(weights.ravel(), shares.ravel())
            self._variances[key] = max(0.0, self._variance(cells, weights, shares) - seen)
        return self._variances[key]

    @cached_property
    def _variances(self) -> dict[Any, float]:
        """What was predicted: a plan asks for the same in several places."""
        return {}

    def _variance(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float:
        places = [self._private.axis(part.name) for part in cells]
        laws = [part.counts() / part.attribute.size for part in cells]
        if not self._held(frozenset(places)):
            names = listing(part.name for part in cells)
            raise Unanswerable(f"nothing is told of {names} together: no question joins them")
        if not self._folds_about(frozenset(places)):
            plain = self._plain(places)
            return plain_variance(plain, float(self.gamma), laws, weights, shares)
        whole = math.prod(part.attribute.size for part in cells)
        system = self._system.about(tuple(sorted(places)))
        if whole <= MOST_PREDICTED and system.interactions.size <= PREDICTED:
            return self._channel(cells).predicted_variance(weights, shares)
        return self._roughly(places, laws, weights)

    def modelled_variance(
        self,
        cells: Sequence[Cells],
        weights: NDArray[Any],
        shares: NDArray[Any],
        people: float,
        order: int,
    ) -> float | None:
        """The posterior variance under what generated worlds let expect (`expected_squares`); an
        interaction that nobody is asked about, or of more columns than the model's order, keeps
        what it is expected to have.
        """
        if any(is_public(self.domain, part) for part in cells):
            return None
        places = [self._private.axis(part.name) for part in cells]
        laws = [part.counts() / part.attribute.size for part in cells]
        shape, plain = self._private.shape, self._plain(places)
        if order == 1:
            plain = _alone(plain)
        folds, expected = {}, {}
        for part in subsets(tuple(range(len(cells))), MOST_ORDER):
            axes = tuple(sorted(places[place] for place in part))
            expected[part] = 1 / (people * expected_squares(shape, axes))
            if len(part) <= order and all(len(laws[place]) > 1 for place in part):
                wider = math.prod(_mixed(shares, place) / _mixed(laws[place]) for place in part)
                folds[part] = wider * self._folded_information(axes)
        gamma, truth = float(self.gamma), np.asarray(shares, dtype=np.float64)
        found = 0.0
        for level, weight in enumerate(level_weights(len(asked_about(shape)))):
            prior = {part: float(each[level]) for part, each in expected.items()}
            each = posterior_variance(plain, gamma, laws, weights, truth, folds, prior)
            found += float(weight) * max(0.0, each)
        return found

    @by_parameters
    def beyond_prediction(self) -> tuple[str, ...]:
        if not self._least_folds:
            return ()
        apart: list[tuple[int, ...]] = [(axis,) for axis in range(len(self._private))]
        apart += [tuple(sorted(each)) for each in self._least_folds]
        systems = [self._system] if self._system.full else map(self._system.about, apart)
        if max(system.interactions.size for system in systems) <= PREDICTED:
            return ()
        return (
            "columns of many cells are asked about in parts, too many to be worked out: their "
            "unbiased errors may be up to three times those predicted",
        )

    def _folds_about(self, axes: frozenset[int]) -> bool:
        """Whether folded questions enter what is told of these columns: any about one of them, or
        where all questions are too many to be solved together, those about nothing else.
        """
        folded = self._least_folds
        if folded and self._system.full:
            return any(not axes.isdisjoint(columns) for columns in folded)
        if any(columns <= axes for columns in folded):
            return True
        return bool(folded) and not any(axes & each.held for each in self._unfolded)

    @cached_property
    def _unfolded(self) -> list[Question]:
        return [each for each in self.questions if each.map is None]

    def _plain(self, places: Sequence[int]) -> Plain:
        """How often each part of these columns is asked at once, every cell an answer, by the
        number of answers; columns by their places in this order.
        """
        found: dict[tuple[int, ...], dict[int, float]] = {}
        for each in self._unfolded:
            inside = tuple(n for n, place in enumerate(places) if place in each.held)
            if inside:
                own = found.setdefault(inside, {})
                own[each.answers] = own.get(each.answers, 0.0) + each.share
        return found

    def _roughly(
        self, places: Sequence[int], laws: Sequence[NDArray[Any]], weights: NDArray[Any]
    ) -> float:
        """Σ_A M_A/I_A: M_A the mean square of the weights' interaction A, I_A what a person would
        tell of each feature of A (`shares`) at an even truth, were there folds without end.
        """
        squares = mean_squares(np.asarray(weights, dtype=np.float64), laws)
        axes = [tuple(sorted(places[place] for place in part)) for part in squares]
        told = map(self._information, axes)
        return sum(square / each for square, each in zip(squares.values(), told, strict=True))

    def _information(self, axes: tuple[int, ...]) -> float:
        """What a person tells, on average, of each feature of an interaction."""
        if axes not in self._told:
            held = frozenset(axes)
            self._told[axes] = sum(each for own, each in self._each if held <= own)
        return self._told[axes]

    def _folded_information(self, axes: tuple[int, ...]) -> float:
        """The same of what folded questions alone tell."""
        held, folded = frozenset(axes), self._least_folds
        return sum(each for own, each in self._each if own in folded and held <= own)

    @cached_property
    def _told(self) -> dict[tuple[int, ...], float]:
        return {}

    @cached_property
    def _each(self) -> list[tuple[frozenset[int], float]]:
        """What each question adds to what a person tells of the features of its columns."""
        gamma, cells = float(self.gamma), self._system.interactions.cells
        return [
            (each.held, each.share * information(gamma, each.answers, cells(each.columns)))
            for each in self.questions
        ]

    @cached_property
    def _private(self) -> Domain:
        return self.domain.private

    @property
    def private_channel(self) -> Questions:
        private = self._private
        if private.cells > DENSE:
            raise Unanswerable(
                f"the channel over {private.cells:,} records is too large to be written down"
            )
        return self._channel([private.cells_of(axis.name) for axis in private.axes])

    def private_channel_over(self, axes: Sequence[int]) -> Questions:
        private = self._private
        return self._channel([private.cells_of(private.axes[axis].name) for axis in axes])

    def private_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within | None, margins: Any
    ) -> NDArray[Any]:
        """Where every cell is an answer, a question speaks of those of its columns that are asked
        about; a folded one only where all are. Other reports are 0 for all groups.
        """
        groups = every_cell(cells) if within is None else [np.asarray(part) for part in within]
        places = [self.reports.index(attribute.name) for attribute in self.private_reports]
        dealt, answers = (np.asarray(reports[place]).astype(np.intp) for place in places)
        logs = np.zeros((len(dealt), len(groups[0])))
        for number, question in enumerate(self.questions):
            here = np.flatnonzero(dealt == number)
            if here.size:
                told = self._chances(question, cells, groups)
                logs[here] = 0.0 if told is None else safe_log(told)[answers[here]]
        return logs

    def _chances(
        self, question: Question, cells: Sequence[Cells], groups: Sequence[NDArray[Any]]
    ) -> NDArray[Any] | None:  # (answers, groups)
        """P(answer | group), cells spread evenly within coarser ones; None where it
        says nothing.
        """
        private = self._private
        place = {private.axis(part.name): number for number, part in enumerate(cells)}
        inside = [axis for axis in question.columns if axis in place]
        if not inside or (question.map is not None and len(inside) < len(question.columns)):
            return None
        shape = [private.shape[axis] for axis in question.columns]
        chances = np.ones((math.prod(shape), len(groups[0])))
        for axis, codes in zip(
            question.columns, np.indices(shape).reshape(len(shape), -1), strict=True
        ):
            if axis in place:
                part = cells[place[axis]]
                even = groups[place[axis]] / part.counts()
                chances *= even[:, part.assign(codes).astype(np.intp)].T
            else:
                chances /= private.shape[axis]
        if question.map is not None:
            folded = np.zeros((question.answers, chances.shape[1]))
            np.add.at(folded, np.asarray(question.map), chances)
            chances = folded
        gamma = float(self.gamma)
        return (1 + (gamma - 1) * chances) / (gamma + question.answers - 1)


def _alone(plain: Plain) -> Plain:
    """What the same answers say of each column by itself."""
    found: dict[tuple[int, ...], dict[int, float]] = {}
    for axes, shares in plain.items():
        for axis in axes:
            own = found.setdefault((axis,), {})
            for answers, share in shares.items():
                own[answers] = own.get(answers, 0.0) + share
    return found


def _mixed(shares: NDArray[Any], axis: int = 0) -> float:
    """How often two people differ in a column (Gini's index)."""
    others = tuple(other for other in range(shares.ndim) if other != axis)
    return 1 - float((shares.sum(axis=others) ** 2).sum())


def check_question(
    place: int, question: Question, shape: Sequence[int], names: Sequence[str]
) -> None:
    """Refuse a question that has nothing to ask, or a map that does not fit its columns."""
    columns, said = question.columns, f"question {place}"
    if not columns or list(columns) != sorted(set(columns)) or columns[-1] >= len(shape):
        raise ParameterError(f"{said} must name private columns, each once and in order")
    cells = math.prod(shape[axis] for axis in columns)
    named = listing(names[axis] for axis in columns)
    if not 1 < cells <= MOST_CELLS:
        raise ParameterError(
            f"{said}, about {named}, has {cells:,} cells; a question needs 2 to {MOST_CELLS:,}",
            hint="ask about a column with more values" if cells < 2 else "use coarser cells",
        )
    mapped = range(cells) if question.map is None else question.map
    if len(mapped) != cells or set(mapped) != set(range(question.answers)):
        raise ParameterError(
            f"{said}, about {named}, maps {len(mapped)} cells to {question.answers} answers; each "
            f"of its {cells} cells needs one, and each answer a cell"
        )
    if question.answers < 2:
        raise ParameterError(f"{said}, about {named}, has one answer; it needs two at least")
    if question.weight < 1:
        raise ParameterError(f"{said}, about {named}, is never dealt; give it a share above 0")


def _check_values(private: Domain) -> None:
    if not asked_about(private.shape):
        raise SchemaError(
            f"{listing(private.names)} {'has' if len(private) == 1 else 'have'} one value, so "
            "there is nothing to ask about",
            hint="give the schema a column with two values at least",
        )
    for attribute in private:
        if attribute.size > MOST_CELLS:
            raise SchemaError(
                f"'{attribute.name}' has {attribute.size:,} values, more than the {MOST_CELLS:,} "
                "of "
                "one question",
                hint="give it fewer: coarser cuts, or other = … for the rare ones",
            )


def _chosen(
    domain: Domain, gamma: float, questions: str | None, target: str | None
) -> tuple[list[tuple[int, ...]], list[float]]:
    """The sets of columns to ask about and their shares."""
    private = domain.private
    shape = private.shape
    if questions is not None and target is not None:
        raise ParameterError(
            "questions and a target are given; either decides what is asked", hint="give one"
        )
    if target is not None:
        if private[target].size < 2:
            raise ParameterError(
                f"the target '{target}' has one value, so there is nothing to predict",
                hint="give a column with two values at least",
            )
        return _about(shape, gamma, private.index(target))
    if questions is not None:
        return stated(questions, domain)[:2]
    if are_few(private):
        return by_order(shape, USUAL, private.names)[:2]
    sets, shares = cover(shape, gamma, Workload.itemsets(shape, 3, 2))
    return sets, shares.tolist()


def are_few(private: Domain) -> bool:
    """Whether every order of question is asked of these columns; of more, a planned cover."""
    largest = math.prod(sorted(private.shape)[-max(USUAL) :])
    few = len(asked_about(private.shape)) <= FEW_COLUMNS and private.cells <= FEW_CELLS
    return few and largest <= MOST_CELLS


def _about(
    shape: tuple[int, ...], gamma: float, axis: int
) -> tuple[list[tuple[int, ...]], list[float]]:
    """Questions for one column: mostly with each of the others, some about the others together, so
    that a model knows which of them say the same.
    """
    found: dict[tuple[int, ...], float] = {}
    for workload, within, part in (
        (Workload.target(shape, axis), (axis,), 1 - BESIDE_TARGET),
        (Workload.itemsets(shape, 3, 2), None, BESIDE_TARGET),
    ):
        sets, shares = cover(shape, gamma, workload, within)
        for axes, share in zip(sets, shares.tolist(), strict=True):
            found[axes] = found.get(axes, 0.0) + part * share
    return list(found), list(found.values())


def _simple(gamma: Fraction, answers: int) -> Fraction:
    """The largest fraction, not above gamma, whose draws stay below 2^24."""
    if gamma.numerator + gamma.denominator * (answers - 1) <= MOST_TOTAL:
        return gamma
    bounded = min(gamma, Fraction(MOST_TOTAL // 2))
    scale = max(1, min(FINENESS, MOST_TOTAL // math.ceil(bounded + answers)))
    return Fraction(math.floor(bounded * scale), scale)


def _read(domain: Domain, entry: Untrusted) -> Question:
    """One question out of a file."""
    fields = entry.fields()
    names = fields["columns"].words()
    for name in names:
        if domain[name].public:
            raise ParameterError(
                f"a question asks about '{name}', which is public and stands in every report",
                hint="ask about private columns",
            )
    columns = tuple(sorted(domain.private.index(name) for name in names))
    weight = fields["weight"].whole(1, ONE)
    if "map" not in fields:
        cells = math.prod(domain.private.shape[axis] for axis in columns)
        return Question(columns, cells, weight)
    answers = fields["answers"].whole(2, MOST_CELLS)
    found = fields["map"].numbers(MOST_CELLS, least=0, highest=answers - 1)
    return Question(columns, answers, weight, tuple(int(each) for each in found))
