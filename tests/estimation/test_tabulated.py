"""Supports of records from tables: judged by marginals one at a time and by repeated
perturbation.
"""

import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain
from sfumato.estimation.supports.tabulated import TabulatedSupports
from sfumato.randomness import seeded
from sfumato.table import Table

DOMAIN = Domain(
    (Category("a", ("0", "1", "2")), Category("b", ("0", "1")), Category("c", ("0", "1")))
)


def truth(rows: int) -> Table:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, rows)
    b = (rng.random(rows) < 0.3 + 0.2 * a).astype(int)
    c = (rng.random(rows) < 0.4 + 0.4 * b).astype(int)
    return Table(DOMAIN, tuple(column.astype(np.uint8) for column in (a, b, c)))


def covariance(table: sf.Estimate, first: np.ndarray, second: np.ndarray) -> float:
    return float(table.evidence.covariances(first[..., None], second[..., None])[0])


def test_covariances_of_subsets_are_those_of_the_indicators():
    release = sf.perturb(truth(2000), sf.GammaDiagonal(DOMAIN, 10), seeded(1))
    supports = release.supports()
    assert isinstance(supports, TabulatedSupports)
    itemset = np.array([[1, 4, 6]], dtype=np.int32)  # a=1, b=1, c=1
    with_whole, with_rest = supports.covariances(itemset, np.zeros((1, 8)), np.zeros((1, 8)))
    table = release.marginal(["a", "b", "c"])
    whole = table.indicator(a="1", b="1", c="1")
    for subset, values in enumerate(
        [{}, {"a": "1"}, {"b": "1"}, {"a": "1", "b": "1"}, {"c": "1"}, {"a": "1", "c": "1"}]
    ):
        indicator = table.indicator(**values)
        rest = {name: "1" for name in "abc" if name not in values}
        assert np.isclose(with_whole[0, subset], covariance(table, indicator, whole))
        assert np.isclose(
            with_rest[0, subset], covariance(table, indicator, table.indicator(**rest))
        )


@pytest.mark.parametrize(
    "mechanism",
    [sf.GammaDiagonal(DOMAIN, 20), sf.Retention(DOMAIN, 0.5), sf.BitFlip(DOMAIN, 0.9, 0.8)],
)
def test_the_errors_of_rules_are_their_spread(mechanism):
    records, rng = truth(3000), seeded(2)
    found = []
    for _ in range(300):
        release = sf.perturb(records, mechanism, rng)
        rules = sf.association_rules(
            sf.frequent_itemsets(release, 0.01, max_length=2), min_confidence=0.0
        ).to_pandas()
        chosen = rules[
            (rules.antecedents == frozenset({"b=1"})) & (rules.consequents == frozenset({"c=1"}))
        ]
        found.append(chosen.iloc[0])
    for metric in ("support", "confidence", "lift", "leverage"):
        values = np.array([row[metric] for row in found])
        stated = np.sqrt(np.mean([row[f"{metric} stderr"] ** 2 for row in found]))
        assert 0.79 < values.std() / stated < 1.21, metric
