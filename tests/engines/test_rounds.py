"""Baskets asked in rounds: what they find, what their errors cover, and what is refused."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.bits import Bits
from sfumato.cli import app
from sfumato.domain import Domain, Items
from sfumato.engines import save_release
from sfumato.engines.several import RoundSeries
from sfumato.errors import ParameterError
from sfumato.estimation.baskets.asking import best_asking, noise_of_forms
from sfumato.estimation.baskets.caps import RoundTally, Undone, together
from sfumato.estimation.baskets.classes import LatentClasses, LatentClassFit, padded
from sfumato.estimation.baskets.pooled import PooledRounds
from sfumato.estimation.baskets.priors import LiftPrior, NoisyObservation, Posterior
from sfumato.mechanisms.item_set import (
    ItemSet,
    best_buckets,
    collision_variance,
    direct_variance,
    how_many,
)
from sfumato.mechanisms.sizes import HETEROGENEITY, SizeBins, tiers_above
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.plan import plan_release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream, secure, seeded
from sfumato.release import Release
from sfumato.table import Table, perturb_file, reader_of
from sfumato.table.round import Round

UNIVERSE, PEOPLE = 40, 30_000
ITEMS = Domain((Items("items", tuple(f"i{place}" for place in range(UNIVERSE))),))


def baskets(rows: int = PEOPLE, seed: int = 1) -> np.ndarray:
    """Three classes of people, the first of whom hold items 0 to 3 together."""
    rng = np.random.default_rng(seed)
    chances = np.tile(0.25 * 0.85 ** np.arange(UNIVERSE), (3, 1))
    chances[0, :4], chances[1, 4:7], chances[2, :8] = 0.7, 0.6, 0.05
    return rng.random((rows, UNIVERSE)) < chances[rng.integers(0, 3, rows)]


@cache
def asked(truth: Table, seed: int, gamma: int = 19, rounds: int = 3) -> RoundSeries:
    """PooledRounds of these people, in memory; several tests look at the same ones."""
    rng, turn, found = seeded(seed), Round(f"{seed:032x}", 1), list[Release]()
    for _ in range(rounds):
        mechanism = (
            RoundSeries.of(found).next_round(24) if found else ItemSet(ITEMS, gamma, 8, buckets=175)
        )
        group = truth.take(np.flatnonzero(turn.asked(0, truth.rows)))
        columns = mechanism.perturb(group.columns, rng)
        table = Table(mechanism.reports, columns)
        release = Release.of(_with(table, mechanism, turn))
        found.append(release)
        turn = turn.next
    return RoundSeries.of(found)


def _with(table: Table, mechanism: ItemSet, turn: Round) -> Table:
    from dataclasses import replace

    from sfumato.table import Provenance

    return replace(table, provenance=Provenance(mechanism, False, turn=turn))


@pytest.fixture(scope="module")
def truth() -> Table:
    return Table(ITEMS, (Bits.from_dense(baskets()),))


def true_supports(dense: np.ndarray, longest: int = 4) -> dict[tuple[int, ...], float]:
    """Every itemset of the first twelve items, by brute force."""
    found = {}
    for length in range(1, longest + 1):
        for each in combinations(range(12), length):
            found[each] = float(dense[:, each].all(axis=1).mean())
    return found


def test_each_person_is_asked_once_and_by_the_shares() -> None:
    turn = Round.first()
    dealt = np.stack([each.asked(0, 100_000) for each in (turn, turn.next, turn.next.next)])
    assert (dealt.sum(axis=0) == 1).all()
    assert np.abs(dealt.mean(axis=1) - [0.4, 0.3, 0.3]).max() < 0.008
    assert (turn.asked(77, 500) == dealt[0, 77:577]).all()
    other = Round.first().asked(0, 100_000)
    assert abs(np.corrcoef(other, dealt[0])[0, 1]) < 0.02


def test_an_experiment_names_its_series_by_its_seed_and_nothing_else_is_named_twice() -> None:
    named = [Round.first(seeded(seed)).series for seed in (1, 1, 2)]
    assert named[0] == named[1] != named[2]
    one, key = seeded(1), secure()
    assert Round.first(one) != Round.first(one)  # two series of one experiment
    drawn = [Round.first(rng).series for rng in (None, None, key, key)]
    assert len({*drawn, *named}) == 6
    # A secure stream that names people would have given out bits of the noise that hides them.
    twin = Keystream(key.key)
    assert (key.words(4) == twin.words(4)).all()


def test_rounds_find_the_itemsets_of_largest_support(truth: Table) -> None:
    """Longer ones too, none of which the first round could tell."""
    source = asked(truth, 3)
    found = {
        tuple(sorted(int(name[1:]) for name in each.items)): each.support
        for each in frequent_itemsets(source, top=24)
    }
    every = true_supports(baskets())
    best = sorted(every, key=lambda each: -every[each])[:24]
    assert len(set(found) & set(best)) >= 18
    assert max(map(len, found)) >= 3
    assert all(abs(found[each] - every[each]) < 0.05 for each in set(found) & set(best))


def test_what_was_drawn_back_once_is_not_drawn_back_again(truth: Table) -> None:
    """An itemset whose estimate is above the threshold, and those of its parts, is probably
    frequent: the estimate has seen already that most others are rare. Drawn back again,
    P(frequent) was 0 for many that were.
    """
    for seed in range(4):
        found = frequent_itemsets(asked(truth, seed), top=20)
        names = {frozenset(each.items) for each in found}
        whole = np.array(
            [
                all(name - {item} in names for item in name) or len(name) == 1
                for name in (frozenset(each.items) for each in found)
            ]
        )
        assert whole.sum() >= 17
        assert found.probability[whole].min() >= 0.4999  # the last is the threshold itself


def test_errors_cover(truth: Table) -> None:
    """Of the truly largest itemsets, over repeated perturbation; an error of two fifths is
    noticed.
    """
    every = true_supports(baskets())
    best = sorted(every, key=lambda each: -every[each])[:24]
    off = []
    for seed in range(4):
        rounds = asked(truth, seed).pooled
        longer = [each for each in best if len(each) > 1]
        single = rounds.singles.take(np.array([each[0] for each in best if len(each) == 1]))
        known = rounds.supports(longer)
        mean, error = np.append(single.mean, known.mean), np.append(single.stderr, known.stderr)
        order = [each for each in best if len(each) == 1] + longer
        off.append((mean - [every[each] for each in order]) / error)
    covered = float((np.abs(off) < 1.96).mean())
    assert 0.85 < covered <= 1.0
    assert float((np.abs(off) < 1.96 * 0.4).mean()) < 0.85


def without_noise(
    dense: np.ndarray, itemsets: list[tuple[int, ...]], cap: int, told: bool = False
) -> RoundTally:
    """What reports of these baskets would say without noise, were the single items hashed; with
    the tiers of large baskets, or without.
    """
    held = np.stack([dense[:, each].all(axis=1) for each in itemsets])
    sizes = held.sum(axis=0)
    part = np.where(sizes <= cap, 1.0, (cap - told) / np.maximum(sizes, 1))
    kept, whole = held @ part / len(dense), len(itemsets) == dense.shape[1]
    tiers = SizeBins.untold(kept, cap, len(itemsets))
    if told:
        starts = tiers_above(cap, len(itemsets))
        tier = np.searchsorted(starts, sizes, side="right")
        shares = np.bincount(tier, minlength=len(starts) + 1)[1:] / len(dense)
        tiers = SizeBins.told(starts, shares, np.full(len(starts), 1e-8), len(itemsets))
    noise = np.full(len(kept), 1e-8)
    return RoundTally(tuple(itemsets), kept, noise, cap, 10**6, whole, tiers)


@pytest.mark.parametrize("told", [False, True], ids=["nothing told of sizes", "tiers"])
@pytest.mark.parametrize(("tail", "caps"), [(2.2, (16, 10, 14)), (1.6, (16, 10, 14))])
def test_without_noise_errors_cover_what_caps_take(
    tail: float, caps: tuple[int, int, int], told: bool
) -> None:
    """Sizes of a Pareto law: what caps took is as open as ever where no report tells of it, and
    half as open where large baskets tell their tier.
    """
    rng = np.random.default_rng(8)
    sizes = np.minimum(np.ceil(1.5 * rng.pareto(tail, 20_000) + 0.5), 60).astype(int)
    order = np.argsort(np.log(np.arange(2, 62)) - rng.gumbel(size=(20_000, 60)), axis=1)
    dense = np.zeros(order.shape, dtype=bool)
    np.put_along_axis(dense, order, np.arange(60) < sizes[:, None], axis=1)
    single = [(item,) for item in range(60)]
    pairs = list(combinations(range(6), 2))
    asked = [single, single[:30] + pairs, single[:24] + pairs]
    tally = [without_noise(dense, each, cap, told) for each, cap in zip(asked, caps, strict=True)]
    rounds = PooledRounds(tuple(tally), 60)
    for known, sets in ((rounds.singles, single[:24]), (rounds.supports(pairs), pairs)):
        true = np.array([dense[:, each].all(axis=1).mean() for each in sets])
        off = (known.mean[: len(sets)] - true) / known.stderr[: len(sets)]
        # Where tiers are told, how items differ in what a cap takes is all that is open, half a per
        # cent of some.
        assert np.abs(off).max() < (6 if told else 3.5)
        assert np.median(known.stderr[: len(sets)] / true) < (0.1 if told else 0.2)
        assert np.median(np.abs(known.mean[: len(sets)] / true - 1)) < (0.07 if told else 0.2)


def test_candidates_differ_in_a_part_of_what_a_cap_takes_and_caps_take_alike() -> None:
    """What of it is each candidate's own does not average over rounds; what tiers told does."""
    dense = np.random.default_rng(1).random((4000, 10)) < 0.5
    itemsets = [(item,) for item in range(10)] + list(combinations(range(4), 2))
    classes = LatentClasses(np.ones(1), np.full((1, 10), 0.5))
    cap = Undone.of(without_noise(dense, itemsets, 4, told=True), classes)
    taken = np.hypot(1 - cap.left, cap.left * np.hypot(cap.size_error, cap.systematic))
    np.testing.assert_allclose(cap.heterogeneity, HETEROGENEITY * taken)
    once, twice = (together([cap] * rounds, itemsets) for rounds in (1, 2))
    own = (cap.heterogeneity * once.found) ** 2
    np.testing.assert_allclose(once.variance - once.chance, own, rtol=1e-3)
    np.testing.assert_allclose(twice.variance - twice.chance, own, rtol=1e-3)
    assert (once.systematic < 1.5 * twice.systematic).all()


