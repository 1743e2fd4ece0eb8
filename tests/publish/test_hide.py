"""Hiding itemsets and rules in baskets: what is hidden, what is lost, what bad input gets."""

from itertools import combinations

import numpy as np
import pytest

from sfumato.bits import Bits
from sfumato.domain import Domain, Items
from sfumato.errors import DataError, FileError, ParameterError
from sfumato.publish.hide import HIDING_METHODS, hide, largest_disclosure
from sfumato.publish.removal import number_to_sanitise
from sfumato.publish.restriction import Limits, Restriction, read_restrictions
from sfumato.randomness import seeded
from sfumato.table import Table

NAMES = tuple("abcdefgh")
MIN_COUNT = 40


def named(bits: Bits, names: str = "abcdefgh") -> Table:
    """The baskets as a table of items with these names."""
    return Table(Domain((Items("items", tuple(names)),)), (bits,))


@pytest.fixture(scope="module")
def baskets() -> Bits:
    """Two thousand baskets with a common core, so that itemsets overlap."""
    rng = np.random.default_rng(5)
    core = rng.random((2000, 1)) < 0.4
    return Bits.from_dense((rng.random((2000, 8)) < 0.25) | (core & (rng.random((2000, 8)) < 0.35)))


def frequent(bits: Bits, min_count: int) -> set[frozenset[str]]:
    """Every frequent itemset by trying all."""
    dense = bits.to_dense()
    found = set()
    for size in range(1, 9):
        for items in combinations(range(8), size):
            if dense[:, items].all(axis=1).sum() >= min_count:
                found.add(frozenset(NAMES[item] for item in items))
    return found


SECRET = (Restriction((0, 1)), Restriction((1, 2, 3)), Restriction((4, 5)))


@pytest.mark.parametrize("method", HIDING_METHODS)
def test_every_method_hides_and_the_report_says_what_a_slow_miner_says(
    baskets: Bits, method: str
) -> None:
    release = hide(named(baskets), SECRET, min_count=MIN_COUNT, method=method, rng=seeded(1))
    report = release.report
    before, after = frequent(baskets, MIN_COUNT), frequent(release.bits, MIN_COUNT)
    secret = [frozenset(NAMES[item] for item in restriction.items) for restriction in SECRET]
    lawful = {items for items in before if not any(part <= items for part in secret)}
    assert not any(items in after for items in secret)
    assert report.hiding_failure == 0
    assert report.misses_cost == pytest.approx(len(lawful - after) / len(lawful))
    assert {frozenset(items) for items in report.lost} == lawful - after
    assert report.artifactual == 0
    gone = baskets.to_dense().sum() - release.bits.to_dense().sum()
    assert report.removed == gone and report.dissimilarity == pytest.approx(
        gone / baskets.to_dense().sum()
    )
    assert (
        report.changed_transactions
        == (baskets.to_dense() != release.bits.to_dense()).any(axis=1).sum()
    )


def test_cover_loses_least(baskets: Bits) -> None:
    cost = {
        m: hide(
            named(baskets), SECRET, min_count=MIN_COUNT, method=m, rng=seeded(1)
        ).report.misses_cost
        for m in HIDING_METHODS
    }
    assert cost["cover"] <= min(cost.values())


def test_cover_stops_just_below_the_threshold(baskets: Bits) -> None:
    report = hide(named(baskets), SECRET, min_count=MIN_COUNT, rng=seeded(1)).report
    assert max(pattern.count_after for pattern in report.patterns) == MIN_COUNT - 1


def test_disclosure_leaves_its_share_alone(baskets: Bits) -> None:
    for method in ("minfia", "cover"):
        report = hide(
            named(baskets),
            [SECRET[0]],
            min_count=MIN_COUNT,
            method=method,
            disclosure=0.05,
            rng=seeded(1),
        ).report
        pattern = report.patterns[0]
        assert pattern.count_after == pattern.count_before - number_to_sanitise(
            pattern.count_before, 0.05
        )


