"""How likely each confidential value is for a record, given its keys: the price list of a swap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes
from sfumato.publish.limits import ROWS_AT_ONCE


def simple_bayes(
    keys: Sequence[Codes],
    codes: Codes,
    values: int,
    rows: NDArray[np.integer],
) -> NDArray[np.float64]:  # (len(rows), values)
    """Posteriors p(y | x) ∝ p(y) ∏ p(x_j | y), frequencies over all records (Li and Sarkar 2004,
    eq. 10): naive Bayes, as the paper has it without smoothing.
    """
    counts = np.bincount(codes, minlength=values).astype(np.float64)
    with np.errstate(divide="ignore"):  # a value that nobody has is impossible
        prior = np.log(counts / counts.sum())
        tables = [
            np.log(pair_counts(key, codes, int(key.max()) + 1, values) / np.maximum(counts, 1))
            for key in keys
        ]
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


def pair_counts(first: Codes, second: Codes, rows: int, columns: int) -> NDArray[np.int64]:
    """How many records have each pair of codes of two columns, of so many values each."""
    pairs = first.astype(np.int64) * columns + second
    return np.bincount(pairs, minlength=rows * columns).reshape(rows, columns)
