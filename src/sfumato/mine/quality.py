"""How good a classifier is: confusion, accuracy, balanced accuracy, AUC, and agreement with another
classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.errors import DataError
from sfumato.result import Result
from sfumato.view import Chart, Squares, TableView, View

Codes = NDArray[Any]


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Quality(Result):
    """What a classifier got right on labelled records; `truth` and `predicted` are class numbers,
    one a record.

    With `weights` each record stands for so many.

    >>> chances = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    >>> quality = Quality(("no", "yes"), np.array([0, 0, 1]), np.array([0, 1, 1]), chances)
    >>> auc = quality.auc
    >>> quality.confusion.tolist(), round(quality.accuracy, 3), quality.balanced_accuracy, auc
    ([[1, 1], [0, 1]], 0.667, 0.75, 1.0)
    """

    classes: tuple[str, ...]
    truth: Codes
    predicted: Codes
    probabilities: NDArray[np.float64]  # (records, classes)
    weights: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if not len(self.truth):
            raise DataError("there is no record to judge the classifier by; give at least one")
        if not len(self.truth) == len(self.predicted) == len(self.probabilities):
            raise DataError(
                f"{len(self.predicted)} predictions were given for {len(self.truth)} labels"
            )

    @cached_property
    def confusion(self) -> NDArray[Any]:  # (true class, predicted class)
        """How many records of each class were given each label."""
        size = len(self.classes)
        index = self.truth.astype(np.int64) * size + self.predicted
        return np.bincount(index, weights=self.weights, minlength=size * size).reshape(size, size)

    @property
    def accuracy(self) -> float:
        """The share of records with the right label."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def balanced_accuracy(self) -> float:
        """The share with the right label, class by class, averaged over the classes that occur."""
        occurring = self.confusion.sum(axis=1) > 0
        return float(
            (np.diag(self.confusion)[occurring] / self.confusion.sum(axis=1)[occurring]).mean()
        )

    @property
    def baseline(self) -> float:
        """The accuracy of giving every record the most frequent label."""
        return float(self.confusion.sum(axis=1).max() / self.confusion.sum())

    @property
    def majority(self) -> str:
        """The most frequent label."""
        return self.classes[int(self.confusion.sum(axis=1).argmax())]

    @property
    def surely_better(self) -> bool:
        """Whether more records are right than by always giving the most frequent label, by more
        than two standard errors of the difference (McNemar).
        """
        code = int(self.confusion.sum(axis=1).argmax())
        won = float(np.trace(self.confusion) - self.confusion[code, code])
        lost = float(self.confusion[code].sum() - self.confusion[code, code])
        return won - lost > 2 * np.sqrt(won + lost)

    @cached_property
    def auc(self) -> float:
        """The area under the ROC curve; with more than two classes the mean of one class against
        the rest. 0.5 is chance.
        """
        rows = self.confusion.sum(axis=1)
        occurring = [code for code in range(len(self.classes)) if 0 < rows[code] < rows.sum()]
        if len(self.classes) == 2:
            occurring = occurring[-1:]
        areas = [
            roc_area(self.truth == code, self.probabilities[:, code], self.weights)
            for code in occurring
        ]
        return float(np.mean(areas)) if areas else 0.5

    @property
    def verdict(self) -> tuple[str, ...]:
        """What must be said of a classifier that is no better than one that always says the
        same.
        """
        if self.surely_better:
            return ()
        surely = "surely " if self.accuracy > self.baseline else ""
        return (
            f"in accuracy it is not {surely}better than always saying '{self.majority}' "
            f"({self.baseline:.4f})",
        )

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """The accuracy by its measures, beside that of always giving the most frequent label."""
        found = {
            "accuracy": self.accuracy,
            "balanced": self.balanced_accuracy,
            "AUC": self.auc,
            "majority": self.baseline,
        }
        return tuple((name, f"{value:.4f}") for name, value in found.items())

    def agreement(self, other: Quality) -> dict[str, float]:
        """How often two classifiers of the same records concur (FRAPP table 5, BOTH): both right,
        both wrong, and the same label, as shares.
        """
        if not np.array_equal(self.truth, other.truth):
            raise DataError(
                "two classifiers agree or not on the same records; these were judged on "
                "different ones"
            )
        right, too = self.predicted == self.truth, other.predicted == other.truth
        return {
            "both_right": float((right & too).mean()),
            "both_wrong": float((~right & ~too).mean()),
            "same_label": float((self.predicted == other.predicted).mean()),
        }

    def view(self) -> View:
        """The figures, and how many of each class were taken for which."""
        rows = zip(self.classes, np.round(self.confusion).astype(int).tolist(), strict=True)
        pairs = [
            (truth, predicted, float(self.confusion[place, other]))
            for place, truth in enumerate(self.classes)
            for other, predicted in enumerate(self.classes)
        ]
        return View(
            facts=self.figures,
            charts=(Chart(Squares(self.classes, self.confusion.tolist())),),
            tables=(
                TableView.of(
                    ("truth \\ predicted", *self.classes),
                    [(name, *row) for name, row in rows],
                    "how many of each class were taken for which",
                ),
                TableView.of(("", "", ""), pairs, fields=("truth", "predicted", "count")),
            ),
            notes=self.verdict,
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures in the JSON shape of `sfumato classify`."""
        return {
            "records": round(float(self.confusion.sum())),
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "auc": self.auc,
            "baseline": {"accuracy": self.baseline},
            "classes": list(self.classes),
            "confusion": np.round(self.confusion).astype(int).tolist(),
        }


def roc_area(
    positive: NDArray[np.bool_], score: NDArray[Any], weights: NDArray[Any] | None = None
) -> float:
    """The probability that a positive record scores above a negative one, ties counting half (Mann
    and Whitney).

    >>> roc_area(np.array([True, False, False]), np.array([0.5, 0.5, 0.1]))
    0.75
    """
    _, place = np.unique(score, return_inverse=True)
    each = np.ones(len(score)) if weights is None else weights
    positives, negatives = (
        np.bincount(place, weights=positive * each),
        np.bincount(place, weights=~positive * each),
    )
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below / (positives.sum() * negatives.sum()))
