"""`sfumato export`: the reports of a campaign as a file that carries their mechanism."""

from __future__ import annotations

from typing import Annotated

from sfumato.cli.options import Force, Json, Output, argument, check_output, option
from sfumato.cli.printing import print_either
from sfumato.collect.releases import export as write
from sfumato.collect.releases import find_campaign
from sfumato.collect.store import open_store
from sfumato.errors import ParameterError, listing


def export(
    store: Annotated[str, argument("A store: a file, or postgresql://…", "STORE")],
    output: Output,
    name: Annotated[
        str | None,
        option("Which campaign; name/1 is its round 1.", "--campaign", metavar="NAME"),
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
    rows = write(opened, found.number, found.provenance, output, force=force)
    opened.close()
    result = {"campaign": found.name, "round": found.round, "rows": rows, "output": str(output)}
    facts = [("written", str(output)), ("campaign", found.name), ("reports", f"{rows:,}")]
    print_either(result, facts, json)
