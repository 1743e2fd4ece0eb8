"""What can be guessed from a swapped table, by dictionaries, and the limit on it that a swap
keeps or refuses.
"""

from collections import Counter, defaultdict
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, PrivacyError
from sfumato.publish import feasible
from sfumato.publish.owned import Keyed, columns_of, patterns, records_of
from sfumato.publish.swap import SwapRelease, swap
from sfumato.randomness import seeded


def skewed(rows: int = 600, rich: float = 0.2, seed: int = 5) -> pa.Table:
    """People, most of them alone with their keys, a few of whom are rich."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    chance = np.where(age > 50, 1.6 * rich, 0.5 * rich)
    return pa.table(
        {
            "age": age,
            "town": rng.choice(["Ghent", "Lyon", "Turin", "Utrecht", "York"], rows),
            "shoe": rng.integers(35, 47, rows),
            "income": np.where(rng.random(rows) < chance, "high", "low"),
        }
    )


KEYS = ("age", "town", "shoe")


def crossed(truth: pa.Table, release: pa.Table, name: str) -> dict[object, Counter[object]]:
    """For each value shown by unique records, how many truly have each."""
    rows = list(zip(*(truth[key].to_pylist() for key in KEYS), strict=True))
    alone = Counter(rows)
    table: dict[object, Counter[object]] = defaultdict(Counter)
    for row, true, shown in zip(
        rows, truth[name].to_pylist(), release[name].to_pylist(), strict=True
    ):
        if alone[row] == 1:
            table[shown][true] += 1
    return table


def surest(truth: pa.Table, release: SwapRelease, name: str = "income") -> float:
    """The highest share of one true value among the unique records that show any value."""
    table = crossed(truth, release.table, name)
    return max(max(true.values()) / true.total() for true in table.values())


def test_least_drift_alone_gives_the_rarer_value_away_and_the_limit_does_not() -> None:
    people = skewed()
    open_hand = swap(
        people,
        0.5,
        confidential="income",
        drift=None,
        max_posterior=1,
        rng=seeded(1),
    )
    assert surest(people, open_hand) == 1.0  # everyone shown as high is low: what 0.1.0 released
    assert set(crossed(people, open_hand.table, "income")["high"]) == {"low"}
    kept = swap(people, 0.5, confidential="income", drift=None, rng=seeded(1))
    assert surest(people, kept) <= 0.9
    assert kept.reports[0].optimal
    worst = kept.reports[0].cost.intruder.worst
    assert worst is not None and worst.posterior == pytest.approx(surest(people, kept))


@pytest.mark.parametrize("limit", [0.82, 0.86, 0.95])
def test_a_stated_limit_holds_for_every_value(limit: float) -> None:
    people = skewed()
    release = swap(
        people,
        0.3,
        confidential="income",
        drift=None,
        max_posterior=limit,
        rng=seeded(1),
    )
    assert surest(people, release) <= limit
    assert release.reports[0].max_posterior == limit


def test_what_cannot_be_had_is_refused_and_every_advice_would_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Everything is tried, however busy the machine.
    monkeypatch.setattr(feasible, "REFUSAL_SECONDS", 600.0)
    people = skewed()
    how = {"confidential": "income"}
    with pytest.raises(PrivacyError, match="the totals of 'income' cannot stay") as refused:
        swap(people, 0.5, **how)
    advice = dict(part.split("=") for part in str(refused.value.hint).split() if "=" in part)
    assert set(advice) == {"proportion", "drift"}
    moved = swap(people, 0.5, drift=int(advice["drift"]), **how).reports[0]
    assert 0 < moved.marginal_drift <= int(advice["drift"])
    with pytest.raises(PrivacyError):
        swap(people, 0.5, drift=int(advice["drift"]) - 1, **how)
    stayed = swap(people, float(advice["proportion"]), **how).reports[0]
    assert stayed.marginal_drift == 0
    with pytest.raises(PrivacyError, match=r"could be guessed with more than 0\.7") as refused:
        swap(people, 0.2, max_posterior=0.7, **how)
    advice = dict(part.split("=") for part in str(refused.value.hint).split() if "=" in part)
    limit = float(advice["max_posterior"])
    assert swap(people, 0.2, max_posterior=limit, **how).reports[0].marginal_drift == 0
    with pytest.raises(PrivacyError):
        swap(people, 0.2, max_posterior=limit - 0.01, **how)
    assert str(refused.value.hint).endswith(
        "; no other proportion that was tried (0.05 to 0.95) would do"
    )
    monkeypatch.setattr(feasible, "REFUSAL_SECONDS", 0.0)  # what would do for these is not asked
    for other in (0.05, 0.15, 0.6, 0.95):
        with pytest.raises(PrivacyError):
            swap(people, other, max_posterior=0.7, **how)


@pytest.mark.parametrize(
    ("fits", "said"),
    [
        ({30, 70}, (["proportion=0.3"], "")),
        ({30, 60}, (["proportion=0.6", "proportion=0.3"], "")),
        (
            {60},
            (["proportion=0.6"], "no smaller proportion that was tried (0.05 to 0.49) would do"),
        ),
        ({}, ([], "no other proportion that was tried (0.05 to 0.95) would do")),
    ],
)
def test_whether_a_smaller_proportion_would_do_is_said(
    fits: set[int], said: tuple[list[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 unique records as many can be changed as `fits` names."""
    holdings = SimpleNamespace(free=np.array([100]), changing=lambda changes: changes)
    monkeypatch.setattr(feasible, "fitting_changes", lambda changes, _: changes in fits or None)
    assert feasible._other_proportions(holdings, 0.5, 0) == said


