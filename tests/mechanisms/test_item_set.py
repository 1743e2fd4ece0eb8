"""One symbol for a whole basket: exact γ, the variances of the two formulas, supports covered."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items
from sfumato.errors import FileError, ParameterError, SchemaError, Unanswerable
from sfumato.mechanisms.item_set import (
    ItemSet,
    best_buckets,
    collision_variance,
    read_candidates,
)
from sfumato.mechanisms.parameters import remarks
from sfumato.mechanisms.steps.symbol_steps import buckets_of, some_of
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.mine.rules import association_rules
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.table import Table

ASKED = Guarantee(19)


def universe(items: int) -> Domain:
    return Domain((Items("items", tuple(f"i{item}" for item in range(items))),))


def baskets(rows: int, items: int, seed: int = 5, mean: float = 3.0) -> Table:
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, items + 1)
    shares = np.minimum(shares / shares.sum() * mean, 0.9)
    return Table(universe(items), (Bits.from_dense(rng.random((rows, items)) < shares),))


def supports(release: sf.Release, items: int) -> tuple[np.ndarray, np.ndarray]:
    law = release.mechanism.symbol_law
    assert law is not None
    count, variance = law.decode(release.counter.count(law.tally.cells))
    return count, variance


def test_small_universes_are_asked_directly_and_large_ones_by_collision():
    assert ItemSet.promising(ASKED, universe(100)).candidates
    large = ItemSet.promising(ASKED, universe(5000))
    assert not large.candidates and large.buckets == best_buckets(8, 19.0)
    best = min(range(9, 600), key=lambda t: collision_variance(8, t, 19.0))
    assert abs(best - large.buckets) <= 2  # the formula's optimum is the scan's


def test_gamma_is_exact_and_rounded_towards_privacy():
    for domain in (universe(30), universe(3000)):
        mechanism = ItemSet.promising(Guarantee(math.e**2), domain)
        gamma = mechanism.guarantee.gamma
        assert gamma <= math.e**2 < float(gamma) + 1 / 250
        assert mechanism.program().gamma == gamma


@pytest.mark.parametrize("hashed", [False, True], ids=["direct", "collision"])
def test_variances_are_those_of_the_two_formulas(hashed):
    """An item that nobody holds, over baskets of one other item each."""
    rows, items, repeats = 2000, 40, 120
    truth = Table(
        universe(items), (Bits.from_dense(np.eye(items, dtype=bool)[np.zeros(rows, int)]),)
    )
    mechanism = ItemSet.promising(ASKED, truth.domain, cap=4)
    expected = (items + 4 * 19) / (rows * 18**2)
    if hashed:
        mechanism = ItemSet(truth.domain, 19, 4, buckets=best_buckets(4, 19.0))
        expected = collision_variance(4, mechanism.buckets, 19.0) / rows
    law, found = mechanism.symbol_law, []
    for seed in range(repeats):
        release = sf.perturb(truth, mechanism, seeded(seed))
        found.append(law.kept(release.counter.count(law.tally.cells))[0][5:] / rows)
    ratio = np.var(found) / expected
    assert 0.92 < ratio < 1.08, ratio  # 120 × 35 nearly independent squares


@pytest.mark.parametrize("hashed", [False, True], ids=["direct", "collision"])
def test_supports_are_covered(hashed):
    rows, items = 20_000, 60
    truth = baskets(rows, items)
    true = truth.columns[0].counts()
    mechanism = ItemSet.promising(ASKED, truth.domain)
    if hashed:
        mechanism = ItemSet(truth.domain, 19, 8, buckets=best_buckets(8, 19.0))
    held, off = 0, []
    for seed in range(12):
        count, variance = supports(sf.perturb(truth, mechanism, seeded(seed)), items)
        scores = (count - true) / np.sqrt(variance)
        held += (np.abs(scores) < 1.96).sum()
        off.append(scores)
    share = held / (12 * items)
    # Sizes as even as these are at one end of what may be: what the smaller cap took is open.
    assert 0.92 < share < (0.999 if hashed else 0.985), share
    assert abs(np.mean(off)) < (0.4 if hashed else 0.2)


def test_baskets_beyond_the_cap_are_put_right_within_the_error():
    rows, items = 40_000, 50
    truth = baskets(rows, items, mean=6.0)
    true = truth.columns[0].counts()
    mechanism = ItemSet.promising(ASKED, truth.domain, cap=3)
    count, variance = supports(sf.perturb(truth, mechanism, seeded(2)), items)
    scores = (count - true)[:10] / np.sqrt(variance[:10])
    assert np.abs(scores).max() < 3
    capped = ItemSet.promising(ASKED, truth.domain, cap=30)
    assert np.sqrt(supports(sf.perturb(truth, capped, seeded(2)), items)[1][0]) < np.sqrt(
        variance[0]
    )


def uneven_baskets(rows: int, items: int) -> Table:
    """Sizes from a Pareto law, as web logs have them: most baskets are small, a few huge."""
    rng = np.random.default_rng(8)
    sizes = np.minimum(np.ceil(1.5 * rng.pareto(1.6, rows) + 0.5), items).astype(int)
    taste = np.log(1 / np.arange(2, items + 2)) + rng.gumbel(size=(rows, items))
    order = np.argsort(-taste, axis=1)
    dense = np.zeros((rows, items), dtype=bool)
    np.put_along_axis(dense, order, np.arange(items) < sizes[:, None], axis=1)
    return Table(universe(items), (Bits.from_dense(dense),))


@pytest.mark.parametrize("hashed", [False, True], ids=["direct", "collision"])
def test_with_hardly_any_noise_what_a_cap_takes_stays_open(hashed):
    """Where nothing tells how large the large baskets are, no γ makes that sure."""
    truth = uneven_baskets(20_000, 120)
    true = truth.columns[0].counts()
    mechanism = replace(ItemSet.promising(Guarantee(2980), truth.domain, cap=8), tiers=())
    if hashed:
        mechanism = ItemSet(truth.domain, 2980, 8, buckets=best_buckets(8, 2980.0), seeds=256)
    count, variance = supports(sf.perturb(truth, mechanism, seeded(1)), 120)
    scores = (count - true)[:20] / np.sqrt(variance[:20])
    assert np.abs(scores).max() < 3
    assert np.median(np.abs(count / true - 1)[:20]) < 0.25


@pytest.mark.parametrize("hashed", [False, True], ids=["direct", "collision"])
def test_tiers_tell_what_a_cap_took(hashed):
    """Large baskets say how much they hold, and supports come out with a fraction of the error."""
    truth = uneven_baskets(20_000, 120)
    true = truth.columns[0].counts()
    told = ItemSet.promising(Guarantee(2980), truth.domain, cap=8)
    if hashed:
        buckets = best_buckets(8, 2980.0)
        told = ItemSet(truth.domain, 2980, 8, (), buckets, 256, tiers=told.tiers)
    assert told.tiers == (9, 14, 21, 32, 48, 72)
    assert ItemSet.from_parameters(truth.domain, told.parameters()) == told
    sizes = np.diff(truth.columns[0].to_csr()[0])
    release = sf.perturb(truth, told, seeded(1))
    law = release.mechanism.symbol_law
    full, noise = law.full(release.counter.count(law.tally.cells))
    tiers = np.bincount(np.searchsorted(told.tiers, sizes, side="right"), minlength=7)[1:]
    assert np.abs((full - tiers) / np.sqrt(noise)).max() < 4.5
    found = [supports(sf.perturb(truth, told, seeded(seed)), 120) for seed in range(6)]
    scores = np.array([((count - true) / np.sqrt(v))[:20] for count, v in found])
    assert 0.9 < (np.abs(scores) < 1.96).mean() < 0.99 and abs(scores.mean()) < 0.5
    assert (np.abs(scores) < 1.96 / 2).mean() < 0.85  # errors of half the size would be noticed
    silent = supports(sf.perturb(truth, replace(told, tiers=()), seeded(1)), 120)[1]
    assert np.median(np.sqrt(found[1][1] / silent)[:20]) < 0.8


def of_sizes(sizes: np.ndarray, items: int, seed: int = 3) -> Table:
    """Baskets of just these sizes, the first items the most frequent."""
    rng = np.random.default_rng(seed)
    taste = np.log(1 / np.arange(1, items + 1)) + rng.gumbel(size=(len(sizes), items))
    places = np.argsort(np.argsort(-taste, axis=1), axis=1)
    return Table(universe(items), (Bits.from_dense(places < sizes[:, None]),))


def scores_of(truth: Table, mechanism: ItemSet, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The counts found, and how many of their errors each is off."""
    count, variance = supports(sf.perturb(truth, mechanism, seeded(seed)), 0)
    return count, (count - truth.columns[0].counts()) / np.sqrt(variance)


