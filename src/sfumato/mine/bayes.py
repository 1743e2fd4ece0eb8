"""NaiveBayes: class shares and the distribution of each feature within each class, from two-way
marginals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.domain import Cells
from sfumato.errors import ParameterError
from sfumato.estimation.adjust import clip_and_scale, project_simplex
from sfumato.estimation.estimate import Estimate
from sfumato.mine.classifier import Classifier, mixture_posterior
from sfumato.mine.features import Feature, Problem
from sfumato.table import Table

Floats = NDArray[Any]
RARE = 0.01  # a share of everyone below which a value is not worth naming


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
        tables = zip(problem.features, problem.tables, strict=True)
        self.shares_ = tuple(
            class_distributions(table, feature, self.smoothing) for feature, table in tables
        )

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
            telling = sorted(self._telling(place), reverse=True)[:most]
            lines.append(f"{label} ({100 * self.class_shares_[place]:.0f} %)")
            lines += [f"  {times:.2f} × {value}" for times, value in telling]
        return "\n".join(lines)

    def _telling(self, place: int) -> Iterator[tuple[float, str]]:
        """How many times as common each value is in a class as among everyone, rare values left
        out.
        """
        for feature, shares in zip(self.features_, self.shares_, strict=True):
            everyone = self.class_shares_ @ shares
            for cell in np.flatnonzero(everyone >= RARE):
                value = (
                    feature.cells.labels[cell]
                    if feature.cells.item is not None
                    else f"{feature.name} = {feature.cells.labels[cell]}"
                )
                yield float(shares[place, cell] / everyone[cell]), value


def class_distributions(
    table: Estimate, feature: Feature, smoothing: float
) -> Floats:  # (classes, cells)
    """The distribution of a feature within each class, smoothed by as many rows as the standard
    errors ask for.
    """
    everyone = (feature.counts + 1) / (feature.counts.sum() + feature.size)
    return np.array(
        [_smoothed(table, place, everyone, smoothing) for place in range(table.cells[1].size)]
    )


def _smoothed(table: Estimate, place: int, everyone: Floats, smoothing: float) -> Floats:
    rows = float(table.value[:, place].sum())
    if rows <= 0:
        return everyone
    added = smoothing * len(everyone) * noise_factor(table, place)
    return (project_simplex(table.value[:, place], rows) + added * everyone) / (rows + added)


def noise_factor(table: Estimate, place: int) -> float:
    """How many rows of the truth one row of the reports is worth less: variance of the shares over
    that of a plain sample.

    For the shares p̂ = x̂/n of a feature in one class: t = Σ Var(p̂) / (Σ p(1-p)/n), sampling error
    included, at least 1.
    """
    counts = table.value[:, place]
    rows = float(counts.sum())
    cells = np.arange(len(counts)) * table.value.shape[1] + place
    slope = (np.eye(len(counts)) - np.outer(counts / rows, np.ones(len(counts)))) / rows
    variance = float(np.trace(slope @ table.cell_covariance(cells, sampling=True) @ slope.T))
    shares = project_simplex(counts / rows, 1.0)
    plain = float((shares * (1 - shares)).sum()) / rows
    return max(1.0, variance / plain) if plain > 0 else 1.0
