"""Errors of supports against those of their cells, counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from papers.accuracy import support_accuracy
from sfumato.domain import Category, Domain
from sfumato.randomness import seeded
from sfumato.release import Exact
from sfumato.table import Table


@pytest.mark.parametrize("level", [0.95, 0.5])
def test_the_accuracy_of_supports_is_that_of_their_cells(level: float) -> None:
    domain = Domain((Category("a", tuple("xyz")), Category("b", tuple("pq"))))
    rng = np.random.default_rng(5)
    columns = rng.choice(3, 5000, p=[0.6, 0.3, 0.1]), rng.integers(0, 2, 5000)
    truth = Exact(Table(domain, columns))
    release = sf.perturb(truth.table, sf.GammaDiagonal(domain, 9), rng=seeded(2))
    found = support_accuracy(release, truth, [("a",), ("b",), ("a", "b")], 0.1, level=level)
    assert [line.length for line in found] == [1, 2]
    estimate, true = release.marginal(["a", "b"]), truth.marginal(["a", "b"]).value
    frequent = true >= 500
    away, true = np.abs(estimate.value - true)[frequent], true[frequent]
    reach = {0.95: 1.959964, 0.5: 0.674490}[level]
    assert found[1].itemsets == frequent.sum() == 4
    assert found[1].error == pytest.approx(100 * (away / true).mean())
    assert found[1].covered == pytest.approx(
        100 * (away <= reach * estimate.stderr[frequent]).mean()
    )
    assert support_accuracy(release, truth, [("a", "b")], 0.9) == []


def test_a_support_of_exactly_the_threshold_is_frequent() -> None:
    domain = Domain((Category("a", tuple("xyz")),))
    truth = Exact(Table(domain, (np.repeat([0, 1, 2], [500, 400, 100]),)))
    release = sf.perturb(truth.table, sf.GammaDiagonal(domain, 9), rng=seeded(2))
    (found,) = support_accuracy(release, truth, [("a",)], 0.1)
    assert found.itemsets == 3
