"""Every reader × every hostile thing: exit code 0 or 2, one line, in two seconds and 200 MB."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile.meter import PATIENCE, Forked
from tests.hostile.readers import (
    CAMPAIGN,
    CAMPAIGNS,
    INPUTS,
    MODELS,
    READERS,
    STORES,
    Input,
    Reader,
    honest,
)
from tests.hostile.test_corpus import check_told

from sfumato.errors import FileError
from sfumato.untrusted import MOST_JSON_BYTES, read_octets, read_text

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")

MOST_SECONDS = 2.0  # of work, and of waiting for a pipe; other work on the machine is not counted
MOST_BYTES = 200 << 20  # above what the commands take once they are imported


@pytest.fixture(scope="module")
def forked() -> Iterator[Forked]:
    forked = Forked()
    yield forked
    forked.close()


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything is honest."""
    folder = tmp_path_factory.mktemp("ready")
    honest(folder)
    return folder


@pytest.fixture
def folder(ready: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ready, tmp_path / "w", symlinks=True))


def check(reader: Reader, hostile: Input, folder: Path, forked: Forked) -> None:
    place = folder / reader.file
    place.parent.mkdir(exist_ok=True)
    if place.exists() and hostile not in STORES:
        place.unlink()
    hostile.make(place)
    code, said, seconds, memory = forked.run(reader.command, folder)
    assert code >= 0, f"still there after {PATIENCE} seconds"
    check_told(code, said)
    assert code == 2 or hostile.file
    assert seconds < MOST_SECONDS, f"{seconds:.1f} s"
    assert memory < MOST_BYTES, f"{memory >> 20} MB"


def inputs_of(reader: Reader) -> list[Input]:
    """What a reader is given; a server that takes it goes on, and is not asked."""
    own = {"store": STORES, "campaign": CAMPAIGNS, "model": MODELS}.get(reader.name.split()[0], [])
    return [
        each for each in (*INPUTS, *own) if not (reader.serves and (each.served or own is STORES))
    ]


def failures(
    reader: Reader, inputs: list[Input], ready: Path, place: Path, forked: Forked
) -> dict[str, str]:
    """What was wrong with a reader, by what it was given."""
    failed = {}
    for number, hostile in enumerate(inputs):
        folder = Path(shutil.copytree(ready, place / str(number), symlinks=True))
        try:
            check(reader, hostile, folder, forked)
        except AssertionError as error:
            failed[hostile.name] = str(error).splitlines()[0]
        shutil.rmtree(folder)
    return failed


each_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


@each_reader
def test_every_reader_ends_with_one_line_whatever_it_is_given(
    reader: Reader, ready: Path, tmp_path: Path, forked: Forked
) -> None:
    """All that is no file, all that is made for this reader, and of the rest every fourth, each
    reader others.
    """
    turn = READERS.index(reader)
    some = [
        each
        for place, each in enumerate(inputs_of(reader))
        if not each.file or each not in INPUTS or (place + turn) % 4 == 0
    ]
    assert failures(reader, some, ready, tmp_path, forked) == {}


@pytest.mark.soak
@each_reader
def test_every_reader_ends_with_one_line_whatever_there_is(
    reader: Reader, ready: Path, tmp_path: Path, forked: Forked
) -> None:
    assert failures(reader, inputs_of(reader), ready, tmp_path, forked) == {}


def test_every_reader_is_known_to_open_its_file(
    ready: Path, tmp_path: Path, forked: Forked
) -> None:
    """The judge can fail: a command that never came to its file would pass all of the above."""
    for number, reader in enumerate(READERS):
        folder = Path(shutil.copytree(ready, tmp_path / str(number), symlinks=True))
        (folder / reader.file).unlink(missing_ok=True)
        (folder / reader.file).parent.mkdir(exist_ok=True)
        (folder / reader.file).mkdir()
        _, said, _, _ = forked.run(reader.command, folder)
        assert Path(reader.file).name in said, f"{reader.name}: {said}"


@pytest.mark.parametrize("gamma", ["9" * 4000, "9" * 400_000, "nan", "-1", "1e999999999", "1/3"])
def test_a_gamma_that_is_typed_is_bounded_too(gamma: str, ready: Path, forked: Forked) -> None:
    words = ("perturb", "truth.csv", "--schema", "s.toml", "-o", "typed.csv", "--gamma", gamma)
    code, said, seconds, memory = forked.run(words, ready)
    assert code == 2 and seconds < MOST_SECONDS and memory < MOST_BYTES
    check_told(code, said)


def test_a_campaign_names_no_device_as_its_schema(folder: Path, forked: Forked) -> None:
    (folder / "c.toml").write_text(CAMPAIGN.replace("s.toml", "/dev/zero"))
    code, said, seconds, memory = forked.run(("campaign", "check", "c.toml"), folder)
    assert (code, memory < MOST_BYTES, seconds < MOST_SECONDS) == (2, True, True)
    assert (
        said == "sfumato: c.toml, line 3: schema '/dev/zero' is a device, not a file; name a file\n"
    )


# The reader itself.


def test_a_pipe_is_read_that_somebody_writes_to(tmp_path: Path) -> None:
    """As a shell makes one of <(…): whether they come before, a little later, or write slowly."""
    for pause in (0.0, 0.2):
        place = tmp_path / f"pipe {pause}"
        os.mkfifo(place)

        def write(place: Path = place, pause: float = pause) -> None:
            time.sleep(pause)
            with place.open("w") as pipe:
                for part in ("a = ", "1\n"):
                    pipe.write(part)
                    pipe.flush()
                    time.sleep(0.7)

        writer = threading.Thread(target=write)
        writer.start()
        assert read_text(place, "schema") == "a = 1\n"
        writer.join()


def test_a_pipe_without_end_is_read_as_far_as_a_file_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    endless = subprocess.Popen(["sh", "-c", f"exec yes > '{tmp_path / 'pipe'}'"])
    try:
        with pytest.raises(FileError, match="larger than the 1,000 bytes that are read"):
            read_text(tmp_path / "pipe", "this", 1000)
    finally:
        endless.kill()
        endless.wait()


def test_somebody_who_holds_a_pipe_and_is_silent_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.untrusted.LONGEST_SILENCE", 0.3)
    os.mkfifo(tmp_path / "pipe")
    held = os.open(tmp_path / "pipe", os.O_RDWR)
    with pytest.raises(FileError, match=r"a pipe that nobody wrote to for 0\.3 seconds"):
        read_text(tmp_path / "pipe", "this")
    os.close(held)


def test_a_file_that_grows_while_it_is_read_is_read_up_to_the_bound(tmp_path: Path) -> None:
    place, done = tmp_path / "f", threading.Event()
    place.write_bytes(b"a" * 100)

    def grow() -> None:
        with place.open("ab") as file:
            while not done.is_set():
                file.write(b"a" * (1 << 20))

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        while place.stat().st_size <= MOST_JSON_BYTES:
            time.sleep(0.01)
        assert len(read_octets(place, "this", MOST_JSON_BYTES)) == MOST_JSON_BYTES + 1
    finally:
        done.set()
        writer.join()
