"""The side file of a perturbed text file: how the rows came about, and by a digest which rows.

A text file has no room for its description, so the two are two files and cannot be replaced at
once. A side file therefore names the bytes that it speaks of, and while one pair takes the place of
another it speaks of both: whatever a kill leaves behind is the old release or the new one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from sfumato.errors import FileError
from sfumato.files import alone_in, sync_folder, write_whole
from sfumato.untrusted import parsed_json, read_text

ALGORITHM = "sha256"
DIGEST, PREVIOUS, MECHANISM = "digest", "previous", "mechanism"


def side_file(path: Path) -> Path:
    """The JSON file that describes a perturbed text file."""
    return path.with_name(path.name + ".sfumato.json")


def description_of(path: Path) -> Mapping[str, Any] | None:
    """What the side file of a text file says of these very bytes; None for the truth, which has no
    side file.
    """
    found = _side(path)
    return None if found is None else described_by(found, lambda: digest_of(path), f"'{path}'")


def described_by(
    found: Mapping[str, Any], digest: Callable[[], str], where: str
) -> Mapping[str, Any] | None:
    """What a side file says of the bytes with this digest; None if they are the truth."""
    if found.get("format") == 1 and DIGEST not in found:
        return found  # version 0.1.0 noted no digest
    actual = digest()
    for entry in _entries(found):
        if entry.get(DIGEST) == actual:
            return entry if MECHANISM in entry else None
    raise FileError(
        f"the rows of {where} are not those that its description speaks of",
        hint="one of the two was changed or replaced after it was perturbed",
    )


def parts_digest(names: Iterable[str]) -> str:
    """The digest of the names of a folder's parts."""
    parts = sorted(name for name in names if name.endswith(".parquet") and name[0] not in "._")
    return _named(hashlib.new(ALGORITHM, "\n".join(parts).encode()).hexdigest())


def _side(path: Path) -> Mapping[str, Any] | None:
    side = side_file(path)
    if not os.path.exists(side):  # False for a name that is too long to be one
        return None
    return parsed_json(read_text(side, f"'{side}'"), f"'{side}'")


def _entries(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a side file says, of each file that it speaks of."""
    earlier = found.get(PREVIOUS) or []
    return [found, *(entry for entry in earlier if isinstance(entry, Mapping))]


def digest_of(path: Path) -> str:
    """The digest of a file's bytes."""
    with path.open("rb") as stream:
        return _named(hashlib.file_digest(stream, ALGORITHM).hexdigest())


def _named(digest: str) -> str:
    return f"{ALGORITHM}:{digest}"


@dataclass(eq=False)
class Digested:
    """A stream that keeps the digest of what is written to it."""

    stream: BinaryIO
    _digest: Any = field(default_factory=lambda: hashlib.new(ALGORITHM), init=False)

    def write(self, content: Any) -> int:
        """Write on, and take note."""
        self._digest.update(content)
        return self.stream.write(content)

    def flush(self) -> None:
        """Hand on what is buffered."""
        self.stream.flush()

    @property
    def digest(self) -> str:
        """The digest of all that was written."""
        return _named(self._digest.hexdigest())


@dataclass(eq=False)
class Switch:
    """The change of a side file from the description of one file to that of the file that takes its
    place.
    """

    path: Path
    force: bool
    _alone: ExitStack = field(default_factory=ExitStack, init=False)
    _before: bytes | None = field(default=None, init=False)
    _announced: dict[str, Any] | None = field(default=None, init=False)

    @property
    def side(self) -> Path:
        """The side file."""
        return side_file(self.path)

    def announce(self, description: Mapping[str, Any] | None, digest: str) -> None:
        """Have the side file speak of the new bytes and of those that are still there; a truth that
        replaces no release has none. From here on no other writer is at it.
        """
        self._alone.enter_context(alone_in(self.path.absolute().parent))
        if os.path.exists(self.side):
            self._before = self.side.read_bytes()
        if not self.force and os.path.lexists(self.path):  # somebody was faster
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
        if description is None and self._before is None:
            return
        announced = {**(description or {"format": 2}), DIGEST: digest}
        both = {**announced, PREVIOUS: self._earlier()}
        self._announced = announced
        self._write(both, force=self.force or unfinished(self.path))

    def _earlier(self) -> list[Mapping[str, Any]]:
        """What is known of the file that is still there."""
        if not self.path.exists():
            return []
        if self._before is None:
            return [{DIGEST: digest_of(self.path)}]
        found = parsed_json(self._before, f"'{self.side}'")
        if DIGEST not in found:
            return [{**found, DIGEST: digest_of(self.path)}]
        return [
            {name: entry[name] for name in entry if name != PREVIOUS} for entry in _entries(found)
        ]

    def _write(self, content: Mapping[str, Any], *, force: bool) -> None:
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        write_whole(self.side, text.encode(), force=force)

    def conclude(self) -> None:
        """Have the side file speak of the new bytes alone, now that the old ones are gone."""
        if self._announced is None:
            return
        if MECHANISM in self._announced:
            self._write(self._announced, force=True)
        else:
            self.remove()

    def remove(self) -> None:
        """Take the side file away."""
        self.side.unlink(missing_ok=True)
        sync_folder(self.side.parent)

    def undo(self) -> None:
        """Put the side file back, unless the new bytes are there already, or it is another's."""
        if self._announced is None:
            return
        with suppress(OSError):
            new = self._announced[DIGEST]
            ours = (_side(self.path) or {}).get(DIGEST) == new
            if not ours or (self.path.exists() and digest_of(self.path) == new):
                return
            if self._before is None:
                self.remove()
            else:
                write_whole(self.side, self._before)


@contextmanager
def switching(path: Path, *, force: bool) -> Iterator[Switch]:
    """A change of a side file that is undone where the block does not end well."""
    switch = Switch(path, force)
    with switch._alone:
        try:
            yield switch
        except BaseException:
            switch.undo()
            raise
        switch.conclude()


def unfinished(path: Path) -> bool:
    """Whether a side file was left by a run that was killed before its file appeared."""
    with suppress(FileError):
        found = _side(path)
        return found is not None and PREVIOUS in found and not os.path.lexists(path)
    return False
