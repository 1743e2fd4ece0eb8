"""The command line: parse, call one function, print. Everything heavy is imported inside the
commands.
"""

import sys

from sfumato.cli.commands import app

__all__ = ["app", "main"]


class WithoutPandas:
    """Has pandas not found, until pyspark is loaded, which needs it. pyarrow loads it, where it is
    installed, before it makes an array of anything, and that costs a command a quarter of its
    start; none of ours needs it.
    """

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out of commands", name=name)
        if name == "pyspark":
            sys.meta_path.remove(cls)


def main() -> None:
    """Run the command that the process was started with."""
    sys.meta_path.insert(0, WithoutPandas)
    app(prog_name="sfumato")
