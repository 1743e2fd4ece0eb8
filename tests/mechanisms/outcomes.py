"""Every outcome of a client program with its exact probability: draws that go through all branches
instead of choosing one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from sfumato.mechanisms.program import Program
from sfumato.mechanisms.steps import Column, Draws

Report = tuple[Any, ...]
WIDEST = 1 << 12  # branches of one draw


class Branches(Draws):
    """Draws that follow a path of choices, take the first branch beyond it, and note how many there
    were and how likely the path is.
    """

    def __init__(self, path: Sequence[int]) -> None:
        super().__init__(self._never)
        self.path = list(path)
        self.widths: list[int] = []
        self.probability = Fraction(1)

    @staticmethod
    def _never() -> bytes:
        raise AssertionError("every draw must be one of below, chance and pick")

    def _branch(self, masses: Sequence[Fraction]) -> int:
        place = len(self.widths)
        if place == len(self.path):
            self.path.append(0)
        self.widths.append(len(masses))
        self.probability *= masses[self.path[place]]
        return self.path[place]

    def below(self, bound: int) -> int:
        assert bound <= WIDEST, "too many branches to go through"
        return self._branch([Fraction(1, bound)] * bound)

    def chance(self, threshold: int, bits: int) -> bool:
        true = Fraction(min(threshold, 1 << bits), 1 << bits)
        return bool(self._branch([1 - true, true]))

    def pick(self, cumulative: Sequence[int]) -> int:
        steps = zip([0, *cumulative], cumulative, strict=False)
        return self._branch([Fraction(high - low, 1 << 32) for low, high in steps])


def law(draw: Callable[[Draws], Report]) -> dict[Report, Fraction]:
    """The exact distribution of what a function draws."""
    found: dict[Report, Fraction] = defaultdict(Fraction)
    path: list[int] = []
    while True:
        branches = Branches(path)
        report = draw(branches)
        if branches.probability:
            found[report] += branches.probability
        path, widths = branches.path, branches.widths
        while path and path[-1] == widths[len(path) - 1] - 1:
            path = path[:-1]
        if not path:
            return dict(found)
        path = [*path[:-1], path[-1] + 1]


def report_law(program: Program, record: Sequence[Any]) -> dict[Report, Fraction]:
    """The exact distribution of a record's reports."""

    def draw(draws: Draws) -> Report:
        report = program.randomise_one(record, draws)
        return tuple(tuple(value) if isinstance(value, list) else value for value in report)

    return law(draw)


def every_value(column: Column) -> list[Any]:
    """All that a column may hold."""
    if not column.basket:
        return list(range(column.size))
    sizes = range(column.size + 1)
    return [items for size in sizes for items in combinations(range(column.size), size)]


def every_record(program: Program) -> list[Report]:
    """All records of a program."""
    return list(product(*map(every_value, program.inputs)))


def exact_gamma(program: Program) -> Fraction | float:
    """The largest ratio of two records' probabilities of one report, by brute force; the columns
    that are sent as they are do not count, and records that differ in them are not compared.
    """
    open_columns = [column for column, what in program.sent_as_is if what == "value"]
    plain = [
        place
        for step in program.steps
        for place, column in zip(step.reports, step.outputs, strict=True)
        if column.as_it_is
    ]
    groups: dict[Report, list[dict[Report, Fraction]]] = defaultdict(list)
    for record in every_record(program):
        beside = tuple(record[column] for column in open_columns)
        blurred: dict[Report, Fraction] = defaultdict(Fraction)
        for report, chance in report_law(program, record).items():
            hidden = tuple(v for place, v in enumerate(report) if place not in plain)
            blurred[hidden] += chance
        groups[beside].append(dict(blurred))
    return max(_largest_ratio(laws) for laws in groups.values())


def _largest_ratio(laws: list[dict[Report, Fraction]]) -> Fraction | float:
    worst: Fraction | float = Fraction(1)
    for report in {report for found in laws for report in found}:
        chances = [found.get(report, Fraction(0)) for found in laws]
        worst = max(worst, max(chances) / min(chances) if min(chances) else float("inf"))
    return worst
