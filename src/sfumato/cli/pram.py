"""`sfumato pram`: a copy of true records with values replaced at random, expected counts
unchanged.
"""

from __future__ import annotations

from pathlib import Path
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
from sfumato.cli.printing import (
    print_facts,
    print_table,
    print_words,
    telling,
)
from sfumato.printable import percent
from sfumato.publish.dossier import pram_dossier
from sfumato.publish.pram import PramRelease, PramReport
from sfumato.publish.pram import pram as replace_values

SHOWN = 20


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
        pram_dossier(release),
        print_pram,
        drawn="values were",
        changed="changed rows",
        notes=[note for report in release.reports for note in report.notes],
    )


def print_pram(release: PramRelease, output: Path) -> None:
    """The promise, what was replaced, and the counts before and after."""
    told = release.to_dict()
    print_words(
        f"written: {output} ({told['changed']:,} of {told['records']:,} records changed, gamma "
        f"{told['gamma']:.6g}, epsilon {told['epsilon']:.4g})"
    )
    for report in release.reports:
        print_column(report)


def print_column(report: PramReport) -> None:
    """One column: how much is kept, what can be guessed, and its counts."""
    where = f" within {', '.join(report.within)}" if report.within else ""
    print_words(f"\n{report.column}{where}")
    worst = report.worst
    print_facts(
        [
            ("gamma", f"{report.gamma:.6g}"),
            ("expected to show the truth", percent(report.kept)),
            (
                "an intruder is right about",
                f"{percent(report.informed)} knowing the matrix, "
                f"{percent(report.baseline)} without the release",
            ),
            (
                "surest shown value",
                f"'{worst.shown}': truly '{worst.likeliest}' with {percent(worst.posterior)}",
            ),
            ("expected counts differ by", f"{report.moved:.2g} records at most (rounding)"),
        ]
    )
    lines = [
        (str(count.value), f"{count.true:,}", f"{count.shown:,}", f"{count.stderr:,.1f}")
        for count in report.counts[:SHOWN]
    ]
    print_table(("value", "true", "shown", "± by chance"), lines, left=1)
    if len(report.counts) > SHOWN:
        print(f"and {len(report.counts) - SHOWN} more (--json for all)")
