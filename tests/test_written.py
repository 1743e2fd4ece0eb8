"""Files appear whole, on disk, with their permissions, alone; and leave nothing behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from sfumato import files
from sfumato.files import alone_in, appearing, clear_stale, write_whole

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders and modes as of POSIX")


def test_a_file_is_synced_before_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    path = tmp_path / "a.csv"

    def fsync(handle: int) -> None:
        kind = "folder" if os.path.isdir(f"/dev/fd/{handle}") else "file"
        synced.append((kind, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(path, b"x")
    assert synced == [("file", False), ("folder", True)]


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_whole(path, b"1")
    path.chmod(0o640)
    write_whole(path, b"2")
    assert path.stat().st_mode & 0o777 == 0o640 and path.read_bytes() == b"2"


@pytest.mark.parametrize("linked", [True, False])
def test_a_name_that_is_taken_stays_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """Also where the file system knows no links."""
    if not linked:
        error = next(iter(files.CANNOT))

        def link(*_: object) -> None:
            raise OSError(error, "no links here")

        monkeypatch.setattr(os, "link", link)
    path = tmp_path / "a.csv"
    write_whole(path, b"first", force=False)
    with pytest.raises(FileExistsError):
        write_whole(path, b"second", force=False)
    assert path.read_bytes() == b"first" and os.listdir(tmp_path) == ["a.csv"]


def test_what_fails_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), appearing(tmp_path / "a.csv") as stream:
        stream.write(b"half")
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_only_old_parts_of_the_same_name_are_cleared(tmp_path: Path) -> None:
    names = [".a.csv.0.part", ".a.csv.new.part", ".b.csv.0.part", ".a.csv.kept"]
    for name in names:
        (tmp_path / name).write_text("x")
        old = time.time() - files.STALE_SECONDS - (-60 if "new" in name else 60)
        os.utime(tmp_path / name, (old, old))
    clear_stale(tmp_path / "a.csv")
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])


def test_two_writers_of_a_folder_wait_for_each_other(tmp_path: Path) -> None:
    inside, most = 0, 0

    def write() -> None:
        nonlocal inside, most
        with alone_in(tmp_path):
            inside += 1
            most = max(most, inside)
            time.sleep(0.02)
            inside -= 1

    threads = [threading.Thread(target=write) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_part_of_a_day_ago_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = float(int(time.time()))
    for name, age in ((".a.0.part", 0), (".a.1.part", -1)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (now - files.STALE_SECONDS - age,) * 2)
    monkeypatch.setattr(files.time, "time", lambda: now)
    clear_stale(tmp_path / "a")
    assert os.listdir(tmp_path) == [".a.1.part"]
