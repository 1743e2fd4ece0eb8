"""Reports: what was observed of the records, and what that says of any few columns alone: as
measurements for a model, and as the errors that are left without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import ClassVar, Protocol

import numpy as np

from sfumato.channels import Channel
from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.channels.linear import Response
from sfumato.channels.questionnaire_channel import Question, Questions, System, pools_of
from sfumato.domain import Cells
from sfumato.errors import Unanswerable
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import CountEvidence, Evidence, evidence_of
from sfumato.estimation.likelihood import clip_and_scale
from sfumato.mechanisms.base import Mechanism
from sfumato.memory import remembered
from sfumato.model.margins import margin_consistent
from sfumato.model.measurement import Measurement, Measurements, Reconstruction
from sfumato.observation import CellTally, Observation, Tally

RECONSTRUCTED = 1024  # cells whose covariance is written down
SAID = 64  # sets of axes of which what was said is remembered


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

    @property
    def together(self) -> bool:
        """Whether all axes are measured at once, so that one law of them can be fitted."""

    def held(self, axes: Axes) -> bool:
        """Whether single reports speak of all these private axes at once."""

    def masses(self, axes: Axes) -> Floats:
        """The known shares of the cells of some public axes; (1,) for none."""

    def measurements(self, axes: Axes) -> tuple[Measurement | Reconstruction, ...]:
        """All that the reports say of these axes (ascending) alone: measurements of positions
        within `axes`, whose likelihood is that of the reports.
        """

    def tally(self, asked: Tally, axes: Axes) -> Floats | None:
        """What was counted of the reports for a question about these axes (ascending), where the
        release would answer it; None where it would not.
        """

    def unbiased(self, axes: Axes) -> Floats | None:  # (cells, cells)
        """The covariance of unbiased shares of the cells of these axes (ascending), the people held
        fixed, where all reports together say more of them than `measurements`; None where not.
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
    together: ClassVar[bool] = True

    @cached_property
    def people(self) -> float:
        return float(self.counts.sum())

    def held(self, axes: Axes) -> bool:
        own = {axis - self.public for axis in axes if axis >= self.public}
        return any(own <= question.held for question in self.questions)

    def masses(self, axes: Axes) -> Floats:
        rest = tuple(axis for axis in range(self.public) if axis not in axes)
        shown = self.counts.sum(axis=(-2, -1)).sum(axis=rest)
        return np.atleast_1d(shown).ravel() / max(self.people, 1.0)

    @remembered(SAID)  # a law and its errors ask one after the other
    def measurements(self, axes: Axes) -> tuple[Measurement | Reconstruction, ...]:
        """What questions say of these axes. Folded ones that hold others too say nothing of them
        alone, and much by least squares over all questions: where that is known, it is all.
        """
        wanted = sum(1 << axis - self.public for axis in axes if axis >= self.public)
        beyond = any(
            question.map is not None and question.bits & wanted not in (0, question.bits)
            for question in self.questions
        )
        every = self._reconstructed(axes) if beyond else None
        return self._answered(axes) if every is None else (every,)

    def _answered(self, axes: Axes) -> tuple[Measurement, ...]:
        """The answers to questions about these axes, those together that say the same."""
        shown = tuple(axis for axis in axes if axis < self.public)
        own = tuple(axis - self.public for axis in axes if axis >= self.public)
        found = []
        for pool, numbers in pools_of(self.questions, own).items():
            inside = tuple(axis + self.public for axis in pool.axes)
            cells = math.prod(self.shape[axis] for axis in inside)
            counts = np.sum([self._counts(number, inside, shown) for number in numbers], axis=0)
            response = Response.kary(self.gamma, pool.answers, cells, pool.map)
            places = tuple(axes.index(axis) for axis in (*shown, *inside))
            found.append(Measurement.answered(places, counts, response))
        return tuple(found)

    def _reconstructed(self, axes: Axes) -> Reconstruction | None:
        """The shares of the cells of these axes by least squares over all questions."""
        fixed = self.unbiased(axes)
        if fixed is None:
            return None
        counts = self._least_squares(axes).estimated.ravel()
        share = clip_and_scale(counts, 1.0)
        chance = (np.diag(share) - np.outer(share, share)) / self.people
        every = tuple(range(len(axes)))
        return Reconstruction(every, counts / self.people, fixed + chance, self.people)

    @cached_property
    def _all_people(self) -> Floats:  # (questions, answers)
        return np.asarray(self.counts.sum(axis=tuple(range(self.public))))

    @cached_property
    def _system(self) -> System:
        return System(self.shape[self.public :], self.questions, self.gamma)

    @remembered()
    def unbiased(self, axes: Axes) -> Floats | None:
        """By generalised least squares over all questions, as the release itself answers: folded
        ones that hold more than these axes speak there too. Beside public columns it would be
        solved within each of their cells, for every question anew: minutes of mining.
        """
        cells = math.prod(self.shape[axis] for axis in axes)
        if axes[0] < self.public or cells > RECONSTRUCTED or not self.held(axes):
            return None
        try:
            return self._least_squares(axes).cell_covariance(np.arange(cells)) / self.people**2
        except Unanswerable:  # too few people were asked
            return None

    def tally(self, asked: Tally, axes: Axes) -> Floats | None:
        rest = tuple(axis for axis in range(self.public) if axis not in axes)
        counts = self.counts.sum(axis=rest)
        return counts if axes[-1] >= self.public else counts.sum(axis=(-2, -1))

    @remembered(1)  # first the counts are asked for, then their errors
    def _least_squares(self, axes: Axes) -> CountEvidence:
        own = tuple(axis - self.public for axis in axes)
        sizes = tuple(self.shape[axis] for axis in axes)
        every = np.arange(math.prod(sizes))
        channel = Questions(self._system.about(own), own, every, sizes)
        return CountEvidence(self._all_people, channel)

    @remembered()
    def _counts(self, number: int, inside: Axes, shown: Axes) -> Floats:
        """The counts of a question's answers, summed to the axes that are asked about, by those
        public cells that are.
        """
        question = self.questions[number]
        rest = tuple(axis for axis in range(self.public) if axis not in shown)
        counts = self.counts[..., number, : question.answers].sum(axis=rest)
        if question.map is not None:
            return counts
        sizes = [self.shape[axis + self.public] for axis in question.columns]
        counts = counts.reshape(*counts.shape[:-1], *sizes)
        gone = tuple(
            len(shown) + place
            for place, axis in enumerate(question.columns)
            if axis + self.public not in inside
        )
        return counts.sum(axis=gone)


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

    @cached_property
    def together(self) -> bool:
        few = math.prod(self.shape) <= RECONSTRUCTED
        return few or _is_plain(self.mechanism.observe(self.columns), self.columns)

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
        plain = _is_plain(seen, cells)
        if not plain and math.prod(part.size for part in cells) > RECONSTRUCTED:
            raise Unanswerable(
                f"these columns have {math.prod(part.size for part in cells):,} cells, and the "
                f"errors of at most {RECONSTRUCTED:,} are reconstructed together",
                hint="ask about fewer columns at once, or coarser cells",
            )
        tally = np.asarray(self.count(seen.tally))
        if plain:
            return (Measurement.counted(every, seen.channel.settle(tally), tally),)
        people = round(self.people)
        seen = replace(seen, channel=margin_consistent(seen.channel))
        found = Estimate(cells, people, evidence_of(seen, tally, cells))
        usual = Estimate(cells, people, usual_evidence(seen, tally, cells))
        return (Reconstruction.of(every, found, usual),)

    def tally(self, asked: Tally, axes: Axes) -> Floats | None:
        return np.asarray(self.count(asked))

    def unbiased(self, axes: Axes) -> Floats | None:
        return None  # the measurement of any axes is all that the reports say of them


