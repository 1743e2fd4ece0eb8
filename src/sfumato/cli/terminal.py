"""The terminal: whatever a command prints passes here, and what would command the terminal stays
behind.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from sfumato.cli.printing import print_notes
from sfumato.printable import plain


class EscapeFilter(io.TextIOBase):
    """A stream that shows text and obeys none of it.

    Rich writes its own colours past it on a terminal, by the name that it looks for; what it is
    given to colour has passed `plain` before.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if stream.isatty():
            self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self._stream.write(plain(text))
        return len(text)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    @property
    def closed(self) -> bool:
        """Whether the stream is: who asks a closed one whether it is a terminal gets an error."""
        return self._stream.closed

    def fileno(self) -> int:
        return self._stream.fileno()

    # An attribute of io.TextIOBase, which only passes on here.
    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def buffer(self) -> Any:
        """The bytes below, for data that is written to standard output."""
        return self._stream.buffer


@contextmanager
def shielded() -> Iterator[None]:
    """A block whose standard output, standard error and warnings are shown and not obeyed."""
    kept = sys.stdout, sys.stderr, warnings.showwarning
    for stream in kept[:2]:
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal lacks is no fault
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = EscapeFilter(kept[0]), EscapeFilter(kept[1])
    warnings.showwarning = _noted
    try:
        yield
    finally:
        if isinstance(sys.stdout, EscapeFilter):  # else whoever read our output has gone
            sys.stdout = kept[0]
        sys.stderr, warnings.showwarning = kept[1:]


def _noted(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one of our notes; where in the program it arose helps nobody."""
    print_notes([str(message)])
