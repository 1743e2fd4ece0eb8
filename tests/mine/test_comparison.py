"""Comparisons judged by SciPy on true records, and by people drawn anew from a known population."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, kstest, norm

import sfumato as sf
from sfumato.domain import Bins, Category, Domain
from sfumato.errors import EstimationError, ParameterError, SchemaError
from sfumato.estimation.ratio import Parts, fieller
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mine.comparison import compare, holm
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.renderers.text import Paper, lines_of
from sfumato.table import Table

Floats = NDArray[Any]


def law(groups: int, values: int, dependence: float) -> Floats:
    """The shares of a table: independent, or with a trend across it."""
    rows, columns = np.arange(groups) + 3.0, np.arange(values) + 2.0
    rows, columns = rows / rows.sum(), columns / columns.sum()
    bent = np.outer(np.linspace(-1, 1, groups), np.linspace(-1, 1, values))
    bent = bent - (bent @ columns)[:, None] - rows @ bent
    found = np.outer(rows, columns) * (1 + dependence * bent)
    return found / found.sum()


def domain(groups: int, values: int, number: bool = False) -> Domain:
    edges = tuple(range(0, 10 * values + 1, 10))
    names = tuple(f"v{place}" for place in range(values))
    other = Bins("b", edges) if number else Category("b", names)
    return Domain((Category("a", tuple(f"g{place}" for place in range(groups))), other))


class Judged(NamedTuple):
    p: Floats
    adjusted: Floats  # the least of each campaign
    differences: Floats  # whether they held
    ratios: Floats
    odds: Floats
    v: Floats
    stated: float  # over what was found


def judged(
    groups: int,
    values: int,
    rows: int,
    times: int,
    dependence: float,
    *,
    number: bool = False,
    questions: bool = False,
) -> Judged:
    shares, names = law(groups, values, dependence), domain(groups, values, number)
    made = Questionnaire.promising(sf.Guarantee(19), names) if questions else None
    made = made or sf.GammaDiagonal(names, 19)
    within = shares / shares.sum(axis=1, keepdims=True)
    alone = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    true_v = math.sqrt(((shares - alone) ** 2 / alone).sum() / (min(shares.shape) - 1))
    rng = np.random.default_rng(3)
    p, adjusted, differences, ratios, odds, v, errors = [], [], [], [], [], [], []
    for seed in range(times):
        place = rng.choice(shares.size, rows, p=shares.ravel())
        columns = ((place // values).astype(np.uint8), (place % values).astype(np.uint8))
        found = compare(perturb(Table(names, columns), made, seeded(seed)), "a", "b")
        assert found.independence is not None and found.origin == "reports"
        p.append(found.independence.p)
        low, high = found.independence.ends
        v.append(low - 1e-9 <= true_v <= high + 1e-9)
        adjusted.append(min(each.p_adjusted for each in found.differences))
        for each in found.differences:
            g, h = (int(name[1:]) for name in each.groups)
            x, y = (
                within[[g, h], int(each.of[1:])]
                if not number
                else within[[g, h]] @ (10.0 * np.arange(values) + 5)
            )
            low, high = each.found.interval()
            differences.append(low <= x - y <= high)
            errors.append((each.found.value - (x - y), each.found.stderr))
            if each.ratio_ends is not None:
                ratios.append(each.ratio_ends[0] <= x / y <= each.ratio_ends[1])
            if each.odds_ends is not None:
                odd = x * (1 - y) / (y * (1 - x))
                odds.append(each.odds_ends[0] <= odd <= each.odds_ends[1])
    error, stated = np.array(errors).T
    ratio = math.sqrt((stated**2).mean() / (error**2).mean())
    return Judged(*map(np.array, (p, adjusted, differences, ratios, odds, v)), ratio)


SIZES = [(2, 2), (3, 3), (5, 4)]


def check(found: Judged, slack: float, dependence: float) -> None:
    for each in (found.differences, found.ratios, found.odds, found.v):
        if each.size:
            assert 0.95 - slack < each.mean()
    assert found.differences.mean() < 0.95 + slack
    assert 0.9 - slack / 3 < found.stated < 1.15
    if not dependence:
        assert kstest(found.p, "uniform").pvalue > 1e-3
        assert (found.adjusted < 0.05).mean() < 0.05 + slack


@pytest.mark.parametrize("dependence", [0.0, 0.4])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_intervals_hold_and_chance_is_uniform(size: tuple[int, int], dependence: float) -> None:
    check(judged(*size, 4000, 150, dependence), 0.05, dependence)


def test_means_and_questionnaires_too() -> None:
    check(judged(3, 5, 5000, 100, 0.4, number=True), 0.05, 0.4)
    check(judged(3, 3, 5000, 100, 0.0, questions=True), 0.05, 0.0)


@pytest.mark.soak
@pytest.mark.parametrize("dependence", [0.0, 0.4])
@pytest.mark.parametrize("size", [*SIZES, (2, 5)], ids=str)
def test_many_campaigns(size: tuple[int, int], dependence: float) -> None:
    check(judged(*size, 10_000, 1000, dependence), 0.02, dependence)


@pytest.fixture(scope="module")
def records() -> Table:
    rng = np.random.default_rng(5)
    place = rng.choice(12, 3000, p=law(4, 3, 0.3).ravel())
    return Table(domain(4, 3), ((place // 3).astype(np.uint8), (place % 3).astype(np.uint8)))


def test_on_true_records_it_is_pearson(records: Table) -> None:
    found = compare(Exact(records), "a", "b")
    counts = np.zeros((4, 3))
    np.add.at(counts, tuple(records.columns), 1)
    chi2, p, df, _ = chi2_contingency(counts, correction=False)
    assert found.independence is not None
    assert (found.independence.chi2, found.independence.df) == (pytest.approx(chi2), df)
    assert found.independence.p == pytest.approx(p)
    first = found.differences[0]
    share = counts[:2, 0] / counts[:2].sum(axis=1)
    error = math.sqrt((share * (1 - share) / counts[:2].sum(axis=1)).sum())
    assert first.found.value == pytest.approx(share[0] - share[1])
    assert first.found.stderr == pytest.approx(error)
    fixed = compare(Exact(records), "a", "b", rows_fixed=True)
    assert fixed.independence is None and fixed.differences[0].found.stderr == 0


def test_nobody_in_a_small_sample_is_not_exactly_nobody() -> None:
    """Of 13 people whose share is that of all 11 %, none is found in one sample of five."""
    people = {"a": ["x"] * 1800 + ["y"] * 13, "b": (["no"] * 8 + ["yes"]) * 200 + ["no"] * 13}
    found = sf.compare(people, "a", "b")
    (between,), independence = found.differences, found.independence
    assert independence is not None and independence.p > 0.1 and independence.ends[0] == 0
    assert between.p > 0.05 and between.found.interval()[0] < 0
    low, high = found.found[1][0].interval()
    assert low == 0 and 0.11 < high < 1 - 0.05 ** (1 / 13) + 0.02  # the exact end is 21 %
    backward = sf.compare(people | {"a": ["y"] * 1800 + ["x"] * 13}, "a", "b").differences[0]
    assert backward.ratio == 0 and backward.ratio_ends is not None and backward.ratio_ends[1] > 1
    assert backward.odds_ends is None or backward.odds_ends[1] > 1
    assert sf.compare(people, "a", "b", rows_fixed=True).found[1][0].stderr == 0


def test_power_is_what_campaigns_have(records: Table) -> None:
    """Φ(|Δ|/se − z), and the difference of which that is four in five."""
    release = perturb(records, sf.GammaDiagonal(records.domain, 19), seeded(1))
    found = compare(release, "a", "b", power=0.05)
    (power, size), between = found.seen[0], found.differences[0]
    assert power == pytest.approx(norm.cdf(0.05 / between.found.stderr - norm.isf(0.025)))
    assert norm.cdf(size / between.found.stderr - norm.isf(0.025)) == pytest.approx(0.8)
    assert any("would have been seen in" in note for note in found.notes())


def test_trends_are_lines_by_least_squares() -> None:
    rng = np.random.default_rng(5)
    age = rng.integers(0, 5, 3000)
    names = Domain((Bins("a", (0, 10, 20, 30, 40, 50)), Category("b", ("no", "yes"))))
    yes = (rng.random(3000) < 0.1 + 0.1 * age).astype(np.uint8)
    found = compare(Exact(Table(names, (age.astype(np.uint8), yes))), "a", "b")
    ((value, slope, p),) = found.trends
    assert value == "yes" and p < 1e-6
    assert slope.value == pytest.approx(np.polyfit(10 * age + 5, yes, 1)[0])


def test_it_is_text_frames_json_and_a_picture(records: Table) -> None:
    release = perturb(records, sf.GammaDiagonal(records.domain, 19), seeded(1))
    found = sf.compare(release, "a", "b", power=0.05)
    said = found.to_dict()
    assert said["independence"]["df"] == 6 and said["from"] == "reports"
    assert len(said["differences"]) == len(said["power"]) == 18
    assert {"groups", "value", "stderr", "p", "p_adjusted"} <= said["differences"][0].keys()
    assert found.to_arrow().column_names[:4] == ["group", "other", "of", "value"]
    assert "Cramér's V" in repr(found) and "<svg" in found._repr_html_()
    assert found.plot() is not None


def test_fieller_by_simulation() -> None:
    """Also where the denominator is hardly known; an interval that says nothing is nan."""
    rng, truth, covariance = np.random.default_rng(2), np.array([2.0, 4.0]), np.eye(2) * 1.5
    held = []
    for _ in range(4000):
        top, bottom = rng.multivariate_normal(truth, covariance)
        low, high = fieller(Parts.of(top, bottom, covariance), 1.96, (0.0, math.inf))
        held.append(bool(np.isnan(low)) or low <= 0.5 <= high)
    assert 0.94 < np.mean(held) < 0.985
    nothing = fieller(Parts.of(1.0, -1.0, np.eye(2) * 1e-6), 1.96, (0.0, math.inf))
    assert np.isnan(nothing).all()
    assert holm([0.5, 0.5]) == [1.0, 1.0]


def test_what_hardly_anything_is_known_of_stays_possible() -> None:
    """Groups within the noise are left out until all that stay have people; a share below 0 gives
    no ratio below 0.
    """
    compared, names = 0, domain(3, 5)
    rng = np.random.default_rng(4)
    for seed in range(60):
        columns = rng.integers(0, 3, 150).astype(np.uint8), rng.integers(0, 5, 150).astype(np.uint8)
        release = perturb(Table(names, columns), sf.GammaDiagonal(names, 19), seeded(seed))
        try:
            found = compare(release, "a", "b")
        except EstimationError as refused:
            assert "larger than the noise" in str(refused) or "one value only" in str(refused)
            continue
        compared += 1
        assert all(people.value > 0 for people in found.people)
        assert found.independence is not None and 0 <= found.independence.v <= 1
        for each in found.differences:
            for value, ends in ((each.ratio, each.ratio_ends), (each.odds_ratio, each.odds_ends)):
                assert (value is None) == (ends is None)
                assert value is None or ends is None or ends[0] <= value <= ends[1]
        for share in (share for shares in found.found for share in shares):
            assert 0 <= share.interval()[0] <= share.interval()[1] <= 1
    assert compared > 10


@pytest.mark.parametrize("names", ["abc", "123"])
def test_ratios_are_figures_that_stand_beside_their_groups_once(names: str) -> None:
    columns = {"a": [*names] * 40, "b": [*(names[:2] * 3)] * 20, "c": [*names, *names[::-1]] * 20}
    for of in "bc":
        lines = lines_of(sf.compare(columns, "a", of).view(), Paper())
        heads = [line for line in lines if "ratio" in line]
        assert sum(line.count("odds ratio") for line in heads) == 1
        assert all(line.split()[0] == "a" for line in heads)


def test_what_cannot_be_compared_is_said_so(records: Table) -> None:
    source = Exact(records)
    with pytest.raises(SchemaError, match="did you mean 'a'"):
        compare(source, "aa", "b")
    with pytest.raises(ParameterError, match="with itself"):
        compare(source, "a", "a")
    with pytest.raises(ParameterError, match="power"):
        compare(source, "a", "b", power="much")  # type: ignore[arg-type]
    with pytest.raises(EstimationError, match="one value only"):
        sf.compare({"a": ["x"] * 9, "b": ["y", "z", "z"] * 3}, "a", "b")