def unbiased_factors(
    reports: Reports, axes: Axes, share: Floats
) -> Floats:  # (cells,) -> (cells, n)
    """Columns whose products are the covariances of shares that reports alone leave to the cells of
    some axes (ascending), at a law of these shares: the inverse information, all laws being as
    likely.

    The mean of a feature that nothing was reported of is as open as features are: their mean square
    is 1. Where the cells are too many, each is left as open as a share can be.
    """
    if len(share) > RECONSTRUCTED:
        return np.full((len(share), 1), 0.5)
    unbiased = reports.unbiased(axes)
    if unbiased is not None:
        chance = (np.diag(share) - np.outer(share, share)) / reports.people
        values, vectors = np.linalg.eigh(unbiased + chance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
    shape = tuple(reports.shape[axis] for axis in axes)
    every = Interactions.up_to(shape, tuple(reports.ordered[axis] for axis in axes), len(axes))
    known = np.eye(every.size) + _information(every, reports.measurements(axes), share)
    features = every.features(tuple(range(len(axes)))).matrix
    rows = np.linalg.solve(np.linalg.cholesky(known), features.T)
    return np.asarray(rows.T / len(share))


def _information(
    every: Interactions, measurements: Sequence[Measurement | Reconstruction], share: Floats
) -> Floats:  # (size, size)
    """What measurements say of the means of all features."""
    result = np.zeros((every.size, every.size))
    parts = Measurements.of(every, measurements)
    if parts:
        own = parts.interactions
        places = np.concatenate([every.places(part) for part in own.sets])
        weights = parts.weights(own.means(share[:, None])[:, 0])
        result[np.ix_(places, places)] = parts.information(weights, np.eye(own.size))
    return result


def _is_plain(seen: Observation, cells: Sequence[Cells]) -> bool:
    """Whether each report is counted once, by these very cells."""
    once = isinstance(seen.tally, CellTally) and not seen.channel.repeats
    return once and _same(seen.cells, cells)


def _same(seen: Sequence[Cells], asked: Sequence[Cells]) -> bool:
    return len(seen) == len(asked) and all(
        first.key == second.key for first, second in zip(seen, asked, strict=True)
    )


def usual_evidence(seen: Observation, counts: Floats, cells: Sequence[Cells]) -> Evidence:
    """The evidence of a tally that is to be expected where such counts were found: for its errors.
    Channels with a way of their own are judged by the counts themselves.
    """
    if seen.channel.way_back != Channel.way_back:
        return evidence_of(seen, counts, cells)
    return evidence_of(seen, expected_tally(counts, seen.channel), cells)


def expected_tally(counts: Floats, channel: Channel) -> Floats:
    """The tally to be expected where people are as likely spread as these counts make them: its
    errors are those of some law, which those of counts below 0 are not.
    """
    evidence = CountEvidence(counts, channel)
    chance = float(np.mean(evidence.cell_variances + np.maximum(evidence.estimated, 0.0)))
    return np.asarray(channel.settle(counts).apply(smoothed(evidence.estimated, chance)))


def smoothed(counts: Floats, variance: float) -> Floats:
    """Counts drawn towards those of columns that have nothing to do with one another, as far as
    chance alone explains how they differ (James–Stein); none below 0, everyone in all.

    >>> smoothed(np.array([[30.0, 10.0], [-2.0, 22.0]]), 1e9).round(1)
    array([[18.7, 21.3],
           [ 9.3, 10.7]])
    """
    people, every = counts.sum(), range(counts.ndim)
    alone = [counts.sum(axis=tuple(a for a in every if a != axis)) for axis in every]
    apart = reduce(np.multiply.outer, [clip_and_scale(margin, 1.0) for margin in alone]) * people
    beyond = float(np.mean((counts - apart) ** 2))
    part = max(0.0, 1 - variance / beyond) if beyond else 0.0
    return clip_and_scale(part * counts + (1 - part) * apart, float(people))
