"""The secret order: what is written is read back, only the owner may read it, and nothing else is
taken for one.
"""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import FileError
from sfumato.table.shuffling import order_to, read_order


def written(path: Path, *batches: list[int], force: bool = False) -> Path:
    with order_to(path, sum(map(len, batches)), force=force) as keep:
        for batch in batches:
            keep(np.array(batch))
    return path


def test_an_order_comes_back(tmp_path: Path) -> None:
    path = written(tmp_path / "o.npy", [3, 0], [], [2, 1])
    assert np.load(path).tolist() == [3, 0, 2, 1] and np.load(path).dtype == np.int64
    assert read_order(path, 4).tolist() == [3, 0, 2, 1]


def test_copies_repeat_their_record(tmp_path: Path) -> None:
    path = written(tmp_path / "o.npy", [1, 1, 0, 0, 2, 2])
    assert read_order(path, 6, copies=2).tolist() == [1, 0, 2]


def test_an_empty_order_is_one(tmp_path: Path) -> None:
    assert read_order(written(tmp_path / "o.npy"), 0).tolist() == []


def test_only_the_owner_reads_it_and_it_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "o.npy"
    path.write_text("something of mine")
    path.chmod(0o644)
    with pytest.raises(FileError, match="exists already; use --force"):
        written(path, [0])
    assert path.read_text() == "something of mine"
    written(path, [0], force=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_order_that_was_interrupted_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), order_to(tmp_path / "o.npy", 5) as keep:
        keep(np.arange(5))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (np.arange(4.0), "float64"),
        (np.arange(4, dtype=np.int32), "int32"),
        (np.arange(4).reshape(2, 2), "shape"),
        (np.arange(3), "orders 3 reports, but the release has 4"),
        (np.array([0, 1, 1, 2]), "each must come once"),
        (np.array([0, 1, 2, -1]), "each must come once"),
        (np.array([0, 1, 2, 4]), "each must come once"),
        (np.array([0, 1, 2, None]), "cannot read"),
    ],
)
def test_what_is_no_order_is_refused(tmp_path: Path, stored: np.ndarray, words: str) -> None:
    np.save(tmp_path / "o.npy", stored, allow_pickle=True)
    with pytest.raises(FileError, match=words) as caught:
        read_order(tmp_path / "o.npy", 4)
    assert "\n" not in str(caught.value) and "pickle" not in str(caught.value)


def test_copies_that_part_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "o.npy", [0, 1, 1, 0])
    with pytest.raises(FileError, match="each must come once"):
        read_order(path, 4, copies=2)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no file"):
        read_order(tmp_path / "none.npy", 4)
    for content in (b"", b"age,sex\n1,F\n", b"\x93NUMPY\x01\x00"):
        (tmp_path / "o.npy").write_bytes(content)
        with pytest.raises(FileError, match="cannot read") as caught:
            read_order(tmp_path / "o.npy", 4)
        assert "pickle" not in str(caught.value)
    np.savez(tmp_path / "o.npz", a=np.arange(4))
    with pytest.raises(FileError, match="several arrays"):
        read_order(tmp_path / "o.npz", 4)
