"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from sfumato.errors import FileError, ParameterError

GUARANTEE = "Guarantee (one way)"
STORE = "campaign.db"  # where a collector keeps reports unless told otherwise


def among(words: Iterable[str]) -> Callable[[str], list[str]]:
    """What a shell completes an option to: those of these words that begin as typed.

    >>> among(["tree", "bayes"])("b")
    ['bayes']
    """
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="OUT", help="The file to write; - is standard output."),
]
Schema = Annotated[
    Path | None,
    typer.Option(
        "--schema", metavar="S", help="Read the data by this schema (TOML); else by a proposed one."
    ),
]
Items = Annotated[
    Path | None,
    typer.Option(
        "--items", metavar="FILE", help="The item ids of baskets; else those found in the data."
    ),
]
Form = Annotated[
    str | None,
    typer.Option(
        "--form",
        metavar="FORM",
        help="How baskets stand in DATA: lines (of names), long (basket,item), flags (a column an "
        "item), or records (no baskets); else the data tell.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="URL",
        help="Who counts: memory, duckdb, a database (duckdb://FILE, sqlite://FILE, "
        "postgresql://user@host/db; its password in PGPASSWORD or ~/.pgpass), or Spark by its "
        "master (local[2], spark://host:7077).",
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        help="Count anew, and keep no counts in the cache folder (SFUMATO_CACHE, or the system's).",
    ),
]
Fit = Annotated[
    bool,
    typer.Option(
        "--fit", help="Fit a model to the release first and ask that: any columns, errors say so."
    ),
]
Gamma = Annotated[
    float | None,
    typer.Option(
        help="No report is more than so many times as likely under one truth as under another.",
        rich_help_panel=GUARANTEE,
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(help="ln(gamma): local differential privacy.", rich_help_panel=GUARANTEE),
]
Rho1 = Annotated[
    float | None, typer.Option(help="No belief of rho1 before …", rich_help_panel=GUARANTEE)
]
Rho2 = Annotated[
    float | None, typer.Option(help="… rises above rho2 after.", rich_help_panel=GUARANTEE)
]


def check_drawing_target(path: Path | None, force: bool) -> None:
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
