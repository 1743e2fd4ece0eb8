"""`sfumato suppress`: a copy of true records with as few key cells blanked as k-anonymity needs."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.options import Force, Json, Output
from sfumato.cli.owner import (
    Bin,
    Data,
    DossierFile,
    Keys,
    Nulls,
    Reveal,
    Seed,
    chance,
    check_targets,
    columns,
    cuts,
    hand_out,
    listed,
    nulls_named,
)
from sfumato.cli.printing import telling
from sfumato.publish.suppress import suppress as suppress_cells


def suppress(
    data: Data,
    output: Output,
    k: Annotated[
        int, typer.Option("--k", metavar="K", help="How many records must share their keys.")
    ] = 3,
    keys: Keys = None,
    confidential: Annotated[
        list[str] | None,
        typer.Option(
            "--confidential",
            metavar="A",
            help="A column that is no key and is judged for what groups share; may be repeated.",
        ),
    ] = None,
    bin: Bin = None,
    nulls: Nulls = "value",
    seconds: Annotated[
        float, typer.Option(help="How long to look for fewer cells after a first answer.")
    ] = 10.0,
    seed: Seed = None,
    reveal: Reveal = None,
    dossier: DossierFile = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Release records with single cells blanked so that K people share every combination of keys.

    A blank is a value of its own. Says how few cells any answer needs, and whether this one is
    proved to have the fewest.

    Example: sfumato suppress adult.csv -o release.csv --keys age,sex,education
    --bin age=frequency:5 --k 5
    """
    options = dict(locals())
    check_targets(options)
    with telling() as progress:
        release = suppress_cells(
            data,
            k,
            keys=columns(keys),
            confidential=listed(confidential) if confidential else None,
            bins=cuts(bin),
            nulls=nulls_named(nulls),
            seconds=seconds,
            rng=chance(seed),
            progress=progress,
        )
    hand_out(
        options,
        release,
        drawn="the search was",
        changed="blanked cells",
        keys=release.report.keys,
    )
