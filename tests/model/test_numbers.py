"""Ranges of several numbers: what the fitted law says of them, judged by the true records."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import ParameterError, SchemaError, Unanswerable
from sfumato.mechanisms.number_rounds import cells_for
from sfumato.mechanisms.ranges import Ranges, evenly_within
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.model.fitted import fit_release, fit_rounds, reports_of
from sfumato.model.fitting import fit
from sfumato.model.laplace import TRIALS, Laplace
from sfumato.model.local import likelihood_over
from sfumato.model.model_evidence import LawEvidence
from sfumato.model.model_file import model_from, model_to_dict
from sfumato.model.number_model import (
    NumberModel,
    NumberReports,
    Slanted,
    _above_nobody,
    _by_fewer,
    _spread_out,
    _within,
)
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.table import Table
from sfumato.untrusted import Untrusted

ROWS = 30_000
NUMBERS = Domain(
    (
        Numeric("age", 0, 79, cuts=(20, 30, 40)),
        Numeric("pay", 0, 9_999, cuts=(2_500, 5_000, 7_500)),
        Numeric("kids", 0, 7, cuts=(1, 2, 4)),
    )
)
ASKED = Guarantee(19)


def people(rows: int = ROWS, seed: int = 1) -> Table:
    """Pay grows with age; kids are independent of both."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(6.0, 5.0, rows), 0, 79)
    pay = np.clip(2_000 + 90 * age + rng.normal(0, 1_200, rows), 0, 9_999)
    kids = np.minimum(rng.poisson(1.5, rows), 7)
    return Table(NUMBERS, (age.astype(np.uint8), pay.astype(np.uint16), kids.astype(np.uint8)))


TRUTH = people()
RANGES = [
    {"age": (25, 44)},
    {"age": (17, 33), "pay": (3_210, 6_000)},
    {"pay": (0, 4_444), "kids": (2, 7)},
    {"age": (30, 79), "pay": (5_000, 9_999), "kids": (0, 1)},
]


def sql_of(ranges: dict[str, tuple[int, int]]) -> str:
    parts = [f"{name} BETWEEN {low} AND {high}" for name, (low, high) in ranges.items()]
    return f"SELECT COUNT(*) AS n FROM t WHERE {' AND '.join(parts)}"


def count(ranges: dict[str, tuple[int, int]]) -> int:
    inside = np.ones(TRUTH.rows, dtype=bool)
    for name, (low, high) in ranges.items():
        codes = np.asarray(TRUTH.columns[NUMBERS.index(name)])
        inside &= (codes >= low) & (codes <= high)
    return int(inside.sum())


@pytest.fixture(scope="module")
def release():
    return sf.perturb(TRUTH, Ranges.promising(ASKED, NUMBERS), seeded(1))


@pytest.fixture(scope="module")
def model(release):
    return fit_release(release)


@pytest.mark.parametrize("ranges", RANGES, ids=[" ".join(each) for each in RANGES])
def test_ranges_are_counted_with_their_errors(model, ranges):
    answer = next(iter(sf.query(model, sql_of(ranges))))["n"]
    assert abs(answer.value - count(ranges)) < 4 * answer.stderr
    assert 0 < answer.stderr < 0.06 * ROWS


def test_what_goes_together_is_seen(model):
    """Young people are paid little: independence would say four times as many."""
    ranges = {"age": (0, 19), "pay": (5_500, 9_999)}
    answer = next(iter(sf.query(model, sql_of(ranges))))["n"]
    alone = [count({name: part}) / ROWS for name, part in ranges.items()]
    assert count(ranges) < 0.25 * alone[0] * alone[1] * ROWS
    assert answer.value < 0.6 * alone[0] * alone[1] * ROWS


def test_the_parts_of_a_range_add_up(model):
    cells = [NUMBERS["age"].cells_by_cuts([27, 41]), NUMBERS["pay"].cells_by_cuts([1_234, 6_789])]
    found = model.marginal(cells)
    assert found.value.sum() == pytest.approx(ROWS)
    alone = model.marginal([cells[0]])
    assert np.allclose(found.value.sum(axis=1), alone.value, atol=0.01 * ROWS)
    assert "independent within the cells" in str(found.evidence.assumes)


