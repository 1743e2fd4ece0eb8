"""`sfumato schema`: propose a schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sfumato.cli.options import Force, Form, Json, argument, option
from sfumato.cli.printing import print_json, print_notes, reading
from sfumato.table import propose, reader_of
from sfumato.table.formats import check_free, write_text


def schema(
    data: Annotated[
        str,
        argument("A .csv, .parquet or .dat file (.gz too); - is standard input.", metavar="DATA"),
    ],
    output: Annotated[
        Path | None,
        option(
            "Write the schema here; - is standard output, as without it.",
            "--output",
            "-o",
            metavar="FILE",
        ),
    ] = None,
    form: Form = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Propose a schema for a file: its columns, their values, ranges and cuts. Look it over: they
    come from the data.

    Example: sfumato schema census.csv -o census.toml
    """
    with reading(reader_of(data, form)) as reader:
        proposal = propose(reader)
    notes = [*proposal.notes, *proposal.told]
    output = None if str(output) == "-" else output
    if output is not None:
        check_free(output, force)
        write_text(proposal.domain.to_toml(), output)
    if json:
        print_json({"schema": proposal.domain.to_dict(), "notes": notes})
        return
    print_notes(notes)
    if output is None:
        print(proposal.domain.to_toml(), end="")
