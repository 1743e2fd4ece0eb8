"""Reports: what was observed of the records, and what that says of any few columns alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sfumato.channels.contrasts import Axes, Floats
from sfumato.channels.questions import Question
from sfumato.domain import Cells
from sfumato.errors import Unanswerable
from sfumato.estimation.estimate import Estimate
from sfumato.mechanisms.base import Mechanism
from sfumato.model.measurement import Measurement, Reconstruction
from sfumato.observation import CellTally, Tally
from sfumato.source import evidence_of

RECONSTRUCTED = 1024  # cells whose covariance is written down


class Reports(Protocol):
    """What was observed of the records, axis by axis; public axes come first."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells each axis has."""

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether the cells of each axis have an order."""

    @property
    def public(self) -> int:
        """How many axes are public: the first ones."""

    @property
    def people(self) -> float:
        """How many people reported."""

    def held(self, axes: Axes) -> bool:
        """Whether single reports speak of all these private axes at once."""

    def masses(self, axes: Axes) -> Floats:
        """The known shares of the cells of some public axes; (1,) for none."""

    def measurements(self, axes: Axes) -> tuple[Measurement | Reconstruction, ...]:
        """All that the reports say of these axes (ascending) alone: measurements of positions
        within `axes`, whose likelihood is that of the reports.
        """


@dataclass(frozen=True, eq=False)
class Answers:
    """The counts of a questionnaire's answers, which are all that its reports say.

    A question about q says of the axes A what its answers, summed to q ∩ A, say: the gain stays and
    the base is multiplied by the cells that were summed. This needs each cell to be an answer; a
    folded question speaks only where all of its columns are asked. The axes of questions are
    numbered among the private ones.
    """

    shape: tuple[int, ...]
    ordered: tuple[bool, ...]
    public: int
    gamma: float
    questions: tuple[Question, ...]
    counts: Floats  # (*public cells, questions, answers)
    _kept: dict[tuple[int, Axes], Floats] = field(default_factory=dict, init=False, repr=False)

    @property
    def people(self) -> float:
        return float(self.counts.sum())

    def held(self, axes: Axes) -> bool:
        own = {axis - self.public for axis in axes if axis >= self.public}
        return any(own <= set(question.axes) for question in self.questions)

    def masses(self, axes: Axes) -> Floats:
        rest = tuple(axis for axis in range(self.public) if axis not in axes)
        shown = self.counts.sum(axis=(-2, -1)).sum(axis=rest)
        return np.atleast_1d(shown).ravel() / max(self.people, 1.0)

    def measurements(self, axes: Axes) -> tuple[Measurement, ...]:
        pooled: dict[tuple[Axes, int], Floats] = {}
        found = []
        for number, question in enumerate(self.questions):
            own = tuple(axis + self.public for axis in question.axes)
            inside = tuple(axis for axis in own if axis in axes)
            if not inside or (question.groups is not None and inside != own):
                continue
            counts = self._counts(number, inside, axes)
            if question.groups is None:
                key = (inside, question.answers)
                pooled[key] = pooled[key] + counts if key in pooled else counts
            else:
                found.append(
                    self._measured(axes, inside, question.answers, counts, question.groups)
                )
        for (inside, answers), counts in pooled.items():
            found.append(self._measured(axes, inside, answers, counts))
        return tuple(found)

    def _measured(
        self,
        axes: Axes,
        inside: Axes,
        answers: int,
        counts: Floats,
        groups: Sequence[int] | None = None,
    ) -> Measurement:
        """Counts of answers about some of the axes, as a measurement of their positions."""
        cells = math.prod(self.shape[axis] for axis in inside)
        shown = tuple(axis for axis in axes if axis < self.public)
        total = self.gamma + answers - 1
        return Measurement.answered(
            tuple(axes.index(axis) for axis in (*shown, *inside)),
            counts,
            gain=(self.gamma - 1) / total,
            base=(1.0 if groups is not None else answers / cells) / total,
            groups=groups,
            public=math.prod(self.shape[axis] for axis in shown),
        )

    def _counts(self, number: int, inside: Axes, axes: Axes) -> Floats:
        """The counts of a question's answers, summed to the axes that are asked about."""
        shown = tuple(axis for axis in axes if axis < self.public)
        key = (number, (*shown, *inside))
        if key not in self._kept:
            question = self.questions[number]
            rest = tuple(axis for axis in range(self.public) if axis not in shown)
            counts = self.counts[..., number, : question.answers].sum(axis=rest)
            if question.groups is None:
                sizes = [self.shape[axis + self.public] for axis in question.axes]
                counts = counts.reshape(*counts.shape[:-1], *sizes)
                gone = tuple(
                    len(shown) + place
                    for place, axis in enumerate(question.axes)
                    if axis + self.public not in inside
                )
                counts = counts.sum(axis=gone)
            self._kept[key] = counts
        return self._kept[key]


@dataclass(frozen=True, eq=False)
class Tallies:
    """Reports of which every marginal is counted and undone through a channel of its own:
    retention, gamma-diagonal, any matrix, flipped bits.

    Where each report is counted once by the very cells that are asked about, the measurement is
    the tally itself; else it is the reconstruction and its covariance.
    """

    mechanism: Mechanism
    columns: tuple[Cells, ...]  # public first
    public: int
    people: float
    ordered: tuple[bool, ...]
    count: Callable[[Tally], Floats]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.size for part in self.columns)

    def held(self, axes: Axes) -> bool:
        return True

    def masses(self, axes: Axes) -> Floats:
        if not axes:
            return np.ones(1)
        cells = tuple(self.columns[axis] for axis in axes)
        return np.asarray(self.count(CellTally(cells))).ravel() / max(self.people, 1.0)

    def measurements(self, axes: Axes) -> tuple[Measurement | Reconstruction, ...]:
        cells = tuple(self.columns[axis] for axis in axes)
        every = tuple(range(len(axes)))
        if all(axis < self.public for axis in axes):
            return ()
        seen = self.mechanism.observe(cells)
        tally = np.asarray(self.count(seen.tally))
        plain = isinstance(seen.tally, CellTally) and not seen.channel.repeats
        if plain and _same(seen.cells, cells):
            return (Measurement.counted(every, seen.channel.settle(tally), tally),)
        if math.prod(part.size for part in cells) > RECONSTRUCTED:
            raise Unanswerable(
                f"these columns have {math.prod(part.size for part in cells):,} cells, and the "
                f"errors of at most {RECONSTRUCTED:,} are reconstructed together",
                hint="ask about fewer columns at once, or coarser cells",
            )
        estimate = Estimate(cells, round(self.people), evidence_of(seen, tally, cells))
        return (Reconstruction.of(every, estimate),)


def _same(seen: Sequence[Cells], asked: Sequence[Cells]) -> bool:
    return len(seen) == len(asked) and all(
        first.key == second.key for first, second in zip(seen, asked, strict=True)
    )
