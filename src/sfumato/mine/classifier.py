"""Classifier: fitted on a source of counts, asked about records; follows the conventions of
scikit-learn without needing it.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import blaming, checked, shown
from sfumato.domain import Cells
from sfumato.errors import DataError, EstimationError, ParameterError
from sfumato.estimation.answer import Answer
from sfumato.mine import limits
from sfumato.mine.features import Problem, assigned, plain, read_records
from sfumato.mine.quality import Quality
from sfumato.result import Tabular
from sfumato.table import Table
from sfumato.view import ColumnView, View

RECORDS = "give a data frame, a table or a dictionary of columns"


@checked
class Classifier(ABC, Tabular):
    """What every classifier does: `fit` on a source, `predict` and `predict_proba` on records, true
    or perturbed.

    A subclass states its parameters in `__init__`, stores them under their own names, and learns in
    `_learn`.
    """

    target: str
    classes_: NDArray[Any]
    notes_: tuple[str, ...]
    _estimator_type = "classifier"

    # What every classifier must say.

    @abstractmethod
    def _learn(self, problem: Problem) -> None:
        """Learn from the counts."""

    @property
    @abstractmethod
    def _used(self) -> Sequence[Cells]:
        """The cells of the columns that a prediction looks at."""

    @abstractmethod
    def _from_truths(
        self, cells: Sequence[NDArray[Any]]
    ) -> NDArray[np.float64]:  # (records, classes)
        """The probabilities of the classes for records in these cells, one array for each of
        `_used`.
        """

    @abstractmethod
    def _from_reports(self, table: Table) -> NDArray[np.float64]:  # (records, classes)
        """The probabilities of the classes behind perturbed records, the truth integrated over its
        posterior.
        """

    @abstractmethod
    def _problem(self, source: Any) -> Problem:
        """The question put to the source, its parameters checked."""

    @abstractmethod
    def _learned(self) -> View:
        """What was learned."""

    # What follows.

    def fit(
        self, source: Any, y: None = None, *, progress: Callable[[float], None] | None = None
    ) -> Self:
        """Learn from the counts of a source (or of a table); `y` is there for scikit-learn's sake
        and must be None. `progress` is given the share of the work that is done, where it is long.
        """
        if y is not None:
            raise ParameterError(
                "the target is a column of the source; give its name to the classifier, not its "
                "values to fit"
            )
        with blaming(type(self), self.get_params()):
            problem = self._problem(source)
            names = [feature.name for feature in problem.features]
            self.classes_ = np.array(problem.classes)
            self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
            self._domain, self._target_cells = problem.source.domain, problem.target
            self.notes_, self._progress = problem.notes, progress
            self._learn(problem)
            self._progress = None
        return self

    def predict_proba(self, data: Any) -> NDArray[np.float64]:  # (records, classes)
        """The probabilities of the classes for each record: a data frame, table or dictionary of
        columns.

        For a table of perturbed records the truth is integrated over its posterior given the
        report.
        """
        self._check_fitted()
        cells = self._used
        if not cells:
            return np.repeat(self._from_truths([]), _rows(data), axis=0)
        matrix = isinstance(data, np.ndarray) and data.ndim == 2
        wanted = (
            self.feature_names_in_.tolist()
            if matrix
            else [*dict.fromkeys(part.attribute.name for part in cells)]
        )
        table = read_records(data, self._domain, wanted)
        if table.provenance is None:
            return self._from_truths(assigned(table, cells))
        if table.rows % table.copies:
            raise DataError(
                f"{table.rows:,} reports are no whole number of people with {table.copies} reports "
                "each"
            )
        step = limits.REPORTS * table.copies
        parts = [
            self._from_reports(table.slice(start, start + step))
            for start in range(0, table.rows, step)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes_)))

    def predict(self, data: Any) -> NDArray[Any]:
        """The most likely class of each record."""
        probabilities = self.predict_proba(data)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(self, data: Any, y: Any = None) -> float:
        """The share of records labelled rightly; the labels are `y`, or the target column of the
        data.
        """
        return self.quality(data, y).accuracy

    def quality(self, data: Any, y: Any = None) -> Quality:
        """How good the classifier is on labelled records; the labels are `y`, or the target column
        of the data.
        """
        probabilities, cells = self.predict_proba(data), self._target_cells
        if y is None:
            name = cells.attribute.name
            table = read_records(data, self._domain, [name])
            made = table.provenance
            if made is not None and not made.mechanism.domain[name].public:
                raise EstimationError(
                    f"'{self.target}' is perturbed in these records, so it cannot tell which "
                    "predictions are right",
                    hint="judge the classifier by true labels, or by records whose target is "
                    "public",
                )
            truth = assigned(table, [cells])[0][:: 1 if made is None else table.copies]
        elif np.ndim(y) != 1:
            raise ParameterError(f"y={shown(y)} holds no labels", hint="give a list of them")
        elif cells.item is not None:
            truth = np.asarray(y).astype(np.int64)
        else:
            labels = read_records({self.target: y}, self._domain, [self.target])
            truth = assigned(labels, [cells])[0]
        return Quality(
            tuple(self.classes_.tolist()), truth, probabilities.argmax(axis=1), probabilities
        )

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise EstimationError(
                f"this {type(self).__name__} has learned nothing yet", hint="call fit(source) first"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know of an estimator."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(categorical=True, string=True),
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; a name it does not know is an error."""
        changed = type(self)(**{**self.get_params(), **parameters})
        for name in parameters:
            setattr(self, name, getattr(changed, name))
        return self

    def view(self) -> View:
        """What was learned, if anything."""
        if self.__sklearn_is_fitted__():
            return self._learned()
        stated = [*self.get_params().items()]
        nothing = ("it has learned nothing yet: fit(source)",)
        return View(type(self).__name__, nothing, facts=stated)

    def to_arrow(self) -> Any:
        """What was learned as an Arrow table."""
        self._check_fitted()
        return super().to_arrow()

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        stated = {
            name: value
            for name, value in self.get_params().items()
            if value is not defaults[name].default
        }
        settings = ", ".join(f"{name}={value!r}" for name, value in stated.items())
        return f"{type(self).__name__}({settings})"


