"""The program: it listens for Ctrl-C before anything else is loaded, then runs the command line."""

from __future__ import annotations

import sys

from sfumato.interruption import INTERRUPTED, TOLD, listen


def main() -> None:
    """Run the command that the process was started with."""
    listen()
    try:
        from sfumato.cli import main as run
    except KeyboardInterrupt:
        print(TOLD, file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
