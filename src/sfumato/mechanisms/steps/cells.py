"""Steps that redraw codes: whole records, single columns, any matrix, one answer of several."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from sfumato.mechanisms.steps.base import (
    LARGEST,
    ONE,
    Action,
    Big,
    Column,
    Ints,
    Rows,
    Step,
    Value,
    either,
    joint,
    quotient,
    split,
)
from sfumato.mechanisms.steps.draws import Draws
from sfumato.privacy.guarantee import Gamma


@dataclass(frozen=True, kw_only=True)
class CodesStep(Action):
    """A step from the codes of some columns to codes of the same columns."""

    sizes: Ints

    def __post_init__(self) -> None:
        self.check_columns()

    @property
    def inputs(self) -> tuple[Column, ...]:
        return tuple(map(Column, self.sizes))

    @property
    def outputs(self) -> tuple[Column, ...]:
        return self.inputs

    @property
    def cells(self) -> int:
        """The number of different records."""
        return math.prod(self.sizes)

    @property
    def work(self) -> int:
        return len(self.sizes) ** 2


@dataclass(frozen=True, kw_only=True)
class Diagonal(CodesStep):
    """One integer below `total` decides: below scale·cells it names the new record, else the record
    is kept (gamma-diagonal).

    >>> Diagonal(columns=(0,), reports=(0,), sizes=(2,), scale=1, total=4).gamma
    Fraction(3, 1)
    """

    kind = "diagonal"
    scale: int
    total: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(
            self.scale >= 1 and self.scale * self.cells <= self.total <= ONE,
            f"scale {self.scale} and total {self.total} on {self.cells} cells",
            "use scale·cells <= total <= 2^32",
        )

    @property
    def gamma(self) -> Gamma:
        stay = self.total - self.scale * (self.cells - 1)
        return Fraction(stay, self.scale) if self.cells > 1 else Fraction(1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        drawn = draws.below(self.total) // self.scale
        return split(self.sizes, drawn) if drawn < self.cells else tuple(values)

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(self.total - self.scale * (self.cells - 1), self.total)


@dataclass(frozen=True, kw_only=True)
class Diagonal64(CodesStep):
    """The record is kept with probability keep / 2^64, else every column is drawn on its own
    (gamma-diagonal on many cells).
    """

    kind = "diagonal64"
    keep: Big

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(0 < self.keep < 1 << 64, f"keep {self.keep}", "use 0 < keep < 2^64")

    @property
    def gamma(self) -> Gamma:
        return 1 + Fraction(self.keep * self.cells, (1 << 64) - self.keep) * (self.cells > 1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        kept = draws.chance(self.keep, 64)
        drawn = tuple(draws.below(size) for size in self.sizes)
        return tuple(values) if kept else drawn

    def truthful(self, values: Sequence[Value]) -> Fraction:
        keep = Fraction(self.keep, 1 << 64)
        return keep + (1 - keep) / self.cells


@dataclass(frozen=True, kw_only=True)
class Spread(CodesStep):
    """Stay with a weight drawn from mean-reach..mean+reach of `total`, else move to another record
    (randomised gamma).

    The weight that was drawn is never sent, so γ is that of the mean.
    """

    kind = "spread"
    mean: Big
    total: Big
    reach: Big

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(
            self.cells > 1
            and 0 < self.mean < self.total <= 1 << 62
            and self.reach <= min(self.mean, self.total - self.mean),
            f"mean {self.mean}, reach {self.reach} and total {self.total} on {self.cells} cells",
            "use reach <= mean, mean + reach <= total <= 2^62 and at least two cells",
        )

    @property
    def gamma(self) -> Gamma:
        return either(Fraction(self.mean * (self.cells - 1), self.total - self.mean))

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        stay = draws.below(2 * self.reach + 1) + self.mean - self.reach
        if draws.below(self.total) < stay:
            return tuple(values)
        while (drawn := tuple(draws.below(size) for size in self.sizes)) == tuple(values):
            pass
        return drawn

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(self.mean, self.total)


@dataclass(frozen=True, kw_only=True)
class KeepOrDraw(Action):
    """Keep the code with probability keep / 2^32, else draw it uniformly or by `weights` of sum
    2^32 (retention replacement).
    """

    kind = "retain"
    size: int
    keep: int
    weights: Ints | None = None

    def __post_init__(self) -> None:
        self.check_columns()
        self.check(self.keep <= ONE, f"keep {self.keep}", "use 0 <= keep <= 2^32")
        law = self.weights
        self.check(
            law is None or (len(law) == self.size and sum(law) == ONE),
            f"weights that do not fit its {self.size} values",
            "give one a value, of sum 2^32",
        )

    @property
    def inputs(self) -> tuple[Column, ...]:
        return (Column(self.size),)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return self.inputs

    @property
    def work(self) -> int:
        return 1 + len(self.weights or ())

    @property
    def gamma(self) -> Gamma:
        least = Fraction(min(self.weights), ONE) if self.weights else Fraction(1, self.size)
        if self.size == 1 or self.keep == 0:
            return Fraction(1)
        drawn = (ONE - self.keep) * least
        return 1 + self.keep / drawn if drawn else math.inf

    @cached_property
    def _cumulative(self) -> list[int]:
        return list(accumulate(self.weights or ()))

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        if draws.chance(self.keep, 32):
            return tuple(values)
        return (draws.pick(self._cumulative) if self.weights else draws.below(self.size),)

    def truthful(self, values: Sequence[Value]) -> Fraction:
        keep, (value,) = Fraction(self.keep, ONE), values
        assert isinstance(value, int)
        law = Fraction(self.weights[value], ONE) if self.weights else Fraction(1, self.size)
        return keep + (1 - keep) * law


@dataclass(frozen=True, kw_only=True)
class TableStep(CodesStep):
    """Any matrix: for each record the weights of all reports, of sum 2^32."""

    kind = "table"
    weights: Rows  # a row a record, the reports in order

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = len(self.weights) == self.cells and all(
            len(row) == self.cells and sum(row) == ONE for row in self.weights
        )
        self.check(
            fits,
            "weights that do not fit its columns",
            f"give {self.cells} rows of {self.cells}, each of sum 2^32",
        )

    @property
    def work(self) -> int:
        return super().work + sum(map(len, self.weights))

    @property
    def gamma(self) -> Gamma:
        return max(
            Fraction(1), *(quotient(max(law), min(law)) for law in zip(*self.weights, strict=True))
        )

    @cached_property
    def _cumulative(self) -> list[list[int]]:
        return [list(accumulate(row)) for row in self.weights]

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        return split(self.sizes, draws.pick(self._cumulative[joint(self.sizes, values)]))

    def truthful(self, values: Sequence[Value]) -> Fraction:
        cell = joint(self.sizes, values)
        return Fraction(self.weights[cell][cell], ONE)


@dataclass(frozen=True, kw_only=True)
class Answered(Action):
    """A step whose truth is one of a few answers: the cell of its columns, or what a public map
    makes of it.

    Where `starts` are stated, the cells of a column are runs of its codes, each from its start on.
    """

    sizes: Ints
    answers: int
    map: Ints | None = None
    starts: Rows | None = None  # a row a column, ascending from 0

    def __post_init__(self) -> None:
        self.check_columns()
        self.check(
            self.starts is None or self._starts_fit(self.starts),
            "cells that do not fit its columns",
            "give each column the codes at which its cells start, ascending from 0",
        )
        cells = math.prod(self._cells)
        fits = (
            cells == self.answers
            if self.map is None
            else len(self.map) == cells and max(self.map) < self.answers
        )
        self.check(
            fits,
            f"{self.answers} answers and a map that do not fit its columns",
            f"map each of the {cells} cells to an answer, or leave the map out",
        )

    def _starts_fit(self, starts: Rows) -> bool:
        return len(starts) == len(self.sizes) and all(
            row[:1] == (0,) and list(row) == sorted(set(row)) and row[-1] < size
            for row, size in zip(starts, self.sizes, strict=True)
        )

    @property
    def _cells(self) -> Ints:
        """How many cells each column has."""
        return self.sizes if self.starts is None else tuple(map(len, self.starts))

    @property
    def inputs(self) -> tuple[Column, ...]:
        return tuple(map(Column, self.sizes))

    @property
    def work(self) -> int:
        starts = sum(map(len, self.starts or ()))
        return len(self.sizes) ** 2 + math.prod(self._cells) + len(self.map or ()) + starts

    @property
    def possible(self) -> int:
        """How many answers can be true."""
        return len(set(self.map)) if self.map is not None else self.answers

    def truth(self, values: Sequence[Value]) -> int:
        """The answer that is true of this record."""
        if self.starts is not None:
            pairs = zip(self.starts, values, strict=True)
            values = [bisect_right(row, value) - 1 for row, value in pairs]
        cell = joint(self._cells, values)
        return cell if self.map is None else self.map[cell]


@dataclass(frozen=True, kw_only=True)
class Kary(Answered):
    """The true answer with weight a, any other with weight b (k-ary randomised response).

    >>> Kary(columns=(0,), reports=(0,), sizes=(2,), answers=2, a=3, b=1).gamma
    Fraction(3, 1)
    """

    kind = "kary"
    a: int
    b: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weights(self, self.a, self.b, self._total)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return (Column(self.answers),)

    @property
    def _total(self) -> int:
        return self.a + self.b * (self.answers - 1)

    @property
    def gamma(self) -> Gamma:
        return Fraction(self.a, self.b) if self.possible > 1 else Fraction(1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        drawn, true = draws.below(self._total), self.truth(values)
        if drawn < self.a:
            return (true,)
        return ((true + 1 + (drawn - self.a) // self.b) % self.answers,)

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(self.a, self._total)


@dataclass(frozen=True, kw_only=True)
class Own(Answered):
    """One symbol: each of the true answer's own with weight a, any other with weight b (Hadamard
    response, where the own symbols are half of a block).

    >>> pair = Own(columns=(0,), reports=(0,), sizes=(2,), answers=2, symbols=4,
    ...            own=((0, 1), (0, 2)), a=3, b=1)
    >>> pair.gamma, pair.truthful([0])
    (Fraction(3, 1), Fraction(3, 4))
    """

    kind = "own"
    symbols: int
    own: Rows  # a row an answer: its symbols, ascending, as many for each
    a: int
    b: int

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = len(self.own) == self.answers and all(
            len(row) == len(self.own[0]) >= 1
            and list(row) == sorted(set(row))
            and row[-1] < self.symbols
            for row in self.own
        )
        self.check(
            fits,
            "symbols that do not fit its answers",
            f"give each of the {self.answers} answers as many, ascending, below {self.symbols}",
        )
        check_weights(self, self.a, self.b, self._total)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return (Column(self.symbols, shows="set"),)

    @property
    def work(self) -> int:
        return super().work + sum(map(len, self.own))

    @property
    def _lifted(self) -> int:
        return len(self.own[0]) * (self.a - self.b)

    @property
    def _total(self) -> int:
        return self._lifted + self.symbols * self.b

    @property
    def gamma(self) -> Gamma:
        true = range(self.answers) if self.map is None else self.map
        apart = len({self.own[answer] for answer in true}) > 1
        return Fraction(self.a, self.b) if apart else Fraction(1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        drawn, own = draws.below(self._total), self.own[self.truth(values)]
        rest = drawn - self._lifted
        return (own[drawn // (self.a - self.b)] if rest < 0 else rest // self.b,)

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(len(self.own[0]) * self.a, self._total)


def check_weights(step: Step, a: int, b: int, total: int) -> None:
    """Refuse weights that one draw of exact integers cannot realise."""
    step.check(
        a >= b >= 1 and total < LARGEST,
        f"weights a = {a}, b = {b} of {total} in all",
        "use a >= b >= 1 and less than 2^53 in all",
    )
