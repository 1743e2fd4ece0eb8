"""The command line: parse, call one function, print. Everything heavy is imported inside the
commands.
"""

import sys

from sfumato.cli.app import app

__all__ = ["app", "main"]

MASTERS = ("local", "spark", "yarn", "k8s")


class WithoutPandas:
    """Has pandas not found. pyarrow loads it, where it is installed, before it makes an array of
    anything, and that costs a command a third of its start; none of ours needs it.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out of commands", name=name)


def main() -> None:
    """Run the command that the process was started with."""
    if not any(master in word for word in sys.argv for master in MASTERS):  # pyspark needs it
        sys.meta_path.insert(0, WithoutPandas)
    app(prog_name="sfumato")