@pytest.mark.parametrize("tail", [1.2, 1.6, 2.5])
def test_the_last_tier_goes_on_as_the_tiers_before_it(tail: float) -> None:
    """Its baskets held 1.46 times its start on the mean, however fat the tail: of sizes of Pareto's
    law with the exponent 1.6, 10,000 people at γ = 300, 90 of a hundred intervals held the truth.
    """
    sizes, starts = np.arange(1, 1001), (9, 14, 21, 32, 48, 72)
    law = (sizes - 0.5) ** -tail - (sizes + 0.5) ** -tail
    tier = np.searchsorted(starts, sizes, side="right") - 1
    shares = np.bincount(tier[tier >= 0], law[tier >= 0]) / law.sum()
    told = SizeBins.told(starts, shares, np.full(6, 1e-9), 1000)
    last = tier == 5
    true = float(law[last] @ sizes[last] / law[last].sum())
    assert told.sizes[-1] == pytest.approx(
        true, rel=0.25
    )  # 104 before, where it is 184, 154 and 117
    assert abs(told.sizes[-1] - true) < 2 * told.spread
    short = SizeBins.told(starts, shares, np.full(6, 1e-9), 80)
    assert 72 < short.sizes[-1] < 80


def test_little_gamma_asks_for_candidates_by_hash_and_much_directly() -> None:
    """Directly every candidate costs noise, by hash only what a basket may keep of them."""
    caps, buckets = np.array([4]), np.array([best_buckets(4, 2.7)])
    direct, hashed = noise_of_forms(caps, buckets, 136, 2.7, 0.0).ravel()
    assert direct == pytest.approx(direct_variance(4, 136, 2.7), rel=0.02)
    assert hashed == pytest.approx(collision_variance(4, int(buckets[0]), 2.7))
    held = [(item,) for item in range(136)]
    classes = LatentClasses.by_size(np.full(136, 0.01))
    little, much = (
        best_asking(held, classes, gamma, 150_000, 0.01, 64, 64) for gamma in (2.7, 50.0)
    )
    assert little.buckets == best_buckets(little.cap, 2.7) and not much.buckets
    dense = LatentClasses(np.ones(1), np.full((1, 136), 0.6))
    one = best_asking(held, dense, 19.0, 150_000, 0.5, 64, 64)
    assert one.dealt and len(one.candidates) == 128  # where baskets hold most candidates


def test_more_gamma_asks_no_more_than_can_be_thought_of() -> None:
    assert how_many(64, 19.0) == 185 and how_many(64, 1e4) == how_many(64, 1e3) < 500


def test_what_a_cap_takes_is_that_of_real_reports() -> None:
    """E[min(1, m/c) | held] from the classes that made the baskets, against candidates kept."""
    classes = LatentClasses(np.array([0.5, 0.5]), np.array([[0.6] * 8, [0.15] * 8]))
    candidates = (*((item,) for item in range(8)), (0, 1), (2, 3), (0, 1, 2))
    rng = np.random.default_rng(5)
    dense = rng.random((60_000, 8)) < classes.chances[rng.integers(0, 2, 60_000)]
    held = np.stack([dense[:, each].all(axis=1) for each in candidates], axis=1)
    kept = np.minimum(1.0, 3 / np.maximum(held.sum(axis=1), 1))
    part = np.where(held.sum(axis=1) <= 3, 1.0, 2 / np.maximum(held.sum(axis=1), 1))
    found = Undone.of(without_noise(dense, list(candidates), 3, told=True), classes)
    told_too = (held * part[:, None]).sum(axis=0) / held.sum(axis=0)
    assert np.abs(found.left - told_too).max() < 0.02
    domain = Domain((Items("items", tuple("abcdefgh")),))
    mechanism = ItemSet(domain, 19, 3, candidates)
    symbols = mechanism.randomise((Bits.from_dense(dense),), seeded(1))[0]
    counts = np.bincount(np.asarray(symbols, dtype=np.intp), minlength=len(candidates) + 1)
    told, variance = mechanism.kept(counts)
    off = (told - (held * kept[:, None]).sum(axis=0)) / np.sqrt(variance)
    assert np.abs(off).max() < 4.5


