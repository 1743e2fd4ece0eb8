"""Both accounts of several reports of one record: the guarantee composed, and FRAPP's bound."""

from __future__ import annotations

import pytest

from sfumato.errors import ParameterError
from sfumato.privacy import siblings
from sfumato.privacy.guarantee import Guarantee

PROMISE = Guarantee(19)


def test_the_composed_guarantee_of_fifty_versions() -> None:
    account = siblings.record_account(PROMISE, cells=2000, copies=50)
    assert round(account.guarantee.epsilon) == 147
    assert account.guarantee.gamma == 19**50


def test_the_bound_is_eq_18_for_full_records() -> None:
    account = siblings.record_account(PROMISE, cells=2000, copies=50)
    assert account.guess_bound == pytest.approx(1 - (1 - 19 / 2018) ** 50)


def test_both_accounts_are_told_together() -> None:
    text = str(siblings.record_account(PROMISE, cells=2000, copies=50))
    assert "epsilon 147" in text
    assert "at most 0.38" in text


def test_bad_input_is_named() -> None:
    with pytest.raises(ParameterError, match="copies=0 is too small"):
        siblings.guess_bound(0.5, 2, 0)
    with pytest.raises(ParameterError, match="values=1 is too small"):
        siblings.guess_bound(0.5, 1, 3)
    with pytest.raises(ParameterError, match="cells=1 is too small"):
        siblings.record_stays(PROMISE, 1)