def test_totals_move_by_each_record_once() -> None:
    people = skewed()
    release = swap(people, 0.5, confidential="income", drift=None)
    before, after = (Counter(t["income"].to_pylist()) for t in (people, release.table))
    assert release.to_dict()["marginal_drift"] == abs(before["high"] - after["high"])


def test_the_intruders_are_right_as_often_as_a_slow_count_says() -> None:
    people = skewed()
    release = swap(people, 0.5, confidential="income", drift=None, rng=seeded(2))
    found = release.reports[0].cost.intruder
    table = crossed(people, release.table, "income")
    unique = sum(true.total() for true in table.values())
    truly: Counter[object] = sum(table.values(), Counter())
    assert found.unique == unique
    assert found.commonest == "low" and found.baseline == pytest.approx(truly["low"] / unique)
    right = sum(true[shown] for shown, true in table.items())
    assert found.believing == pytest.approx(right / unique)
    best = sum(max(true.values()) for true in table.values())
    assert found.informed == pytest.approx(best / unique)
    # One who believes seems to be fooled; one who knows how it was made is not.
    assert found.believing < 0.6 < found.baseline <= found.informed <= (found.weighing_keys or 0)


def test_who_weighs_the_keys_learns_from_the_others_alone() -> None:
    """Where the release says nothing of anyone, no guess is right more often than a constant one
    can be: each person's own value must not help to guess it.
    """
    rng = np.random.default_rng(1)
    rows = 4000
    table = pa.table({"who": np.arange(rows), "ill": rng.choice(["no", "yes"], rows)})
    data = records_of(table)
    from sfumato.publish.identify import status_of
    from sfumato.publish.intruder import intruder_of

    truth, shown = data.column("ill"), rng.integers(0, 2, rows)
    status = status_of(patterns(columns_of(data, ["who"])), truth)
    found = intruder_of([np.arange(rows) % 2], status, data.domain["ill"], truth, shown)
    assert abs((found.weighing_keys or 0) - 0.5) < 5 * 0.5 / np.sqrt(rows)


def pairs_and_groups() -> pa.Table:
    """Groups that share keys and value, of two and of three people, and many who are alone."""
    keys, values = [], []
    for number in range(60):
        size = 1 if number < 40 else 2 if number < 50 else 3
        keys += [number] * size
        values += [["a", "b", "c"][number % 3]] * size
    return pa.table({"key": keys, "secret": values})


def test_groups_of_three_keep_their_majority_and_that_is_said() -> None:
    release = swap(pairs_and_groups(), 0.5, confidential="secret", rng=seeded(1))
    found = release.reports[0].cost.intruder
    assert found.grouped == 50 and found.groups_told == 0
    assert found.groups_believing == pytest.approx((30 + 20 / 2) / 50)
    assert (found.groups_informed or 0) >= found.groups_believing


