"""`sfumato pram`: a copy of true records with values replaced at random, expected counts
unchanged.
"""

from __future__ import annotations

from typing import Annotated

from sfumato.cli.options import Guaranteed, option
from sfumato.cli.owner import Coded, Data, ReleaseOptions, all_options, columns, listed
from sfumato.cli.printing import progress_bar
from sfumato.publish.pram import pram as replace_values


def pram(
    data: Data,
    *,
    column: Annotated[list[str], option("A column to replace; may be repeated.", metavar="A")],
    guaranteed: Guaranteed = Guaranteed(),
    keep: Annotated[
        float | None,
        option("Instead: keep each with probability P, else draw by the counts.", metavar="P"),
    ] = None,
    jointly: Annotated[bool, option("Several columns as one; else each on its own.")] = False,
    within: Annotated[
        str | None,
        option("Keep the expected counts of every combination with these as well.", metavar="A,B"),
    ] = None,
    coded: Coded = Coded(),
    handed: ReleaseOptions,
) -> None:
    """Release records with values replaced at random so that every expected count stays (invariant
    PRAM).

    The file can be analysed as it is. Under a guarantee, of all matrices that keep it and the
    expected counts the one is taken that leaves most records alone (up to 60 values).

    Example: sfumato pram adult.csv -o release.csv --column marital_status --gamma 19 --within sex
    """
    asked = all_options(locals())
    handed.check()
    promised = guaranteed.guarantee()
    with progress_bar() as progress:
        release = replace_values(
            data,
            listed(column),
            gamma=None if promised is None else promised.gamma,
            keep=keep,
            jointly=jointly,
            within=columns(within) or (),
            max_gain=handed.max_gain,
            rng=handed.rng,
            progress=progress,
            **coded.how(),
        )
    handed.give(
        release,
        asked,
        drawn="values were",
        changed="changed rows",
        safer="a smaller --gamma or --keep",
    )
