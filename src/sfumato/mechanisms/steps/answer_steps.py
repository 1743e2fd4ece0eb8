"""Steps that report one answer of several, one symbol that some answers share, or a set of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.domain import Codes, Columns, codes_of
from sfumato.mechanisms.limits import WIDE_CHUNK
from sfumato.mechanisms.steps.basket_steps import (
    any_flips,
    check_keeps,
    flip_bits,
    flipped,
    item_odds,
    keeps_of,
    one_held,
    unflipped,
    worst_exchange,
)
from sfumato.mechanisms.steps.cell_steps import check_weights
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import (
    Action,
    Column,
    Ints,
    Rows,
    Shows,
    Value,
    basket,
    joint,
    joint_codes,
)
from sfumato.privacy.guarantee import Gamma
from sfumato.randomness import Keystream
from sfumato.untrusted import shown


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
        pairs = zip(self.starts or (), self.sizes, strict=False)
        self.check(
            self.starts is None
            or (
                len(self.starts) == len(self.sizes)
                and all(
                    row[:1] == (0,) and list(row) == sorted(set(row)) and row[-1] < size
                    for row, size in pairs
                )
            ),
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

    @property
    def kary(self) -> tuple[tuple[float, int], ...]:
        return ((1.0, self.answers),)

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


@dataclass(frozen=True, kw_only=True)
class Sets(Answered):
    """A step that reports a set of answers."""

    @property
    def outputs(self) -> tuple[Column, ...]:
        return (Column(self.answers, basket=True),)

    @property
    def work(self) -> int:
        return super().work + self.answers


@dataclass(frozen=True, kw_only=True)
class Subset(Sets):
    """`chosen` of the answers: weight a for the sets that hold the true one, b for the others
    (subset selection).
    """

    kind = "subset"
    chosen: int
    a: int
    b: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(
            1 <= self.chosen < self.answers or self.chosen == self.answers == 1,
            f"{self.chosen} of {self.answers} answers chosen",
            "choose at least one and not all",
        )
        check_weights(self, self.a, self.b, self._total)

    @property
    def outputs(self) -> tuple[Column, ...]:
        shows: Shows = "set" if self.chosen > 1 else "answer"
        return (Column(self.answers, basket=True, shows=shows, count=self.chosen),)

    @property
    def _total(self) -> int:
        return self.chosen * self.a + (self.answers - self.chosen) * self.b

    @property
    def gamma(self) -> Gamma:
        return Fraction(self.a, self.b) if self.possible > 1 else Fraction(1)

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        true = self.truth(values)
        own = [true] if draws.below(self._total) < self.chosen * self.a else []
        others = [answer for answer in range(self.answers) if answer != true]
        return (tuple(sorted(own + draws.some(others, self.chosen - len(own)))),)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Bits]:
        true = self.truths(columns)
        sets = np.zeros((len(true), self.answers), dtype=bool)
        for start in range(0, len(true), WIDE_CHUNK):
            part = slice(start, start + WIDE_CHUNK)
            self._draw(true[part], sets[part], rng)
        return [Bits.from_dense(sets)]

    def _draw(self, true: NDArray[np.intp], result: NDArray[np.bool_], rng: Keystream) -> None:
        """Sets as rows of bits: the truth or not, then a Fisher-Yates choice of others."""
        rows = np.arange(len(true))
        held = rng.below(self._total, len(true)) < self.chosen * self.a
        result[rows[held], true[held]] = True
        others = np.tile(np.arange(self.answers - 1), (len(true), 1))
        others += others >= true[:, None]  # every answer but the true one
        for place in range(self.chosen):
            here = rows[~held] if place == self.chosen - 1 else rows
            if not len(here):
                break
            drawn = place + rng.below(self.answers - 1 - place, len(here)).astype(np.intp)
            picked = others[here, drawn]
            others[here, drawn] = others[here, place]
            others[here, place] = picked
            result[here, picked] = True

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return Fraction(self.chosen * self.a, self._total)


@dataclass(frozen=True, kw_only=True)
class UnaryStep(Sets):
    """Every answer on its own: the true one is reported with ones / 2^16, another left out with
    zeros / 2^16 (unary encoding).
    """

    kind = "unary"
    ones: Ints
    zeros: Ints

    def __post_init__(self) -> None:
        super().__post_init__()
        check_keeps(self, self.ones, self.zeros, self.answers)

    @cached_property
    def keeps(self) -> Rows:
        """Keep ones and keep zeros of every answer."""
        return keeps_of(self.ones, self.zeros, self.answers)

    @property
    def gamma(self) -> Gamma:
        return worst_exchange([item_odds(*self.keeps[answer]) for answer in self._true])

    @cached_property
    def _true(self) -> Sequence[int]:
        """The answers that can be true."""
        return range(self.answers) if self.map is None else sorted(set(self.map))

    @property
    def gives_all(self) -> bool:
        return any_flips(self.keeps)

    def gives(self, values: Sequence[Value]) -> bool:
        return super().gives(values) and one_held(
            set(basket(values[0])), self.keeps, range(self.answers), self._true
        )

    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        return (flipped((self.truth(values),), self.keeps, draws),)

    def run_many(self, columns: Columns, rng: Keystream) -> list[Bits]:
        true = self.truths(columns).astype(np.int32)
        ones = Bits.from_csr(np.arange(len(true) + 1), true, self.answers)
        return [flip_bits(ones, self.keeps, rng)]

    def truthful(self, values: Sequence[Value]) -> Fraction:
        return unflipped((self.truth(values),), self.keeps)
