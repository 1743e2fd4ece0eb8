"""Figures: a function of the rows, equal to what a release says, with honest warnings."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from itertools import combinations, pairwise, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.collect.forging import sounding
from tests.collect.speaking import CAMPAIGN, first_token, some_reports, speaking

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.checking import check
from sfumato.collect.figures import LEAST_SHOWN, TOO_FEW, figures_of, question
from sfumato.collect.leverage import _most_of_itemsets, leverage
from sfumato.collect.synthetic_people import people
from sfumato.collect.tally import CampaignTally, estimate
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.registry import mechanism_class
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Provenance, Table
from sfumato.table.packing import Packing

RECORDS = Domain(
    (
        Category("smoker", ("yes", "no")),
        Category("age", ("young", "middle", "old")),
        Numeric("height", 150, 200, cuts=(165, 180)),
    )
)
BASKETS = Domain((Items("buys", ("bread", "milk", "tea", "salt")),))
KINDS = {
    "gamma-diagonal": RECORDS,
    "retention": RECORDS,
    "mask": BASKETS,
    "mask on records": RECORDS,
    "cut-and-paste": BASKETS,
    "questionnaire": RECORDS,
}


def mechanism_of(kind: str) -> Mechanism:
    name = kind.partition(" ")[0]
    return mechanism_class(name).promising(Guarantee(19), KINDS[kind])


def reports_of(mechanism: Mechanism, rows: int, seed: int = 1) -> list[bytes]:
    truth = people(mechanism.domain, rows, seeded(seed))
    return bodies_of(mechanism, truth, seed)


def bodies_of(mechanism: Mechanism, truth: Table, seed: int) -> list[bytes]:
    packing = Packing(mechanism.reports)
    data = packing.pack_columns(mechanism.perturb(truth.columns, seeded(seed + 1000)))
    return [data[at : at + packing.width] for at in range(0, len(data), packing.width)]


def tally_of(mechanism: Mechanism, bodies: list[bytes]) -> CampaignTally:
    tally = CampaignTally(mechanism)
    tally.recount([b"".join(bodies)])
    return tally


@pytest.mark.parametrize("kind", KINDS)
def test_counts_kept_as_reports_come_and_go_are_those_of_a_recount(kind):
    mechanism, rng = mechanism_of(kind), np.random.default_rng(1)
    running = CampaignTally(mechanism)
    held: list[bytes] = []
    for step in range(12):
        new = reports_of(mechanism, int(rng.integers(1, 2500)), step + 1)
        running.add(new)
        held += new
        for _ in range(int(rng.integers(0, 4))):
            gone = held.pop(int(rng.integers(len(held))))
            running.remove(gone)
        if step % 3 == 0:
            rows, counts = running.snapshot()
            again, recounted = tally_of(mechanism, held).snapshot()
            assert rows == again == len(held)
            assert counts.keys() == recounted.keys() and counts
            assert all(np.array_equal(counts[key], recounted[key]) for key in counts)


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_those_of_a_release(kind):
    mechanism = mechanism_of(kind)
    bodies = reports_of(mechanism, 3000)
    tally = tally_of(mechanism, bodies)
    rows, counts = tally.snapshot()
    columns = Packing(mechanism.reports).unpack(b"".join(bodies))
    release = Release.of(Table(mechanism.reports, columns, Provenance(mechanism, secure=False)))
    assert tally.singles and tally.pairs
    for standing in (*tally.singles, *tally.pairs):
        ours, theirs = estimate(standing, rows, counts), release.marginal(standing.cells)
        assert np.allclose(ours.value, theirs.value) and np.allclose(ours.stderr, theirs.stderr)


def every_report(mechanism: Mechanism) -> list[bytes]:
    """Each report that a forger could send and is not refused."""
    choices = [
        [list(np.flatnonzero(bits)) for bits in product((0, 1), repeat=attribute.size)]
        if isinstance(attribute, Items)
        else list(range(attribute.size))
        for attribute in mechanism.reports
    ]
    packing = Packing(mechanism.reports)
    plain = [
        [[int(i) for i in v] if isinstance(v, list) else v for v in r] for r in product(*choices)
    ]
    program = mechanism.program()
    return [packing.pack(report) for report in plain if program.gives(report)]


@pytest.mark.parametrize(
    "kind",
    ["gamma-diagonal", "retention", "mask", "cut-and-paste", "questionnaire", "subset-selection"],
)
def test_leverage_is_the_most_that_any_one_report_does(kind):
    """Against the slow obvious answer: add each possible report, and look."""
    domain = Domain((Category("a", ("x", "y")), Category("b", ("x", "y", "z"))))
    own = domain if KINDS.get(kind, RECORDS) is RECORDS else BASKETS
    gamma = 2 if kind == "subset-selection" else 19  # two of six are chosen then
    mechanism = mechanism_class(kind).promising(Guarantee(gamma), own)
    linear = kind != "questionnaire"  # its weights are read off the reports, and move with them
    bodies = reports_of(mechanism, 500 if linear else 8000)
    rows, counts = tally_of(mechanism, bodies).snapshot()
    tally = CampaignTally(mechanism)
    moves = []
    for report in every_report(mechanism):
        more_rows, more = tally_of(mechanism, [*bodies, report]).snapshot()
        moves.append(
            [
                estimate(standing, more_rows, more).value - estimate(standing, rows, counts).value
                for standing in tally.singles
            ]
        )
    for place, standing in enumerate(tally.singles):
        most = np.max([np.abs(move[place]).ravel() for move in moves], axis=0)
        close = 1e-6 if linear else 0.05
        assert np.allclose(leverage(standing, counts), most, rtol=close), standing.names


def test_leverage_is_as_the_design_says():
    for cells, expected in ((2, 1.06), (42, 3.3), (1000, 57)):
        values = tuple(map(str, range(cells)))
        mechanism = mechanism_class("gamma-diagonal").promising(
            Guarantee(19), Domain((Category("a", values),))
        )
        tally = tally_of(mechanism, reports_of(mechanism, 100))
        found = leverage(tally.singles[0], tally.snapshot()[1])
        assert found is not None and float(found.max()) == pytest.approx(expected, rel=0.02)


# --- alarms


@pytest.mark.parametrize("kind", KINDS)
def test_honest_crowds_raise_no_alarm(kind):
    mechanism = mechanism_of(kind)
    for seed in range(15):
        tally = tally_of(mechanism, reports_of(mechanism, 4000, seed))
        assert sounding(tally) == set()


@pytest.mark.parametrize("kind", ["gamma-diagonal", "retention", "questionnaire"])
def test_one_report_again_and_again_raises_an_alarm(kind):
    mechanism = mechanism_of(kind)
    honest = reports_of(mechanism, 4000)
    forged = [honest[0]] * 6000  # under fresh ids
    tally = tally_of(mechanism, honest + forged)
    assert "impossible" in sounding(tally)


@pytest.mark.parametrize("kind", ["gamma-diagonal", "questionnaire"])
def test_a_day_unlike_those_before_raises_an_alarm(kind):
    mechanism = mechanism_of(kind)
    truth = people(mechanism.domain, 4000, seeded(1))
    for seed in range(10):
        tally = tally_of(mechanism, bodies_of(mechanism, truth, seed))
        tally.begin_day()
        tally.add(bodies_of(mechanism, truth, seed + 100))
        assert sounding(tally) == set()
    tally = tally_of(mechanism, bodies_of(mechanism, truth, 1))
    tally.begin_day()
    tally.add(reports_of(mechanism, 4000, 77))  # another crowd
    assert "day" in sounding(tally)


# --- too few, and how many more


def test_too_few_are_told_from_enough():
    mechanism = mechanism_of("gamma-diagonal")
    few = tally_of(mechanism, reports_of(mechanism, 20))
    many = tally_of(mechanism, reports_of(mechanism, 50_000))
    assert any(question(each, *few.snapshot()).too_few for each in few.singles)
    assert not any(question(each, *many.snapshot()).too_few for each in many.singles)


def test_more_people_bring_the_precision_that_is_said(campaign_path):
    campaign = CampaignFile.load(campaign_path).campaign
    tally = tally_of(campaign.mechanism, reports_of(campaign.mechanism, 2000))
    now = question(tally.singles[0], *tally.snapshot())
    assert now.points is not None and now.next_points is not None and now.more_people is not None
    later = tally_of(campaign.mechanism, reports_of(campaign.mechanism, 2000 + now.more_people))
    then = question(later.singles[0], *later.snapshot())
    assert then.points == pytest.approx(now.next_points, rel=0.05)


def test_people_needed_before_anyone_answers_are_those_needed(campaign_path):
    campaign = CampaignFile.load(campaign_path).campaign
    found = check(campaign)
    needed = found.questions[1].people
    assert needed is not None
    even = Table(
        campaign.domain,
        tuple(np.arange(needed) // 3**p % 3 for p in range(2)),
    )
    tally = tally_of(campaign.mechanism, bodies_of(campaign.mechanism, even, 1))
    assert question(tally.singles[1], *tally.snapshot()).points == pytest.approx(2.0, rel=0.05)
    assert found.gamma == "19/1" and found.truthful == pytest.approx(19 / 27)
    assert found.warnings and not found.missing


def test_a_campaign_that_a_few_forgers_could_turn_is_warned_of(tmp_path):
    values = ", ".join(f'"{number}"' for number in range(1000))
    path = tmp_path / "c.toml"
    path.write_text(
        f"""name = "towns"\ntitle = {{ en = "Towns" }}
