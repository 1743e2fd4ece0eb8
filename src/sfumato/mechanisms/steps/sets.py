"""Steps that report a set of answers: some answers of which one may be the true one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.domain import Columns
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
from sfumato.mechanisms.steps.cell_steps import Answered, check_weights
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.step import Column, Ints, Rows, Shows, Value, basket
from sfumato.privacy.guarantee import Gamma
from sfumato.randomness import Keystream


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
