"""What was found is shown short, by its kind where it is long."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import FileError, SchemaError
from sfumato.untrusted import MOST_ATTRIBUTES, Untrusted, parsed_toml, read_text, shown


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
        Untrusted(value, "rows").whole()


@pytest.mark.parametrize(("value", "sound"), [(0, True), (9, True), (-1, False), (10, False)])
def test_whole_numbers_keep_their_bounds(value: int, sound: bool) -> None:
    given = Untrusted(value, "rows")
    if sound:
        assert given.whole(0, 9) == value
        return
    with pytest.raises(FileError, match="a whole number from 0 to 9"):
        given.whole(0, 9)


def test_lists_of_numbers_keep_their_bounds() -> None:
    assert Untrusted([0, 9, 0.5], "cuts").numbers(least=0, highest=9) == (0, 9, 0.5)
    for wrong in ([10], [-1], [float("nan")]):
        with pytest.raises(FileError, match="a list of numbers from 0 to 9"):
            Untrusted(wrong, "cuts").numbers(least=0, highest=9)


def test_as_many_tables_are_read_as_are_said() -> None:
    tables = "[[a]]\n" * (2 * MOST_ATTRIBUTES)
    assert len(parsed_toml(tables, "s.toml")["a"]) == 2 * MOST_ATTRIBUTES
    with pytest.raises(SchemaError, match=f"more than {2 * MOST_ATTRIBUTES:,} tables"):
        parsed_toml(tables + "[[a]]\n", "s.toml")


def test_why_a_file_cannot_be_read_is_said_in_the_systems_words(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"^cannot read the schema: Is a directory$"):
        read_text(tmp_path, "the schema")
    with pytest.raises(FileError, match="null"):
        read_text(Path("a\0b"), "the schema")
