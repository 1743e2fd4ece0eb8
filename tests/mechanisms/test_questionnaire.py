"""The questionnaire: which questions are asked, what is promised, what comes back, what
is refused.
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sfumato.channels import questionnaire_channel as questions
from sfumato.channels.contrasts import Interactions
from sfumato.channels.questionnaire_channel import Question
from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import FileError, ParameterError, SchemaError, SfumatoError, Unanswerable
from sfumato.mechanisms.base import spec_of
from sfumato.mechanisms.question_choice import (
    MOST_CELLS,
    ample_folds,
    asked,
    by_order,
    cover,
    folds,
    shared_answers,
    stated,
    waste,
    whole_weights,
)
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mechanisms.registry import from_spec
from sfumato.mechanisms.shares import (
    Workload,
    answers_of,
    best_shares,
    information,
    mean_squares,
    most_information,
    set_information,
)
from sfumato.model.fitted import fit_release
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import ONE
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.table import Table

SEX = Category("sex", ("f", "m"))
PET = Category("pet", ("cat", "dog", "eel"))
TOWN = Category("town", ("north", "south"), public=True)
AGE = Numeric("age", 0, 99, cuts=(20, 40, 60, 80))
PEOPLE = Domain((SEX, TOWN, PET, AGE))


def wide(*sizes: int) -> Domain:
    return Domain(
        tuple(
            Category(f"c{place}", tuple(map(str, range(size)))) for place, size in enumerate(sizes)
        )
    )


def records(domain: Domain, rows: int, seed: int = 1) -> Table:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, rows)
    columns = []
    for attribute in domain:
        code = (rng.integers(0, attribute.size, rows) + first * rng.integers(0, 2, rows)) % (
            attribute.size
        )
        columns.append(code.astype(np.uint8))
    return Table(domain, tuple(columns))


# --- which questions


def test_the_usual_questions_for_few_columns() -> None:
    mechanism = Questionnaire.promising(Guarantee(19), PEOPLE)
    sizes = [len(question.columns) for question in mechanism.questions]
    shares = [question.weight / ONE for question in mechanism.questions]
    for order, share in ((1, 0.1), (2, 0.5), (3, 0.4)):
        assert sum(s for s, o in zip(shares, sizes, strict=True) if o == order) == pytest.approx(
            share
        )
    assert sum(question.weight for question in mechanism.questions) == ONE
    assert mechanism.largest == 3


def test_many_columns_get_a_cover_that_holds_every_pair() -> None:
    domain = wide(2, 2, 2, 5, 4, 2, 3, 2, 5, 2)
    mechanism = Questionnaire.promising(Guarantee(19), domain)
    held = {pair for each in mechanism.questions for pair in combinations(each.columns, 2)}
    assert held == set(combinations(range(10), 2))
    again = Questionnaire.promising(Guarantee(19), domain)
    assert again == mechanism  # the draws of a cover are fixed


def test_most_questions_are_about_a_target() -> None:
    domain = wide(2, 2, 2, 5, 4, 2, 3, 2, 5, 2)
    mechanism = Questionnaire.promising(Guarantee(19), domain, target="c3")
    about = sum(question.weight for question in mechanism.questions if 3 in question.columns)
    assert 0.7 * ONE < about < 0.95 * ONE
    assert {axis for question in mechanism.questions for axis in question.columns} == set(range(10))


def test_folds_are_balanced_and_determine_the_cells() -> None:
    for cells, answers in ((30, 20), (125, 20), (40, 7)):
        maps = folds(cells, answers)
        assert len(maps) >= max(2, math.ceil((cells - 1) / (answers - 1)))
        for each in maps:
            sizes = np.bincount(each, minlength=answers)
            assert sizes.max() - sizes.min() <= 1
        rows = np.concatenate([np.equal.outer(np.arange(answers), each) for each in maps])
        assert np.linalg.matrix_rank(rows.astype(float)) == cells
        assert folds(cells, answers) == maps


@pytest.mark.parametrize("answers", [3, 4, 8, 20])
def test_folds_tell_the_cells_well(answers: int) -> None:
    """As many maps as cells need at least leave some sums hardly told: a variance of up to 20,000
    times what it may be.
    """
    least = {cells: folds(cells, answers) for cells in (31, 50, 77, 96, 115, 125, 210)}
    assert max(waste(shared_answers(maps)) for maps in least.values()) > 100
    for cells, maps in least.items():
        ample = ample_folds(cells, answers)
        assert waste(shared_answers(ample)) <= 11
        assert ample[: len(maps)] == maps
        assert len(ample) <= 1.6 * len(maps)


def test_tables_whose_least_folds_do_have_no_more() -> None:
    for cells in (30, 40, 50, 100, 125):  # CENSUS and the like at gamma 19
        assert ample_folds(cells, 20) == folds(cells, 20)


def test_columns_may_have_commas_and_pluses_in_their_names() -> None:
    domain = Domain(tuple(Category(name, ("no", "yes")) for name in ("a+b", "x,y", "u:v", "sex")))
    sets, shares, _ = stated("a+b+sex:0.25,x,y+u:v:0.25,singles:0.5", domain)
    assert sets == [(0,), (1,), (2,), (3,), (0, 3), (1, 2)]
    assert shares == [0.125] * 4 + [0.25] * 2
    with pytest.raises(ParameterError, match="'x' is no share of questions"):
        stated("x,singles:0.5", domain)


def test_questions_are_folded_beyond_the_limit_only() -> None:
    assert answers_of(26, 19) == 26 and answers_of(27, 19) == 20 and answers_of(1000, 19) == 20
    found = asked([(0,), (0, 1)], [0.5, 0.5], (26, 2), 19)
    assert found[0].map is None and found[0].answers == 26
    assert all(question.answers == 20 for question in found[1:])
    assert len(found) == 1 + len(folds(52, 20))


def test_weights_are_whole_and_sum_to_two_to_the_32() -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(500))
    weights = whole_weights(shares.tolist())
    assert sum(weights) == ONE
    np.testing.assert_allclose(np.array(weights) / ONE, shares, atol=1e-9)


def test_orders_too_long_for_the_schema_are_left_out_and_said() -> None:
    sets, shares, notes = by_order((2, 3), {1: 0.1, 2: 0.5, 3: 0.4}, ("a", "b"))
    assert sets == [(0,), (1,), (0, 1)]
    assert shares == pytest.approx([1 / 12, 1 / 12, 5 / 6])
    assert "triples were left out" in notes[0] and "2 private columns" in notes[0]


# --- foreseen errors


def test_an_answer_tells_most_at_gamma_plus_one() -> None:
    for gamma in (3.0, 19.0):
        told = [information(gamma, g, g) * (g - 1) for g in range(2, 60)]
        assert max(told) == pytest.approx(most_information(gamma), rel=1e-3)
        assert np.argmax(told) + 2 == gamma + 1


def test_optimised_shares_are_no_worse_than_any_others() -> None:
    shape = (4, 5, 5, 2, 2)
    workload = Workload.itemsets(shape, 2)
    sets = [(0,), (3, 4), (0, 3, 4), *combinations(range(5), 2)]
    best = best_shares(sets, workload, 19)

    def variance(shares: np.ndarray) -> float:
        """Σ weight_A/I_A, I_A what these shares tell of the interaction A."""
        each = [
            share * set_information(shape, s, 19) for s, share in zip(sets, shares, strict=True)
        ]
        told = {
            part: sum(i for s, i in zip(sets, each, strict=True) if set(part) <= set(s))
            for part in workload.weights
        }
        return sum(weight / told[part] for part, weight in workload.weights.items())

    least = variance(best)
    rng = np.random.default_rng(2)
    for _ in range(200):
        other = best * np.exp(rng.normal(size=len(best)) * 0.3)
        assert variance(other / other.sum()) >= least * (1 - 1e-9)
    assert least >= workload.least(19)


def test_a_workload_of_itemsets_is_the_sum_of_its_marginals() -> None:
    shape = (2, 3, 4, 2)
    every = [axes for size in (1, 2, 3) for axes in combinations(range(4), size)]
    whole, parts = Workload.itemsets(shape, 3), Workload.marginals(shape, every)
    assert set(whole.weights) == set(parts.weights)
    for axes, weight in whole.weights.items():
        assert weight == pytest.approx(parts.weights[axes])


def test_the_foreseen_error_is_the_one_found() -> None:
    """The closed form against the error of unbiased answers, over 40 releases; the questions about
    three columns are folded.
    """
    domain = wide(4, 5, 3, 2)
    mechanism = Questionnaire.promising(Guarantee(19), domain)
    table = Table(
        domain,
        tuple(
            np.random.default_rng(place).integers(0, size, 20_000).astype(np.uint8)
            for place, size in enumerate(domain.shape)
        ),
    )
    for axes in ((0,), (0, 1), (1, 2, 3)):
        names = [f"c{axis}" for axis in axes]
        truth = Exact(table).marginal(names).value
        errors = [
            perturb(table, mechanism, seeded(seed)).marginal(names).value - truth
            for seed in range(40)
        ]
        found = math.sqrt(np.mean(np.square(errors))) / 20_000
        cells = [domain[name].cells() for name in names]
        even, units = np.full(truth.shape, 1 / truth.size), np.eye(truth.size)
        each = [
            mechanism.predicted_variance(cells, unit.reshape(truth.shape), even) for unit in units
        ]
        foreseen = math.sqrt(np.mean(each) / 20_000)
        assert abs(found / foreseen - 1) < 0.15


def test_the_closed_form_of_any_weighted_sum_is_that_of_its_features() -> None:
    shape, rng = (2, 3, 4), np.random.default_rng(3)
    weights = rng.normal(size=shape)
    found = mean_squares(weights, [np.full(size, 1 / size) for size in shape])
    every = Interactions.up_to(shape, (False,) * 3, 3)
    pulls = every.features((0, 1, 2)).matrix.T @ weights.ravel() / 24
    for axes in every.sets:
        assert found[axes] == pytest.approx((pulls[every.places(axes)] ** 2).sum())


# --- what is promised


def test_gamma_is_exact_and_never_above_what_was_asked() -> None:
    for gamma in (Fraction(19), Fraction("13.28"), Fraction(2.718281828459045)):
        mechanism = Questionnaire.promising(Guarantee(gamma), PEOPLE)
        assert gamma * (1 - Fraction(1, 1000)) < mechanism.guarantee.gamma <= gamma
        assert mechanism.program().guarantee(PEOPLE) == mechanism.guarantee
    assert Questionnaire.promising(Guarantee(Fraction("13.28")), PEOPLE).gamma == Fraction("13.28")


def test_the_question_does_not_depend_on_the_record() -> None:
    mechanism = Questionnaire.promising(Guarantee(19), PEOPLE)
    zeros = tuple(np.zeros(5000, np.uint8) for _ in PEOPLE)
    ones = tuple(np.ones(5000, np.uint8) for _ in PEOPLE)
    first, second = (mechanism.perturb(each, seeded(4)) for each in (zeros, ones))
    assert np.array_equal(first[0], second[0])


# --- what comes back


def test_what_some_question_held_is_answered_and_the_rest_refused() -> None:
    domain = wide(2, 3, 2, 4)
    table = records(domain, 30_000)
    release, truth = (
        perturb(table, Questionnaire.promising(Guarantee(19), domain), seeded(2)),
        Exact(table),
    )
    for names in (["c0"], ["c3", "c1"], ["c2", "c0", "c3"]):
        found, true = release.marginal(names), truth.marginal(names)
        assert np.abs((found.value - true.value) / found.stderr).max() < 4.5
        assert found.value.sum() == pytest.approx(30_000)
    with pytest.raises(Unanswerable, match=r"no question held c0, c1, c2, c3 together \(3 columns"):
        release.marginal(["c0", "c1", "c2", "c3"])


def test_public_columns_are_counted_beside_the_questions() -> None:
    domain = Questionnaire.promising(Guarantee(19), PEOPLE).domain
    table = records(domain, 40_000)
    release, truth = (
        perturb(table, Questionnaire.promising(Guarantee(19), PEOPLE), seeded(3)),
        Exact(table),
    )
    assert release.marginal(["town"]).value.tolist() == truth.marginal(["town"]).value.tolist()
    found, true = release.marginal(["town", "pet", "sex"]), truth.marginal(["town", "pet", "sex"])
    assert np.abs((found.value - true.value) / found.stderr).max() < 4.5
    np.testing.assert_allclose(
        found.value.sum(axis=(1, 2)), truth.marginal(["town"]).value, rtol=1e-9
    )


def test_groups_too_many_for_all_questions_are_solved_by_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mechanism = Questionnaire.promising(Guarantee(19), PEOPLE)
    table = records(mechanism.domain, 40_000)
    names, truth = ["town", "pet", "sex"], Exact(table)
    whole = perturb(table, mechanism, seeded(3)).marginal(names)
    assert np.isfinite(whole.value).all()  # what is asked later is worked out later
    monkeypatch.setattr(questions, "MOST_WORK", 0)
    own = perturb(table, mechanism, seeded(3)).marginal(names)
    assert np.abs((own.value - truth.marginal(names).value) / own.stderr).max() < 4.5
    assert not np.allclose(own.value, whole.value, rtol=1e-6)
    assert (own.stderr > 0.98 * whole.stderr).all()  # and no more is known than by all of them


def test_likelihood_is_the_law_of_the_reports() -> None:
    """log P(report | cell), up to a constant of the report, against the channel of
    whole records.
    """
    domain = wide(2, 3, 2)
    mechanism = Questionnaire.promising(Guarantee(5), domain)
    reports = mechanism.perturb(records(domain, 400).columns, seeded(1))
    cells = [domain.cells_of(name) for name in domain.names]
    logs = mechanism.likelihood(reports, cells)
    dense = mechanism.private_channel.to_dense()
    place = np.ravel_multi_index(
        tuple(np.asarray(c) for c in reports), mechanism.private_reports.shape
    )
    expected = np.log(dense[place])
    np.testing.assert_allclose(
        logs - logs.mean(axis=1, keepdims=True),
        expected - expected.mean(axis=1, keepdims=True),
        atol=1e-9,
    )


# --- what is refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("singles:0.1,pairs:0.5", "sum to 0.6"),
        ("singles:0.1,pears:0.9", "did you mean 'pairs'"),
        ("pairs", "no share of questions"),
        ("pairs:x", "is no share"),
        ("pairs:-1,singles:2", "is no share"),
        ("pairs:0.5,pairs:0.5", "two shares"),
    ],
)
def test_shares_that_make_no_sense(text: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        Questionnaire.promising(Guarantee(19), PEOPLE, questions=text)


def test_schemas_that_cannot_be_asked() -> None:
    with pytest.raises(SchemaError, match="has one value"):
        Questionnaire.promising(Guarantee(19), Domain((Category("x", ("only",)),)))
    with pytest.raises(SchemaError, match="values, more than"):
        Questionnaire.promising(Guarantee(19), wide(2, MOST_CELLS + 1))
    with pytest.raises(ParameterError, match="cells, more than"):
        Questionnaire.promising(Guarantee(19), wide(60, 60), questions="pairs:1")
    with pytest.raises(SchemaError, match="no cuts"):
        Questionnaire.promising(Guarantee(19), Domain((SEX, Numeric("n", 0, 9))))
    with pytest.raises(ParameterError, match="either decides"):
        Questionnaire.promising(Guarantee(19), PEOPLE, questions="pairs:1", target="sex")


def test_a_question_about_a_public_column_is_refused() -> None:
    spec = spec_of(Questionnaire.promising(Guarantee(19), PEOPLE))
    spec["parameters"]["questions"][0]["columns"] = ["town"]
    with pytest.raises(ParameterError, match="'town', which is public"):
        from_spec(spec)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p["questions"][0].update(weight=0),
        lambda p: p["questions"][0].update(weight=p["questions"][0]["weight"] + 1),
        lambda p: p.update(questions=[]),
        lambda p: p["questions"][0].update(columns=["sex", "sex"]),
        lambda p: p["questions"][0].update(columns=["sx"]),
        lambda p: p["questions"][0].update(answers=2, map=[0, 5]),
        lambda p: p["questions"][0].update(answers=2, map=[0]),
        lambda p: p["questions"][0].update(answers=2, map=[1, 1]),
        lambda p: p.update(gamma="1"),
        lambda p: p.update(gamma="1e1000000"),
    ],
)
def test_a_damaged_description_is_refused(change: object) -> None:
    spec = spec_of(Questionnaire.promising(Guarantee(19), PEOPLE))
    change(spec["parameters"])
    with pytest.raises(SfumatoError):
        from_spec(spec)
    assert issubclass(FileError, SfumatoError)


def test_a_column_that_nobody_is_asked_about_is_refused() -> None:
    with pytest.raises(ParameterError, match="no question asks about c1"):
        Questionnaire(wide(2, 2), Fraction(19), (Question((0,), 2, ONE),))


def test_a_cover_for_a_workload_leaves_out_what_has_too_many_cells() -> None:
    shape = (40, 40, 2, 2, 2, 2, 2, 2, 2, 2)
    sets, shares = cover(shape, 19, Workload.itemsets(shape, 3, 2))
    assert (0, 1) not in sets and (0, 2) in sets
    assert shares.sum() == pytest.approx(1)


def test_a_column_of_one_value_is_not_asked_about_and_answered() -> None:
    domain = Domain((SEX, Category("x", ("only",)), PET))
    mechanism = Questionnaire.promising(Guarantee(19), domain)
    assert {axis for each in mechanism.questions for axis in each.columns} == {0, 2}
    release = perturb(records(domain, 4_000), mechanism, seeded(1))
    assert release.marginal(["x"]).value.tolist() == pytest.approx([4_000])
    found = release.marginal(["sex", "x", "pet"]).value[:, 0, :]
    assert found == pytest.approx(release.marginal(["sex", "pet"]).value)
    model = fit_release(release)
    assert model.measured_order == 2
    whole = model.marginal(["sex", "x", "pet"]).value[:, 0, :]
    assert whole == pytest.approx(model.marginal(["sex", "pet"]).value, rel=1e-6)


@pytest.mark.parametrize("columns", [2, 10])
def test_columns_of_one_value_change_no_question(columns: int) -> None:
    usual, constant = wide(*[3] * columns), Category("x", ("only",))
    with_it = Domain((*usual.attributes, constant))
    for options in ({}, {"target": "c1"}):
        found, same = (
            Questionnaire.promising(Guarantee(19), d, **options) for d in (with_it, usual)
        )
        assert {q.columns: q.weight for q in found.questions} == pytest.approx(
            {q.columns: q.weight for q in same.questions}, rel=1e-3
        )
    with pytest.raises(ParameterError, match="one value"):
        Questionnaire.promising(Guarantee(19), with_it, target="x")
    with pytest.raises(SfumatoError):
        Questionnaire.promising(Guarantee(19), with_it, questions="x:0.5,c0:0.5")


def test_answers_that_hardly_anyone_gave_have_their_error_too() -> None:
    """Some ten people a question: errors read off the few answers seen would be a tenth of those
    found. By repeated perturbation of the same records.
    """
    domain = wide(5, 4, 2, 2, 2, 5)
    rng = np.random.default_rng(5)
    chances = [rng.dirichlet(np.full(size, 0.7)) for size in domain.shape]
    columns = tuple(rng.choice(len(p), 1200, p=p).astype(np.uint8) for p in chances)
    table, names = Table(domain, columns), ("c1", "c2", "c4")
    true = Exact(table).marginal(names).value
    mechanism = Questionnaire.promising(Guarantee(60), domain)
    z = []
    for seed in range(40):
        found = perturb(table, mechanism, seeded(seed)).marginal(names)
        z.append((found.value - true) / found.stderr)
    assert np.abs(z).max() < 6
    assert 0.92 < np.mean(np.abs(z) < 1.96) < 0.985
    assert 0.85 < np.sqrt(np.mean(np.square(z))) < 1.1


def test_a_public_group_of_two_people_has_an_error_in_every_cell() -> None:
    """Rows held fixed, the error of an estimate beyond its group must not come out as none."""
    town = Category("town", ("large", "two", "three"), public=True)
    domain = Domain((*wide(3, 3, 2, 5).attributes, town))
    rng = np.random.default_rng(6)
    columns = [rng.integers(0, size, 970).astype(np.uint8) for size in domain.shape[:4]]
    towns = np.array([1, 1, 2, 2, 2] + [0] * 965, dtype=np.uint8)
    table = Table(domain, (*columns, towns))
    mechanism = Questionnaire.promising(Guarantee(19), domain)
    answered = 0
    for seed in range(12):
        for names in (["c3", "town"], ["town", "c0"]):
            with suppress(Unanswerable):  # where nobody of a group was asked about the column
                found = perturb(table, mechanism, seeded(seed)).marginal(names)
                assert found.stderr.min() > 0.3
                answered += 1
    assert answered > 4


def test_a_column_whose_questions_are_all_folded_is_told_by_those_that_hold_it() -> None:
    """Eight columns of twelve values: no question has a cell an answer, and together they have more
    features than are solved at once.
    """
    domain = Domain(tuple(Category(f"c{p}", tuple(map(str, range(12)))) for p in range(8)))
    mechanism = Questionnaire.promising(Guarantee(19), domain, questions="pairs:1")
    assert all(question.map is not None for question in mechanism.questions)
    rng = np.random.default_rng(8)
    columns = tuple(rng.binomial(11, 0.3, 30_000).astype(np.uint8) for _ in domain)
    release = perturb(Table(domain, columns), mechanism, seeded(8))
    found = release.marginal(["c3"])
    truth = np.bincount(columns[3], minlength=12)
    assert np.abs((found.value - truth) / found.stderr).max() < 4
    assert 0 < found.stderr.max() < 3_000
    foretold = mechanism.predicted_variance(
        [domain["c3"].cells()], np.eye(12)[0], np.full(12, 1 / 12)
    )
    assert foretold is not None and 0.3 < np.sqrt(foretold * 30_000) / found.stderr[0] < 3


@pytest.mark.parametrize(
    "sizes", [(40, 40), (40, 50, 60), (2, 1000), (40, 40, 2), (2, 2, 7, 40, 6)]
)
def test_wide_columns_are_all_asked_about(sizes: tuple[int, ...]) -> None:
    """Where no two of them fit into one question, each is asked alone; it was once a crash."""
    columns = [Category(f"c{a}", tuple(f"v{k}" for k in range(n))) for a, n in enumerate(sizes)]
    for target in (None, "c0"):
        mechanism = Questionnaire.promising(Guarantee(19), Domain(tuple(columns)), target=target)
        held = {axis for each in mechanism.questions for axis in each.columns}
        assert held == set(range(len(sizes)))
