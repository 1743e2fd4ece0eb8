"""The least squares of a questionnaire, judged by brute force and by repeated answering."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato.channels.linear import Design, LeastSquares, plain_variance, singular_inverse
from sfumato.channels.questionnaire_channel import Question, Questions, System
from sfumato.domain import Category, Domain
from sfumato.errors import Unanswerable
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.probability import ONE
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.table import Table

SHAPE = (2, 3, 2)
GAMMA = 6.0
TENTH = round(ONE / 10)
QUESTIONS = (
    Question((0,), 2, TENTH),
    Question((0, 1), 6, ONE // 4),
    Question((1, 2), 6, ONE // 4),
    Question((0, 2), 4, TENTH),
    Question((0, 1, 2), 5, TENTH, (0, 1, 2, 3, 4, 0, 2, 1, 4, 3, 0, 2)),
    Question((0, 1, 2), 5, TENTH, (4, 0, 3, 1, 2, 0, 1, 1, 3, 2, 4, 0)),
    Question((0, 1, 2), 5, TENTH, (1, 4, 4, 2, 0, 3, 3, 0, 2, 1, 3, 4)),
)
SYSTEM = System(SHAPE, QUESTIONS, GAMMA)
CELLS = list(product(*map(range, SHAPE)))
TRUTH = np.random.default_rng(5).dirichlet(np.ones(12) * 0.7)


def law_of(question: Question) -> np.ndarray:  # (answers, records)
    """P(answer | record), cell by cell from the definition."""
    result = np.empty((question.answers, len(CELLS)))
    for place, record in enumerate(CELLS):
        cell = 0
        for axis in question.columns:
            cell = cell * SHAPE[axis] + record[axis]
        true = cell if question.map is None else question.map[cell]
        for answer in range(question.answers):
            weight = GAMMA if answer == true else 1.0
            result[answer, place] = weight / (GAMMA + question.answers - 1)
    return result


def answered(truth: np.ndarray, people: int, rng: np.random.Generator) -> np.ndarray:
    """The tally of so many people with this law."""
    tally = np.zeros((len(QUESTIONS), SYSTEM.answers))
    shares = rng.multinomial(people, [question.share for question in QUESTIONS])
    for place, question in enumerate(QUESTIONS):
        chances = law_of(question) @ truth
        tally[place, : question.answers] = rng.multinomial(shares[place], chances)
    return tally


def asking(*axes: int, system: System = SYSTEM) -> Questions:
    shape = tuple(SHAPE[axis] for axis in axes)
    return Questions(system, axes, np.arange(math.prod(shape)), shape)


def marginal(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    rest = tuple(axis for axis in range(len(SHAPE)) if axis not in axes)
    return table.reshape(SHAPE).sum(axis=rest)


def test_the_channel_of_whole_records_is_the_law_of_every_answer() -> None:
    dense = asking(0, 1, 2).to_dense().reshape(len(QUESTIONS), SYSTEM.answers, -1)
    for place, question in enumerate(QUESTIONS):
        np.testing.assert_allclose(
            dense[place, : question.answers], question.share * law_of(question)
        )
        assert not dense[place, question.answers :].any()


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("asked_only", [False, True])
def test_what_is_expected_comes_back(axes: tuple[int, ...], asked_only: bool) -> None:
    channel = asking(*axes, system=SYSTEM.within(axes) if asked_only else SYSTEM)
    table = marginal(TRUTH, axes) * 1000
    np.testing.assert_allclose(channel.solve(channel.apply(table)), table)
    expected = asking(0, 1, 2).apply(TRUTH.reshape(SHAPE) * 1000)  # whatever the other columns are
    np.testing.assert_allclose(channel.settle(expected).solve(expected), table)


def brute_force(tally: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Weighted least squares over the shares of whole records, by a dense pseudo-inverse."""
    rows, seen, base, of = [], [], [], []
    people: list[float] = []
    for place, question in enumerate(QUESTIONS):
        asked = tally[place, : question.answers].sum()
        for answer in range(question.answers):
            rows.append(law_of(question)[answer])
            seen.append(tally[place, answer] / asked)
            people.append(asked)
            base.append(1 / (GAMMA + question.answers - 1))
            of.append(place)
    matrix, even = np.array(rows), np.full(12, 1 / 12)
    centred = matrix - matrix.mean(axis=1, keepdims=True)  # shares sum to 1
    found = even
    for again in (False, True):
        chances = matrix @ found
        if again:  # possible ones
            least = np.array(base)
            shares = np.maximum(chances - least, 0.0) / ((GAMMA - 1) * least)
            chances = least + (GAMMA - 1) * least * shares / np.bincount(of, shares)[of]
        root = np.sqrt(np.array(people) / chances)
        inverse = np.linalg.pinv(root[:, None] * centred, rcond=1e-10)
        found = even + inverse @ (root * (np.array(seen) - matrix @ even))
        if not again:
            found = smoothed(found, inverse @ inverse.T)
    return marginal(found, axes) * tally.sum()


