"""FP/NFP: which items are frequent decides how their zeros are treated, and nothing is promised."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items
from sfumato.errors import ParameterError, PrivacyError, SchemaError
from sfumato.mechanisms.base import spec_of
from sfumato.mechanisms.bitflip import FrequencyFlip
from sfumato.mechanisms.registry import from_spec
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded

SHOP = Domain((Items("items", ("bread", "milk", "caviar", "truffle")),))
SUPPORTS = [0.6, 0.01, 0.0099, 0.001]


def flips() -> FrequencyFlip:
    return FrequencyFlip.from_supports(SHOP, SUPPORTS, fp=0.95, nfp=0.8, min_support=0.01)


def test_frequent_items_are_those_that_reach_the_support() -> None:
    assert flips().frequent == ("bread", "milk")
    np.testing.assert_allclose(flips().p, 0.95, atol=1 / 65536)
    np.testing.assert_allclose(flips().q, [1, 1, 0.8, 0.8], atol=1 / 65536)


def test_nothing_is_promised_and_that_is_said() -> None:
    assert flips().guarantee.gamma == math.inf
    assert FrequencyFlip(SHOP, (), 0.95, 0.8).guarantee.gamma == math.inf
    assert any("certain to be true" in caveat for caveat in flips().caveats)
    with pytest.raises(PrivacyError, match="promises nothing"):
        FrequencyFlip.promising(Guarantee(19), SHOP)


def test_the_spec_survives_json() -> None:
    again = from_spec(json.loads(json.dumps(spec_of(flips()))))
    assert again == flips()


def test_a_frequent_item_is_never_put_in() -> None:
    rows = 100_001
    (report,) = flips().perturb((Bits.zeros(rows, 4),), seeded(1))
    counts = report.counts()
    assert counts[:2].tolist() == [0, 0]
    spread = math.sqrt(rows * 0.2 * 0.8)
    assert np.abs(counts[2:] - rows * 0.2).max() < 5.5 * spread
    assert (
        np.abs(counts[2:] - rows * 0.19).min() > 5.5 * spread
    )  # a rate five per cent off is rejected


def test_supports_are_recovered_through_the_channel() -> None:
    truth = Bits.from_dense(np.random.default_rng(1).random((200_000, 4)) < [0.6, 0.3, 0.01, 0.001])
    (report,) = flips().perturb((truth,), seeded(2))
    for item in range(4):
        shown = int(report.counts()[item])
        estimate = (
            flips()
            .private_channel_over([item])
            .solve(np.array([truth.rows - shown, shown], dtype=float))[1]
        )
        assert abs(estimate - truth.counts()[item]) < 5.5 * math.sqrt(truth.rows * 0.2 * 0.8) / 0.75


def test_records_are_flipped_by_their_items() -> None:
    domain = Domain((Category("sex", ("female", "male")),))
    assert FrequencyFlip.from_supports(domain, [0.9, 0.1], 0.9, 0.8, 0.5).frequent == (
        "sex=female",
    )


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ParameterError, match="3 supports were given for 4 items"):
        FrequencyFlip.from_supports(SHOP, [0.1, 0.2, 0.3], 0.9, 0.8, 0.1)
    with pytest.raises(ParameterError, match="fp=0"):
        FrequencyFlip(SHOP, ("milk",), 0, 0.8)
    with pytest.raises(ParameterError, match="add up to 1"):
        FrequencyFlip(SHOP, ("milk",), 0.5, 0.5)
    with pytest.raises(SchemaError, match="did you mean 'milk'"):
        FrequencyFlip(SHOP, ("milc",), 0.9, 0.8)
