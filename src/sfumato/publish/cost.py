"""What a changed confidential column cost the analyst, and what it bought the people in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import shown
from sfumato.errors import MissingExtraError, ParameterError
from sfumato.privacy.probability import check_count
from sfumato.publish.identify import Risk, risk_of, status_of
from sfumato.publish.intruder import Believer, Intruder, believer_of, intruder_of, plain_value
from sfumato.publish.microdata import Coded
from sfumato.randomness import seeded
from sfumato.telling import Telling, silent

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

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Total:
    """How many records have a value, before and after."""

    value: Any
    before: int
    after: int

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {**self.__dict__, "value": plain_value(self.value)}


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

    @property
    def mean_two_way(self) -> float:
        """Mean change of the two-way tables of the confidential column with each key."""
        return float(np.mean(list(self.two_way.values())))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "marginal_drift": self.marginal_drift,
            "totals": [total.to_dict() for total in self.totals],
            "i_divergence": self.i_divergence,
            "jensen_shannon": self.jensen_shannon,
            "two_way": {"mean": self.mean_two_way, "by_column": self.two_way},
            "classification": self.classification.to_dict() if self.classification else None,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "attack": {
                "before": self.attack_before.to_dict(),
                "after": self.attack_after.to_dict(),
            },
            "intruder": self.intruder.to_dict(),
        }


def measure(
    keys: Sequence[Coded],
    truth: Coded,
    release: Coded,
    *,
    classifier: ClassifierName = "tree",
    folds: int = 5,
    progress: Telling = silent,
) -> Cost:
    """Compare the released values of one confidential column with the true ones."""
    status = status_of(keys, truth)
    divergence, jensen_shannon = joint_divergence(status.pattern, truth, release)
    return Cost(
        marginal_drift=int(np.abs(truth.counts() - release.counts()).sum()) // 2,
        totals=tuple(
            Total(value, int(before), int(after))
            for value, before, after in zip(
                truth.values, truth.counts(), release.counts(), strict=True
            )
        ),
        i_divergence=divergence,
        jensen_shannon=jensen_shannon,
        two_way=two_way_changes(keys, truth, release),
        classification=None
        if classifier == "none"
        else classification(keys, truth, release, model=classifier, folds=folds, progress=progress),
        before=risk_of(keys, truth),
        after=risk_of(keys, release),
        attack_before=believer_of(status, truth, truth),
        attack_after=believer_of(status, truth, release),
        intruder=intruder_of(keys, status, truth, release),
    )


def joint_divergence(
    pattern: NDArray[np.int64], truth: Coded, release: Coded
) -> tuple[float, float]:
    """I-divergence Σ P log(P/P̃) of the joint distribution (eq. 2) and the Jensen–Shannon
    divergence, in nats.

    A changed unique record empties its cell, so eq. 2 as printed is infinite; half a record is
    therefore added to every cell that is occupied before or after. The Jensen–Shannon divergence
    needs no such help.
    """
    cells = np.concatenate(
        [pattern * truth.size + truth.codes, pattern * truth.size + release.codes]
    )
    occupied, number = np.unique(cells, return_inverse=True)
    rows = len(pattern)
    before = np.bincount(number[:rows], minlength=len(occupied)).astype(np.float64)
    after = np.bincount(number[rows:], minlength=len(occupied)).astype(np.float64)
    smooth_before, smooth_after = (
        (before + 0.5) / (before + 0.5).sum(),
        (after + 0.5) / (after + 0.5).sum(),
    )
    divergence = float((smooth_before * np.log(smooth_before / smooth_after)).sum())
    middle = (before + after) / (2 * rows)
    halves = [_cross_entropy_gain(part / rows, middle) for part in (before, after)]
    return divergence, 0.5 * sum(halves)


def _cross_entropy_gain(share: NDArray[np.float64], middle: NDArray[np.float64]) -> float:
    present = share > 0
    return float((share[present] * np.log(share[present] / middle[present])).sum())


def two_way_changes(keys: Sequence[Coded], truth: Coded, release: Coded) -> dict[str, float]:
    """Total variation distance between the true and the released table of each key with the
    confidential column.
    """
    changes = {}
    for column in keys:
        before, after = (pair_counts(column, other) for other in (truth, release))
        changes[column.name] = float(np.abs(before - after).sum()) / (2 * len(truth.codes))
    return changes


def pair_counts(first: Coded, second: Coded) -> NDArray[np.int64]:  # (first.size * second.size,)
    """How many records have each pair of values of two columns."""
    return np.bincount(
        first.codes.astype(np.int64) * second.size + second.codes,
        minlength=first.size * second.size,
    )


def classification(
    keys: Sequence[Coded],
    truth: Coded,
    release: Coded,
    *,
    model: Literal["tree", "bayes"] = "tree",
    folds: int = 10,
    progress: Telling = silent,
) -> Classification:
    """Error of a classifier trained on the truth, and of one trained on the release, both judged on
    held-out truth.

    `within_release` is the paper's figure: trained and judged on the release. At most 50,000
    records take part. The folds are the same for every release of a table, so that two releases
    differ by their values alone.
    """
    chosen = seeded(0).permutation(len(truth.codes))[:_MOST_CLASSIFIED]
    folds = min(folds, len(chosen))
    features = np.stack([column.codes[chosen] for column in keys], axis=1)
    true, released = truth.codes[chosen], release.codes[chosen]
    step, wrong = _steps(progress, model, folds), np.zeros(3)
    fold = np.arange(len(chosen)) % folds
    for held_out in range(folds):
        test, train = fold == held_out, fold != held_out
        step()
        by_truth = _predicted(model, features[train], true[train], features[test])
        step()
        by_release = _predicted(model, features[train], released[train], features[test])
        wrong += [
            (by_truth != true[test]).sum(),
            (by_release != true[test]).sum(),
            (by_release != released[test]).sum(),
        ]
    errors = wrong / len(chosen)
    leaves = _leaves(features, (true, released), step) if model == "tree" else (None, None)
    return Classification(
        model, folds, len(chosen), float(errors[0]), float(errors[1]), float(errors[2]), *leaves
    )


def _steps(progress: Telling, model: str, folds: int) -> Callable[[], None]:
    """Tells, each time it is called, that the next classifier is learned; before that, what learns
    is loaded.
    """
    if model == "tree":
        progress("loading scikit-learn", None)
        _tree()
    steps, learned = 2 * (folds + (model == "tree")), count()
    return lambda: progress("measuring the cost to a classifier", next(learned) / steps)


def _tree() -> Any:
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise MissingExtraError(
            "the classification error needs scikit-learn",
            extra="learn",
            instead="choose classifier bayes",
        ) from None
    # Like C4.5: entropy, leaves of two or more, and light pruning.
    return DecisionTreeClassifier(
        criterion="entropy", min_samples_leaf=2, ccp_alpha=1e-4, random_state=0
    )


def check_classifier(model: Any, folds: Any) -> None:
    """Refuse a classifier that is not known, and folds that hold nothing out."""
    if not isinstance(model, str) or model not in ("tree", "bayes", "none"):
        raise ParameterError(f"no classifier {shown(model)}", hint="use tree, bayes or none")
    check_count("folds", folds, least=2)


def _predicted(
    model: str, features: NDArray[Any], labels: NDArray[Any], wanted: NDArray[Any]
) -> NDArray[Any]:
    if model == "tree":
        predicted: NDArray[Any] = _tree().fit(features, labels).predict(wanted)
        return predicted
    if model == "bayes":
        return _bayes_predicted(features, labels, wanted)
    raise ParameterError(f"no classifier {shown(model)}", hint="use tree, bayes or none")


def _bayes_predicted(
    features: NDArray[Any], labels: NDArray[Any], wanted: NDArray[Any]
) -> NDArray[np.intp]:
    """Naive Bayes with Laplace's rule on integer features."""
    values = int(labels.max()) + 1
    scores = np.log(np.bincount(labels, minlength=values) + 1.0)[None, :].repeat(
        len(wanted), axis=0
    )
    for position in range(features.shape[1]):
        size = int(max(features[:, position].max(), wanted[:, position].max())) + 1
        table = (
            np.bincount(
                features[:, position].astype(np.int64) * values + labels, minlength=size * values
            )
            + 1.0
        )
        table = table.reshape(size, values)
        scores += np.log(table / table.sum(axis=0))[wanted[:, position]]
    best: NDArray[np.intp] = scores.argmax(axis=1)
    return best


def _leaves(
    features: NDArray[Any], labels: Iterable[NDArray[Any]], step: Callable[[], None]
) -> Iterator[int]:
    for codes in labels:
        step()
        yield int(_tree().fit(features, codes).get_n_leaves())