def test_what_tiers_tell_is_what_a_cap_takes() -> None:
    """More large baskets than classes foretell: of real reports the tiers say how many, and what
    the cap took of each candidate follows; by classes alone it would be 9 points less.
    """
    classes = LatentClasses(np.array([0.93, 0.07]), np.array([[0.1] * 10, [0.6] * 10]))
    rng = np.random.default_rng(7)
    level = np.where(rng.random(200_000) < 0.2, 0.6, 0.1)  # 0.2 on the mean, but uneven
    dense = rng.random((200_000, 10)) < level[:, None]
    candidates = tuple((item,) for item in range(10))
    sizes = dense.sum(axis=1)
    part = np.where(sizes <= 3, 1.0, 2 / np.maximum(sizes, 1))
    wanted = (dense * part[:, None]).sum(axis=0) / dense.sum(axis=0)
    domain = Domain((Items("items", tuple("abcdefghij")),))
    mechanism = ItemSet(domain, 19, 3, candidates, tiers=tiers_above(3, 10))
    truth = Table(domain, (Bits.from_dense(dense),))
    release = Release.of(
        _with(
            Table(mechanism.reports, mechanism.perturb(truth.columns, seeded(2))),
            mechanism,
            Round.first(),
        )
    )
    tally = RoundSeries.of([release]).pooled.tallies[0]
    assert tally.tiers is not None
    true = np.bincount(np.searchsorted(tally.tiers.starts, sizes, side="right"))[1:] / len(sizes)
    off = (tally.tiers.shares - true) / np.sqrt(tally.tiers.noise)
    assert np.abs(off).max() < 4.5
    told = Undone.of(tally, classes)
    assert np.abs(told.left - wanted).max() < 4 * told.size_error.max() < 0.06
    small = classes.drawn(8000, np.arange(10)).sum(axis=0)
    alone = np.where(small <= 3, small, 2).sum() / small.sum()  # by classes alone
    assert alone - wanted.max() > 0.09


def test_kinds_explain_pairs_that_independence_cannot() -> None:
    truth = LatentClasses(
        np.array([0.6, 0.4]), np.array([[0.5, 0.5, 0.1, 0.1], [0.05, 0.05, 0.4, 0.4]])
    )
    sets = [(0,), (1,), (2,), (3,), *combinations(range(4), 2)]
    found = truth.supports(sets)
    variance = np.full(len(sets), 1e-6)
    fit = LatentClassFit(padded(sets, 4), found, variance, np.ones(len(sets)), found[:4]).fitted()
    assert np.abs(fit.supports(sets) - found).max() < 0.004
    assert fit.supports([(0, 1, 2)])[0] == pytest.approx(truth.supports([(0, 1, 2)])[0], abs=0.01)


def _normal_known(found: np.ndarray, variance: np.ndarray) -> Posterior:
    told = NoisyObservation.normal(found, variance)
    return LiftPrior.of_items(told).known(np.ones(len(found)), told)


def test_what_is_known_of_many_helps_each() -> None:
    """Most items are rare: what stands out by chance is drawn back, what is sure stays."""
    rng = np.random.default_rng(2)
    true = np.append(np.full(900, 0.001), np.linspace(0.05, 0.3, 30))
    found = true + rng.normal(0, 0.01, len(true))
    variance = np.full(len(true), 0.01**2)
    known = _normal_known(found, variance)
    assert np.sqrt(((known.mean - true) ** 2).mean()) < 0.4 * 0.01
    assert np.abs(known.mean[-5:] - found[-5:]).max() < 0.005
    assert (np.abs(known.mean - true)[900:] < 2.6 * known.stderr[900:]).mean() > 0.9


def test_errors_of_what_was_drawn_to_others_are_those_found() -> None:
    """Most of what reports said is noise: the law of all knows how far each was drawn from that,
    and counts it once. Were it counted again, intervals would be too wide.
    """
    rng = np.random.default_rng(3)
    true = np.exp(rng.normal(-4.5, 0.9, 2000))
    found = true + rng.normal(0, 0.01, len(true))
    variance = np.full(len(true), 0.01**2)
    known = _normal_known(found, variance)
    most = np.argsort(-known.mean)[:300]
    off, stated = (known.mean - true)[most], known.stderr[most]
    twice = np.hypot(stated, (known.mean - found)[most])
    inside, beyond = ((np.abs(off) < 1.96 * error).mean() for error in (stated, twice))
    assert 0.93 < inside < 0.97 < beyond
    assert 0.9 < np.sqrt((off**2).mean() / (stated**2).mean()) < 1.1


def test_what_is_open_of_all_is_the_same_part_of_what_is_left() -> None:
    found, variance = np.array([0.04, 0.04]), np.array([0.01**2, 1e-10])
    law = LiftPrior.of_items(NoisyObservation.normal(np.full(500, 0.01), np.full(500, 1e-6)))
    known = law.known(np.ones(2), NoisyObservation.normal(found, variance))
    known = replace(known, systematic=np.full(2, 0.02))
    own = replace(known, systematic=0.0).stderr
    added = np.sqrt(known.stderr**2 - own**2)
    assert known.mean[0] < 0.5 * 0.04
    np.testing.assert_allclose(added, 0.02 * known.mean / 0.04, rtol=1e-3)


def run(line: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, shlex.split(line))
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rounds of a basket file, each by the shell's own words."""
    place = tmp_path_factory.mktemp("rounds")
    dense = baskets(6000)
    lines = [" ".join(str(item) for item in np.flatnonzero(row)) for row in dense]
    (place / "shop.dat").write_text("\n".join(line or "0" for line in lines) + "\n")
    (place / "fewer.dat").write_text("\n".join(line or "0" for line in lines[:-40]) + "\n")
    (place / "other.dat").write_text("1 2 3\n4 5\n")
    after = ""
    for number in (1, 2, 3):
        promise = "--gamma 19" if number == 1 else ""
        code, _, said = run(
            f"perturb {place}/shop.dat --round {number} {after} {promise} --seed {number} "
            f"-o {place}/r{number}.parquet --find 20"
        )
        assert code == 0, said
        after += f" --after {place}/r{number}.parquet"
    assert run(f"perturb {place}/shop.dat --gamma 19 --mechanism item-set -o {place}/all.parquet")
    shutil.copy(place / "r1.parquet", place / "elsewhere.parquet")
    again = f"--round 2 --after {place}/elsewhere.parquet -o {place}/b2.parquet"
    assert run(f"perturb {place}/shop.dat {again}")[0] == 0
    return place


def unasked(folder: Path, place: Path, name: str = "shop.dat") -> str:
    """The same people where nothing says that they were asked."""
    return str(shutil.copy(folder / "shop.dat", place / name))


def test_rounds_are_mined_together(folder: Path) -> None:
    every = " ".join(f"{folder}/r{number}.parquet" for number in (3, 1, 2))
    code, out, said = run(f"mine {every} --top 20 --truth {folder}/shop.dat --rules --json")
    assert code == 0, said
    found = json.loads(out)
    assert found["rows"] == 6000 and 15 <= len(found["itemsets"]) <= 20
    assert all(each["stderr"] > 0 for each in found["itemsets"])


