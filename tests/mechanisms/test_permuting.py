"""Permuting: columns keep their values, links are blurred, and nothing is promised that
is not kept.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.mechanisms.examples import RECORD

from sfumato.channels.channel import has_known_laws
from sfumato.domain import Domain, Items
from sfumato.errors import ParameterError, PrivacyError, SchemaError
from sfumato.mechanisms.retention import Permuting
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.testing import REJECT, independence

RECORDS = (np.arange(60_000, dtype=np.uint8) % 2, np.arange(60_000, dtype=np.uint8) % 3)


def test_every_column_keeps_exactly_its_values() -> None:
    reports = Permuting(RECORD, 0.3).randomise(RECORDS, seeded(1))
    for report, record in zip(reports, RECORDS, strict=True):
        assert (np.bincount(report) == np.bincount(record)).all()
        assert (report != record).any()


@pytest.mark.parametrize("keep", [0.2, 0.9])
def test_a_value_stays_with_keep_or_by_falling_back_to_its_own_kind(keep: float) -> None:
    sex, pet = Permuting(RECORD, keep).randomise(RECORDS, seeded(1))
    for report, record, share in ((sex, RECORDS[0], 1 / 2), (pet, RECORDS[1], 1 / 3)):
        expected = keep + (1 - keep) * share
        assert (
            abs((report == record).mean() - expected)
            < 5 * (expected * (1 - expected) / 60_000) ** 0.5
        )


def test_columns_are_swapped_on_their_own() -> None:
    reports = Permuting(RECORD, 0.5).randomise(RECORDS, seeded(1))
    moved = [
        (report != record).astype(int) for report, record in zip(reports, RECORDS, strict=True)
    ]
    assert independence(*moved) > REJECT


def test_the_channel_waits_for_the_column_and_then_knows_its_law() -> None:
    channel = Permuting(RECORD, 0.5).private_channel
    assert not has_known_laws(channel)
    settled = channel.settle(np.array([[3.0, 1, 0], [4, 1, 1]]))
    assert has_known_laws(settled)
    assert np.allclose(
        settled.marginal([0]).to_dense(), 0.5 * np.eye(2) + 0.5 * np.array([[0.4], [0.6]])
    )


def test_no_gamma_can_be_had_of_it() -> None:
    with pytest.raises(PrivacyError, match="promises no gamma"):
        Permuting.promising(Guarantee(19), RECORD)
    assert Permuting(RECORD, 0.5).needs_all_rows
    assert "no gamma" in Permuting(RECORD, 0.5).caveats[0]


def test_what_cannot_be_swapped_is_refused() -> None:
    with pytest.raises(ParameterError, match="keep=0 replaces every record"):
        Permuting(RECORD, 0)
    with pytest.raises(SchemaError, match="mask"):
        Permuting(Domain((Items("items", ("a",)),)), 0.5)