def test_too_much_disclosure_is_a_hiding_failure_and_the_largest_safe_one_is_not(
    baskets: Bits,
) -> None:
    safe = largest_disclosure(baskets, SECRET, Limits(MIN_COUNT))
    assert (
        hide(
            named(baskets), SECRET, min_count=MIN_COUNT, method="minfia", disclosure=safe
        ).report.hiding_failure
        == 0
    )
    assert (
        hide(
            named(baskets), SECRET, min_count=MIN_COUNT, method="minfia", disclosure=0.9
        ).report.hiding_failure
        > 0
    )


def test_naive_leaves_no_basket_empty() -> None:
    bits = Bits.from_dense(
        np.array([[1, 1, 0]] * 5 + [[1, 1, 1]] * 5 + [[1, 0, 0]] * 3, dtype=bool)
    )
    released = hide(
        named(bits, "abc"), [Restriction((0, 1))], min_count=3, method="naive", rng=seeded(1)
    ).bits
    assert released.sizes().min() == 1
    assert not (released.to_dense()[:, :2].all(axis=1)).any()


def rules_baskets(both: int, only_left: int, only_right: int, neither: int) -> Bits:
    """Baskets over A B C and a fourth item, with A and B always together."""
    kinds = [
        ([1, 1, 1, 0], both),
        ([1, 1, 0, 0], only_left),
        ([0, 0, 1, 0], only_right),
        ([0, 0, 0, 1], neither),
    ]
    return Bits.from_dense(
        np.array([row for row, times in kinds for _ in range(times)], dtype=bool)
    )


@pytest.mark.parametrize(
    ("both", "only_left", "only_right"),
    [(80, 10, 5), (80, 10, 60), (80, 0, 79)],
    ids=["removal is enough", "removal would hide the reverse", "reverse barely holds"],
)
def test_a_rule_is_hidden_and_its_reverse_stays(both: int, only_left: int, only_right: int) -> None:
    bits = rules_baskets(both, only_left, only_right, 300)
    report = hide(
        named(bits, "ABCD"),
        [Restriction((0, 1), (2,))],
        min_count=20,
        min_confidence=0.5,
        rng=seeded(1),
    ).report
    rule = report.patterns[0]
    assert rule.confidence_before is not None and rule.confidence_before >= 0.5
    assert rule.confidence_after is not None and rule.confidence_after < 0.5
    assert rule.reverse_after is not None and rule.reverse_after >= 0.5
    assert rule.count_after >= 20
    assert report.hiding_failure == 0 and report.misses_cost == 0


def test_a_rule_whose_itemset_is_rare_is_already_hidden() -> None:
    release = hide(
        named(rules_baskets(10, 0, 0, 50), "ABCD"),
        [Restriction((0,), (2,))],
        min_count=20,
        min_confidence=0.5,
    )
    assert release.report.removed == 0
    assert "not found even in the true baskets" in release.report.notes[0]


def test_patterns_are_read_with_remarks_and_both_arrows() -> None:
    lines = ["# secret", "a b", "", "b,c => d", "a b   # again"]
    assert read_restrictions(lines, "abcd") == (Restriction((0, 1)), Restriction((1, 2), (3,)))


@pytest.mark.parametrize("line", ["a ->", "a -> b -> c", "-> b", "a b -> b"])
def test_a_line_that_is_no_pattern_is_named(line: str) -> None:
    with pytest.raises(DataError, match="line 1"):
        read_restrictions([line], "abc")


def test_bad_input_is_refused_in_the_callers_words(baskets: Bits) -> None:
    with pytest.raises(DataError, match=r"item 'z' never occurs"):
        read_restrictions(["a z"], NAMES)
    with pytest.raises(FileError, match="names no pattern"):
        read_restrictions(["# nothing"], NAMES)
    apart = Bits.from_dense(np.array([[1, 0], [0, 1]], dtype=bool))
    with pytest.raises(DataError, match=r"never occur in these baskets: a b"):
        hide(named(apart, "ab"), [Restriction((0, 1))], min_count=1)
    with pytest.raises(ParameterError, match="no hiding method 'magic'"):
        hide(named(baskets), SECRET, min_count=MIN_COUNT, method="magic")
    with pytest.raises(ParameterError, match="outside"):
        hide(named(baskets), SECRET, min_count=MIN_COUNT, disclosure=1.5)
    with pytest.raises(ParameterError, match="confidence"):
        hide(named(baskets), [Restriction((0,), (1,))], min_count=MIN_COUNT)
