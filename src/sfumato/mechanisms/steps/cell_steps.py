"""Steps that redraw codes: whole records, single columns, any matrix, one answer of several."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes, Columns, code_dtype, codes_of
from sfumato.mechanisms.limits import CHUNK, LARGEST, LOOKUP
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import (
    Action,
    Big,
    Column,
    Ints,
    Rows,
    Step,
    Value,
    either,
    joint,
    joint_codes,
    quotient,
    split,
)
from sfumato.privacy.guarantee import Gamma
from sfumato.privacy.probability import ONE
from sfumato.randomness import Keystream
from sfumato.untrusted import shown


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

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes]:
        rows = len(columns[0])
        reports = [np.empty(rows, dtype=code_dtype(size)) for size in self.sizes]
        for start in range(0, rows, CHUNK):
            part = slice(start, min(start + CHUNK, rows))
            self._draw(
                [np.asarray(column)[part] for column in columns],
                [report[part] for report in reports],
                rng,
            )
        return reports

    @abstractmethod
    def _draw(self, records: list[Codes], reports: list[Codes], rng: Keystream) -> None:
        """Write the reports of some records."""


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
            f"scale {self.scale} and total {self.total} on {shown(self.cells)} cells",
            "use scale·cells <= total <= 2^32",
        )

    @property
    def gamma(self) -> Gamma:
        stay = self.total - self.scale * (self.cells - 1)
        return Fraction(stay, self.scale) if self.cells > 1 else Fraction(1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        drawn = draws.below(self.total) // self.scale
        return split(self.sizes, drawn) if drawn < self.cells else tuple(values)

    def _draw(self, records: list[Codes], reports: list[Codes], rng: Keystream) -> None:
        drawn = rng.below(self.total, len(records[0]))
        kept = np.flatnonzero(drawn >= self.cells * self.scale)
        if self.scale > 1:
            drawn = drawn // drawn.dtype.type(self.scale)
        for record, report, column in zip(records, reports, self._decoded(drawn), strict=True):
            report[:] = column
            report[kept] = record[kept]

    def _decoded(self, drawn: Codes) -> list[Codes]:
        """The columns' codes of joint cells; a cell beyond the last stands for any (its record is
        kept).
        """
        if self._tables is not None:
            return [np.take(table, drawn, mode="clip") for table in self._tables]
        columns: list[Codes] = []
        for size in reversed(self.sizes):
            columns.append(drawn % drawn.dtype.type(size))
            drawn = drawn // drawn.dtype.type(size)
        return columns[::-1]

    @cached_property
    def _tables(self) -> list[Codes] | None:
        if self.cells > LOOKUP:
            return None
        codes = np.unravel_index(np.arange(self.cells), self.sizes)
        return [code.astype(code_dtype(size)) for code, size in zip(codes, self.sizes, strict=True)]

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

    def _draw(self, records: list[Codes], reports: list[Codes], rng: Keystream) -> None:
        kept = rng.chance(self.keep, 64, len(records[0]))
        for record, report, size in zip(records, reports, self.sizes, strict=True):
            report[:] = np.where(kept, record, rng.below(size, len(record)))

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
            f"mean {self.mean}, reach {self.reach} and total {self.total} on {shown(self.cells)} "
            "cells",
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

    def _draw(self, records: list[Codes], reports: list[Codes], rng: Keystream) -> None:
        count = len(records[0])
        stay = rng.below(2 * self.reach + 1, count).astype(np.uint64)
        stay += np.uint64(self.mean - self.reach)
        moved = np.flatnonzero(rng.below(self.total, count) >= stay)
        for record, report in zip(records, reports, strict=True):
            report[:] = record
        while moved.size:  # drawn from all records, and again where it is the same
            same = np.ones(moved.size, dtype=bool)
            for record, report, size in zip(records, reports, self.sizes, strict=True):
                report[moved] = rng.below(size, moved.size)
                same &= report[moved] == record[moved]
            moved = moved[same]

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
        weights = self.weights
        self.check(
            weights is None or (len(weights) == self.size and sum(weights) == ONE),
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
        if self.size == 1 or self.keep == 0:
            return Fraction(1)
        drawn = (ONE - self.keep) * self.least
        return 1 + self.keep / drawn if drawn else math.inf

    @property
    def least(self) -> Fraction:
        """The least probability of a value that is drawn."""
        return Fraction(min(self.weights), ONE) if self.weights else Fraction(1, self.size)

    @property
    def gives_all(self) -> bool:
        return self.keep > 0 or self.weights is None or all(self.weights)

    def gives(self, values: Sequence[Value]) -> bool:
        return super().gives(values) and (self.gives_all or self._weight(values[0]) > 0)

    def _weight(self, value: Value) -> Fraction:
        """The probability of a value that is drawn."""
        assert isinstance(value, int)
        return Fraction(self.weights[value], ONE) if self.weights else Fraction(1, self.size)

    @cached_property
    def _cumulative(self) -> list[int]:
        return list(accumulate(self.weights or ()))

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        if draws.chance(self.keep, 32):
            return tuple(values)
        return (draws.pick(self._cumulative) if self.weights else draws.below(self.size),)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes]:
        codes = np.asarray(columns[0])
        reports = codes.astype(code_dtype(self.size), copy=True)
        drop = np.flatnonzero(~rng.chance(self.keep, 32, len(codes)))
        reports[drop] = (
            np.searchsorted(np.array(self._cumulative), rng.uint32(len(drop)), side="right")
            if self.weights
            else rng.below(self.size, len(drop))
        )
        return [reports]

    def truthful(self, values: Sequence[Value]) -> Fraction:
        keep = Fraction(self.keep, ONE)
        return keep + (1 - keep) * self._weight(values[0])


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
            f"give {shown(self.cells)} rows of {shown(self.cells)}, each of sum 2^32",
        )

    @property
    def work(self) -> int:
        return super().work + sum(map(len, self.weights))

    @property
    def gamma(self) -> Gamma:
        return max(
            Fraction(1),
            *(quotient(max(column), min(column)) for column in zip(*self.weights, strict=True)),
        )

    @property
    def gives_all(self) -> bool:
        return all(map(any, zip(*self.weights, strict=True)))

    def gives(self, values: Sequence[Value]) -> bool:
        if not super().gives(values):
            return False
        cell = joint(self.sizes, values)
        return any(row[cell] for row in self.weights)

    @cached_property
    def _cumulative(self) -> list[list[int]]:
        return [list(accumulate(row)) for row in self.weights]

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        return split(self.sizes, draws.pick(self._cumulative[joint(self.sizes, values)]))

    @cached_property
    def _ends(self) -> NDArray[np.uint64]:
        return row_ends(np.array(self.weights, dtype=np.uint64))

    def _draw(self, records: list[Codes], reports: list[Codes], rng: Keystream) -> None:
        drawn = pick_each(self._ends, joint_codes(tuple(records), self.sizes), rng)
        for report, code in zip(reports, np.unravel_index(drawn, self.sizes), strict=True):
            report[:] = code

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
        fits = (
            self.cells == self.answers
            if self.map is None
            else len(self.map) == self.cells and max(self.map) < self.answers
        )
        self.check(
            fits,
            f"{self.answers} answers and a map that do not fit its columns",
            f"map each of the {shown(self.cells)} cells to an answer, or leave the map out",
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
    def cells(self) -> int:
        """How many cells its columns have together."""
        return math.prod(self._cells)

    @property
    def inputs(self) -> tuple[Column, ...]:
        return tuple(map(Column, self.sizes))

    @property
    def work(self) -> int:
        starts = sum(map(len, self.starts or ()))
        return len(self.sizes) ** 2 + self.cells + len(self.map or ()) + starts

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

    def truths(self, columns: Columns) -> NDArray[np.intp]:
        """The answers that are true of many records."""
        if self.starts is not None:
            pairs = zip(self.starts, codes_of(columns), strict=True)
            columns = tuple(np.searchsorted(row, codes, side="right") - 1 for row, codes in pairs)
        cells = joint_codes(columns, self._cells)
        return cells if self.map is None else self._mapped[cells]

    @cached_property
    def _mapped(self) -> NDArray[np.intp]:
        return np.array(self.map, dtype=np.intp)


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
        check_weights(self, self.a, self.b, self.total)

    @property
    def outputs(self) -> tuple[Column, ...]:
        return (Column(self.answers),)

    @property
    def total(self) -> int:
        """The weights of all answers together."""
        return self.a + self.b * (self.answers - 1)

    @property
    def gamma(self) -> Gamma:
        return Fraction(self.a, self.b) if self.possible > 1 else Fraction(1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        drawn, true = draws.below(self.total), self.truth(values)
        if drawn < self.a:
            return (true,)
        return ((true + 1 + (drawn - self.a) // self.b) % self.answers,)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes]:
        drawn = rng.below(self.total, len(columns[0])).astype(np.int64)
        moved = np.where(drawn < self.a, 0, 1 + (drawn - self.a) // self.b)
        return [(self.truths(columns) + moved) % self.answers]

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(self.a, self.total)


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

    def run_many(self, columns: Columns, rng: Keystream) -> list[Codes]:
        drawn = rng.below(self._total, len(columns[0])).astype(np.int64)
        reported = (drawn - self._lifted) // self.b
        own = np.flatnonzero(drawn < self._lifted)
        true = self.truths(columns)[own]
        reported[own] = self._owned[true, drawn[own] // (self.a - self.b)]
        return [reported]

    @cached_property
    def _owned(self) -> NDArray[np.int64]:  # (answers, own symbols of each)
        return np.array(self.own, dtype=np.int64)

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(len(self.own[0]) * self.a, self._total)


def row_ends(weights: NDArray[np.uint64]) -> NDArray[np.uint64]:  # (rows, values) -> (rows·values,)
    """Where the weights of each row, of sum 2^32, end: row after row, one behind the other."""
    starts = np.arange(len(weights), dtype=np.uint64)[:, None] * np.uint64(ONE)
    return (np.cumsum(weights, axis=1, dtype=np.uint64) + starts).ravel()


def pick_each(ends: NDArray[np.uint64], rows: NDArray[np.intp], rng: Keystream) -> NDArray[np.intp]:
    """A place by the weights of each one's row, whose `row_ends` these are."""
    values = len(ends) // int(ends[-1] >> np.uint64(32))
    words = rows.astype(np.uint64) * np.uint64(ONE) + rng.uint32(len(rows))
    return np.searchsorted(ends, words, side="right") - rows * values


def check_weights(step: Step, a: int, b: int, total: int) -> None:
    """Refuse weights that one draw of exact integers cannot realise."""
    step.check(
        a >= b >= 1 and total < LARGEST,
        f"weights a = {a}, b = {b} of {total} in all",
        "use a >= b >= 1 and less than 2^53 in all",
    )
