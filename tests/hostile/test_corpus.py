"""Every hostile file ends a command as a mistake should: exit code 0 or 2, one line, soon, and in
little memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile.corpus import CORPUS, Hostile
from tests.hostile.meter import Meter
from typer.testing import CliRunner

from sfumato.cli import app

MOST_SECONDS = 2.0  # of CPU
MOST_BYTES = 500 << 20
# Seconds of CPU that honest commands take where the limit above was set: schema, and mine.
BASELINE, MINING = 0.6, 0.9

HEAVY = [hostile for hostile in CORPUS if hostile.heavy]
LIGHT = [hostile for hostile in CORPUS if not hostile.heavy]


@pytest.fixture(scope="module")
def meter() -> Iterator[Meter]:
    """What runs commands and measures them."""
    meter = Meter()
    yield meter
    meter.close()


@pytest.fixture(scope="module")
def slowness(meter: Meter, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How much slower this machine is, as it is loaded now, than the one the limit was set on."""
    folder = tmp_path_factory.mktemp("honest")
    (folder / "t.csv").write_text("c\na\nb\n" * 2)
    mine = ["mine", "t.csv", "--min-support", "0.1"]
    taken = []
    for command in (mine, mine, ["schema", "t.csv"]):
        honest = meter.run(command, folder)  # the first also compiles what is compiled once
        assert honest.code == 0, honest.said
        taken.append(honest.seconds)
    return max(1.0, taken[1] / MINING, taken[2] / BASELINE)


def arguments(hostile: Hostile, folder: Path) -> list[str]:
    """The words of the command, its files made in this folder."""
    (folder / "truth.csv").write_text("c\na\nb\nx\n")
    (folder / "s.toml").write_text(
        "[[attribute]]\nname = 'c'\ntype = 'category'\nvalues = ['a', 'b', 'x']\n"
    )
    (folder / "b.dat").write_text("1 2\n3\n")
    (folder / "made").mkdir()
    path = str(hostile.make(folder / "made"))
    return [path if word == "FILE" else word for word in hostile.command]


def check_told(code: int, said: str) -> None:
    assert code in (0, 2), said
    assert "Traceback" not in said
    if code == 2:
        assert said.count("\n") == 1 and said.startswith("sfumato: ") and len(said) < 1500, said


@pytest.mark.parametrize("hostile", HEAVY, ids=lambda hostile: hostile.name)
def test_a_file_that_goes_for_time_or_memory_gets_neither(
    hostile: Hostile, tmp_path: Path, meter: Meter, slowness: float
) -> None:
    taken: list[float] = []
    while len(taken) < 3:  # where other work has come since `slowness`, which only adds
        folder = tmp_path / str(len(taken))
        folder.mkdir()
        reading = meter.run(arguments(hostile, folder), folder)
        check_told(reading.code, reading.said)
        assert reading.memory < MOST_BYTES, f"{reading.memory >> 20} MB"
        taken.append(reading.seconds)
        if reading.seconds < MOST_SECONDS * slowness:
            return
    raise AssertionError(f"{min(taken):.1f} s of CPU at least")


@pytest.mark.parametrize("hostile", LIGHT, ids=lambda hostile: hostile.name)
def test_a_file_of_the_wrong_kinds_is_one_line(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = arguments(hostile, tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    check_told(done.exit_code, done.stderr)


def test_the_corpus_is_as_large_as_promised() -> None:
    names = [hostile.name for hostile in CORPUS]
    assert len(HEAVY) >= 57 and len(set(names)) == len(names)
