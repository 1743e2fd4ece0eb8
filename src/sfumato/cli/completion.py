"""Completion: what shells show of an option, and the script that zsh is handed."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any, get_args

import typer

from sfumato.cli.options import among, expanded

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


WRITTEN = Path(__file__).with_name("spelling.json")


def spelt(name: str) -> typer.Typer | Callable[..., None]:
    """The command, or the group of commands, as far as a shell completes it; it cannot be run."""
    known = json.loads(WRITTEN.read_text(encoding="utf-8"))[name]
    if not isinstance(known, dict):
        return _taking(known)
    group = typer.Typer()
    for each, parameters in known.items():
        group.command(each)(_taking(parameters))
    return group


def _taking(parameters: list[dict[str, Any]]) -> Callable[..., None]:
    """A function with these parameters, for Typer to read."""

    def nothing(**_: Any) -> None:
        """What is completed is not run."""

    shown = [
        inspect.Parameter(
            each["name"],
            inspect.Parameter.KEYWORD_ONLY,
            default=[] if each["kind"] == "texts" else False if each["kind"] == "flag" else None,
            annotation=_annotation(each),
        )
        for each in parameters
    ]
    # Typer and `inspect` read it; functions are not typed as having one.
    nothing.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    nothing.__annotations__ = {each.name: each.annotation for each in shown}
    return nothing


def _annotation(each: dict[str, Any]) -> Any:
    kind: Any = {"flag": bool, "text": str | None, "texts": list[str]}[each["kind"]]
    words = each.get("words")
    completed = among(words) if words else None
    if each.get("argument"):
        return Annotated[kind, typer.Argument(autocompletion=completed)]
    declared = each.get("declared", ())
    return Annotated[kind, typer.Option(*declared, help=each.get("help"), autocompletion=completed)]


def spellings(names: Any) -> dict[str, Any]:
    """What is to be written of these commands, from themselves."""
    return {name: _of(getattr(import_module(f"sfumato.cli.{name}"), name)) for name in names}


def _of(found: Any) -> Any:
    """The parameters of a command; of a group, those of each of its commands by name."""
    if isinstance(found, typer.Typer):
        return {
            each.name or each.callback.__name__: _of(each.callback)
            for each in found.registered_commands
            if each.callback is not None
        }
    parameters = inspect.signature(expanded(found)).parameters.values()
    return [_spelling(each.name, *get_args(each.annotation)[:2]) for each in parameters]


def _spelling(name: str, kind: Any, stated: Any) -> dict[str, Any]:
    many = "list" in str(kind)
    facts = {
        "name": name,
        "kind": "flag" if kind is bool else "texts" if many else "text",
        "help": at_once(stated.help or ""),
        "argument": isinstance(stated, typer.models.ArgumentInfo),
        "declared": _declared(stated),
        "words": [] if stated.autocompletion is None else list(stated.autocompletion("")),
    }
    return {fact: value for fact, value in facts.items() if value}


def _declared(stated: Any) -> list[str]:
    """The option as it is typed, where that is not its name; Typer keeps the first as a default."""
    first = [stated.default] if isinstance(stated.default, str) else []
    return [each for each in (*first, *(stated.param_decls or ())) if each.startswith("-")]
