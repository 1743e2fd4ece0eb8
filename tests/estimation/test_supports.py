"""Reconstructed itemset counts: the formula against a dense sum, the errors against repeated
perturbation.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.bits import Bits
from sfumato.errors import EstimationError, ParameterError
from sfumato.estimation.supports.flipped import FlippedSupports
from sfumato.estimation.supports.supports import Measured

ITEMS = 4
KEEP_ONES = np.array([0.9, 0.8, 1.0, 0.75])
KEEP_ZEROS = np.array([0.9, 0.95, 0.7, 1.0])
SUBSETS = [subset for length in range(ITEMS + 1) for subset in combinations(range(ITEMS), length)]


def flipped(truth: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Reports of the last two axes, rows by items."""
    chance = generator.random(truth.shape)
    return np.where(truth, chance < KEEP_ONES, chance >= KEEP_ZEROS)


def measured_all(supports: FlippedSupports) -> dict[tuple[int, ...], Measured]:
    """Every itemset over the items, measured tier by tier as a miner would."""
    found = {(): supports.empty()}
    tier, where = supports.empty(), {(): 0}
    for length in range(1, ITEMS + 1):
        itemsets = list(combinations(range(ITEMS), length))
        rows = [
            [where[tuple(item for item in itemset if item != left)] for left in itemset]
            for itemset in itemsets
        ]
        tier = supports.measure(
            np.array(itemsets, dtype=np.int32), np.array(rows, dtype=np.int32), tier
        )
        where = {itemset: row for row, itemset in enumerate(itemsets)}
        found |= {itemset: tier.take(np.array([row])) for itemset, row in where.items()}
    return found


def weights(
    reports: np.ndarray, keep_ones: np.ndarray = KEEP_ONES, keep_zeros: np.ndarray = KEEP_ZEROS
) -> np.ndarray:
    """How many true ones each report stands for: the first row of the inverse of [[p, 1-q], [1-p,
    q]].
    """
    inverses = np.linalg.inv(
        np.array([[keep_ones, 1 - keep_zeros], [1 - keep_ones, keep_zeros]]).transpose(2, 0, 1)
    )
    return np.where(reports, inverses[:, 0, 0], inverses[:, 0, 1])


def product(weight: np.ndarray, itemset: tuple[int, ...]) -> np.ndarray:
    return weight[..., list(itemset)].prod(axis=-1)


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    generator = np.random.default_rng(11)
    return generator.random((150, ITEMS)) < np.array([0.6, 0.5, 0.7, 0.4])


@pytest.fixture(scope="module")
def repeated(truth: np.ndarray) -> np.ndarray:
    """The same rows perturbed 20,000 times."""
    return flipped(np.broadcast_to(truth, (20_000, *truth.shape)), np.random.default_rng(12))


def test_counts_and_errors_are_the_dense_sums(truth: np.ndarray) -> None:
    reports = flipped(truth, np.random.default_rng(1))
    names = tuple("abcd")
    found = measured_all(FlippedSupports(Bits.from_dense(reports), names, KEEP_ONES, KEEP_ZEROS))
    for itemset in SUBSETS:
        each = product(weights(reports), itemset)
        assert found[itemset].count[0] == pytest.approx(each.sum())
        variance = max((each**2).sum() - each.sum(), 0)
        assert found[itemset].stderr[0] == pytest.approx(np.sqrt(variance), abs=1e-6)
        assert found[itemset].observed[0] == reports[:, list(itemset)].all(axis=1).sum()


def test_exact_baskets_have_no_error(truth: np.ndarray) -> None:
    supports = FlippedSupports(Bits.from_dense(truth), tuple("abcd"))
    found = measured_all(supports)
    assert supports.exact
    for itemset in SUBSETS:
        assert found[itemset].count[0] == truth[:, list(itemset)].all(axis=1).sum()
        assert found[itemset].stderr[0] == 0


