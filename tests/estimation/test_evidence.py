"""One law for every kind of evidence: its squares are the diagonal of its covariance matrix, which
is the covariance of units, whatever the mechanism, merged, summed or pooled.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from tests.mechanisms.examples import EXAMPLES

import sfumato as sf
from sfumato.domain import Category, Cells, Domain
from sfumato.errors import EstimationError, Unanswerable
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import Evidence, MergedEvidence, with_known_laws
from sfumato.estimation.pooled import SummedEvidence, pooled, summed
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table, perturb_table
from sfumato.testing import Example

ROWS = 2000
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=str)


@cache
def released(place: int, seed: int = 4, copies: int = 1) -> Release:
    example = EXAMPLES[place]
    truth = Table(example.mechanism.domain, example.records(ROWS))
    return Release.of(perturb_table(truth, example.mechanism, seeded(seed), copies=copies))


def questions(example: Example) -> list[list[str]]:
    names = [axis.name for axis in example.mechanism.domain.axes]
    return [[name] for name in names[:2]] + [list(pair) for pair in list(pairwise(names))[:2]]


def estimates(example: Example, copies: int = 1, seed: int = 4) -> list[Estimate]:
    """What is answered of one and of two columns; nothing of what is refused."""
    release, found = released(EXAMPLES.index(example), seed, copies), []
    for names in questions(example):
        try:
            found.append(release.marginal(names))
        except Unanswerable:
            continue
    return found


def matrix_of(evidence: Evidence) -> np.ndarray:
    """The covariance matrix of the cells, entry by entry from the covariance of two units."""
    units = np.eye(evidence.estimated.size).reshape(-1, *evidence.estimated.shape)
    pairs = [[(first[..., None], second[..., None]) for second in units] for first in units]
    return np.array([[evidence.covariances(*pair)[0] for pair in row] for row in pairs])


def check_law(evidence: Evidence) -> None:
    """Every way to ask for a covariance gives that of the two units."""
    expected, shape = matrix_of(evidence), evidence.estimated.shape
    size = evidence.estimated.size
    scale = max(float(np.abs(expected).max()), 1.0)

    def close(found: object, wanted: object) -> None:
        assert np.allclose(np.asarray(found), np.asarray(wanted), atol=1e-7 * scale, rtol=1e-7)

    close(expected, expected.T)
    assert np.linalg.eigvalsh((expected + expected.T) / 2).min() > -0.02 * scale
    close(np.asarray(evidence.cell_variances).ravel(), np.diagonal(expected))
    close(evidence.covariance_matrix(np.eye(size).reshape(*shape, size)), expected)
    close(evidence.covariance_matrix(np.ones((*shape, 1))), [[expected.sum()]])
    some = np.array([size - 1, 0, size // 2])
    close(evidence.cell_covariance(some), expected[np.ix_(some, some)])
    first, second = np.random.default_rng(1).normal(size=(2, *shape, 3))
    flat = first.reshape(size, 3), second.reshape(size, 3)
    close(evidence.covariances(first, second), np.diagonal(flat[0].T @ expected @ flat[1]))
    close(evidence.covariance_matrix(first), flat[0].T @ expected @ flat[0])


@every_example
@pytest.mark.parametrize("copies", [1, 3])
def test_the_evidence_of_every_mechanism(example: Example, copies: int) -> None:
    found = estimates(example, copies)
    assert found or "one" not in example.answers
    for estimate in found:
        check_law(estimate.evidence)
        matrix = matrix_of(estimate.evidence) / copies**2
        assert np.allclose(estimate.stderr.ravel() ** 2, np.maximum(np.diagonal(matrix), 0))
        whole = estimate.dot(np.arange(estimate.value.size).reshape(estimate.value.shape))
        weights = np.arange(estimate.value.size)
        assert whole.stderr**2 == pytest.approx(max(weights @ matrix @ weights, 0), abs=1e-6)


@every_example
def test_a_count_and_that_of_everyone_else_add_up(example: Example) -> None:
    """How many people there are is known, so both err alike; and no interval leaves them."""
    rng = np.random.default_rng(2)
    for estimate in estimates(example):
        inside = rng.random(estimate.value.shape) < 0.5
        some, others = estimate.dot(inside), estimate.dot(~inside)
        assert some.value + others.value == pytest.approx(ROWS)
        assert some.stderr == pytest.approx(others.stderr, abs=1e-4)
        for answer in (some, others):
            low, high = answer.interval(0.99)
            assert 0 <= low <= high <= ROWS


@every_example
def test_merged_evidence_is_the_sum_over_its_cells(example: Example) -> None:
    """By the mechanism's own coarser channel where it has one, and by summing fine cells."""
    for estimate in estimates(example):
        if len(estimate.cells) < 2:
            continue
        evidence = estimate.evidence
        for axes in ([0], [1], [1, 0]):
            merges = [halves(estimate.cells[axis]) for axis in axes]
            within = [
                part.within(estimate.cells[axis]) for part, axis in zip(merges, axes, strict=True)
            ]
            plain = MergedEvidence.over(evidence, axes, within)
            own = evidence.merged(axes, within)
            gather = merging(estimate, axes, merges)
            for merged in (plain, own):
                check_law(merged)
                assert np.allclose(merged.estimated.ravel(), gather @ evidence.estimated.ravel())
            expected = gather @ matrix_of(evidence) @ gather.T
            assert np.allclose(
                matrix_of(plain), expected, atol=1e-7 * np.abs(expected).max() + 1e-6
            )
            coarse = estimate.coarsen(merges)
            assert np.allclose(coarse.value, own.estimated / estimate.copies)


