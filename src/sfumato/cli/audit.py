"""`sfumato audit`: what an attacker learns from a release, and whether its mechanism
kept its word.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.audit import audit_release
from sfumato.cli.errors import VIOLATION
from sfumato.cli.options import Force, Json, Schema, check_drawing_target
from sfumato.cli.pages import origin_of, with_origin
from sfumato.cli.printing import print_json, progress_bar, reading, show, show_brief, telling
from sfumato.cli.sources import read_source, read_truth
from sfumato.domain import Domain
from sfumato.errors import FileError, ParameterError
from sfumato.randomness import secure, seeded
from sfumato.result import save_view
from sfumato.source import Release
from sfumato.table import Table, reader_of
from sfumato.table.shuffling import read_order

MORE = "--details: all attacks and checks, the smallest leaks seen, what is not covered"


def audit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that Sfumato perturbed.")],
    truth: Annotated[
        str,
        typer.Option(metavar="DATA", help="The very records that were perturbed, in their order."),
    ],
    order: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The secret order that perturb --order wrote: which record each report is of.",
        ),
    ] = None,
    schema: Schema = None,
    rho1: Annotated[float, typer.Option(help="Count beliefs of at most rho1 before …")] = 0.05,
    rho2: Annotated[float, typer.Option(help="… that are rho2 or more after.")] = 0.50,
    false_alarm: Annotated[
        float, typer.Option(help="How often a sound mechanism may be accused.")
    ] = 0.001,
    seed: Annotated[
        int | None, typer.Option(help="Draw the attacks from this seed, to repeat them.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Draw what is guessed right: .html, .png or .svg."),
    ] = None,
    force: Force = False,
    details: Annotated[
        bool,
        typer.Option("--details", help="Every attack and check, and how small a leak is seen."),
    ] = False,
    json: Json = False,
) -> None:
    """Attack a release with the truth at hand, and check it against what its mechanism promises.

    Reports that were shuffled are brought beside their records by --order; without it the audit
    judges what needs no pairing and says what it left out. Exit code 3 means that something was
    found against the promise.

    Example: sfumato audit census.parquet --truth census.csv --order census.npy
    """
    check_drawing_target(plot, force)
    with telling() as tell:
        source = read_source(file, None, None, tell=tell)
    if not isinstance(source, Release):
        raise FileError(
            f"'{file}' carries no mechanism, so there is no promise to audit",
            hint="audit a perturbed file",
        )
    records = read_records(truth, schema, source)
    with progress_bar("auditing") as progress:
        found = audit_release(
            source.table,
            records,
            order=read_secret(order, source),
            rng=secure() if seed is None else seeded(seed),
            rho1=rho1,
            rho2=rho2,
            false_alarm=false_alarm,
            progress=_of_rows(progress, records.rows),
        )
    if plot is not None:
        if not found.attacks:
            raise ParameterError(
                "there is nothing to draw: without --order the attacks are left out",
                hint="leave --plot out, or give the order that perturb --order wrote",
            )
        save_view(with_origin(found.view(), origin_of(file, source)), plot)
    if json:
        print_json(found.to_dict())
    elif details:
        show(found.view(), most=None)
    else:
        show_brief(found.brief(), MORE)
    if not found.clean:
        raise typer.Exit(VIOLATION)


def read_secret(path: Path | None, release: Release) -> Any:
    """The secret order of a release, if it is given."""
    if path is None:
        return None
    return read_order(path, release.table.rows, release.table.copies)


def read_records(truth: str, schema: Path | None, release: Release) -> Table:
    """The true records, by their own schema if given, else by the domain that the
    release carries.
    """
    if schema is None:
        with telling() as tell:
            return read_truth(truth, release, tell=tell).table
    reader = reader_of(truth)
    if reader.provenance is not None:
        raise ParameterError(
            f"--truth '{truth}' is itself a perturbed file", hint="give the true records"
        )
    with reading(reader):
        return reader.table(Domain.load(schema))


def _of_rows(
    progress: Callable[[int, float | None], None] | None, rows: int
) -> Callable[[str, float], None] | None:
    """The audit's progress as the bar takes it: rows, and the share that is done."""
    return None if progress is None else lambda _, share: progress(round(share * rows), share)
