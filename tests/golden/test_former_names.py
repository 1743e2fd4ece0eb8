"""What moved since 0.1.0 still has its old name, with a warning that says the new one."""

import pytest

import sfumato
from sfumato.mechanisms.registry import mechanism_class


def test_a_class_of_0_1_0() -> None:
    with pytest.warns(DeprecationWarning, match=r"is now sfumato\.Permuting"):
        assert sfumato.Swapping is sfumato.Permuting


def test_an_unknown_name_is_still_unknown() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sfumato.nonsense


def test_the_mechanism_of_0_1_0() -> None:
    assert mechanism_class("swapping").name == "permuting"
