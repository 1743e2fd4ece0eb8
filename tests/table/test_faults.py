"""Whatever step fails, and wherever a process ends: the old file is there or the new one, each with
its own description, and nothing of another's is lost.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.table.faults import Killed, broken

from sfumato import files
from sfumato.domain import Category, Domain
from sfumato.errors import FileError
from sfumato.mechanisms.retention import Retention
from sfumato.randomness import seeded
from sfumato.result import write_whole
from sfumato.table import Table, perturb_file, perturb_table, read, read_perturbed, save

PETS = Domain((Category("pet", ("cat", "dog")),))
NAMES = ["p.csv", "p.csv.gz", "p.parquet"]


def truth(rows: int = 40) -> Table:
    return Table(PETS, (np.arange(rows) % 2,))


OLD = perturb_table(truth(), Retention(PETS, 0.9), seeded(1))
NEW = perturb_table(truth(), Retention(PETS, 0.2), seeded(2))  # as many rows, another mechanism


def state(path: Path) -> str:
    """What a name stands for: the old release, the new one, the truth, nothing; anything else is
    refused.
    """
    if not path.exists():
        return "nothing"
    table = read(path, None if path.suffix == ".parquet" or side(path).exists() else PETS)
    if table.provenance is None:
        assert table.column("pet").tolist() == truth().column("pet").tolist()
        return "truth"
    for name, release in (("old", OLD), ("new", NEW)):
        if table.provenance == release.provenance:
            assert table.column("pet").tolist() == release.column("pet").tolist()
            return name
    raise AssertionError("a release that nobody wrote")


def side(path: Path) -> Path:
    return path.with_name(path.name + ".sfumato.json")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def steps_of(path: Path, table: Table, *, force: bool) -> int:
    """How many steps a save takes, on a copy."""
    with broken(None, kills=False) as disk:
        save(table, path, force=force)
    return len(disk.steps)


@pytest.mark.parametrize("kills", [False, True], ids=["fails", "ends"])
@pytest.mark.parametrize("before", ["old", "truth", "nothing"])
@pytest.mark.parametrize("after", ["new", "truth"])
@pytest.mark.parametrize("name", NAMES)
def test_every_step(tmp_path: Path, name: str, before: str, after: str, kills: bool) -> None:
    tables = {"old": OLD, "new": NEW, "truth": truth()}
    force = before != "nothing"
    steps = reached = 0
    while True:
        steps += 1
        folder = tmp_path / str(steps)
        folder.mkdir()
        path = folder / name
        if force:
            save(tables[before], path)
        untouched = contents(folder)
        with broken(steps, kills=kills) as disk, suppress(FileError, Killed):
            save(tables[after], path, force=force)
        found = state(path)
        assert found in (before, after)
        reached += found == after
        if not kills and disk.steps[steps - 1 : steps] != ["unlink"]:  # it cleared up behind itself
            assert not list(folder.glob(".*.part"))
            if found == before != after:
                assert contents(folder) == untouched
        if len(disk.steps) < steps:
            break
        if kills:  # whoever comes next is not hindered by what was left
            save(tables[after], path, force=force or found == after)
            assert state(path) == after
    assert steps > 4 and reached >= 1


def test_the_old_bytes_stay_where_the_disk_is_full(tmp_path: Path) -> None:
    """The faults do strike: half of the steps of a save leave the old file as it was."""
    path = tmp_path / "p.csv"
    save(OLD, path)
    total = steps_of(path, OLD, force=True)
    struck = []
    for step in range(1, total + 1):
        with broken(step, kills=False):
            try:
                save(NEW, path, force=True)
            except FileError as error:
                struck.append(str(error))
        save(OLD, path, force=True)
    assert len(struck) >= total - 2 and all("No space left" in words for words in struck)


# Several writers.


def test_a_writer_leaves_the_files_of_others_alone(tmp_path: Path) -> None:
    """Two writers to one name, in one process: the first to finish has it, the other is told."""
    path, start = tmp_path / "p.csv", threading.Barrier(8)
    told: list[str] = []

    def write(seed: int) -> None:
        table = perturb_table(truth(2000), Retention(PETS, 0.5), seeded(seed))
        start.wait()
        try:
            save(table, path)
        except FileError as error:
            told.append(str(error))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 7 and all("exists already" in words for words in told)
    assert read_perturbed(path).rows == 2000
    assert sorted(os.listdir(tmp_path)) == ["p.csv", "p.csv.sfumato.json"]


def test_forced_writers_leave_one_of_their_files(tmp_path: Path) -> None:
    path, start = tmp_path / "p.parquet", threading.Barrier(6)

    def write(seed: int) -> None:
        table = perturb_table(truth(2000 + seed), Retention(PETS, 0.5), seeded(seed))
        start.wait()
        save(table, path, force=True)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_perturbed(path).rows in range(2000, 2006)
    assert os.listdir(tmp_path) == ["p.parquet"]


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    """Between the check and the end of the work somebody else took the name."""
    path = tmp_path / "p.csv"
    save(truth(), tmp_path / "truth.csv")

    def meanwhile(rows: int, fraction: float | None) -> None:
        path.write_text("of somebody else")

    with pytest.raises(FileError, match=r"p\.csv' exists already"):
        perturb_file(
            tmp_path / "truth.csv", path, Retention(PETS, 0.5), schema=PETS, progress=meanwhile
        )
    assert path.read_text() == "of somebody else"
    assert sorted(os.listdir(tmp_path)) == ["p.csv", "truth.csv"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object) -> None:
        raise OSError(files.errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(files.os, "link", cannot)
    save(OLD, tmp_path / "p.csv")
    assert state(tmp_path / "p.csv") == "old"
    with pytest.raises(FileError, match="exists already"):
        save(NEW, tmp_path / "p.csv")
    (tmp_path / "q.csv").write_text("mine")
    with pytest.raises(FileExistsError), files.appearing(tmp_path / "q.csv"):
        pass
    assert (tmp_path / "q.csv").read_text() == "mine" and not list(tmp_path.glob(".*.part"))


# What is left behind, and permissions.


def test_what_a_kill_left_a_day_ago_is_cleared(tmp_path: Path) -> None:
    old, young, other = (
        tmp_path / name for name in (".p.csv.0a.part", ".p.csv.0b.part", ".q.csv.0c.part")
    )
    for path in (old, young, other):
        path.write_text("half")
    for path in (old, other):
        os.utime(path, (time.time() - 2 * files.STALE_SECONDS,) * 2)
    save(truth(), tmp_path / "p.csv")
    assert not old.exists() and young.exists() and other.exists()


def test_permissions_are_kept_and_follow_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    before = os.umask(0o027)
    try:
        save(truth(), path)
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o664)
        save(truth(), path, force=True)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o664


def test_a_name_as_long_as_names_get(tmp_path: Path) -> None:
    path = tmp_path / ("p" * 251 + ".csv")
    save(truth(), path)
    assert read(path, PETS).rows == 40


def test_a_page_is_written_by_the_same_means(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, b"old")
    for step in (1, 2, 3, 4):
        with broken(step, kills=False), suppress(FileError):
            write_whole(path, b"new")
        assert path.read_bytes() in (b"old", b"new") and os.listdir(tmp_path) == ["page.html"]
