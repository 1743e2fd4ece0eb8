"""The mechanism that `how-to/own-mechanism.md` writes keeps the contract, as the page says it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from docs_build.running import DOCS
from sfumato.errors import SfumatoError
from sfumato.mechanisms.registry import MECHANISMS

PAGE = (DOCS / "how-to" / "own-mechanism.md").read_text(encoding="utf-8")
WRITTEN, TESTED = (
    block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "class " in block
)
near = sys.modules["page.near"] = ModuleType("page.near")
exec(WRITTEN + TESTED, near.__dict__)
TestNear = near.TestNear


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    MECHANISMS["near"] = "page.near:Near"
    yield
    del MECHANISMS["near"]


def test_a_file_that_lies_is_refused() -> None:
    made = TestNear.examples[0].mechanism
    for lie in (0, 100, 1.5, "nan", None):
        with pytest.raises(SfumatoError):
            near.Near.from_parameters(made.domain, {"percent": lie})
