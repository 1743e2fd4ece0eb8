"""Windows: numbers reported in the window that begins at them, more often than elsewhere; words
beside them as they are, more often than not.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Windowed
from sfumato.channels.questionnaire_channel import Question, Questions, System
from sfumato.channels.window import Shape, standing_below
from sfumato.domain import Attribute, Category, Cells, Columns, Domain, Numeric
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
from sfumato.mechanisms.limits import FINENESS
from sfumato.mechanisms.question_choice import free_column, whole_weights
from sfumato.mechanisms.shares import kary_variance, scattered
from sfumato.mechanisms.steps import Deal, Step, Window
from sfumato.mechanisms.steps.step import Action
from sfumato.mechanisms.weights import simple_below
from sfumato.observation import CellTally, Observation
from sfumato.privacy.guarantee import Gamma, Guarantee
from sfumato.privacy.probability import ONE
from sfumato.untrusted import Untrusted

FINEST = 256  # values of the grid; a number with no more values has its own
MOST_GAMMA = 10_000
TYPICAL = 10_000  # people of a plan: how much is smoothed depends on it
MOST_NUMBERS = 256  # columns, one of which each person is asked about
MOST_WORDS = 4096  # values of a column of words


@dataclass(frozen=True, repr=False)
class Windows(Mechanism):
    """One number of each person, reported in a window: c values, L reports from each on, weight a
    inside the window and b outside. Words have a window of one report: the word itself.

    A number lies on a grid of c values; where its column has more, it is rounded to one of its two
    neighbours by chance so that its mean is right. With γ = a/b and Ω = L·a + (c−1)·b, u below Ω is
    drawn: u < L(a−b) reports x + ⌊u/(a−b)⌋, any other ⌊(u − L(a−b))/b⌋. Of several columns each
    person is dealt one, by chance that no record moves.

    **Proof of the guarantee.** Every report has weight a or b, and all numbers the same total Ω, so
    for two numbers and any report the ratio is at most a/b = γ. Which column was dealt, and how it
    was rounded before, are mixtures of such reports: a ratio of mixtures is at most the largest of
    the ratios mixed. ∎
    """

    called: ClassVar[Mapping[str, str]] = {"lengths": "window widths"}
    domain: Domain
    gamma: Gamma
    lengths: tuple[int, ...]  # L of each private column

    def __post_init__(self) -> None:
        columns = self._columns
        if not 1 < self.gamma <= MOST_GAMMA:
            raise ParameterError(
                f"gamma={float(self.gamma):g} is not above 1 and at most {MOST_GAMMA:,}"
            )
        gamma = Fraction(self.gamma).limit_denominator(FINENESS)
        if gamma != Fraction(self.gamma):
            raise ParameterError(f"gamma must be a fraction with a denominator up to {FINENESS:,}")
        object.__setattr__(self, "gamma", gamma)
        if len(self.lengths) != len(columns):
            raise ParameterError(f"{len(self.lengths)} windows for {len(columns)} columns")
        self._check_zeros()
        for column, length in zip(columns, self.lengths, strict=True):
            most = 2 * values_of(column) if isinstance(column, Numeric) else 1
            if not 1 <= length <= most:
                raise ParameterError(
                    f"a window of {length} reports for '{column.name}', which has "
                    f"{values_of(column)} values on its grid and takes 1 to {most}"
                )

    def _check_zeros(self) -> None:
        for column in self._columns:
            if isinstance(column, Numeric) and column.zero and column.size < 3:
                raise SchemaError(
                    f"'{column.name}' has zero = true and {column.size} values",
                    hint="leave zero out, or make it a category",
                )

    @property
    def _columns(self) -> tuple[Attribute, ...]:
        """The private columns: numbers, and words beside them."""
        alone = [f"'{a.name}'" for a in self._private if isinstance(a, Category) and a.size < 2]
        if alone:
            raise SchemaError(
                f"{listing(alone)} {'has' if len(alone) == 1 else 'have'} one value only, so there "
                "is nothing to ask",
                hint="leave it out of the schema, or state there which range of numbers it may "
                "have: min and max",
            )
        if not any(isinstance(a, Numeric) for a in self._private):
            raise SchemaError(
                f"{self.name} reports numbers, and none of {listing(self._private.names)} is one",
                hint="use questionnaire, or say numeric in the schema: a few different numbers "
                "are read as words"
                if any(map(_holds_numbers, self._private))
                else "use questionnaire",
            )
        strange = [a.name for a in self._private if not is_asked(a)]
        if strange:
            raise SchemaError(
                f"{self.name} reports numbers, and words of 2 to {MOST_WORDS:,} values; "
                f"{listing(strange)} {'is' if len(strange) == 1 else 'are'} neither",
                hint="make it public, leave it out of the schema, or use questionnaire",
            )
        if len(self._private) > MOST_NUMBERS:
            raise SchemaError(f"{self.name} takes at most {MOST_NUMBERS} columns")
        return tuple(self._private)

    @by_parameters
    def details(self) -> Mapping[str, Any]:
        """How wide the windows are, in the numbers of each column."""
        wide = zip(self._columns, self.lengths, strict=True)
        return {
            "window_widths": {
                a.name: _rounded(length * (a.size - 1) * a.grid_step / max(1, values_of(a) - 1))
                for a, length in wide
                if isinstance(a, Numeric)
            }
        }

    @cached_property
    def _private(self) -> Domain:
        return self.domain.private

    @classmethod
    @abstractmethod
    def length(cls, values: int, gamma: float) -> int:
        """How long the window of a grid of so many values is."""

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        gamma = float(guarantee.gamma)
        if not 1 < gamma < math.inf:
            raise ParameterError(f"gamma={gamma:g} cannot be promised by {cls.name}")
        bounded = min(Fraction(guarantee.gamma), Fraction(MOST_GAMMA))
        kept = simple_below(bounded, FINENESS)
        if kept <= 1:
            raise ParameterError(f"gamma={gamma:g} is too close to 1 for {cls.name}")
        lengths = tuple(
            cls.length(values_of(a), float(kept)) if isinstance(a, Numeric) else 1
            for a in domain.private
        )
        mechanism = cls(domain, kept, lengths)
        check_kept(mechanism, guarantee)
        return mechanism

    def parameters(self) -> dict[str, Any]:
        names = self._private.names
        return {
            "gamma": str(Fraction(self.gamma)),
            "lengths": dict(zip(names, self.lengths, strict=True)),
        }

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, f"the parameters of {cls.name}").fields()
        lengths = given["lengths"].fields()
        names = [attribute.name for attribute in domain.private]
        if set(lengths) != set(names):
            raise ParameterError(f"the windows of {cls.name} are not those of {listing(names)}")
        found = tuple(lengths[name].whole(1, 4 * FINEST) for name in names)
        return cls(domain, given["gamma"].fraction(), found)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The window of each private column."""
        gamma = Fraction(self.gamma)
        return tuple(
            Shape(
                values_of(column),
                length,
                gamma.numerator,
                gamma.denominator,
                isinstance(column, Numeric) and column.zero,
            )
            for column, length in zip(self._columns, self.lengths, strict=True)
        )

    @by_parameters
    def together(self) -> tuple[tuple[str, ...], ...]:
        return tuple((name,) for name in self._private.names)

    # What is reported.

    @property
    def _dealt(self) -> bool:
        return len(self.shapes) > 1

    @cached_property
    def private_reports(self) -> Domain:
        taken = {attribute.name for attribute in self.domain if attribute.public}
        most = max(shape.reports for shape in self.shapes)
        if not self._dealt:
            return Domain(
                (Numeric(free_column(f"{self._private.names[0]} report", taken), 0, most - 1),)
            )
        return Domain(
            (
                Category(free_column("question", taken), self._private.names),
                Numeric(free_column("answer", taken), 0, most - 1),
            )
        )

    def steps(self) -> tuple[Step, ...]:
        questions = self._questions()
        if not self._dealt:
            return questions
        every = tuple(range(len(self.shapes)))
        deal = Deal(columns=every, reports=(0, 1), weights=self._weights, questions=questions)
        return (deal,)

    def _questions(self) -> tuple[Action, ...]:
        """What may be asked; those about single columns come first."""
        answer = 1 if self._dealt else 0
        return tuple(
            Window(
                columns=(place,),
                reports=(answer,),
                values=shape.values,
                length=shape.length,
                a=Fraction(self.gamma).numerator,
                b=Fraction(self.gamma).denominator,
                round=column.size if column.size > shape.truths else None,
                zero=1 if shape.zero else None,
            )
            for place, (column, shape) in enumerate(zip(self._columns, self.shapes, strict=True))
        )

    @property
    def _weights(self) -> tuple[int, ...]:
        """How often each question is dealt, of 2^32; those about single columns come first."""
        return tuple(whole_weights([1.0] * len(self.shapes)))

    # What it says.

    @property
    def private_channel(self) -> Channel:
        number = self._private.attributes[0]
        if self._dealt or number.size > self.shapes[0].truths:
            return super().private_channel
        assert isinstance(number, Numeric)
        own = number.above_zero if number.zero else number
        return Windowed(self.shapes[0], np.eye(number.size), number=own)

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        if len(cells) > 1:
            raise Unanswerable(
                f"a report says nothing of {len(cells)} columns at once",
                hint="ask about one, or perturb by questionnaire (counts of several), or by ranges "
                "and fit a model (averages by groups too)",
            )
        number = isinstance(cells[0].attribute, Numeric)
        channel = self._of_number(cells[0]) if number else self._of_words(cells[0])
        tally = CellTally(tuple(attribute.cells() for attribute in self.private_reports))
        return Observation(tuple(cells), tally, channel)

    def _of_number(self, part: Cells) -> Channel:
        """What the answers say of a number: a law that is as smooth as they make likely."""
        place, weights = self._private.index(part.attribute.name), self._weights
        shape, number = self.shapes[place], part.attribute
        assert isinstance(number, Numeric)
        return Windowed(
            shape,
            shares_of(part, shape.values),
            questions=len(weights),
            place=place,
            answers=self.private_reports.attributes[-1].size,
            share=weights[place] / ONE,
            part=above_zero(part) if shape.zero else part,
            number=number.above_zero if shape.zero else number,
        )

    def _of_words(self, part: Cells) -> Channel:
        """What the answers say of words, which have no order: k-ary response undone."""
        place = self._private.index(part.attribute.name)
        cell_of = part.assign(np.arange(part.attribute.size)).astype(np.intp)
        return Questions(self._words.within((place,)), (place,), cell_of, (part.size,))

    @cached_property
    def _words(self) -> System:
        """The questions about words; any other says nothing of them."""
        words = [place for place, a in enumerate(self._private) if isinstance(a, Category)]
        most = self.private_reports.attributes[-1].size
        asked = tuple(
            Question((place,), self._private.shape[place], weight)
            if place in words
            else Question((), most, weight)
            for place, weight in enumerate(self._weights)
        )
        return System(self._private.shape, asked, float(self.gamma))

    def predicted_variance(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float | None:
        """The Fisher information of a report about the law on its grid, held together by steps of
        about a factor e, for `TYPICAL` people; less what holding the people fixed takes away.
        """
        if len(cells) > 1 or is_public(self.domain, cells[0]):
            return None
        place = self._private.index(cells[0].attribute.name)
        if not isinstance(cells[0].attribute, Numeric):
            return self._variance_of_words(place, cells[0], weights, shares)
        shape, people = self.shapes[place], TYPICAL * self._weights[place] / ONE
        masses = np.maximum(shares @ shares_of(cells[0], shape.values, evenly=True), 1e-12)
        spread = np.diag(masses) - np.outer(masses, masses)
        slope = shape.matrix @ spread
        steps = np.diff(np.eye(shape.truths)[int(shape.zero) :], axis=0)
        told = people * slope.T @ (slope / (shape.matrix @ masses)[:, None]) + steps.T @ steps
        law = spread @ np.linalg.pinv(told, hermitian=True) @ spread
        wanted = weights @ shares_of(cells[0], shape.values)
        return max(0.0, TYPICAL * float(wanted @ law @ wanted) - scattered(weights, shares))

    @by_parameters
    def beyond_prediction(self) -> tuple[str, ...]:
        if not any(isinstance(column, Numeric) for column in self._columns):
            return ()
        return (
            "numbers are told as a smooth law: a bin much rarer or more common than those beside "
            "it comes out nearer to them, and from few people off by two or three times what is "
            "predicted",
        )

    def _variance_of_words(
        self, place: int, cells: Cells, weights: NDArray[Any], shares: NDArray[Any]
    ) -> float:
        """The variance of k-ary response, less what holding the people fixed takes away."""
        size = cells.attribute.size
        noise = kary_variance(float(self.gamma), size, cells.counts() / size, weights, shares)
        return max(0.0, noise * ONE / self._weights[place] - scattered(weights, shares))

    def private_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within | None, margins: Any
    ) -> NDArray[Any]:
        """What a report says of the column that was dealt; of others nothing."""
        names = [part.attribute.name for part in cells]
        groups = within if within is not None else every_cell(cells)
        columns = [
            np.asarray(reports[self.reports.index(a.name)]).astype(np.intp)
            for a in self.private_reports
        ]
        logs = np.zeros((len(columns[0]), len(groups[0])))
        for place, shape in enumerate(self.shapes):
            name = self._private.names[place]
            if name not in names:
                continue
            here = np.flatnonzero(columns[0] == place) if self._dealt else np.arange(len(logs))
            part = cells[names.index(name)]
            evenly = shares_of(part, shape.values, evenly=True)
            law = np.asarray(groups[names.index(name)]) @ evenly  # (groups, values)
            logs[here] = safe_log(shape.matrix @ law.T)[columns[-1][here]]
        return logs


