"""Program: what a respondent's device does to one record, as a short list of steps in integers.

Browser, Python client and library interpret the same integers, and each computes γ from them; see
`collect/static/sfumato.js` for the other interpreter. Given the same bytes they send the same
report.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from sfumato.domain import Domain, Items
from sfumato.errors import DataError, FileError, ParameterError, PrivacyError
from sfumato.mechanisms.limits import MOST_WORK
from sfumato.mechanisms.steps.deal import Deal, Public
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import Action, Column, Shows, Step, Value, product_of, step_from
from sfumato.privacy.guarantee import Gamma, Guarantee

VERSION = 1
Record = Sequence[int | Sequence[int] | None]  # codes, baskets as item codes; None where not asked


@dataclass(frozen=True)
class Program:
    """Steps that read every column of a record once and write every column of its report once.

    Steps draw independently of each other, so their gammas multiply; of the questions of a deal
    only one is answered, so the largest counts.

    >>> from sfumato.mechanisms.steps import Diagonal
    >>> coin = Program((Diagonal(columns=(0,), reports=(0,), sizes=(2,), scale=1, total=4),))
    >>> coin.gamma, coin.randomise_one([1], Draws(lambda: bytes([0, 192])))
    (Fraction(3, 1), [1])
    """

    steps: tuple[Step, ...]
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise FileError(
                f"this client program is of version {self.version}; this software runs {VERSION}",
                hint="update it",
            )
        read = [column for step in self.steps for column in step.columns]
        written = [column for step in self.steps for column in step.reports]
        for what, places in (("read", read), ("write", written)):
            if sorted(places) != list(range(len(places))) or not places:
                raise ParameterError(
                    f"the steps of a client program {what} columns {sorted(places)}; they must "
                    f"{what} each once, from 0 on"
                )
        if sum(isinstance(step, Deal) for step in self.steps) > 1:
            raise ParameterError("a client program deals twice; a person is dealt one question")
        if (work := sum(step.work for step in self.steps)) > MOST_WORK:
            raise ParameterError(
                f"a client program asks a device for {work:,} turns of its loops; "
                f"{MOST_WORK:,} are the most"
            )

    @cached_property
    def inputs(self) -> tuple[Column, ...]:
        """What each column of a record may hold."""
        return _in_order((step.columns, step.inputs) for step in self.steps)

    @cached_property
    def outputs(self) -> tuple[Column, ...]:
        """What each column of a report may hold."""
        return _in_order((step.reports, step.outputs) for step in self.steps)

    @property
    def gamma(self) -> Gamma:
        """The most that a report can be likelier under one record than under another, exactly:
        infinite, where anything is sent as it is.
        """
        return self.gamma_beside(())

    def gamma_beside(self, named: Collection[tuple[int, str]]) -> Gamma:
        """The same, where an observer may know what is named: columns of the record, each with
        "value" or "size" (of a basket). All that is sent as it is must be named.
        """
        if self._unnamed(named):
            return math.inf
        return product_of(step.gamma for step in self.steps)

    def _unnamed(self, named: Collection[tuple[int, str]]) -> list[tuple[int, Shows]]:
        """What is sent as it is and not named; who may know a basket may know its size."""
        return [
            (place, what)
            for place, what in self.sent_as_is
            if (place, what) not in named and (place, "value") not in named
        ]

    def guarantee(self, records: Domain, sizes: Sequence[str] = ()) -> Guarantee:
        """What a respondent is promised, computed from the integers, where a campaign says that
        the public columns and the sizes of these baskets are sent as they are; a program that sends
        anything else as it is is refused.
        """
        public = ((place, "value") for place, attribute in enumerate(records) if attribute.public)
        named = [*public, *((records.index(name), "size") for name in sizes)]
        if unnamed := self._unnamed(named):
            place, what = unnamed[0]
            shown = f"'{records.names[place]}'"
            raise PrivacyError(
                f"this client program sends {'' if what == 'value' else 'the size of '}{shown} "
                "as it is, and the campaign does not say so",
                column=records.names[place],
                what=what,
            )
        return Guarantee(self.gamma_beside(named))

    @cached_property
    def sent_as_is(self) -> tuple[tuple[int, Shows], ...]:
        """Columns of the record of which something is sent as it is, and what: "value", "size"."""
        return tuple(sorted(each for step in self.steps for each in step.sent_as_is))

    def sent_of(self, records: Domain) -> dict[str, str]:
        """The names of the columns of which something is sent as it is, each with what in words."""
        words = {"value": "", "size": "the size of "}
        sent = ((records.names[place], what) for place, what in self.sent_as_is)
        return {name: f"{words[what]}{name}" for name, what in sent}

    @property
    def kary(self) -> tuple[tuple[float, int], ...]:
        """`Step.kary`, where a single step draws."""
        drawing = [step for step in self.steps if not isinstance(step, Public)]
        return drawing[0].kary if len(drawing) == 1 else ()

    @property
    def dealt(self) -> Deal | None:
        """The step that deals a question, where there is one."""
        return next((step for step in self.steps if isinstance(step, Deal)), None)

    def deal(self, draws: Draws) -> int | None:
        """The number of the question to ask, drawn before anything is asked; None where all are."""
        draws.begin()
        return None if self.dealt is None else self.dealt.deal(draws)

    def _actions(self, question: int | None) -> list[Action]:
        """What is done once this question is dealt."""
        return [
            step.questions[question or 0] if isinstance(step, Deal) else step
            for step in self.steps
            if isinstance(step, Action | Deal)
        ]

    def asked(self, question: int | None) -> tuple[int, ...]:
        """The columns of the record that this question reads, and those that everyone is asked."""
        return tuple(
            sorted(column for action in self._actions(question) for column in action.columns)
        )

    def randomise_one(
        self, record: Record, draws: Draws, question: int | None = None
    ) -> list[int | list[int]]:
        """The report of one record: a code for each column, a list of codes for a basket.

        The question is dealt first of all, unless it was dealt before and is given. Columns that
        it does not read may be None.
        """
        draws.begin()
        if question is None:
            question = self.deal(draws)
        values = self._checked(record, question)
        report: list[Value] = [column.blank for column in self.outputs]
        if self.dealt is not None and question is not None:
            report[self.dealt.reports[0]] = question
        for action in self._actions(question):
            drawn = action.run([values[column] for column in action.columns], draws)
            for column, value in zip(action.reports, drawn, strict=True):
                report[column] = value
        return [list(value) if isinstance(value, tuple) else value for value in report]

    @cached_property
    def gives_all(self) -> bool:
        """Whether all that the columns of a report can hold can be a report."""
        return all(step.gives_all for step in self.steps)

    def gives(self, report: Record) -> bool:
        """Whether some record can give this report: a forger's need not be one.

        >>> from sfumato.mechanisms.steps import Subset
        >>> two = Program((Subset(columns=(0,), reports=(0,), sizes=(5,), answers=5, chosen=2, a=3,
        ...                       b=1),))
        >>> two.gives([[0, 4]]), two.gives([[0, 1, 2, 3, 4]])
        (True, False)
        """
        values: list[Any] = [
            tuple(sorted(value)) if isinstance(value, Sequence) else value for value in report
        ]
        return all(step.gives([values[place] for place in step.reports]) for step in self.steps)

    def truthful(self, record: Record, question: int | None = None) -> Fraction:
        """The probability that everything sent is true of this record: "this equals your answer in
        32 % of cases".
        """
        values = self._checked(record, question)
        chances = (
            action.truthful([values[column] for column in action.columns])
            for action in self._actions(question)
        )
        return math.prod(chances, start=Fraction(1))

    def _checked(self, record: Record, question: int | None) -> list[Any]:
        if (question is None) != (self.dealt is None):
            raise ParameterError(
                "say which question was dealt, where questions are dealt, only there"
            )
        if len(record) != len(self.inputs):
            raise DataError(
                f"a record of {len(record)} columns for a client program of {len(self.inputs)}"
            )
        values = [
            tuple(sorted(set(value))) if isinstance(value, Sequence) else value for value in record
        ]
        for column in self.asked(question):
            if not self.inputs[column].holds(values[column]):
                raise DataError(
                    f"column {column + 1} of the record holds what the client program cannot read",
                    hint=f"use whole numbers below {self.inputs[column].size}",
                )
        return values

    @property
    def longest(self) -> int:
        """The most characters that the values of a report take in JSON, written without spaces:
        single reports are padded to it.
        """
        return sum(column.longest for column in self.outputs) + len(self.outputs) + 1

    def check_reads(self, records: Domain) -> None:
        """Refuse a program that leaves out a column or takes one for another."""
        wanted = tuple(
            Column(attribute.size, basket=isinstance(attribute, Items)) for attribute in records
        )
        if wanted != self.inputs:
            raise ParameterError(
                "this client program does not fit its records: its columns have "
                f"{[column.size for column in self.inputs]} values, theirs "
                f"{[column.size for column in wanted]}"
            )

    def to_dict(self) -> dict[str, Any]:
        """The program as JSON data."""
        return {"version": self.version, "steps": [step.to_dict() for step in self.steps]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The program of JSON data; a version, step or field that this software does not know is
        refused.
        """
        if (
            not isinstance(data, Mapping)
            or set(data) != {"version", "steps"}
            or not isinstance(data["steps"], list)
        ):
            raise FileError("a client program has a version and a list of steps, and nothing else")
        if data["version"] != VERSION or isinstance(data["version"], bool):
            raise FileError(
                f"this client program is of version {data['version']}; this software runs "
                f"{VERSION}",
                hint="update it",
            )
        return cls(tuple(map(step_from, data["steps"])))


