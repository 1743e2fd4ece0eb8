"""Estimates against repeated perturbation: the standard error is the spread of the estimates, the
interval covers the truth.
"""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.channels import Dense, Distribution, Product, Retain
from sfumato.counting.in_memory import TableCounter, contingency
from sfumato.domain import Category, Domain
from sfumato.errors import EstimationError, ParameterError, SchemaError
from sfumato.estimation.answer import Answer
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import CountEvidence, MergedEvidence
from sfumato.mechanisms.base import channel_over
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.randomness import seeded
from sfumato.table import Table

REPEATS = 1500
DOMAIN = Domain(
    (
        Category("sex", ("F", "M")),
        Category("age", ("young", "middle", "old")),
        Category("smoker", ("no", "yes")),
    )
)


def population(rows: int, seed: int = 5) -> tuple[np.ndarray, ...]:
    """Records with real dependencies between the columns."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, rows)
    age = np.minimum(rng.integers(0, 3, rows) + (sex == 1) * rng.integers(0, 2, rows), 2)
    smoker = (rng.random(rows) < 0.1 + 0.2 * sex + 0.1 * age).astype(int)
    return tuple(column.astype(np.uint8) for column in (sex, age, smoker))


def estimate(
    counts: np.ndarray,
    channel: Retain | Product | Dense,
    names: tuple[str, ...],
    rows: int,
    copies: int = 1,
) -> Estimate:
    return Estimate(
        tuple(DOMAIN.cells_of(name) for name in names), rows, CountEvidence(counts, channel), copies
    )


def marginal(
    mechanism: GammaDiagonal,
    columns: tuple[np.ndarray, ...],
    names: tuple[str, ...],
    copies: int = 1,
) -> Estimate:
    cells = [DOMAIN.cells_of(name) for name in names]
    counts = TableCounter(Table(DOMAIN, columns)).count(cells)
    channel = channel_over(mechanism, [DOMAIN.axis(name) for name in names])
    return estimate(counts, channel, names, len(columns[0]) // copies, copies)


def spread_matches(values: list[float], stderrs: list[float], slack: float = 0.0) -> bool:
    """Whether the spread of repeated estimates agrees with the stated standard error within five of
    its own errors.
    """
    spread, stated = float(np.std(values, ddof=1)), float(np.sqrt(np.mean(np.square(stderrs))))
    return abs(spread / stated - 1) < 5 / np.sqrt(2 * len(values)) + slack


def test_standard_errors_are_the_spread_of_repeated_perturbations():
    truth = population(3000)
    mechanism = GammaDiagonal(DOMAIN, 19)
    rng = seeded(1)
    exact = contingency(truth, DOMAIN.shape)
    cells, sums, ratios = [], [], []
    for _ in range(REPEATS):
        found = marginal(mechanism, mechanism.perturb(truth, rng), ("age", "smoker"))
        cells.append((found.value[1, 1], found.stderr[1, 1]))
        answer = found.where(age=["young", "old"], smoker=True)
        sums.append((answer.value, answer.stderr))
        ratio = found.ratio(found.indicator(age="old", smoker="yes"), found.indicator(age="old"))
        ratios.append((ratio.value, ratio.stderr))
    table = exact.sum(axis=0)
    truths = (table[1, 1], table[0, 1] + table[2, 1], table[2, 1] / table[2].sum())
    for pairs, value in zip((cells, sums, ratios), truths, strict=True):
        values, stderrs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        assert spread_matches(values, stderrs), (np.std(values), np.mean(stderrs))
        assert not spread_matches(values, [1.2 * error for error in stderrs])
        assert abs(np.mean(values) - value) < 5 * np.std(values) / np.sqrt(REPEATS) + 1e-3
        covered = np.mean([abs(v - value) < 1.959964 * e for v, e in pairs])
        assert abs(covered - 0.95) < 5 * np.sqrt(0.95 * 0.05 / REPEATS)


def test_sampling_error_counts_the_rows_as_a_sample():
    mechanism, rng = GammaDiagonal(DOMAIN, 100), seeded(2)
    values, with_sampling, without = [], [], []
    for repeat in range(600):
        found = marginal(
            mechanism, mechanism.perturb(population(2000, seed=repeat), rng), ("smoker",)
        )
        answer, fixed = found.where(smoker="yes", sampling=True), found.where(smoker="yes")
        values.append(answer.value)
        with_sampling.append(answer.stderr)
        without.append(fixed.stderr)
        assert answer.sampling and not fixed.sampling
    assert spread_matches(values, with_sampling)
    assert not spread_matches(values, without)


def test_copies_divide_the_counts_and_their_errors():
    truth, copies = population(1000), 4
    repeated = tuple(np.repeat(column, copies) for column in truth)
    mechanism, rng = GammaDiagonal(DOMAIN, 19), seeded(3)
    found = [
        marginal(mechanism, mechanism.perturb(repeated, rng), ("smoker",), copies).where(
            smoker=True
        )
        for _ in range(800)
    ]
    values = [answer.value for answer in found]
    assert spread_matches(values, [answer.stderr for answer in found])
    assert abs(np.mean(values) - truth[2].sum()) < 5 * np.std(values) / np.sqrt(len(values))


def test_covariance_equals_the_dense_formula():
    rng = np.random.default_rng(0)
    channel = Product.of(
        Retain.uniform(0.4, (2,)), Retain.flip(0.9, 0.7), Retain.uniform(0.3, (3,))
    )
    counts = rng.integers(1, 50, (2, 2, 3))
    evidence = CountEvidence(counts, channel)
    inverse = np.linalg.inv(channel.to_dense())
    first, second = rng.normal(size=(2, 12))
    total = inverse @ counts.ravel()
    expected = (counts.ravel() * (inverse.T @ first) * (inverse.T @ second)).sum() - (
        total * first * second
    ).sum()
    assert np.isclose(
        evidence.covariances(first.reshape(2, 2, 3, 1), second.reshape(2, 2, 3, 1))[0], expected
    )
    assert np.allclose(evidence.cell_variances.ravel(), (inverse**2) @ counts.ravel() - total)


@pytest.mark.parametrize("names", [("age",), ("age", "smoker")])
@pytest.mark.parametrize("permuted", [False, True])
def test_a_law_read_off_the_reports_has_its_own_error(names, permuted):
    """Identity perturbation draws from the column; swapping permutes what it replaces and keeps the
    column's counts.
    """
    truth, keep, rng = population(3000), 0.4, np.random.default_rng(7)
    sizes = [DOMAIN[name].size for name in names]
    channel = Product.of(
        *(Retain(keep, (Distribution(size, own=True, permuted=permuted),)) for size in sizes)
    )
    columns = [truth[DOMAIN.index(name)] for name in names]
    exact = contingency(columns, sizes)
    values, stderrs = [], []
    for _ in range(800):
        reports = []
        for column in columns:
            replaced = np.flatnonzero(rng.random(len(column)) >= keep)
            drawn = (
                rng.permutation(column[replaced]) if permuted else rng.choice(column, len(replaced))
            )
            report = column.copy()
            report[replaced] = drawn
            reports.append(report)
        found = estimate(contingency(reports, sizes), channel, names, 3000)
        answer = found.where(**{name: DOMAIN[name].labels[1] for name in names})
        values.append(answer.value)
        stderrs.append(answer.stderr)
    cell = exact[tuple(1 for _ in names)]
    if permuted and len(names) == 1:
        assert np.allclose(values, cell) and np.allclose(stderrs, 0)
        return
    assert spread_matches(values, stderrs, slack=0.03), (np.std(values), np.mean(stderrs))
    assert abs(np.mean(values) - cell) < 5 * np.std(values) / np.sqrt(len(values)) + 1
    assert not spread_matches(values, [1.25 * error for error in stderrs], slack=0.03)


def test_merged_evidence_sums_finer_cells():
    matrix = np.array([[0.8, 0.1, 0.1], [0.1, 0.6, 0.3], [0.1, 0.3, 0.6]])
    fine = CountEvidence(np.array([30, 50, 20]), Dense.square(matrix))
    merge = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    coarse = MergedEvidence(fine, lambda table: merge @ table, lambda weights: merge.T @ weights)
    assert np.allclose(coarse.estimated, merge @ fine.estimated)
    assert np.isclose(coarse.cell_variances[0], fine.variances(merge[0][..., None])[0])


def test_answers_and_estimates_read_well():
    found = estimate(
        np.array([[10, 20], [30, 40], [5, 5]]), Retain.identity((3, 2)), ("age", "smoker"), 110
    )
    assert found.where(smoker=True) == Answer(65.0, 0.0)
    assert repr(found.where(smoker=True)) == "Answer(value=65, stderr=0)"
    assert found.share(age="old").value == pytest.approx(10 / 110)
    assert found.to_arrow().equals(
        pa.table(
            {
                "age": ["young", "young", "middle", "middle", "old", "old"],
                "smoker": ["no", "yes"] * 3,
                "count": [10.0, 20.0, 30.0, 40.0, 5.0, 5.0],
                "count_stderr": [0.0] * 6,
                "count_low": [10.0, 20.0, 30.0, 40.0, 5.0, 5.0],
                "count_high": [10.0, 20.0, 30.0, 40.0, 5.0, 5.0],
            }
        )
    )
    with pytest.raises(SchemaError, match="did you mean 'smoker'"):
        found.where(smokr=True)
    with pytest.raises(SchemaError, match="no cell 'ancient'"):
        found.where(age="ancient")
    with pytest.raises(EstimationError):
        found.ratio(found.indicator(age="old"), np.zeros((3, 2)))
    with pytest.raises(ParameterError):
        Answer(1.0, 1.0).interval(1.5)


def test_negative_counts_stay_until_someone_asks():
    found = estimate(np.array([3, 97, 0]), Retain.uniform(0.5, (3,)), ("age",), 100)
    assert found.value.min() < 0
    assert np.isclose(found.value.sum(), 100)
    for adjusted in (found.clip(), found.project(), found.likelihood().value):
        assert adjusted.min() >= 0 and np.isclose(adjusted.sum(), 100)
