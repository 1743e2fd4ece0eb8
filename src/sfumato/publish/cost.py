"""What a changed confidential column cost the analyst, and what it bought the people in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato import arguments
from sfumato.domain import Codes, Distinct
from sfumato.errors import MissingExtraError, ParameterError
from sfumato.privacy.probability import check_count
from sfumato.progress import Progress, silent
from sfumato.publish.conditional import pair_counts
from sfumato.publish.identify import Risk, risk_of, status_of
from sfumato.publish.intruder import Believer, Intruder, believer_of, intruder_of
from sfumato.publish.owned_records import columns_of, patterns
from sfumato.randomness import seeded
from sfumato.renderers.frames import json_fields, json_value
from sfumato.table import Table

__all__ = [
    "Classification",
    "Cost",
    "Total",
    "classification",
    "joint_divergence",
    "measure",
    "two_way_changes",
]

ClassifierName = Literal["tree", "bayes", "none"]
_MOST_CLASSIFIED = 50_000


@dataclass(frozen=True)
class Classification:
    """Error rates of a classifier of the confidential column, by cross-validation."""

    model: str
    folds: int
    records: int
    trained_on_truth: float
    trained_on_release: float
    within_release: float
    leaves_truth: int | None = None
    leaves_release: int | None = None


@dataclass(frozen=True)
class Total:
    """How many records have a value, before and after."""

    value: Any
    before: int
    after: int


@dataclass(frozen=True)
class Cost:
    """What changed between the true and the released confidential column.

    `marginal_drift` counts each record once: Σ |N′ − N| / 2 over the values.
    """

    marginal_drift: int
    totals: tuple[Total, ...]
    i_divergence: float
    jensen_shannon: float
    two_way: dict[str, float]
    classification: Classification | None
    before: Risk
    after: Risk
    attack_before: Believer
    attack_after: Believer
    intruder: Intruder

    apart = ("two_way", "attack_before", "attack_after")  # in JSON as `to_dict` has them

    @property
    def mean_two_way(self) -> float:
        """Mean change of the two-way tables of the confidential column with each key."""
        return float(np.mean(list(self.two_way.values())))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            **json_fields(self),
            "two_way": {"mean": self.mean_two_way, "by_column": self.two_way},
            "attack": json_value({"before": self.attack_before, "after": self.attack_after}),
        }


def measure(
    table: Table,
    keys: Sequence[str],
    attribute: Distinct,
    truth: Codes,
    shown: Codes,
    *,
    classifier: ClassifierName = "tree",
    folds: int = 5,
    progress: Progress = silent,
) -> Cost:
    """Compare the shown values of one confidential column with the true ones."""
    known = columns_of(table, keys)
    pattern = patterns(known)
    status = status_of(pattern, truth)
    divergence, jensen_shannon = joint_divergence(pattern, truth, shown)
    before, after = (np.bincount(codes, minlength=attribute.size) for codes in (truth, shown))
    totals = zip(attribute.values, before.tolist(), after.tolist(), strict=True)
    return Cost(
        marginal_drift=int(np.abs(before - after).sum()) // 2,
        totals=tuple(Total(*each) for each in totals),
        i_divergence=divergence,
        jensen_shannon=jensen_shannon,
        two_way=two_way_changes(table, keys, truth, shown),
        classification=None
        if classifier == "none"
        else classification(known, truth, shown, model=classifier, folds=folds, progress=progress),
        before=risk_of(pattern, truth),
        after=risk_of(pattern, shown),
        attack_before=believer_of(status, truth, truth),
        attack_after=believer_of(status, truth, shown),
        intruder=intruder_of(known, status, attribute, truth, shown),
    )


def joint_divergence(pattern: NDArray[np.int64], truth: Codes, shown: Codes) -> tuple[float, float]:
    """I-divergence Σ P log(P/P̃) of the joint distribution (eq. 2) and the Jensen–Shannon
    divergence, in nats.

    A changed unique record empties its cell, so eq. 2 as printed is infinite; half a record is
    therefore added to every cell that is occupied before or after. The Jensen–Shannon divergence
    needs no such help.
    """
    rows, values = len(pattern), int(max(truth.max(), shown.max())) + 1
    cells = np.concatenate([pattern * values + truth, pattern * values + shown])
    occupied, number = np.unique(cells, return_inverse=True)
    parts = np.split(number, 2)
    count = np.stack([np.bincount(part, minlength=len(occupied)) for part in parts])
    smooth = (count + 0.5) / (count + 0.5).sum(axis=1, keepdims=True)
    divergence = float((smooth[0] * np.log(smooth[0] / smooth[1])).sum())
    share, middle = count / rows, count.sum(axis=0) / (2 * rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(share > 0, share * np.log(share / middle), 0.0)
    return divergence, 0.5 * float(gain.sum())


def two_way_changes(
    table: Table, keys: Sequence[str], truth: Codes, shown: Codes
) -> dict[str, float]:
    """Total variation distance between the true and the shown table of each key with the
    confidential column.
    """
    values, changes = int(max(truth.max(), shown.max())) + 1, {}
    for name, key in zip(keys, columns_of(table, keys), strict=True):
        size = table.domain[name].size
        before, after = (pair_counts(key, codes, size, values) for codes in (truth, shown))
        changes[name] = float(np.abs(before - after).sum()) / (2 * len(truth))
    return changes


def classification(
    keys: Sequence[Codes],
    truth: Codes,
    shown: Codes,
    *,
    model: Literal["tree", "bayes"] = "tree",
    folds: int = 10,
    progress: Progress = silent,
) -> Classification:
    """Error of a classifier trained on the truth, and of one trained on the release, both judged on
    held-out truth.

    `within_release` is the paper's figure: trained and judged on the release. At most 50,000
    records take part. The folds are the same for every release of a table, so that two releases
    differ by their values alone.
    """
    chosen = seeded(0).permutation(len(truth))[:_MOST_CLASSIFIED]
    folds = min(folds, len(chosen))
    features = np.stack([column[chosen] for column in keys], axis=1)
    true, released = truth[chosen], shown[chosen]
    if model == "tree":
        progress("loading scikit-learn", None)
    learn = _tree_learner() if model == "tree" else _bayes
    learned, steps = count(), 2 * (folds + (model == "tree"))

    def told(train: NDArray[np.bool_], labels: NDArray[Any]) -> Learned:
        progress("measuring the cost to a classifier", next(learned) / steps)
        return learn(features[train], labels[train])

    fold, wrong = np.arange(len(chosen)) % folds, np.zeros(3)
    for held_out in range(folds):
        test, train = fold == held_out, fold != held_out
        by_truth, by_release = (told(train, each)[0](features[test]) for each in (true, released))
        wrong += [
            (by_truth != true[test]).sum(),
            (by_release != true[test]).sum(),
            (by_release != released[test]).sum(),
        ]
    everyone = np.ones(len(chosen), dtype=bool)
    leaves = (told(everyone, each)[1] if model == "tree" else None for each in (true, released))
    errors = (wrong / len(chosen)).tolist()
    return Classification(model, folds, len(chosen), *errors, *leaves)


# What predicts the labels of other features, and the leaves of a tree.
Learned = tuple[Callable[[NDArray[Any]], NDArray[Any]], int | None]


def _tree_learner() -> Callable[[NDArray[Any], NDArray[Any]], Learned]:
    """A tree like C4.5: entropy, leaves of two or more, and light pruning."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise MissingExtraError(
            "the classification error needs scikit-learn",
            extra="learn",
            instead="choose classifier bayes",
        ) from None

    def learned(features: NDArray[Any], labels: NDArray[Any]) -> Learned:
        tree = DecisionTreeClassifier(
            criterion="entropy", min_samples_leaf=2, ccp_alpha=1e-4, random_state=0
        ).fit(features, labels)
        return tree.predict, int(tree.get_n_leaves())

    return learned


def _bayes(features: NDArray[Any], labels: NDArray[Any]) -> Learned:
    """Naive Bayes with Laplace's rule on integer features."""
    values = int(labels.max()) + 1

    def predicted(wanted: NDArray[Any]) -> NDArray[Any]:
        scores = np.tile(np.log(np.bincount(labels, minlength=values) + 1.0), (len(wanted), 1))
        for known, asked in zip(features.T, wanted.T, strict=True):
            size = int(max(known.max(), asked.max())) + 1
            table = pair_counts(known, labels, size, values) + 1.0
            scores += np.log(table / table.sum(axis=0))[asked]
        return np.asarray(scores.argmax(axis=1))

    return predicted, None


def check_classifier(model: Any, folds: Any) -> None:
    """Refuse a classifier that is not known, and folds that hold nothing out."""
    if not isinstance(model, str) or model not in ("tree", "bayes", "none"):
        raise ParameterError(
            f"no classifier {arguments.shown(model)}", hint="use tree, bayes or none"
        )
    check_count("folds", folds, least=2)
