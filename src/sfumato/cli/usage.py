"""What is said of a command that was typed wrongly. Typer brings Click along, in newer versions as
a private copy, so their errors are known by what they can do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from sfumato.printable import one_line

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
