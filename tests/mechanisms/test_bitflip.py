"""Bit flips: exact guarantees, rounding towards privacy, and bits that come out as often as the
thresholds say.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import EstimationError, ParameterError, PrivacyError, SchemaError
from sfumato.mechanisms.base import spec_of
from sfumato.mechanisms.bitflip import BitFlip, as_baskets, rounded_rates
from sfumato.mechanisms.registry import from_spec
from sfumato.mechanisms.steps.basket_steps import SCALE, flip_bits
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import secure, seeded
from sfumato.release import Release
from sfumato.table import Table, perturb_table
from sfumato.testing import unbalanced

REJECT = 1e-6
BASKETS = Domain((Items("items", ("bread", "milk", "salt")),))
RECORDS = Domain((Category("sex", ("female", "male")), Category("pet", ("cat", "dog", "eel"))))


def shop(items: int) -> Domain:
    return Domain((Items("items", tuple(map(str, range(items)))),))


def survey(*sizes: int) -> Domain:
    return Domain(
        tuple(
            Category(f"a{place}", tuple(map(str, range(size)))) for place, size in enumerate(sizes)
        )
    )


# The parameters.


@pytest.mark.parametrize(
    "rates", [(0.5, 0.5), (0.7, 0.3), (0.3, 0.7), (1.0, 0.0), (0.500001, 0.5), (0.4999999, 0.5)]
)
def test_rates_that_tell_nothing_are_refused(rates: tuple[float, float]) -> None:
    with pytest.raises(ParameterError, match="add up to 1"):
        BitFlip(BASKETS, *rates)


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_what_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(ParameterError, match="not a probability"):
        BitFlip(BASKETS, rate, 0.9)


def test_a_vector_must_have_one_rate_an_item() -> None:
    with pytest.raises(ParameterError, match="lists 2 probabilities for 3 items"):
        BitFlip(BASKETS, [0.9, 0.8], 0.9)


def test_baskets_beside_other_private_columns_are_refused() -> None:
    with pytest.raises(SchemaError, match="'items' holds baskets"):
        BitFlip(Domain((*BASKETS, *RECORDS)), 0.9, 0.9)


@pytest.mark.parametrize("rates", list(product([0.05, 0.3, 0.48, 0.51, 0.6, 0.9, 0.99], repeat=2)))
def test_rounding_never_weakens_the_promise(rates: tuple[float, float]) -> None:
    ones, zeros = (Fraction(str(rate)) for rate in rates)
    asked = max(ones / (1 - zeros), (1 - ones) / zeros, zeros / (1 - ones), (1 - zeros) / ones)
    mechanism = BitFlip(shop(1), *rates)
    assert mechanism.guarantee.gamma <= asked
    assert mechanism.guarantee.gamma == pytest.approx(float(asked), rel=2e-3)


def test_a_stored_rate_is_its_own_rounding() -> None:
    for threshold in range(1, SCALE, 97):
        assert rounded_rates(threshold / SCALE, 1.0) == (threshold, SCALE)


def test_numbers_are_perturbed_in_their_bins() -> None:
    mechanism = BitFlip(Domain((Numeric("age", 0, 99, cuts=(20, 60)),)), 0.9, 0.9)
    assert mechanism.reports.attributes[0].labels == ("age=[0,20)", "age=[20,60)", "age=[60,99]")


@pytest.mark.parametrize("domain", [BASKETS, RECORDS], ids=["baskets", "records"])
def test_the_spec_survives_json_with_vectors(domain: Domain) -> None:
    items = BitFlip(domain, 0.9, 0.9).private_reports.attributes[0].size
    mechanism = BitFlip(domain, np.linspace(0.6, 0.9, items), 0.8)
    again = from_spec(json.loads(json.dumps(spec_of(mechanism))))
    assert again == mechanism and hash(again) == hash(mechanism)
    assert again.guarantee == mechanism.guarantee


# The guarantee.


def slow_gamma(matrix: np.ndarray) -> float:
    return max(row.max() / row.min() for row in matrix)


@pytest.mark.parametrize(
    "domain",
    [BASKETS, RECORDS, survey(1, 3), survey(2, 2, 2)],
    ids=["baskets", "records", "one", "three"],
)
@pytest.mark.parametrize("rates", ["same", "asymmetric", "vectors", "below half"])
def test_gamma_is_that_of_the_matrix(domain: Domain, rates: str) -> None:
    items = BitFlip(domain, 0.9, 0.9).private_reports.attributes[0].size
    ones, zeros = {
        "same": (0.8, 0.8),
        "asymmetric": (0.6, 0.95),
        "vectors": (np.linspace(0.55, 0.9, items), np.linspace(0.95, 0.6, items)),
        "below half": (0.2, 0.3),
    }[rates]
    mechanism = BitFlip(domain, ones, zeros)
    assert float(mechanism.guarantee.gamma) == pytest.approx(
        slow_gamma(mechanism.private_channel.to_dense()), rel=1e-9
    )


def test_gamma_is_exact() -> None:
    assert BitFlip(shop(497), 0.75, 0.75).guarantee.gamma == Fraction(3) ** 497
    assert BitFlip(RECORDS, 0.75, 0.75).guarantee.gamma == 81
    assert BitFlip(RECORDS, 0.75, 0.75).per_item.gamma == 3


@pytest.mark.parametrize("rates", [(1, 0.9), (0.9, 1), (1, 1)])
def test_a_certain_bit_promises_nothing(rates: tuple[float, float]) -> None:
    assert BitFlip(RECORDS, *rates).guarantee.gamma == math.inf
    assert BitFlip(BASKETS, [rates[0], 0.9, 0.9], [rates[1], 0.9, 0.9]).guarantee.gamma == math.inf


@pytest.mark.parametrize(
    ("sizes", "flip"), [((4, 5, 5, 5, 2, 2), 0.439), ((2, 3, 4, 5, 2, 2, 2), 0.448)]
)
def test_the_flips_of_frapp(sizes: tuple[int, ...], flip: float) -> None:
    """γ = 19 needs 1-p = 0.439 for six attributes and 0.448 for seven."""
    mechanism = BitFlip.promising(Guarantee(Fraction(19)), survey(*sizes))
    assert round(1 - mechanism.keep_ones, 3) == flip


@pytest.mark.parametrize("gamma", [1.5, 3, 19, 1000])
@pytest.mark.parametrize(
    "domain", [BASKETS, RECORDS, shop(500)], ids=["baskets", "records", "many"]
)
def test_a_promise_is_kept_and_the_next_rate_would_break_it(gamma: float, domain: Domain) -> None:
    asked = Guarantee(Fraction(str(gamma)))
    mechanism = BitFlip.promising(asked, domain)
    assert asked.allows(mechanism.guarantee)
    more = mechanism.keep_ones + 1 / SCALE
    assert not asked.allows(BitFlip(domain, more, more).guarantee)


def test_a_promise_too_strong_for_so_many_items_is_refused() -> None:
    with pytest.raises(PrivacyError, match="more often than chance"):
        BitFlip.promising(Guarantee(Fraction(11, 10)), shop(5000))


# The channels.


def test_item_channels_are_built_for_the_items_asked_for() -> None:
    mechanism = BitFlip(shop(2000), np.linspace(0.6, 0.9, 2000), 0.8)
    channel = mechanism.private_channel_over([5, 1999])
    np.testing.assert_allclose(
        channel.to_dense(), np.kron(*(flip_matrix(mechanism, item) for item in (5, 1999)))
    )
    assert len(mechanism.private_channel.inputs) == 2000


def flip_matrix(mechanism: BitFlip, item: int) -> np.ndarray:
    p, q = mechanism.p[item], mechanism.q[item]
    return np.array([[q, 1 - p], [1 - q, p]])


def test_a_large_record_channel_is_not_written_out() -> None:
    with pytest.raises(EstimationError, match="too large to write out"):
        _ = BitFlip(survey(20, 20), 0.9, 0.9).private_channel


def test_votes_are_unbiased() -> None:
    mechanism = BitFlip(RECORDS, [0.9, 0.8, 0.7, 0.9, 0.6], 0.8)
    rows = 200_000
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, rows).astype(np.uint8), rng.integers(0, 3, rows).astype(np.uint8)
    (reports,) = mechanism.perturb(truth, seeded(1))
    shown = reports.to_dense()[:, [1, 3]] - (1 - mechanism.q[[1, 3]])
    votes = (shown / (mechanism.p + mechanism.q - 1)[[1, 3]]).prod(axis=1)
    cells = [attribute.cells() for attribute in RECORDS]
    release = Release.of(perturb_table(Table(RECORDS, truth), mechanism, seeded(1)))
    assert unbalanced(release, cells)[1, 1] == pytest.approx(votes.sum(), rel=1e-9)
    true = (truth[0] == 1) & (truth[1] == 1)
    for holds in (True, False):
        stderr = votes[true == holds].std() / math.sqrt((true == holds).sum())
        assert abs(votes[true == holds].mean() - holds) < 5 * stderr
        assert abs(votes[true == holds].mean() - (holds + 0.05)) > 5 * stderr


# The sampler.


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 1000, 200_001])
def test_no_bit_beyond_the_last_row_is_ever_set(rows: int) -> None:
    mechanism = BitFlip(shop(5), 0.1, 0.1)
    (report,) = mechanism.perturb((Bits.zeros(rows, 5),), seeded(1))
    assert report.rows == rows and report.words.shape == Bits.zeros(rows, 5).words.shape
    if rows % 64:
        assert not (report.words[:, -1] >> np.uint64(rows % 64)).any()


@pytest.mark.parametrize("rows", [1, 7, 64, 129])
def test_records_become_baskets_of_their_items(rows: int) -> None:
    rng = np.random.default_rng(rows)
    columns = rng.integers(0, 2, rows).astype(np.uint8), rng.integers(0, 3, rows).astype(np.uint8)
    expected = np.concatenate(
        [np.eye(2, dtype=bool)[columns[0]], np.eye(3, dtype=bool)[columns[1]]], axis=1
    )
    np.testing.assert_array_equal(as_baskets(columns, RECORDS).to_dense(), expected)


THRESHOLDS = [
    1,
    2,
    3,
    255,
    256,
    6554,
    13107,
    0x5555,
    32767,
    32768,
    32769,
    0xAAAA,
    49152,
    58983,
    65535,
]


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_bits_flip_as_often_as_their_threshold_says(threshold: int) -> None:
    """Exact binomial test on 4 million bits; a threshold five per cent off is rejected where it
    moves enough bits.
    """
    rows, other = 1_000_003, SCALE // 3
    truth = Bits.from_dense(
        np.tile(np.random.default_rng(1).random((1, 4)) < 0.5, (1, 1)).repeat(rows, axis=0)
    )
    for flips in ([threshold, other], [other, threshold], [threshold, threshold]):
        report = flip_bits(truth, ((SCALE - flips[0], SCALE - flips[1]),) * 4, seeded(threshold))
        changed = Bits(report.words ^ truth.words, rows).counts()
        ones = truth.counts() > 0
        for flip, here in ((flips[0], ones), (flips[1], ~ones)):
            trials, found = rows * int(here.sum()), int(changed[here].sum())
            if trials:
                assert probability(found, trials, flip / SCALE) > REJECT
                if trials * flip / SCALE > 1e5:
                    assert (
                        probability(
                            found, trials, 1.05 * flip / SCALE if flip * 1.05 < SCALE else 0.95
                        )
                        < REJECT
                    )


def probability(found: int, trials: int, chance: float) -> float:
    """Two-sided, by the normal approximation where it holds, exactly elsewhere."""
    if trials * chance * (1 - chance) < 1000:
        return float(stats.binomtest(found, trials, chance).pvalue)
    return float(
        2 * stats.norm.sf(abs(found - trials * chance) / math.sqrt(trials * chance * (1 - chance)))
    )


def test_certain_bits_never_and_always_flip() -> None:
    truth = Bits.from_dense(np.random.default_rng(1).random((1000, 3)) < 0.5)
    never = flip_bits(truth, ((SCALE, SCALE),) * 3, seeded(1))
    always = flip_bits(truth, ((0, 0),) * 3, seeded(1))
    assert never.equals(truth)
    np.testing.assert_array_equal(always.to_dense(), ~truth.to_dense())


class Counting:
    """A keystream that plays all 16-bit numbers once: bit k of number n in plane k."""

    secure = False

    def fill(self, planes: np.ndarray) -> None:
        assert planes.shape == (16, 1024)
        numbers = np.arange(SCALE)
        for plane in range(16):
            planes[plane] = np.packbits(numbers >> plane & 1, bitorder="little").view(np.uint64)


@pytest.mark.parametrize(
    "flips",
    [(1, 65535), (6553, 39321), (32769, 32767), (12345, 54321), (21845, 21845), (0, 1), (1, SCALE)],
)
def test_of_all_random_numbers_exactly_threshold_many_flip_a_bit(flips: tuple[int, int]) -> None:
    for one in (False, True):
        truth = Bits.from_dense(np.full((SCALE, 1), one))
        report = flip_bits(truth, (tuple(SCALE - flip for flip in flips),), Counting())
        assert int((report.to_dense() != one).sum()) == flips[0 if one else 1]


def test_each_item_has_its_own_rate_and_items_are_independent() -> None:
    items, rows = 40, 100_000
    mechanism = BitFlip(shop(items), np.linspace(0.6, 0.95, items), np.linspace(0.95, 0.6, items))
    truth = Bits.from_dense(np.random.default_rng(2).random((rows, items)) < 0.5)
    (report,) = mechanism.perturb((truth,), seeded(5))
    true, shown = truth.to_dense(), report.to_dense()
    for item in range(items):
        kept = shown[true[:, item], item]
        assert probability(int(kept.sum()), len(kept), mechanism.p[item]) > REJECT
        assert probability(int(kept.sum()), len(kept), mechanism.p[item] * 0.95) < REJECT
    correlation = np.corrcoef((shown ^ true).T) - np.eye(items)
    assert np.abs(correlation).max() < 6.2 / math.sqrt(rows)  # 780 pairs, 6.2 standard deviations


def test_secure_flips_differ_every_time() -> None:
    truth = Bits.zeros(1000, 3)
    mechanism = BitFlip(BASKETS, 0.9, 0.9)
    assert not mechanism.perturb((truth,), secure())[0].equals(
        mechanism.perturb((truth,), secure())[0]
    )


def test_a_gamma_of_many_rates_is_rounded_up_and_hardly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the exact fraction would be too long, a little more is promised against than is true,
    never less.
    """
    from sfumato.mechanisms.steps import basket_steps as baskets

    rates = [0.5 + place / 4096 for place in range(1, 2000)]
    domain = Domain((Items("items", tuple(map(str, range(len(rates))))),))
    exact = BitFlip(domain, rates, rates[::-1]).guarantee.gamma
    monkeypatch.setattr(baskets, "EXACT_BITS", 300)
    rounded = BitFlip(domain, rates, rates[::-1]).guarantee.gamma
    assert exact < rounded < exact * (1 + Fraction(1, 1 << 250))
