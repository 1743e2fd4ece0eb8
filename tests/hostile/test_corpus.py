"""Every hostile file ends a command as a mistake should: exit code 0 or 2, one line, soon, and in
little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.corpus import CORPUS, Hostile
from tests.hostile.meter import Forked
from typer.testing import CliRunner

from sfumato.cli import app

# Above what commands take once they are loaded: with it, two seconds and 500 MB.
MOST_SECONDS = 1.6  # of CPU, where loading every command takes so many:
LOADING = 0.9
MOST_BYTES = 350 << 20

Made = Callable[[Callable[[Path], Any]], str]

HEAVY = [hostile for hostile in CORPUS if hostile.heavy]
LIGHT = [hostile for hostile in CORPUS if not hostile.heavy]


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    """What runs commands and measures them."""
    forked, folder = Forked(), tmp_path_factory.mktemp("honest")
    (folder / "t.csv").write_text("c\na\nb\n" * 2)
    code, said, *_ = forked.run(["mine", "t.csv", "--min-support", "0.1"], folder, patience=100)
    assert code == 0, said  # this also compiles what is compiled once
    yield forked
    forked.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Every hostile file once, for all commands that open it."""
    return cache(lambda make: str(make(tmp_path_factory.mktemp("made"))))


def arguments(hostile: Hostile, folder: Path, made: Made) -> list[str]:
    """The words of the command, what it needs beside its file made in this folder."""
    (folder / "truth.csv").write_text("c\na\nb\nx\n")
    (folder / "s.toml").write_text(
        "[[attribute]]\nname = 'c'\ntype = 'category'\nvalues = ['a', 'b', 'x']\n"
    )
    (folder / "b.dat").write_text("1 2\n3\n")
    path = made(hostile.make)
    return [path if word == "FILE" else word for word in hostile.command]


def check_told(code: int, said: str) -> None:
    assert code in (0, 2), said
    assert "Traceback" not in said
    if code == 2:
        assert said.count("\n") == 1 and said.startswith("sfumato: ") and len(said) < 1500, said


@pytest.mark.parametrize("hostile", HEAVY, ids=lambda hostile: hostile.name)
def test_a_file_that_goes_for_time_or_memory_gets_neither(
    hostile: Hostile, tmp_path: Path, forked: Forked, made: Made
) -> None:
    slowness = max(1.0, forked.loading / LOADING)  # of this machine, as it is loaded now
    taken: list[float] = []
    while len(taken) < 3:  # where other work has come since, which only adds
        folder = tmp_path / str(len(taken))
        folder.mkdir()
        words = arguments(hostile, folder, made)
        code, said, seconds, memory = forked.run(words, folder, patience=100, wait=0)
        check_told(code, said)
        assert memory < MOST_BYTES, f"{memory >> 20} MB"
        taken.append(seconds)
        if seconds < MOST_SECONDS * slowness:
            return
    raise AssertionError(f"{min(taken):.1f} s of CPU at least")


@pytest.mark.parametrize("hostile", LIGHT, ids=lambda hostile: hostile.name)
def test_a_file_of_the_wrong_kinds_is_one_line(
    hostile: Hostile, tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = arguments(hostile, tmp_path, made)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    check_told(done.exit_code, done.stderr)


def test_the_corpus_is_as_large_as_promised() -> None:
    names = [hostile.name for hostile in CORPUS]
    assert len(HEAVY) >= 57 and len(set(names)) == len(names)
