"""The commands by name; each is imported when it is asked for, so that help costs nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato import __version__
from sfumato.cli.errors import Commands

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