def test_values_that_one_or_two_hold_stop_the_release_only_where_the_limit_is_stated() -> None:
    table = pa.table({"who": range(30), "secret": ["a"] * 15 + ["b"] * 14 + ["rare"]})
    release = swap(table, 0.4, confidential="secret", rng=seeded(1))
    assert any("one or two unique records hold" in note for note in release.to_dict()["notes"])
    with pytest.raises(PrivacyError, match="drift=1"):
        swap(table, 0.4, confidential="secret", max_posterior=0.9)
    freed = swap(table, 0.4, confidential="secret", max_posterior=0.9, drift=1)
    shown = freed.reports[0].cost.intruder.shown
    assert all(one.posterior <= 0.9 for one in shown)


def test_an_optimum_under_the_limit_is_that_of_every_table_that_keeps_it() -> None:
    """Every way to deal the same values out again, tried one by one."""
    table = pa.table({"who": range(7), "half": [0, 0, 0, 1, 1, 1, 1], "secret": list("aabbbab")})
    release = swap(table, 0.6, confidential="secret", max_posterior=0.8, rng=seeded(1))
    keyed = Keyed.of(table, "secret")
    from sfumato.publish.conditional import simple_bayes

    true = keyed.table.column("secret")
    posterior = simple_bayes(keyed.known, true, 2, np.arange(7))
    best = np.inf
    for dealt in set(permutations(true.tolist())):
        shown = np.array(dealt)
        if (shown != true).sum() != release.reports[0].changed:
            continue
        counts = [np.bincount(true[shown == value], minlength=2) for value in (0, 1)]
        if all(count.max() <= 0.8 * count.sum() for count in counts):
            rows = np.arange(7)
            best = min(best, float((posterior[rows, true] - posterior[rows, shown]).sum()))
    assert release.reports[0].objective == pytest.approx(best, abs=1e-9)


def test_binned_keys_are_released_in_their_bins() -> None:
    people = skewed()
    release = swap(
        people,
        0.2,
        confidential="income",
        bins={"age": "40,60", "shoe": "width:3"},
        drift=None,
        rng=seeded(1),
    )
    assert set(release.table["age"].to_pylist()) == {"[18,40)", "[40,60)", "[60,89]"}
    unique = release.reports[0].cost.before.sample_uniques
    assert release.released_risks["income"].sample_uniques == unique
    assert records_of(people).to_arrow()["age"].to_pylist() == people["age"].to_pylist()


def test_raw_keys_are_released_only_if_asked_and_counted_as_they_go_out() -> None:
    people = skewed()
    release = swap(
        people,
        0.2,
        confidential="income",
        bins={"age": "40,60", "shoe": "width:3"},
        release_raw=True,
        drift=None,
        rng=seeded(1),
    )
    assert release.table["age"].to_pylist() == people["age"].to_pylist()
    rows = Counter(zip(*(people[key].to_pylist() for key in KEYS), strict=True))
    alone = sum(times == 1 for times in rows.values())
    assert release.released_risks["income"].sample_uniques == alone
    true = sum(table[shown] for shown, table in crossed(people, release.table, "income").items())
    (note,) = release.notes
    assert f"{alone:,} records are unique in the file as released, {true:,} of them" in note


def two_columns(rows: int = 1200, seed: int = 2) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 60, rows)
    return pa.table(
        {
            "age": age,
            "town": rng.choice(["Ghent", "Lyon", "Turin"], rows),
            "shoe": rng.integers(35, 40, rows),
            "again": np.where(rng.random(rows) < 0.4 + 0.2 * (age < 30), "yes", "no"),
            "priors": rng.choice(["0", "1-3", "4+"], rows, p=[0.4, 0.35, 0.25]),
        }
    )


def told_for_certain(truth: pa.Table, release: pa.Table, name: str) -> int:
    """Records of groups of two or more that show one value, which all of them truly have."""
    groups: dict[tuple[object, ...], list[tuple[object, object]]] = defaultdict(list)
    keys = list(zip(*(truth[key].to_pylist() for key in KEYS), strict=True))
    for key, *pair in zip(keys, truth[name].to_pylist(), release[name].to_pylist(), strict=True):
        groups[key].append(tuple(pair))
    return sum(
        len(pairs)
        for pairs in groups.values()
        if len(pairs) > 1 and len({part for pair in pairs for part in pair}) == 1
    )


