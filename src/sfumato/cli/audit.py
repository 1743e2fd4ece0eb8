"""`sfumato audit`: what an attacker learns from a release, and whether its mechanism
kept its word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.audit import audit_release
from sfumato.cli.errors import VIOLATION
from sfumato.cli.options import Schema, argument, option
from sfumato.cli.pages import Given
from sfumato.cli.printing import progress_bar, show_brief
from sfumato.cli.sources import Reading, read_truth
from sfumato.domain import Domain
from sfumato.errors import FileError, ParameterError
from sfumato.progress import Progress
from sfumato.randomness import secure, seeded
from sfumato.release import Release
from sfumato.table import Table, reader_of
from sfumato.table.shuffling import read_order

MORE = "--details: all attacks and checks, the smallest leaks seen, what is not covered"


def audit(
    file: Annotated[str, argument("A file that Sfumato perturbed.", "FILE")],
    truth: Annotated[
        str, option("The very records that were perturbed, in their order.", metavar="DATA")
    ],
    order: Annotated[
        Path | None,
        option(
            "The secret order that perturb --order wrote: which record each report is of.",
            metavar="FILE",
        ),
    ] = None,
    schema: Schema = None,
    rho1: Annotated[float, option("Count beliefs of at most rho1 before …")] = 0.05,
    rho2: Annotated[float, option("… that are rho2 or more after.")] = 0.50,
    false_alarm: Annotated[float, option("How often a sound mechanism may be accused.")] = 0.001,
    seed: Annotated[int | None, option("Draw the attacks from this seed, to repeat them.")] = None,
    given: Given = Given(),
    details: Annotated[
        bool, option("Every attack and check, and how small a leak is seen.")
    ] = False,
) -> None:
    """Attack a release with the truth at hand, and check it against what its mechanism promises.

    Reports that were shuffled are brought beside their records by --order; without it the audit
    judges what needs no pairing and says what it left out. Exit code 3 means that something was
    found against the promise.

    Example: sfumato audit census.parquet --truth census.csv --order census.npy
    """
    given.check()
    with progress_bar() as tell:
        source = Reading().source(file, tell)
        if not isinstance(source, Release):
            raise FileError(
                f"'{file}' carries no mechanism, so there is no promise to audit",
                hint="audit a perturbed file",
            )
        records = _records(truth, schema, file, source, tell)
        reports = source.table
        found = audit_release(
            reports,
            records,
            order=None if order is None else read_order(order, reports.rows, reports.copies),
            rng=secure() if seed is None else seeded(seed),
            rho1=rho1,
            rho2=rho2,
            false_alarm=false_alarm,
            progress=lambda stage, share: tell(f"auditing: {stage}", share),
        )
    if given.plot is not None and not found.attacks:
        raise ParameterError(
            "there is nothing to draw: without --order the attacks are left out",
            hint="leave --plot out, or give the order that perturb --order wrote",
        )
    given.draw(found.view(), file, source)
    if details or given.json:
        given.give(found.view(), found.to_dict, most=None)
    else:
        show_brief(found.brief(), MORE)
    if not found.clean:
        raise typer.Exit(VIOLATION)


def _records(truth: str, schema: Path | None, file: str, release: Release, tell: Progress) -> Table:
    """The true records, by their own schema if given, else by the domain that the release
    carries.
    """
    if schema is None:
        return read_truth(file, truth, release, tell=tell).table
    reader = reader_of(truth)
    if reader.provenance is not None:
        raise ParameterError(
            f"--truth '{truth}' is itself a perturbed file", hint="give the true records"
        )
    reader.tell = tell
    return reader.table(Domain.load(schema))
