"""`sfumato send`: answer a campaign from a file; only blurred reports leave it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.errors import VIOLATION
from sfumato.cli.options import Form, Json, argument, option
from sfumato.cli.printing import print_facts, print_json, print_lines, print_notes
from sfumato.collect.client import Client, Receipt, Sent
from sfumato.collect.own_ledger import own_ledger, own_names
from sfumato.collect.people import named_records, numbered
from sfumato.errors import ParameterError
from sfumato.printable import one_line
from sfumato.privacy.ledger import Ledger
from sfumato.table import reader_of

PER_MINUTE = 60  # reports that a server takes from one network, unless stated otherwise
SHOWN = 10  # receipts; --json has all
SLOW = (
    "without a token a server takes 60 reports a minute from one network: this may take "
    "{minutes} minutes or more"
)
NO_LEDGER = (
    "with --no-ledger nothing remembers these draws: sending the same people again draws anew, and "
    "costs them again (two reports under gamma 19 have 361)"
)
ANSWERED = (
    "this device has answered before: the report of then was sent again, and nothing of the file; "
    "a second draw would tell more. For another person use --key, or --ledger FILE --new-ledger"
)
NOT_WITHDRAWN = (
    "no report of this id was there to be taken back: is it the id of your receipt, and this its "
    "campaign? Should it still come, it is refused"
)
STILL_THERE = "the server took the withdrawal and says of the report all the same: {now}"
BY_PLACE = (
    "people are known by their place in this file, and would draw anew from a copy or in another "
    "order; --key COLUMN knows them by name"
)


def send(
    url: Annotated[str, argument("The address of a campaign's form.", metavar="URL")],
    data: Annotated[str, argument("True records (.csv, .parquet, .dat).", metavar="DATA")] = "",
    ledger: Annotated[
        Path | None,
        option(
            "Remembers every draw, and what each person has spent; else one of your own.",
            metavar="F",
        ),
    ] = None,
    new_ledger: Annotated[bool, option("Make the ledger F: it is not there yet.")] = False,
    no_ledger: Annotated[
        bool, option("Keep nothing of the draws: sending again draws and costs again.")
    ] = False,
    form: Form = None,
    key: Annotated[
        str | None,
        option(
            "Names people in the ledger; else one alone is you, and several are numbered.",
            metavar="COLUMN",
        ),
    ] = None,
    token: Annotated[
        str | None, option("A token of role send: no limit applies.", envvar="SFUMATO_TOKEN")
    ] = None,
    patience: Annotated[float, option("Seconds for which the same bytes are sent again.")] = 60.0,
    at_most: Annotated[
        float | None,
        option("The largest gamma that you allow; else your policy's, else 20.", metavar="G"),
    ] = None,
    public: Annotated[
        list[str] | None,
        option(
            "A column that may be sent as it is; once for each. Else as your policy says.",
            metavar="COLUMN",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        option(
            "The epsilon that this server may have of one person; else your policy's, else 6.",
            metavar="E",
        ),
    ] = None,
    withdraw: Annotated[
        str | None,
        option("Send nothing: take back the report of this id, for good.", metavar="ID"),
    ] = None,
    json: Json = False,
) -> None:
    """Show what a campaign takes, blur each record of a file here, once, and send only the reports;
    again, the same ones. What is above your limits is refused.

    Example: sfumato send http://127.0.0.1:8000/health answers.csv
    """
    _check_options(data, withdraw, ledger, new_ledger, no_ledger)
    if withdraw is not None:
        _withdraw(Client(url, token=token, patience=patience), withdraw, json)
        return
    if data != "-" and not Path(data).exists():
        reader_of(data)  # says so, before a server that may not be there is waited for
    book = None if ledger is None or new_ledger else Ledger(ledger)
    limits: dict[str, Any] = {"at_most": at_most, "public": public, "budget": budget}
    client = Client(url, book, token=token, patience=patience, **limits)
    client.check()
    records, names = named_records(data, client.survey.domain, key, form)
    by_place = key is None and ledger is None and not no_ledger
    if by_place:
        names = own_names(data, records.rows)
    if ledger is not None and new_ledger:
        client.ledger = book = Ledger.create(ledger, None)
    elif ledger is None and not no_ledger:
        client.ledger = book = own_ledger(client.address)
    if token is None and records.rows > PER_MINUTE:
        print_notes([SLOW.format(minutes=records.rows // PER_MINUTE)])
    terms = client.terms(*(names or numbered(records.rows)))
    if not json:
        print_lines(terms.lines)
    receipts: list[Receipt] = []
    sent = client.send(records, names, received=receipts.extend)
    if book is None:
        print_notes([NO_LEDGER])
    elif by_place and (records.rows > 1 or sent.repeated):
        print_notes([BY_PLACE if records.rows > 1 else ANSWERED])
    if json:
        done = {"terms": terms.to_dict(), "people": records.rows, **sent._asdict()}
        kept = None if book is None else str(book.path)
        print_json({**done, "ledger": kept, "receipts": [asdict(each) for each in receipts]})
    else:
        print_sent(sent, receipts, book)


def _withdraw(client: Client, identity: str, json: bool) -> None:
    """Take a report back, and say what the server held of it before and holds now, which alone
    shows whether it did: 3 where nothing was taken back.
    """
    if not re.fullmatch(r"[\w-]{22}", identity, re.ASCII):
        raise ParameterError(
            "--withdraw takes the id of a receipt", hint="22 letters, digits, - and _"
        )
    before = client.receipts([identity])[identity]
    client.withdraw(identity)
    now = client.receipts([identity])[identity]
    if json:
        print_json({"id": identity, "before": before, "now": now})
    else:
        print_facts([("report", identity), ("before", before), ("now", now)])
    if before == "unknown" or now != "withdrawn":
        print_notes([NOT_WITHDRAWN if now == "withdrawn" else STILL_THERE.format(now=now)])
        raise typer.Exit(VIOLATION)


def _check_options(
    data: str, withdraw: str | None, ledger: Path | None, new: bool, none: bool
) -> None:
    """Refuse options that contradict each other."""
    if (withdraw is None) == (not data):
        raise ParameterError(
            "send takes the records of a file, or takes back a report",
            hint="give DATA, or --withdraw ID",
        )
    if none and ledger is not None:
        raise ParameterError("--ledger keeps the draws and --no-ledger does not", hint="give one")
    if new and ledger is None:
        raise ParameterError("--new-ledger makes the file of --ledger", hint="as in --ledger FILE")


def print_sent(sent: Sent, receipts: Sequence[Receipt], book: Ledger | None) -> None:
    """What became of the reports, where they are kept, and what shows that they were sent."""
    names = ("drawn and sent", "sent again", "refused")
    print_facts([(name, f"{count:,}") for name, count in zip(names, sent, strict=True)])
    # Not in a grid, which would cut what is to be copied.
    if book is not None:
        print(f"\nkept, to be sent again and never drawn again: {one_line(str(book.path))}")
    if not receipts:
        return
    print("\nreceipt: whoever has the id can ask after the report and withdraw it")
    for receipt in receipts[:SHOWN]:
        print(f"id      {receipt.id}")
    if len(receipts) == 1:
        print(f"SHA-256 {receipts[0].sha256}")
    if len(receipts) > SHOWN:
        print(f"        and {len(receipts) - SHOWN:,} more, with --json")
    print(f"version {one_line(receipts[0].campaign)}")
