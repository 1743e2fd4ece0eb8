"""The README's picture is what its command draws today."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from docs_build.picture import KEPT, drawn


def numbers(picture: str) -> list[float]:
    """Where everything stands in a picture."""
    placed = re.findall(r'(?: d|transform|x|y|width|height|points)="([^"]*)"', picture)
    return [float(number) for text in placed for number in re.findall(r"-?\d+\.?\d*", text)]


def test_the_picture_of_the_readme_is_what_its_command_draws() -> None:
    kept, now = KEPT.read_text(encoding="utf-8"), drawn()
    if kept.splitlines()[-1] != now.splitlines()[-1]:
        pytest.skip(f"the picture was drawn by another {kept.splitlines()[-1]}")
    assert len(numbers(kept)) > 1_000
    np.testing.assert_allclose(numbers(kept), numbers(now), atol=0.2)


def test_a_moved_estimate_would_be_seen() -> None:
    kept = KEPT.read_text(encoding="utf-8")
    moved = re.sub(r"(?<=M )\d", r"1\g<0>", kept, count=1)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(numbers(moved), numbers(kept), atol=0.2)
