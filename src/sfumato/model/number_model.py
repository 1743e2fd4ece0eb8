"""Numbers: the law of several numbers, and words beside them, behind reports about one or two of
them, so that any ranges can be counted.

The law of the cells is log-linear like any other; within a cell each number is spread as its own
reports show it, whatever the others are. Words have a cell each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.channels.linear import Response
from sfumato.channels.questionnaire_channel import Question
from sfumato.channels.window import Windowed
from sfumato.domain import Attribute, Cells, Domain, Numeric
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.smooth import SmoothEvidence
from sfumato.mechanisms.ranges import cells_from, joined_starts
from sfumato.memory import Recent
from sfumato.model.laplace import ORDER, TRIALS
from sfumato.model.measurement import Measurement, Reconstruction
from sfumato.model.model import LOCAL_CELLS, Model
from sfumato.model.model_evidence import LawEvidence, log_error
from sfumato.observation import Tally

FAINT = 1e-9  # the share of a cell below which nothing is known of where its people are
MOST_WORK = 1 << 34  # cells × coefficients² up to which one law of all numbers is fitted
OPEN = 0.5  # the largest error of a part
DOUBT = 1.0  # of what the cells beside tell of where people lie within a cell, as its error
WITHIN = "numbers that are independent within the cells asked about"
REMEMBERED = 64  # ranges of one number of which what was found is kept


@dataclass(frozen=True, eq=False)
class NumberReports:
    """The counts of answers about one column and about two, which are all that the reports say."""

    mechanism: Any  # one that asks about pairs of columns, such as ranges
    counts: Floats  # (questions, answers)
    together: ClassVar[bool] = True

    @cached_property
    def asked(self) -> tuple[Attribute, ...]:
        """The columns that are asked about."""
        return tuple(self.mechanism.domain.private)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.mechanism.cells

    @property
    def ordered(self) -> tuple[bool, ...]:
        return tuple(isinstance(column, Numeric) for column in self.asked)

    @property
    def public(self) -> int:
        return 0

    @property
    def people(self) -> float:
        return float(self.counts.sum())

    def held(self, axes: Axes) -> bool:
        return len(axes) <= 2

    def masses(self, axes: Axes) -> Floats:
        return np.ones(1)

    @cached_property
    def columns(self) -> tuple[Cells, ...]:
        """The cells of each column that two are asked about."""
        return tuple(
            cells_from(column, starts) if isinstance(column, Numeric) else column.cells()
            for column, starts in zip(self.asked, self.mechanism.starts, strict=True)
        )

    def alone(self, cells: Cells) -> tuple[Floats, Floats]:
        """The shares of the cells of one number by the answers about it alone, and their
        covariance, the people being a sample.
        """
        channel = self.mechanism.observe_private((cells,)).channel
        assert isinstance(channel, Windowed)
        evidence = SmoothEvidence(self.counts, channel)
        shares = evidence.estimated / self.people
        spread = evidence.covariance_matrix(np.eye(cells.size)) / self.people**2
        kept = np.maximum(shares, 0.0)
        return shares, spread + (np.diag(kept) - np.outer(kept, kept)) / self.people

    @cached_property
    def _singles(self) -> tuple[Measurement | Reconstruction, ...]:
        """What the answers about each column alone say of its cells."""
        return tuple(map(self._single, range(len(self.columns))))

    def _single(self, axis: int) -> Measurement | Reconstruction:
        if self.ordered[axis]:
            return Reconstruction((axis,), *self.alone(self.columns[axis]), self.people)
        words = self.shape[axis]
        response = Response.kary(float(self.mechanism.gamma), words, words)
        return Measurement.answered((axis,), self.counts[axis, :words], response)

    def measurements(self, axes: Axes) -> tuple[Measurement | Reconstruction, ...]:
        found = [replace(self._singles[axis], axes=(place,)) for place, axis in enumerate(axes)]
        first = len(self.asked)
        for question, counts in zip(self.mechanism.pairs, self.counts[first:], strict=True):
            inside = tuple(axis for axis in question.columns if axis in axes)
            if inside and (question.map is None or len(inside) == 2):
                places = tuple(axes.index(axis) for axis in inside)
                summed, response = self._answered(question, counts[: question.answers], inside)
                found.append(Measurement.answered(places, summed, response))
        return tuple(found)

    def tally(self, asked: Tally, axes: Axes) -> Floats | None:
        return None  # a law alone says where numbers lie within cells

    def unbiased(self, axes: Axes) -> Floats | None:
        return None  # the measurements of any numbers are all that the reports say of them

    def _answered(
        self, question: Question, counts: Floats, inside: Axes
    ) -> tuple[Floats, Response]:
        """The counts of answers about two columns, summed to those that are asked about."""
        gamma, groups = float(self.mechanism.gamma), question.map
        if len(inside) == 1:
            table = counts.reshape([self.shape[axis] for axis in question.columns])
            counts = table.sum(axis=1 - question.columns.index(inside[0]))
        return counts, Response.kary(gamma, question.answers, len(counts), groups)


@dataclass(frozen=True, eq=False)
class WithinCells:
    """How the people of each cell of a column are spread over the cells of a question."""

    inside: Floats  # (asked cells, cells): each column sums to 1
    slant: Floats  # (asked cells, cells): what a density adds that rises by 1 over the cell
    roots: Floats  # (asked cells, cells, n): columns whose products are their covariances

    @classmethod
    def of_words(cls, part: Cells) -> WithinCells:
        """Whole cells: each word is one."""
        inside = np.zeros((part.size, part.attribute.size))
        codes = np.arange(part.attribute.size)
        inside[part.assign(codes).astype(np.intp), codes] = 1.0
        return cls(inside, np.zeros_like(inside), np.zeros((*inside.shape, 1)))

    def slanted(self, shares: Floats) -> Floats:  # (cells,) -> (asked cells, cells)
        """Which part of each cell's people lies in each asked cell where their density follows that
        of the cells beside: it rises over a cell of share p_i, relative to that of the number
        alone, by p_i·(r_{i+1} − r_{i−1}) / (m_{i+1} − m_{i−1}), r_i being the people / p_i and m_i
        the share of people below the middle of the cell.
        """
        known = np.maximum(shares, FAINT)
        middles, places = np.cumsum(known) - known / 2, np.arange(len(known))
        after, before = np.minimum(places + 1, places[-1]), np.maximum(places - 1, 0)
        every = np.eye(len(known)) / known
        rises = (every[after] - every[before]) * (known / (middles[after] - middles[before]))[
            :, None
        ]
        return np.asarray(self.inside + (self.slant * known) @ rises)


@dataclass(frozen=True, eq=False)
class Slanted:
    """A table over cells as one over asked cells, the people of each cell lying as those of the
    cells beside make likely; as far as no asked cell has less than nobody.
    """

    even: tuple[Floats, ...]  # (asked cells, cells) each: as the numbers are spread alone
    slanted: tuple[Floats, ...]
    part: float  # of the way from the one to the other
    slant: Floats  # what all of the way would add to the asked cells of the law

    @classmethod
    def of(cls, law: Floats, parts: Sequence[WithinCells]) -> Slanted:
        """For the parts of each axis of a law."""
        axes = range(law.ndim)
        alone = [law.sum(axis=tuple(a for a in axes if a != axis)) for axis in axes]
        even = tuple(part.inside for part in parts)
        slanted = tuple(part.slanted(own) for part, own in zip(parts, alone, strict=True))
        flat = _within(law, even)
        added = _within(law, slanted) - flat
        less = added < -FAINT
        part = min(1.0, float((-flat[less] / added[less]).min(initial=1.0)))
        return cls(even, slanted, part, added)

    def of_table(self, table: Floats) -> Floats:
        """A table over cells, and what else, over the asked cells."""
        flat = _within(table, self.even)
        return flat + self.part * (_within(table, self.slanted) - flat)


@dataclass(frozen=True, eq=False)
class NumberModel(Model):
    """The law of several columns: that of their cells, and within a cell each number's own."""

    why_left_out: ClassVar[str] = "public, and not asked about"
    left_out_answers: ClassVar[str] = (
        "the release about one number by public columns: a model joins what is not public"
    )
    prior_scale: ClassVar[float] = 4.0
    unheld_scale: ClassVar[float] = 0.5
    reports: NumberReports
    _placed: Recent[WithinCells] = field(
        default_factory=lambda: Recent(REMEMBERED), init=False, repr=False
    )
    _counted: Recent[Estimate] = field(
        default_factory=lambda: Recent(REMEMBERED), init=False, repr=False
    )

    @classmethod
    def of(
        cls,
        reports: NumberReports,
        fitted_to: dict[str, Any],
        known: Any = None,
        joined: Any = None,
    ) -> Model:
        """The model of what was counted."""
        return cls(reports.mechanism, reports.columns, reports, 2, fitted_to, known, joined)

    @cached_property
    def dense(self) -> bool:
        """Whether one law of all numbers is fitted: its errors are those of a law of order three,
        which costs far more than the law itself.
        """
        return super().dense and self._pays(tuple(range(len(self.columns))))

    def reaches(self, axes: Axes) -> bool:
        cells = math.prod(self.reports.shape[axis] for axis in axes)
        return cells <= LOCAL_CELLS and self._pays(axes)

    def _pays(self, axes: Axes) -> bool:
        """Whether a law of these axes, of order three for its errors, is not too much work."""
        shape = tuple(self.reports.shape[axis] for axis in axes)
        ordered = tuple(self.reports.ordered[axis] for axis in axes)
        size = Interactions.up_to(shape, ordered, ORDER).size
        return math.prod(shape) * size**2 <= MOST_WORK

    @property
    def domain(self) -> Domain:
        return self.mechanism.domain  # numbers stay numbers: any ranges can be counted

    def cells(self, name: str) -> Cells:
        return self.columns[self._axes[name]] if name in self._axes else super().cells(name)

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        return [self._estimate(cells) for cells in questions]

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        if len(cells) > 1:
            return self._found(cells)
        return self._counted.get(cells[0].key, lambda: self._found(cells))

    def _found(self, cells: tuple[Cells, ...]) -> Estimate:
        places = [self._axis(part) for part in cells]
        axes = tuple(sorted(places))
        shape = tuple(self.reports.shape[axis] for axis in axes)
        found, order = self.marginal_of(axes), [axes.index(place) for place in places]
        law = found.share.reshape(shape).transpose(order)
        seen = self._unbiased(axes, found)
        rows = np.concatenate([found.spread.T, seen], axis=1)
        spread = rows.reshape(*shape, -1).transpose(*order, len(order))
        parts = [self._parts(axis, part) for axis, part in zip(places, cells, strict=True)]
        known = spread.shape[-1] - TRIALS - seen.shape[1]
        slanted = Slanted.of(law, parts)
        moved, bends, alone = np.split(slanted.of_table(spread), [known, known + TRIALS], axis=-1)
        doubt = [DOUBT * slanted.slant[..., None], *_together(law, parts)]
        columns = [
            moved,
            *LawOfCells(law, spread, seen.shape[1], self.rows).own(parts),
            *doubt,
            bends,
            alone,
        ]
        evidence = LawEvidence(
            slanted.of_table(law[..., None])[..., 0] * self.rows,
            np.concatenate(columns, axis=-1) * self.rows,
            self.supposed(axes),
            TRIALS,
            seen.shape[1],
        )
        most = self._most(cells, evidence)
        return Estimate(cells, self.rows, replace(evidence, most=most))

    def _most(self, cells: tuple[Cells, ...], found: LawEvidence) -> Floats | None:
        """The largest error of each asked cell by what is known of some of its numbers: of one by
        the reports about it alone, of several by each two of them, of two by either one.
        """
        if len(cells) == 1:
            return self._by_waves(cells[0], found.counts)
        most = np.full(found.counts.shape, np.inf)
        for part in combinations(range(len(cells)), min(len(cells) - 1, 2)):
            fewer = self._estimate(tuple(cells[place] for place in part))
            most = np.minimum(most, _by_fewer(found, fewer, part))
        return most

    def _by_waves(self, part: Cells, counts: Floats) -> Floats | None:  # (cells,) -> (cells,)
        """How far the shares of one number's cells are from these counts by the reports about it
        alone, no share being below nobody.
        """
        if not isinstance(part.attribute, Numeric):
            return None
        shares, covariance = self.reports.alone(part)
        mean, spread = _above_nobody(shares, np.sqrt(np.maximum(np.diag(covariance), 0.0)))
        return np.asarray(np.hypot(spread, mean - counts / self.rows) * self.rows)

    def supposed(self, axes: Axes) -> str | None:
        found = super().supposed(axes)
        if len(axes) < 2 or not any(self.reports.ordered[axis] for axis in axes):
            return found
        return WITHIN if found is None else f"{WITHIN}; {found}"

    def _parts(self, axis: int, part: Cells) -> WithinCells:
        """Which part of each cell's people lies in each asked cell, and how sure that is."""
        return self._placed.get(part.key, lambda: self._place(axis, part))

    def _place(self, axis: int, part: Cells) -> WithinCells:
        number, starts = self.reports.asked[axis], self.reports.mechanism.starts[axis]
        if not isinstance(number, Numeric):
            return WithinCells.of_words(part)
        firsts = joined_starts(part, starts)
        asked = part.assign(firsts).astype(np.intp)
        cell = np.searchsorted(starts, firsts, side="right") - 1
        labels = tuple(map(str, range(len(firsts))))
        runs = Cells(number, labels, np.arange(len(firsts)), firsts)
        shares, covariance = self.reports.alone(runs)
        lengths = np.diff([*firsts.tolist(), number.size]).astype(np.float64)
        known = self.marginal_of((axis,)).share
        return _spread_out(part.size, asked, cell, (shares, covariance, lengths), known)