@every_example
def test_columns_in_another_order_have_the_same_errors_at_no_cost(example: Example) -> None:
    """Beside a public column, minutes: the error of every cell was worked out on its own."""
    for estimate in estimates(example):
        if len(estimate.cells) == 2:
            own = [part.within(part) for part in estimate.cells]
            turned = MergedEvidence.over(estimate.evidence, [1, 0], own[::-1])
            check_law(turned)
            assert np.allclose(turned.cell_variances, estimate.evidence.cell_variances.T)


def halves(cells: Cells) -> Cells:
    """The same column in two cells, the first value alone."""
    group = (
        np.minimum(np.arange(cells.size), 1)[cells.assign(np.arange(cells.attribute.size))]
        if (cells.item is None)
        else None
    )
    if group is None or cells.size < 2:
        return cells
    return Cells(cells.attribute, ("first", "others"), group.astype(np.intp))


def merging(estimate: Estimate, axes: list[int], merges: list[Cells]) -> np.ndarray:
    """The 0/1 matrix from cells of the estimate to merged cells."""
    shape = estimate.value.shape
    places = np.indices(shape).reshape(len(shape), -1)
    merged = []
    for axis, part in zip(axes, merges, strict=True):
        own = estimate.cells[axis]
        table = np.arange(own.size) if part.size == own.size else np.minimum(np.arange(own.size), 1)
        merged.append(table[places[axis]])
    sizes = tuple(part.size for part in merges)
    target = np.ravel_multi_index(tuple(merged), sizes)
    matrix = np.zeros((int(np.prod(sizes)), int(np.prod(shape))))
    matrix[target, np.arange(matrix.shape[1])] = 1
    return matrix


@every_example
def test_summed_and_pooled_evidence(example: Example) -> None:
    """Of two releases of the same questions, the second with three copies: covariances add, and a
    weight other than 1 adds the sampling error of what it stands in for.
    """
    ones, threes = estimates(example), estimates(example, copies=3, seed=5)
    for one, three in zip(ones, threes, strict=True):
        plain = summed([one, three])
        assert isinstance(plain.evidence, SummedEvidence)
        check_law(plain.evidence)
        assert np.allclose(plain.value, one.value + three.value)
        assert np.allclose(plain.stderr**2, one.stderr**2 + three.stderr**2, atol=1e-6)
        both = pooled([one, three])
        check_law(both.evidence)
        assert isinstance(both.evidence, SummedEvidence)
        weights = [share.weight for share in both.evidence.shares]
        people = np.array([one.rows, three.rows])
        assert np.dot(weights, people) == pytest.approx(people.sum())
        mass = both.value.ravel() / people.sum()
        sampling = np.diag(mass) - np.outer(mass, mass)
        expected = sum(
            weight**2 * matrix_of(each.evidence) / each.copies**2
            + (weight - 1) ** 2 * each.rows * sampling
            for weight, each in zip(weights, (one, three), strict=True)
        )
        scale = max(float(np.abs(expected).max()), 1e-9)
        assert np.allclose(matrix_of(both.evidence), expected, atol=1e-7 * scale)


@every_example
def test_evidence_with_its_laws_known_says_the_same_and_errs_less(example: Example) -> None:
    for estimate in estimates(example):
        known = with_known_laws(estimate.evidence)
        check_law(known)
        assert np.allclose(known.estimated, estimate.evidence.estimated)


def test_the_law_would_see_a_wrong_square() -> None:
    """The judge can fail: squares that forget to take the truth's own part away."""
    evidence = estimates(EXAMPLES[0])[0].evidence

    class Wrong(type(evidence)):
        @property
        def cell_variances(self) -> np.ndarray:
            return evidence.cell_variances + evidence.estimated

    with pytest.raises(AssertionError):
        check_law(Wrong(evidence.counts, evidence.channel))


@pytest.mark.parametrize("name", ["questionnaire", "retention", "hadamard", "gamma-diagonal"])
def test_no_estimate_from_few_people_is_without_an_error(name):
    """An unbiased variance of a handful of reports falls below 0; the answer is no truth for it."""
    domain = Domain(
        (Category("sex", ("f", "m")), Category("age", ("a", "b", "c")), Category("ill", ("n", "y")))
    )
    for seed in range(20):
        people = {"sex": ["f"], "age": ["b"], "ill": ["y"]}
        release = sf.perturb(people, name, gamma=19, schema=domain, rng=sf.seeded(seed))
        for columns in (["sex"], ["age"], ["sex", "age"]):
            try:
                found = release.marginal(columns)
                assert found.stderr.min() > 0.1
            except Unanswerable:  # a questionnaire asks one person about some columns only
                continue
            units = np.eye(found.value.size).reshape(*found.value.shape, -1)
            alone = [found.dot(units[..., place]).stderr for place in range(found.value.size)]
            assert min(alone) > 0.1 and found.variances(units).min() > 0.01
            for row in asked(release, columns):
                assert row["n"].stderr > 0.1


def asked(release, columns):
    """What a question finds; nothing where it is refused, since its error is larger than all."""
    try:
        return sf.query(release, f"SELECT COUNT(*) AS n FROM t GROUP BY {', '.join(columns)}")
    except EstimationError:
        return ()


def test_what_nobody_perturbed_stays_exact_beside_few_people():
    domain = Domain((Category("town", ("a", "b"), public=True), Category("ill", ("n", "y"))))
    people = {"town": ["a"], "ill": ["y"]}
    release = sf.perturb(people, "retention", gamma=19, schema=domain, rng=sf.seeded(1))
    assert release.marginal(["town"]).stderr.tolist() == [0, 0]
    both = release.marginal(["town", "ill"])
    assert both.where(town="a").stderr == 0
    assert both.stderr[0].min() > 0.1 and both.stderr[1].tolist() == [0, 0]
