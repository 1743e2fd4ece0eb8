"""Write down what shells complete of every command: `python -m docs_build.spelling`."""

from __future__ import annotations

import json

from sfumato.cli.commands import COMMANDS
from sfumato.cli.completion import WRITTEN, spellings


def written() -> str:
    """The options of all commands as the file holds them, one a line."""
    parts = [f"{json.dumps(name)}: {_lines(known)}" for name, known in spellings(COMMANDS).items()]
    return "{" + ",\n".join(parts) + "}\n"


def _lines(known: object) -> str:
    if isinstance(known, dict):
        inner = (f"{json.dumps(name)}: {_lines(each)}" for name, each in known.items())
        return "{" + ",\n".join(inner) + "}"
    assert isinstance(known, list)
    return "[" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in known) + "]"


if __name__ == "__main__":
    WRITTEN.write_text(written(), encoding="utf-8")
