"""`sfumato pram`: a copy of true records with values replaced at random, expected counts
unchanged.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.mechanism import MechanismOptions
from sfumato.cli.options import (
    Epsilon,
    Force,
    Gamma,
    Json,
    Output,
    Rho1,
    Rho2,
)
from sfumato.cli.owner import (
    Bin,
    Data,
    DossierFile,
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
from sfumato.publish.pram import pram as replace_values


def pram(
    data: Data,
    output: Output,
    column: Annotated[
        list[str],
        typer.Option("--column", metavar="A", help="A column to replace; may be repeated."),
    ],
    gamma: Gamma = None,
    epsilon: Epsilon = None,
    rho1: Rho1 = None,
    rho2: Rho2 = None,
    keep: Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Instead: keep each with probability P, else draw by the counts."
        ),
    ] = None,
    jointly: Annotated[
        bool, typer.Option("--jointly", help="Several columns as one; else each on its own.")
    ] = False,
    within: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Keep the expected counts of every combination with these as well."
        ),
    ] = None,
    bin: Bin = None,
    nulls: Nulls = "value",
    seed: Seed = None,
    reveal: Reveal = None,
    dossier: DossierFile = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Release records with values replaced at random so that every expected count stays (invariant
    PRAM).

    The file can be analysed as it is. Under a guarantee, of all matrices that keep it and the
    expected counts the one is taken that leaves most records alone (up to 60 values).

    Example: sfumato pram adult.csv -o release.csv --column marital_status --gamma 19 --within sex
    """
    options = dict(locals())
    check_targets(options)
    promised = MechanismOptions(gamma=gamma, epsilon=epsilon, rho1=rho1, rho2=rho2).guarantee()
    with telling() as progress:
        release = replace_values(
            data,
            listed(column),
            gamma=None if promised is None else promised.gamma,
            keep=keep,
            jointly=jointly,
            within=columns(within) or (),
            bins=cuts(bin),
            nulls=nulls_named(nulls),
            rng=chance(seed),
            progress=progress,
        )
    hand_out(
        options,
        release,
        drawn="values were",
        changed="changed rows",
    )
