"""Ctrl-C: noted as it arrives, because an import that it breaks off fails in ways of its own."""

from __future__ import annotations

import signal
from types import FrameType

INTERRUPTED = 130  # the exit code
MESSAGE = "sfumato: interrupted; nothing was changed"

_arrived: list[int] = []


def listen() -> None:
    """Note the next interruption, unless whoever started us chose to ignore them."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def interrupted() -> bool:
    """Whether an interruption has arrived since we listen."""
    return bool(_arrived)


def _note(number: int, frame: FrameType | None) -> None:
    _arrived.append(number)
    raise KeyboardInterrupt
