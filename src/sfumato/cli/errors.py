"""How a command fails: one line on standard error (or one JSON object on standard output) and an
exit code.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from sfumato.address import without_secrets
from sfumato.cli.commands import COMMANDS, loaded, placeholder, show_no_type_of_flags
from sfumato.cli.completion import complete_at_once_in_zsh
from sfumato.cli.printing import broken
from sfumato.cli.terminal import shielded
from sfumato.cli.usage import misused, options_of, spelled_as_options
from sfumato.errors import ParameterError, SfumatoError
from sfumato.interruption import INTERRUPTED, MESSAGE, interrupted
from sfumato.printable import escaped, one_line

SUCCESS, FAULT, BAD_INPUT, VIOLATION = 0, 1, 2, 3
LONG_LINE = 1000  # letters of a complaint


class Commands(TyperGroup):
    """The group of all commands, each imported when asked for; their errors all take one shape."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        self.commands = {name: placeholder(name) for name in COMMANDS}

    def get_params(self, ctx: Any) -> list[Any]:
        parameters = super().get_params(ctx)
        show_no_type_of_flags(parameters)
        return parameters

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, command, rest
        command = loaded(name)
        if name == "perturb" and "--help" in rest:
            from sfumato.cli.mechanism import narrowed

            narrowed(command, rest)
        return name, command, rest

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        arguments = list(sys.argv[1:] if args is None else args) or ["--help"]
        if arguments[0].endswith("-completion"):
            complete_at_once_in_zsh()
        run = partial(
            super().main, arguments, prog_name, complete_var, False, windows_expand_args, **extra
        )
        with shielded():
            status = exit_code(run, arguments)
        sys.exit(status)


def exit_code(run: Callable[[], Any], arguments: Sequence[str]) -> int:
    """Run a command that was typed so, and give its exit code: 0 success, 2 bad input or usage, 1 a
    fault of ours; 3 where the command itself says that it found a violation.
    """
    as_json = "--json" in arguments
    try:
        status = run()
        if status == INTERRUPTED:  # newer Typers turn an interruption into this status
            raise KeyboardInterrupt
        return status if isinstance(status, int) else SUCCESS
    except SfumatoError as error:
        if interrupted():
            return _interrupted()
        _complain(_as_typed(error, arguments), as_json)
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        _leave_pipe()
        return FAULT
    except (OSError, MemoryError) as error:  # a full disk, a forbidden folder, a name too long
        _complain(_outside(error), as_json)
        return BAD_INPUT
    except Exception as error:
        return _unexpected(error, arguments, as_json)


def _as_typed(error: SfumatoError, arguments: Sequence[str]) -> dict[str, str | None]:
    """What is wrong with an argument, called as the option that was typed for it."""
    found: dict[str, str | None] = error.to_dict()
    if not isinstance(error, ParameterError):
        return found
    names = options_of(arguments)
    return {part: words and spelled_as_options(words, names) for part, words in found.items()}


def _interrupted() -> int:
    print(MESSAGE, file=sys.stderr, flush=True)
    return INTERRUPTED


def _outside(error: OSError | MemoryError) -> dict[str, str | None]:
    """What went wrong outside of Sfumato."""
    if isinstance(error, MemoryError):
        return {"kind": "memory", "message": "there is not enough memory for this", "hint": None}
    about = f"'{error.filename}': " if error.filename else ""
    return {"kind": "file", "message": f"{about}{error.strerror or error}", "hint": None}


def _unexpected(error: Exception, arguments: Sequence[str], as_json: bool) -> int:
    if interrupted():  # an import that was broken off may raise anything
        return _interrupted()
    if hasattr(error, "format_message"):
        message, hint = misused(error, arguments)
        _complain({"kind": "usage", "message": message, "hint": hint}, as_json)
        return BAD_INPUT
    if os.environ.get("SFUMATO_DEBUG") == "1":
        traceback.print_exc()
    message = one_line(f"{type(error).__name__}: {error}")
    hint = "this is a fault of Sfumato; please report it (SFUMATO_DEBUG=1 shows where)"
    _complain({"kind": "fault", "message": message, "hint": hint}, as_json)
    return FAULT


def _complain(error: dict[str, str | None], as_json: bool) -> None:
    # Whatever was typed may come back in a message, an address with its password too.
    error = {name: words and without_secrets(words, sys.argv[1:]) for name, words in error.items()}
    if as_json:
        print(escaped(json.dumps({"error": error}, ensure_ascii=False)))
        return
    line = complaint(error["message"] or "", error["hint"])
    print(broken(line, sys.stderr), file=sys.stderr, flush=True)


def complaint(message: str, hint: str | None) -> str:
    """An error as one line; names in it come from files, and may be as long as they like."""
    whole = f"{message}; {hint}" if hint else message
    line = one_line(f"sfumato: {whole}").strip(" .")
    return line if len(line) <= LONG_LINE else f"{line[:LONG_LINE]} …"


def _leave_pipe() -> None:
    """Whoever read our output has gone; keep Python from complaining about it once more at exit."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (it stays open to the end)
