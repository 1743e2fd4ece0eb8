"""Files that are there whole or not at all: written under a temporary name beside their own, put on
disk, and only then given their name; and the folders in which a user's own are kept.
"""

from __future__ import annotations

import errno
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

from sfumato.errors import FileError, SfumatoError

STALE_SECONDS = 24 * 3600  # a temporary file that nobody wrote to for so long was left by a kill
OVERWRITE = "use --force, in Python force=True, to overwrite it"
LONGEST_NAME = 255  # bytes of a file's name, on the file systems in use
# What a file system says that has no hard links, or cannot sync a folder.
CANNOT = {errno.EPERM, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK}


# The variable that names a folder, and where it is else, below the user's own.
PLACES = {
    "win32": {
        "data": ("LOCALAPPDATA", "AppData/Local"),
        "config": ("APPDATA", "AppData/Roaming"),
        "cache": ("LOCALAPPDATA", "AppData/Local"),
    },
    "darwin": {
        "data": ("", "Library/Application Support"),
        "config": ("", "Library/Application Support"),
        "cache": ("", "Library/Caches"),
    },
}
XDG = {
    "data": ("XDG_DATA_HOME", ".local/share"),
    "config": ("XDG_CONFIG_HOME", ".config"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
}


@contextmanager
def appearing(path: Path, *, force: bool = False, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file to write that takes its name when the block ends well, and leaves no trace when it
    does not.

    Without `force` a file that has the name by then stays: FileExistsError. The permissions are
    `mode`, else those of the file that is replaced, else what the umask leaves.
    """
    clear_stale(path)
    temporary = _beside(path)
    stream = _created(temporary, 0o666 if mode is None else mode)
    try:
        with stream:
            if force and mode is None:
                _take_mode(stream, path)
            yield stream
            settle(stream)
        _give_name(temporary, path, force)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_name(path)


def settle(stream: BinaryIO) -> None:
    """Have what was written so far on disk: one that is full says so here."""
    stream.flush()
    os.fsync(stream.fileno())


def write_whole(path: Path, content: bytes, *, force: bool = True) -> None:
    """Write a small file, which is there whole or not at all."""
    with appearing(path, force=force) as stream:
        stream.write(content)


def in_the_way(path: Path) -> FileError:
    """The refusal to overwrite a file."""
    return FileError(f"'{path}' exists already", hint=OVERWRITE)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """A block that writes this file; what the system says against it becomes one clear error."""
    try:
        if not path.name:
            raise FileError(f"'{path}' is a folder", hint="name the file to write")
        yield
    except FileExistsError as error:
        raise in_the_way(Path(error.filename2 or error.filename or path)) from None
    except OSError as error:
        if isinstance(error, SfumatoError | BrokenPipeError):
            raise
        raise FileError(
            f"cannot write '{path}': {error.strerror or error}", hint="nothing was changed"
        ) from None


def clear_stale(path: Path) -> None:
    """Remove temporary files of this name that a killed process left behind a day ago or more."""
    before = time.time() - STALE_SECONDS
    with suppress(OSError):
        for found in path.parent.iterdir():
            ours = found.name.startswith(f".{path.name}.") and found.name.endswith(".part")
            if ours and found.stat().st_mtime <= before:
                os.unlink(found)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """A block that no other writer to this folder is in at the same time. The system lets go of the
    lock when a process ends, however it ends.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Have the folder's new entries survive a power cut; Windows does so by itself."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in CANNOT:
            raise
    finally:
        os.close(handle)


def user_folder(kind: Literal["data", "config", "cache"]) -> Path | None:
    """Our folder for what must not be lost, for settings (which XDG_CONFIG_HOME moves anywhere), or
    for what can be made again; None for an account without a home.
    """
    variable, below = PLACES.get(sys.platform, XDG)[kind]
    moved = os.environ.get("XDG_CONFIG_HOME") if kind == "config" else None
    try:
        return Path(moved or os.environ.get(variable) or Path.home() / below) / "sfumato"
    except RuntimeError:
        return None


def _beside(path: Path) -> Path:
    """A name that nobody else writes to: process numbers repeat from container to container."""
    token = secrets.token_hex(8)
    name = f".{path.name}.{token}.part"
    return path.with_name(name if len(os.fsencode(name)) <= LONGEST_NAME else f".{token}.part")


def _created(path: Path, mode: int) -> BinaryIO:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, mode), "wb")


def _take_mode(stream: BinaryIO, path: Path) -> None:
    with suppress(OSError, AttributeError):  # a new file, or a system without modes
        os.fchmod(stream.fileno(), os.stat(path).st_mode & 0o777)


def _give_name(temporary: Path, path: Path, force: bool) -> None:
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)  # unlike a rename, it never replaces what is there
    except OSError as error:
        if error.errno not in CANNOT:
            raise
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.replace(temporary, path)
        return
    with suppress(OSError):  # the file has its name; a second one is cleared away later
        os.unlink(temporary)


def _sync_name(path: Path) -> None:
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise FileError(
            f"'{path}' is written, but its folder cannot be synced: {error.strerror or error}",
            hint="it may not survive a power cut",
        ) from None
