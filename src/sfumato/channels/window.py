"""Windowed: a number on a grid is reported in the window that begins at it, or anywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import Channel, Counts, Dealt, batched, unbatched
from sfumato.domain import Cells, Numeric

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """A window: `values` numbers and `length` reports from each on, of weight a inside, b outside.

    All numbers have the same total weight Ω = L·a + (c−1)·b, so P(report | number) is a/Ω or b/Ω.
    With a zero of its own, which is none of the values, Ω = L·a + (c+L−1)·b: its window of L
    reports, sent as one, meets no other.
    """

    values: int
    length: int
    a: float  # whole, but for what is left beside a zero
    b: float
    zero: bool = False

    @property
    def truths(self) -> int:
        """Zero, where it has a window of its own, and the values."""
        return self.values + self.zero

    @property
    def reports(self) -> int:
        """How many reports there are."""
        return self.values + self.length - 1 + self.zero

    @property
    def total(self) -> float:
        """Ω, the weight of all reports of a number."""
        return self.length * self.a + (self.values - 1 + self.zero * self.length) * self.b

    def above_zero(self, share: float) -> Shape:
        """The window of the values where only this share of the people is above zero: reports in
        the windows of values that come from people at zero are as likely anywhere.
        """
        return Shape(self.values, self.length, share * self.a + (1 - share) * self.b, self.b)

    def zeros(self, counts: Floats) -> tuple[float, float]:  # (reports,)
        """How many of those who reported are at zero, without bias, and the variance of that, the
        people being held fixed.
        """
        asked, each = float(counts.sum()), self.length / self.total
        gain = each * (self.a - self.b)
        found = (float(counts[-1]) - asked * each * self.b) / gain
        there, rest = min(max(found, 0.0), asked), min(max(asked - found, 0.0), asked)
        own, other = each * self.a, each * self.b
        return found, (there * own * (1 - own) + rest * other * (1 - other)) / gain**2

    def telling(self, wanted: Floats, degree: int) -> Floats:  # (truths,) -> (reports,)
        """What each report says of a polynomial of the number, and of zero, of mean just that."""
        shown = np.vander(np.arange(self.reports) / self.reports, degree + 1)
        if self.zero:
            last = np.arange(self.reports) == self.reports - 1
            shown = np.column_stack([np.where(last[:, None], 0.0, shown), last])
        return np.asarray(shown @ np.linalg.lstsq(self.matrix.T @ shown, wanted)[0])

    @property
    def matrix(self) -> Floats:  # (reports, truths)
        """P(report | number)."""
        return _matrix(self)

    @property
    def inverse(self) -> Floats:  # (truths, reports)
        """What undoes it, by least squares: without bias, but noisy."""
        return _inverse(self)

    def products(self, weights: Floats) -> Floats:  # (reports,) -> (values, values)
        """Σ_y weight(y)·P(y | u)·P(y | v), without multiplying matrices: two windows share the
        reports from the later beginning to the earlier end.
        """
        first, last = _shared(self)
        below = np.concatenate([[0.0], np.cumsum(weights)])
        own = below[self.length :] - below[: self.values]
        inside = (self.a - self.b) ** 2 * (below[last] - below[first])
        beside = (self.a - self.b) * self.b * (own[:, None] + own)
        return np.asarray((inside + beside + self.b**2 * below[-1]) / self.total**2)

    def number(self, report: NDArray[Any] | float) -> Any:
        """What a report says of the number, of mean the number itself: the mean report is
        ((a−b)·L·(x + (L−1)/2) + b·D(D−1)/2) / Ω.
        """
        middle = self.b * self.reports * (self.reports - 1) / 2
        excess = (self.a - self.b) * self.length
        return (self.total * report - middle) / excess - (self.length - 1) / 2


@lru_cache(maxsize=64)
def _matrix(shape: Shape) -> Floats:
    inside = np.arange(shape.values + shape.length - 1)[:, None] - np.arange(shape.values)
    weights = np.where((inside >= 0) & (inside < shape.length), shape.a, shape.b)
    if shape.zero:
        own = shape.length * np.r_[shape.a, np.full(shape.values, shape.b)]
        weights = np.vstack([np.column_stack([np.full(len(inside), shape.b), weights]), own])
    return weights / shape.total


@lru_cache(maxsize=64)
def _shared(shape: Shape) -> tuple[NDArray[np.intp], NDArray[np.intp]]:  # (values, values) each
    """The first report that two windows share, and that after the last; the same for none."""
    starts = np.arange(shape.values)
    first = np.maximum.outer(starts, starts)
    return first, np.maximum(np.minimum.outer(starts, starts) + shape.length, first)


@lru_cache(maxsize=64)
def _inverse(shape: Shape) -> Floats:
    return np.asarray(np.linalg.pinv(shape.matrix), dtype=np.float64)


def standing_below(codes: NDArray[Any], size: int, values: int) -> Floats:  # (codes, values)
    """The part of each grid value below a code: a value stands for the codes around it, up to the
    middle between it and the next.
    """
    places = (np.asarray(codes)[:, None] - 0.5) * (values - 1) / (size - 1)
    every = np.arange(values)
    first, last = np.maximum(every - 0.5, 0), np.minimum(every + 0.5, values - 1)
    return np.asarray(np.clip((places - first) / (last - first), 0, 1))


@dataclass(frozen=True, eq=False)
class Cuts:
    """Where the cells of a number change, wherever that is between the values of its grid."""

    codes: NDArray[np.int64]  # (cuts,): the first one after each
    before: NDArray[np.intp]  # (cuts,): the cell that ends
    after: NDArray[np.intp]  # (cuts,): the cell that begins
    size: int  # codes
    values: int  # of the grid

    @classmethod
    def of(cls, part: Cells, values: int) -> Cuts:
        """Those of a partition."""
        size, group = part.attribute.size, np.asarray(part.group, dtype=np.intp)
        firsts = np.arange(size) if part.starts is None else np.asarray(part.starts)
        changed = np.flatnonzero(group[1:] != group[:-1])
        return cls(firsts[changed + 1], group[changed], group[changed + 1], size, values)

    @property
    def step(self) -> float:
        """From one value of the grid to the next, in codes."""
        return (self.size - 1) / (self.values - 1)

    @property
    def below(self) -> Floats:  # (cuts, values)
        """The part of each grid value that stands for codes before the cut."""
        return standing_below(self.codes, self.size, self.values)

    @cached_property
    def _lower(self) -> NDArray[np.intp]:  # (cuts,)
        """The last value of the grid before each cut, or at it."""
        return np.clip(np.floor((self.codes - 0.5) / self.step), 0, self.values - 2).astype(np.intp)

    def between(self, amounts: Floats) -> Floats:  # (values,) -> (cuts,)
        """What is there at each cut, of amounts at the values of the grid."""
        along = np.clip((self.codes - 0.5) / self.step - self._lower, 0, 1)
        return np.asarray((1 - along) * amounts[self._lower] + along * amounts[self._lower + 1])

    def largest(self, amounts: Floats) -> Floats:  # (values,) -> (cuts,)
        """The larger of the two amounts beside each cut."""
        return np.maximum(amounts[self._lower], amounts[self._lower + 1])

    def bounds(self, counts: Floats, loose: Floats) -> tuple[Floats, Floats]:  # (cuts,) each
        """The fewest and the most people before each cut, however they lie between the values of
        the grid, of whom `loose` may lie elsewhere than at these values.

        A number t steps above a value is rounded to the next with probability t. Where the last
        number before a cut is t above value k, each of them at k + 1 leaves (1−t)/t or more at k;
        so at most min(x_{k+1}, x_k·t/(1−t)) of those at k + 1 are before it. So for those after.
        """
        upto, last, first = np.cumsum(counts), (self.codes - 1) / self.step, self.codes / self.step
        lower = np.clip(np.floor(last).astype(np.intp), 0, self.values - 2)
        along = np.clip(last - lower, 0, 1 - 1e-12)
        most = np.minimum(loose[lower + 1], loose[lower] * along / (1 - along))
        under = np.clip(np.ceil(first).astype(np.intp) - 1, 0, self.values - 2)
        along = np.clip(first - under, 1e-12, 1)
        fewest = np.minimum(loose[under], loose[under + 1] * (1 - along) / along)
        return upto[under] - fewest, upto[lower] + most


@dataclass(frozen=True, eq=False)
class Windowed(Dealt):
    """From cells of a number to its reports; `merge` says which part of each grid value a cell
    holds.

    Where several things are asked about, each person is dealt one of `questions`, this number with
    probability `share`, and the tally has a row for each; an answer to another question says
    nothing. `groups` are columns that every report states as they are.
    """

    way_back, sums_back = "smooth:SmoothEvidence", "smooth:GridSums"
    shape: Shape
    merge: Floats  # (cells, truths): each column sums to 1
    groups: tuple[int, ...] = ()
    questions: int = 1
    place: int = 0  # of this number among them
    answers: int = 0  # of the tally's rows, where there are several questions
    share: float = 1.0  # of the people who are asked about this number
    part: Cells | None = None  # what the cells are of, where they may cut between grid values
    number: Numeric | None = None  # whose range the grid spans: without zero, if that is apart

    @property
    def inputs(self) -> tuple[int, ...]:
        return (*self.groups, len(self.merge))

    @property
    def outputs(self) -> tuple[int, ...]:
        rows = () if self.questions == 1 else (self.questions,)
        return (*self.groups, *rows, self.answers if rows else self.shape.reports)

    @property
    def plain(self) -> bool:
        """Whether every cell is one value of the grid."""
        return self.merge.shape == (self.shape.truths,) * 2 and bool(
            (self.merge == np.eye(len(self.merge))).all()
        )

    @property
    def closed(self) -> NDArray[np.bool_]:
        told = np.zeros((math.prod(self.groups), self.questions, self._answers), dtype=bool)
        told[:, self.place, : self.shape.reports] = self.plain
        return told.reshape(self.outputs)

    @property
    def _answers(self) -> int:
        return self.outputs[-1]

    @property
    def _other(self) -> float:
        """How often each other question is dealt, all alike."""
        return (1 - self.share) / max(self.questions - 1, 1)

    def beside(self, shape: tuple[int, ...]) -> Channel:
        return replace(self, groups=(*shape, *self.groups))

    def on_grid(self) -> Windowed:
        """The same with every value of the grid a cell of its own."""
        return replace(self, merge=np.eye(self.shape.truths), part=None)

    @cached_property
    def cuts(self) -> Cuts | None:
        """Where its cells change, if there are more numbers than grid values."""
        if self.part is None or self.part.attribute.size == self.shape.values:
            return None
        return Cuts.of(self.part, self.shape.values)

    @property
    def ends(self) -> tuple[int, int]:
        """The cells of the lowest and of the highest number."""
        assert self.part is not None
        first, last = self.part.assign(np.array([0, self.part.attribute.size - 1]))
        return int(first), int(last)

    @cached_property
    def spread(self) -> Floats:  # (truths, cells)
        """The numbers of each cell, evenly spread."""
        return (self.merge / self.merge.sum(axis=1, keepdims=True)).T

    def own(self, counts: Counts) -> NDArray[Any]:  # outputs -> (groups, reports, batch)
        """The part of a tally that is about this number."""
        flat = batched(counts, self.outputs)
        table = flat.reshape(math.prod(self.groups), self.questions, self._answers, -1)
        return table[:, self.place, : self.shape.reports]

    def people(self, counts: Counts) -> NDArray[Any]:  # outputs -> (groups,)
        """Everyone in each group, whatever they were asked."""
        return np.asarray(counts).reshape(math.prod(self.groups), -1).sum(axis=1)

    def _tally(self, own: NDArray[Any], like: Counts, others: NDArray[Any] | None) -> Counts:
        """(groups, reports, batch) in its place; what others say as their first answer."""
        groups, reports, batch = own.shape
        table = np.zeros((groups, self.questions, self._answers, batch))
        if others is not None:
            table[:, :, 0] = others[:, None]
        table[:, self.place] = 0
        table[:, self.place, :reports] = own
        return unbatched(table, like, self.inputs, self.outputs)

    def _truths(self, counts: Counts) -> NDArray[Any]:  # (groups, cells, batch)
        flat = batched(counts, self.inputs)
        return flat.reshape(math.prod(self.groups), len(self.merge), -1)

    def marginal(self, axes: Sequence[int]) -> Channel:
        return self if list(axes) == list(range(len(self.inputs))) else super().marginal(axes)

    def apply(self, counts: Counts) -> Counts:
        truths = self._truths(counts)
        own = np.einsum("rk,gkb->grb", self.shape.matrix @ self.spread, truths)
        return self._tally(self.share * own, counts, self._other * truths.sum(axis=1))

    def adjoint(self, weights: Counts) -> Counts:
        flat = batched(weights, self.outputs)
        table = flat.reshape(math.prod(self.groups), self.questions, self._answers, -1)
        others = table[:, :, 0].sum(axis=1) - table[:, self.place, 0]
        own = np.einsum("rk,grb->gkb", self.shape.matrix @ self.spread, self.own(weights))
        every = self.share * own + self._other * others[:, None]
        return unbatched(every, weights, self.outputs, self.inputs)

    def solve(self, counts: Counts) -> Counts:
        undo = self.merge @ self.shape.inverse / self.share
        found = np.einsum("kr,grb->gkb", undo, self.own(counts))
        return unbatched(found, counts, self.outputs, self.inputs)

    def solve_adjoint(self, weights: Counts) -> Counts:
        undo = self.merge @ self.shape.inverse / self.share
        own = np.einsum("kr,gkb->grb", undo, self._truths(weights))
        return self._tally(own, weights, None)
