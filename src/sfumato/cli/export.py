"""`sfumato export`: the reports of a campaign as a file that carries their mechanism."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.options import Force, Json, Output, check_output
from sfumato.cli.printing import print_facts, print_json
from sfumato.collect.releases import export as write
from sfumato.collect.releases import find_campaign
from sfumato.collect.store import open_store
from sfumato.errors import ParameterError, listing


def export(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="A store: a file, or postgresql://…")
    ],
    output: Output,
    name: Annotated[
        str | None,
        typer.Option("--campaign", metavar="NAME", help="Which campaign; name/1 is its round 1."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a campaign's reports, in the order of their random ids and without them.

    Example: sfumato export campaign.db -o health.parquet --campaign health
    """
    check_output(output, force, json)
    opened = open_store(store)
    names = list(dict.fromkeys(each.name for each in opened.enrolled()))
    if name is None and len(names) != 1:
        raise ParameterError(
            f"{opened.where} holds {len(names)} campaigns ({listing(names)})",
            hint="choose one with --campaign NAME",
        )
    found = find_campaign(opened, name or names[0])
    rows = write(opened, found, output, force=force)
    opened.close()
    if json:
        facts = {"campaign": found.name, "round": found.round, "rows": rows, "output": str(output)}
        print_json(facts)
        return
    print_facts([("written", str(output)), ("campaign", found.name), ("reports", f"{rows:,}")])
