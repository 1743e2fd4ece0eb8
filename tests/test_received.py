"""What was found is shown short, by its kind where it is long."""

from __future__ import annotations

import pytest

from sfumato.errors import FileError
from sfumato.received import Received, shown


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


@pytest.mark.parametrize("value", ["7", True, 7.0, None, [7]])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(FileError, match=r"^rows should be a whole number; found"):
        Received(value, "rows").whole()


@pytest.mark.parametrize(("value", "sound"), [(0, True), (9, True), (-1, False), (10, False)])
def test_whole_numbers_keep_their_bounds(value: int, sound: bool) -> None:
    given = Received(value, "rows")
    if sound:
        assert given.whole(0, 9) == value
        return
    with pytest.raises(FileError, match="a whole number from 0 to 9"):
        given.whole(0, 9)
