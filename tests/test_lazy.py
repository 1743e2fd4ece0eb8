"""Names that are loaded when they are first asked for: once, and only those that are there."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from sfumato.lazy import loading


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    parent, child = ModuleType("lazily"), ModuleType("lazily.inner")
    child.noun = object()
    parent.__path__ = []
    parent.__getattr__ = loading("lazily", {"word": "inner:noun"})
    monkeypatch.setitem(sys.modules, "lazily", parent)
    monkeypatch.setitem(sys.modules, "lazily.inner", child)
    return parent


def test_a_name_is_loaded_from_where_it_is_defined_and_kept(package: ModuleType) -> None:
    assert "word" not in vars(package)
    assert package.word is sys.modules["lazily.inner"].noun
    assert vars(package)["word"] is package.word


def test_a_name_that_is_not_there_is_missed(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'lazily' has no attribute 'wrod'"):
        _ = package.wrod