def test_columns_swapped_as_one_are_each_protected_on_their_own() -> None:
    people = two_columns()
    release = swap(
        people,
        0.5,
        confidential=["again", "priors"],
        jointly=True,
        drift=None,
        rng=seeded(1),
    )
    report = release.reports[0]
    assert told_for_certain(people, people, "again") > 50
    assert [one.confidential for one in report.single] == ["again", "priors"]
    for one in report.single:
        assert told_for_certain(people, release.table, one.confidential) == one.groups_told == 0
        assert surest(people, release, one.confidential) <= 0.9
        worst = one.worst
        assert worst is not None
        assert worst.posterior == pytest.approx(surest(people, release, one.confidential))
    assert set(release.to_dict()["single_columns"]) == {"again", "priors"}


def test_a_method_that_knows_no_limit_is_stopped_by_it() -> None:
    people = skewed()
    with pytest.raises(PrivacyError, match="greedy lets 'income' be guessed with"):
        swap(people, 0.35, confidential="income", method="greedy", drift=None)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"max_posterior": 1.2}, "max_posterior=1.2 lies outside"),
        ({"max_posterior": "high"}, "max_posterior='high' is no number"),
        ({"drift": 1.5}, "drift=1.5 is no number of records"),
        ({"confidential": "incme"}, "did you mean 'income'"),
        ({"confidential": 3}, "confidential=3 is not the name of a column"),
        ({"confidential": None}, "no confidential column was named"),
        ({"bins": {"age": 5}}, "does not say how to cut"),
    ],
)
def test_a_wrong_argument_is_named(how: dict[str, object], words: str) -> None:
    with pytest.raises((ParameterError, sf.SfumatoError), match=words):
        sf.swap(skewed(), 0.2, **{"confidential": "income", **how})
    with pytest.raises(ParameterError, match="proportion='half' is no number"):
        sf.swap(skewed(), "half", confidential="income")


def test_adult_is_not_inverted(data_dir: Path) -> None:
    """Eleven of Adult's columns as keys: at 0.5 every unique record shown as >50K was <=50K."""
    from pyarrow import csv

    table = csv.read_csv(data_dir / "adult.csv.gz").drop(
        ["fnlwgt", "split", "education_num", "capital_gain", "capital_loss"]
    )
    bins = {"age": "frequency:4", "hours_per_week": "frequency:4"}
    how: dict[str, Any] = {"confidential": "income", "bins": bins}
    with pytest.raises(PrivacyError, match="the totals of 'income' cannot stay"):
        swap(table, 0.5, rng=seeded(1), **how)
    report = swap(table, 0.5, drift=None, rng=seeded(1), **how).reports[0]
    worst = report.cost.intruder.worst
    assert report.optimal and worst is not None and worst.posterior <= 0.9
    intruder = report.cost.intruder
    assert intruder.believing == pytest.approx(0.5, abs=0.001)
    assert intruder.informed is not None and intruder.baseline is not None
    assert intruder.informed >= intruder.baseline > 0.75


def test_the_limit_is_no_dearer_than_it_must_be() -> None:
    """A limit that does not bind changes nothing."""
    people = two_columns().drop(["again"])
    how = {"confidential": "priors", "drift": None}
    free, limited = (
        swap(people, 0.5, max_posterior=limit, rng=seeded(1), **how).reports[0]
        for limit in (1.0, 0.9)
    )
    assert free.objective == pytest.approx(limited.objective, abs=1e-9)


@pytest.mark.parametrize("least", [0.51, 0.52, 0.53, 0.7, 0.83, 0.99])
def test_the_limit_that_would_do_is_the_smallest_on_the_grid(
    monkeypatch: pytest.MonkeyPatch, least: float
) -> None:
    monkeypatch.setattr(
        feasible, "fitting_changes", lambda limit, _: 1 if limit >= least - 1e-9 else None
    )
    holdings = SimpleNamespace(cap=object(), capped=lambda limit: limit)
    assert feasible._other_limit(holdings, 0.5, None) == f"max_posterior={least:.2g}"