def values_of(column: Attribute) -> int:
    """The values of a number's grid: its own, where they are few, as those of words always are."""
    if not isinstance(column, Numeric):
        return column.size
    return min(column.size - column.zero, FINEST)


def is_asked(column: Attribute) -> bool:
    """Whether a column can be asked about: a number, or words that are not too many."""
    return isinstance(column, Numeric) or (
        isinstance(column, Category) and 2 <= column.size <= MOST_WORDS
    )


def _rounded(width: float) -> float:
    """A width to six figures, whole from a thousand on."""
    return round(width) if width >= 1000 else float(f"{width:.6g}")


def _holds_numbers(column: Attribute) -> bool:
    """Whether every word of a column is a number."""
    try:
        return isinstance(column, Category) and all(map(math.isfinite, map(float, column.values)))
    except ValueError:
        return False


def shares_of(cells: Cells, values: int, *, evenly: bool = False) -> NDArray[Any]:
    """Which part of each grid value lies in each cell, (cells, values); with `evenly` instead how
    the numbers of each cell, all equally frequent, are rounded to the grid. A zero that has a
    window of its own comes first.
    """
    if isinstance(cells.attribute, Numeric) and cells.attribute.zero:
        rest = above_zero(cells)
        there = np.arange(cells.size) == int(cells.assign(np.zeros(1, dtype=np.int64))[0])
        shares = shares_of(rest, values, evenly=evenly)
        if evenly:
            left = np.maximum(rest.counts(), 0) / np.maximum(cells.counts(), 1)
            return np.column_stack([there / np.maximum(cells.counts(), 1), shares * left[:, None]])
        return np.column_stack([there, shares])
    size = cells.attribute.size
    if size == values:
        merge = np.zeros((cells.size, values))
        merge[cells.assign(np.arange(size)).astype(np.intp), np.arange(values)] = 1
        return merge / np.maximum(cells.counts(), 1)[:, None] if evenly else merge
    codes = np.arange(size) if cells.starts is None else np.append(cells.starts, size)
    firsts = codes if cells.starts is None else codes[:-1]
    ends = np.append(firsts[1:], size)
    upto = _rounded_up_to if evenly else _standing_up_to
    masses = upto(ends, size, values) - upto(firsts, size, values)  # (runs, values)
    merge = np.zeros((cells.size, values))
    np.add.at(merge, cells.group, masses)
    return merge / np.maximum(cells.counts(), 1)[:, None] if evenly else merge


