"""The command line: parse, call one function, print. Everything heavy is imported inside the
commands.
"""

from sfumato.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command that the process was started with."""
    app(prog_name="sfumato")
