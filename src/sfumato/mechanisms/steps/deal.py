"""Public columns sent as they are, and Deal: one of several questions by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.channels.limits import ENTRIES
from sfumato.domain import Codes, Columns, one_after_another
from sfumato.mechanisms.limits import CHUNK, LOOKUP, MOST_TOTAL, QUESTION_WORK, TOGETHER
from sfumato.mechanisms.steps.answer_steps import Kary
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import Action, Column, Ints, Shows, Step, Value
from sfumato.privacy.guarantee import Gamma
from sfumato.privacy.probability import ONE
from sfumato.randomness import Keystream

SMALL = 1 << 8  # bounds up to here are drawn from 16 bits, as everywhere


@dataclass(frozen=True, kw_only=True)
class Public(Action):
    """A column that is sent as it is, outside the guarantee."""

    kind = "public"
    size: int | None = None
    items: int | None = None

    def __post_init__(self) -> None:
        self.check(
            (self.size is None) != (self.items is None),
            "neither size nor items, or both",
            "give the size of the column or the items of its baskets",
        )
        self.check_columns()

    @property
    def inputs(self) -> tuple[Column, ...]:
        return (Column(self.size or self.items or 0, basket=self.items is not None),)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return tuple(replace(column, shows="value") for column in self.inputs)

    @property
    def gamma(self) -> Gamma:
        return Fraction(1)

    @property
    def work(self) -> int:
        return self.items or 1

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        return tuple(values)

    def run_many(self, columns: Columns, rng: Keystream) -> Columns:
        return columns

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(1)


@dataclass(frozen=True, kw_only=True)
class Deal(Step):
    """One of several questions, by weights of sum 2^32 that no record moves; its number, and its
    answer.

    The number stands in the first of `reports`. The questions share the others; a column that the
    question dealt does not write holds 0, or an empty basket.
    """

    kind = "deal"
    weights: Ints
    questions: tuple[Action, ...]

    def __post_init__(self) -> None:
        self.check(
            len(self.weights) == len(self.questions) >= 1
            and sum(self.weights) == ONE
            and min(self.weights) >= 1,
            f"{len(self.weights)} weights for {len(self.questions)} questions",
            "give one above 0 a question, of sum 2^32",
        )
        for question in self.questions:
            self.check(
                isinstance(question, Action) and not isinstance(question, Public),
                f"a '{question.kind}' among its questions",
                "deal once, and send public columns beside it",
            )
            self.check(
                set(question.reports) <= set(self.reports[1:]),
                f"a question that writes columns {list(question.reports)}",
                f"it may write {list(self.reports[1:])}",
            )
        self.check_columns()

    @cached_property
    def _inputs(self) -> dict[int, Column]:
        found: dict[int, Column] = {}
        for question in self.questions:
            for place, column in zip(question.columns, question.inputs, strict=True):
                self.check(
                    found.setdefault(place, column) == column,
                    f"questions that read column {place} as another",
                    "each column has one size",
                )
        return found

    @property
    def inputs(self) -> tuple[Column, ...]:
        found = self._inputs
        self.check(
            set(self.columns) == set(found),
            f"columns {list(self.columns)}",
            f"its questions read {sorted(found)}",
        )
        return tuple(found[place] for place in self.columns)

    @cached_property
    def _outputs(self) -> dict[int, Column]:
        found: dict[int, Column] = {}
        for question in self.questions:
            for place, column in zip(question.reports, question.outputs, strict=True):
                known = found.setdefault(place, column)
                self.check(
                    known.basket == column.basket,
                    f"questions that write codes and baskets to column {place}",
                    "give each its own",
                )
                larger = max(known, column, key=lambda shape: shape.size)
                found[place] = replace(larger, count=None)
        return found

    @property
    def outputs(self) -> tuple[Column, ...]:
        found = self._outputs
        self.check(
            set(self.reports[1:]) == set(found),
            f"reports {list(self.reports)}",
            f"its questions write {sorted(found)}",
        )
        return (Column(len(self.questions)), *(found[place] for place in self.reports[1:]))

    @property
    def gamma(self) -> Gamma:
        return max(question.gamma for question in self.questions)

    @property
    def kary(self) -> tuple[tuple[float, int], ...]:
        alike = all(each.kary and each.gamma == self.gamma for each in self.questions)
        pairs = zip(self.weights, self.questions, strict=True)
        return tuple((weight / ONE, each.kary[0][1]) for weight, each in pairs) if alike else ()

    @property
    def work(self) -> int:
        places = len(self.columns) + len(self.reports) + QUESTION_WORK
        return places * len(self.questions) + sum(question.work for question in self.questions)

    @property
    def sent_as_is(self) -> tuple[tuple[int, Shows], ...]:
        """What any of its questions sends as it is."""
        found = (each for question in self.questions for each in question.sent_as_is)
        return tuple(dict.fromkeys(found))

    @property
    def gives_all(self) -> bool:
        return False

    def gives(self, values: Sequence[Value]) -> bool:
        """Whether the question dealt can give these, the columns it does not write being blank."""
        number, *rest = values
        if not self.outputs[0].holds(number):
            return False
        assert isinstance(number, int)
        question = self.questions[number]
        given = dict(zip(self.reports[1:], rest, strict=True))
        own = [given.pop(place) for place in question.reports]
        return question.gives(own) and not any(given.values())

    @cached_property
    def _cumulative(self) -> list[int]:
        return list(accumulate(self.weights))

    def deal(self, draws: Draws) -> int:
        """The number of a question."""
        return draws.pick(self._cumulative)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes | Bits]:
        if self._allocation is not None:
            return list(self._allocation.reports(columns, rng))
        rows = len(columns[0])
        dealt = np.searchsorted(np.array(self._cumulative), rng.uint32(rows), side="right")
        order = np.argsort(dealt.astype(np.uint16), kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(dealt, minlength=len(self.questions)))[:-1])
        given = dict(zip(self.columns, columns, strict=True))
        shapes = dict(zip(self.reports, self.outputs, strict=True))
        parts: dict[int, list[Codes | Bits]] = {place: [] for place in self.reports[1:]}
        for question, here in zip(self.questions, groups, strict=True):
            own = tuple(given[place].take(here) for place in question.columns)
            drawn = dict(zip(question.reports, question.run_many(own, rng), strict=True))
            for place, found in parts.items():
                found.append(_filled(drawn.get(place), shapes[place], len(here)))
        back = np.argsort(order, kind="stable")
        return [dealt, *(one_after_another(found).take(back) for found in parts.values())]

    @cached_property
    def _allocation(self) -> Allocation | None:
        """The same, faster: where every question is a plain k-ary one with the same weights."""
        return Allocation.of(self.weights, self.columns, self.questions)


def _filled(drawn: Codes | Bits | None, column: Column, rows: int) -> Codes | Bits:
    """What a question wrote to a column: baskets of fewer items than another question's are
    widened, and what it does not write is blank.
    """
    if not column.basket:
        return np.zeros(rows, dtype=np.int64) if drawn is None else drawn
    parts = [drawn] if isinstance(drawn, Bits) else []
    missing = column.size - sum(part.items for part in parts)
    return Bits.stack([*parts, Bits.zeros(rows, missing)]) if missing else parts[0]


class Allocation:
    """Which question is dealt, what would be true, and what is reported, of many records at once.

    One record takes from the keystream what its device would take: a 32-bit word that deals the
    question, then an integer below a + b(g−1). It draws what `Deal` would draw question by
    question, two to three times as fast: question, true answer and bound are looked up in tables of
    16-bit numbers.
    """

    @classmethod
    def of(cls, weights: Ints, columns: Ints, questions: Sequence[Step]) -> Allocation | None:
        """The allocation of these questions about these columns; None where one is of another
        kind, or too large for 16 bits.
        """
        kary = [each for each in questions if isinstance(each, Kary) and each.starts is None]
        if len(kary) < len(questions) or len({(each.a, each.b) for each in kary}) > 1:
            return None
        if any(each.total > MOST_TOTAL or each.cells > LOOKUP for each in kary):
            return None
        return cls(weights, columns, kary)

    def __init__(self, weights: Ints, columns: Ints, questions: Sequence[Kary]) -> None:
        self.a, self.b = questions[0].a, questions[0].b
        self.totals = np.array([each.total for each in questions], dtype=np.uint64)
        self.answers = np.array([each.answers for each in questions], dtype=np.uint32)
        # The question by the high half of a word, and whether the low half may change it.
        self.ends = np.cumsum(weights, dtype=np.uint64)
        words = np.arange(1 << 16, dtype=np.uint64) << np.uint64(16)
        self.dealt = np.searchsorted(self.ends, words, side="right").astype(np.intp)
        last = np.searchsorted(self.ends, words + np.uint64(0xFFFF), side="right")
        self.unsure = self.dealt != last
        # The columns, in runs whose codes are looked up as one: all where that table is small.
        sizes = {c: s for each in questions for c, s in zip(each.columns, each.sizes, strict=True)}
        self.shape = [sizes[column] for column in columns]
        self.runs: list[list[int]] = [[]]
        whole = len(questions) * math.prod(self.shape) <= ENTRIES
        for axis, size in enumerate(self.shape):
            together = math.prod(self.shape[other] for other in self.runs[-1]) * size
            if self.runs[-1] and not whole and together > TOGETHER:
                self.runs.append([])
            self.runs[-1].append(axis)
        self.added = [self._added(run, columns, questions) for run in self.runs]
        # The answer of every cell of every question, and where each question's begin.
        maps = [np.arange(each.answers) if each.map is None else each.map for each in questions]
        self.folds = np.concatenate(maps).astype(np.uint16)
        self.starts = np.cumsum([0, *map(len, maps[:-1])])
        if len(self.runs) == 1:  # the cell is known, so its answer is
            cells = self.added[0].reshape(len(questions), -1) + self.starts[:, None]
            self.added = [self.folds[cells].ravel()]

    def _added(
        self, run: list[int], columns: Ints, questions: Sequence[Kary]
    ) -> NDArray[np.uint16]:  # (questions · cells of the run,)
        """What the codes of a run of columns add to the cell of each question."""
        sizes = [self.shape[axis] for axis in run]
        codes = dict(zip(run, np.indices(sizes).reshape(len(run), -1), strict=True))
        result = np.zeros((len(questions), math.prod(sizes)), dtype=np.uint16)
        for place, each in enumerate(questions):
            stride = 1
            for axis in map(columns.index, reversed(each.columns)):
                if axis in codes:
                    result[place] += (codes[axis] * stride).astype(np.uint16)
                stride *= self.shape[axis]
        return result.ravel()

    def reports(self, columns: Columns, rng: Keystream) -> tuple[NDArray[Any], NDArray[Any]]:
        """The question dealt to each record, and its answer."""
        rows = len(columns[0])
        dealt, answers = np.empty(rows, dtype=np.uint16), np.empty(rows, dtype=np.uint16)
        for start in range(0, rows, CHUNK):
            part = slice(start, min(start + CHUNK, rows))
            words = rng.uint32(part.stop - start)
            high = (words >> np.uint32(16)).astype(np.intp)
            question, open_ = self.dealt[high], np.flatnonzero(self.unsure[high])
            low = words[open_].astype(np.uint64)
            question[open_] = np.searchsorted(self.ends, low, side="right")
            true = np.zeros(len(words), dtype=np.uint16)
            for run, table in zip(self.runs, self.added, strict=True):
                code = question.copy()
                for axis in run:
                    code *= self.shape[axis]
                    code += np.asarray(columns[axis])[part]
                true += table[code]
            if len(self.runs) > 1:
                true = self.folds[self.starts[question] + true]
            # How far the answer is from the true one: 0 below a, then 1, 2, … every b integers.
            beyond = np.maximum(self._drawn(question, rng), self.a - self.b) - (self.a - self.b)
            moved = true + (beyond if self.b == 1 else beyond // self.b)
            size = self.answers[question]
            dealt[part], answers[part] = question, moved - np.where(moved >= size, size, 0)
        return dealt, answers

    def _drawn(self, question: NDArray[np.intp], rng: Keystream) -> NDArray[np.int64]:
        """An integer below its question's total for each record, exact by rejection."""
        narrow = self.totals <= SMALL
        if narrow.all() or not narrow.any():
            return _below(self.totals, question, rng, 16 if narrow.all() else 32)
        drawn = np.empty(len(question), dtype=np.int64)
        for bits, kind in ((16, narrow), (32, ~narrow)):
            here = np.flatnonzero(kind[question])
            drawn[here] = _below(self.totals, question[here], rng, bits)
        return drawn


def _below(
    totals: NDArray[np.uint64], question: NDArray[np.intp], rng: Keystream, bits: int
) -> NDArray[np.int64]:
    """As `Keystream.below`, each record with its own bound (Lemire 2019)."""
    wide: Any = np.uint32 if bits == 16 else np.uint64
    draw = rng.uint16 if bits == 16 else rng.uint32
    mask, shift = wide((1 << bits) - 1), wide(bits)
    again = (np.uint64(1 << bits) % totals).astype(wide)
    bounds = totals.astype(wide)[question]
    product = draw(len(question)).astype(wide) * bounds
    bad = np.flatnonzero((product & mask) < again[question])
    while bad.size:
        product[bad] = draw(bad.size).astype(wide) * bounds[bad]
        bad = bad[(product[bad] & mask) < again[question[bad]]]
    return (product >> shift).astype(np.int64)
