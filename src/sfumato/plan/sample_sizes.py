"""Sample sizes: how well people who are dealt a question each will answer, against columns, people
and promises; and what would do where they would not.

All in closed form (`predict`), relative to a support that is asked about: an error of
0.06 at 2 % means that a support of 2 % comes out between 1.9 and 2.1 % on average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sfumato.channels.contrasts import Axes
from sfumato.domain import Category, Domain
from sfumato.errors import SfumatoError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.shares import NORMAL, Workload
from sfumato.plan.workload import MOST_PEOPLE, Functional, PlanWorkload, people_for, predict
from sfumato.privacy.guarantee import Guarantee

USABLE = NORMAL * 0.5  # a mean relative error above that of a standard error of half is no answer
PROMISES = (19, 30, 50, 100, 200, 400)  # gammas tried where the one asked for is too strict
MOST_LENGTH, SAID = 6, 4  # lengths whose errors are predicted, and said in words


@dataclass(frozen=True, eq=False)
class SampleSizes:
    """What to expect of a mechanism with so many people."""

    mechanism: Mechanism
    workload: PlanWorkload
    people: int
    length: int = 2
    sets: tuple[Axes, ...] = ()  # of private columns that are asked about, if not all of a length
    options: Mapping[str, str] = field(default_factory=dict)  # that the mechanism was made with

    @property
    def at_support(self) -> float:
        """The support whose error is predicted."""
        return self.workload.at_support

    @property
    def private(self) -> Domain:
        """The columns that are asked about, as the mechanism sees them."""
        return self.mechanism.domain.private

    @property
    def _asked(self) -> int:
        """The length asked about, or that of all columns where these are fewer."""
        return min(self.length, len(self.workload.columns))

    @property
    def _gamma(self) -> float:
        return float(self.mechanism.guarantee.gamma)

    def error(self, length: int | None = None) -> float:
        """The mean relative error of supports of this length; of columns that no question holds
        together it is a model's.
        """
        asked = length or self._asked
        if asked not in self._found:
            self._found[asked] = self._expected(asked, even=False)
        return self._found[asked]

    @cached_property
    def _found(self) -> dict[int, float]:
        return {}

    def _expected(self, length: int, *, even: bool) -> float:
        """The same of the sets asked about or any of a length, were all cells equally likely or at
        the support asked about.
        """
        functionals = self._functionals(length, even=even)
        return self._relative(predict(self.mechanism, functionals, self.people))

    def _functionals(self, length: int, *, even: bool = False) -> list[Functional]:
        sets = self.sets if self.sets and len(self.sets[0]) == length else None
        return self.workload.supports(self.mechanism, length, self.people, sets, even=even)

    def _relative(self, error: float) -> float:
        return NORMAL * error / self.at_support

    @cached_property
    def errors(self) -> dict[int, float]:
        """The error of each length up to six that questions tell of."""
        found = {length: self.error(length) for length in self._lengths}
        return {length: error for length, error in found.items() if math.isfinite(error)}

    @property
    def _lengths(self) -> range:
        return range(1, min(len(self.workload.columns), MOST_LENGTH) + 1)

    def unaided(self, length: int) -> bool:
        """Whether the reports tell supports of this length by themselves, without a model."""
        sets = self.sets if self.sets and len(self.sets[0]) == length else None
        told = self.workload.unaided(self.mechanism, length, self.people, sets)
        return told and not any(each.modelled for each in self._functionals(length))

    @cached_property
    def even(self) -> float:
        """The error at the length asked about, were all cells equally likely."""
        return self._expected(self._asked, even=True)

    @cached_property
    def least(self) -> float:
        """The error below which no unbiased report under this guarantee can come, were all cells
        equally likely.
        """
        shape, gamma = self.private.shape, self._gamma
        sets = self.sets or self.workload.sets_of(self._asked)
        least = Workload.marginals(shape, sets).least(gamma)
        seen = [(1 - 1 / size) / size for size in (math.prod(shape[a] for a in s) for s in sets)]
        variance = least / len(sets) - sum(seen) / len(sets)
        return self._relative(math.sqrt(max(0.0, variance) / self.people))

    def by_people(self) -> list[tuple[int, float]]:
        """The error with fewer and with more people."""
        counts = [max(1, round(self.people * factor)) for factor in (0.1, 0.3, 1, 3, 10)]
        return [(count, self._from(count)) for count in counts]

    def _from(self, people: int) -> float:
        """The error of the length asked about from other people, asked as these are."""
        functionals = self._functionals(self._asked)
        return self._relative(predict(self.mechanism, functionals, people))

    @cached_property
    def by_columns(self) -> list[tuple[int, float]]:
        """The error with only the first so many private columns."""
        if "+" in self.options.get("questions", ""):  # named columns are those that are needed
            return []
        target = self.options.get("target")
        columns = sorted(self.private, key=lambda attribute: attribute.name != target)
        found = []
        for number in _steps(len(columns)):
            part = self._like(Domain(tuple(columns[:number])), self.mechanism.guarantee)
            if part is not None and math.isfinite(part.error()):
                found.append((number, part.error()))
        return found

    def _like(self, domain: Domain, guarantee: Guarantee) -> SampleSizes | None:
        """What to expect of the same mechanism with other columns, or under another promise."""
        try:
            mechanism = type(self.mechanism).promising(guarantee, domain, **self.options)
        except SfumatoError:
            return None
        workload = replace(self.workload, domain=domain)
        return replace(self, mechanism=mechanism, workload=workload, sets=self._sets_among(domain))

    def _sets_among(self, domain: Domain) -> tuple[Axes, ...]:
        """The sets asked about, as places among other private columns."""
        old, new = self.private.names, domain.private
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
        asked = len(self.private)
        columns = [n for n, error in self.by_columns if error <= USABLE and n < asked]
        if columns:
            found.append(f"ask {max(columns)} columns instead of {asked}")
        halved = self._halved()
        if halved is not None:
            found.append(f"halve the values of each column ({100 * halved:.0f} % then)")
        wanted, functionals = USABLE * self.at_support / NORMAL, self._functionals(self._asked)
        needed = people_for(self.mechanism, functionals, self.people, wanted)
        if self.people < needed < MOST_PEOPLE:
            found.append(f"ask {_rounded(needed):,} people")
        gamma = self._promise()
        if gamma is not None:
            found.append(f"promise gamma {gamma} instead of {self._gamma:g}")
        return found

    def _halved(self) -> float | None:
        """The error with half as many values a column."""
        halves = [
            Category(a.name, tuple(map(str, range(max(2, math.ceil(a.size / 2))))))
            for a in self.private
        ]
        coarse = self._like(Domain(tuple(halves)), self.mechanism.guarantee)
        error = math.inf if coarse is None else coarse.error()
        return error if error < 0.9 * self.error() else None

    def _promise(self) -> int | None:
        """The strictest promise under which answers are usable, where this one is too strict."""
        for gamma in PROMISES:
            if gamma > self._gamma:
                weaker = self._like(self.mechanism.domain, Guarantee(gamma))
                if weaker is not None and weaker.usable:
                    return gamma
        return None

    def sentences(self) -> list[str]:
        """The outlook in plain words."""
        told = {n: error for n, error in self.errors.items() if n <= SAID and self.unaided(n)}
        lines = [self._said(told)] if told else []
        if self._asked in told:
            lines.append(
                f"were all values equally likely it would be {100 * self.even:.1f} % at length "
                f"{self._asked}; no unbiased report under this guarantee comes below "
                f"{100 * self.least:.1f} % then"
            )
        lines += self._beyond(told)
        if len(self.by_columns) > 1:
            shown = ", ".join(f"{n}: {100 * error:.1f} %" for n, error in self.by_columns)
            lines.append(f"by the number of columns asked, {shown}")
        people = ", ".join(
            f"{n:,}: {100 * error:.1f} %" for n, error in self.by_people() if math.isfinite(error)
        )
        lines.append(f"by the number of people, {people}")
        return lines

    def _said(self, told: Mapping[int, float]) -> str:
        errors = ", ".join(f"{100 * error:.1f}" for error in told.values())
        lengths = f"lengths {min(told)} to {max(told)}" if len(told) > 1 else f"length {min(told)}"
        return (
            f"mean relative error of an unbiased support of {100 * self.at_support:g} % at "
            f"{lengths}: {errors} %"
        )

    def _beyond(self, told: Mapping[int, float]) -> list[str]:
        """What is said of columns that no question holds together."""
        together = self.mechanism.together
        if together is not None and max(map(len, together)) == 1:
            return ["nothing is told of columns together: no question joins any"]
        most = max(told, default=0)
        if most == min(len(self.private), SAID):
            return []
        return [
            f"of more than {most} columns at once a model answers (sfumato fit): it supposes that "
            "what no question joined does not interact, and errors beyond are its"
        ]

    def to_dict(self) -> dict[str, Any]:
        """The outlook as JSON data; errors are relative, as shares."""
        return {
            "at_support": self.at_support,
            "relative_error": [
                {
                    "length": length,
                    "relative_error": error,
                    "answered_by": "reports" if self.unaided(length) else "model",
                }
                for length, error in self.errors.items()
            ],
            "even_relative_error": self.even,
            "least_relative_error": self.least,
            "by_columns": [{"columns": n, "relative_error": e} for n, e in self.by_columns],
            "by_people": [{"people": n, "relative_error": e} for n, e in self.by_people()],
            "usable": self.usable,
            "remedies": [] if self.usable else self.remedies(),
            **self.mechanism.details,
        }


def _steps(columns: int) -> list[int]:
    """Numbers of columns, about doubling."""
    found = [number for number in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if number < columns]
    return [*found, columns]


def _rounded(number: float) -> int:
    """A number of people to two figures, upwards."""
    digits = max(0, math.floor(math.log10(max(number, 1))) - 1)
    return math.ceil(number / 10**digits) * 10**digits
