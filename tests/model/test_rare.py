"""Rare cells, strong interactions and rough columns: what a law of few reports must not claim."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.model.problems import QUESTIONS, SHAPE, TRUTH, answers, chances, likelihood

from sfumato.channels.contrasts import Axes
from sfumato.domain import Category, Domain, Numeric
from sfumato.mechanisms.joint import SubsetSelection
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mechanisms.ranges import Ranges
from sfumato.model.fitted import fit_release
from sfumato.model.fitting import ROUGH, SMOOTH, fit
from sfumato.model.measurement import Reconstruction
from sfumato.model.model_evidence import WHOLE, LawEvidence
from sfumato.model.observed import Answers, unbiased_factors
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.table import Table


def drawn(shape: tuple[int, ...], law: NDArray[np.float64], people: int, seed: int) -> Table:
    """People of a law over columns c0, c1, … ."""
    names = [Category(f"c{a}", tuple(f"v{k}" for k in range(n))) for a, n in enumerate(shape)]
    cells = np.random.default_rng(seed).choice(law.size, people, p=law.ravel())
    codes = np.unravel_index(cells, shape)
    return Table(Domain(tuple(names)), tuple(code.astype(np.uint8) for code in codes))


def test_few_reports_of_rare_cells_do_not_lie() -> None:
    """Some 300 people at γ = 7, sparse laws of four columns: every cell of up to three columns."""
    away = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        table = drawn((3, 4, 3, 2), rng.dirichlet(np.full(72, 0.1)), 300, seed)
        mechanism = Questionnaire.promising(Guarantee(Fraction(7)), table.domain)
        model = fit_release(perturb(table, mechanism, seeded(seed)))
        for names in (n for k in (1, 2, 3) for n in combinations(table.domain.names, k)):
            found, true = model.marginal(names), Exact(table).marginal(names)
            away.append(np.abs(found.value - true.value).ravel() / found.stderr.ravel())
    z = np.concatenate(away)
    assert z.max() < 6
    assert 0.93 < (z < 1.96).mean() < 0.999


def test_counts_below_nobody_do_not_seem_to_be_sure() -> None:
    """500 people in sets out of 105 records: errors taken at counts below 0 were no law's, and the
    model was off by up to a thousand of its own.
    """
    away = []
    for seed in range(4):
        law = np.random.default_rng(seed).dirichlet(np.full(105, 0.5))
        table = drawn((3, 5, 7), law, 500, seed)
        mechanism = SubsetSelection.promising(Guarantee(Fraction(100)), table.domain)
        model = fit_release(perturb(table, mechanism, seeded(seed)))
        for names in (n for k in (1, 2) for n in combinations(table.domain.names, k)):
            found, true = model.marginal(names), Exact(table).marginal(names)
            away.append(np.abs(found.value - true.value).ravel() / found.stderr.ravel())
    z = np.concatenate(away)
    assert z.max() < 6
    assert 0.9 < (z < 1.96).mean() < 0.999


def test_a_strong_interaction_is_not_taken_for_noise() -> None:
    """One cell of 12 holds 9 % where independent columns would put 0.1 %: 600 people at γ = 3, whom
    unbiased answers see at more than four standard errors.
    """
    law = np.array([[0, 0.09, 0], [0, 0, 0.005], [0.02, 0, 0.005], [0.39, 0.02, 0.47]])
    table = drawn((4, 3), law, 7400, 1)
    mechanism = SubsetSelection.promising(Guarantee(Fraction(3)), table.domain)
    model = fit_release(perturb(table, mechanism, seeded(2)))
    found, true = model.marginal(["c0", "c1"]), Exact(table).marginal(["c0", "c1"]).value
    assert (np.abs(found.value - true) / found.stderr).max() < 4
    assert found.value[0, 1] > 300


def test_ordered_columns_are_as_rough_as_reports_show_them() -> None:
    smooth = fit(likelihood(answers(200_000), 2))
    rng = np.random.default_rng(4)
    jagged = rng.dirichlet(np.ones(24))
    rough = fit(likelihood(answers(200_000, law=jagged), 2))
    assert (smooth.roughness, rough.roughness) == (SMOOTH, ROUGH)
    assert np.abs(rough.law - jagged).sum() < np.abs(smooth.law - jagged).sum()


def test_errors_reach_as_far_as_logarithms_do() -> None:
    """0.1 people and a slope of 0.3: on the scale of its logarithm the share may be e⁹ times as
    large, and what reports leave open alone is 40 people; so are the others, who are the rest.
    """
    counts, slope, seen = np.array([0.1, 900.0]), np.array([0.3, -0.3]), np.array([40.0, -40.0])
    spread = np.column_stack([slope, seen])
    found = LawEvidence(counts, spread, unbiased=1)
    np.testing.assert_allclose(np.sqrt(found.cell_variances), [40.0, 40.0])
    near = LawEvidence(counts, np.column_stack([slope / 3, seen]), unbiased=1)
    np.testing.assert_allclose(np.sqrt(near.cell_variances)[0], 0.1 * np.expm1(3) / 6)
    assert found.variances(np.ones((2, 1)))[0] == 0  # everyone is known
    tiny = LawEvidence(counts, np.column_stack([slope / 30, seen]), unbiased=1)
    np.testing.assert_allclose(np.sqrt(tiny.cell_variances), WHOLE)  # a person is there or not


def test_what_nearly_everyone_has_is_as_open_as_what_is_left() -> None:
    """A number in waves at γ = 3 that hardly anyone has above a third: the law leaves nobody there,
    and was as sure of the others as of a coin.
    """
    number = Numeric("x", 0, 80, cuts=(14, 17, 29))
    domain = Domain((number, Category("c", ("a", "b", "c", "d"))))
    off = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = np.where(
            rng.random(8000) < 0.045, rng.integers(14, 40, 8000), rng.integers(0, 14, 8000)
        )
        table = Table(domain, (x.astype(np.uint8), rng.integers(0, 4, 8000).astype(np.uint8)))
        mechanism = Ranges.promising(Guarantee(Fraction(3)), domain)
        found = fit_release(perturb(table, mechanism, seeded(seed))).marginal(
            [number.cells_by_cuts([14])]
        )
        np.testing.assert_allclose(found.stderr[0], found.stderr[1], rtol=1e-6)
        off.append((found.value[0] - (x < 14).sum()) / found.stderr[0])
    assert np.abs(off).max() < 4


def test_errors_stay_between_nobody_and_everyone() -> None:
    """What is left open of many cells at once adds up to more people than there are."""
    spread = np.column_stack([np.full(4, 2.0), np.full(4, 50.0)])
    found = LawEvidence(np.array([1.0, 1.0, 1.0, 97.0]), spread, unbiased=1)
    rare = np.array([1.0, 1.0, 1.0, 0.0])
    assert found.variances(rare[:, None])[0] ** 0.5 == pytest.approx(50)


class Apart(Answers):
    """Answers of which nothing but the measurements of the asked axes is known."""

    def unbiased(self, axes: Axes) -> None:
        return None


def test_unbiased_factors_of_measurements_is_the_error_of_an_unbiased_answer() -> None:
    """Against the dense inverse over the cells of a pair, singles and pairs being asked."""
    given, axes = answers(5000), (0, 1)
    reports = Apart(given.shape, given.ordered, 0, given.gamma, given.questions, given.counts)
    share = TRUTH.reshape(SHAPE).sum(axis=2).ravel()
    seen = unbiased_factors(reports, axes, share)
    known = np.zeros((6, 6))
    for part in reports.measurements(axes):
        own = [np.eye(6).reshape(2, 3, 6).sum(axis=1 - a) for a in part.axes]
        cells = np.eye(6) if len(part.axes) == 2 else own[0]
        told = np.stack([part.response.apply(column) for column in cells.T], axis=1)
        known += told.T @ ((part.people / (told @ share))[:, None] * told)
    flat = np.eye(6) - 1 / 6  # shares sum to 1
    wanted = flat @ np.linalg.pinv(flat @ known @ flat) @ flat
    np.testing.assert_allclose(seen @ seen.T, wanted, rtol=0.02, atol=1e-6)


def test_unbiased_factors_of_all_questions_is_the_error_of_an_unbiased_answer() -> None:
    """Against the dense inverse over all cells, folded questions about three columns among them."""
    share = TRUTH.reshape(SHAPE).sum(axis=2).ravel()
    seen = unbiased_factors(answers(5000), (0, 1), share)
    known = np.zeros((24, 24))
    for question in QUESTIONS:
        told = np.stack([chances(question, unit) for unit in np.eye(24)], axis=1)
        people = 5000 * question.share
        known += told.T @ ((people / (told @ TRUTH))[:, None] * told)
    flat = np.eye(24) - 1 / 24  # shares sum to 1
    summed = np.eye(24).reshape(6, 4, 24).sum(axis=1)
    wanted = summed @ flat @ np.linalg.pinv(flat @ known @ flat) @ flat @ summed.T
    np.testing.assert_allclose(seen @ seen.T, wanted, rtol=0.03, atol=1e-5)


def test_no_error_is_larger_than_that_of_the_unbiased_answer() -> None:
    """Cells of up to two columns, which some question held together: where the law leaves a rare
    one open, it says no more than the release itself does, which has it unbiased.
    """
    rng = np.random.default_rng(5)
    table = drawn((4, 5, 3, 2), rng.dirichlet(np.full(120, 0.1)), 4000, 5)
    release = perturb(table, Questionnaire.promising(Guarantee(19), table.domain), seeded(5))
    model = fit_release(release)
    for names in (n for k in (1, 2) for n in combinations(table.domain.names, k)):
        found, alone = model.marginal(names), release.marginal(names)
        chance = np.maximum(found.value, 0.0)  # a model's errors count the people as a sample
        assert (found.stderr**2 <= 1.1 * (alone.stderr**2 + chance) + WHOLE**2).all()


def test_a_column_asked_about_only_in_folded_pairs_is_known_from_these() -> None:
    """γ = 3 folds every question about six values; alone the column came out even, ± half of all
    people, and mining took that for the support of every pair with it.
    """
    sizes, people, rng = (6, 3, 3, 3, 3, 3, 4, 4, 4, 5, 5), 60_000, np.random.default_rng(5)
    first = rng.choice(6, people, p=[0.8, 0.1, 0.05, 0.02, 0.02, 0.01])
    columns = [first, *(rng.integers(0, size, people) for size in sizes[1:])]
    names = [Category(f"c{a}", tuple(f"v{k}" for k in range(n))) for a, n in enumerate(sizes)]
    table = Table(Domain(tuple(names)), tuple(column.astype(np.uint8) for column in columns))
    mechanism = Questionnaire.promising(Guarantee(Fraction(3)), table.domain)
    model = fit_release(perturb(table, mechanism, seeded(5)))
    (alone,) = model.reports.measurements((0,))  # no answer says it: all questions together do
    assert not model.dense and isinstance(alone, Reconstruction)
    found = model.marginal(["c0"])
    assert found.stderr.max() < 0.1 * people
    assert abs(found.value[0] - (first == 0).sum()) < 4 * found.stderr[0]
