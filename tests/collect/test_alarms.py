"""Alarms: silent for honest people however often one looks, and as good as they say for forgers."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import numpy as np
import pytest
from tests.collect.forging import BASKETS, CASES, Crowd, Forgery, moving_reports, sounded, sounding
from tests.mechanisms.examples import EXAMPLES

from sfumato.channels.channel import has_known_laws
from sfumato.collect.alarms import KINDS, RATE, log_change, log_gain, looks
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.dashboard import Dashboard
from sfumato.collect.figures import figures_of
from sfumato.collect.language import Language
from sfumato.collect.repeats import ROOM, Repeats
from sfumato.collect.synthetic_people import people
from sfumato.collect.tally import CampaignTally
from sfumato.errors import CampaignError
from sfumato.mechanisms.base import channel_over
from sfumato.mechanisms.item_set import ItemSet
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.testing import Example, every_report

every_case = pytest.mark.parametrize("case", CASES)
ONE_PER_CENT = 0.01
OWNERS_PAGE = Path(__file__).parents[2] / "docs" / "collector" / "owner.md"
COLUMNS = [
    *((share, False) for share in (0.005, 0.01, 0.02, 0.05)),
    *((share, True) for share in (0.01, 0.02, 0.05)),
]  # of its table: the share that is forged, and whether of the last day's reports


# --- the ranges of chances, against the matrices of the contract


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_no_record_leaves_the_range_of_an_entry(example: Example) -> None:
    mechanism = example.mechanism
    if example.oracle is None and not has_known_laws(channel_over(mechanism)):
        return  # read off the reports, so that nothing is known beforehand
    rows = example.matrix(np.ones(mechanism.domain.shape))
    tally = CampaignTally(mechanism)
    data, width = tally.packing.pack_columns(every_report(mechanism.reports)), tally.packing.width
    singly = [tally._counted(data[at : at + width]) for at in range(0, len(data), width)]
    for watched in tally.watched:
        shown = np.array([watched.counts(counts) for counts in singly])  # (reports, entries)
        assert set(np.unique(shown)) <= {0.0, 1.0}
        chances = shown.T @ rows
        assert (watched.low <= chances.min(axis=1) + 1e-9).all()
        assert (watched.high >= chances.max(axis=1) - 1e-9).all()


@every_case
def test_every_mechanism_is_watched(case: str) -> None:
    tally = CampaignTally(Crowd(case, 0).mechanism)
    assert any((watched.high < 1).any() for watched in tally.watched)


# --- bets


def test_a_bet_gains_nothing_on_average_whatever_the_chance_below() -> None:
    counts = np.arange(41)
    for chance, highest in ((0.2, 0.2), (0.1, 0.2), (0.999, 0.999), (1e-4, 1e-3)):
        chances = _binomial(40, chance)
        assert chances @ np.exp(log_gain(counts, 40, highest)) <= 1 + 1e-9
    assert _binomial(40, 0.3) @ np.exp(log_gain(counts, 40, 0.2)) > 1.5  # and can be won


def test_two_days_of_one_chance_are_no_win_on_average() -> None:
    old, new = np.meshgrid(np.arange(31), np.arange(21), indexing="ij")
    for chance in (0.02, 0.3, 0.9):
        both = np.outer(_binomial(30, chance), _binomial(20, chance))
        assert (both * np.exp(log_change(old, 30, new, 20))).sum() <= 1
    both = np.outer(_binomial(30, 0.1), _binomial(20, 0.9))
    assert (both * np.exp(log_change(old, 30, new, 20))).sum() > 100


def _binomial(people: int, chance: float) -> np.ndarray:
    from scipy.stats import binom

    return binom.pmf(np.arange(people + 1), people, chance)


# --- repeats in bounded memory


def test_repeats_never_count_too_many_and_hardly_too_few() -> None:
    rng, repeats, true = np.random.default_rng(1), Repeats(), {}
    for _ in range(40):
        batch = [b"%d" % code for code in rng.integers(0, 10**6, 4000)] + [b"forged"] * 20
        repeats.add(batch)
        for body in batch:
            true[body] = true.get(body, 0) + 1
    for body in [b"forged"] * 7:
        repeats.remove([body])
    true[b"forged"] -= 7
    found = dict(repeats.most(ROOM))
    assert len(found) <= ROOM
    assert all(count <= true[body] for body, count in found.items())
    assert found[b"forged"] >= true[b"forged"] - sum(true.values()) / ROOM - 1


# --- campaigns


@every_case
def test_honest_people_raise_no_alarm_at_any_look(case: str) -> None:
    for seed in range(3):
        crowd = Crowd(case, seed)
        for rows, kinds in sounded(crowd.mechanism, crowd.days(3000), looks=2):
            assert not kinds, (seed, rows)


@every_case
def test_what_is_said_to_be_noticed_is_noticed(case: str) -> None:
    """The same share for one report, on top of honest ones, and a fifth more."""
    crowd = Crowd(case, 1)
    honest = crowd.bodies(3000)
    tally = CampaignTally(crowd.mechanism)
    tally.recount([b"".join(honest[:2400])])
    tally.add(honest[2400:])
    found = {look.kind: look for look in looks(tally, *tally.snapshot())}
    assert "impossible" in found and "day" in found
    for kind, look in found.items():
        watch = look.watch()
        assert watch.kind in KINDS and watch.rate == pytest.approx(RATE / len(KINDS))
        if watch.notices is None or watch.notices > 0.5:
            continue
        today = 600 if kind == "day" else 3000
        number = int(1.2 * watch.notices * today / (1 - watch.notices)) + 1
        again = CampaignTally(crowd.mechanism)
        again.recount([b"".join(honest[:2400])])
        again.add(honest[2400:] + moving_reports(case)[:1] * number)
        assert kind in sounding(again), kind


@pytest.mark.parametrize("case", ["mask, baskets", "retention", "item-set, hashes"])
def test_one_report_sent_by_one_per_cent_is_noticed(case: str) -> None:
    crowd = Crowd(case, 1)
    forged = crowd.days(10_000, Forgery(ONE_PER_CENT, identical=True, burst=False))
    assert any("repeat" in kinds for _, kinds in sounded(crowd.mechanism, forged, looks=1))


# --- the bounded estimate of item-set


def table_of(mechanism: ItemSet, columns) -> np.ndarray:
    table = np.zeros((mechanism.seeds, mechanism.buckets))
    np.add.at(table, tuple(np.asarray(column).astype(int) for column in columns), 1)
    return table


def test_a_bounded_estimate_costs_little_and_its_error_is_honest() -> None:
    plain = ItemSet.promising(Guarantee(19), BASKETS, hashes=True)
    errors, inside = [], []
    for seed in range(12):
        crowd = Crowd("item-set, hashes", 3 * seed + 1)
        truth = crowd.truth(20_000)
        true = truth[0].counts()
        table = table_of(plain, plain.perturb(truth, seeded(seed)))
        (first, _), (second, variance) = plain.decoded(table), plain.decoded(table, bounded=True)
        errors.append([first - true, second - true])
        inside.append(np.abs(second - true) <= 1.96 * np.sqrt(variance))
    squares = (np.array(errors) ** 2).mean(axis=(0, 2))
    assert squares[1] < 1.03 * squares[0]
    assert np.mean(inside) > 0.93


def test_one_report_sent_again_and_again_moves_a_bounded_estimate_by_a_few_people() -> None:
    plain = ItemSet.promising(Guarantee(19), BASKETS, hashes=True)
    truth = Crowd("item-set, hashes", 1).truth(20_000)
    table = table_of(plain, plain.perturb(truth, seeded(1)))
    seed, item = 17, 50
    forged = table.copy()
    forged[seed, plain._collide.hashed(np.array(item), np.array(seed))] += 200
    own, other = plain._chances
    moved = [
        plain.decoded(forged, bounded=how)[0][item] - plain.decoded(table, bounded=how)[0][item]
        for how in (False, True)
    ]
    assert moved[0] > 3000  # 15 points of all people, by 1 % of them
    assert moved[1] < 1.1 * plain.most_counted(20_200) / (own - other) < 60


CAMPAIGN = """name = "shop"\ntitle = { en = "Shop" }
[[attribute]]\nname = "items"\ntype = "items"\nvalues = ["a", "b", "c", "d"]
[promise]\ngamma = 19\n[mechanism]\nname = "item-set"
"""


def test_a_campaign_file_asks_for_the_bounded_estimate(tmp_path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN + 'hashes = true\n[dashboard]\nestimate = "bounded"\n')
    campaign = CampaignFile.load(path).campaign
    assert campaign.dashboard.bounded
    assert CampaignTally(campaign.mechanism, bounded=True).most_counted(2000) is not None
    for text, said in (
        ('[dashboard]\nestimate = "bounded"\n', "needs reports by hashes"),
        ('[dashboard]\nestimate = "bound"\n', "no estimate"),
        ("[dashboard]\nestimate = 3\n", "estimate"),
    ):
        path.write_text(CAMPAIGN + text)
        with pytest.raises(CampaignError, match=said):
            CampaignFile.load(path)


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_the_dashboard_says_what_is_noticed_and_which_estimate_is_shown(tmp_path, language) -> None:
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN + 'hashes = true\n[dashboard]\nestimate = "bounded"\n')
    campaign, words = CampaignFile.load(path).campaign, Language.load(language)
    tally = CampaignTally(campaign.mechanism, bounded=True)
    truth = people(campaign.domain, 2000, seeded(1)).columns
    tally.recount([tally.packing.pack_columns(campaign.mechanism.perturb(truth, seeded(2)))])
    figures = figures_of(campaign, tally)
    page = Dashboard(campaign, figures, words).page()
    assert escape(words("estimate_bounded", times=figures.most_counted)) in page
    assert [watch.kind for watch in figures.watch] == ["repeat", "impossible"]
    for watch in figures.watch:
        said = words(f"watch_{watch.kind}", share=words.percent_up(watch.notices, 2))
        assert escape(said) in page
    assert escape(words("watch_rate", rate="1")) in page
    plain = figures_of(campaign, CampaignTally(campaign.mechanism))
    assert plain.most_counted is None
    assert (
        escape(words("estimate_bounded", times="")) not in Dashboard(campaign, plain, words).page()
    )


# --- the long trial


@pytest.mark.soak
def test_a_thousand_honest_campaigns_raise_few_alarms() -> None:
    false = []
    for number in range(1000):
        case = list(CASES)[number % len(CASES)]
        crowd = Crowd(case, number)
        rows = (500, 3000, 20_000)[number // len(CASES) % 3]
        if any(kinds for _, kinds in sounded(crowd.mechanism, crowd.days(rows))):
            false.append((case, number))
    assert len(false) <= RATE * 1000, false


@pytest.mark.soak
def test_the_table_of_the_owners_page_is_what_is_measured() -> None:
    rows = re.findall(r"^\| (.+?) \|((?: \d+ \|){7})$", OWNERS_PAGE.read_text("utf-8"), re.M)
    assert [case for case, _ in rows] == list(CASES)
    for case, stated in rows:
        for (share, burst), percent in zip(COLUMNS, re.findall(r"\d+", stated), strict=True):
            forgery, noticed = Forgery(share, identical=True, burst=burst), 0
            for seed in range(1, 31, 3):
                crowd = Crowd(case, seed)
                days = crowd.days(10_000, forgery)
                noticed += any(kinds for _, kinds in sounded(crowd.mechanism, days, looks=1))
            assert abs(10 * noticed - int(percent)) <= 50, (case, forgery, noticed)
