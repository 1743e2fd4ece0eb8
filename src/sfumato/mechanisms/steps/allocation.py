"""Allocation: k-ary questions and answers for many records at once, in the integers of `Deal`.

One record takes from the keystream what its device would take: a 32-bit word that deals the
question, then an integer below a + b(g−1). It draws what `Deal` would draw question by question,
several times as fast where questions are many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Columns
from sfumato.mechanisms.steps.cell_steps import Kary
from sfumato.mechanisms.steps.step import Ints, Step
from sfumato.randomness import Keystream

CHUNK = 1 << 15  # rows at a time: everything stays in the cache
TOGETHER = 1 << 8  # cells of columns that are looked up at once
WHOLE = 1 << 22  # questions × records up to which the true answer is one look-up
SMALL = 1 << 8  # bounds up to here are drawn from 16 bits, as everywhere
LARGEST_TOTAL, LARGEST_CELL = 1 << 24, 1 << 16  # what 32-bit draws and 16-bit cells hold


@dataclass(frozen=True, eq=False)
class Allocation:
    """Which question is dealt, what would be true, and what is reported."""

    weights: Ints
    questions: tuple[Kary, ...]  # the columns numbered as in `shape`
    shape: tuple[int, ...]
    a: int
    b: int

    @classmethod
    def of(cls, weights: Ints, columns: Ints, questions: Sequence[Step]) -> Allocation | None:
        """The allocation of these questions about these columns; None where one is of another
        kind, or too large for 16 bits.
        """
        kary = tuple(each for each in questions if isinstance(each, Kary) and each.starts is None)
        if len(kary) < len(questions) or len({(each.a, each.b) for each in kary}) > 1:
            return None
        if any(each.total > LARGEST_TOTAL or each.cells > LARGEST_CELL for each in kary):
            return None
        places = {column: place for place, column in enumerate(columns)}
        sizes = {c: s for each in kary for c, s in zip(each.columns, each.sizes, strict=True)}
        moved = tuple(
            replace(each, columns=tuple(places[column] for column in each.columns)) for each in kary
        )
        shape = tuple(sizes[column] for column in columns)
        return cls(weights, moved, shape, kary[0].a, kary[0].b)

    def reports(self, columns: Columns, rng: Keystream) -> tuple[NDArray[Any], NDArray[Any]]:
        """The question dealt to each record, and its answer."""
        rows = len(columns[0])
        codes = [np.asarray(column) for column in columns]
        dealt = np.empty(rows, dtype=np.uint16)
        answers = np.empty(rows, dtype=np.uint16)
        for start in range(0, rows, CHUNK):
            part = slice(start, min(start + CHUNK, rows))
            number = part.stop - part.start
            question = self._deal(rng.uint32(number))
            true = self._true([column[part] for column in codes], question)
            dealt[part] = question
            answers[part] = self._answer(true, question, rng)
        return dealt, answers

    # Which question: the high half of the word decides almost always.

    @cached_property
    def _ends(self) -> NDArray[np.uint64]:
        return np.cumsum(self.weights, dtype=np.uint64)

    @cached_property
    def _buckets(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The question of each high half, and whether its low half may change it."""
        starts = np.arange(1 << 16, dtype=np.uint64) << np.uint64(16)
        first = np.searchsorted(self._ends, starts, side="right")
        last = np.searchsorted(self._ends, starts + np.uint64(0xFFFF), side="right")
        return first.astype(np.intp), first != last

    def _deal(self, words: NDArray[np.uint32]) -> NDArray[np.intp]:
        first, open_ = self._buckets
        high = (words >> np.uint32(16)).astype(np.intp)
        question = first[high]
        unsure = np.flatnonzero(open_[high])
        question[unsure] = np.searchsorted(
            self._ends, words[unsure].astype(np.uint64), side="right"
        )
        return question

    # What is true of the record.

    @cached_property
    def _together(self) -> list[list[int]]:
        """Runs of columns whose codes are looked up as one."""
        if len(self.questions) * math.prod(self.shape) <= WHOLE:
            return [list(range(len(self.shape)))]
        runs: list[list[int]] = [[]]
        for axis, size in enumerate(self.shape):
            if runs[-1] and math.prod(self.shape[a] for a in runs[-1]) * size > TOGETHER:
                runs.append([])
            runs[-1].append(axis)
        return runs

    @cached_property
    def _steps(self) -> list[NDArray[np.uint16]]:  # (questions · cells of the run,)
        """What the codes of each run of columns add to the cell of each question."""
        return [self._added(run) for run in self._together]

    def _added(self, run: list[int]) -> NDArray[np.uint16]:
        sizes = [self.shape[axis] for axis in run]
        codes = dict(zip(run, np.indices(sizes).reshape(len(run), -1), strict=True))
        result = np.zeros((len(self.questions), math.prod(sizes)), dtype=np.uint16)
        for place, each in enumerate(self.questions):
            stride = 1
            for axis in reversed(each.columns):
                if axis in codes:
                    result[place] += (codes[axis] * stride).astype(np.uint16)
                stride *= self.shape[axis]
        if len(self._together) == 1:  # the cell is known, so its answer is
            for place, each in enumerate(self.questions):
                if each.map is not None:
                    result[place] = np.asarray(each.map, dtype=np.uint16)[result[place]]
        return result.ravel()

    @cached_property
    def _folds(self) -> tuple[NDArray[np.uint16], NDArray[np.intp]]:
        """The answer of every cell of every question, and where each question's begin."""
        maps = [
            np.arange(each.answers) if each.map is None else np.asarray(each.map)
            for each in self.questions
        ]
        starts = np.concatenate([[0], np.cumsum([len(each) for each in maps])[:-1]])
        return np.concatenate(maps).astype(np.uint16), starts.astype(np.intp)

    def _true(
        self, columns: Sequence[NDArray[Any]], question: NDArray[np.intp]
    ) -> NDArray[np.uint16]:
        cell = np.zeros(len(question), dtype=np.uint16)
        for run, table in zip(self._together, self._steps, strict=True):
            code = question.copy()
            for axis in run:
                code *= self.shape[axis]
                code += columns[axis]
            cell += table[code]
        if len(self._together) == 1:
            return cell
        folds, starts = self._folds
        return folds[starts[question] + cell]

    # What is reported.

    @cached_property
    def _totals(self) -> NDArray[np.uint64]:
        return np.array([each.total for each in self.questions], dtype=np.uint64)

    @cached_property
    def _sizes(self) -> NDArray[np.uint32]:
        return np.array([each.answers for each in self.questions], dtype=np.uint32)

    def _answer(
        self, true: NDArray[np.uint16], question: NDArray[np.intp], rng: Keystream
    ) -> NDArray[Any]:
        drawn = self._drawn(question, rng)
        # How far the answer is from the true one: 0 below a, then 1, 2, … every b integers.
        beyond = np.maximum(drawn, self.a - self.b) - (self.a - self.b)
        moved = true + (beyond if self.b == 1 else beyond // self.b)
        size = self._sizes[question]
        return moved - np.where(moved >= size, size, 0)

    def _drawn(self, question: NDArray[np.intp], rng: Keystream) -> NDArray[np.int64]:
        """An integer below its question's total for each record, exact by rejection."""
        narrow = self._totals <= SMALL
        if narrow.all() or not narrow.any():
            return _below(self._totals, question, rng, 16 if narrow.all() else 32)
        drawn = np.empty(len(question), dtype=np.int64)
        for bits, kind in ((16, narrow), (32, ~narrow)):
            here = np.flatnonzero(kind[question])
            drawn[here] = _below(self._totals, question[here], rng, bits)
        return drawn


def _below(
    totals: NDArray[np.uint64], question: NDArray[np.intp], rng: Keystream, bits: int
) -> NDArray[np.int64]:
    """As `Keystream.below`, each record with its own bound (Lemire 2019)."""
    wide: Any = np.uint32 if bits == 16 else np.uint64
    draw = rng.uint16 if bits == 16 else rng.uint32
    mask, shift = wide((1 << bits) - 1), wide(bits)
    again = (np.uint64(1 << bits) % totals).astype(wide)
    bounds = totals.astype(wide)[question]
    product = draw(len(question)).astype(wide) * bounds
    bad = np.flatnonzero((product & mask) < again[question])
    while bad.size:
        product[bad] = draw(bad.size).astype(wide) * bounds[bad]
        bad = bad[(product[bad] & mask) < again[question[bad]]]
    return (product >> shift).astype(np.int64)