[[attribute]]\nname = "town"\ntype = "category"\nvalues = [{values}]
[promise]\ngamma = 19\n[mechanism]\nname = "gamma-diagonal"\n"""
    )
    found = check(CampaignFile.load(path).campaign)
    assert found.questions[0].leverage == pytest.approx(57, rel=0.02)
    assert any("forged" in warning for warning in found.warnings)


# --- what a public dashboard shows


def public(tmp_path: Path) -> Path:
    path = tmp_path / "public.toml"
    path.write_text(CAMPAIGN + "[dashboard]\npublic = true\n")
    return path


def test_a_public_dashboard_changes_in_steps_and_not_by_restarts(tmp_path):
    path, store = public(tmp_path), str(tmp_path / "c.db")
    token = first_token(store)
    with speaking(path, store) as speaker:

        def shown() -> dict:
            return speaker.get(speaker.campaign("/figures")).json

        speaker.send(some_reports(99))
        assert shown()["enough"] is False and shown()["reports"] == 0
        assert shown()["questions"] == [] and shown()["days"] == []
        speaker.send(some_reports(1))
        first = shown()
        assert first["reports"] == 100 and first["questions"] and first["store_bytes"] is None
        speaker.send(some_reports(49))
        assert shown() == first
        owner = speaker.get(speaker.campaign("/figures"), authorization=f"Bearer {token}").json
        assert owner["reports"] == 149 and owner["days"]
    with speaking(path, store) as speaker:
        assert shown() == first
        speaker.send(some_reports(1))
        assert shown()["reports"] == 150
        page = speaker.get("/health/dashboard").body.decode()
        assert "SQL" not in page and "export" not in page and "150" in page


def test_the_owner_of_a_public_dashboard_has_an_address_that_asks_for_the_token(tmp_path):
    path, store = public(tmp_path), str(tmp_path / "c.db")
    token = first_token(store)
    with speaking(path, store) as speaker:
        speaker.send(some_reports(120))
        assert 'href="/health/dashboard/owner"' in speaker.get("/health/dashboard").body.decode()
        for end in ("", "/figures", "/export"):
            asked = speaker.get(f"/health/dashboard/owner{end}")
            assert asked.status == 401 and asked.headers["www-authenticate"].startswith("Basic")
            found = speaker.get(f"/health/dashboard/owner{end}", authorization=f"Bearer {token}")
            assert found.status == 200
        page = speaker.get("/health/dashboard/owner", authorization=f"Bearer {token}")
        assert "SQL" in page.body.decode() and "/owner/export" in page.body.decode()
        sender = first_token(store, "send")
        asked = speaker.get("/health/dashboard/owner", authorization=f"Bearer {sender}")
        assert asked.status == 401


def test_many_who_look_at_once_see_the_same_step(tmp_path):
    """Two that find a step at the same moment must not show figures that differ by a report."""
    with speaking(public(tmp_path), str(tmp_path / "c.db")) as speaker:
        speaker.send(some_reports(99))
        seen = set()

        def look() -> None:
            for _ in range(15):
                seen.add(speaker.get(speaker.campaign("/figures")).json["reports"])

        threads = [threading.Thread(target=look) for _ in range(6)]
        for thread in threads:
            thread.start()
        for _ in range(60):
            speaker.send(some_reports(1))
        for thread in threads:
            thread.join()
        steps = sorted(seen - {0})
        assert all(later - earlier >= 50 for earlier, later in pairwise(steps)), steps


def test_figures_are_the_same_after_a_restart(tmp_path, campaign_path):
    store = str(tmp_path / "c.db")
    token = first_token(store)
    found = []
    for _ in range(2):
        with speaking(campaign_path, store) as speaker:
            if not found:
                reports = some_reports(700)
                speaker.send(reports)
                gone = {"id": reports[0]["id"]}
                speaker.ask("POST", speaker.campaign("/withdrawals"), gone)
            answer = speaker.get(speaker.campaign("/figures"), authorization=f"Bearer {token}")
            found.append(answer.json | {"store_bytes": None})
    assert found[0] == found[1] and found[0]["reports"] == 699


def test_the_promise_is_shown_with_what_shuffling_adds(campaign_path):
    campaign = replace(CampaignFile.load(campaign_path).campaign, budget=6.0)
    tally = tally_of(campaign.mechanism, reports_of(campaign.mechanism, 10_000))
    kept = figures_of(campaign, tally).promise
    assert (kept.gamma, kept.budget) == ("19/1", 6.0)
    assert kept.epsilon == pytest.approx(math.log(19)) and kept.posterior == pytest.approx(0.5)
    assert kept.shuffled_epsilon is not None and 0.15 < kept.shuffled_epsilon < 0.22
    assert any("once" in caveat for caveat in kept.caveats)


@pytest.mark.parametrize("chosen", [None, 1, 2])
def test_the_most_of_one_report_is_that_of_all_reports_tried(chosen: int | None) -> None:
    """A report names one of three words and shows any of four items, or just so many."""
    tally = SimpleNamespace(columns=(((0, 1, 2), False), ((3, 4, 5, 6), True)), shape=(3, 5))
    influence = np.random.default_rng(6).normal(size=(3, 5, 2))
    sizes = range(5) if chosen is None else [chosen]
    shown = [list(items) for size in sizes for items in combinations(range(1, 5), size)]
    tried = [
        np.abs(influence[word, 0] + influence[word, items].sum(axis=0))
        for word in range(3)
        for items in shown
    ]
    assert np.allclose(_most_of_itemsets(tally, influence, chosen), np.max(tried, axis=0))


def test_a_crowd_of_one_is_one_and_of_none_is_refused() -> None:
    pets = Domain((Category("pet", ("cat", "dog")),))
    assert people(pets, 1, seeded(1)).rows == 1
    with pytest.raises(ParameterError, match="at least one person, found 0"):
        people(pets, 0, seeded(1))


@pytest.mark.parametrize("kind", KINDS)
def test_of_few_reports_no_share_is_shown(kind: str) -> None:
    """One report of a questionnaire said 127.8 % ± 0.0."""
    mechanism = mechanism_of(kind)
    for seed in range(8):
        tally = CampaignTally(mechanism)
        tally.add(reports_of(mechanism, 1, seed))
        asked = [question(each, *tally.snapshot()) for each in tally.singles]
        assert all(each.too_few and not each.bars and each.limit for each in asked)
        tally.add(reports_of(mechanism, LEAST_SHOWN, seed))
        bars = [bar for each in tally.singles for bar in question(each, *tally.snapshot()).bars]
        assert bars and max(bars, key=lambda bar: bar.share.value).share.stderr > 0
    assert TOO_FEW in {each.limit for each in asked}