def test_where_all_baskets_are_empty_nobody_holds_anything():
    """What was kept is lost in noise, and so is what it was divided by."""
    truth = Table(universe(60), (Bits.from_dense(np.zeros((2000, 60), dtype=bool)),))
    for seed in range(4):
        mechanism = ItemSet.promising(ASKED, truth.domain, cap=8)
        assert mechanism.tiers
        count, scores = scores_of(truth, mechanism, seed)
        assert np.abs(count).max() < 1000 and np.abs(scores).max() < 4.5


def test_a_few_huge_baskets_among_small_ones_are_believed_and_lose_no_more_than_they_hold():
    """No curve of sizes tells of them; what small baskets hold a cap takes nothing of."""
    sizes = np.where(np.arange(20_000) % 10 == 0, 100, 2)
    truth = of_sizes(sizes, 100)
    for seed in range(3):
        mechanism = ItemSet.promising(Guarantee(200), truth.domain, cap=8)
        count, scores = scores_of(truth, mechanism, seed)
        assert np.median(np.abs(scores)) < 1.96
        assert (np.abs(scores[:10]) < 2.5).all() and count.max() < 12_000


def test_sizes_that_are_all_alike_may_be_anywhere_in_their_tier():
    """As on the file chess: every basket holds 37 of 75 items, and a tier begins at 25."""
    truth = of_sizes(np.full(20_000, 37), 75)
    mechanism = ItemSet.promising(ASKED, truth.domain)
    assert mechanism.tiers == (25, 38, 57)
    _, scores = scores_of(truth, mechanism, 1)
    assert np.median(np.abs(scores)) < 1.96


