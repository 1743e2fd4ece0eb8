"""Reconstructed: FRAPP's ByClass, then any classifier: reconstructed cells become weighted records
for scikit-learn.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.domain import Cells
from sfumato.errors import EstimationError, MissingExtraError, ParameterError, listing
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.likelihood import clip_and_scale
from sfumato.mine import limits
from sfumato.mine.classifier import Classifier
from sfumato.mine.features import Feature, Problem, assigned
from sfumato.observation import CellTally
from sfumato.table import Table
from sfumato.view import ColumnView, TableView, View

Floats = NDArray[Any]


def by_class(table: Estimate) -> Floats:  # one axis a feature, then the classes
    """Each class reconstructed on its own, negative counts set to zero, the rest scaled to the
    class (FRAPP §8.2.1).
    """
    totals = clip_and_scale(table.value.sum(axis=tuple(range(table.value.ndim - 1))), table.rows)
    found = [clip_and_scale(table.value[..., place], each) for place, each in enumerate(totals)]
    return np.stack(found, axis=-1)


def encoded(
    features: Sequence[Feature], cells: Sequence[NDArray[Any]]
) -> Floats:  # (records, columns)
    """A column with the place in the order for each number, one column a value for each
    category.
    """
    columns = [
        np.asarray(cell, dtype=np.float64)[:, None]
        if feature.ordered
        else np.eye(feature.size)[np.asarray(cell, dtype=np.intp)]
        for feature, cell in zip(features, cells, strict=True)
    ]
    return np.hstack(columns)


@checked
class Reconstructed(Classifier):
    """Any scikit-learn classifier that takes weights, trained on reconstructed cells:
    `Reconstructed("income", estimator)`.

    FRAPP's ByClass (§8.2): the joint distribution of the features is reconstructed within each
    class, negative counts are set to zero, and the cells are handed over with their counts as
    weights. Without an estimator, scikit-learn's tree. A number is cut into at most `most_cells`:
    the fewer cells, the less noise in each.
    """

    def __init__(
        self,
        target: str,
        estimator: Any = None,
        *,
        features: Sequence[str] | None = None,
        most_cells: int = 8,
    ) -> None:
        self.target = target
        self.estimator = estimator
        self.features = features
        self.most_cells = most_cells

    def _problem(self, source: Any) -> Problem:
        return Problem.of(source, self.target, self.features, self.most_cells)

    def _learn(self, problem: Problem) -> None:
        self._features = problem.features
        cells = math.prod(feature.size for feature in problem.features) * problem.target.size
        if cells > limits.CELLS:
            raise EstimationError(
                f"the joint domain has {cells:,} cells, too many to reconstruct them all",
                hint=(
                    "name fewer features, or use a DecisionTree, which asks for a few columns at "
                    "a time"
                ),
            )
        table = problem.source.marginal(
            [*(feature.cells for feature in problem.features), problem.target]
        )
        self.counts_ = by_class(table)
        *filled, labels = np.nonzero(self.counts_)
        matrix, weights = encoded(problem.features, filled), self.counts_[(*filled, labels)]
        self.estimator_ = _fresh(self.estimator)
        self.estimator_.fit(matrix, labels, sample_weight=weights)

    @property
    def _used(self) -> Sequence[Cells]:
        return [feature.cells for feature in self._features]

    def _from_truths(self, cells: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        matrix = encoded(self._features, cells)
        result = np.zeros((len(matrix), len(self.classes_)))
        if hasattr(self.estimator_, "predict_proba"):
            result[:, self.estimator_.classes_] = self.estimator_.predict_proba(matrix)
        else:
            result[np.arange(len(matrix)), self.estimator_.predict(matrix)] = 1
        return result

    def _from_reports(self, table: Table) -> NDArray[np.float64]:
        """Σ_u P(report | u)·P(u)·P(class | u) / Σ_u P(report | u)·P(u), for all reports of the
        joint domain at once.
        """
        assert table.provenance is not None
        mechanism = table.provenance.mechanism
        seen = mechanism.observe(self._used)
        own = isinstance(seen.tally, CellTally) and seen.tally.cells == tuple(self._used)
        if not own or table.copies > 1:
            raise EstimationError(
                f"the truth behind these reports of {mechanism.name} cannot be integrated over "
                "cell by cell",
                hint="classify true records, or use a DecisionTree or NaiveBayes",
            )
        prior = self.counts_.sum(axis=-1) / self.counts_.sum()
        probabilities = self._from_truths([place.ravel() for place in np.indices(prior.shape)])
        joint = prior[..., None] * probabilities.reshape(*prior.shape, -1)
        settled = seen.channel.settle(prior)
        expected = np.maximum(settled.apply(joint), 0)[tuple(assigned(table, self._used))]
        return expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-300)

    def _learned(self) -> View:
        """What the estimator was trained on; for programs a row for each reconstructed cell and
        class: the weighted records.
        """
        places = np.nonzero(self.counts_)
        counts = self.counts_.reshape(-1, len(self.classes_)).sum(axis=0)
        columns: list[tuple[str, Any]] = [
            (feature.name, np.array(feature.cells.labels, dtype=object)[own])
            for feature, own in zip(self._features, places, strict=False)
        ]
        columns.append((self.target, self.classes_.astype(object)[places[-1]]))
        columns.append(("count", self.counts_[places]))
        people = [f"people with {label}" for label in self.classes_]
        return View(
            "A classifier of reconstructed cells",
            facts=[
                ("target", self.target),
                ("estimator", self.estimator_),
                ("features", listing(self.feature_names_in_, most=40)),
                ("reconstructed cells", len(places[0])),
                *zip(people, map(round, counts.tolist()), strict=True),
            ],
            tables=(TableView([ColumnView("", part, field=name) for name, part in columns]),),
            notes=self.notes_,
        )


def _fresh(estimator: Any) -> Any:
    """An unfitted copy of the estimator, which must take weights."""
    try:
        from sklearn.base import clone
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise MissingExtraError("this needs scikit-learn", extra="learn") from None
    estimator = (
        DecisionTreeClassifier(max_depth=6, random_state=0)
        if estimator is None
        else clone(estimator)
    )
    if "sample_weight" not in inspect.signature(estimator.fit).parameters:
        raise ParameterError(
            f"{type(estimator).__name__} takes no weights, and reconstructed cells come with "
            "weights",
            hint="use one whose fit has sample_weight: a tree, a forest, logistic regression",
        )
    return estimator
