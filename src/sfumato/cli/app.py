"""The commands by name."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato import __version__
from sfumato.cli.audit import audit
from sfumato.cli.campaign import campaign
from sfumato.cli.classify import classify
from sfumato.cli.demo import demo
from sfumato.cli.describe import describe
from sfumato.cli.errors import Commands
from sfumato.cli.export import export
from sfumato.cli.generate import generate
from sfumato.cli.hide import hide
from sfumato.cli.identify import identify
from sfumato.cli.mine import mine
from sfumato.cli.perturb import perturb
from sfumato.cli.plan import plan
from sfumato.cli.query import query
from sfumato.cli.reproduce import reproduce
from sfumato.cli.schema import schema
from sfumato.cli.send import send
from sfumato.cli.serve import serve
from sfumato.cli.simulate import simulate
from sfumato.cli.swap import swap
from sfumato.cli.token import token

app = typer.Typer(
    cls=Commands,
    name="sfumato",
    help=(
        "Blur each record before anyone sees it; reconstruct the crowd's counts with their error "
        "bars."
    ),
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(demo)
app.command()(schema)
app.command()(plan)
app.command()(perturb)
app.command()(describe)
app.command()(mine)
app.command()(query)
app.command()(classify)
app.command()(identify)
app.command()(swap)
app.command()(hide)
app.command()(audit)
app.command()(reproduce)
app.add_typer(generate, name="generate")
app.add_typer(campaign, name="campaign")
app.command()(serve)
app.add_typer(token, name="token")
app.command()(send)
app.command()(export)
app.command()(simulate)


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
