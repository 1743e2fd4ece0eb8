"""`sfumato identify`: which of a data owner's records can be told apart, and by what."""

from __future__ import annotations

from typing import Annotated

from sfumato.cli.options import option
from sfumato.cli.owner import (
    Data,
    DossierFile,
    KeyOptions,
    all_options,
    check_targets,
    dossier_files,
    draw,
    write_dossier,
)
from sfumato.cli.pages import Given
from sfumato.cli.printing import progress_bar
from sfumato.publish.identify import identify as identify_records


def identify(
    data: Data,
    *,
    keyed: KeyOptions,
    weights: Annotated[
        str | None,
        option("The column that says how many people each record stands for.", metavar="A"),
    ] = None,
    population: Annotated[
        float | None, option("How many people the records are a sample of.", metavar="N")
    ] = None,
    bins: Annotated[
        int, option("How many bins to try when asking what binning a column would save.")
    ] = 4,
    dossier: DossierFile = None,
    given: Given = Given(),
) -> None:
    """Which records can be told apart by their keys, and which columns give them away.

    Where the records are a sample, --weights or --population also tells how many are unique in the
    population, and how often a match would be right.

    Example: sfumato identify adult.csv --confidential income --bin age=frequency:5
    """
    options = all_options(locals())
    check_targets(given.force, given.plot, *dossier_files(dossier))
    records, asked = keyed.read(data, beside=[] if weights is None else [weights])
    asked |= {"weights": weights, "population": population}
    with progress_bar() as progress:
        found = identify_records(records, try_bins=bins, progress=progress, **asked)
    write_dossier(found, options, keys=list(asked["keys"]))
    view = found.view()
    method = "none: the true records were looked at, nothing was changed"
    promised = "none: this page describes true records and is for their owner"
    draw(view, options, rows=found.risk.records, method=method, promised=promised)
    given.give(view, found.to_dict)