def test_two_numbers_need_a_model(release):
    with pytest.raises(Unanswerable, match="2 columns at once") as caught:
        sf.query(release, sql_of(RANGES[1]))
    assert "fit" in str(caught.value.hint)
    answer = next(iter(sf.query(release, "SELECT AVG(age) AS a FROM t")))["a"]
    assert abs(answer.value - np.asarray(TRUTH.columns[0]).mean()) < 4.5 * answer.stderr


def test_a_model_survives_its_file(model):
    again = model_from(Untrusted(json.loads(json.dumps(model_to_dict(model))), "m"), "m")
    assert isinstance(again, NumberModel)
    before, after = (next(iter(sf.query(m, sql_of(RANGES[1]))))["n"] for m in (model, again))
    assert after.value == pytest.approx(before.value, rel=1e-9)
    assert after.stderr == pytest.approx(before.stderr, rel=1e-9)


def test_the_law_is_looser_than_what_makes_its_reports_most_probable(model):
    every = tuple(range(len(NUMBERS)))
    likelihood = likelihood_over(model.reports, every, 2)
    tight, loose = fit(likelihood), model.law.fit
    orders = likelihood.family.interactions.orders
    times = np.where(orders > 1, model.prior_scale, 1.0)
    assert np.allclose(loose.variances, np.minimum(tight.variances * times, 25.0))
    assert likelihood.value(loose.law) > likelihood.value(tight.law)
    assert loose.converged


def test_columns_that_go_together_leave_three_of_them_open(model):
    """Where pairs interact strongly, so may three; where they do not, the floor is all."""
    strong = model.law.fit
    weak = replace(strong, variances=np.where(strong.variances > 2, strong.variances, 1e-3))
    axes = tuple(range(len(NUMBERS)))
    for found, opens in ((strong, True), (weak, False)):
        shut, wide = (Laplace(found, unheld).marginal(axes).spread for unheld in (0.0, 0.1))
        errors = [np.sqrt((rows[:-TRIALS] ** 2).sum()) for rows in (shut, wide)]
        assert (errors[1] > 1.01 * errors[0]) == opens


def test_rounds_cut_where_people_are_and_are_fitted_together():
    bare = Domain(tuple(Numeric(a.name, a.min, a.max) for a in NUMBERS))
    first = np.arange(ROWS) % 5 < 2
    groups = [
        Table(bare, tuple(np.asarray(c)[here] for c in TRUTH.columns)) for here in (first, ~first)
    ]
    one = sf.perturb(groups[0], SquareWave.promising(ASKED, bare), seeded(3))
    mechanism = SquareWave.rounds.following(one, groups[1].rows, 0)
    assert mechanism.guarantee == one.mechanism.guarantee
    age = np.asarray(TRUTH.columns[0])
    inside = np.diff([(age < start).mean() for start in mechanism.starts[0]] + [1.0])
    assert inside.max() < 2 / len(inside)
    two = sf.perturb(groups[1], mechanism, seeded(4))
    both = NumberModel.of(reports_of([one, two]), {})
    assert both.rows == ROWS
    answer = next(iter(sf.query(both, sql_of(RANGES[1]))))["n"]
    assert abs(answer.value - count(RANGES[1])) < 4 * answer.stderr
    with pytest.raises(ParameterError, match="a release that is no round asked everyone"):
        fit_rounds([one, two])  # nothing says that they are different people
    with pytest.raises(ParameterError, match="two numbers at once; one must"):
        reports_of([one, one])