def mixture_posterior(
    table: Table, cells: Sequence[Cells], shares: NDArray[Any], columns: Sequence[NDArray[Any]]
) -> NDArray[np.float64]:  # (records, groups)
    """The probability that each perturbed record belongs to each group of people, given its report
    (Bayes' rule).

    `columns[j]` has one row a group: the distribution of column j among the people in it, columns
    independent within a group. The reports that one record made are independent given the truth.
    """
    assert table.provenance is not None
    mechanism, copies = table.provenance.mechanism, table.copies
    for part in cells:
        if plain(mechanism.domain[part.attribute.name]) != plain(part.attribute):
            raise DataError(
                f"'{part.attribute.name}' was perturbed over other values than the classifier was "
                "trained on"
            )
    logs = mechanism.likelihood(table.columns, cells, columns, shares)
    logs = logs.reshape(-1, copies, logs.shape[1]).sum(axis=1)
    with np.errstate(divide="ignore"):
        logs = logs + np.log(shares)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def figures(shares: Sequence[Answer], people: Sequence[Answer]) -> list[ColumnView]:
    """Shares and numbers of people with their errors, as programs read them."""
    low, high = zip(*(each.interval() for each in people), strict=True)
    parts = {
        "share": [each.value for each in shares],
        "share_stderr": [each.stderr for each in shares],
        "count": [each.value for each in people],
        "count_stderr": [each.stderr for each in people],
        "count_low": low,
        "count_high": high,
    }
    return [ColumnView("", part, field=name, kind="double") for name, part in parts.items()]


def share_column(head: str, shares: Sequence[Answer]) -> ColumnView:
    """Shares with their errors, and the intervals as far as shares go."""
    intervals = (each.interval() for each in shares)
    return ColumnView(
        head,
        [each.value for each in shares],
        [each.stderr for each in shares],
        words="{:.3f}".format,
        ends=[(max(low, 0.0), min(high, 1.0)) for low, high in intervals],
    )


def _rows(data: Any) -> int:
    table = data if isinstance(data, Table) else getattr(data, "table", None)
    if isinstance(table, Table):
        return table.rows // table.copies
    if isinstance(data, dict):
        return len(next(iter(data.values()))) if data else 0
    if not isinstance(data, Sized) or isinstance(data, str | bytes):
        raise ParameterError(f"{shown(data)} holds no records", hint=RECORDS)
    return len(data)
