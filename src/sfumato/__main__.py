"""The program: it listens for Ctrl-C before anything else is loaded, then runs the command line."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress

from sfumato.interruption import INTERRUPTED, MESSAGE, listen


def main() -> None:
    """Run the command that the process was started with, and end the process with its code.

    What is still to be done at the end is done, but the libraries are not taken apart: threads of
    pyarrow that a busy machine had not yet ended would make it abort (exit code 134) after all was
    well.
    """
    code: object = 0
    # Before NumPy is loaded. Matrices here have a few hundred rows: threads would only spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        _run()
    except SystemExit as end:
        code = end.code or 0
    if not isinstance(code, int):
        print(code, file=sys.stderr)
    # What Python itself calls first on its way out; it has no other name.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or nobody reads it
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def _run() -> None:
    listen()
    try:
        from sfumato.cli import main as run
    except KeyboardInterrupt:
        print(MESSAGE, file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
