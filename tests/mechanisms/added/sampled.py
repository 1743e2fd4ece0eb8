"""Sampled: each report answers one of several questions, dealt by chance; the others
say nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import Channel, Counts, Dealt, batched, unbatched
from sfumato.errors import ParameterError, Unanswerable


@dataclass(frozen=True, eq=False)
class Sampled(Dealt):
    """From cells to answers, question by question: question q is dealt with share π_q and, where it
    is about these cells, its answers pass through the channel A_q; an answer to any other says
    nothing.

    x̂ = Σ_q A_q⁻¹ y_q / Σ π_q over the questions that tell. Once the tally is known (`settle`), the
    people who in fact got these questions replace π: x̂ = N/N_Q·Σ A_q⁻¹ y_q, far less noisy, and
    `solve_adjoint` then holds how the estimate moves with N_Q as well. Each question has `answers`
    places in the tally, the last of them unused where it has fewer. `groups` are columns that every
    report states as they are: the people are then counted within each of them.
    """

    channels: tuple[Channel | None, ...]  # one a question; None where it says nothing
    shares: tuple[float, ...]
    answers: int
    groups: tuple[int, ...] = ()
    people: NDArray[Any] | None = None  # (groups, questions): who got each question
    mean: NDArray[Any] | None = None  # (groups, cells): the estimate the influence is taken at

    def __post_init__(self) -> None:
        if not self._telling:
            raise ParameterError("no question tells anything about these cells")

    @cached_property
    def _telling(self) -> list[tuple[int, Channel]]:
        return [(place, channel) for place, channel in enumerate(self.channels) if channel]

    @property
    def _cells(self) -> tuple[int, ...]:
        return self._telling[0][1].inputs

    @property
    def inputs(self) -> tuple[int, ...]:
        return (*self.groups, *self._cells)

    @property
    def outputs(self) -> tuple[int, ...]:
        return (*self.groups, len(self.channels) * self.answers)

    @property
    def _grouped(self) -> int:
        return math.prod(self.groups)

    def beside(self, shape: tuple[int, ...]) -> Channel:
        return replace(self, groups=(*shape, *self.groups))

    def _shares(self) -> NDArray[Any]:  # (groups, questions)
        """How often each question is dealt: as planned, or as it happened."""
        if self.people is None:
            return np.tile(self.shares, (self._grouped, 1))
        return self.people / np.maximum(self.people.sum(axis=1, keepdims=True), 1)

    def _told(self) -> NDArray[Any]:  # (groups,)
        """The share of people whose question tells something; 1 where nobody was asked."""
        told = self._shares()[:, [place for place, _ in self._telling]].sum(axis=1)
        silent = told <= 0 if self.people is None else (told <= 0) & (self.people.sum(axis=1) > 0)
        if silent.any():
            raise Unanswerable(
                f"nobody in {int(silent.sum())} of {self._grouped} groups of people was asked "
                "about these columns",
                hint="merge small groups, or ask more people",
            )
        return np.where(told > 0, told, 1.0)

    def _truths(self, counts: Counts) -> NDArray[Any]:  # (groups, cells, batch)
        return batched(counts, self.inputs).reshape(self._grouped, math.prod(self._cells), -1)

    def _tally(self, counts: Counts) -> NDArray[Any]:  # (groups, questions, answers, batch)
        flat = batched(counts, self.outputs)
        return flat.reshape(self._grouped, len(self.channels), self.answers, -1)

    def _blank(self, batch: int) -> NDArray[Any]:
        return np.zeros((self._grouped, len(self.channels), self.answers, batch))

    def apply(self, counts: Counts) -> Counts:
        table, shares = self._truths(counts), self._shares()
        result = self._blank(table.shape[-1])
        result[:, :, 0] = shares[:, :, None] * table.sum(axis=1)[:, None]  # says nothing: answer 0
        for place, channel in self._telling:
            shown = _each(channel.apply, table, channel.inputs, channel.outputs)
            result[:, place] = 0
            result[:, place, : shown.shape[1]] = shares[:, place, None, None] * shown
        return unbatched(result, counts, self.inputs, self.outputs)

    def adjoint(self, weights: Counts) -> Counts:
        table, shares = self._tally(weights), self._shares()
        told = {place for place, _ in self._telling}
        silent = [place for place in range(len(self.channels)) if place not in told]
        anyone = (shares[:, silent, None] * table[:, silent, 0]).sum(axis=1)
        result = np.tile(anyone[:, None], (1, math.prod(self._cells), 1))
        for place, channel in self._telling:
            shown = table[:, place, : math.prod(channel.outputs)]
            seen = _each(channel.adjoint, shown, channel.outputs, channel.inputs)
            result += shares[:, place, None, None] * seen
        return unbatched(result, weights, self.outputs, self.inputs)

    def solve(self, counts: Counts) -> Counts:
        table = self._tally(counts)
        result = np.zeros((self._grouped, math.prod(self._cells), table.shape[-1]))
        for place, channel in self._telling:
            shown = table[:, place, : math.prod(channel.outputs)]
            result += _each(channel.solve, shown, channel.outputs, channel.inputs)
        result /= self._told()[:, None, None]
        return unbatched(result, counts, self.outputs, self.inputs)

    def solve_adjoint(self, weights: Counts) -> Counts:
        table = self._truths(weights)
        mean = np.zeros((self._grouped, table.shape[-1]))
        if self.mean is not None and self.people is not None:
            people = np.maximum(self.people.sum(axis=1), 1)[:, None]
            mean = np.einsum("gc,gcb->gb", self.mean, table) / people
        result = self._blank(table.shape[-1]) + mean[:, None, None]
        for place, channel in self._telling:
            own = _each(channel.solve_adjoint, table, channel.inputs, channel.outputs)
            told = self._told()[:, None, None]
            result[:, place, : own.shape[1]] += (own - mean[:, None]) / told
        return unbatched(result, weights, self.inputs, self.outputs)

    def settle(self, counts: Counts) -> Sampled:
        people = self._tally(counts).sum(axis=(2, 3))
        known = replace(self, people=people, mean=None)
        mean = np.asarray(known.solve(counts)).reshape(self._grouped, -1)
        return replace(known, mean=mean)


def _each(
    step: Any, table: NDArray[Any], before: tuple[int, ...], after: tuple[int, ...]
) -> NDArray[Any]:  # (groups, before, batch) -> (groups, after, batch)
    groups, _, batch = table.shape
    inside = np.moveaxis(table, 0, 1).reshape(*before, groups * batch)
    done = np.asarray(step(inside)).reshape(math.prod(after), groups, batch)
    return np.moveaxis(done, 1, 0)
