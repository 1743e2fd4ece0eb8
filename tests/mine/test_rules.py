"""Rules have mlxtend's columns and values, and standard errors that repeated
perturbation confirms.
"""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from sfumato.bits import Bits
from sfumato.errors import ParameterError
from sfumato.estimation.supports.flipped import FlippedSupports
from sfumato.mine.itemsets import Itemsets, frequent_itemsets
from sfumato.mine.rules import ABOVE_ONE, Rules, association_rules
from sfumato.release import Exact
from sfumato.table import read

NAMES = tuple("abcde")
# The columns of mlxtend.frequent_patterns.association_rules, in its order.
COLUMNS = [
    "antecedents",
    "consequents",
    "antecedent support",
    "consequent support",
    "support",
    "confidence",
    "lift",
    "representativity",
    "leverage",
    "conviction",
    "zhangs_metric",
    "jaccard",
    "certainty",
    "kulczynski",
]


def baskets(rows: int = 400) -> np.ndarray:
    generator = np.random.default_rng(8)
    taste = generator.random((rows, 1)) < 0.4
    return generator.random((rows, len(NAMES))) < np.where(taste, 0.75, 0.25)


def mined(dense: np.ndarray, keep: float = 1.0, min_support: float = 0.1) -> Itemsets:
    return frequent_itemsets(
        FlippedSupports(Bits.from_dense(dense), NAMES, keep, keep), min_support
    )


def flipped(dense: np.ndarray, keep: float, seed: int) -> np.ndarray:
    return dense ^ (np.random.default_rng(seed).random(dense.shape) >= keep)


def by_name(rules: Rules) -> dict[tuple[tuple[str, ...], tuple[str, ...]], int]:
    return {
        pair: row for row, pair in enumerate(zip(rules.antecedents, rules.consequents, strict=True))
    }


def test_every_rule_of_exact_baskets() -> None:
    dense = baskets()
    itemsets = mined(dense)
    rules = association_rules(itemsets, min_confidence=0.6)
    found = by_name(rules)
    support = {items: value for items, value in zip(itemsets.items, itemsets.support, strict=True)}
    expected = set()
    for items in itemsets.items:
        for size in range(1, len(items)):
            for ifs in combinations(items, size):
                thens = tuple(item for item in items if item not in ifs)
                if support[items] / support[ifs] >= 0.6:
                    expected.add((ifs, thens))
    assert set(found) == expected and len(expected) > 20
    for (ifs, thens), row in found.items():
        a, c, both = support[ifs], support[thens], support[tuple(sorted(ifs + thens))]
        values = {name: column[row] for name, column in rules.metrics.items()}
        assert values["confidence"] == pytest.approx(both / a)
        assert values["lift"] == pytest.approx(both / (a * c))
        assert values["leverage"] == pytest.approx(both - a * c)
        assert values["conviction"] == pytest.approx((1 - c) / (1 - both / a))
        assert values["zhangs_metric"] == pytest.approx(
            (both - a * c) / max(both * (1 - a), a * (c - both))
        )
        assert values["jaccard"] == pytest.approx(both / (a + c - both))
        assert values["certainty"] == pytest.approx((both / a - c) / (1 - c))
        assert values["kulczynski"] == pytest.approx((both / a + both / c) / 2)
    assert all(not column.any() for column in rules.stderr.values())


@pytest.mark.parametrize(
    ("least", "part", "whole"),
    [(0.8, 16, 20), (0.8, 28, 35), (0.7, 7, 10), (0.6, 3, 5), (0.9, 9, 10), (0.55, 11, 20)],
)
def test_a_rule_at_exactly_the_threshold_is_found(least: float, part: int, whole: int) -> None:
    """16 of 20 reach 0.8, in a data set of any size: counts decide, and no rounded ratio."""
    for rows in (whole, 43, 977, 9835):
        dense = np.zeros((max(rows, whole), 5), dtype=bool)
        dense[:whole, 0] = True
        dense[:part, 1] = True
        found = by_name(association_rules(mined(dense, min_support=1e-5), min_confidence=least))
        assert (("a",), ("b",)) in found
        dense[0, 1] = False  # one fewer does not
        found = by_name(association_rules(mined(dense, min_support=1e-5), min_confidence=least))
        assert (("a",), ("b",)) not in found


def test_rules_of_public_baskets_are_those_of_whole_numbers(data_dir: Path) -> None:
    """With one item after the arrow, as in the walk-through of arules: every rule whose counts
    reach the threshold as fractions.
    """
    source = Exact(read(data_dir / "mushroom.dat.gz"))
    itemsets = frequent_itemsets(source, 0.3)
    counts = {
        frozenset(items): round(count)
        for items, count in zip(itemsets.items, itemsets.count, strict=True)
    }
    least = Fraction(8, 10)
    expected = set()
    for items, count in counts.items():
        for item in items if len(items) > 1 else ():
            confidence = Fraction(count, counts[items - {item}])
            if confidence >= least:
                expected.add((items - {item}, item))
    rules = association_rules(itemsets, min_confidence=0.8, max_consequents=1)
    found = {
        (frozenset(ifs), then)
        for ifs, (then,) in zip(rules.antecedents, rules.consequents, strict=True)
    }
    assert found == expected and len(found) == len(rules) > 1000


def test_a_rule_without_exception_has_infinite_conviction() -> None:
    dense = np.zeros((10, 5), dtype=bool)
    dense[:4, :2] = True
    rules = association_rules(mined(dense))
    assert rules.antecedents == [("a",), ("b",)]
    assert np.isinf(rules.metrics["conviction"]).all()
    assert rules.to_dicts()[0]["conviction"] is None