def test_where_larger_baskets_are_not_rarer_their_end_is_open():
    truth = of_sizes(np.full(6000, 380), 400)
    mechanism = ItemSet.promising(Guarantee(200), truth.domain, cap=4)
    assert mechanism.tiers[-1] == 40
    _, scores = scores_of(truth, mechanism, 1)
    assert np.median(np.abs(scores)) < 1.96


def test_of_a_candidate_a_cap_takes_more_the_more_candidates_it_is_made_of():
    """Holders of both items of a pair hold three candidates, above a cap of 2: of 6,000 reports the
    pair was 6 errors too rare while a cap was said to leave as much of it as of its items.
    """
    rng = np.random.default_rng(6)
    truth = Table(universe(3), (Bits.from_dense(rng.random((200_000, 3)) < 0.4),))
    sets = ((0,), (1,), (2,), (0, 2))
    for tiers in ((3, 4), ()):
        mechanism = ItemSet(truth.domain, 50, 2, sets, tiers=tiers)
        release = sf.perturb(truth, mechanism, seeded(1))
        law = release.mechanism.symbol_law
        count, variance = law.decode(release.counter.count(law.tally.cells))
        assert count[3] == pytest.approx(0.16 * 200_000, rel=0.15 if tiers else 0.4)
        assert abs(count[3] - 0.16 * 200_000) < 3 * np.sqrt(variance[3])
        assert np.sqrt(variance[3]) < 0.4 * count[3]


def test_an_answer_says_what_undoing_a_cap_assumes():
    sure, told = (ItemSet.promising(ASKED, universe(20), cap=cap) for cap in (20, 4))
    for mechanism, words in (
        (sure, None),
        (told, "about as much of this item as of all others"),
        (replace(told, tiers=()), "as uneven as is usual"),
    ):
        release = sf.perturb(baskets(500, 20), mechanism, seeded(1))
        found = sf.query(release, "SELECT COUNT(*) AS n FROM t WHERE i3 = 1")
        assert any(words in note for note in found.notes) if words else not found.notes


def test_of_a_part_of_what_was_asked_about_only_the_least_is_known():
    """Nobody was asked about 1 and 2 alone, nor about 0 and 1: they are held by as many as 0, 1, 2
    at least, and nothing tells by how many more.
    """
    rng = np.random.default_rng(4)
    dense = rng.random((20_000, 4)) < [0.9, 0.8, 0.8, 0.3]
    truth = Table(universe(4), (Bits.from_dense(dense),))
    mechanism = ItemSet(truth.domain, 19, 2, ((0,), (0, 1, 2), (3,)), tiers=(3,))
    found = frequent_itemsets(sf.perturb(truth, mechanism, seeded(1)), min_support=0.1)
    assert ("i0", "i1", "i2") in found.items and ("i1", "i2") in found.items
    for each in found:
        held = float(dense[:, [int(name[1:]) for name in each.items]].all(axis=1).mean())
        assert abs(each.support - held) < 3 * each.stderr, each
        assert each.probability > 0.95
    rules = association_rules(found, min_confidence=0.1).to_pandas()
    ends = [*zip(rules["antecedents"], rules["consequents"], strict=True)]
    rule = rules.iloc[ends.index((frozenset({"i1"}), frozenset({"i0"})))]
    assert abs(rule["confidence"] - 0.9) < 3 * rule["confidence stderr"]
    assert rule["confidence stderr"] > 0.2


