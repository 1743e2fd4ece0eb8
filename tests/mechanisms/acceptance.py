"""The statistical judges of the contract suite: each returns the probability of a deviation this
large by chance.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

REJECT = 1e-6  # a true distribution is rejected for less than one seed in a million


def fit(observed: np.ndarray, expected: np.ndarray) -> float:
    """Chi-square p-value of counts against expected counts, column by column; sparse cells of a
    column are pooled.

    Both have shape (reports, truths), and each column of `expected` sums to that of `observed`. A
    report that cannot occur and did gives 0.
    """
    if observed[expected <= 0].any():
        return 0.0
    statistic, freedom = 0.0, 0
    for counts, means in zip(observed.T, expected.T, strict=True):
        counts, means = _pooled(counts, means)
        statistic += float(((counts - means) ** 2 / means).sum())
        freedom += len(means) - 1
    return float(stats.chi2.sf(statistic, freedom)) if freedom > 0 else 1.0


def _pooled(
    counts: np.ndarray, means: np.ndarray, least: float = 10.0
) -> tuple[np.ndarray, np.ndarray]:
    """The cells that may occur, those with a small mean added up into one."""
    counts, means = counts[means > 0], means[means > 0]
    small = means < least
    if not small.any() or small.all():
        return (
            (counts, means)
            if not small.any()
            else (counts.sum(keepdims=True), means.sum(keepdims=True))
        )
    counts = np.append(counts[~small], counts[small].sum())
    return counts, np.append(means[~small], means[small].sum())


def independence(left: np.ndarray, right: np.ndarray) -> float:
    """Chi-square p-value of "these two columns of codes are independent"."""
    table = np.zeros((int(left.max()) + 1, int(right.max()) + 1))
    np.add.at(table, (left, right), 1)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return 1.0
    return float(stats.chi2_contingency(table, correction=False).pvalue)


def lag_correlation(values: np.ndarray, lag: int) -> float:
    """Two-sided p-value of "values `lag` rows apart are uncorrelated"."""
    centred = values - values.mean()
    spread = float(centred @ centred)
    if spread == 0:
        return 1.0
    correlation = float(centred[:-lag] @ centred[lag:]) / spread
    return float(2 * stats.norm.sf(abs(correlation) * np.sqrt(len(values) - lag)))
