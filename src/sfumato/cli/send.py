"""`sfumato send`: answer a campaign from a file; only blurred reports leave it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Json
from sfumato.cli.printing import print_facts, print_json, print_notes
from sfumato.collect.client import Client
from sfumato.collect.people import named_records
from sfumato.privacy.ledger import Ledger

PER_MINUTE = 60  # reports that a server takes from one network, unless it was told otherwise
SLOW = (
    "without a token a server takes 60 reports a minute from one network: this may take "
    "{minutes} minutes or more"
)
NO_LEDGER = (
    "without --ledger nothing remembers these draws: sending the same people again draws anew, and "
    "costs them again"
)


def send(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of a campaign's form.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="True records (.csv, .parquet, .dat).")
    ],
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Remembers every draw, and what each person has spent."),
    ] = None,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Make the ledger: it is not there yet.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Names people in the ledger; else they are numbered."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="SFUMATO_TOKEN", help="A token of role send: no limit applies."),
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Seconds for which the same bytes are sent again.")
    ] = 60.0,
    json: Json = False,
) -> None:
    """Blur each record of a file here, and send only the reports.

    Example: sfumato send http://127.0.0.1:8000/health people.csv --ledger my.ledger --new-ledger
    """
    book = None
    if ledger is not None:
        book = Ledger.create(ledger, None) if new_ledger else Ledger(ledger)
    client = Client(url, book, token=token, patience=patience)
    records, names = named_records(data, client.survey.domain, key)
    if token is None and records.rows > PER_MINUTE:
        print_notes([SLOW.format(minutes=records.rows // PER_MINUTE)])
    sent = client.send(records, names)
    if json:
        print_json({"people": records.rows, **sent._asdict()})
        return
    if book is None:
        print_notes([NO_LEDGER])
    print_facts([(name, f"{count:,}") for name, count in sent._asdict().items()])
