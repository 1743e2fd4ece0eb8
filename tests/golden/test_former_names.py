"""What moved since 0.1.0 still has its old name, with a warning that says the new one."""

import pytest

import sfumato
from sfumato.mechanisms.registry import mechanism_class


def test_a_class_of_0_1_0() -> None:
    with pytest.warns(DeprecationWarning, match=r"is now sfumato\.Permuting"):
        assert sfumato.Swapping is sfumato.Permuting


def test_the_engines_of_0_1_0() -> None:
    from sfumato import engine, engines

    with pytest.warns(DeprecationWarning, match=r"sfumato\.engines\.combine") as told:
        assert engine.combine is engines.combine
    assert told[0].filename == __file__  # where the old name stands


def test_spark_of_0_1_0() -> None:
    from sfumato import spark
    from sfumato.engines import spark as now

    with pytest.warns(DeprecationWarning, match=r"sfumato\.engines\.spark\.is_spark") as told:
        assert spark.is_spark is now.is_spark
    assert told[0].filename == __file__


def test_an_unknown_name_is_still_unknown() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sfumato.nonsense


def test_the_mechanism_of_0_1_0() -> None:
    assert mechanism_class("swapping").name == "permuting"
