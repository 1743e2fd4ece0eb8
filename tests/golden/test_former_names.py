"""What moved since 0.1.0 still has its old name, with a warning that says the new one."""

import sys

import numpy as np
import pytest

import sfumato
from sfumato.audit import audit_release
from sfumato.domain import Category, Domain
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.registry import mechanism_class
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.table import Table, perturb_table

sfumato_plan = sys.modules["sfumato.plan"]  # `sfumato.plan` is the function


def test_a_class_of_0_1_0() -> None:
    with pytest.warns(DeprecationWarning, match=r"is now sfumato\.Permuting"):
        assert sfumato.Swapping is sfumato.Permuting


def test_an_unknown_name_is_still_unknown() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sfumato.nonsense


def test_the_mechanism_of_0_1_0() -> None:
    assert mechanism_class("swapping").name == "permuting"


def test_the_power_of_an_audit() -> None:
    truth = Table(Domain((Category("coin", ("heads", "tails")),)), (np.arange(100) % 2,))
    release = perturb_table(truth, GammaDiagonal(truth.domain, 3), seeded(1), keep_order=True)
    audit = audit_release(release, truth, rng=seeded(2))
    with pytest.warns(DeprecationWarning, match=r"is now Audit\.power"):
        assert audit.sight is audit.power and audit.power is not None


def test_the_names_of_a_plan() -> None:
    with pytest.warns(DeprecationWarning, match=r"is now sfumato\.plan\.Candidate"):
        assert sfumato_plan.Offer is sfumato_plan.Candidate
    coins = Domain((Category("first", ("a", "b")), Category("second", ("a", "b"))))
    plan = sfumato_plan.plan_release(coins, 10_000, guarantee=Guarantee(9))
    with pytest.warns(DeprecationWarning, match=r"is now Plan\.sample_sizes"):
        assert plan.outlook is plan.sample_sizes
    with pytest.warns(DeprecationWarning, match=r"is now Plan\.excluded"):
        assert plan.aside is plan.excluded
