"""Outlook: how well a questionnaire will answer, against columns, people and promises; and what
would do where it would not.

All in closed form (`mechanisms/shares`), relative to a support that is asked about: an error of
0.06 at 2 % means that a support of 2 % comes out between 1.9 and 2.1 % on average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

from sfumato.channels.contrasts import Axes
from sfumato.domain import Domain
from sfumato.errors import SfumatoError
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mechanisms.questions import ONE
from sfumato.mechanisms.shares import NORMAL, Design, Workload
from sfumato.privacy.guarantee import Guarantee

USABLE = 0.5  # a mean relative error above this is no answer
PROMISES = (19, 30, 50, 100, 200, 400)  # gammas tried where the one asked for is too strict
MOST_LENGTH, SAID = 6, 4  # lengths whose errors are foreseen, and said in words
SHOWN = 40  # sets of columns over which an error is averaged


@dataclass(frozen=True, eq=False)
class Outlook:
    """What to expect of a questionnaire with so many people."""

    mechanism: Questionnaire
    people: int
    at_support: float
    length: int = 2
    sets: tuple[Axes, ...] = ()  # of private columns that are asked about, if not all of a length
    options: Mapping[str, str] = field(default_factory=dict)  # that the mechanism was made with

    @cached_property
    def design(self) -> Design:
        """The questions and shares, as the closed forms take them."""
        found: dict[Axes, float] = {}
        for question in self.mechanism.questions:
            share = question.weight / ONE
            found[question.columns] = found.get(question.columns, 0.0) + share
        shape = self.mechanism.domain.private.shape
        return Design(shape, float(self.mechanism.gamma), tuple(found), tuple(found.values()))

    def error(self, length: int | None = None) -> float:
        """The mean relative error of supports of this length; of more columns than any question
        holds it is a model's, which supposes their interaction away.
        """
        return _mean_error(self.design, self._asked(length), self.people, self.at_support)

    def _asked(self, length: int | None = None) -> Sequence[Axes]:
        """The sets of columns over which errors are averaged."""
        own = self.sets and length in (None, len(self.sets[0]))
        return self.sets if own else _some_sets(len(self.design.shape), length or self.length)

    @cached_property
    def errors(self) -> dict[int, float]:
        """The error of each length up to six that questions tell of."""
        joined = self.design.order > 1  # else what joins columns is told of those named alone
        most = MOST_LENGTH if joined else max((1, *map(len, self.sets)))
        lengths = range(1, min(len(self.design.shape), most) + 1)
        found = {length: self.error(length) for length in lengths}
        return {length: error for length, error in found.items() if math.isfinite(error)}

    @cached_property
    def least(self) -> float:
        """The error below which no unbiased report under this guarantee can come, at a truth in
        which all cells are equally likely.
        """
        shape, gamma = self.design.shape, self.design.gamma
        sets = self._asked()
        workload = Workload.marginals(shape, sets)
        variance = workload.least(gamma) / len(sets) / self.people
        return NORMAL * math.sqrt(variance) / self.at_support

    def by_people(self) -> list[tuple[int, float]]:
        """The error with fewer and with more people."""
        error = self.error()
        counts = [max(1, round(self.people * factor)) for factor in (0.1, 0.3, 1, 3, 10)]
        return [(count, error * math.sqrt(self.people / count)) for count in counts]

    def by_columns(self) -> list[tuple[int, float]]:
        """The error with only the first so many private columns."""
        if "+" in self.options.get("questions", ""):  # named columns are those that are needed
            return []
        private = self.mechanism.domain.private
        target = self.options.get("target")
        columns = sorted(private, key=lambda attribute: attribute.name != target)
        found = []
        for number in _steps(len(private)):
            part = self._like(Domain(tuple(columns[:number])), self.mechanism.guarantee)
            if part is not None and math.isfinite(part.error()):
                found.append((number, part.error()))
        return found

    def _like(self, domain: Domain, guarantee: Guarantee) -> Outlook | None:
        try:
            mechanism = Questionnaire.promising(guarantee, domain, **self.options)
        except SfumatoError:
            return None
        sets = self._sets_among(domain)
        return Outlook(mechanism, self.people, self.at_support, self.length, sets, self.options)

    def _sets_among(self, domain: Domain) -> tuple[Axes, ...]:
        """The sets asked about, as places among other private columns."""
        old, new = self.mechanism.domain.private.names, domain.private
        named = [[old[axis] for axis in axes] for axes in self.sets]
        held = [names for names in named if all(name in new.names for name in names)]
        return tuple(tuple(sorted(new.index(name) for name in names)) for names in held)

    @property
    def usable(self) -> bool:
        """Whether supports of the length asked about come out usefully."""
        return self.error() <= USABLE

    def remedies(self) -> list[str]:
        """What would make answers usable, each with its figure."""
        found = []
        columns = [number for number, error in self.by_columns() if error <= USABLE]
        if columns:
            found.append(f"ask {max(columns)} columns instead of {len(self.design.shape)}")
        halved = self._halved()
        if halved is not None:
            found.append(f"halve the values of each column ({100 * halved:.0f} % then)")
        needed = self.people * (self.error() / USABLE) ** 2
        found.append(f"ask {_rounded(needed):,} people")
        gamma = self._promise()
        if gamma is not None:
            found.append(f"promise gamma {gamma} instead of {self.design.gamma:g}")
        return found

    def _halved(self) -> float | None:
        """The error with half as many values a column."""
        shape = tuple(max(2, math.ceil(size / 2)) for size in self.design.shape)
        design = Design(shape, self.design.gamma, self.design.sets, self.design.shares)
        error = _mean_error(design, self._asked(), self.people, self.at_support)
        return error if error < 0.9 * self.error() else None

    def _promise(self) -> int | None:
        for gamma in PROMISES:
            if gamma > self.design.gamma:
                weaker = self._like(self.mechanism.domain, Guarantee(gamma))
                if weaker is not None and weaker.usable:
                    return gamma
        return None

    def sentences(self) -> list[str]:
        """The outlook in plain words."""
        held = self.mechanism.largest
        told = {n: error for n, error in self.errors.items() if n <= min(held, SAID)}
        errors = ", ".join(f"{100 * error:.1f}" for error in told.values())
        lengths = f"lengths {min(told)} to {max(told)}" if len(told) > 1 else f"length {min(told)}"
        lines = [
            f"mean relative error of an unbiased support of {100 * self.at_support:g} % at "
            f"{lengths}: {errors} %; no unbiased report under this guarantee comes below "
            f"{100 * self.least:.1f} % at length {self.length}",
        ]
        if held == 1:
            lines.append("nothing is told of columns together: no question joins any")
        elif held < len(self.design.shape):
            lines.append(
                f"of more than {held} columns at once a model answers (sfumato fit): it supposes "
                "that what no question joined does not interact, and errors beyond are its"
            )
        if len(self.by_columns()) > 1:
            shown = ", ".join(f"{n}: {100 * error:.1f} %" for n, error in self.by_columns())
            lines.append(f"by the number of columns asked, {shown}")
        people = ", ".join(f"{n:,}: {100 * error:.1f} %" for n, error in self.by_people())
        lines.append(f"by the number of people, {people}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The outlook as JSON data; errors are relative, as shares."""
        return {
            "at_support": self.at_support,
            "relative_error": [
                {"length": length, "relative_error": error} for length, error in self.errors.items()
            ],
            "least_relative_error": self.least,
            "by_columns": [{"columns": n, "relative_error": e} for n, e in self.by_columns()],
            "by_people": [{"people": n, "relative_error": e} for n, e in self.by_people()],
            "usable": self.usable,
            "remedies": [] if self.usable else self.remedies(),
            "questions": self.mechanism.described()["questions"],
        }


def _mean_error(design: Design, sets: Sequence[Axes], people: int, support: float) -> float:
    """The mean relative error over some sets of columns."""
    errors = [design.error(axes, people, support) for axes in sets]
    return sum(errors) / len(errors)


def _some_sets(columns: int, length: int) -> Sequence[Axes]:
    """Some sets of columns of a length, evenly spread over all."""
    every = list(combinations(range(columns), min(length, columns)))
    return every[:: max(1, len(every) // SHOWN)]


def _steps(columns: int) -> list[int]:
    """Numbers of columns, about doubling."""
    found = [number for number in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if number < columns]
    return [*found, columns]


def _rounded(number: float) -> int:
    """A number of people to two figures, upwards."""
    digits = max(0, math.floor(math.log10(max(number, 1))) - 1)
    return math.ceil(number / 10**digits) * 10**digits
