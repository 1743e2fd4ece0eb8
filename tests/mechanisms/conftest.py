"""Mechanisms that only the tests know, registered while these tests run."""

from collections.abc import Iterator

import pytest
from tests.mechanisms.examples import ADDED

from sfumato.mechanisms.registry import MECHANISMS


@pytest.fixture(autouse=True)
def added_mechanisms() -> Iterator[None]:
    MECHANISMS.update(ADDED)
    yield
    for name in ADDED:
        MECHANISMS.pop(name, None)
