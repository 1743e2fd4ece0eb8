"""`sfumato identify`: which of a data owner's records can be told apart, and by what."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli.options import Force, Json
from sfumato.cli.owner import (
    Bin,
    Confidential,
    Data,
    DossierFile,
    Keys,
    Nulls,
    Plot,
    check_targets,
    draw,
    read_records,
    write_dossier,
)
from sfumato.cli.printing import print_json, show, telling
from sfumato.publish.identify import identify as identify_records


def identify(
    data: Data,
    confidential: Confidential,
    keys: Keys = None,
    bin: Bin = None,
    nulls: Nulls = "value",
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="A", help="The column that says how many people each record stands for."
        ),
    ] = None,
    population: Annotated[
        float | None,
        typer.Option(metavar="N", help="How many people the records are a sample of."),
    ] = None,
    bins: Annotated[
        int, typer.Option(help="How many bins to try when asking what binning a column would save.")
    ] = 4,
    dossier: DossierFile = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Which records can be told apart by their keys, and which columns give them away.

    Where the records are a sample, --weights or --population also tells how many are unique in the
    population, and how often a match would be right.

    Example: sfumato identify adult.csv --confidential income --bin age=frequency:5
    """
    options = dict(locals())
    check_targets(options)
    beside = [] if weights is None else [weights]
    records, asked = read_records(data, confidential, keys, bin, nulls, beside=beside)
    asked |= {"weights": weights, "population": population}
    with telling() as progress:
        found = identify_records(records, try_bins=bins, progress=progress, **asked)
    write_dossier(found, options, keys=list(asked["keys"]))
    view = found.view()
    method = "none: the true records were looked at, nothing was changed"
    promised = "none: this page describes true records and is for their owner"
    draw(view, options, rows=found.risk.records, method=method, promised=promised)
    print_json(found.to_dict()) if json else show(view)
