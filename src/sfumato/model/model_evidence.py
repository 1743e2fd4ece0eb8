"""What a fitted model says of the cells of a question, and of itemsets, as evidence like any
other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Cells, gathered
from sfumato.errors import Unanswerable
from sfumato.estimation.answer import Answer, reach
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import Evidence, Product, paired
from sfumato.estimation.likelihood import clip_and_scale
from sfumato.estimation.supports.supports import Measured
from sfumato.estimation.supports.tabulated import TabulatedSupports

KNOWN = 0.25  # the relative error up to which a share is known well enough for its slope
OPEN = 0.5  # the relative error from which the logarithm of a share says how far it may reach
REACH = 3.0  # its own standard errors out, where the share must lie within twice as many stated
WHOLE = 12**-0.5  # people come whole, and a law's counts do not: the error of rounding
ROUNDING = 1e-9  # the relative error of what is known exactly: totals, public cells
FAR = 50.0  # a logarithm beyond everyone there is
UNSEEN = 0.5  # of the error that reports alone leave: nobody would be seen there
SHRUNK = "that columns go together about as the model has them"
RARE = "what is too rare for the reports to go together as the rest does"


@dataclass(frozen=True, eq=False)
class LawEvidence(Evidence):
    """Expected counts under a law, and columns whose products are their covariances.

    The covariances count the people as a sample. A share that the law leaves open by half of its
    size or more is known on the scale of its logarithm: the error is no less than what that scale
    allows. What nearly everyone has is as open as what hardly anyone has instead. Beyond its slope
    nothing is more open than reports alone leave it.
    """

    counts: NDArray[Any]  # the shape of the cells
    spread: NDArray[Any]  # (*cells, coefficients, bends and unbiased)
    supposed: str | None = None
    bends: int = 0  # columns of what is left open beyond the slope at the law found
    unbiased: int = 0  # the last columns: what reports alone leave open, if some cell needs it
    most: NDArray[Any] | None = None  # the largest error that each cell can have, where known

    @property
    def samples(self) -> bool:
        return True

    @property
    def assumes(self) -> str | None:
        """What the law supposes, be it only that nearly nobody is where reports alone would not see
        anybody: its interval then ends well within what they leave open.
        """
        return RARE if self.supposed is None and self._rests_on_law else self.supposed

    @cached_property
    def _rests_on_law(self) -> bool:
        if not self.unbiased or self.counts.ndim < 2:
            return False
        alone = np.sqrt((self.spread[..., -self.unbiased :] ** 2).sum(axis=-1))
        return bool((self.counts + 2 * np.sqrt(self.cell_variances) < UNSEEN * alone).any())

    @cached_property
    def estimated(self) -> NDArray[Any]:
        return self.counts

    @cached_property
    def cell_variances(self) -> NDArray[Any]:
        bound = self._least_open(self._most())
        scaled = self._scaled(
            self.spread.reshape(self.counts.size, -1).T, self.counts.ravel(), 1.0, bound
        )
        return np.asarray((scaled**2).sum(axis=0)).reshape(self.counts.shape)

    def covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:
        left = self._summed(first)
        return product(np.ones(len(left)), left, left if first is second else self._summed(second))

    def cell_covariance(self, cells: NDArray[Any]) -> NDArray[Any]:
        chosen = self.spread.reshape(self.counts.size, -1)[cells]
        bound = self._least_open(self._most())[cells]
        scaled = self._scaled(chosen.T, self.counts.ravel()[cells], 1.0, bound)
        return scaled.T @ scaled

    def by_chance(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The covariance of some cells that chance gives the law found, what else the reports
        leave open not counted.
        """
        known = self.spread.shape[-1] - self.bends - self.unbiased
        chosen = self.spread.reshape(self.counts.size, -1)[cells, :known]
        return chosen @ chosen.T

    def _summed(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (coefficients, n)
        flat = np.broadcast_to(weights, (*self.counts.shape, weights.shape[-1]))
        flat = flat.reshape(self.counts.size, -1)
        summed = self.spread.reshape(self.counts.size, -1).T @ flat
        each = np.abs(flat)
        size, unit = self.counts.ravel() @ each, each.max(axis=0, initial=0.0)
        parts = np.asarray((flat >= 0).all(axis=0))
        bound = self._most() @ each
        bound = np.where(parts, self._least_open(bound, unit), bound)
        return self._scaled(summed, size, unit, bound, parts)

    def _most(self) -> NDArray[Any]:  # (cells,)
        """The largest error of each cell, which may be as many as there are people."""
        if self.most is None:
            return np.full(self.counts.size, self.counts.sum())
        return self.most.ravel()

    def _least_open(
        self, bound: NDArray[Any], unit: NDArray[Any] | float = 1.0
    ) -> NDArray[Any]:  # (n,)
        """The largest errors of sums over some of everyone, no larger than those of the rest."""
        return np.minimum(bound, np.maximum(unit * self._most().sum() - bound, 0.0))

    def _scaled(
        self,
        summed: NDArray[Any],
        size: NDArray[Any],
        unit: NDArray[Any] | float,
        bound: NDArray[Any],
        parts: NDArray[Any] | bool = True,
    ) -> NDArray[Any]:  # (coefficients, bends and unbiased, n) -> (coefficients and bends, n)
        """Sums of the spread with as much of the bends as counts: all where the error is half of
        its size or more, nothing where it is a quarter or less. Draws of all coefficients move what
        is well known by more than the reports allow. `unit` is what one person more may weigh;
        `parts` are sums over some of everyone, whose size is that of what is left where this is
        less: a difference leaves nothing.
        """
        everyone = unit * self.counts.sum()
        small = np.where(parts, np.minimum(size, np.maximum(everyone - size, 0.0)), size)
        ends = np.cumsum([len(summed) - self.bends - self.unbiased, self.bends])
        known, bends, unbiased = np.split(summed, ends)
        error = _length(known) / np.maximum(small, 1e-300)
        counted = np.clip((error - KNOWN) / KNOWN, 0.0, 1.0)
        moved = _within(np.concatenate([known, bends * counted]), known, unbiased)
        stated, least = _length(moved), np.minimum(log_error(small, error), _length(unbiased))
        least = np.maximum(least, WHOLE * unit)
        open_at_all = np.where(stated > ROUNDING * size, stated, np.inf)
        wide = moved * np.maximum(least / open_at_all, 1.0)
        most = np.maximum(everyone / 2, _length(known))  # between nobody and all
        most = np.minimum(most, np.maximum(bound, WHOLE * unit))
        return np.asarray(wide * np.minimum(most / np.maximum(_length(wide), 1e-300), 1.0))

    def merged(self, axes: Sequence[int], merges: Sequence[Cells]) -> LawEvidence:
        columns = np.moveaxis(self.spread, -1, 0)
        spread = np.stack([gathered(column, axes, merges) for column in columns], axis=-1)
        most = None if self.most is None else gathered(self.most, axes, merges)
        return replace(self, counts=gathered(self.counts, axes, merges), spread=spread, most=most)


def far_out(counts: NDArray[Any], slopes: NDArray[Any]) -> bool:
    """Whether some cell needs to know what reports alone leave open; slopes are (cells, n)."""
    return bool((_length(slopes.T) > KNOWN * counts.ravel()).any())


def _within(moved: NDArray[Any], known: NDArray[Any], unbiased: NDArray[Any]) -> NDArray[Any]:
    """Sums with their bends, no longer than what reports alone leave open: a draw whose logarithms
    go several units out moves a rare share further than any report would let it.
    """
    if not len(unbiased):
        return moved
    most = np.maximum(_length(known), _length(unbiased))
    return np.asarray(moved * np.minimum(most / np.maximum(_length(moved), 1e-300), 1.0))


def log_error(size: NDArray[Any], error: NDArray[Any]) -> NDArray[Any]:
    """The error of shares of this size by their logarithms, where their relative error leaves them
    open by half of their size or more, else 0.
    """
    far = size * np.expm1(np.minimum(REACH * error, FAR)) / (2 * REACH)
    return np.where(error > OPEN, far, 0.0)


def _length(rows: NDArray[Any]) -> NDArray[Any]:  # (n, sums) -> (sums,)
    return np.asarray(np.sqrt((rows**2).sum(axis=0)))


@dataclass(frozen=True)
class ModelAnswer(Answer):
    """What reports alone say of a number and what a model says, as one answer: the model's, moved
    no further from the reports' than it may be (`translated`).

    Its interval is the model's, kept between two of the unbiased ones: it ends no nearer to the
    unbiased answer than the one-sided interval of this level, and no further than that of a fifth
    of the risk. So it covers at every truth, and not on average over a prior, where the model's
    own interval does not.

    >>> reports, model = Answer(100.0, 10.0), Answer(92.0, 4.0)
    >>> [round(end, 1) for end in ModelAnswer(92.0, 10.0, reports=reports, model=model).interval()]
    [83.6, 116.4]
    """

    reports: Answer = field(kw_only=True)
    model: Answer = field(kw_only=True)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval that covers the truth at this level."""
        low, high = self.model.interval(level)  # refuses a level that is none
        normal, alone = NormalDist(), self.reports
        near, far = (normal.inv_cdf(p) * alone.stderr for p in (level, 1 - (1 - level) / 5))
        low = max(alone.value - far, min(low, alone.value - near), self.possible[0])
        high = min(alone.value + far, max(high, alone.value + near), self.possible[1])
        # A count that was moved so that parts add up may lie beyond, and belongs to its interval.
        return max(min(low, self.value), self.value - 2 * far), min(
            max(high, self.value), self.value + 2 * far
        )

    def scaled(self, factor: float) -> Self:
        """The answer times a known number."""
        reports, model = self.reports.scaled(factor), self.model.scaled(factor)
        return replace(super().scaled(factor), reports=reports, model=model)


def translated(model: NDArray[Any], direct: Evidence) -> NDArray[Any]:
    """A model's counts where the reports give them too: limited translation (Efron and Morris
    1971), scaled so that they add up to everyone.

    A model that draws counts towards what it supposes is right on average, and wrong where that is
    not so. Here it moves a count no further from the unbiased one than by a standard error for each
    interaction that it shrinks: k columns have 2^k − k − 1 of these, whose errors add up in
    squares, so that is the square root of their number.
    """
    columns = sum(size > 1 for size in model.shape)
    error = np.sqrt(np.maximum(direct.cell_variances, 0.0))
    most = error * math.sqrt(max(2**columns - columns - 1, 1))
    moved = np.clip(model, direct.estimated - most, direct.estimated + most)
    return clip_and_scale(moved, float(model.sum()))


@dataclass(frozen=True, eq=False)
class TranslatedEvidence(Evidence):
    """A model's counts, moved no further from those of the reports than they may be; their errors
    are the unbiased counts'.
    """

    counts: NDArray[Any]  # as `translated`
    direct: Evidence
    model: LawEvidence

    @property
    def assumes(self) -> str | None:
        shrunk = sum(size > 1 for size in self.counts.shape) > 1
        return self.model.supposed or (SHRUNK if shrunk else None)

    @cached_property
    def estimated(self) -> NDArray[Any]:
        return self.counts

    @cached_property
    def cell_variances(self) -> NDArray[Any]:
        return self.direct.cell_variances

    def covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:
        return self.direct.covariances(first, second, product)

    def cell_covariance(self, cells: NDArray[Any]) -> NDArray[Any]:
        return self.direct.cell_covariance(cells)

    def merged(self, axes: Sequence[int], merges: Sequence[Cells]) -> Evidence:
        return TranslatedEvidence(
            gathered(self.counts, axes, merges),
            self.direct.merged(axes, merges),
            self.model.merged(axes, merges),
        )

    def answered(self, plain: Answer, weights: Callable[[], NDArray[Any]]) -> Answer:
        if not plain.stderr:
            return replace(plain, assumes=None)
        moved = weights()
        alone, model = (
            plain.value + float((moved * (each.estimated - self.estimated)).sum())
            for each in (self.direct, self.model)
        )
        error = math.sqrt(float(self.model.variances(moved[..., None])[0]))
        found = ModelAnswer(
            plain.value,
            plain.stderr,
            plain.sampling,
            plain.assumes,
            reports=Answer(alone, plain.stderr),
            model=Answer(model, error),
            possible=plain.possible,
        )
        low, high = found.interval()  # where the possible ends it, so does the error
        return replace(found, stderr=(high - low) / (2 * reach(0.95)))


@dataclass(frozen=True, eq=False)
class ModelSupports(TabulatedSupports):
    """Supports of itemsets from the law of each set of columns: within [0, 1], and never above
    those of their subsets.

    Where laws are fitted set by set, one may put more people into an itemset than another into its
    subset; the smaller figure is kept, so supports fall with length as true ones do, and the larger
    error: a figure is no surer than where it comes from.
    """

    shrunk: ClassVar[bool] = True

    def _table(self, attributes: NDArray[np.int64]) -> Estimate | None:
        try:
            return super()._table(attributes)
        except Unanswerable:
            if len(attributes) < 4:  # those that are joined need two at least that are not
                raise
            return None

    def measure(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], shorter: Measured
    ) -> Measured:
        found = super().measure(itemsets, subsets, shorter)
        least = subsets[np.arange(len(subsets)), shorter.count[subsets].argmin(axis=1)]
        count = np.minimum(found.count, shorter.count[least])
        known = np.maximum(found.stderr, shorter.stderr[least])
        stderr = np.where(count < found.count, known, found.stderr)
        return replace(found, observed=count, count=count, stderr=stderr)