def _spread_out(
    size: int,
    asked: NDArray[np.intp],
    cell: NDArray[np.intp],
    runs: tuple[Floats, Floats, Floats],
    known: Floats,
) -> WithinCells:
    """The parts of runs of numbers, each in one asked cell and one cell, from their shares by the
    reports about the number alone, their covariance and their lengths, once the cells have the
    shares that are known from all reports: what these change is put where the runs are least sure,
    and what is left open then is the error of a part; none is open by more than half.
    """
    shares, covariance, lengths = runs
    sums = np.equal.outer(np.arange(len(known)), cell).astype(np.float64)  # (cells, runs)
    gain = covariance @ sums.T @ np.linalg.pinv(sums @ covariance @ sums.T, 1e-9, hermitian=True)
    kept = np.maximum(shares + gain @ (known - sums @ shares), 0.0)
    total, even = (sums @ kept)[cell], lengths / (sums @ lengths)[cell]
    part = np.where(total > FAINT, kept / np.maximum(total, FAINT), even)
    values, vectors = np.linalg.eigh(covariance - gain @ sums @ covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) / np.maximum(known, FAINT)[cell, None]
    most = np.array([_length(root[cell == place]).max() for place in range(len(known))])
    root *= np.minimum(1.0, OPEN / np.maximum(most, FAINT))[cell, None]
    found = [np.zeros((size, len(known), *rest)) for rest in ((), (), (len(cell),))]
    for table, added in zip(found, (part, _slant(part, cell), root), strict=True):
        np.add.at(table, (asked, cell), added)
    return WithinCells(*found)


