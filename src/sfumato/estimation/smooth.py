"""Smooth: what reports of a number in windows say of the cells of a question, and of its sums.

The people of every value of the grid (`grid_counts`) are placed in the cells; where a cell ends
between two values, how many of them are on either side is part of the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.window import Cuts, Windowed
from sfumato.domain import Cells, Numeric
from sfumato.errors import EstimationError, Unanswerable
from sfumato.estimation.evidence import Evidence, MergedEvidence, Product, paired
from sfumato.estimation.grid_counts import GridCounts, grid_counts
from sfumato.estimation.grid_law import Floats
from sfumato.estimation.heaping import Heaping, moved_by_rounding

# The standard error of a number that may be anywhere as far away as 1. Evenly it were 0.58; ends of
# ranges are not chosen evenly but where many are, and an interval of 95 % then reaches up to 1.4.
OPEN = 0.7
# Nor are numbers spread evenly that are rounded to less than a grid shows, as to whole thousands:
# the standard error for each such unit, as a part of what it were if everyone rounded to it, so
# that an interval of 95 % reaches just as far.
ROUNDED = 0.5
AT_ITSELF = 0.05  # steps from an end of the grid, within which many people alike are just there
SMOOTH = "a distribution as smooth as the reports show it"
AT_ENDS = "that people near an end of the range are at that end"
ANYWHERE = "that people between numbers that are told apart may be anywhere there"


@dataclass(frozen=True, eq=False)
class SmoothEvidence(Evidence):
    """What windows of a number say about its cells, group by group."""

    counts: NDArray[Any]  # outputs of the channel
    channel: Windowed

    @property
    def whole(self) -> bool:
        """Whether everyone of a group is in one cell: how many they are is known."""
        return len(self.channel.merge) == 1

    @property
    def assumes(self) -> str | None:
        if self.whole:
            return None
        if self.channel.cuts is None or not len(self.channel.cuts.codes):
            return SMOOTH
        noise, open_ = (np.einsum("gkk->gk", each) for each in (self._told, self._open))
        said = {
            AT_ENDS: any((part > 0).any() for part in self._at_ends),
            ANYWHERE: bool((open_ > noise / 4).any()),
        }
        return "; ".join([SMOOTH, *(words for words, holds in said.items() if holds)])

    @property
    def people(self) -> Floats:  # (groups,)
        """Everyone of each group."""
        return self.channel.people(self.counts).astype(np.float64)

    @cached_property
    def tallies(self) -> list[Floats]:  # (reports,) each
        """What each group reported; some of it, unless nobody is there."""
        own = self.channel.own(self.counts)[..., 0].astype(np.float64)
        if ((own.sum(axis=1) == 0) & (self.people > 0)).any():
            raise Unanswerable(
                "nobody in one of these groups of people was asked about this number",
                hint="merge small groups, or ask more people",
            )
        return list(map(np.ascontiguousarray, own))

    @cached_property
    def _truths(self) -> list[tuple[Floats, Floats]]:
        """Mean and covariance over zero, where it has a window of its own, and the grid, for
        everyone of each group.
        """
        pairs = zip(self.tallies, self.people, strict=True)
        if self.channel.shape.zero:
            return [self._beside_zero(tally, people) for tally, people in pairs]
        return [self._everyone(self._grid(tally), people) for tally, people in pairs]

    @cached_property
    def _grids(self) -> list[tuple[Floats, Floats]]:
        """The same of the grid alone."""
        own = slice(int(self.channel.shape.zero), None)
        return [(mean[own], covariance[own, own]) for mean, covariance in self._truths]

    def _grid(self, tally: Floats, more: float = 0.0) -> GridCounts:
        """The law of a tally; beside a zero with a window of its own that of all others, there
        being so many more at zero than there seem to be.
        """
        number, shape = self.channel.number, self.channel.shape
        heapings = () if number is None else Heaping.all_of(number, shape.values)
        if shape.zero:
            asked = float(tally.sum())
            share = 1 - (shape.zeros(tally)[0] + more) / max(asked, 1.0)
            shape, tally = shape.above_zero(min(max(share, 1 / max(asked, 1.0)), 1.0)), tally[:-1]
        return grid_counts(shape, tally.tobytes(), heapings)

    def _everyone(self, grid: GridCounts, people: float) -> tuple[Floats, Floats]:
        asked, values = float(grid.counts.sum()), self.channel.shape.values
        if people == 0 or asked == 0:
            return np.zeros(values), np.zeros((values, values))
        factor = people / asked
        share = np.maximum(grid.mean, 0) / np.maximum(grid.mean, 0).sum()
        drawn = asked * max(1 - asked / people, 0.0) * (np.diag(share) - np.outer(share, share))
        return factor * grid.mean, factor**2 * (grid.covariance + drawn)

    def _beside_zero(self, tally: Floats, people: float) -> tuple[Floats, Floats]:
        """Those at zero are counted without bias. Given how many reports say so, the others are
        independent of that number: their errors are those of their own law, and what it moves with
        those at zero.
        """
        asked, values = float(tally.sum()), self.channel.shape.truths
        if people == 0:
            return np.zeros(values), np.zeros((values, values))
        found, variance = self.channel.shape.zeros(tally)
        factor, error = people / asked, math.sqrt(variance)
        share = min(max(found / asked, 0.0), 1.0)
        drawn = asked * (1 - asked / people) * share * (1 - share)
        above, more = (
            self._everyone(self._grid(tally, each), max(people - factor * (found + each), 0.0))
            for each in (0.0, error)
        )
        moves = np.r_[1.0, (more[0] - above[0]) / max(factor * error, 1e-9)]
        covariance = factor**2 * (variance + drawn) * np.outer(moves, moves)
        covariance[1:, 1:] += above[1]
        return np.r_[factor * found, above[0]], covariance

    @cached_property
    def _at_ends(self) -> list[Floats]:  # (values,) each
        """Of each grid value the part that lies just there, group by group: none but at ends."""
        if self.channel.cuts is None:
            return [np.zeros(len(mean)) for mean, _ in self._grids]
        pairs = zip(self._standing_at_ends, self._alike, strict=True)
        return [standing * alike for standing, alike in pairs]

    @cached_property
    def _standing_at_ends(self) -> list[Floats]:  # (values,) each
        """The same if people of one value are all alike."""
        return [_at_ends(mean, _errors(covariance)) for mean, covariance in self._grids]

    @cached_property
    def _alike(self) -> list[Floats]:  # (values,) each
        """How likely it is that the people of each value are all alike, group by group."""
        nobody = np.zeros(self.channel.shape.values)
        return [self._grid(tally).alike if tally.any() else nobody for tally in self.tallies]

    @cached_property
    def _rounded(self) -> list[dict[Heaping, Floats]]:  # (values,) each
        """Which part of each grid value, where it is not at an end, is at round numbers, group by
        group.
        """
        nobody: dict[Heaping, Floats] = {}
        return [self._grid(tally).rounded if tally.any() else nobody for tally in self.tallies]

    @cached_property
    def merges(self) -> Floats:  # (groups, cells, values)
        """Which part of each grid value lies in each cell, group by group."""
        merge, own = self.channel.merge, int(self.channel.shape.zero)
        if self.channel.cuts is None:
            return np.broadcast_to(merge, (len(self._truths), *merge.shape))
        points = np.zeros_like(merge[:, own:])
        points[self.channel.ends, (0, -1)] = 1
        pairs = zip(self._at_ends, self._rounded, strict=True)
        found = [self._placed(rounded) * (1 - e) + points * e for e, rounded in pairs]
        return np.stack([np.column_stack([merge[:, :own], each]) for each in found])

    def _placed(self, rounded: dict[Heaping, Floats]) -> Floats:  # (cells, values)
        """Which part of each grid value lies in each cell, people at round numbers being there."""
        cuts, part = self.channel.cuts, self.channel.part
        assert cuts is not None and part is not None
        every = np.arange(cuts.values)
        grid = self.channel.merge[:, int(self.channel.shape.zero) :]
        found = grid * (1 - sum(rounded.values(), np.zeros(cuts.values)))
        for heaping, share in rounded.items():
            codes = np.rint(heaping.nearest(cuts.values) * cuts.step).astype(np.int64)
            found[part.assign(codes).astype(np.intp), every] += share
        return found

    @cached_property
    def estimated(self) -> NDArray[Any]:
        if self.whole:
            return self.people.reshape(self.channel.inputs)
        means = np.stack([mean for mean, _ in self._truths])
        return np.einsum("gkv,gv->gk", self.merges, means).reshape(self.channel.inputs)

    @cached_property
    def _told(self) -> NDArray[Any]:  # (groups, cells, cells)
        """The covariance of the cells by that of the grid."""
        pairs = zip(self._truths, self.merges, strict=True)
        return np.stack([merge @ covariance @ merge.T for (_, covariance), merge in pairs])

    @cached_property
    def left_open(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]:
        """How people between values of the grid leave open how many are before each cut: which two
        cuts, and their covariances, (groups, cuts). Those between two cuts within a step of the
        grid are missing at either one.
        """
        cuts = self.channel.cuts
        if cuts is None:
            return []
        away = np.stack([self._away(cuts, group) for group in range(len(self._grids))])
        every = np.arange(len(cuts.codes))
        near = every[:-1][np.diff(cuts.codes) < cuts.step]
        beside = -away[:, near] * away[:, near + 1] / 2
        both = [(near, near + 1, beside), (near + 1, near, beside)]
        return [(every, every, away**2), *both]

    def _away(self, cuts: Cuts, group: int) -> Floats:  # (cuts,)
        """How far the people of a group before each cut may be from as many as stand for it, as a
        standard error: where many may be alike however they lie between the values of the grid,
        elsewhere as they would if they rounded.
        """
        (mean, covariance), part = self._grids[group], self._at_ends[group]
        tally, number = self.tallies[group], self.channel.number
        nobody = np.zeros(len(mean))
        loose = np.maximum(mean, 0) * (1 - part) * (1 - sum(self._rounded[group].values(), nobody))
        lumps = self._grid(tally).lumps if tally.any() else nobody
        alike = cuts.largest(np.maximum(lumps, _roughness(loose)))
        anywhere = OPEN * alike * _farthest(cuts, mean, covariance, part)
        anywhere = np.hypot(anywhere, cuts.largest(self._at_ends_or_not(group)))
        if number is None:
            return anywhere
        moves = moved_by_rounding(number, cuts.values, cuts.codes)
        moved = cuts.between(loose) * np.sqrt((moves**2).sum(axis=0))
        return np.hypot(anywhere, ROUNDED * moved)

    def _at_ends_or_not(self, group: int) -> Floats:  # (values,)
        """The standard error of how many of a group are just at an end, beside what the grid leaves
        open: they may not be alike, and half of those who have one of two values beside it may be
        there, for a smooth law does not fall as steeply as numbers may.
        """
        (mean, _), likely = self._grids[group], self._alike[group]
        there = self._standing_at_ends[group]
        unsure = there * np.sqrt(likely * (1 - likely)) * mean
        beside = np.zeros(len(mean))
        beside[[0, -1]] = np.maximum([mean[1:3].sum(), mean[-3:-1].sum()], 0)
        return np.hypot(unsure, (there > 0) * beside / 2)

    @cached_property
    def _open(self) -> Floats:  # (groups, cells, cells)
        """The covariance of cells between which people move at cuts."""
        cuts, found = self.channel.cuts, np.zeros_like(self._told)
        for first, second, covariances in self.left_open:
            assert cuts is not None
            for left, sign in ((cuts.after, 1), (cuts.before, -1)):
                for right, other in ((cuts.after, 1), (cuts.before, -1)):
                    for table, each in zip(found, sign * other * covariances, strict=True):
                        np.add.at(table, (left[first], right[second]), each)
        return found

    @cached_property
    def _covariances(self) -> NDArray[Any]:  # (groups, cells, cells)
        if self.whole:
            return np.zeros((math.prod(self.channel.groups), 1, 1))
        return np.asarray(self._told + self._open)

    @cached_property
    def cell_variances(self) -> NDArray[Any]:
        return np.stack([np.diag(each) for each in self._covariances]).reshape(self.channel.inputs)

    def covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:
        right = np.einsum("gkl,gln->gkn", self._covariances, self._flat(second), optimize=True)
        return product(np.ones(right[..., 0].shape), self._flat(first), right)

    def _flat(self, weights: NDArray[Any]) -> NDArray[Any]:
        return np.broadcast_to(weights, (*self.channel.inputs, weights.shape[-1])).reshape(
            math.prod(self.channel.groups), len(self.channel.merge), -1
        )


def resolution(evidence: Evidence, number: Numeric) -> float:
    """How far apart the values of a number are that its reports tell apart; 0 where all are."""
    if isinstance(evidence, MergedEvidence):
        return resolution(evidence.fine, number)
    if not isinstance(evidence, SmoothEvidence):
        return 0.0
    own = evidence.channel.number or number
    return (own.size - 1) / (evidence.channel.shape.values - 1) * number.grid_step


@dataclass(frozen=True, eq=False)
class GridSums:
    """Sums of the powers of a number that was reported in windows, over the cells of a question."""

    evidence: SmoothEvidence  # over the groups of people and the whole grid
    asked: SmoothEvidence  # over the groups of people and the cells of the number
    number: Numeric  # whose range the grid spans
    axis: int  # of the number among the cells
    copies: int = 1

    @classmethod
    def of(
        cls,
        counts: NDArray[Any],
        channel: Windowed,
        cells: Sequence[Cells],
        axis: int,
        copies: int,
    ) -> GridSums:
        """The sums of the number that cells[axis] partitions, from a tally of its windows."""
        number = cells[axis].attribute
        if not isinstance(number, Numeric):
            raise EstimationError(f"'{number.name}' holds no numbers, so it has no sum")
        evidence = SmoothEvidence(counts, channel.on_grid())
        own = number.above_zero if channel.shape.zero else number
        return cls(evidence, SmoothEvidence(counts, channel), own, axis, copies)

    @property
    def _width(self) -> float:
        """From one value of the grid to the next."""
        return (self.number.size - 1) / (self.asked.channel.shape.values - 1) * self._step

    @property
    def _step(self) -> float:
        return self.number.grid_step

    @property
    def _rounding(self) -> float:
        """What a square is too large by on the grid: a value is rounded up or down by chance."""
        return (self._width**2 - self._step**2) / 6

    @property
    def _truths(self) -> Floats:  # (truths,)
        """The numbers of zero, where it has a window of its own, and of the grid."""
        shape = self.asked.channel.shape
        grid = self.number.min + self._width * np.arange(shape.values)
        return np.r_[np.zeros(int(shape.zero)), grid]

    def _powers(self, centre: float) -> Floats:  # (3, truths)
        away = self._truths - centre
        rounded = np.full(len(away), self._rounding)
        rounded[: int(self.asked.channel.shape.zero)] = 0.0
        return np.stack([np.ones_like(away), away, away**2 - rounded])

    def assumes(self, squares: bool) -> str | None:
        return self.asked.assumes if self._needs_no_law(squares) else self.evidence.assumes

    def _needs_no_law(self, squares: bool) -> bool:
        """The sum of a whole column is a sum over its reports, without bias whatever the law; that
        of its squares is too, with up to 1.6 times the error of the law's.
        """
        return self.asked.whole and not squares

    def about(self, centre: float, squares: bool = True) -> NDArray[Any]:  # (*cells, 3)
        """The estimated sums of (number - centre)^p, p = 0, 1, 2, in each cell."""
        if self._needs_no_law(squares):
            everyone, total, _ = self._linear
            sums = np.stack([everyone, total - centre * everyone, np.zeros_like(total)], axis=-1)
            sums = sums.reshape(*self.asked.channel.inputs, 3)
            return np.moveaxis(sums, -2, self.axis) / self.copies
        found, merges = self.evidence.estimated, self.asked.merges
        flat = found.reshape(len(merges), -1)
        sums = np.einsum("gv,gkv,pv->gkp", flat, merges, self._powers(centre), optimize=True)
        sums = sums.reshape(*found.shape[:-1], *sums.shape[1:])
        return np.moveaxis(sums, -2, self.axis) / self.copies

    @cached_property
    def _linear(self) -> tuple[Floats, Floats, Floats]:  # (groups,) each
        """The people of each group, the unbiased sum of their numbers, and its variance with the
        people held fixed: that of the reports, and of who was asked.

        Of reports that state t on average for a number x, Σ t² − Σ x² is the variance; x² is the
        mean of a quadratic in the report, and no number has less than the least noise.
        """
        shape, everyone = self.asked.channel.shape, self.asked.people
        places = (self._truths - self.number.min) / self._width
        told = shape.telling(places, 1)
        tallies = np.array(self.asked.tallies)
        asked = np.maximum(tallies.sum(axis=1), 1e-300)
        sums, squares = tallies @ told, tallies @ shape.telling(places**2, 2)
        least = (told**2 @ shape.matrix - places**2).min()
        noise = np.maximum(tallies @ told**2 - squares, asked * least)
        scattered = np.maximum(squares - sums**2 / asked, 0) * (1 - asked / everyone)
        variance = self._width**2 * (noise + scattered) + self._rounding * asked
        total = self.number.min * everyone + self._width * everyone / asked * sums
        return everyone, total, (everyone / asked) ** 2 * variance

    def covariance_matrix(
        self, weights: NDArray[Any], centre: float
    ) -> NDArray[Any]:  # (*cells, 3, n) -> (n, n)
        """The covariances of n weighted sums of the values about a centre."""
        aside = np.moveaxis(weights, self.axis, -3)
        if self._needs_no_law(bool(weights[..., 2, :].any())):
            variance = self._linear[2]
            first = aside[..., 1, :].reshape(len(variance), -1)
            return np.asarray((first.T * variance) @ first) / self.copies**2
        merges = self.asked.merges
        flat = aside.reshape(len(merges), *aside.shape[-3:])
        grid = np.einsum("gkpn,gkv,pv->gvn", flat, merges, self._powers(centre), optimize=True)
        told = self.evidence.covariance_matrix(grid.reshape(*aside.shape[:-3], *grid.shape[1:]))
        return (told + self._open(flat, centre)) / self.copies**2

    def _open(self, weights: Floats, centre: float) -> Any:  # (groups, cells, 3, n) -> (n, n)
        """The same of whoever may be on either side of where cells change: their number is that."""
        cuts, found = self.asked.channel.cuts, np.zeros((weights.shape[-1],) * 2)
        if cuts is None:
            return found
        away = self.number.min + (cuts.codes - 0.5) * self.number.grid_step - centre
        jumps = weights[:, cuts.after] - weights[:, cuts.before]  # (groups, cuts, 3, n)
        moves = np.einsum("gcpn,pc->gcn", jumps, np.stack([away**0, away, away**2]))
        for first, second, covariance in self.asked.left_open:
            found += np.einsum("gcn,gc,gcm->nm", moves[:, first], covariance, moves[:, second])
        return found


def _errors(covariance: Floats) -> Floats:  # (values,)
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0)))


def _roughness(counts: Floats) -> Floats:  # (values,)
    """How far the people around each value, or one beside it, are from a line, as a part of them: 0
    where they are spread evenly, 1 beside a value that alone has any.
    """
    left, right = np.pad(counts, 1)[:-2], np.pad(counts, 1)[2:]
    own = abs(left - 2 * counts + right) / np.maximum(left + 2 * counts + right, 1e-9)
    return np.maximum.reduce([own, np.pad(own, 1)[:-2], np.pad(own, 1)[2:]])


def _at_ends(mean: Floats, stderr: Floats) -> Floats:  # (values,)
    """How much of the first and of the last value lies just there, such as the zeros of a column
    that has many: what it has more than half of the one beside it, for numbers around an end are on
    one side of it only; if it surely has more, and that one may as well have hardly anybody.
    """
    found, counts = np.zeros(len(mean)), np.maximum(mean, 0)
    for end, beside in ((0, 1), (-1, -2)):
        least = counts[beside] - 2 * stderr[beside]
        surely = counts[end] > counts[beside] + 2 * stderr[end]
        if surely and least <= AT_ITSELF * (counts[end] + counts[beside]):
            found[end] = 1 - counts[beside] / counts[end] / 2
    return found


def _farthest(cuts: Cuts, mean: Floats, covariance: Floats, at_ends: Floats) -> Floats:  # (cuts,)
    """How far the people before each cut may be from as many as stand for it, however they lie
    between the values of the grid. Of each value there may be a standard error more than there seem
    to be, or as many as seem to have the one beside it: many alike between the two are told from
    many at one of them by few reports only, and the likeliest law puts them at one.
    """
    counts, loose = np.maximum(mean, 0), 1 - at_ends
    beside = np.pad(counts * loose, 1)
    most_here = np.maximum((counts + _errors(covariance)) * loose, beside[:-2])
    fewest, most = cuts.bounds(counts, np.maximum(most_here, beside[2:]))
    found = cuts.below @ (counts * loose) + (counts * at_ends)[0]
    return np.maximum(np.maximum(found - fewest, most - found), 0)
