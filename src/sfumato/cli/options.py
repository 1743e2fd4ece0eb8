"""Options: how one is declared, groups of them that commands share, and the checks that need no
data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import MISSING, dataclass, fields
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from sfumato.errors import FileError, ParameterError, listing

if TYPE_CHECKING:
    from typing import Self

    from sfumato.privacy.guarantee import Guarantee

STORE = "campaign.db"  # where a collector keeps reports unless stated otherwise


def among(words: Iterable[str]) -> Callable[[str], list[str]]:
    """What a shell completes an option to: those of these words that begin as typed.

    >>> among(["tree", "bayes"])("b")
    ['bayes']
    """
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def option(words: str, *flags: str, known: Iterable[str] = (), panel: str = "", **how: Any) -> Any:
    """An option: its help, how it is typed unless as its name, the words it may take, and the panel
    of the help that it stands in.
    """
    complete = among(known) if known else None
    where = panel or None
    return typer.Option(*flags, help=words, rich_help_panel=where, autocompletion=complete, **how)


def argument(words: str, metavar: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    """What is given by its place: its help, and what the usage line calls it."""
    return typer.Argument(help=words, metavar=metavar, autocompletion=complete)


class Options:
    """Options that go together, a dataclass: a command takes them as one parameter, whoever types
    it one by one.
    """

    @classmethod
    @cache
    def parameters(cls) -> tuple[inspect.Parameter, ...]:
        """What the command has for them."""
        hints = get_type_hints(cls, include_extras=True)
        own: Any = fields(cls)  # type: ignore[arg-type]  # each of them is a dataclass
        return tuple(parameter(each.name, hints[each.name], each.default) for each in own)

    @classmethod
    def typed(cls, values: Mapping[str, Any]) -> Self:
        """The options as they were typed."""
        return cls(**values)


def parameter(name: str, kind: Any, default: Any = None) -> inspect.Parameter:
    """An option as a parameter of a command."""
    needed = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=needed, annotation=kind)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer reads it: each option of its groups by itself, those that are needed
    first, and no `--no-…` for what is a flag.
    """
    shown: list[inspect.Parameter] = []
    groups: dict[str, type[Options]] = {}
    for name, own in inspect.signature(command, eval_str=True).parameters.items():
        if isinstance(own.annotation, type) and issubclass(own.annotation, Options):
            groups[name] = own.annotation
            shown += own.annotation.parameters()
        else:
            shown.append(own.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called(**values: Any) -> None:
        for name, group in groups.items():
            own = {each.name: values.pop(each.name) for each in group.parameters()}
            values[name] = group.typed(own)
        command(**values)

    shown = [each.replace(annotation=_flagged(each)) for each in shown]
    shown.sort(key=lambda each: each.default is not each.empty)
    # Typer and `inspect` read it; functions are not typed as having one.
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in shown}
    return called


def _flagged(taken: inspect.Parameter) -> Any:
    kind, *rest = get_args(taken.annotation)[:2] or (taken.annotation,)
    if kind is not bool or rest[0].param_decls or isinstance(rest[0].default, str):
        return taken.annotation
    stated = copy(rest[0])
    stated.param_decls = (f"--{taken.name.replace('_', '-')}",)
    return Annotated[bool, stated]


Json = Annotated[bool, option("Print one JSON object.")]
Force = Annotated[bool, option("Overwrite the output if it exists.")]
Output = Annotated[
    Path, option("The file to write; - is standard output.", "--output", "-o", metavar="OUT")
]
Schema = Annotated[
    Path | None,
    option("Read the data by this schema (TOML); else by a proposed one.", metavar="S"),
]
Level = Annotated[float, option("The level of the intervals.")]
RowsFixed = Annotated[
    bool, option("Leave out of the errors that these people are a sample of a larger population.")
]
Items = Annotated[
    Path | None, option("The item ids of baskets; else those found in the data.", metavar="FILE")
]
Form = Annotated[
    str | None,
    option(
        "How baskets stand in DATA: lines (of names), long (basket,item), flags (a column an "
        "item), or records (no baskets); else the data tell.",
        metavar="FORM",
    ),
]
Engine = Annotated[
    str | None,
    option(
        "Who counts: memory, duckdb, a database (duckdb://FILE, sqlite://FILE, "
        "postgresql://user@host/db; its password in PGPASSWORD or ~/.pgpass), or Spark by its "
        "master (local[2], spark://host:7077).",
        metavar="URL",
    ),
]
CampaignPath = Annotated[Path, argument("A campaign file (TOML).", "CAMPAIGN")]
Asked = Annotated[str, argument("A perturbed file, or true records; - is standard input.", "FILE")]
one_way = partial(option, panel="Guarantee (one way)")


@dataclass(frozen=True)
class Guaranteed(Options):
    """The guarantee that is asked for, which may be stated one way only."""

    gamma: Annotated[
        float | None,
        one_way("No report is more than so many times as likely under one truth as under another."),
    ] = None
    epsilon: Annotated[float | None, one_way("ln(gamma): local differential privacy.")] = None
    rho1: Annotated[float | None, one_way("No belief of rho1 before …")] = None
    rho2: Annotated[float | None, one_way("… rises above rho2 after.")] = None

    def guarantee(self) -> Guarantee | None:
        """The guarantee, where one is stated."""
        # Here and not above, so that no command's help waits for it.
        from sfumato.privacy.guarantee import Guarantee

        if (self.rho1 is None) != (self.rho2 is None):
            raise ParameterError(
                "--rho1 and --rho2 belong together; give both, as in --rho1 0.05 --rho2 0.50"
            )
        ways = [name for name in ("gamma", "epsilon", "rho1") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ParameterError(
                "the guarantee is given in more than one way "
                f"({listing('--' + way for way in ways)})",
                hint="give one of them",
            )
        return Guarantee.stated(self.gamma, self.epsilon, self.rho1, self.rho2)


def check_absent(path: Path | None, force: bool) -> None:
    """Refuse a file that exists, before any work is done for it."""
    if path is not None and path.exists() and not force:
        raise FileError(f"'{path}' exists", hint="use --force to overwrite it")


def check_output(output: Path, force: bool, json: bool) -> None:
    """Refuse an output that could not be written, before any work is done for it."""
    if json and str(output) == "-":
        raise ParameterError("--json and -o - both want standard output", hint="write to a file")
    # Here and not above: no command's help should wait for the readers and writers of tables.
    from sfumato.table.formats import check_target

    check_target(output, force)


def check_level(level: float) -> None:
    """Refuse a level that no interval has."""
    if not 0 < level < 1:
        raise ParameterError(f"--level {level:g} must lie strictly between 0 and 1")


def share(flag: str, text: str) -> float:
    """The share that was written as 5%, 5 % or 0.05; it must lie strictly between 0 and 1."""
    words = text.strip()
    try:
        value = float(words.removesuffix("%")) / (100 if words.endswith("%") else 1)
    except ValueError:
        raise ParameterError(f"{flag} {text} is not a share", hint="as in 5% or 0.05") from None
    if not 0 < value < 1:
        raise ParameterError(
            f"{flag} {text} must lie strictly between 0 and 1", hint="as in 5% or 0.05"
        )
    return value
