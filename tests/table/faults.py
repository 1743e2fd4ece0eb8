"""Faults at every step that touches a disk: a write, sync, link, rename or removal fails, or is the
last that the process does.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sfumato import files

CALLS = ("open", "fsync", "link", "replace", "unlink")


class Killed(BaseException):
    """The end of a process: nothing that comes after it happens."""


class Disk:
    """Counts the steps that touch the disk, and breaks one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.breaks_at: int | None = None
        self.kills = False
        self.dead = False
        for name in CALLS:
            patch.setattr(files.os, name, self._watched(name, getattr(os, name)))
        created = files._created
        patch.setattr(files, "_created", lambda path, mode: Watched(created(path, mode), self))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return call(*arguments, **options)
            self.step(name)
            return call(*arguments, **options)

        return watched

    def step(self, name: str) -> None:
        """Take a step, unless it is the one that breaks or the process has ended."""
        if self.dead:
            raise Killed
        self.steps.append(name)
        if self.breaks_at == len(self.steps):
            self.dead = self.kills
            raise Killed if self.kills else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Watched:
    """A stream whose writes are steps."""

    def __init__(self, stream: Any, disk: Disk) -> None:
        self._stream, self._disk = stream, disk

    def write(self, content: Any) -> int:
        self._disk.step("write")
        return int(self._stream.write(content))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._disk.dead:
            self._stream.detach().close()  # what was buffered is lost
        else:
            self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def broken(step: int | None, *, kills: bool) -> Iterator[Disk]:
    """A disk whose so many-th step fails, or is the last of the process; None: a sound one."""
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch)
        disk.breaks_at, disk.kills = step, kills
        yield disk
