"""Errors of model answers, judged by answering again."""

from __future__ import annotations

import numpy as np
from tests.model.problems import SHAPE, TRUTH, answers, likelihood

from sfumato.model.fitting import fit
from sfumato.model.laplace import TRIALS, Laplace
from sfumato.model.loglinear import Likelihood


def test_intervals_cover_what_they_say() -> None:
    """100 releases of 6,000 people: 95 % intervals of every cell of every marginal."""
    rng, inside, ratio = np.random.default_rng(12), [], []
    for _ in range(100):
        law = Laplace(fit(likelihood(answers(6000, rng), 3)))
        for axes in ((1,), (0, 1), (1, 2), (0, 1, 2)):
            rest = tuple(axis for axis in range(3) if axis not in axes)
            truth = TRUTH.reshape(SHAPE).sum(axis=rest).ravel()
            found = law.marginal(axes)
            error = np.sqrt((found.spread**2).sum(axis=0))
            inside.append((np.abs(found.share - truth) <= 1.96 * error).mean())
            ratio.append((((found.share - truth) / error) ** 2).mean())
    assert 0.93 < np.mean(inside) < 0.98
    assert 0.85 < np.sqrt(np.mean(ratio)) < 1.1


def test_errors_of_sums_follow_from_the_spread() -> None:
    law = Laplace(fit(likelihood(answers(6000, np.random.default_rng(1)), 2)))
    pair, single = law.marginal((0, 1)), law.marginal((0,))
    np.testing.assert_allclose(pair.share.reshape(2, 3).sum(axis=1), single.share)
    summed = pair.spread.reshape(-1, 2, 3).sum(axis=2)
    np.testing.assert_allclose(summed.T @ summed, single.spread.T @ single.spread, atol=1e-12)
    assert np.abs(pair.spread.sum(axis=1)).max() < 1e-9  # shares sum to 1, so that has no error


def test_pairs_alone_leave_three_columns_open() -> None:
    """Without questions about three columns the error of a triple is that of the floor as well."""
    reports = answers(200_000, np.random.default_rng(1))
    both = likelihood(reports, 2)
    told = reports.measurements((0, 1, 2))
    pairs = Likelihood.of(both.family, [part for part in told if len(part.axes) < 3])
    with_triples = Laplace(fit(both)).marginal((0, 1, 2)).spread
    without = Laplace(fit(pairs)).marginal((0, 1, 2)).spread
    assert (without**2).sum() > 1.5 * (with_triples**2).sum()


def test_shares_that_few_reports_leave_open_are_not_called_small() -> None:
    """Twenty people: the law found is far out, where slopes alone would say that little can move;
    what lies beyond them is counted too.
    """
    rng, true = np.random.default_rng(3), TRUTH.reshape(SHAPE).sum(axis=2).ravel()
    stated, slopes = [], []
    for _ in range(40):
        found = Laplace(fit(likelihood(answers(20, rng), 2))).marginal((0, 1))
        for z, rows in ((stated, found.spread), (slopes, found.spread[:-TRIALS])):
            z.append(np.abs(found.share - true) / np.sqrt((rows**2).sum(axis=0)))
    assert np.mean(np.array(stated) < 1.96) > 0.93 and np.max(stated) < 8
    assert np.mean(np.array(slopes) < 1.96) < 0.92 and np.max(slopes) > 8
