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
