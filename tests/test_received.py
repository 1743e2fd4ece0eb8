"""What was found is shown short, by its kind where it is long."""

from __future__ import annotations

import pytest

from sfumato.received import shown


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("cat", "'cat'"),
        (True, "true"),
        (None, "nothing"),
        ((1 << 64) - 1, "18446744073709551615"),
        (1 << 64, "a number of 65 bits"),
        (-(1 << 70), "a number of 71 bits"),
        (0.5, "0.5"),
        ([1, 2, 3], "a list of 3"),
        ({"a": 1}, "an object of 1"),
    ],
)
def test_what_was_found_is_shown_short(value: object, words: str) -> None:
    assert shown(value) == words
