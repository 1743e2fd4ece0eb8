"""Completion: what shells show of an option, and the script that zsh is handed."""

from __future__ import annotations

import os
from textwrap import shorten

ROOM = 70  # letters of what a shell says beside an option: a line of a terminal
ONCE = "\ncompdef %(complete_func)s %(prog_name)s\n"
BOTH = """
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  %(complete_func)s "$@"
else
  compdef %(complete_func)s %(prog_name)s
fi
"""


def completing() -> bool:
    """Whether a shell wants a word completed."""
    return "_SFUMATO_COMPLETE" in os.environ


def at_once(words: str) -> str:
    """The first sentence, on one line: shells take every line for another completion.

    >>> at_once("The plan's best unless stated; or a name. \\n\\nmask: bits of baskets")
    "The plan's best unless stated; or a name"
    """
    return shorten(words.partition("\n\n")[0].partition(". ")[0], ROOM, placeholder=" …")


def complete_at_once_in_zsh() -> None:
    """Has Typer's script complete when zsh first loads it, which is at a first Tab: it would only
    set itself up for the second.
    """
    from typer import _completion_shared

    scripts = _completion_shared._completion_scripts
    scripts["zsh"] = scripts["zsh"].replace(ONCE, BOTH)
