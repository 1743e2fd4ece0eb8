"""The miner finds exactly what the established miners find, and says how sure it is where it
cannot.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from sfumato.bits import Bits
from sfumato.domain import Domain, Items
from sfumato.errors import ParameterError
from sfumato.estimation.supports.flipped import FlippedSupports
from sfumato.estimation.supports.supports import Measured
from sfumato.mine import limits
from sfumato.mine.itemsets import Itemsets, frequent_itemsets
from sfumato.mine.rules import association_rules
from sfumato.mine.search import Level, Threshold, Tier
from sfumato.privacy.guarantee import Guarantee
from sfumato.release import Exact
from sfumato.table import Table

NAMES = tuple("abcdefgh")


def baskets(rows: int = 300, seed: int = 4) -> np.ndarray:
    """Items that occur together more often than by chance."""
    generator = np.random.default_rng(seed)
    taste = generator.random((rows, 1)) < 0.4
    return generator.random((rows, len(NAMES))) < np.where(taste, 0.7, 0.2)


def exact(dense: np.ndarray) -> FlippedSupports:
    return FlippedSupports(Bits.from_dense(dense), NAMES[: dense.shape[1]])


def perturbed(dense: np.ndarray, keep: float, seed: int) -> FlippedSupports:
    reports = dense ^ (np.random.default_rng(seed).random(dense.shape) >= keep)
    return FlippedSupports(Bits.from_dense(reports), NAMES[: dense.shape[1]], keep, keep)


def by_brute_force(dense: np.ndarray, count: float) -> dict[tuple[str, ...], int]:
    """Every itemset with at least this count."""
    columns = range(dense.shape[1])
    every = (
        itemset
        for length in range(1, len(columns) + 1)
        for itemset in combinations(columns, length)
    )
    counted = {itemset: int(dense[:, list(itemset)].all(axis=1).sum()) for itemset in every}
    return {
        tuple(NAMES[i] for i in itemset): found
        for itemset, found in counted.items()
        if found >= count
    }


def fimi(path: Path) -> tuple[Bits, tuple[str, ...]]:
    with gzip.open(path, "rt") as file:
        lines = [line.split() for line in file]
    ids, codes = np.unique(np.concatenate(lines).astype(np.int64), return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    return Bits.from_csr(offsets, codes, len(ids)), tuple(map(str, ids))


def arules_adult(path: Path) -> tuple[Bits, tuple[str, ...]]:
    """The 115 items of the data set Adult of the R package arules: income is known of the training
    rows only.
    """
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    cuts = {"age": [15, 25, 45, 65], "hours_per_week": [0, 25, 40, 60]}
    for name in ("capital_gain", "capital_loss"):
        values = np.array([float(row[name]) for row in rows])
        cuts[name] = [-np.inf, 0, float(np.median(values[values > 0]))]
    columns = {}
    for name in rows[0]:
        if name in ("fnlwgt", "education_num", "split"):
            continue
        column = np.array([row[name] for row in rows])
        if name == "income":
            column = np.where([row["split"] == "train" for row in rows], column, "?")
        if name in cuts:
            column = np.searchsorted(cuts[name], column.astype(float)).astype(str)
        columns |= {
            f"{name}={value}": column == value for value in np.unique(column) if value != "?"
        }
    return Bits.from_dense(np.stack(list(columns.values()), axis=1)), tuple(columns)


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        ("bms-webview-1", 149, [249, 239, 73, 4]),
        ("bms-webview-1", 298, [150, 45, 6]),
        ("t10i4d100k", 500, [569, 342, 110, 43, 9]),
        ("t10i4d100k", 250, [717, 2661, 2014, 1315, 667, 253, 66, 10]),
        ("retail", 265, [515, 577, 252, 45, 4]),
    ],
)
def test_frequent_itemsets_of_public_baskets(
    data_dir: Path, name: str, count: int, expected: list[int]
) -> None:
    bits, names = fimi(data_dir / f"{name}.dat.gz")
    assert (
        list(frequent_itemsets(FlippedSupports(bits, names), min_count=count).by_length().values())
        == expected
    )


def test_a_fraction_rounds_up(data_dir: Path) -> None:
    found = frequent_itemsets(FlippedSupports(*fimi(data_dir / "bms-webview-1.dat.gz")), 0.0025)
    assert list(found.by_length().values()) == [248, 236, 72, 4]


def test_long_itemsets_of_adult(data_dir: Path) -> None:
    bits, names = arules_adult(data_dir / "adult.csv.gz")
    found = frequent_itemsets(FlippedSupports(bits, names), min_count=977)
    assert bits.items == 115
    assert list(found.by_length().values()) == [
        59,
        586,
        2490,
        5976,
        8774,
        8117,
        4808,
        1847,
        433,
        54,
        2,
    ]


@pytest.mark.parametrize("min_support", [0.02, 0.1, 0.25, 1.0])
def test_exact_result_is_complete(min_support: float) -> None:
    dense = baskets()
    found = frequent_itemsets(exact(dense), min_support)
    assert dict(zip(found.items, found.count, strict=True)) == by_brute_force(
        dense, min_support * len(dense)
    )
    assert (
        not found.stderr.any()
        and (found.probability == 1).all()
        and set(found.status) <= {"surely"}
    )


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = perturbed(baskets(), 0.9, 1)
    whole = frequent_itemsets(source, 0.1)
    monkeypatch.setattr(limits, "CANDIDATES", 3)
    chunked = frequent_itemsets(source, 0.1)
    assert chunked.items == whole.items
    np.testing.assert_array_equal(chunked.support, whole.support)


def test_a_threshold_met_exactly_is_met() -> None:
    dense = np.arange(30)[:, None] < np.array([[3]])
    assert len(frequent_itemsets(exact(dense), 0.1)) == 1  # 0.1 · 30 is 3.0000000000000004


def test_estimates_are_those_of_the_brute_force_sum() -> None:
    dense = baskets(2000)
    source = perturbed(dense, 0.9, 2)
    found = frequent_itemsets(source, 0.05)
    weight = np.where(source.bits.to_dense(), 0.9 / 0.8, -0.1 / 0.8)
    for itemset in found:
        each = weight[:, [NAMES.index(item) for item in itemset.items]].prod(axis=1)
        assert itemset.support == pytest.approx(each.mean())
        assert itemset.stderr == pytest.approx(np.sqrt((each**2).sum() - each.sum()) / 2000)


def test_pruning_by_the_error_bar_reports_no_less() -> None:
    dense = baskets(500)
    strict, wide = (
        frequent_itemsets(perturbed(dense, 0.85, 3), 0.1, prune_errors=errors) for errors in (0, 3)
    )
    assert set(strict.items) < set(wide.items)
    assert (wide.support >= 0.1).all()
    # Below the threshold but inside the error bar: searched for supersets, not reported.
    assert len(wide.kept.length) - 1 > len(wide)


def test_relaxation_adds_what_it_says() -> None:
    dense = baskets(500)
    plain, relaxed = (frequent_itemsets(perturbed(dense, 0.9, 4), 0.1, relax=r) for r in (0.0, 0.3))
    added = relaxed.where(relaxed.status == "relaxed")
    assert set(plain.items) | set(added.items) == set(relaxed.items)
    assert len(added) and ((added.support < 0.1) & (added.support >= 0.07)).all()
    assert set(plain.status) == {"surely", "borderline"}


def test_level_reports_by_probability() -> None:
    source = perturbed(baskets(500), 0.9, 5)
    sure, plain, wary = (
        frequent_itemsets(source, 0.1, level=level) for level in (0.95, None, 0.05)
    )
    assert set(sure.items) < set(plain.items) < set(wary.items)
    assert (sure.probability >= 0.95).all() and (wary.probability >= 0.05).all()
    assert set(sure.items) == {row.items for row in plain if row.status == "surely"}


def test_probability_is_honest() -> None:
    # Of an itemset exactly at the threshold the probability is as often below any level as that
    # level says.
    dense = baskets(2000)
    threshold = dense[:, :2].all(axis=1).mean()
    drawn = []
    for seed in range(500):
        found = frequent_itemsets(
            perturbed(dense[:, :2], 0.9, 100 + seed), threshold, relax=0.9, prune_errors=9
        )
        drawn.append(found.probability[found.items.index(("a", "b"))])
    distance = np.abs(np.sort(drawn) - (np.arange(500) + 0.5) / 500).max()
    limit = np.sqrt(np.log(2 / 1e-6) / (2 * 500))  # Dvoretzky, Kiefer and Wolfowitz
    assert (
        distance
        < limit
        < np.abs(np.sort(np.array(drawn) ** 2) - (np.arange(500) + 0.5) / 500).max()
    )


def test_top_is_the_head_of_the_full_result() -> None:
    dense = baskets()
    everything = frequent_itemsets(exact(dense), min_count=1)
    for number in (1, 10, 60):
        top = frequent_itemsets(exact(dense), top=number)
        assert sorted(top.count) == sorted(everything.count)[-number:]
        assert top.items == everything.top(number).items


def test_maximal_and_closed() -> None:
    dense = baskets()
    dense[:, 1] |= dense[:, 0]
    found = frequent_itemsets(exact(dense), 0.05)
    counts = {frozenset(row): count for row, count in zip(found.items, found.count, strict=True)}
    maximal = {small for small in counts if not any(small < large for large in counts)}
    closed = {
        small
        for small in counts
        if not any(small < large and counts[large] == counts[small] for large in counts)
    }
    assert set(found.maximal().itemsets) == maximal
    assert set(found.closed().itemsets) == closed
    assert maximal < closed < set(counts)


def test_values_of_one_attribute_are_never_joined() -> None:
    class Records(FlippedSupports):
        groups = np.array([0, 0, 1, 1])

    dense = np.ones((5, 4), dtype=bool)
    found = frequent_itemsets(Records(Bits.from_dense(dense), NAMES[:4]), 0.5)
    assert [row for row in found.items if len(row) == 2] == [
        ("a", "c"),
        ("a", "d"),
        ("b", "c"),
        ("b", "d"),
    ]
    assert found.by_length() == {1: 4, 2: 4}


def test_max_length_and_progress() -> None:
    steps: list[Level] = []
    found = frequent_itemsets(exact(baskets()), 0.05, max_length=2, progress=steps.append)
    assert max(found.length) == 2
    assert [step.length for step in steps] == [1, 2]
    assert steps[1] == Level(2, 28, found.by_length()[2])


def test_the_top_of_a_basket_that_everybody_holds_is_found_at_once() -> None:
    """All of its 2³⁰ parts are as frequent: the search went on until 14 million were candidates."""
    domain = Domain((Items("items", tuple(map(str, range(30)))),))
    alike = Exact(Table(domain, (Bits.from_dense(np.ones((50, 30), dtype=bool)),)))
    found = frequent_itemsets(alike, top=64, max_candidates=200_000)
    assert len(found) == 64 and all(each.support == 1 for each in found)


@pytest.mark.parametrize("top", [5, 20, 60])
def test_few_itemsets_of_a_length_are_enough_for_the_top(
    top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    dense = rng.random((80, 12)) < rng.choice([0.3, 0.8], 12)
    truth = Exact(
        Table(Domain((Items("items", tuple("abcdefghijkl")),)), (Bits.from_dense(dense),))
    )
    every = [each.support for each in frequent_itemsets(truth, top=top)]
    monkeypatch.setattr(limits, "KEPT", 1)
    monkeypatch.setattr(limits, "KEPT_PER_TOP", 1)
    fewer = [each.support for each in frequent_itemsets(truth, top=top)]
    assert sorted(fewer) == sorted(every) and len(every) == top


def test_too_many_candidates_stop_with_the_figures() -> None:
    with pytest.raises(
        ParameterError,
        match=r"length 2 would need up to 28 .* max_candidates=20; raise min_support",
    ):
        frequent_itemsets(exact(baskets()), 0.05, max_candidates=20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_support": 0}, "above 0 and up to 1"),
        ({"min_support": 1.5}, "above 0 and up to 1"),
        ({"min_support": float("nan")}, "above 0 and up to 1"),
        ({}, "say what is frequent"),
        ({"min_support": 0.1, "min_count": 3}, "not both"),
        ({"min_count": 301}, r"1\.\.300"),
        ({"min_support": 0.1, "relax": 1}, "below 1"),
        ({"min_support": 0.1, "relax": 0.1, "level": 0.9}, "relax or level"),
        ({"min_support": 0.1, "level": 1.0}, "strictly between"),
        ({"min_support": 0.1, "prune_errors": -1}, "0 or more"),
        ({"min_support": 0.1, "max_length": 0}, "max_length=0"),
    ],
)
def test_bad_options_are_named(options: dict[str, float], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        frequent_itemsets(exact(baskets()), **options)


def test_nothing_frequent_is_an_empty_table() -> None:
    found = frequent_itemsets(exact(np.zeros((10, 3), dtype=bool)), 0.5)
    assert len(found) == 0 and list(found) == [] and found.by_length() == {}
    assert found.to_arrow().num_rows == 0 and len(found.to_pandas()) == 0
    assert len(found.maximal()) == len(found.closed()) == 0
    assert len(frequent_itemsets(exact(np.zeros((0, 3), dtype=bool)), 0.5)) == 0


@pytest.fixture(scope="module")
def found() -> Itemsets:
    return frequent_itemsets(perturbed(baskets(), 0.95, 6), 0.2)


def test_table_forms_agree(found: Itemsets) -> None:
    frame, table = found.to_pandas(), found.to_arrow()
    assert (
        list(frame.columns)
        == table.column_names
        == ["support", "itemsets", "length", "stderr", "probability", "status"]
    )
    assert (
        [frozenset(row) for row in table["itemsets"].to_pylist()]
        == list(frame["itemsets"])
        == found.itemsets
    )
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [line["itemsets"] for line in lines] == [
        "{" + ",".join(row) + "}" for row in found.items
    ]
    np.testing.assert_allclose([float(line["stderr"]) for line in lines], found.stderr)
    parsed = json.loads(found.to_json())
    assert parsed["rows"] == 300 and parsed["min_support"] == 0.2
    assert [tuple(row["items"]) for row in parsed["itemsets"]] == found.items
    np.testing.assert_allclose(
        [row["support"] for row in parsed["itemsets"]], table["support"].to_numpy()
    )


def test_threshold_survivors_include_what_is_reported() -> None:
    generator = np.random.default_rng(0)
    measured = Measured(*generator.uniform(0, 30, (3, 500)))
    for level in (None, 0.01, 0.5, 0.99):
        threshold = Threshold(0.1, level=level, prune_errors=0)
        none = np.zeros((500, 1), np.int32)
        tier = Tier(none, none, measured, None)
        likely = threshold.probability(tier, 150)
        assert (threshold.survives(measured, 150) | ~threshold.reports(tier, 150, likely)).all()


def test_a_length_of_which_reports_say_nothing_ends_the_search():
    from sfumato.mechanisms.cut_and_paste import CutAndPaste
    from sfumato.randomness import seeded
    from sfumato.release import perturb

    rng = np.random.default_rng(8)
    bits = Bits.from_dense(rng.random((3000, 60)) < 0.08)
    domain = Domain((Items("items", tuple(map(str, range(60)))),))
    asked = Guarantee(19)
    release = perturb(Table(domain, (bits,)), CutAndPaste.promising(asked, domain), seeded(1))
    found = frequent_itemsets(release, 0.02)
    assert found.lost.length == 3 and max(found.by_length()) == 2
    errors = [tier.measured.stderr / found.rows for tier in found.kept.tiers]
    assert all(np.median(error) < 0.5 for error in errors)
    exact = frequent_itemsets(Exact(Table(domain, (bits,))), 0.02)
    assert exact.lost is None


def test_items_are_called_by_their_names():
    baskets = Bits.from_dense(np.array([[1, 1], [1, 0]], dtype=bool))
    found = frequent_itemsets(FlippedSupports(baskets, ("24", "65")), 0.5).named({"24": "milk"})
    assert found.items == [("milk",), ("65",), ("milk", "65")]
    assert association_rules(found, min_confidence=0.5).antecedents[0] in (("milk",), ("65",))
    assert found.to_arrow()["itemsets"].to_pylist()[0] == ["milk"]