def smoothed(law: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Shares of records, each interaction drawn towards independence (James and Stein), by the
    projections of the analysis of variance.
    """
    found = np.full(12, 1 / 12)
    for axes in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        part = np.ones((1, 1))
        for axis, size in enumerate(SHAPE):
            mean = np.full((size, size), 1 / size)
            part = np.kron(part, np.eye(size) - mean if axis in axes else mean)
        alone = [marginal(found, (axis,)) for axis in range(3)]
        expected = part @ np.einsum("i,j,k->ijk", *alone).ravel()
        if len(axes) == 1:
            expected = np.zeros(12)
        beyond = part @ law - expected
        kept = max(0.0, 1 - np.trace(part @ covariance @ part) / (beyond @ beyond))
        found = found + expected + kept * beyond
    return found


@pytest.mark.parametrize("axes", [(1,), (0, 1), (1, 2), (0, 1, 2)])
def test_least_squares_by_brute_force(axes: tuple[int, ...]) -> None:
    tally = answered(TRUTH, 5000, np.random.default_rng(8))
    channel = asking(*axes).settle(tally)
    np.testing.assert_allclose(channel.solve(tally), brute_force(tally, axes), rtol=1e-6)


@pytest.mark.parametrize("axes", [(1,), (0, 1), (0, 1, 2)])
def test_errors_are_those_of_answering_again(axes: tuple[int, ...]) -> None:
    """Rows held fixed: 4,000 people with the same records answer 300 times."""
    rng, people, runs = np.random.default_rng(3), 4000, 300
    records = rng.multinomial(people, TRUTH)
    found, stated = [], []
    for _ in range(runs):
        tally = answered_by(records, rng)
        channel = asking(*axes).settle(tally)
        found.append(channel.solve(tally))
        weighed, truths = channel.variance_counts(tally)
        assert truths is not None
        stated.append(channel.inverse_squared(weighed) - truths)
    error = np.std(found, axis=0)
    predicted = np.sqrt(np.mean(stated, axis=0))
    # The standard deviation of 300 draws is known to some 4 %.
    assert np.abs(error / predicted - 1).max() < 0.19
    assert np.abs(error / (1.3 * predicted) - 1).max() > 0.19  # and a wrong one is seen
    bias = (np.mean(found, axis=0) - marginal(records, axes)) / (error / np.sqrt(runs))
    assert np.abs(bias).max() < 4.5


def answered_by(records: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    tally = np.zeros((len(QUESTIONS), SYSTEM.answers))
    for place, number in enumerate(records):
        shares = rng.multinomial(number, [question.share for question in QUESTIONS])
        for question, asked in enumerate(shares):
            law = law_of(QUESTIONS[question])[:, place]
            tally[question, : len(law)] += rng.multinomial(asked, law)
    return tally


def test_coarse_cells_in_any_order_are_sums() -> None:
    tally = answered(TRUTH, 5000, np.random.default_rng(4))
    fine = asking(0, 1).settle(tally).solve(tally)
    # Cells (column 1 in two groups, column 0): the axes in the other order.
    view = np.array([0 if code < 2 else 2 for _, code in product(range(2), range(3))])
    view += np.repeat([0, 1], 3)
    coarse = Questions(SYSTEM, (0, 1), view, (2, 2)).settle(tally)
    np.testing.assert_allclose(
        coarse.solve(tally), [fine[:, :2].sum(axis=1), fine[:, 2]], rtol=1e-9
    )
    weights = np.array([[1.0, -2.0], [0.5, 3.0]])
    votes = coarse.solve_adjoint(weights)
    assert (votes * tally).sum() == pytest.approx((weights * coarse.solve(tally)).sum())
    np.testing.assert_allclose(coarse.adjoint(votes), weights, atol=1e-9)


def test_known_columns_are_solved_cell_by_cell() -> None:
    """By least squares whose weights are drawn to those of all people together, and with errors in
    closed form: N² wᵀCw, less what holding the people fixed takes away.
    """
    rng = np.random.default_rng(9)
    tallies = np.stack([answered(TRUTH, 3000, rng), answered(TRUTH[::-1], 2000, rng)])
    both = asking(0, 1).beside((2,)).settle(tallies)
    matrix, places = SYSTEM.interactions.features((0, 1))
    for place, people in enumerate((3000, 2000)):
        alone = SYSTEM.solved(tallies[place], SYSTEM.solved(tallies.sum(axis=0)))
        means = alone.means(SYSTEM.gathered(tallies[place]))[places]
        shares = (1 + matrix @ means) / 6
        np.testing.assert_allclose(both.solve(tallies)[place].ravel(), people * shares)
        variance = np.einsum(
            "ci,ij,cj->c", matrix, alone.covariance[np.ix_(places, places)], matrix
        )
        law = (1 + matrix @ alone.expected[places]) / 6
        weighed, truths = both.variance_counts(tallies)
        assert truths is not None
        found = both.inverse_squared(weighed) - truths
        expected = people**2 * variance / 36 - people * law * (1 - law)
        np.testing.assert_allclose(found[place].ravel(), expected)


# Few reports for each answer (FINDINGS 2.2): people, γ, values of a wide column beside three.
FEW_REPORTS = [(700, 600, 30), (1000, 300, 30), (300, 100, 12), (2000, 600, 30), (700, 19, 30)]


def held_with_few_reports(people: int, gamma: int, values: int, runs: int) -> dict[str, float]:
    """How often intervals of one and two columns hold the count, and the worst error in their
    units.
    """
    rng = np.random.default_rng(4242)
    third, law = rng.integers(0, 3, people), 1 / np.arange(1, values + 1) ** 1.2
    columns = [
        (rng.random(people) < 0.3 + 0.2 * third).astype(np.uint8),
        (rng.random(people) < 0.7 - 0.2 * third).astype(np.uint8),
        (rng.random(people) < 0.5).astype(np.uint8),
        rng.choice(values, people, p=law / law.sum()).astype(np.uint8),
    ]
    names = [Category(name, ("no", "yes")) for name in "abd"]
    domain = Domain((*names, Category("m", tuple(f"m{v}" for v in range(values)))))
    mechanism = Questionnaire.promising(Guarantee(Fraction(gamma)), domain)
    table = Table(domain, tuple(columns))
    asked = {"m": ["m"], "a": ["a"], "a, m": ["a", "m"], "a, b": ["a", "b"]}
    places = {"m": (0,), "a": (1,), "a, m": (1, 0), "a, b": (1, 1)}
    truth = {key: Exact(table).marginal(each).value[places[key]] for key, each in asked.items()}
    held = dict.fromkeys(asked, 0)
    for run in range(runs):
        release = perturb(table, mechanism, seeded(run))
        for key, found in zip(asked, release.marginals(list(asked.values())), strict=True):
            off = abs(found.value[places[key]] - truth[key])
            held[key] += bool(off <= 1.96 * found.stderr[places[key]])
    return {key: number / runs for key, number in held.items()}


@pytest.mark.parametrize(("people", "gamma", "values"), FEW_REPORTS[::2])
def test_intervals_hold_with_few_reports_for_each_answer(
    people: int, gamma: int, values: int
) -> None:
    """Of 150 intervals that hold 95 %, fewer than 88 % hold once in 2,000; weights that follow
    every count hold 57 % here.
    """
    found = held_with_few_reports(people, gamma, values, 150)
    assert min(found.values()) >= 0.88


@pytest.mark.soak
@pytest.mark.parametrize(("people", "gamma", "values"), [*FEW_REPORTS, (5000, 600, 30)])
def test_intervals_hold_at_their_level_with_few_reports(
    people: int, gamma: int, values: int
) -> None:
    found = held_with_few_reports(people, gamma, values, 3000)
    assert all(0.93 <= share <= 0.97 for share in found.values())


def test_columns_that_no_question_held_are_refused() -> None:
    pairs = System(SHAPE, QUESTIONS[:4], GAMMA)
    tally = answered(TRUTH, 5000, np.random.default_rng(4))[:4]
    with pytest.raises(Unanswerable, match="no question held 3"):
        asking(0, 1, 2, system=pairs).settle(tally[:, : pairs.answers]).solve(tally)


def test_what_too_few_were_asked_about_is_refused() -> None:
    tally = answered(TRUTH, 5000, np.random.default_rng(4))
    tally[[1, 4, 5, 6]] = 0  # nobody was asked about columns 0 and 1 together
    assert asking(0).settle(tally).solve(tally).sum() == pytest.approx(tally.sum())
    with pytest.raises(Unanswerable, match="do not determine"):
        asking(0, 1).settle(tally)
    groups = np.stack([tally, answered(TRUTH, 100, np.random.default_rng(1))])
    with pytest.raises(Unanswerable, match="1 of 2 groups"):
        asking(0, 1).beside((2,)).settle(groups)


@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 1)])
def test_the_closed_form_of_a_predicted_variance_is_that_of_least_squares(
    axes: tuple[int, ...],
) -> None:
    """`plain_variance` is kept for its speed: the general path over everything that is asked."""
    plain = System(SHAPE, QUESTIONS[:4], GAMMA)
    shape = tuple(SHAPE[axis] for axis in axes)
    inner = marginal(TRUTH, axes)
    weights = np.random.default_rng(2).normal(size=shape)
    asked: dict[tuple[int, ...], dict[int, float]] = {}
    for question in plain.questions:
        inside = tuple(place for place, axis in enumerate(axes) if axis in question.columns)
        if inside:
            own = asked.setdefault(inside, {})
            own[question.answers] = own.get(question.answers, 0.0) + question.share
    laws = [np.full(size, 1 / size) for size in shape]
    closed = plain_variance(asked, GAMMA, laws, weights, inner)
    matrix, places = plain.interactions.features(axes)
    wanted, means = np.zeros((2, plain.interactions.size))
    wanted[places] = weights.ravel() @ matrix / len(matrix)
    means[places] = inner.ravel() @ matrix
    found = LeastSquares(plain.design, plain.planned.people, plain.design.chances(means))
    assert closed == pytest.approx(wanted @ found.covariance @ wanted, rel=1e-12)
    near = asking(*axes, system=plain).predicted_variance(weights, inner)
    assert near == pytest.approx(closed, rel=1e-3)  # by conjugate gradients


def test_a_design_of_small_blocks_is_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    together = SYSTEM.design
    monkeypatch.setattr("sfumato.channels.linear.STACKED", 0)
    apart = System(SHAPE, QUESTIONS, GAMMA).design
    assert len(together.blocks) == 1 < len(apart.blocks)
    means, rows = rng.normal(size=together.size), rng.random(len(together.offset))
    for one, other in (
        (Design.chances, means),
        (Design.adjoint, rows),
        (Design.information, rows),
    ):
        np.testing.assert_allclose(one(together, other), one(apart, other), atol=1e-12)
    slopes = rng.normal(size=(together.size, 2))
    expected = together.information(rows) @ slopes
    np.testing.assert_allclose(apart.carried(rows, slopes), expected, atol=1e-12)


@pytest.mark.parametrize("unknown", [1, 4, 12])
def test_what_reports_do_not_determine_is_found_by_pivoting(unknown: int) -> None:
    rng = np.random.default_rng(unknown)
    rows = rng.normal(size=(12 - unknown, 12)) * np.exp(3 * rng.normal(size=(12 - unknown, 1)))
    matrix = rows.T @ rows
    inverse, null = singular_inverse(matrix)
    assert null.shape == (12, unknown)
    assert null.T @ null == pytest.approx(np.eye(unknown))
    assert np.abs(matrix @ null).max(initial=0) < 1e-9 * max(1.0, np.abs(matrix).max())
    slow = np.linalg.pinv(matrix, rcond=1e-12, hermitian=True)
    assert np.abs(inverse - slow).max() < 1e-6 * max(1.0, np.abs(slow).max())