def test_people_within_cells_lie_as_those_of_the_cells_beside():
    """A density 1 + (u − 1/2)(v − 1/2)·2 over equal cells is found back within them, where numbers
    spread alone miss it; what is asked about adds up all the same.
    """
    edges = np.linspace(0, 1, 5)

    def mass(ends: np.ndarray) -> np.ndarray:
        even, slant = np.diff(ends), np.diff((ends - 0.5) ** 2) / 2
        return np.outer(even, even) + 2 * np.outer(slant, slant)

    asked = np.linspace(0, 1, 13)  # thirds of the cells
    runs = np.full(12, 1 / 12), np.zeros((12, 12)), np.ones(12)
    places = np.arange(12)
    parts = [_spread_out(12, places, places // 3, runs, np.full(4, 0.25))] * 2
    slanted = Slanted.of(mass(edges), parts)
    found, true = slanted.of_table(mass(edges)), mass(asked)
    even = _within(mass(edges), slanted.even)
    inner = slice(3, 9)  # at the ends of a column it is half known
    assert np.allclose(found[inner, inner], true[inner, inner])
    assert np.abs(found - true).max() < 0.4 * np.abs(even - true).max()
    assert np.allclose(found.sum(axis=0), 1 / 12) and found.min() >= 0


def test_what_all_reports_say_of_cells_goes_where_a_number_is_least_sure():
    """The cell of three runs is larger than the reports about the number alone had it: of two runs
    with the same share, the one that was known is not moved.
    """
    runs = np.array([0.1, 0.1, 0.8]), np.diag([1e-8, 1e-4, 1e-4]), np.ones(3)
    cell = np.array([0, 0, 1])
    found = _spread_out(3, np.arange(3), cell, runs, np.array([0.3, 0.7]))
    assert np.allclose(found.inside[:2, 0] * 0.3, [0.1, 0.2], atol=1e-3)
    assert np.allclose(found.inside.sum(axis=0), 1)
    errors = np.sqrt((found.roots**2).sum(axis=2))
    assert np.allclose(errors[:2, 0] * 0.3, 1e-4, rtol=1e-2)  # what the two share is known
    assert np.allclose(found.roots.sum(axis=0), 0, atol=1e-9)


def test_four_of_five_numbers_are_asked_about_as_four_of_four_are():
    """8 × 8 × 8 × 6 cells of five numbers were refused, though 8⁴ of four numbers are fitted."""
    five = Domain(tuple(Numeric(name, 0, 63) for name in "abcde"))
    starts = [tuple(range(0, 64, 8))] * 3 + [(0, 9, 18, 27, 36, 45), tuple(range(0, 64, 8))]
    mechanism = Ranges.at(ASKED, five, starts)
    questions, answers = mechanism.private_reports
    model = NumberModel.of(NumberReports(mechanism, np.ones((questions.size, answers.size))), {})
    assert not model.dense
    assert model.reaches((0, 1, 2, 3)) and model.reaches((0, 1, 2, 4))
    assert not model.reaches((0, 1, 2, 3, 4))


def test_cells_grow_with_people_and_promise():
    assert cells_for(1_000, 4, 2.7) <= cells_for(30_000, 4, 2.7) <= cells_for(30_000, 4, 19)
    assert all(cells_for(10**k, 3, 19) % 2 == 0 for k in range(2, 9))


def test_asked_cells_are_spread_evenly_over_the_cells():
    spread = evenly_within(NUMBERS["age"].cells_by_cuts([10, 30]), (0, 20, 40))
    assert np.allclose(spread, [[1, 0, 0], [0.5, 0.5, 0], [0, 0.2, 0.8]])


BAD = [
    (lambda: Ranges.promising(ASKED, Domain((NUMBERS["age"],))), "this schema has 1"),
    (
        lambda: Ranges.promising(ASKED, Domain((NUMBERS["age"], Numeric("x", 0, 9)))),
        "x'? has no cuts",
    ),
    (
        lambda: Ranges.promising(ASKED, Domain((NUMBERS["age"], Category("c", ("a",))))),
        "'c' has one value only",
    ),
    (lambda: Ranges.at(ASKED, NUMBERS, [(0, 5), (0, 9), (0, 99)]), "'kids' has 2 cells"),
    (lambda: Ranges.at(ASKED, NUMBERS, [(0, 5), (0, 9), (0,)]), "'kids' has 1 cells"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_what_cannot_be_asked_is_refused(make, message):
    with pytest.raises((SchemaError, ParameterError), match=message):
        make()


def test_people_hidden_from_the_law_within_a_cell_count_in_the_error() -> None:
    """A twentieth lost 1,400 to 2,500, all others nothing: where the law sees nobody in the cell
    above zero, and its reports nobody in the middle of it, neither error alone is as large as their
    product (seed 6 had 0.0003 ± 0.0033 where .0416 is true).
    """
    rng, rows = np.random.default_rng(5), 8_000
    loss = np.where(rng.random(rows) < 0.05, rng.integers(1_400, 2_500, rows), 0)
    age = np.clip(rng.normal(22, 14, rows), 0, 73)
    hours = np.clip(rng.normal(40, 12, rows), 0, 98)
    numbers = (Numeric("age", 0, 73), Numeric("loss", 0, 4_356), Numeric("hours", 0, 98))
    codes = (age.astype(np.uint8), loss.astype(np.uint16), hours.astype(np.uint8))
    table = Table(Domain(numbers), codes)
    inside = (loss >= 409) & (loss <= 2_586) & (codes[0] >= 5) & (codes[0] <= 42)
    for seed in (0, 1, 6):
        model = in_rounds(table, Guarantee(np.e), seed)
        answer = next(iter(sf.query(model, sql_of({"loss": (409, 2_586), "age": (5, 42)}))))["n"]
        assert abs(answer.value - inside.sum()) < 2.5 * answer.stderr
        assert answer.stderr < one_more(model, "loss", 409, 2_586)


def one_more(model: NumberModel, name: str, low: int, high: int) -> float:
    """How far the people of a range of one number are from those found, by its waves alone."""
    number = model.domain[name]
    assert isinstance(number, Numeric)
    shares, covariance = model.reports.alone(number.cells_by_cuts([low, high + 1]))
    answer = next(iter(sf.query(model, sql_of({name: (low, high)}))))["n"]
    mean, error = _above_nobody(shares[1:2], np.sqrt(covariance[1:2, 1]))
    return float(np.hypot(error, mean - answer.value / model.rows)[0] * model.rows)


def test_shares_that_may_be_below_nobody_are_known_to_be_above() -> None:
    rng = np.random.default_rng(3)
    for mean, error in ((0.003, 0.027), (-0.04, 0.03), (0.5, 0.01), (-0.3, 0.02)):
        found = _above_nobody(np.array([mean]), np.array([error]))
        drawn = rng.normal(mean, error, 4_000_000)
        kept = drawn[drawn > 0]
        if len(kept) > 1000:
            assert np.allclose(np.ravel(found), (kept.mean(), kept.std()), rtol=0.03)
        else:  # 15 errors out: exponential, of mean error² / |mean|
            assert np.allclose(np.ravel(found), error**2 / abs(mean), rtol=0.05)


def test_errors_of_several_numbers_follow_from_those_of_fewer() -> None:
    """Of 1,000 people in a range of one number, known to 300, a quarter is in one of another: what
    moves both alike leaves the quarter open by 75 and chance by 14; what moves people between cells
    adds to it.
    """
    counts = np.array([[250.0, 750.0], [2_250.0, 6_750.0]])
    alike, between = counts * [[3.0], [-3.0]], np.array([[60.0, -60.0], [0.0, 0.0]])
    one = SimpleNamespace(value=counts.sum(axis=1), stderr=np.array([300.0, 300.0]))
    for columns, error in ((alike[..., None], 76.3), (np.stack([alike, between], -1), 98.7)):
        law = LawEvidence(counts, columns)
        assert _by_fewer(law, one, (0,))[0, 0] == pytest.approx(error, rel=0.01)
    nobody = LawEvidence(counts * [[0.0], [1.0]], alike[..., None] * [[[0.0]], [[1.0]]])
    unseen = SimpleNamespace(value=np.array([0.0, 9_000.0]), stderr=np.array([300.0, 300.0]))
    like_everyone = 300 * np.sqrt(0.25**2 + 1 / 3 - 0.25 + 0.25**2)
    assert _by_fewer(nobody, unseen, (0,))[0, 0] == pytest.approx(like_everyone, rel=0.01)


def test_numbers_beside_words_are_told_by_groups() -> None:
    """Means, counts and medians of groups, of a release in rounds, against the records."""
    rng, rows = np.random.default_rng(8), 30_000
    team = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    age = np.clip(rng.normal(30 + 10 * team, 8, rows), 0, 79).astype(np.uint8)
    kids = np.minimum(rng.poisson(1.5, rows), 7).astype(np.uint8)
    words = Category("team", ("red", "green", "blue"))
    domain = Domain((NUMBERS["age"], words, NUMBERS["kids"]))
    model = in_rounds(Table(domain, (age, team.astype(np.uint8), kids)), ASKED, 3)
    said = sf.query(model, "SELECT team, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY team")
    for place, row in enumerate(said):
        here = age[team == place]
        assert abs(row["n"].value - len(here)) < 4 * row["n"].stderr < 0.1 * rows
        assert abs(row["a"].value - here.mean()) < 4 * row["a"].stderr < 6
    for ranges in ({"age": (33, 47)}, {"age": (33, 47), "kids": (1, 2)}):
        wanted = f"{sql_of(ranges)} AND team = 'green'"
        answer = next(iter(sf.query(model, wanted)))["n"]
        inside = (team == 1) & (age >= 33) & (age <= 47)
        if "kids" in ranges:
            inside &= (kids >= 1) & (kids <= 2)
        assert abs(answer.value - inside.sum()) < 3.5 * answer.stderr < 0.1 * rows
    assert model.supposed((1,)) is None and "independent within" in str(model.supposed((0, 1)))


def in_rounds(table: Table, asked: Guarantee, seed: int) -> NumberModel:
    """Two rounds of reports of 40 and 60 % of the people, fitted together."""
    first = np.random.default_rng(seed).random(table.rows) < 0.4
    groups = [
        Table(table.domain, tuple(np.asarray(codes)[here] for codes in table.columns))
        for here in (first, ~first)
    ]
    wave = SquareWave.promising(asked, table.domain)
    one = sf.perturb(groups[0], wave, seeded(2 * seed))
    later = SquareWave.rounds.following(one, groups[1].rows, 0)
    two = sf.perturb(groups[1], later, seeded(2 * seed + 1))
    model = NumberModel.of(reports_of([one, two]), {})
    assert isinstance(model, NumberModel)
    return model


def test_fewer_than_nobody_in_one_cell_leaves_the_error_of_the_next_known() -> None:
    """Counts are moved to the mean that the reports tell, some below 0: the part of the people who
    are in the cell beside was then more than 1, and its error no number.
    """
    counts = np.array([[-3.0, 103.0], [10.0, 90.0]])
    found = SimpleNamespace(counts=counts, spread=np.zeros((2, 2, 1)), bends=0, unbiased=0)
    fewer = SimpleNamespace(value=np.array([100.0, 100.0]), stderr=np.array([5.0, 5.0]))
    error = _by_fewer(found, fewer, (0,))
    assert np.isfinite(error).all() and error[0, 1] >= 5


def test_what_a_public_column_keeps_from_the_model_the_release_tells_of_one_number() -> None:
    """It was told to be fitted again with coarser cells, which changes nothing."""
    rng = np.random.default_rng(3)
    town = Category("town", ("north", "south"), public=True)
    people = Table(
        Domain((*NUMBERS.attributes[:2], town)),
        (*TRUTH.columns[:2], rng.integers(0, 2, ROWS).astype(np.uint8)),
    ).take(np.arange(3000))
    release = sf.perturb(people, Ranges.promising(ASKED, people.domain), seeded(1))
    asked = "SELECT town, AVG(age) FROM t GROUP BY town"
    with pytest.raises(Unanswerable, match="not fitted to 'town'") as refused:
        sf.query(sf.fit(release), asked)
    assert "the release about one number by public columns" in str(refused.value.hint)
    assert len(sf.query(release, asked).to_dicts()) == 2
