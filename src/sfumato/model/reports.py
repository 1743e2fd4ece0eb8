"""Reports: what people answered to the questions of a questionnaire, and what that says of any few
columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sfumato.channels.contrasts import Axes, Floats
from sfumato.model.measurement import Measurement


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
    def people(self) -> int:
        """How many people reported."""

    @property
    def largest(self) -> int:
        """The most private axes that one report says something of at once."""

    def masses(self, axes: Axes) -> Floats:
        """The known shares of the cells of some public axes; (1,) for none."""

    def measurements(self, axes: Axes) -> tuple[Measurement, ...]:
        """All that the reports say of these axes alone: measurements of positions within `axes`,
        whose likelihood is that of the reports.
        """


@dataclass(frozen=True, eq=False)
class Asked:
    """One question: the private axes it is about and the public map from their cells to answers."""

    axes: Axes
    answers: int
    groups: tuple[int, ...] | None = None  # cell -> answer; None: each cell is its own answer


@dataclass(frozen=True, eq=False)
class Answers:
    """The counts of a questionnaire's answers, which are all that its reports say.

    A question about q says of the axes A what its answers, summed to q ∩ A, say: the gain stays and
    the base is multiplied by the cells that were summed. This needs each cell to be an answer; a
    folded question speaks only where all of its columns are asked.
    """

    shape: tuple[int, ...]
    ordered: tuple[bool, ...]
    public: int
    gamma: float
    questions: tuple[Asked, ...]
    counts: tuple[Floats, ...]  # (public cells…, answers) each
    _kept: dict[tuple[int, Axes], Floats] = field(default_factory=dict, init=False, repr=False)

    @property
    def people(self) -> int:
        return round(sum(float(counts.sum()) for counts in self.counts))

    @property
    def largest(self) -> int:
        return max(len(question.axes) for question in self.questions)

    def masses(self, axes: Axes) -> Floats:
        total = sum(counts.sum(axis=-1) for counts in self.counts)
        rest = tuple(axis for axis in range(self.public) if axis not in axes)
        summed = np.asarray(total).sum(axis=rest)
        return np.atleast_1d(summed).ravel() / max(self.people, 1)

    def measurements(self, axes: Axes) -> tuple[Measurement, ...]:
        pooled: dict[tuple[Axes, int], Floats] = {}
        found = []
        for number, question in enumerate(self.questions):
            inside = tuple(axis for axis in question.axes if axis in axes)
            if not inside:
                continue
            if question.groups is None:
                key = (inside, question.answers)
                counts = self._projected(number, inside, axes)
                pooled[key] = pooled[key] + counts if key in pooled else counts
            elif inside == question.axes:
                found.append(self._measurement(axes, inside, question, self._of(number, axes)))
        for (inside, answers), counts in pooled.items():
            found.append(self._measurement(axes, inside, Asked(inside, answers), counts))
        return tuple(found)

    def _measurement(
        self, axes: Axes, inside: Axes, question: Asked, counts: Floats
    ) -> Measurement:
        """Counts of answers about some of the axes, as a measurement of their positions."""
        cells = math.prod(self.shape[axis] for axis in inside)
        merged = 1.0 if question.groups is not None else question.answers / cells
        shown = tuple(axis for axis in axes if axis < self.public)
        places = tuple(axes.index(axis) for axis in (*shown, *inside))
        total = self.gamma + question.answers - 1
        return Measurement.answered(
            places,
            counts,
            gain=(self.gamma - 1) / total,
            base=merged / total,
            groups=question.groups,
            public=math.prod(self.shape[axis] for axis in shown),
        )

    def _of(self, number: int, axes: Axes) -> Floats:
        """The counts of a question's answers, public axes that are not asked summed over."""
        rest = tuple(axis for axis in range(self.public) if axis not in axes)
        return self.counts[number].sum(axis=rest)

    def _projected(self, number: int, inside: Axes, axes: Axes) -> Floats:
        shown = tuple(axis for axis in axes if axis < self.public)
        key = (number, (*shown, *inside))
        if key not in self._kept:
            question, counts = self.questions[number], self._of(number, axes)
            sizes = [self.shape[axis] for axis in question.axes]
            table = counts.reshape(*counts.shape[:-1], *sizes)
            rest = tuple(
                len(shown) + place for place, axis in enumerate(question.axes) if axis not in inside
            )
            self._kept[key] = np.asarray(table.sum(axis=rest), dtype=np.float64)
        return self._kept[key]