def above_zero(cells: Cells) -> Cells:
    """The same cells of the numbers without zero, which has a window of its own."""
    number, group, starts = cells.attribute, cells.group, cells.starts
    assert isinstance(number, Numeric)
    if starts is None:
        return Cells(number.above_zero, cells.labels, group[1:])
    kept = np.flatnonzero(np.append(starts[1:], number.size) > 1)
    firsts = np.maximum(starts[kept] - 1, 0)
    return Cells(number.above_zero, cells.labels, group[kept], firsts)


def _standing_up_to(codes: NDArray[Any], size: int, values: int) -> NDArray[Any]:
    """The part of each grid value below a code, all of it below the end."""
    below = standing_below(codes, size, values)
    return np.where(np.asarray(codes)[:, None] >= size, 1.0, below)


def _rounded_up_to(codes: NDArray[Any], size: int, values: int) -> NDArray[Any]:
    """How many of the codes below one are rounded to each grid value: sums of triangles."""
    width = (size - 1) / (values - 1)
    away = (np.asarray(codes, dtype=np.float64)[:, None] - 0.5) / width - np.arange(values)
    risen = np.clip(away, -1, 0)
    fallen = np.clip(away, 0, 1)
    return width * ((1 + risen) ** 2 / 2 + fallen - fallen**2 / 2)
