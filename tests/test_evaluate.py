"""Errors of mined itemsets against figures counted by hand, and by pandas."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Domain, Items
from sfumato.errors import DataError
from sfumato.evaluate import LengthErrors, itemset_errors, true_supports
from sfumato.release import Exact
from sfumato.table import Table

ROWS = 400


def baskets(labels: tuple[str, ...], dense: np.ndarray) -> Exact:
    return Exact(Table(Domain((Items("items", labels),)), (Bits.from_dense(dense),)))


def dense(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = rng.random(ROWS) < 0.4
    return rng.random((ROWS, 5)) < np.where(kind[:, None], 0.7, 0.2)


def test_errors_by_length_are_those_of_sets_counted_by_hand() -> None:
    first, second = dense(1), dense(2)
    found, truth = (
        sf.frequent_itemsets(baskets(tuple("abcde"), each), min_support=0.2)
        for each in (first, second)
    )

    def frequent(table: np.ndarray) -> dict[tuple[int, ...], float]:
        supports = {
            items: table[:, items].all(axis=1).mean()
            for length in range(1, 6)
            for items in combinations(range(5), length)
        }
        return {items: support for items, support in supports.items() if support >= 0.2}

    ours, theirs = frequent(first), frequent(second)
    for line in itemset_errors(found, truth):
        mine, true = (
            {s: v for s, v in each.items() if len(s) == line.length} for each in (ours, theirs)
        )
        away = [abs(mine[s] - true[s]) / true[s] for s in mine.keys() & true.keys()]
        assert (line.frequent, line.found) == (len(true), len(mine))
        assert line.support_error == pytest.approx(100 * np.mean(away)) if away else True
        assert line.false_negatives == pytest.approx(100 * len(true.keys() - mine) / len(true))
        assert line.false_positives == pytest.approx(100 * len(mine.keys() - true) / len(true))


def test_lengths_that_only_one_side_has_have_no_share() -> None:
    many, few = (
        baskets(("a", "b"), np.ones((4, 2), dtype=bool)),
        baskets(("a", "b"), np.eye(4, 2) > 0),
    )
    found = itemset_errors(
        sf.frequent_itemsets(many, min_support=0.2), sf.frequent_itemsets(few, min_support=0.2)
    )
    assert found[1] == LengthErrors(2, 0, 1, None, None, None)


@pytest.mark.parametrize("turned", [False, True])
def test_true_supports_are_found_by_name_in_whatever_order(turned: bool) -> None:
    table, labels = dense(3), tuple("abcde")
    order = [4, 2, 0, 3, 1] if turned else list(range(5))
    found = sf.frequent_itemsets(baskets(labels, dense(4)), min_support=0.1)
    truth = baskets(tuple(labels[place] for place in order), table[:, order])
    wanted = [
        table[:, [labels.index(name) for name in items]].all(axis=1).mean() for items in found.items
    ]
    assert true_supports(found, truth) == pytest.approx(wanted)
    nothing = sf.frequent_itemsets(baskets(labels, dense(4)), min_support=1.0)
    assert true_supports(nothing, truth).tolist() == []


def test_an_item_that_the_truth_does_not_have_is_named() -> None:
    found = sf.frequent_itemsets(baskets(tuple("abxde"), dense(1)), min_support=0.2)
    truth = baskets(tuple("abcde"), dense(1))
    with pytest.raises(DataError, match="no item 'x'"):
        true_supports(found, truth)
    with pytest.raises(DataError, match="no item 'x'"):
        itemset_errors(found, sf.frequent_itemsets(truth, min_support=0.2))