def test_items_may_be_named_as_symbols_are():
    """ "a + b" beside a and b, "(none)", a tier: every symbol still has a name of its own."""
    names = ("a", "b", "c", "a + b", "b + c", "(none)", "(holds 3 or more)")
    domain = Domain((Items("items", names),))
    sets = ((0, 1), (3,), (0, 4), (2, 3), (5,), (6,))
    mechanism = ItemSet(domain, 19, 2, sets, tiers=(3,))
    (symbols,) = mechanism.private_reports.attributes
    assert symbols.labels == (
        "a + b_",
        "a + b",
        "a + b + c",
        "c + a + b",
        "(none)",
        "(holds 3 or more)",
        "(holds 3 or more)_",
        "(none)_",
    )
    twice = ItemSet(domain, 19, 2, ((0, 4), (0, 1, 2)))
    assert len(set(twice.labels)) == 2


def test_tiers_that_do_not_fit_a_cap_are_refused():
    for cap, tiers in ((2, (4, 6)), (1, (2,)), (3, (4, 4)), (3, (4, 3))):
        with pytest.raises(ParameterError, match="the first begins above the cap"):
            ItemSet(universe(9), 19, cap, tuple((i,) for i in range(9)), tiers=tiers)


def test_what_all_may_be_off_by_together_makes_no_finding_noise():
    """A tenth of the items stands out of many; how much a cap took of all is another question."""
    rng = np.random.default_rng(5)
    chances = np.where(np.arange(400) < 40, 0.3, 0.002)
    truth = Table(universe(400), (Bits.from_dense(rng.random((30_000, 400)) < chances),))
    found = frequent_itemsets(
        sf.perturb(
            truth, ItemSet(truth.domain, 400, 8, tuple((i,) for i in range(400))), seeded(1)
        ),
        min_support=0.05,
        max_length=1,
    )
    assert {int(each.items[0].lstrip("i")) for each in found} == set(range(40))
    assert min(each.stderr / each.support for each in found) > 0.2
    assert min(each.probability for each in found) > 0.95


def test_of_a_rare_item_no_report_is_no_certainty():
    """With hardly any noise a rare item may be reported by nobody; its error still covers it."""
    truth = uneven_baskets(20_000, 120)
    true = truth.columns[0].counts()
    mechanism = ItemSet.promising(Guarantee(2980), truth.domain, cap=120)
    count, variance = supports(sf.perturb(truth, mechanism, seeded(1)), 120)
    assert np.abs((count - true) / np.sqrt(variance)).max() < 4


def test_no_item_is_held_by_more_than_everybody():
    """Baskets that are all alike lose nothing to a cap of their size, and what is kept of an item
    that all hold shows it.
    """
    dense = np.zeros((20_000, 40), dtype=bool)
    dense[:, 0] = True
    rng = np.random.default_rng(3)
    np.put_along_axis(dense, 1 + np.argsort(rng.random((20_000, 39)), axis=1)[:, :6], True, 1)
    truth = Table(universe(40), (Bits.from_dense(dense),))
    mechanism = ItemSet.promising(ASKED, truth.domain, cap=7)
    count, variance = supports(sf.perturb(truth, mechanism, seeded(4)), 40)
    true = truth.columns[0].counts()
    assert np.abs((count - true) / np.sqrt(variance)).max() < 3
    assert 0.95 < count[0] / 20_000 < 1.2 and np.sqrt(variance[0]) / 20_000 < 0.2


def test_a_wide_universe_takes_a_large_gamma():
    mechanism = ItemSet.promising(Guarantee.from_epsilon(8), universe(16_470))
    assert 0 <= math.e**8 - float(mechanism.guarantee.gamma) < 0.2