def _above_nobody(mean: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of normal laws once they are known to be above 0."""
    from scipy.special import erfcx

    scale = np.maximum(error, FAINT)
    low = -mean / scale
    hazard = np.sqrt(2 / np.pi) / erfcx(low / np.sqrt(2))
    return mean + scale * hazard, scale * np.sqrt(np.maximum(1 + low * hazard - hazard**2, 0.0))


def _by_fewer(found: LawEvidence, fewer: Estimate, part: Sequence[int]) -> Floats:
    """The largest error of each asked cell as a part c of the s people within its ranges of fewer
    numbers: V(c·s) = c²·V(s) + (s² + V(s))·V(c). What is open of s is open of the cell by as much
    relative to its size; only what moves c is its own, and who those people are. Where the law sees
    nobody, one person who is like everyone says what c is.
    """
    rest = tuple(axis for axis in range(found.counts.ndim) if axis not in part)
    slopes = found.spread[..., : found.spread.shape[-1] - found.bends - found.unbiased]
    alone = found.counts.sum(axis=tuple(part), keepdims=True) / found.counts.sum()
    people = found.counts.sum(axis=rest, keepdims=True) + 1.0
    # A few below nobody, where the mean is put right, and others would be more than all.
    share = np.clip((found.counts + alone) / people, 0.0, 1.0)
    moved = slopes - share[..., None] * slopes.sum(axis=rest, keepdims=True)
    chance = share * (1 - share) / people
    doubt = _doubt_of_part(share, np.hypot(_length(moved) / people, np.sqrt(chance)))
    size, variance = (np.expand_dims(t, rest) for t in (fewer.value, fewer.stderr**2))
    return np.asarray(np.sqrt(share**2 * variance + (size**2 + variance) * doubt))


def _doubt_of_part(part: Floats, error: Floats) -> Floats:
    """The variance of a part of people: by its slopes, or as far as its logarithm reaches, and no
    more than if nothing at all were known.
    """
    far = log_error(part, error / np.maximum(part, FAINT))
    return np.asarray(np.minimum(np.maximum(error, far) ** 2, 1 / 3 - part + part**2))


def _length(rows: Floats) -> Floats:  # (..., n) -> (...)
    return np.asarray(np.sqrt((rows**2).sum(axis=-1)))


def _slant(part: Floats, cell: NDArray[np.intp]) -> Floats:
    """∫ (u − 1/2) du over each run, u being the part of its cell's people who lie below."""
    end = np.where(np.equal.outer(cell, cell), np.tri(len(part)), 0.0) @ part
    return np.asarray(part * (2 * end - part - 1) / 2)


def _within(table: Floats, inside: Sequence[Floats]) -> Floats:
    """A table over cells, and what else, as one over the asked cells."""
    for axis, part in enumerate(inside):
        table = np.moveaxis(np.tensordot(part, table, axes=(1, axis)), 0, axis)
    return table


@dataclass(frozen=True, eq=False)
class LawOfCells:
    """A law over cells, and columns whose products are its covariances, with as many bends and
    unbiased columns as `LawEvidence` has.
    """

    law: Floats  # (*cells)
    spread: Floats  # (*cells, n)
    unbiased: int
    rows: int

    def own(self, parts: Sequence[WithinCells]) -> list[Floats]:  # (*asked cells, n) each
        """How the counts move with what is not known of where each number lies within its cells:
        by the people of the cells, and by those whom the law may not see there. Slopes do not show
        the second, the product of two errors, where nobody seems to be.
        """
        found = []
        for axis, part in enumerate(parts):
            others = [np.eye(self.law.shape[axis]) if p is part else p.inside for p in parts]
            people = _within(self.law[..., None], others)[..., 0]
            counts, spread = people * self.rows, _within(self.spread, others) * self.rows
            seen = LawEvidence(counts, spread, None, TRIALS, self.unbiased)
            for table in (people, np.sqrt(seen.cell_variances) / self.rows):
                moved = np.tensordot(part.roots, table, axes=(1, axis))  # (asked, n, *others)
                found.append(np.moveaxis(np.moveaxis(moved, 1, -1), 0, axis))
        return found


def _together(law: Floats, parts: Sequence[WithinCells]) -> list[Floats]:  # (*asked cells, 1) each
    """How the counts move where of two numbers neither is known within its cells: as the product of
    both errors, which slopes do not show where one of them is nowhere near.
    """
    errors = [_length(part.roots) for part in parts]
    found = []
    for pair in combinations(range(len(parts)), 2):
        tables = [e if axis in pair else parts[axis].inside for axis, e in enumerate(errors)]
        found.append(_within(law[..., None], tables))
    return found
