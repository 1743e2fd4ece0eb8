"""How likely each confidential value is for a record, given its keys: the price list of a swap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import shown
from sfumato.domain import Codes
from sfumato.errors import MissingExtraError, ParameterError
from sfumato.publish.limits import ROWS_AT_ONCE

# Of the codes of the keys, those of the confidential column, its values, and the rows wanted.
Conditional = Callable[[Sequence[Codes], Codes, int, NDArray[np.integer]], NDArray[np.float64]]


def simple_bayes(
    keys: Sequence[Codes],
    codes: Codes,
    values: int,
    rows: NDArray[np.integer],
    *,
    pseudo_count: float = 0.0,
) -> NDArray[np.float64]:  # (len(rows), values)
    """Posteriors p(y | x) ∝ p(y) ∏ p(x_j | y), frequencies over all records (Li and Sarkar 2004,
    eq. 10).

    The paper uses raw frequencies, `pseudo_count` 0; Laplace's rule is 1.
    """
    counts = np.bincount(codes, minlength=values).astype(np.float64)
    with np.errstate(divide="ignore"):  # a value that nobody has is impossible
        prior = np.log(counts / counts.sum())
    tables = [_log_likelihood(column, codes, values, pseudo_count) for column in keys]
    posterior = np.empty((len(rows), values))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        chunk = rows[start : start + ROWS_AT_ONCE]
        logs = np.broadcast_to(prior, (len(chunk), values)).copy()
        for column, table in zip(keys, tables, strict=True):
            logs += table[column[chunk]]
        logs -= logs.max(axis=1, keepdims=True)
        np.exp(logs, out=logs)
        posterior[start : start + ROWS_AT_ONCE] = logs / logs.sum(axis=1, keepdims=True)
    return posterior


def smoothed_tree(
    keys: Sequence[Codes],
    codes: Codes,
    values: int,
    rows: NDArray[np.integer],
    *,
    pseudo_count: float = 2.0,
    folds: int = 5,
    leaf: int = 20,
) -> NDArray[np.float64]:  # (len(rows), values)
    """Posteriors of a decision tree that has not seen the record, its leaves pulled towards the
    marginal.

    Cross-fitting keeps a record's own value out of its posterior; a leaf with n records of which
    n_y have value y gives (n_y + m·p(y)) / (n + m), m = `pseudo_count` (the m-estimate of Cestnik
    1990).
    """
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise MissingExtraError("the tree posterior needs scikit-learn", extra="learn") from None

    features = np.stack(keys, axis=1)
    prior = np.bincount(codes, minlength=values) / len(codes)
    posterior = np.empty((len(codes), values))
    # Row number modulo the folds: no draw is needed, and the result depends on the data alone.
    fold = np.arange(len(codes)) % folds
    for held_out in range(folds):
        train = fold != held_out
        tree = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=0).fit(
            features[train], codes[train]
        )
        leaves = np.zeros((tree.tree_.node_count, values))
        np.add.at(leaves, (tree.apply(features[train]), codes[train]), 1.0)
        leaves = (leaves + pseudo_count * prior) / (
            leaves.sum(axis=1, keepdims=True) + pseudo_count
        )
        posterior[~train] = leaves[tree.apply(features[~train])]
    return posterior[rows]


CONDITIONALS: dict[str, Conditional] = {"bayes": simple_bayes, "tree": smoothed_tree}


def conditional_named(name: str) -> Conditional:
    """The conditional model with this name."""
    if not isinstance(name, str) or name not in CONDITIONALS:
        raise ParameterError(
            f"no conditional model {shown(name)}", hint=f"use one of {', '.join(CONDITIONALS)}"
        )
    return CONDITIONALS[name]


def _log_likelihood(
    key: Codes, codes: Codes, values: int, pseudo_count: float
) -> NDArray[np.float64]:  # (values of the key, values)
    smoothed = pair_counts(key, codes, int(key.max()) + 1, values) + pseudo_count
    with np.errstate(divide="ignore"):
        likelihood: NDArray[np.float64] = np.log(
            smoothed / np.maximum(smoothed.sum(axis=0), 1e-300)
        )
    return likelihood


def pair_counts(first: Codes, second: Codes, rows: int, columns: int) -> NDArray[np.int64]:
    """How many records have each pair of codes of two columns, of so many values each."""
    pairs = first.astype(np.int64) * columns + second
    return np.bincount(pairs, minlength=rows * columns).reshape(rows, columns)