def test_candidates_are_mined_with_their_rules(tmp_path):
    rng = np.random.default_rng(1)
    rows = 60_000
    dense = rng.random((rows, 12)) < 0.1
    dense[:, 1] = dense[:, 0] & (rng.random(rows) < 0.7) | (rng.random(rows) < 0.05)
    dense[:, 0] |= rng.random(rows) < 0.2
    truth = Table(universe(12), (Bits.from_dense(dense),))
    path = tmp_path / "candidates.txt"
    path.write_text("i0\ni1\ni2\n\ni0, i1\ni1,i2\n")
    mechanism = ItemSet.promising(ASKED, truth.domain, candidates=path)
    assert mechanism.candidates == ((0,), (1,), (2,), (0, 1), (1, 2)) and mechanism.cap == 5
    release = sf.perturb(truth, mechanism, seeded(3))
    found = sf.frequent_itemsets(release, 0.05)
    true = sf.frequent_itemsets(sf.Exact(truth), 0.001)
    exact = dict(zip(true.items, true.support, strict=True))
    assert ("i0", "i1") in found.items
    for itemset in found:
        assert abs(itemset.support - exact[itemset.items]) < 4.5 * itemset.stderr
    rules = sf.association_rules(found, min_confidence=0.3)
    assert len(rules) and all(error > 0 for error in rules.stderr["confidence"])


def test_candidates_may_be_hashed():
    """Itemsets by hash: what few candidates would cost directly, many cost here, and no more."""
    rows, sets = 20_000, ((0,), (3,), (0, 1), (1, 2), (0, 1, 2))
    rng = np.random.default_rng(3)
    dense = rng.random((rows, 12)) < np.linspace(0.6, 0.1, 12)
    truth = Table(universe(12), (Bits.from_dense(dense),))
    mechanism = ItemSet(truth.domain, Fraction(5, 2), 5, sets, best_buckets(5, 2.5))
    assert ItemSet.from_parameters(truth.domain, mechanism.parameters()) == mechanism
    assert mechanism.program().gamma == mechanism.guarantee.gamma == Fraction(5, 2)
    true = np.array([dense[:, each].all(axis=1).sum() for each in sets])
    law, off = mechanism.symbol_law, []
    assert law.itemsets == sets and not law.whole
    for seed in range(40):
        counts = sf.perturb(truth, mechanism, seeded(seed)).counter.count(law.tally.cells)
        found, variance = law.kept(counts)
        off.append((found - true) / np.sqrt(variance))
    assert abs(np.mean(off)) < 0.35 and 0.85 < np.std(off) < 1.15, (np.mean(off), np.std(off))


def test_a_release_by_collision_is_counted_by_engines(tmp_path):
    truth = baskets(5000, 30)
    mechanism = ItemSet(truth.domain, 19, 4, buckets=60, seeds=256)
    release = sf.perturb(truth, mechanism, seeded(1))
    release.save(tmp_path / "b.parquet")
    here = sf.frequent_itemsets(release, 0.1)
    there = sf.frequent_itemsets(sf.open(tmp_path / "b.parquet"), 0.1)
    assert here.items == there.items and np.allclose(here.support, there.support)


@pytest.mark.parametrize(("cap", "buckets", "items"), [(5, 70, 50), (8, 64, 300), (2, 65536, 9)])
def test_the_compiled_loop_sums_what_the_plain_one_does(cap, buckets, items):
    from sfumato.mechanisms.hash_kernels import sum_hits

    mechanism = ItemSet(universe(items), 19, cap, buckets=buckets, seeds=16)
    counts = np.random.default_rng(1).integers(0, 9, (16, buckets)).astype(float)
    hits = np.zeros(items)
    sum_hits(counts, mechanism._collide.polynomials.astype(np.uint64), buckets, hits)
    own = [buckets_of(mechanism.pool, s, range(items), cap + 1, buckets) for s in range(16)]
    plain = [sum(counts[seed, own[seed][item]] for seed in range(16)) for item in range(items)]
    assert np.allclose(hits, plain) and np.allclose(mechanism._hits(counts), plain)


def test_some_places_are_drawn_evenly_and_never_twice():
    sizes = np.full(30_000, 5)
    chosen = some_of(np.arange(30_000) * 5, sizes, 3, seeded(1)) % 5
    assert all(len(set(row)) == 3 for row in chosen[:500].tolist())
    counts = np.bincount(chosen.ravel(), minlength=5)
    assert np.abs(counts - 18_000).max() < 5 * math.sqrt(30_000 * 0.24)