def test_estimates_are_unbiased_and_their_errors_right(
    truth: np.ndarray, repeated: np.ndarray
) -> None:
    # Sums over all repetitions are linear in the reports, so one measurement of all of them gives
    # the mean of each.
    repeats = len(repeated)
    pooled = Bits.from_dense(repeated.reshape(-1, ITEMS))
    found = measured_all(FlippedSupports(pooled, tuple("abcd"), KEEP_ONES, KEEP_ZEROS))
    wrong = measured_all(FlippedSupports(pooled, tuple("abcd"), KEEP_ONES * 0.95, KEEP_ZEROS))
    for itemset in SUBSETS[1:]:
        estimates = product(weights(repeated), itemset).sum(axis=1)
        count = truth[:, list(itemset)].all(axis=1).sum()
        spread = estimates.std() / np.sqrt(repeats)
        assert abs(found[itemset].count[0] / repeats - count) < 5.5 * spread
        assert abs(wrong[itemset].count[0] / repeats - count) > 5.5 * spread
        # The relative spread of an empirical variance is sqrt(2 / repeats) = 1 %.
        assert found[itemset].stderr[0] ** 2 / repeats == pytest.approx(estimates.var(), rel=0.06)


def test_covariances_between_an_itemset_and_its_subsets(repeated: np.ndarray) -> None:
    repeats = len(repeated)
    supports = FlippedSupports(
        Bits.from_dense(repeated.reshape(-1, ITEMS)), tuple("abcd"), KEEP_ONES, KEEP_ZEROS
    )
    found = measured_all(supports)
    whole = (0, 1, 3)
    subsets = [tuple(whole[bit] for bit in range(3) if mask >> bit & 1) for mask in range(8)]
    observed = np.array([[found[subset].observed[0] for subset in subsets]])
    count = np.array([[found[subset].count[0] for subset in subsets]])
    with_whole, with_rest = supports.covariances(np.array([whole], dtype=np.int32), observed, count)
    estimates = np.array([product(weights(repeated), subset).sum(axis=1) for subset in subsets])
    empirical = np.cov(estimates)
    scale = np.sqrt(np.diag(empirical))
    for mask in range(8):
        tolerance = 0.05 * scale[mask]
        assert abs(with_whole[0, mask] / repeats - empirical[mask, 7]) <= tolerance * scale[7]
        assert (
            abs(with_rest[0, mask] / repeats - empirical[mask, 7 - mask])
            <= tolerance * scale[7 - mask]
        )
    assert with_whole[0, 7] == pytest.approx(found[whole].stderr[0] ** 2)


def test_several_reports_a_record_count_it_once(truth: np.ndarray, repeated: np.ndarray) -> None:
    copies, reports = 5, repeated[:5]
    pooled = FlippedSupports(
        Bits.from_dense(reports.reshape(-1, ITEMS)),
        tuple("abcd"),
        KEEP_ONES,
        KEEP_ZEROS,
        None,
        copies,
    )
    found = measured_all(pooled)
    assert pooled.rows == len(truth)
    for itemset in SUBSETS:
        each = product(weights(reports), itemset)
        variance = max((each**2).sum() - each.sum(), 0) / copies**2
        assert found[itemset].count[0] == pytest.approx(each.sum() / copies)
        assert found[itemset].stderr[0] == pytest.approx(np.sqrt(variance), abs=1e-6)
    subsets = [tuple(bit for bit in range(2) if mask >> bit & 1) for mask in range(4)]
    columns = [
        np.array([[getattr(found[subset], name)[0] for subset in subsets]])
        for name in ("observed", "count")
    ]
    with_whole, _ = pooled.covariances(np.array([[0, 1]], dtype=np.int32), *columns)
    assert with_whole[0, 3] == pytest.approx(found[0, 1].stderr[0] ** 2)


def test_bad_parameters_are_named() -> None:
    bits = Bits.zeros(3, 2)
    with pytest.raises(EstimationError, match="item 'tea' is reported alike"):
        FlippedSupports(bits, ("milk", "tea"), [0.9, 0.5], 0.5)
    with pytest.raises(ParameterError, match="3 item names for 2 items"):
        FlippedSupports(bits, ("milk", "tea", "jam"))
    with pytest.raises(ParameterError, match=r"keep_ones must lie in 0\.\.1"):
        FlippedSupports(bits, ("milk", "tea"), 1.2)
    with pytest.raises(ParameterError, match="one for each of 2 items"):
        FlippedSupports(bits, ("milk", "tea"), 1.0, [0.1, 0.2, 0.3])
