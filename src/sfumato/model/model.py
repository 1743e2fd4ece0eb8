"""Model: a joint law fitted to everything a release observed, asked like any other source."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from sfumato.arguments import checked, shown
from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.domain import Bins, Cells, Domain, Numeric
from sfumato.errors import ConvergenceWarning, ParameterError, Unanswerable, listing
from sfumato.estimation.estimate import COUNT_COLUMNS, Estimate
from sfumato.estimation.evidence import Evidence, evidence_of
from sfumato.estimation.supports.supports import Supports
from sfumato.mechanisms.base import Mechanism
from sfumato.memory import remembered
from sfumato.model.fitting import Fit, fit, loosened
from sfumato.model.laplace import KEPT, TRIALS, Laplace, LaplaceMarginal, entries_of
from sfumato.model.local import Joined, LocalFits, freed, likelihood_over
from sfumato.model.misfit import CONTRADICTED, misfit
from sfumato.model.model_evidence import (
    LawEvidence,
    ModelSupports,
    TranslatedEvidence,
    far_out,
    translated,
)
from sfumato.model.observed import Reports, unbiased_factors
from sfumato.progress import Progress, silent
from sfumato.renderers.html import MOST_LINES
from sfumato.result import Tabular
from sfumato.source import Source
from sfumato.view import View

DENSE_ENTRIES = 1 << 25  # cells × coefficients up to which one law of all columns is fitted
DENSE_WORK = 1 << 32  # cells × coefficients²
LOCAL_CELLS = 1 << 12  # of a question to a model of many columns


def _size_of(evidence: Evidence) -> int:
    return int(evidence.estimated.size)


@checked
@dataclass(frozen=True, eq=False)
class Model(Source, Tabular):
    """One law of all columns, log-linear with learned shrinkage; or the laws of any few of them,
    where the table of all would be too large.

    Answers lie in the possible range and say what they assume. Where the reports give an answer
    too, the model moves it no further than they allow, and its error holds the people fixed, as a
    release's does; other errors count the people as a sample.
    """

    why_left_out: ClassVar[str] = "having too many cells"
    left_out_answers: ClassVar[str] = "fit it again with coarser cells"
    prior_scale: ClassVar[float] = 1.0  # times the variances learned of interactions
    unheld_scale: ClassVar[float] = 0.0  # of pairs' variance: that of three, for errors
    mechanism: Mechanism  # that made the reports
    columns: tuple[Cells, ...]  # public first; what each axis of the reports stands for
    reports: Reports
    order: int
    fitted_to: Mapping[str, Any]  # what the reports were, in plain words and numbers
    known: Fit | None = None  # the law of all columns, where it was fitted before
    joined: Mapping[Axes, Joined] | None = None  # the pairs, where they were learned before
    tell: Progress = field(default=silent, repr=False)  # hears of laws that are being fitted
    by_model: bool = False  # whether answers are the model's alone: narrower, right on average
    free: bool = False  # whether interactions are not shrunk: for what shrinkage would bias

    def __post_init__(self) -> None:
        if self.order not in (1, 2, 3):
            raise ParameterError(f"order={shown(self.order)} is not fitted; use 1, 2 or 3")
        if self.reports.people < 1:
            raise Unanswerable("a release without reports has nothing to fit")

    @property
    def domain(self) -> Domain:
        """That of the records, numbers in the bins that the law has: it knows nothing finer."""
        return self._binned

    @cached_property
    def _binned(self) -> Domain:
        records = self.mechanism.domain
        cut = {part.name for part in self.columns if part.starts is not None}
        attributes = (a.bins() if isinstance(a, Numeric) and a.name in cut else a for a in records)
        return replace(records, attributes=tuple(attributes))

    @property
    def rows(self) -> int:
        return round(self.reports.people)

    @cached_property
    def _axes(self) -> dict[str, int]:
        return {part.name: axis for axis, part in enumerate(self.columns)}

    @cached_property
    def dense(self) -> bool:
        """Whether one law of all columns is fitted."""
        order = max(self.order, 2)  # that of its errors, if not of its law
        return is_dense(self.reports.shape, order) and self.reports.together

    @cached_property
    def _local(self) -> LocalFits:
        joined = {} if self.order == 1 else self.joined
        return LocalFits(self.reports, self.prior_scale, self.tell, joined, self.free)

    @property
    def pairs(self) -> Mapping[Axes, Joined]:
        """What is learned of every two columns, where laws are fitted set by set."""
        return self._local.pairs

    @cached_property
    def law(self) -> Laplace:
        """The law of all columns and its errors."""
        if not self.dense:
            raise Unanswerable(
                f"one law of all columns would have {math.prod(self.reports.shape):,} cells",
                hint="ask about fewer columns at once",
            )
        every = tuple(range(len(self.columns)))
        found = self.known
        if found is None:
            found = fit(likelihood_over(self.reports, every, self.order), tell=self.tell)
            if self.prior_scale > 1:
                found = loosened(found, self.prior_scale)
            if not self.free:
                found = _converged(found, "the law")
        if self.free:
            found = _converged(freed(found, self.reports, every), "the law")
        return Laplace(found, self.unheld_scale)

    def marginal_of(self, axes: Axes) -> LaplaceMarginal:
        """The shares of the cells of some axes (ascending) and their errors."""
        return self.law.marginal(axes) if self.dense else self._local_marginal(axes)

    @remembered(KEPT, entries_of)
    def _local_marginal(self, axes: Axes) -> LaplaceMarginal:
        wide = self._widened(axes)
        return self._local_law(wide).marginal(tuple(map(wide.index, axes)))

    def _widened(self, axes: Axes) -> Axes:
        """These axes, and for each that no report speaks of among them the smallest one beside
        which it was asked about: folded answers say nothing of a column without the others.
        """
        spoken = self._spoken(axes)
        added = {self._beside(a) for a in axes if a >= self.reports.public and a not in spoken}
        wide = tuple(sorted({*axes, *(beside for beside in added if beside is not None)}))
        return wide if self.reaches(wide) else axes

    def _beside(self, axis: int) -> int | None:
        others = sorted(set(range(len(self.columns))) - {axis}, key=self.reports.shape.__getitem__)
        pairs = ((other, tuple(sorted((axis, other)))) for other in others)
        return next((other for other, pair in pairs if axis in self._spoken(pair)), None)

    def _spoken(self, axes: Axes) -> set[int]:
        """Which of these axes the reports say something of."""
        return {axes[place] for part in self.reports.measurements(axes) for place in part.axes}

    def reaches(self, axes: Axes) -> bool:
        """Whether these columns are few and small enough for a law of their own."""
        shape = tuple(self.reports.shape[axis] for axis in axes)
        return math.prod(shape) <= LOCAL_CELLS and is_dense(shape, 3)

    def _local_law(self, axes: Axes) -> Laplace:
        if not self.reaches(axes):
            cells = math.prod(self.reports.shape[axis] for axis in axes)
            raise Unanswerable(
                f"this question has {cells:,} cells; a model of {len(self.columns)} columns is "
                f"fitted to {LOCAL_CELLS:,} at a time at most, and to fewer of wide columns",
                hint="ask about fewer columns at once, or coarser cells",
                cells=cells,
            )
        names = listing(self.columns[axis].name for axis in axes)
        found = _converged(self._local.fit(axes), f"the law of {names}")
        return Laplace(found, self.unheld_scale)

    @property
    def fitted_order(self) -> int:
        """The order of the interactions that the laws hold."""
        return self.order if self.dense else min(self.order, 2)

    def supposed(self, axes: Axes) -> str | None:
        """What an answer about these axes assumes beyond the reports."""
        private = tuple(axis for axis in axes if axis >= self.reports.public)
        order = self._measured_order(private)
        if self.contradicted:
            return (
                f"no interaction of more than {self.fitted_order} columns, which the reports "
                "contradict"
            )
        if self.order == 1 and len(axes) > 1:
            return "columns to be independent: too few people for more"
        if len(private) <= order:
            return None
        if order == 1:
            return "columns that no question joined to be independent"
        return f"no interaction of more than {order} columns"

    @cached_property
    def contradicted(self) -> bool:
        """Whether the reports spoke of more columns at once than the interactions of the law of all
        columns join, and are not as that law lets expect: then all of its answers may be off.
        """
        return self.dense and misfit(self.law.fit) > CONTRADICTED

    @property
    def measured_order(self) -> int:
        """The order up to which the reports told of every interaction that the laws hold."""
        return self._measured_order(tuple(range(self.reports.public, len(self.columns))))

    @property
    def told(self) -> int:
        """What `measured_order` was called."""
        warnings.warn("Model.told is now Model.measured_order", DeprecationWarning, stacklevel=2)
        return self.measured_order

    def _measured_order(self, axes: Axes) -> int:
        """The order up to which reports told of every interaction of these axes, and laws hold it:
        what joins more columns was never heard, whatever the order that was fitted.
        """
        axes = tuple(axis for axis in axes if self.reports.shape[axis] > 1)
        for order in range(min(self.fitted_order, len(axes)), 1, -1):
            if all(map(self.reports.held, combinations(axes, order))):
                return order
        return 1

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        return [self._estimate(cells) for cells in questions]

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        places = [self._axis(part) for part in cells]
        axes = tuple(sorted(places))
        whole = self._evidence(axes)
        merges = [part.within(self._held(part)) for part in cells]
        kept = [axes.index(place) for place in places]
        trivial = kept == sorted(kept) and all(part.trivial for part in merges)
        return Estimate(cells, self.rows, whole if trivial else whole.merged(kept, merges))

    @remembered(KEPT, _size_of)
    def _evidence(self, axes: Axes) -> Evidence:
        """What the model, and the reports where they do, say of the cells of some axes
        (ascending).
        """
        model, direct = self._by_law(axes), self._direct(axes)
        if direct is None:
            return model
        return TranslatedEvidence(translated(model.estimated, direct), direct, model)

    def _by_law(self, axes: Axes) -> LawEvidence:
        found = self.marginal_of(axes)
        shape = tuple(self.reports.shape[axis] for axis in axes)
        seen = self._unbiased(axes, found)
        return LawEvidence(
            found.share.reshape(shape) * self.rows,
            np.concatenate([found.spread.T, seen], axis=1).reshape(*shape, -1) * self.rows,
            self.supposed(axes),
            TRIALS,
            seen.shape[1],
        )

    def _direct(self, axes: Axes) -> Evidence | None:
        """What the reports alone say of the cells of some axes (ascending), where they do."""
        if self.by_model:
            return None
        cells = tuple(self.columns[axis] for axis in axes)
        try:
            seen = self.mechanism.observe(cells)
            counts = self.reports.tally(seen.tally, axes)
            if counts is None:
                return None
            found = evidence_of(seen, counts, cells)
            _ = found.estimated, found.cell_variances
        except Unanswerable:  # no question held them together, or too few people were asked
            return None
        return found

    def _held(self, part: Cells) -> Cells:
        """The cells that the law has of a column, as codes of numbers or as bins."""
        if isinstance(part.attribute, Numeric):
            return self.columns[self._axes[part.name]]
        return self.cells(part.name)

    def _unbiased(self, axes: Axes, found: LaplaceMarginal) -> Floats:  # (cells, n)
        """What reports alone leave open, where the law leaves some cell as open as it is large."""
        if not far_out(found.share, found.spread[:-TRIALS].T):
            return np.zeros((len(found.share), 0))
        return self._left_open(axes)

    @remembered(KEPT, np.size)
    def _left_open(self, axes: Axes) -> Floats:  # (cells, n)
        return unbiased_factors(self.reports, axes, self.marginal_of(axes).share)

    def _axis(self, part: Cells) -> int:
        if part.name not in self._axes:
            _ = self.domain.axis(part.name)  # a name that nothing has is refused there
            raise Unanswerable(
                f"this model was not fitted to '{part.name}' ({listing(self._axes)})",
                hint=f"ask about the columns it was fitted to, or {self.left_out_answers}",
            )
        return self._axes[part.name]

    def supports(self) -> Supports:
        columns = tuple(map(self.cells, self._axes))
        return ModelSupports(
            columns, self.rows, self.marginal, False, tell=self.tell, supposed=self.supposed
        )

    def __repr__(self) -> str:
        return (
            f"a model of {listing(self._axes)}, fitted to {self.rows:,} people's reports of "
            f"{self.mechanism.name}"
        )

    def to_arrow(self) -> Any:
        """A table with one row a value of each column: the column, the value, its estimated count,
        the count's standard error and its 95 % interval; ask a `marginal` for columns together.
        """
        import pyarrow as pa

        found = {name: self.marginal([name]).to_arrow() for name in self._axes}
        named = ("column", "value", *COUNT_COLUMNS)
        return pa.concat_tables(
            pa.table([pa.array([name] * len(part)), *part.columns], named)
            for name, part in found.items()
        )

    def view(self) -> View:
        """What is known of the model."""
        facts = [
            ("people", self.rows),
            ("columns", listing(self._axes, most=MOST_LINES)),
            (
                "law",
                f"log-linear, interactions of up to {self.fitted_order} columns"
                if self.fitted_order > 1
                else "single columns, as if independent: too few people for more",
            ),
            ("", "one of all columns" if self.dense else "of any few columns"),
            ("fitted to", f"reports of {self.mechanism.name}"),
        ]
        return View("A model of the crowd", facts=facts)

    def describe(self) -> dict[str, Any]:
        """What the model is and what it was fitted to, as JSON data."""
        return {
            "model": "log-linear",
            "order": self.fitted_order,
            "columns": {part.name: list(part.labels) for part in self.columns},
            "rows": self.rows,
            "law": "one of all columns" if self.dense else "of any few columns",
            "converged": self.law.fit.converged if self.dense else None,
            "fitted_to": dict(self.fitted_to),
        }


def is_dense(shape: Sequence[int], order: int) -> bool:
    """Whether one law over a table of this shape is fitted."""
    cells = math.prod(shape)
    if cells > DENSE_ENTRIES:
        return False
    coefficients = Interactions.up_to(shape, (False,) * len(shape), order).size
    return cells * coefficients <= DENSE_ENTRIES and cells * coefficients**2 <= DENSE_WORK


def _converged(found: Fit, name: str) -> Fit:
    if not found.converged:
        warnings.warn(
            f"{name} had not converged after {found.steps} steps", ConvergenceWarning, stacklevel=4
        )
    return found


def is_ordered(cells: Cells) -> bool:
    """Whether the cells of a column have an order: those of numbers do."""
    return cells.item is None and isinstance(cells.attribute, Bins | Numeric)
