"""Public columns sent as they are, and Deal: one of several questions by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np

from sfumato.bits import Bits
from sfumato.domain import Codes, Columns, one_after_another
from sfumato.mechanisms.steps.allocation import Allocation
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import Action, Column, Ints, Shows, Step, Value
from sfumato.privacy.guarantee import Gamma
from sfumato.privacy.probability import ONE
from sfumato.randomness import Keystream

QUESTION_WORK = 1 << 7  # to read and check one more question


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
