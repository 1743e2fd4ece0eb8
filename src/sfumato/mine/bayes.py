"""NaiveBayes: class shares and the distribution of each feature within each class, from two-way
marginals.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.domain import Cells
from sfumato.errors import ParameterError
from sfumato.estimation.answer import Answer
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.likelihood import clip_and_scale, project_simplex
from sfumato.estimation.ratio import Parts, RatioAnswer, lift_parts
from sfumato.mine.classifier import Classifier, figures, mixture_posterior, share_column
from sfumato.mine.features import Feature, Problem
from sfumato.privacy.probability import check_count, check_places
from sfumato.renderers.picture import draw
from sfumato.table import Table
from sfumato.view import Chart, ColumnView, Panel, Series, TableView, View

Floats = NDArray[Any]
RARE = 0.01  # a share of everyone below which a value is not worth naming


class ValueLift(NamedTuple):
    """A value that speaks for a class: how many times as common it is there as among everyone (its
    lift), and its share in the class.
    """

    value: str
    times: Answer
    share: Answer


@checked
class NaiveBayes(Classifier):
    """Naive Bayes from two-way marginals of a source:
    `NaiveBayes("income").fit(release).predict(test)`.

    P(class | record) ∝ P(class)·∏ P(feature | class). Laplace's rule adds `smoothing` rows to each
    value of each feature; here these are rows as informative as the reports are: where noise makes
    a reconstructed count as uncertain as that of a sample t times smaller, t·smoothing rows are
    added. They are spread as the feature is among everyone, so that what is too noisy to tell
    classes apart does not tell them apart. A number is cut into at most `most_cells`.
    """

    def __init__(
        self,
        target: str,
        *,
        features: Sequence[str] | None = None,
        smoothing: float = 1.0,
        most_cells: int = 16,
    ) -> None:
        self.target = target
        self.features = features
        self.smoothing = smoothing
        self.most_cells = most_cells

    def _problem(self, source: Any) -> Problem:
        if self.smoothing < 0:
            raise ParameterError(f"smoothing={self.smoothing}; Laplace's rule adds 0 rows or more")
        return Problem.of(source, self.target, self.features, self.most_cells)

    def _learn(self, problem: Problem) -> None:
        classes = problem.tables[0].value.sum(axis=0)
        self.class_shares_ = (clip_and_scale(classes, problem.source.rows) + 1) / (
            problem.source.rows + len(classes)
        )
        self.features_ = problem.features
        learned = [
            class_distributions(table, feature, self.smoothing)
            for feature, table in zip(problem.features, problem.tables, strict=True)
        ]
        self.shares_ = tuple(shares for shares, _ in learned)
        self.share_errors_ = tuple(errors for _, errors in learned)
        people = float(problem.source.rows)
        self.lift_parts_ = tuple(_lift_parts(table, people) for table in problem.tables)
        self.counts_ = tuple((table.value.T, table.stderr.T) for table in problem.tables)

    @property
    def _used(self) -> Sequence[Cells]:
        return [feature.cells for feature in self.features_]

    def _from_truths(self, cells: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            logs = np.log(self.class_shares_) + sum(
                np.log(shares)[:, cell].T for shares, cell in zip(self.shares_, cells, strict=True)
            )
        logs = np.maximum(
            logs, -1e6
        )  # a record that no class can hold is labelled by the classes' shares alone
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def _from_reports(self, table: Table) -> NDArray[np.float64]:
        return mixture_posterior(table, self._used, self.class_shares_, self.shares_)

    def text(self, most: int = 5) -> str:
        """For each class the values that speak most for it: how many times as common they are in it
        as among everyone.
        """
        self._check_fitted()
        lines = []
        for place, label in enumerate(self.classes_):
            lines.append(f"{label} ({100 * self.class_shares_[place]:.0f} %)")
            for each in self.lifts(place, most):
                low, high = each.times.interval()
                sure = "" if low == high else f" (95 %: {low:.2f} to {high:.2f})"
                lines.append(f"  {each.times.value:.2f} × {each.value}{sure}")
        return "\n".join(lines)

    def lifts(self, place: int, most: int = 5) -> list[ValueLift]:
        """The values that speak most for one class, by the low end of their intervals; rare values
        are left out, and those that may be as common among everyone, by Bonferroni's rule for as
        many as were looked at.

        The place is that of the class in `classes_`.
        """
        self._check_fitted()
        check_count("most", most, least=1)
        check_places("place", (place, place), len(self.classes_))
        found = []
        looked_at = sum(shares.shape[1] for shares in self.shares_)
        learned = zip(
            self.features_, self.shares_, self.share_errors_, self.lift_parts_, strict=True
        )
        for feature, shares, errors, parts in learned:
            everyone = self.class_shares_ @ shares
            for cell in np.flatnonzero(everyone >= RARE):
                own = Parts(*(float(np.asarray(part)[cell, place]) for part in parts))
                times = RatioAnswer.of(own, (0.0, math.inf))
                if not times.interval(1 - 0.05 / looked_at)[0] > 1:  # nor where it is nan
                    continue
                share = Answer(float(shares[place, cell]), float(errors[place, cell]))
                label = feature.cells.labels[cell]
                value = label if feature.cells.item is not None else f"{feature.name} = {label}"
                found.append(ValueLift(value, times, share))
        return sorted(found, key=lambda each: (-each.times.interval()[0], each.value))[:most]

    def telling(self, place: int, most: int = 5) -> list[ValueLift]:
        """The former name of `lifts`."""
        warnings.warn("NaiveBayes.telling is now lifts", DeprecationWarning, stacklevel=3)
        return self.lifts(place, most)

    def _learned(self) -> View:
        """The values that speak most for each class; and for programs the share of each value in
        each class as predictions use it, and the estimated number of people.
        """
        places = range(len(self.classes_))
        lines = [(place, each) for place in places for each in self.lifts(place)]
        times = [each.times for _, each in lines]
        named = [f"{self.classes_[p]} ({100 * self.class_shares_[p]:.0f} %)" for p, _ in lines]
        seen = TableView(
            [
                ColumnView(self.target, named),
                ColumnView("value", [each.value for _, each in lines]),
                ColumnView(
                    "times as common",
                    [each.value for each in times],
                    [each.stderr for each in times],
                    words="{:.2f}".format,
                    ends=[each.interval() for each in times],
                    mark=1.0,
                ),
                share_column("share in it", [each.share for _, each in lines]),
            ],
            "times as common: in the class as among everyone",
        )
        return View(
            f"Naive Bayes of {self.target}: what speaks for each class",
            charts=(self._chart(),),
            tables=(seen, self._frame()),
            notes=self.notes_,
        )

    def _frame(self) -> TableView:
        """One row for each value of each column and class."""
        names, shares, people = list[tuple[str, str, str]](), list[Answer](), list[Answer]()
        learned = zip(self.features_, self.shares_, self.share_errors_, self.counts_, strict=True)
        for feature, share, errors, (count, stderr) in learned:
            for cell in range(feature.size):
                for place, label in enumerate(self.classes_):
                    names.append((feature.name, feature.cells.labels[cell], str(label)))
                    shares.append(Answer(float(share[place, cell]), float(errors[place, cell])))
                    people.append(Answer(float(count[place, cell]), float(stderr[place, cell])))
        labels = TableView.of(("", "", ""), names, fields=("column", "value", "class"))
        return TableView([*labels.columns, *figures(shares, people)])

    def plot(self, *, most: int = 5, axes: Any = None) -> Any:
        """The values that speak most for each class, with 95 % intervals; the axes they were drawn
        on.
        """
        self._check_fitted()
        return draw(self._chart(most), axes)

    def _chart(self, most: int = 5) -> Chart:
        """The values of each class one below the other, how many times as common each is there."""
        lifts = [self.lifts(place, most) for place in range(len(self.classes_))]
        every = [each for own in lifts for each in own]
        owner = np.repeat(np.arange(len(lifts)), [*map(len, lifts)])
        times, stderr = np.array([(e.times.value, e.times.stderr) for e in every]).reshape(-1, 2).T
        series = [
            Series(
                f"{self.target} = {label}",
                np.where(owner == place, times, np.nan),
                np.where(owner == place, stderr, np.nan),
            )
            for place, label in enumerate(self.classes_)
        ]
        return Chart(
            Panel(
                "points",
                [each.value for each in every],
                series,
                quantity="times as common as among everyone",
                mark=(1, "as among everyone"),
                sideways=True,
            )
        )


def _lift_parts(table: Estimate, people: float) -> Parts:  # (cells, classes) each
    """How many times as common each value is in each class as among everyone."""
    shape = table.value.shape
    joint = table.cell_covariance(np.arange(table.value.size)).reshape(*shape, *shape)
    counts, classes = table.value, table.value.sum(axis=0, keepdims=True)
    values = counts.sum(axis=1, keepdims=True)
    own = np.einsum("vcvc->vc", joint)
    of_class = np.einsum("vcwc->c", joint)[None]
    of_value = np.einsum("vcvd->v", joint)[:, None]
    with_class, with_value = np.einsum("vcwc->vc", joint), np.einsum("vcvd->vc", joint)
    both = np.einsum("wcvd->vc", joint)
    covariance = (
        (of_class, both, with_class),
        (both, of_value, with_value),
        (with_class, with_value, own),
    )
    parts = lift_parts(counts, classes, values, covariance, people)
    return Parts(*(np.broadcast_to(part, shape) for part in parts))


def class_distributions(
    table: Estimate, feature: Feature, smoothing: float
) -> tuple[Floats, Floats]:  # (classes, cells) each
    """The distribution of a feature within each class, smoothed by as many rows as the standard
    errors ask for; and the standard errors of these shares, what they are drawn towards being
    known.
    """
    everyone = (feature.counts + 1) / (feature.counts.sum() + feature.size)
    shares, errors = np.empty((2, table.cells[1].size, feature.size))
    for place in range(len(shares)):
        counts = table.value[:, place]
        rows = float(counts.sum())
        if rows <= 0:
            shares[place], errors[place] = everyone, np.nan
            continue
        added = smoothing * feature.size * noise_factor(table, place)
        shares[place] = (project_simplex(counts, rows) + added * everyone) / (rows + added)
        variance = np.diag(_share_covariance(table, place, sampling=False))
        errors[place] = np.sqrt(np.maximum(variance, 0)) * rows / (rows + added)
    return shares, errors


def noise_factor(table: Estimate, place: int) -> float:
    """How many rows of the truth one row of the reports is worth less: variance of the shares over
    that of a plain sample.

    For the shares p̂ = x̂/n of a feature in one class: t = Σ Var(p̂) / (Σ p(1-p)/n), sampling error
    included, at least 1.
    """
    counts = table.value[:, place]
    rows = float(counts.sum())
    variance = float(np.trace(_share_covariance(table, place, sampling=True)))
    shares = project_simplex(counts / rows, 1.0)
    plain = float((shares * (1 - shares)).sum()) / rows
    return max(1.0, variance / plain) if plain > 0 else 1.0


def _share_covariance(table: Estimate, place: int, *, sampling: bool) -> Floats:
    """The covariance of the shares of a feature in one class (delta method)."""
    counts = table.value[:, place]
    rows = float(counts.sum())
    cells = np.arange(len(counts)) * table.value.shape[1] + place
    slope = (np.eye(len(counts)) - np.outer(counts / rows, np.ones(len(counts)))) / rows
    return slope @ table.cell_covariance(cells, sampling=sampling) @ slope.T