def test_an_endless_conviction_has_no_standard_error() -> None:
    """Of an estimated confidence above 1 it was null ± 0.2."""
    dense = np.zeros((2000, 5), dtype=bool)
    dense[:800, :2] = True
    rules = association_rules(mined(flipped(dense, 0.8, 3), 0.8, 0.05), min_confidence=0.5)
    endless = np.isinf(rules.metrics["conviction"])
    assert endless.any() and np.isnan(rules.stderr["conviction"][endless]).all()
    assert np.isfinite(rules.stderr["conviction"][~endless]).all()


def test_standard_errors_by_repeated_perturbation() -> None:
    dense, keep, repeats = baskets(4000), 0.9, 400
    wanted = [(("a",), ("b",)), (("a", "c"), ("e",)), (("b",), ("c", "d"))]
    drawn: dict[tuple[object, str], list[tuple[float, float]]] = {}
    for seed in range(repeats):
        rules = association_rules(
            mined(flipped(dense, keep, seed), keep, 0.05), min_confidence=0.01
        )
        rows = by_name(rules)
        for pair in wanted:
            for name in ("support", "confidence", "lift", "leverage", "conviction"):
                entry = rules.metrics[name][rows[pair]], rules.stderr[name][rows[pair]]
                drawn.setdefault((pair, name), []).append(entry)
    exact_rules = association_rules(mined(dense, min_support=0.05), min_confidence=0.01)
    exact_rows = by_name(exact_rules)
    for (pair, name), entries in drawn.items():
        values, errors = np.array(entries).T
        # The spread of an empirical standard deviation is 1/sqrt(2 · 400) = 3.5 % of it.
        assert np.sqrt((errors**2).mean()) == pytest.approx(values.std(), rel=0.18), (pair, name)
        truth = exact_rules.metrics[name][exact_rows[pair]]
        score = np.abs(values - truth) / errors
        assert (score < 1.96).mean() > 0.89, (pair, name)


def test_metric_and_threshold_select() -> None:
    itemsets = mined(baskets())
    everything = association_rules(itemsets, "support", 0.0)
    for metric, threshold in (
        ("lift", 2.0),
        ("leverage", 0.08),
        ("conviction", 2.0),
        ("jaccard", 0.4),
    ):
        chosen = association_rules(itemsets, metric, threshold)
        assert 0 < len(chosen) < len(everything)
        # Two rules have a leverage of 0.08 that doubles write as 0.07999….
        assert len(chosen) == (everything.metrics[metric] >= threshold - 1e-12).sum()
    single = association_rules(itemsets, "support", 0.0, max_consequents=1)
    assert {len(thens) for thens in single.consequents} == {1}
    assert len(single) == sum(len(thens) == 1 for thens in everything.consequents)


def test_level_keeps_the_sure_rules() -> None:
    itemsets = mined(flipped(baskets(), 0.95, 1), 0.95)
    plain, sure = (association_rules(itemsets, "lift", 1.7, level=level) for level in (None, 0.95))
    assert 0 < len(sure) < len(plain)
    assert (sure.metrics["lift"] - 1.64 * sure.stderr["lift"] > 1.7).all()


def test_a_confidence_above_one_is_kept_and_marked() -> None:
    """A quotient of two estimates: it is unbiased, and no share."""
    implied = association_rules(mined(flipped(baskets(), 0.75, 5), keep=0.75), min_confidence=0.1)
    above = implied.metrics["confidence"] > 1.001
    assert above.any() and not above.all()
    assert implied.view().notes == (ABOVE_ONE,) and ABOVE_ONE in implied._repr_html_()
    share = implied.take(implied.metrics["confidence"] < 1)
    assert share.view().notes == () and ABOVE_ONE not in repr(share)


def test_strongest_first() -> None:
    rules = association_rules(mined(baskets()), min_confidence=0.5).strongest("lift")
    assert (np.diff(rules.metrics["lift"]) <= 0).all()


def test_table_forms_agree() -> None:
    rules = association_rules(mined(flipped(baskets(), 0.95, 2), 0.95), min_confidence=0.5)
    frame, table = rules.to_pandas(), rules.to_arrow()
    assert list(frame.columns)[: len(COLUMNS)] == COLUMNS
    assert list(frame.columns) == table.column_names
    assert "confidence stderr" in table.column_names and "lift stderr" in table.column_names
    assert [frozenset(ifs) for ifs in table["antecedents"].to_pylist()] == list(
        frame["antecedents"]
    )
    lines = list(csv.DictReader(io.StringIO(rules.to_csv())))
    assert (
        lines[0]["rules"]
        == f"{{{','.join(rules.antecedents[0])}}} => {{{','.join(rules.consequents[0])}}}"
    )
    parsed = json.loads(rules.to_json())["rules"]
    assert len(parsed) == len(lines) == len(rules) == len(frame)
    assert set(parsed[0]) >= {"if", "then", "support", "confidence", "lift", "stderr"}
    assert parsed[0]["stderr"]["confidence"] == pytest.approx(rules.stderr["confidence"][0])


def test_no_rules_and_bad_options() -> None:
    itemsets = mined(baskets(), min_support=0.1)
    assert len(association_rules(itemsets, min_confidence=1.0)) == 0
    assert association_rules(itemsets, min_confidence=1.0).to_arrow().num_rows == 0
    nothing = association_rules(mined(np.zeros((10, 5), dtype=bool)))
    assert len(nothing) == 0 and nothing.consequents == [] and len(nothing.to_pandas()) == 0
    with pytest.raises(ParameterError, match="did you mean 'confidence'"):
        association_rules(itemsets, "confidense")
    with pytest.raises(ParameterError, match="max_rules=10"):
        association_rules(itemsets, max_rules=10)
    with pytest.raises(ParameterError, match="level=2"):
        association_rules(itemsets, level=2)