def test_one_round_is_judged_by_the_people_whom_it_asked(folder: Path) -> None:
    """Nobody can pick these out by hand, so that no truth of one round was the right one."""
    code, out, said = run(f"mine {folder}/r1.parquet --top 5 --truth {folder}/shop.dat --json")
    assert code == 0, said
    assert json.loads(out)["errors"][0]["support_error"] < 60
    code, out, said = run(f"audit {folder}/r1.parquet --truth {folder}/shop.dat --json")
    assert code == 0, said
    assert json.loads(out)["empirical_gamma"]["lower_bound"] > 5
    code, _, said = run(f"audit {folder}/r1.parquet --truth {folder}/fewer.dat")
    assert code == 2 and "give the true records of this very release" in said


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("people", "held", "items"), [(1, 1, 5), (6, 3, 2), (400, 1, 30)])
def test_rounds_of_people_of_whom_hardly_anybody_holds_an_item_go_on(
    people: int, held: int, items: int, tmp_path: Path
) -> None:
    """Where nothing was found before, a cap takes nothing: it was said to leave nothing."""
    (data := tmp_path / "shop.dat").write_text("1\n" * held + "\n" * (people - held))
    (universe := tmp_path / "items").write_text(
        "".join(f"{item}\n" for item in range(1, items + 1))
    )
    for seed in range(6):
        asked_so_far: list[Release] = []
        for number in (1, 2, 3):
            how: dict[str, Any] = {"after": asked_so_far} if number > 1 else {"gamma": 19}
            release = sf.perturb(data, rng=seeded(seed), items=universe, round=number, **how)
            asked_so_far = [*asked_so_far, release]
        assert sum(each.rows for each in asked_so_far) == people
        assert all(np.isfinite(each["stderr"]) for each in sf.mine(asked_so_far, top=3).to_dicts())


