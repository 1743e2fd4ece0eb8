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


def test_microdata_and_binnings_of_0_2_0() -> None:
    people = {"age": [31, 31, 52, 60], "ill": ["no", "yes", "no", "no"]}
    with pytest.warns(DeprecationWarning, match="take records as they are"):
        read = sfumato.Microdata.read
    with pytest.warns(DeprecationWarning, match="frequency:5"):
        binning = sfumato.Binning
    for cut in (binning("frequency", 2), binning.parse("frequency:2"), "frequency:2"):
        former = sfumato.identify(read(people, "ill", bins={"age": cut}))
        assert former == sfumato.identify(people, confidential="ill", bins={"age": "frequency:2"})
    assert binning("cuts", cuts=(40,)).edges(people["age"]).tolist() == [40]
    with pytest.raises(sfumato.SfumatoError, match="no column 'il'"):
        read(people, "il")