def test_public_columns_stand_beside(tmp_path):
    truth = baskets(20_000, 8)
    shop = Category("shop", ("north", "south"), public=True)
    codes = (np.arange(20_000) % 2).astype(np.uint8)
    records = Table(Domain((truth.domain.attributes[0], shop)), (truth.columns[0], codes))
    release = sf.perturb(records, ItemSet.promising(ASKED, records.domain), seeded(1))
    found = release.marginal(["shop", "i0"])
    true = sf.Exact(records).marginal(list(found.cells)).value
    assert np.all(np.abs(found.value - true) < 4.5 * found.stderr + 1e-6)


def test_bad_candidates_are_refused_by_line(tmp_path):
    items = universe(5).attributes[0]
    for text, message in (
        ("i0\ni9\n", "line 2 .* 'i9' is not in the universe"),
        ("\n", "names no"),
    ):
        (tmp_path / "c.txt").write_text(text)
        with pytest.raises(FileError, match=message):
            read_candidates(tmp_path / "c.txt", items)
    with pytest.raises(ParameterError, match="listed twice"):
        ItemSet(universe(5), 19, 2, ((0,), (0,)))
    with pytest.raises(ParameterError, match="no set of the universe"):
        ItemSet(universe(5), 19, 2, ((7,),))
    with pytest.raises(ParameterError, match="cap=0"):
        ItemSet(universe(5), 19, 0, ((1,),))
    with pytest.raises(ParameterError, match="cap=0"):
        ItemSet.promising(ASKED, universe(5), cap=0)
    with pytest.raises(SchemaError, match="one column of baskets"):
        ItemSet.promising(ASKED, Domain((Category("a", ("x", "y")),)))
    with pytest.raises(ParameterError, match="cannot be promised"):
        ItemSet.promising(Guarantee(Fraction(1)), universe(5))


def test_candidates_name_items_that_have_commas_quotes_or_foreign_letters(tmp_path):
    items = Items("items", ("Bread", "Milk, whole", 'Cheese "Gouda"', "茶"))
    text = '\ufeffBread\r\n"Milk, whole"\r\nBread, "Milk, whole",茶\r\nCheese "Gouda",Bread\r\n'
    (tmp_path / "c.txt").write_text(text, encoding="utf-8")
    assert read_candidates(tmp_path / "c.txt", items) == ((0,), (1,), (0, 1, 3), (0, 2))
    (tmp_path / "c.txt").write_text("Bread\n" + "x" * 200_000)
    with pytest.raises(FileError, match="is not readable"):
        read_candidates(tmp_path / "c.txt", items)


def test_a_cap_of_one_becomes_two_so_that_baskets_tell_how_much_they_hold():
    """Of people with one item each, asked for by --cap 1, supports were four times the truth."""
    rng, rows, items = np.random.default_rng(1), 6000, 10
    dense = np.zeros((rows, items), dtype=bool)
    dense[np.arange(rows), rng.integers(0, items, rows)] = True
    mechanism = ItemSet.promising(ASKED, universe(items), cap=1)
    assert mechanism.cap == 2 and mechanism.tiers and "it is 2" in remarks(mechanism, {"cap": 1})[0]
    assert remarks(ItemSet.promising(ASKED, universe(1), cap=1), {"cap": 1}) == ()
    pairs = ItemSet.promising(ASKED, universe(items), cap=1, candidates=((0,), (1,), (0, 1)))
    assert pairs.cap == 2
    table = Table(universe(items), (Bits.from_dense(dense),))
    off = []
    for seed in range(5):
        release = sf.perturb(table, mechanism, seeded(seed))
        found = [release.marginal([f"i{item}"]) for item in range(items)]
        off += [(e.value[1] - t) / e.stderr[1] for e, t in zip(found, dense.sum(0), strict=True)]
    assert np.sqrt(np.mean(np.square(off))) < 1.5 and np.abs(off).max() < 5


def test_a_cap_above_the_candidates_becomes_their_number_and_says_so():
    domain = Domain((Items("items", tuple("abcdef")),))
    mechanism = ItemSet.promising(Guarantee(19), domain, cap=50, candidates=((0,), (1,), (0, 1)))
    assert mechanism.cap == 3
    assert remarks(mechanism, {"cap": 50}) == (
        "cap 50 is above the 3 candidates there are: it is 3",
    )
    assert not remarks(mechanism, {"cap": 2}) and not remarks(mechanism, {})


def test_two_items_at_once_are_refused():
    truth = baskets(500, 6)
    release = sf.perturb(truth, ItemSet.promising(ASKED, truth.domain), seeded(1))
    with pytest.raises(Unanswerable, match="nothing of 2 items one by one"):
        release.marginal(["i0", "i1"])