def test_rounds_that_hardly_tell_how_large_baskets_are_say_what_they_assume(
    truth: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes of which one in fourteen is above the cap, and 10,000 people: supports were two thirds
    of the truth by a curve on which larger baskets are rarer, without a word of it.
    """
    rng, items = np.random.default_rng(1), 200
    sizes = np.minimum(rng.pareto(1.2, 10_000) * 3 + 1, items).astype(int)
    lines = [" ".join(map(str, rng.permutation(items)[:size] + 1)) for size in sizes]
    monkeypatch.chdir(tmp_path)
    Path("shop.dat").write_text("\n".join(lines) + "\n")
    asked_so_far: list[Release] = []
    for number in (1, 2, 3):
        how: dict[str, Any] = {"after": asked_so_far} if asked_so_far else {"gamma": 19}
        release = sf.perturb("shop.dat", rng=seeded(1), round=number, **how)
        asked_so_far = [*asked_so_far, release]
    found = sf.mine(asked_so_far, top=5)
    assert all("few baskets are far above the caps" in str(each) for each in found.assumes)
    assert any("model-based: 5 of these 5" in each for each in found.notes)
    assert all("assumes" in each for each in found.to_dicts())
    told = frequent_itemsets(asked(truth, 1), top=5)  # of 30,000 people with small baskets
    assert told.assumes == [None] * 5 and not told.notes


@pytest.mark.parametrize("how", ["--mechanism item-set", "--cap 3", ""])
def test_few_baskets_are_told_to_be_too_few_however_the_mechanism_is_chosen(
    how: str, tmp_path: Path
) -> None:
    (tmp_path / "few.dat").write_text(" ".join(map(str, range(40))) + "\n" + "1 2\n" * 19)
    told = run(f"perturb {tmp_path}/few.dat --gamma 19 {how} -o {tmp_path}/o.parquet")[2]
    assert "with 20 people the support of an item is off by" in told


def test_candidates_parted_by_blanks_and_hashes_are_told_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "shop.dat").write_text("1 2\n2 3\n" * 10)
    (tmp_path / "candidates.txt").write_text("1 2\n")
    asked = f"perturb {tmp_path}/shop.dat --gamma 19 -o {tmp_path}/o.parquet"
    code, _, told = run(f"{asked} --candidates {tmp_path}/candidates.txt")
    assert code == 2 and "did you mean 1,2? Items are parted by commas, not blanks" in told
    (tmp_path / "items.txt").write_text(" ".join(map(str, range(5000))))
    _, shown, _ = run(f"{asked} --items {tmp_path}/items.txt")
    names = [line.split("  ")[0] for line in shown.splitlines()]
    assert {"hash values", "public hashes", "sizes told from"} <= {*names}
    assert not {"buckets", "seeds", "pool", "tiers"} & {*names}


def test_rounds_are_listed_in_python_as_in_the_shell(folder: Path) -> None:
    files = [f"{folder}/r{number}.parquet" for number in (1, 2)]
    shown = json.loads(run(f"mine {' '.join(files)} --top 5 --json")[1])["itemsets"]
    for rounds in (files, tuple(map(Path, files)), [sf.open(file) for file in files]):
        assert sf.mine(rounds, top=5).to_dicts() == shown
    for rounds, words in (
        ([f"{folder}/r2.parquet", f"{folder}/r3.parquet"], "round 1, which is not here"),
        ([f"{folder}/all.parquet", files[0]], "what is no round is mined by itself"),
        ([files[0], f"{folder}/shop.dat"], "it is no release"),
    ):
        with pytest.raises(ParameterError, match=words):
            sf.mine(rounds, top=5)
    with pytest.raises(ParameterError, match="rounds carry their own items"):
        sf.mine(files, top=5, schema=ITEMS)


@pytest.mark.parametrize("name", ["r1.parquet", "r2.parquet", "all.parquet", "shop.dat"])
def test_a_list_of_one_is_that_one(folder: Path, name: str) -> None:
    """Round 1 in a list was taken for all rounds: supports were low by 4 to 11 of their errors."""
    file = folder / name
    found = sf.mine(file, top=8).to_dicts()
    assert all(sf.mine(one, top=8).to_dicts() == found for one in ([str(file)], (file,)))
    if name != "shop.dat":
        release = sf.open(file)
        assert sf.mine([release], top=8).to_dicts() == found
        for verb in (sf.fit, lambda one: sf.query(one, "SELECT COUNT(*) FROM t")):
            assert _refusal(verb, [release]) == _refusal(verb, release)
    if name == "r1.parquet":
        alone = frequent_itemsets(RoundSeries.of([release]), top=8)
        assert alone.to_dicts() == found


def _refusal(verb: Any, given: Any) -> str:
    try:
        return str(verb(given))
    except sf.SfumatoError as error:
        return str(error)


def test_the_first_round_alone_has_errors_that_cover_the_truth() -> None:
    """Its cap leaves much out of large baskets, of which no other round is there to tell."""
    rng, people, items = np.random.default_rng(1), 20_000, 2000
    sizes = np.exp(rng.normal(2, 0.9, people))
    dense = rng.random((people, items)) < np.minimum(sizes[:, None] / items, 1)
    dense[:, :4] |= rng.random((people, 4)) < [0.6, 0.5, 0.2, 0.2]
    domain = Domain((Items("items", tuple(f"i{place}" for place in range(items))),))
    table = Table(domain, (Bits.from_dense(dense),))
    first = sf.perturb(table, gamma=19, round=1, rng=seeded(1))
    true = dense.mean(axis=0)
    for source in ([first], RoundSeries.of([first])):
        found = sf.mine(source, top=4, max_length=1)
        off = [(each.support - true[int(each.items[0][1:])]) / each.stderr for each in found]
        assert np.abs(off).max() < 3  # they were 4.2 and 3.9 too low


def test_several_releases_are_not_asked_as_one(folder: Path) -> None:
    files = [f"{folder}/r1.parquet", f"{folder}/r2.parquet"]
    for verb in (
        lambda: sf.query(files, "SELECT COUNT(*) FROM t"),
        lambda: sf.classify(files, "1"),
        lambda: sf.audit(files, f"{folder}/shop.dat"),
    ):
        with pytest.raises(ParameterError, match="2 releases are listed, and one is asked"):
            verb()
    with pytest.raises(ParameterError, match="mine them together: sfumato mine ROUND1 ROUND2"):
        sf.fit(files)
    with pytest.raises(ParameterError, match="the list is empty, so there is no release"):
        sf.fit([])


def test_two_rounds_are_held_against_the_truth_of_those_they_asked(folder: Path) -> None:
    """They were told to bring the true records of this very release."""
    files = f"{folder}/r1.parquet {folder}/r2.parquet"
    code, out, said = run(f"mine {files} --top 5 --truth {folder}/shop.dat --json")
    assert code == 0, said
    first = Release.of(_opened(folder / "r1.parquet")).provenance.turn
    dense = baskets(6000)
    dense[~dense.any(axis=1), 0] = True
    theirs = dense[first.asked(0, len(dense)) | first.next.asked(0, len(dense))]
    for each in json.loads(out)["itemsets"]:
        places = [int(item) for item in each["items"]]
        assert each["true_support"] == pytest.approx(theirs[:, places].all(axis=1).mean())
    code, _, said = run(f"mine {files} --top 5 --truth {folder}/fewer.dat")
    assert code == 2 and "holds 5,960 records" in said


def test_a_later_round_goes_by_the_mechanism_of_its_series(folder: Path, tmp_path: Path) -> None:
    data, after = f"{folder}/shop.dat", f"{folder}/elsewhere.parquet"
    with pytest.raises(ParameterError, match="after is a round of item-set, and mechanism='ranges"):
        sf.perturb(data, "ranges", round=2, after=after)
    asked = f"perturb {data} --round 2 --after {after} -o {tmp_path}/x.parquet --mechanism"
    code, _, said = run(f"{asked} ranges")
    told = "--after is a round of item-set, and --mechanism ranges is none of that series"
    assert code == 2 and told in " ".join(said.split()), said
    first = sf.open(f"{folder}/r1.parquet")
    assert sf.perturb(data, "item-set", round=2, after=first).mechanism.name == "item-set"


def test_what_is_no_round_is_called_by_its_kind(folder: Path) -> None:
    """A data frame was printed, true records and all."""
    frame = sf.Exact(sf.read({"smoker": ["no", "zanzibar"] * 50})).to_pandas()
    with pytest.raises(ParameterError) as told:
        sf.perturb(f"{folder}/shop.dat", round=2, after=frame)
    assert str(told.value).startswith("a DataFrame of 100 × 1 is no release, so no round")


def test_rounds_are_asked_in_python_as_in_the_shell(folder: Path, tmp_path: Path) -> None:
    """The same people, the same questions and, from the same seed, the same reports."""
    data, after = unasked(folder, tmp_path), list[str]()
    for number in (1, 2, 3):
        promise = {"gamma": 19} if number == 1 else {}
        release = sf.perturb(
            data, rng=seeded(number), round=number, after=after, find=20, **promise
        )
        file = tmp_path / f"r{number}.parquet"
        release.save(file)
        assert _said(file) == _said(folder / file.name)
        after.append(str(file))
    assert (
        sf.mine(after, top=5).to_dicts()
        == sf.mine([f"{folder}/r{number}.parquet" for number in (1, 2, 3)], top=5).to_dicts()
    )


def test_rounds_in_memory_go_together(folder: Path, tmp_path: Path) -> None:
    data = unasked(folder, tmp_path)
    one = sf.perturb(data, gamma=19, rng=seeded(1), round=1)
    two = sf.perturb(sf.read(data), round=2, after=one, rng=seeded(2), find=5)
    assert len(sf.mine([one, two], top=3)) == 3
    with pytest.raises(ParameterError, match="these records were perturbed"):
        sf.perturb(one, round=2, after=one)


PYTHON_REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "no predecessor": ({"round": 2}, "after names no releases; name each: after='ROUND1'"),
    "one of two": (
        {"round": 3, "after": "r1.parquet"},
        r"names 1 release; name each: after=\['ROUND1', 'ROUND2'\]",
    ),
    "the wrong one": ({"round": 2, "after": "r2.parquet"}, "comes after round 1, which is not"),
    "nothing before the first": ({"round": 1, "gamma": 19, "after": "r1.parquet"}, "after nothing"),
    "another promise": ({"round": 2, "after": "r1.parquet", "gamma": 30}, "promised gamma 19"),
    "everyone was asked": ({"round": 2, "after": "all.parquet"}, "the same people would compose"),
    "no release": ({"round": 2, "after": "shop.dat"}, "is no release, so no round"),
    "no such round": ({"round": 4}, "round=4; there are rounds 1 to 3"),
    "another mechanism": (
        {"round": 1, "mechanism": "mask", "gamma": 19},
        "not by mask; leave mechanism out, or use mechanism='ranges' for numbers",
    ),
    "a mechanism made": (
        {"round": 1, "mechanism": ItemSet(ITEMS, 19, 8, buckets=175)},
        "rounds make their own mechanisms, and item-set is given",
    ),
    "no promise": ({"round": 1}, "the rounds should promise; give gamma=19"),
    "copies": ({"round": 1, "gamma": 19, "copies": 2}, "reports once in all rounds; no copies"),
    "no round": ({"gamma": 19, "after": "r1.parquet"}, "after and find are of rounds; add round"),
    "a purpose": ({"gamma": 19, "round": 1, "purpose": "counts"}, "no plan is asked"),
    "too many to find": ({"gamma": 19, "round": 1, "find": 0}, "find=0; use 1 to 4,096"),
    "asked already": ({"round": 2, "after": "r1.parquet"}, "asked already and written to"),
}


@pytest.mark.parametrize("case", PYTHON_REFUSALS)
def test_what_is_no_round_is_refused_in_python_too(case: str, folder: Path) -> None:
    said, expected = PYTHON_REFUSALS[case]
    if "after" in said:
        said = said | {"after": f"{folder}/{said['after']}"}
    with pytest.raises(ParameterError, match=expected):
        sf.perturb(f"{folder}/shop.dat", **said)


def test_a_round_of_python_is_told_beside_the_one_before(folder: Path, tmp_path: Path) -> None:
    """Two draws of one round would compose: the first that is saved stands, the shell sees it."""
    data, one = unasked(folder, tmp_path), tmp_path / "one.parquet"
    sf.perturb(data, gamma=19, round=1).save(one)
    first, second = (sf.perturb(data, round=2, after=one, find=5) for _ in range(2))
    first.save(tmp_path / "two.parquet")
    first.save(tmp_path / "two.csv")  # the same reports once more tell nothing
    for path in (tmp_path / "again.parquet", tmp_path / "two.parquet"):
        with pytest.raises(ParameterError, match="round 2 of these people was asked already"):
            second.save(path)
    code, _, said = run(f"perturb {data} --round 2 --after {one} -o {tmp_path}/again.parquet")
    assert code == 2 and "asked already" in said, said
    assert not (tmp_path / "again.parquet").exists()
    assert sf.open(tmp_path / "two.parquet").provenance == first.provenance


def test_rounds_may_be_named_in_any_order_and_nobody_is_asked_twice(
    folder: Path, tmp_path: Path
) -> None:
    """Named newest first, the third round was told beside the first, over what was said there of
    the second: both could be asked once more.
    """
    data, one, two = unasked(folder, tmp_path), tmp_path / "one.parquet", tmp_path / "two.parquet"
    sf.perturb(data, gamma=19, round=1).save(one)
    sf.perturb(data, round=2, after=one, find=5).save(two)
    sf.perturb(data, round=3, after=[two, one], find=5).save(tmp_path / "three.parquet")
    (tmp_path / "link.parquet").symlink_to(one)
    for number, after in ((2, [one]), (3, [one, two]), (3, [two, one]), (2, ["link.parquet"])):
        with pytest.raises(ParameterError, match=f"round {number} of these people was asked"):
            sf.perturb(data, round=number, after=[tmp_path / each for each in after], find=5)
    names = f"--after {two} --after {one}"
    code, _, said = run(f"perturb {data} --round 3 {names} -o {tmp_path}/again.parquet")
    assert code == 2 and "asked already" in said, said


def test_a_round_that_was_copied_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    """The copy would stand beside another draw of the same people; a database has no mark."""
    data, one = unasked(folder, tmp_path), tmp_path / "one.parquet"
    sf.perturb(data, gamma=19, round=1).save(one)
    first, second = (sf.perturb(data, round=2, after=one, find=5) for _ in range(2))
    first.save(tmp_path / "two.parquet")
    first.save(tmp_path / "copy.parquet")
    for name in ("two.parquet", "copy.parquet"):
        with pytest.raises(ParameterError, match="round 2 of these people was asked already"):
            second.save(tmp_path / name, force=True)
    with pytest.raises(ParameterError, match="a round is written to a file"):
        save_release(second, f"duckdb://{tmp_path}/rounds.db#two")


def test_items_are_named_in_python_as_in_the_shell(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text(" ".join(map(str, range(50))))
    data = unasked(folder, tmp_path)
    release = sf.perturb(data, gamma=19, round=1, items=tmp_path / "items.txt")
    assert len(release.domain.attributes[0].labels) == 50
    for more, words in (({"schema": ITEMS}, "give one of them"), ({}, "for basket files")):
        with pytest.raises(ParameterError, match=words):
            records = {"a": ["x", "y"]} if not more else f"{folder}/shop.dat"
            sf.perturb(records, gamma=19, items=tmp_path / "items.txt", **more)


def test_a_single_item_is_asked_for(tmp_path: Path) -> None:
    """A basket may be without it: it was refused as a column of one value."""
    (tmp_path / "one.dat").write_text("7\n\n7\n7\n\n" * 400)
    release = f"{tmp_path}/one.parquet"
    code, _, said = run(f"perturb {tmp_path}/one.dat --gamma 19 --seed 1 -o {release}")
    assert code == 0, said
    (found,) = json.loads(run(f"mine {release} --top 3 --json")[1])["itemsets"]
    assert abs(found["support"] - 0.6) < 5 * found["stderr"] < 0.1


REFUSALS = {
    "no predecessor": ("--round 2", "--after names no releases"),
    "one of two": (
        "--round 3 --after {0}/r1.parquet",
        "names 1 release; name each: --after ROUND1 --after ROUND2",
    ),
    "the wrong one": ("--round 2 --after {0}/r2.parquet", "comes after round 1, which is not here"),
    "nothing before the first": ("--round 1 --gamma 19 --after {0}/r1.parquet", "after nothing"),
    "another promise": ("--round 2 --after {0}/r1.parquet --gamma 30", "promised gamma 19"),
    "everyone was asked": ("--round 2 --after {0}/all.parquet", "the same people would compose"),
    "no release": ("--round 2 --after {0}/shop.dat", "is no release, so no round"),
    "no such round": ("--round 4", "rounds 1 to 3"),
    "another mechanism": ("--round 1 --mechanism mask --gamma 19", "asked by item-set"),
    "no promise": ("--round 1", "not said what the rounds should promise"),
    "copies": ("--round 1 --gamma 19 --copies 2", "reports once"),
    "no round": ("--gamma 19 --after {0}/r1.parquet", "are of rounds"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_no_round_is_refused_in_one_line(case: str, folder: Path) -> None:
    words, expected = REFUSALS[case]
    code, _, said = run(f"perturb {folder}/shop.dat {words.format(folder)} -o {folder}/x.parquet")
    assert code == 2 and expected in said and said.count("\n") <= 2, said
    assert not (folder / "x.parquet").exists()


def test_other_people_and_other_items_are_refused(folder: Path) -> None:
    for data, expected in (("fewer", "these are other people"), ("other", "about other items")):
        code, _, said = run(
            f"perturb {folder}/{data}.dat --round 2 --after {folder}/r1.parquet "
            f"-o {folder}/x.parquet"
        )
        assert code == 2 and expected in said, said


def test_people_are_not_asked_twice(folder: Path, tmp_path: Path) -> None:
    """A second report of a round's people would compose: refused, unless it replaces the first."""
    for name in ("r1.parquet", "r2.parquet", "r1.parquet.next"):
        shutil.copy(folder / name, tmp_path / name)
    again = f"perturb {folder}/shop.dat --round 2 --after {tmp_path}/r1.parquet --find 5"
    for output in ("again.parquet", "again.parquet --force", "r2.parquet"):
        code, _, said = run(f"{again} -o {tmp_path}/{output}")
        assert code == 2 and not (tmp_path / "again.parquet").exists(), said
    code, _, said = run(f"{again} -o {tmp_path}/again.parquet")
    words = " ".join(said.split())
    assert "round 2 of these people was asked already" in words and "r2.parquet" in words, said
    assert "r1.parquet.next" in words and words.count("composes") == 1
    assert run(f"{again} -o {tmp_path}/r2.parquet --force")[0] == 0
    (tmp_path / "r1.parquet.next").unlink()
    assert run(f"{again} -o {tmp_path}/again.parquet")[0] == 0


def test_people_are_not_asked_first_twice(folder: Path, tmp_path: Path) -> None:
    """A second round 1 is a second report of them, as a second round 2 is; it was drawn."""
    data = unasked(folder, tmp_path)
    (tmp_path / "link.dat").symlink_to(data)
    first = f"perturb {data} --round 1 --gamma 19"
    assert run(f"{first} -o {tmp_path}/r1.parquet")[0] == 0
    for line in (first, f"{first} --force", f"{first} --seed 3", f"{first} --mechanism item-set",
                 f"perturb {tmp_path}/link.dat --round 1 --gamma 19"):  # fmt: skip
        code, _, said = run(f"{line} -o {tmp_path}/again.parquet")
        words = " ".join(said.split())
        assert code == 2 and "round 1 of these people was asked already" in words, said
        assert "r1.parquet" in words and "shop.dat.next" in words and "other people" in words
        assert not (tmp_path / "again.parquet").exists()
    with pytest.raises(ParameterError, match="round 1 of these people was asked already"):
        sf.perturb(data, gamma=19, round=1)
    code, _, said = run(f"perturb {data} --round 2 --after {tmp_path}/r1.parquet --find 5 "
                        f"-o {tmp_path}/r2.parquet")  # fmt: skip
    assert code == 0, said
    assert run(f"{first} -o {tmp_path}/r1.parquet --force")[0] == 0, "it takes its place"
    (tmp_path / "shop.dat.next").unlink()
    assert run(f"{first} -o {tmp_path}/again.parquet")[0] == 0


def test_a_first_round_of_python_is_told_beside_its_people(folder: Path, tmp_path: Path) -> None:
    data = unasked(folder, tmp_path)
    first, second = (sf.perturb(data, gamma=19, round=1) for _ in range(2))
    first.save(tmp_path / "one.parquet")
    first.save(tmp_path / "one.csv")
    with pytest.raises(ParameterError, match="asked already and written to"):
        second.save(tmp_path / "two.parquet")
    code, _, said = run(f"perturb {data} --round 1 --gamma 19 -o {tmp_path}/two.parquet")
    assert code == 2 and "asked already" in said, said


def test_where_nothing_can_be_said_beside_the_people_that_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = unasked(folder, tmp_path)
    monkeypatch.setattr("sfumato.rounds.os.access", lambda *_: False)
    code, _, said = run(f"perturb {data} --round 1 --gamma 19 -o {tmp_path}/one.parquet")
    assert code == 0 and "nothing remembers that their people were asked" in said, said


def test_the_same_seed_is_the_same_round(folder: Path, tmp_path: Path) -> None:
    seeds = {"a": "--seed 5", "b": "--seed 5", "c": "--seed 6", "d": "", "e": ""}
    for name, seed in seeds.items():
        one, two = (f"{tmp_path}/{name}{number}.parquet" for number in (1, 2))
        data = unasked(folder, tmp_path, f"{name}.dat")
        for more in (f"1 --gamma 19 -o {one}", f"2 --after {one} --find 5 -o {two}"):
            code, _, said = run(f"perturb {data} --round {more} {seed}")
            assert code == 0, said
    for number in (1, 2):
        first, again, *others = (_said(tmp_path / f"{name}{number}.parquet") for name in seeds)
        assert first == again and all(first != other for other in others) and others[1] != others[2]


def _said(path: Path) -> tuple[Any, ...]:
    """What a file holds but for its own name."""
    table = _opened(path)
    assert table.provenance is not None
    return table.provenance.unnamed, *(np.asarray(column).tolist() for column in table.columns)


def test_candidates_are_told_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text("tea,milk\nmilk\njam,milk\n" * 40)
    (tmp_path / "asked.txt").write_text("tea\njam\nmilk,tea\n")
    line = f"perturb {tmp_path}/shop.csv --mechanism item-set --gamma 19 -o {tmp_path}/x.parquet"
    line += f" --candidates {tmp_path}/asked.txt"
    code, out, said = run(line)  # the first basket is as long as most: it may be a header
    assert code == 2 and "--form lines" in said
    code, out, said = run(f"{line} --form lines")
    assert code == 0 and "tea, jam, milk + tea" in " ".join(out.split()), out + said


def test_rounds_that_do_not_belong_together_are_not_mined(folder: Path) -> None:
    for files, expected in (
        ("r1 r2 b2", "round 2 of the same people"),
        ("r1 r3", "comes after round 2, which is not here"),
        ("r1 all", "no round asked everyone"),
    ):
        every = " ".join(f"{folder}/{name}.parquet" for name in files.split())
        code, _, said = run(f"mine {every} --top 5")
        assert code == 2 and expected in said, said


def test_a_round_about_numbers_is_not_called_no_round(folder: Path, tmp_path: Path) -> None:
    lines = "".join(f"{20 + n % 50},{n % 60}\n" for n in range(400))
    (tmp_path / "ages.csv").write_text(f"age,hours\n{lines}")
    number = '[[attribute]]\nname = "{}"\ntype = "numeric"\nmin = 0\nmax = 99\n'
    schema = "".join(map(number.format, ("age", "hours")))
    (tmp_path / "ages.toml").write_text(schema)
    asked = f"--schema {tmp_path}/ages.toml --round 1 --mechanism ranges --gamma 19 --seed 1"
    code, _, said = run(f"perturb {tmp_path}/ages.csv {asked} -o {tmp_path}/n1.parquet")
    assert code == 0, said
    code, _, said = run(f"mine {folder}/r1.parquet {tmp_path}/n1.parquet --top 5")
    assert code == 2 and "round 1 about numbers" in said and "sfumato fit" in said, said


def test_one_round_alone_is_told_to_be_one(folder: Path) -> None:
    """It said: ask in rounds, to one who had."""
    code, _, said = run(f"mine {folder}/r2.parquet --top 5")
    assert code == 0 and "this is round 2 alone" in " ".join(said.split()), said
    assert "--round 1" not in said


def test_a_turn_is_kept_with_its_reports(folder: Path, tmp_path: Path) -> None:
    first = Release.of(_opened(folder / "r1.parquet"))
    assert first.provenance.turn is not None and first.provenance.turn.round == 1
    second = Release.of(_opened(folder / "r2.parquet"))
    assert second.provenance.turn == first.provenance.turn.next
    with pytest.raises(ParameterError, match="different series"):
        RoundSeries.of([first, _again(folder, tmp_path)])


def _opened(path: Path) -> Table:
    from sfumato.table import read_perturbed

    return read_perturbed(path)


def _again(folder: Path, place: Path) -> Release:
    mechanism = ItemSet.promising(
        Guarantee(19), _opened(folder / "r1.parquet").provenance.mechanism.domain
    )
    path = place / "again.parquet"
    perturb_file(folder / "shop.dat", path, mechanism, seeded(1), turn=Round.first())
    return Release.of(_opened(path))


def test_items_that_later_rounds_passed_over_are_not_joined() -> None:
    """Of a wide universe few items are grown, or the search would drown in pairs of noise."""
    rng = np.random.default_rng(6)
    wide = Domain((Items("items", tuple(map(str, range(400)))),))
    chances = np.where(np.arange(400) < 12, 0.2, 0.002)
    bits = Bits.from_dense(rng.random((12_000, 400)) < chances)
    truth, releases, turn = Table(wide, (bits,)), list[Release](), Round("ab" * 16, 1)
    for _ in range(3):
        mechanism = (
            RoundSeries.of(releases).next_round(16)
            if releases
            else ItemSet(wide, 8, 8, buckets=100, seeds=1024)
        )
        group = truth.take(np.flatnonzero(turn.asked(0, truth.rows)))
        table = Table(mechanism.reports, mechanism.perturb(group.columns, seeded(turn.round)))
        releases.append(Release.of(_with(table, mechanism, turn)))
        turn = turn.next
    found = frequent_itemsets(RoundSeries.of(releases), top=16, max_candidates=2000)
    single = {int(each.items[0]) for each in found if len(each.items) == 1}
    assert len(single & set(range(12))) >= 9


def test_a_guarantee_alone_takes_item_set_and_says_what_rounds_add(folder: Path) -> None:
    line = f"perturb {folder}/shop.dat --gamma 19 --seed 1 --force --json -o {folder}/one.parquet"
    code, out, said = run(line)
    assert code == 0 and json.loads(out)["mechanism"] == "item-set"
    assert "ask in rounds instead (--round 1)" in said
    plan = json.loads(run(f"plan {folder}/shop.dat --rows 6000 --gamma 19 --json")[1])
    assert plan["mechanisms"][0]["name"] == "item-set in rounds"
    assert plan["mechanisms"][0]["command"].count("sfumato perturb") == 3


def test_pairs_come_out_as_the_plan_predicts(truth: Table) -> None:
    """No worse than predicted, and not much better: classes of baskets help what is rare."""
    plan = plan_release(ITEMS, PEOPLE, guarantee=Guarantee(19), at_support=0.2)
    offer = next(option for option in plan.options if option.name == "item-set in rounds")
    every, off = true_supports(baskets(), 2), []
    pairs = sorted((x for x in every if len(x) == 2), key=lambda each: -every[each])[:10]
    for seed in range(4):
        known = asked(truth, seed).pooled.supports(pairs)
        off += list(known.mean - [every[each] for each in pairs])
    assert 0.3 < float(np.sqrt(np.mean(np.square(off)))) / offer.supports[1] < 1.5


def test_who_is_asked_does_not_depend_on_how_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "baskets.dat"
    path.write_text("".join(f"{1 + row % 7}\n" for row in range(500)))
    reader, turn = reader_of(path), Round("00" * 16, 2)
    domain = reader.found
    found = [
        np.concatenate([part[0].to_dense() for part in turn.among(reader.batches(domain, rows))])
        for rows in (500, 64)
    ]
    assert len(found[0]) == turn.people(500) and np.array_equal(*found)


def test_few_reports_are_no_reason_to_believe_them_more() -> None:
    """Of a rare item a handful of reports come, as many as Poisson's law deals: a count that is low
    by chance has a low variance of its own. Weighed by that, rounds said four fifths of the truth.
    """
    rng = np.random.default_rng(5)
    true = np.exp(rng.normal(-4.3, 0.7, 1500))
    own, other, people = 0.04, 0.0002, 3000
    tally = []
    for _ in range(3):
        count = rng.poisson(people * (other + (own - other) * true))
        shown = np.maximum(count / people, other)
        variance = (people * shown + 1) / (people * (own - other)) ** 2
        kept = (count / people - other) / (own - other)
        sets = tuple((item,) for item in range(len(true)))
        tally.append(RoundTally(sets, kept, variance, 2000, people, False, None, 1 / own / people))
    found = together([Undone.nothing(each) for each in tally], tally[0].itemsets)
    assert found.found.mean() == pytest.approx(true.mean(), rel=0.03)
    by_own = sum(each.kept / each.variance for each in tally)
    by_own = by_own / sum(1 / each.variance for each in tally)
    assert by_own.mean() < 0.85 * true.mean()  # what it was
    known = LiftPrior.of_items(found).known(np.ones(len(true)), found)
    most = np.argsort(-known.mean)[:200]
    off = np.abs(known.mean - true)[most] / known.stderr[most]
    assert 0.91 < (off < 1.96).mean() < 0.99
    assert (known.mean - true)[most].mean() == pytest.approx(0, abs=0.1 * true[most].mean())


def test_the_few_frequent_items_are_not_averaged_away() -> None:
    """Among thousands of items some twelve are frequent: the law of all has them too."""
    rng = np.random.default_rng(6)
    true = np.append(np.exp(rng.normal(-7, 0.8, 4000)), np.linspace(0.02, 0.05, 12))
    found = true + rng.normal(0, 0.005, len(true))
    told = NoisyObservation.normal(found, np.full(len(true), 0.005**2))
    law = LiftPrior.of_items(told)
    frequent = law.masses[law.grid >= np.log(0.018)].sum() * len(true)
    assert 8 < frequent < 18
    known = law.known(np.ones(len(true)), told)
    assert np.abs(known.mean[-12:] - true[-12:]).mean() < 0.007


def far_apart(people: int, seed: int) -> tuple[Bits, np.ndarray]:
    """Nine tenths of the people hold two items, one tenth 150 of the 200 there are."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 201) ** 0.8
    keys = rng.random((people, 200)) ** (1 / weights)  # the largest: drawn without replacement
    sizes = np.where(rng.random(people) < 0.1, 150, 2)
    dense = keys.argsort(axis=1).argsort(axis=1) >= 200 - sizes[:, None]
    return Bits.from_dense(dense), dense


def test_what_a_few_far_larger_baskets_hold_is_found_with_honest_errors() -> None:
    """Were one part taken as lost of every item, most would be off by 3 to 9 errors: of what small
    baskets hold too a cap takes little, of what large ones alone hold nearly all.
    """
    bits, dense = far_apart(12_000, 1)
    domain = Domain((Items("items", tuple(f"i{place}" for place in range(200))),))
    rng, turn, found = seeded(4), Round(f"{7:032x}", 1), list[Release]()
    for _ in range(3):
        mechanism = (
            RoundSeries.of(found).next_round(24)
            if found
            else ItemSet.promising(Guarantee(300), domain)
        )
        group = Table(domain, (bits,)).take(np.flatnonzero(turn.asked(0, len(dense))))
        table = Table(mechanism.reports, mechanism.perturb(group.columns, rng))
        found.append(Release.of(_with(table, mechanism, turn)))
        turn = turn.next
    source = RoundSeries.of(found)
    mined = frequent_itemsets(source, top=24, max_length=2)
    off = [
        (each.support - dense[:, [int(name[1:]) for name in each.items]].all(axis=1).mean())
        / each.stderr
        for each in mined
    ]
    assert len(off) >= 10
    assert max(map(abs, off)) < 3
    one = found[0]  # and of one round alone
    counts = one.counter.count(one.mechanism.symbol_law.tally.cells)
    told, variances = one.mechanism.decoded(counts)
    away = (told / one.rows - dense.mean(axis=0)) / (np.sqrt(variances) / one.rows)
    assert np.abs(away).max() < 4.5


def test_pairs_nobody_was_asked_about_are_as_open_as_their_items(truth: Table) -> None:
    rounds = asked(truth, 1).pooled
    others = [each for each in combinations(range(12), 2) if each not in rounds.asked]
    assert others
    singles = rounds.singles
    for each in others:
        known = rounds.supports([each])
        parts = [singles.stderr[item] / singles.mean[item] for item in each]
        predicted = rounds.classes.supports([each])[0]
        assert known.stderr[0] >= predicted * min(np.hypot(*parts), 1) * 0.999


def test_counts_of_one_round_say_whose_they_are():
    baskets = [["tea", "milk"], ["tea", "jam"]] * 500
    one = sf.perturb(baskets, gamma=19, round=1, rng=sf.seeded(1))
    (note,) = (each for each in sf.query(one, "SELECT COUNT(*) FROM t").notes if "round" in each)
    assert note == (
        f"this is round 1 of 3: counts are of the {one.rows:,} people whom it asked, not of all"
    )
    assert 0 < one.rows < len(baskets)
