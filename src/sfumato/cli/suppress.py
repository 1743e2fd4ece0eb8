"""`sfumato suppress`: a copy of true records with as few key cells blanked as k-anonymity needs."""

from __future__ import annotations

from typing import Annotated

from sfumato.cli.options import option
from sfumato.cli.owner import Coded, Data, Keys, ReleaseOptions, all_options, columns, listed
from sfumato.cli.printing import progress_bar
from sfumato.publish.suppress import suppress as suppress_cells


def suppress(
    data: Data,
    *,
    k: Annotated[int, option("How many records must share their keys.", metavar="K")] = 3,
    keys: Keys = None,
    confidential: Annotated[
        list[str] | None,
        option(
            "A column that is no key and is judged for what groups share; may be repeated.",
            metavar="A",
        ),
    ] = None,
    coded: Coded = Coded(),
    seconds: Annotated[
        float, option("How long to look for fewer cells after a first answer.")
    ] = 10.0,
    handed: ReleaseOptions,
) -> None:
    """Release records with single cells blanked so that K people share every combination of keys.

    A blank is a value of its own. Says how few cells any answer needs, and whether this one is
    proved to have the fewest.

    Example: sfumato suppress adult.csv -o release.csv --keys age,sex,education
    --bin age=frequency:5 --k 5
    """
    asked = all_options(locals())
    handed.check()
    with progress_bar() as progress:
        release = suppress_cells(
            data,
            k,
            keys=columns(keys),
            confidential=listed(confidential) if confidential else None,
            seconds=seconds,
            max_gain=handed.max_gain,
            rng=handed.rng,
            progress=progress,
            **coded.how(),
        )
    known = release.report.keys
    handed.give(
        release,
        asked,
        drawn="the search was",
        changed="blanked cells",
        safer="a larger --k",
        keys=known,
    )
