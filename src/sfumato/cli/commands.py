"""Which commands there are, what each is for, and how one is loaded when it is asked for: importing
the others would make help slow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sfumato import __version__
from sfumato.cli.completion import complete_at_once_in_zsh, completing, spelt
from sfumato.cli.errors import exit_code
from sfumato.cli.options import expanded
from sfumato.cli.printing import shielded

# Name -> what it does: the first sentence of the command's own help, which a test holds against it.
COMMANDS = {
    "demo": (
        "See the whole path on synthetic data: perturb, reconstruct, mine, ask, classify, publish."
    ),
    "play": (
        "Write one page on which records are blurred before your eyes and the crowd stays sharp."
    ),
    "schema": "Propose a schema for a file: its columns, their values, ranges and cuts.",
    "plan": (
        "Compare the mechanisms under a guarantee, for a wanted accuracy, or both: errors to "
        "expect, people needed."
    ),
    "perturb": "Perturb the records of a file and write them with their mechanism.",
    "reblur": "Write a blurrier copy of a release, without true records and without new budget.",
    "describe": (
        "Describe a perturbed file: its mechanism, what it promises in words, its domain and rows."
    ),
    "fit": (
        "Fit one joint model to all reports of a release, and write it as a file that mine, "
        "query and classify take like any release."
    ),
    "mine": "Find frequent itemsets and rules in perturbed (or true) data, with standard errors.",
    "query": (
        "Answer SQL aggregates as if the truth were there, each with its standard error and "
        "interval."
    ),
    "regress": (
        "Logistic, linear and Poisson regression from reports: coefficients, odds ratios and tests."
    ),
    "compare": (
        "Compare groups from reports: independence, differences, ratios, trends and their tests."
    ),
    "classify": "Learn a classifier from perturbed (or true) records without seeing a true one.",
    "identify": "Which records can be told apart by their keys, and which columns give them away.",
    "swap": (
        "Release records with confidential values exchanged so that no one's keys give theirs "
        "away (Li and Sarkar 2004)."
    ),
    "suppress": (
        "Release records with single cells blanked so that K people share every combination of "
        "keys."
    ),
    "pram": (
        "Release records with values replaced at random so that every expected count stays "
        "(invariant PRAM)."
    ),
    "hide": "Release baskets from which chosen itemsets and rules can no longer be mined.",
    "audit": (
        "Attack a release with the truth at hand, and check it against what its mechanism promises."
    ),
    "reproduce": (
        "Repeat the papers' experiments: their numbers beside ours, mean and spread over seeds, "
        "and what cannot be met."
    ),
    "generate": (
        "Generate synthetic data: quest (baskets), survey (records), fitted (a model's records)."
    ),
    "campaign": "Write, check and verify a campaign, or make its form one file.",
    "serve": "Serve campaigns: forms for respondents, a dashboard for owners.",
    "token": "Tokens of a store: read figures, send without limits, or both (admin).",
    "send": (
        "Show what a campaign takes, blur each record of a file here, once, and send only the "
        "reports; again, the same ones."
    ),
    "export": "Write a campaign's reports, in the order of their random ids and without them.",
    "simulate": (
        "Let synthetic people answer a campaign through the real client and HTTP, and hold the "
        "estimates against what they truly said."
    ),
}


def placeholder(name: str) -> TyperCommand:
    """The command as the list of commands shows it, without loading it."""
    return TyperCommand(name, help=COMMANDS[name], rich_markup_mode="rich")


def loaded(name: str) -> Any:
    """The command itself, imported now: a function, or a group with commands of its own."""
    found = spelt(name) if completing() else getattr(import_module(f"sfumato.cli.{name}"), name)
    command: Any
    if isinstance(found, typer.Typer):
        for each in found.registered_commands:
            each.callback = each.callback and expanded(each.callback)
        command = typer.main.get_group(found)
    else:
        alone = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
        )
        alone.command(name)(expanded(found))
        command = typer.main.get_command(alone)
    command.name = name
    for each in (command, *getattr(command, "commands", {}).values()):
        show_no_type_of_flags([*each.params, each.get_help_option(typer.Context(each))])
    return command


def show_no_type_of_flags(parameters: Iterable[Any]) -> None:
    """Has help show nothing beside a flag, which takes no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = " "


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


app = typer.Typer(
    cls=Commands,
    name="sfumato",
    help=(
        "Blur each record before anyone sees it; reconstruct the crowd's counts with their error "
        "bars."
    ),
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    # Rich colours help and results; what Click would colour itself, a terminal must not obey.
    context_settings={"color": False},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options before the command."""
