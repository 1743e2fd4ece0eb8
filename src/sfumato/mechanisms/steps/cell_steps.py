"""Steps that redraw codes: whole records, single columns, any matrix, one answer of several."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes, Columns, code_dtype
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

    @property
    def kary(self) -> tuple[tuple[float, int], ...]:
        return ((1.0, self.cells),)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        drawn = draws.below(self.total) // self.scale
        return split(self.sizes, drawn) if drawn < self.cells else tuple(values)

    def _draw(self, records: list[Codes], reports: list[Codes], rng: Keystream) -> None:
        drawn = rng.below(self.total, len(records[0]))
        kept = np.flatnonzero(drawn >= self.cells * self.scale)
        if self.scale > 1:
            drawn = drawn // drawn.dtype.type(self.scale)
        for place in reversed(range(len(records))):
            if self._tables is not None:  # beyond the last cell the record is kept
                reports[place][:] = np.take(self._tables[place], drawn, mode="clip")
            else:
                drawn, reports[place][:] = np.divmod(drawn, drawn.dtype.type(self.sizes[place]))
            reports[place][kept] = records[place][kept]

    @cached_property
    def _tables(self) -> list[Codes] | None:
        """The codes of each cell, column by column, of few: twice as fast as dividing."""
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

    @property
    def kary(self) -> tuple[tuple[float, int], ...]:
        return ((1.0, self.cells),)

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
            weights is None
            or (len(weights) == self.size and sum(weights) == ONE and min(weights) >= 0),
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
        """Where the weights of each record end: record after record, one behind the other."""
        ends = np.cumsum(np.array(self.weights, dtype=np.uint64), axis=1, dtype=np.uint64)
        return (ends + np.arange(self.cells, dtype=np.uint64)[:, None] * np.uint64(ONE)).ravel()

    def _draw(self, records: list[Codes], reports: list[Codes], rng: Keystream) -> None:
        cells = joint_codes(tuple(records), self.sizes)
        words = cells.astype(np.uint64) * np.uint64(ONE) + rng.uint32(len(cells))
        order = np.argsort(cells.astype(np.uint16), kind="stable")  # what is near stays in cache
        drawn = np.empty(len(cells), dtype=np.intp)
        drawn[order] = np.searchsorted(self._ends, words[order], side="right")
        drawn -= cells * self.cells
        for report, code in zip(reports, np.unravel_index(drawn, self.sizes), strict=True):
            report[:] = code

    def truthful(self, values: Sequence[Value]) -> Fraction:
        cell = joint(self.sizes, values)
        return Fraction(self.weights[cell][cell], ONE)


def check_weights(step: Step, a: int, b: int, total: int) -> None:
    """Refuse weights that one draw of exact integers cannot realise."""
    step.check(
        a >= b >= 1 and total < LARGEST,
        f"weights a = {a}, b = {b} of {total} in all",
        "use a >= b >= 1 and less than 2^53 in all",
    )
