"""How long work says what it is doing: words, and how much of it is done where that is known."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

Progress = Callable[[str, float | None], None]  # what is being done; the share done, from 0 to 1


def silent(words: str, share: float | None = None) -> None:
    """Tells nobody."""
