"""Kept counts: what was counted of a release, so that asking again, or coarser, reads no rows.

It is a cache in the user's own folder: bounded, and never missed. A release without an id keeps
nothing, an entry that was damaged is counted again, and what cannot be written is not kept.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.counting.limits import MOST_BYTES, MOST_ENTRY, MOST_LOOKED_AT
from sfumato.domain import Cells, Domain, Items, coarsened
from sfumato.errors import ParameterError
from sfumato.files import user_folder, write_whole

FORM = 2  # of the entries: others are not read
OFF = "off"  # what SFUMATO_CACHE says to keep nothing
COUNTS, NAMES = "counts", "names"


def cache_folder() -> Path | None:
    """The folder of this user's caches: SFUMATO_CACHE, else where the system puts them; None where
    nothing is to be kept.
    """
    stated = os.environ.get("SFUMATO_CACHE")
    if stated is not None:
        return None if stated in ("", OFF) else Path(stated)
    return user_folder("cache")


def state_of(paths: Iterable[Path]) -> str:
    """What changes when one of these files does, or one comes or goes."""
    facts = [(path.name, path.stat()) for path in sorted(paths)]
    return ", ".join(f"{name} {fact.st_size} {fact.st_mtime_ns}" for name, fact in facts)


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """The counts that are kept of one release."""

    folder: Path  # of this release
    domain: Domain  # of its reports

    @classmethod
    def of(cls, release: str | None, domain: Domain, state: str) -> KeptCounts | None:
        """Those of a release by its id, and by what changes when its rows do; None where nothing is
        kept.
        """
        place = cache_folder()
        if place is None or release is None:
            return None
        mark = hashlib.sha256(f"{FORM} {state}".encode()).hexdigest()[:16]
        return cls(place / "counts" / f"{release}-{mark}", domain)

    def find(self, question: Iterable[Any]) -> NDArray[Any] | None:
        """What was counted for this very question."""
        found = _read(self._path(question))
        return None if found is None else found[COUNTS]

    def keep(self, question: Iterable[Any], counts: NDArray[Any]) -> None:
        """Keep what was counted for a question."""
        self._write(self._path(question), {COUNTS: counts})

    def find_cells(self, cells: Sequence[Cells]) -> NDArray[Any] | None:
        """The table of these cells: as it was counted, or summed from one that is finer."""
        found = self.find(_of(cells))
        if found is not None:
            return found
        for fine, table in self._tables:
            with suppress(ParameterError):  # its cells are not finer
                return coarsened(table, fine, cells)
        return None

    def keep_cells(self, cells: Sequence[Cells], counts: NDArray[Any]) -> None:
        """Keep the table of these cells, with what a coarser question must know of them."""
        entry: dict[str, NDArray[Any]] = {
            COUNTS: counts,
            NAMES: np.array([part.name for part in cells]),
        }
        for place, part in enumerate(cells):
            entry[f"group{place}"] = part.group
            if part.starts is not None:
                entry[f"starts{place}"] = part.starts
        self._write(self._path(_of(cells)), entry)
        self.__dict__.pop("_tables", None)  # there is one more to look at

    @cached_property
    def _tables(self) -> list[tuple[tuple[Cells, ...], NDArray[Any]]]:
        """The tables that coarser questions are tried on, with the cells that they count."""
        found = []
        for path in _latest(self.folder.glob("*.npz"))[:MOST_LOOKED_AT]:
            entry = _read(path)
            if entry is None or NAMES not in entry:  # damaged, or of another kind
                continue
            with suppress(KeyError, IndexError, ValueError):
                cells = tuple(
                    _cells(self.domain, str(name), entry[f"group{at}"], entry.get(f"starts{at}"))
                    for at, name in enumerate(entry[NAMES])
                )
                if entry[COUNTS].shape == tuple(part.size for part in cells):
                    found.append((cells, entry[COUNTS]))
        return found

    def _path(self, question: Iterable[Any]) -> Path:
        digest = hashlib.sha256()
        for part in question:
            piece = part if isinstance(part, bytes) else repr(part).encode()
            digest.update(b"%d:" % len(piece) + piece)
        return self.folder / f"{digest.hexdigest()[:32]}.npz"

    def _write(self, path: Path, entry: dict[str, NDArray[Any]]) -> None:
        if entry[COUNTS].nbytes > MOST_ENTRY:
            return
        buffer = io.BytesIO()
        # NumPy's stub takes the names of arrays for its own options.
        np.savez(buffer, **entry)  # type: ignore[arg-type]
        content = buffer.getvalue()
        with suppress(OSError):  # a disk that is full, a folder that is not ours: counted again
            path.parents[3].mkdir(parents=True, exist_ok=True)
            for folder in reversed(path.parents[:3]):  # for this user's eyes
                folder.mkdir(mode=0o700, exist_ok=True)
            write_whole(path, hashlib.sha256(content).digest() + content)
            _bound(path.parent.parent)


def _cells(domain: Domain, name: str, group: NDArray[Any], starts: NDArray[Any] | None) -> Cells:
    attribute = domain.axis_named(name).attribute
    if isinstance(attribute, Items):
        return attribute.item_cells(name)
    labels = tuple(map(str, range(int(group.max()) + 1)))
    return Cells(attribute, labels, group, starts)


def _of(cells: Sequence[Cells]) -> Iterator[Any]:
    yield "cells"
    for part in cells:
        yield from part.key


def _read(path: Path) -> dict[str, NDArray[Any]] | None:
    """An entry, if it is there and whole; the time of its use is noted."""
    try:
        stored = path.read_bytes()
        size = hashlib.sha256().digest_size
        digest, content = stored[:size], stored[size:]
        if hashlib.sha256(content).digest() != digest:
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            entry = {name: found[name] for name in found.files}
        os.utime(path)
    except (OSError, ValueError, EOFError, KeyError):
        return None
    return entry if COUNTS in entry else None


def _latest(paths: Iterable[Path]) -> list[Path]:
    """Files, the latest used first."""
    found: list[tuple[float, Path]] = []
    for path in paths:
        with suppress(OSError):
            found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, key=lambda pair: -pair[0])]


def _bound(folder: Path) -> None:
    """Forget what was not used for the longest time, where more is kept than may be."""
    size = 0
    for path in _latest(folder.glob("*/*.npz")):
        size += path.stat().st_size
        if size > MOST_BYTES:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # others are left in it
                path.parent.rmdir()
