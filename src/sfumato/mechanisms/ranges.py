"""Ranges: each person is asked about one column or about two together, so that ranges of several
numbers can be counted, alone and beside words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.questionnaire_channel import Question
from sfumato.domain import Attribute, Category, Cells, Columns, Domain, Numeric
from sfumato.errors import ParameterError, SchemaError, Unanswerable, listing
from sfumato.mechanisms.base import (
    Within,
    by_parameters,
    check_kept,
    every_cell,
    is_public,
    safe_log,
)
from sfumato.mechanisms.question_choice import folds, whole_weights
from sfumato.mechanisms.shares import answers_of, information
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.mechanisms.steps import Kary
from sfumato.mechanisms.steps.step import Action
from sfumato.observation import Observation
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import ONE
from sfumato.untrusted import Untrusted

WAVES = 0.4  # the share of people who are asked about one number
BITS = 0.5  # of those asked about two, how many only whether both lie on the same side
MOST_STARTS = 32  # cells of a number in the questions about two
MOST_COLUMNS = 32


@dataclass(frozen=True, repr=False)
class Ranges(SquareWave):
    """One question a person: a number in a square wave, or of two columns the cell they lie in, or
    only whether both are in the upper or both in the lower cells.

    The cells of a number begin at public codes, `starts`: at the schema's cuts, or at quantiles of
    what another group of people reported; words have a cell each. A question about two columns
    has one of g answers, the
    cell of both or what a public map makes of it. With γ = a/b in integers, u below a + b(g−1) is
    drawn: u < a reports the true answer t, any other u reports (t + 1 + ⌊(u−a)/b⌋) mod g. That
    about one number is the square wave's.

    **Proof of the guarantee.** Which question is dealt is drawn from randomness that no record
    enters. Of the square wave every report has weight a or b of a total that is the same for all
    numbers; of an answer too, of the total a + b(g−1) that depends on the question alone. So for
    two records and any report the chances and totals cancel and the ratio is at most a/b = γ; how a
    number was rounded to its grid before mixes such reports, and a ratio of mixtures is at most
    the largest of the ratios mixed. ∎

    >>> from sfumato.domain import Numeric
    >>> numbers = Domain((Numeric("age", 0, 99, cuts=(40,)), Numeric("hours", 0, 99, cuts=(40,))))
    >>> mechanism = Ranges.promising(Guarantee(19), numbers)
    >>> mechanism.guarantee, [question.answers for question in mechanism.pairs]
    (Guarantee(gamma=19), [2, 4])
    """

    name = "ranges"
    summary = "one or two columns a person, for ranges of several numbers at once"
    at_once = 1
    joins_by_model = True
    called: ClassVar[Mapping[str, str]] = {
        "lengths": "window widths",
        "starts": "cells begin at",
        "upper": "upper side from",
        "waves": "asked about",
    }
    starts: tuple[tuple[int, ...], ...]  # where the cells of each private column begin
    upper: tuple[int, ...]  # the first cell of each column's upper side
    waves: int  # of 2^32, how many are asked about one number

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self._private.names
        if not 2 <= len(names) <= MOST_COLUMNS:
            raise SchemaError(
                f"{self.name} asks about two columns at once, and this schema has {len(names)}; "
                f"use 2 to {MOST_COLUMNS}",
                hint="use square-wave for one number",
            )
        if not len(self.starts) == len(self.upper) == len(names):
            raise ParameterError(f"cells of {len(self.starts)} columns for {len(names)}")
        for number, starts, upper in zip(self._private, self.starts, self.upper, strict=True):
            _check_cells(number, starts, upper)
        if not len(names) <= self.waves < ONE:
            raise ParameterError("some people must be asked about one column, and some about two")

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        """The cells are those between the schema's cuts."""
        bare = [a.name for a in domain.private if isinstance(a, Numeric) and not a.cuts]
        if bare:
            raise SchemaError(
                f"{cls.name} asks in which cells numbers lie, and {listing(bare)} "
                f"{'has' if len(bare) == 1 else 'have'} no cuts",
                hint="give cuts = […] in the schema, or ask in rounds (--round 1 --mechanism "
                "ranges), which finds them",
            )
        starts = [
            starts_at(a, a.cuts) if isinstance(a, Numeric) else tuple(range(a.size))
            for a in domain.private
        ]
        return cls.at(guarantee, domain, starts)

    @classmethod
    def at(
        cls,
        guarantee: Guarantee,
        domain: Domain,
        starts: Sequence[tuple[int, ...]],
        upper: Sequence[int] | None = None,
        waves: float = WAVES,
    ) -> Self:
        """The mechanism whose cells start at these codes; the upper side is half of them where it
        is not said.
        """
        wave = SquareWave.promising(guarantee, domain)
        halves = [len(each) // 2 for each in starts] if upper is None else upper
        parts = tuple(starts), tuple(halves), round(waves * ONE)
        mechanism = cls(domain, wave.gamma, wave.lengths, *parts)
        check_kept(mechanism, guarantee)
        return mechanism

    def parameters(self) -> dict[str, Any]:
        names = self._private.names
        starts = {name: list(each) for name, each in zip(names, self.starts, strict=True)}
        upper = dict(zip(names, self.upper, strict=True))
        return super().parameters() | {"starts": starts, "upper": upper, "waves": self.waves}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        given = Untrusted(parameters, f"the parameters of {cls.name}").fields()
        wave = SquareWave.from_parameters(domain, parameters)
        cells = given["starts"].fields()
        if set(cells) != set(domain.private.names):
            raise ParameterError(f"the cells are not those of {listing(domain.private.names)}")
        starts = tuple(
            tuple(int(each) for each in cells[a.name].numbers(MOST_STARTS, least=0, highest=a.size))
            for a in domain.private
        )
        upper = tuple(given["upper"][name].whole(1, MOST_STARTS) for name in domain.private.names)
        return cls(domain, wave.gamma, wave.lengths, starts, upper, given["waves"].whole(1, ONE))

    # What is asked.

    @cached_property
    def pairs(self) -> tuple[Question, ...]:
        """The questions about two columns: for each pair whether both lie on the same side, then
        their cell, folded where there are many.
        """
        columns = list(combinations(range(len(self.starts)), 2))
        parts = [part for pair in columns for part in self._about(pair)]
        weights = whole_weights([share for *_, share in parts])
        left = ONE - self.waves
        ends = np.rint(np.cumsum(weights) / ONE * left).astype(np.int64)
        return tuple(
            Question(pair, answers, int(weight), fold)
            for (pair, answers, fold, _), weight in zip(
                parts, np.diff(ends, prepend=0), strict=True
            )
        )

    def _about(
        self, pair: tuple[int, int]
    ) -> Iterator[tuple[tuple[int, int], int, tuple[int, ...] | None, float]]:
        """The questions about two columns: their columns, answers, map and share."""
        sides = BITS if self._sided(pair) else 0.0
        if sides:
            first, second = (np.arange(self.cells[axis]) >= self.upper[axis] for axis in pair)
            same = np.equal.outer(first, second).astype(int).ravel()
            yield pair, 2, tuple(same.tolist()), sides
        cells = math.prod(self.cells[axis] for axis in pair)
        answers = answers_of(cells, float(self.gamma))
        maps = (None,) if answers == cells else folds(cells, answers)
        for each in maps:
            yield pair, answers, each, (1 - sides) / len(maps)

    def _sided(self, pair: Sequence[int]) -> bool:
        """Whether two columns each have an upper and a lower side: many words have none."""
        return all(
            isinstance(self._private.attributes[axis], Numeric) or self.cells[axis] == 2
            for axis in pair
        )

    @property
    def cells(self) -> tuple[int, ...]:
        """How many cells each column has in the questions about two."""
        return tuple(map(len, self.starts))

    @cached_property
    def _weights(self) -> tuple[int, ...]:
        each, left = divmod(self.waves, len(self.starts))
        waves = (each + left, *(each,) * (len(self.starts) - 1))
        return (*waves, *(question.weight for question in self.pairs))

    @by_parameters
    def together(self) -> tuple[tuple[str, ...], ...]:
        names = self._private.names
        return (*super().together, *combinations(names, 2))

    @by_parameters
    def details(self) -> Mapping[str, Any]:
        names, private = self._private.names, self._private
        begin = {a.name: _begins(a, each) for a, each in zip(private, self.starts, strict=True)}
        upper = zip(begin.items(), self.upper, strict=True)
        return {
            **super().details,
            "starts_at": begin,
            "upper_from": {name: starts[place] for (name, starts), place in upper},
            "asked": {
                "one column": self.waves / ONE,
                "two columns": 1 - self.waves / ONE,
            },
            "cells": dict(zip(names, self.cells, strict=True)),
        }

    @cached_property
    def private_reports(self) -> Domain:
        question, answer = super().private_reports
        names, seen = self._private.names, dict[tuple[int, ...], int]()
        labels = list(names)
        for each in self.pairs:
            first = 0 if self._sided(each.columns) else 1
            seen[each.columns] = seen.get(each.columns, first - 1) + 1
            pair = " × ".join(names[axis] for axis in each.columns)
            labels.append(f"{pair} #{seen[each.columns]}" if seen[each.columns] else f"{pair} side")
        assert isinstance(answer, Numeric)
        most = max(answer.size, *(each.answers for each in self.pairs))
        return Domain((Category(question.name, tuple(labels)), Numeric(answer.name, 0, most - 1)))

    @property
    def _parts(self) -> tuple[int, int]:
        """a and b: the weights of the true answer and of any other."""
        gamma = Fraction(self.gamma)
        return gamma.numerator, gamma.denominator

    def _questions(self) -> tuple[Action, ...]:
        a, b = self._parts
        pairs = tuple(
            Kary(
                columns=each.columns,
                reports=(1,),
                sizes=tuple(self._private.attributes[axis].size for axis in each.columns),
                answers=each.answers,
                map=each.map,
                starts=tuple(self.starts[axis] for axis in each.columns),
                a=a,
                b=b,
            )
            for each in self.pairs
        )
        return (*super()._questions(), *pairs)

    # What it says.

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        if len(cells) > 1:
            raise Unanswerable(
                f"a report says little of {len(cells)} columns at once",
                hint="fit a model (sfumato fit, or --fit): it joins what all the reports say",
            )
        return super().observe_private(cells)

    def predicted_variance(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float | None:
        """Of two columns what each adds alone, and what their interaction does: its energy, were it
        the sides of both, over what a bit about them tells, or their cell where they have no sides.
        """
        if len(cells) != 2 or any(is_public(self.domain, part) for part in cells):
            return super().predicted_variance(cells, weights, shares)
        laws = shares.sum(axis=1), shares.sum(axis=0)
        mains = weights @ laws[1], laws[0] @ weights
        alone = [
            super(Ranges, self).predicted_variance([part], main, law)
            for part, main, law in zip(cells, mains, laws, strict=True)
        ]
        left = weights - mains[0][:, None] - mains[1] + float(mains[0] @ laws[0])
        energy = float((np.outer(*laws) * left**2).sum())
        told = self._tells(tuple(self._private.index(part.name) for part in cells))
        return sum(each or 0.0 for each in alone) + energy / told

    def _tells(self, pair: tuple[int, ...]) -> float:
        """What a person tells of how two columns go together."""
        asked = (1 - self.waves / ONE) / math.comb(len(self.starts), 2)
        gamma, cells = float(self.gamma), math.prod(self.cells[axis] for axis in pair)
        if self._sided(pair):
            return asked * BITS * ((gamma - 1) / (gamma + 1)) ** 2
        return asked * information(gamma, answers_of(cells, gamma), cells)

    def private_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within | None, margins: Any
    ) -> NDArray[Any]:
        """What a report says of the column that was dealt, or of two where both are asked about;
        of others nothing.
        """
        logs = super().private_likelihood(reports, cells, within, margins)
        groups = within if within is not None else every_cell(cells)
        names = [part.attribute.name for part in cells]
        own = [self.reports.index(attribute.name) for attribute in self.private_reports]
        dealt, answers = (np.asarray(reports[place]).astype(np.intp) for place in own)
        for place, question in enumerate(self.pairs, len(self.starts)):
            asked = [self._private.names[axis] for axis in question.columns]
            here = np.flatnonzero(dealt == place)
            if here.size and set(asked) <= set(names):
                places = [names.index(name) for name in asked]
                law = self._chances(question, [(cells[p], groups[p]) for p in places])
                logs[here] = safe_log(law)[answers[here]]
        return logs

    def _chances(
        self, question: Question, parts: Sequence[tuple[Cells, NDArray[Any]]]
    ) -> NDArray[Any]:  # (answers, groups)
        """P(answer | group), the numbers of each asked cell spread evenly."""
        laws = [
            np.asarray(group) @ evenly_within(part, self.starts[axis])
            for axis, (part, group) in zip(question.columns, parts, strict=True)
        ]
        cells = np.einsum("gi,gj->ijg", *laws).reshape(-1, len(laws[0]))
        told = cells
        if question.map is not None:
            told = np.zeros((question.answers, len(laws[0])))
            np.add.at(told, np.asarray(question.map), cells)
        gamma = float(self.gamma)
        return np.asarray((1 + (gamma - 1) * told) / (gamma + question.answers - 1))


def _check_cells(number: Attribute, starts: Sequence[int], upper: int) -> None:
    if number.size < 2:
        raise SchemaError(
            f"'{number.name}' has one value, so there is nothing to ask about it",
            hint="leave it out of the schema, or make it public",
        )
    ascend = starts[:1] == (0,) and list(starts) == sorted(set(starts)) and starts[-1] < number.size
    if not (ascend and 2 <= len(starts) <= MOST_STARTS and 0 < upper < len(starts)):
        raise ParameterError(
            f"'{number.name}' has {len(starts)} cells, of which {len(starts) - upper} are its "
            f"upper side; ranges needs 2 to {MOST_STARTS} with some on either side, none empty",
            hint="give it a few cuts = […] in the schema",
        )


def starts_at(number: Numeric, cuts: Sequence[float]) -> tuple[int, ...]:
    """The codes at which the cells between some cuts begin; cuts that nothing lies between are
    one.
    """
    inner = {number.first_code(cut) for cut in cuts} - {0, number.size}
    return (0, *sorted(inner))


def _begins(column: Attribute, starts: Sequence[int]) -> list[Any]:
    """The numbers, or words, at which cells begin."""
    if isinstance(column, Numeric):
        return [*column.numbers(np.asarray(starts, dtype=np.int64)).tolist()]
    return [column.labels[each] for each in starts]


def cells_from(number: Numeric, starts: Sequence[int]) -> Cells:
    """The cells that begin at some codes."""
    firsts = number.numbers(np.asarray(starts[1:], dtype=np.int64))
    return number.cells_by_cuts([float(first) for first in firsts])


def joined_starts(part: Cells, starts: Sequence[int]) -> NDArray[np.int64]:
    """The codes at which a cell of either partition begins."""
    own = part.starts
    if own is None:
        own = np.flatnonzero(np.diff(part.group, prepend=-1))
    return np.union1d(own, np.asarray(starts, dtype=np.int64))


def evenly_within(part: Cells, starts: Sequence[int]) -> NDArray[Any]:  # (asked cells, cells)
    """How the numbers of each asked cell, all equally frequent, lie in the cells."""
    firsts = joined_starts(part, starts)
    lengths = np.diff([*firsts.tolist(), part.attribute.size])
    inside = np.searchsorted(starts, firsts, side="right") - 1
    shares = np.zeros((part.size, len(starts)))
    np.add.at(shares, (part.assign(firsts).astype(np.intp), inside), lengths)
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1))
