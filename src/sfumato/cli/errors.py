"""How a command fails: one line on standard error (or one JSON object on standard output) and an
exit code.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import Any

import typer

from sfumato.address import without_secrets
from sfumato.cli.printing import broken
from sfumato.errors import ParameterError, SfumatoError
from sfumato.interruption import INTERRUPTED, MESSAGE, interrupted
from sfumato.printable import escaped, one_line

SUCCESS, FAULT, BAD_INPUT, VIOLATION = 0, 1, 2, 3
LONG_LINE = 1000  # letters of a complaint


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


KINDS = {"int": ("whole number", "20"), "float": ("number", "19 or 0.5")}


def misused(error: Any, arguments: Sequence[str]) -> tuple[str, str]:
    """What was wrong, and what would do."""
    context = getattr(error, "ctx", None)
    where = f"see {getattr(context, 'command_path', 'sfumato')} --help"
    number = _wrong_number(getattr(error, "param", None), arguments)
    if number is not None:
        wrong, right = number
        return wrong, f"{right}; {where}"
    named = _given_by_name(error, context)
    return one_line(error.format_message()).strip(" ."), f"{named}; {where}" if named else where


def _wrong_number(parameter: Any, arguments: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with the number given for an option; none where it takes no number, or the one
    that was given would do.
    """
    kind, typed = _kind(parameter), _typed(parameter, arguments)
    if kind is None or typed is None:
        return None
    flag, text = typed
    said = f"{flag} {text}" if text.strip() else f"{flag} '{text}'"
    word, example = KINDS[kind]
    try:
        value = (int if kind == "int" else float)(text)
    except ValueError:
        return f"{said} is not a {word}", _fraction(text) or f"write digits, as in {example}"
    low, high = (_bound(parameter, name) for name in ("min", "max"))
    if low is not None and value < low:
        return f"{said} is too small", f"at least {low}"
    if high is not None and value > high:
        return f"{said} is too large", f"at most {high}"
    return None


def _fraction(text: str) -> str | None:
    """How a share in per cent is written where a number is wanted.

    >>> _fraction("2 %"), _fraction("two")
    ('write 0.02', None)
    """
    share, percent, rest = text.partition("%")
    try:
        return f"write {float(share) / 100:g}" if percent and not rest.strip() else None
    except ValueError:
        return None


def _kind(parameter: Any) -> str | None:
    """The type of number that an option takes: by Typer's own account, or by that of Click, which
    says integer, integer range, float, float range.
    """
    described = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    named = getattr(getattr(parameter, "type", None), "name", "")
    name = str(getattr(described, "__name__", named))
    return next((kind for kind in KINDS if name.startswith(kind)), None)


def _bound(parameter: Any, name: str) -> Any:
    found = getattr(parameter, name, None)
    return getattr(getattr(parameter, "type", None), name, None) if found is None else found


def _typed(parameter: Any, arguments: Sequence[str]) -> tuple[str, str] | None:
    """The option as it was typed last, and the text behind it."""
    flags = getattr(parameter, "opts", ())
    for place in reversed(range(len(arguments))):
        flag, equals, text = arguments[place].partition("=")
        if flag in flags and equals:
            return flag, text
        if flag in flags and place + 1 < len(arguments):
            return flag, arguments[place + 1]
    return None


def _given_by_name(error: Any, context: Any) -> str | None:
    """Where an argument was typed as an option, how it is given."""
    wrong = str(getattr(error, "option_name", "")).lstrip("-")
    for known in getattr(getattr(context, "command", None), "params", ()):
        if known.param_type_name == "argument" and known.name == wrong:
            return f"it is given without a name: {context.command_path} {wrong.upper()}"
    return None


def spelled_as_options(words: str, names: Collection[str]) -> str:
    """What the library says of arguments with these names, as they are typed.

    >>> spelled_as_options("max_posterior=0.5 is too small", ["max_posterior"])
    '--max-posterior 0.5 is too small'
    """
    if not names:
        return words
    spelling = re.compile(rf"\b({'|'.join(map(re.escape, names))})=(?=\S)")
    return spelling.sub(lambda found: f"--{found[1].replace('_', '-')} ", words)


def options_of(arguments: Sequence[str]) -> list[str]:
    """The names, in the library, of the options that were typed.

    >>> options_of(["mine", "shop.dat", "--min-support=7", "--top", "3", "-o", "x.csv"])
    ['min_support', 'top']
    """
    flags = [each.partition("=")[0] for each in arguments if re.match("--[a-z]", each)]
    return [flag.removeprefix("--").replace("-", "_") for flag in flags]