def with_public(domain: Domain, reports: Domain, steps: Sequence[Step]) -> Program:
    """The program of steps that are written in places of the private columns: moved to their places
    in records and reports, with a step for each public column.
    """
    private = [place for place, attribute in enumerate(domain) if not attribute.public]
    public = [attribute for attribute in domain if attribute.public]
    beside = [reports.index(attribute.name) for attribute in public]
    written = [place for place in range(len(reports)) if place not in beside]
    moved = [moved_step(step, private, written) for step in steps]
    passed = (
        Public(
            columns=(domain.index(attribute.name),),
            reports=(place,),
            **{"items" if isinstance(attribute, Items) else "size": attribute.size},
        )
        for attribute, place in zip(public, beside, strict=True)
    )
    return Program((*moved, *passed))


def moved_step(step: Step, columns: Sequence[int], reports: Sequence[int]) -> Step:
    """The step on other columns: `columns[0]` in place of column 0, and so on."""
    inside: dict[str, Any] = {}
    if isinstance(step, Deal):
        inside["questions"] = tuple(moved_step(part, columns, reports) for part in step.questions)
    return replace(
        step,
        columns=tuple(columns[place] for place in step.columns),
        reports=tuple(reports[place] for place in step.reports),
        **inside,
    )


def _in_order(pairs: Any) -> tuple[Column, ...]:
    found = {
        place: column
        for places, columns in pairs
        for place, column in zip(places, columns, strict=True)
    }
    return tuple(found[place] for place in sorted(found))
