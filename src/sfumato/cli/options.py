"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.errors import ParameterError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="The file to write; - is standard output.")]
Schema = Annotated[
    Path | None, typer.Option("--schema", metavar="S", help="Read the data by this schema (TOML); else by a proposed one.")
]
Items = Annotated[
    Path | None, typer.Option("--items", metavar="FILE", help="The item ids of baskets; else those found in the data.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="URL", help="Who counts: memory, duckdb, or Spark by its master (local[2], spark://host:7077)."
    ),
]


def check_output(output: Path, force: bool, json: bool) -> None:
    """Refuse an output that could not be written, before any work is done for it."""
    from sfumato.table.writing import check_target

    if json and str(output) == "-":
        raise ParameterError("--json and -o - both want standard output", hint="write to a file")
    check_target(output, force)
