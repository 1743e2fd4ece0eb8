"""`sfumato swap`: a copy of true records with confidential values exchanged, and what that cost
and bought.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import Annotated

from sfumato.cli.options import option
from sfumato.cli.owner import (
    Data,
    KeyOptions,
    Plot,
    ReleaseOptions,
    all_options,
    draw,
    spelled_errors,
    trade_off,
)
from sfumato.cli.printing import print_notes, progress_bar
from sfumato.errors import ParameterError
from sfumato.publish.swap import SwapReport, swap_proportions
from sfumato.publish.swap import swap as swap_records
from sfumato.view import View

PROPORTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
ANY = "any"
MEASURED = (
    "The objective is how much less probable the values shown are, given the keys, than the true "
    "ones, summed over the records; two-way tables are those of the column with each key, and "
    "the share of their records that moved"
)


def swap(
    data: Data,
    *,
    keyed: KeyOptions,
    proportion: Annotated[
        float, option("The share of the unique records to change, in (0, 1].", metavar="P")
    ],
    max_posterior: Annotated[
        float | None,
        option(
            "The most that may be known: of the unique records that show a value, no larger share "
            "truly has any one value. Unless given 0.9, which leaves out values that one or two of "
            "them hold.",
            metavar="P",
        ),
    ] = None,
    drift: Annotated[
        str,
        option(
            "Let the totals move by so many records, each counted once; any: as little as must be.",
            metavar="N",
        ),
    ] = "0",
    method: Annotated[
        str, option("optimal, greedy (the paper's two phases) or random.")
    ] = "optimal",
    jointly: Annotated[bool, option("Several confidential columns as one; else in turn.")] = False,
    release_raw: Annotated[
        bool, option("Release what --bin cut as it was, not in its bins.")
    ] = False,
    classifier: Annotated[str | None, option("", hidden=True)] = None,
    plot: Plot = None,
    handed: ReleaseOptions,
) -> None:
    """Release records with confidential values exchanged so that no one's keys give theirs away (Li
    and Sarkar 2004).

    The totals stay unless --drift lets them move; columns cut by --bin are released in their bins.

    Example: sfumato swap adult.csv -o release.csv --confidential income
    --proportion 0.2 --bin age=frequency:5
    """
    options = all_options(locals())
    handed.check(plot)
    records, asked = keyed.read(data)
    same = ("method", "jointly", "max_posterior", "release_raw")
    how = {name: options[name] for name in same}
    how |= {"drift": allowed_drift(drift), "rng": handed.rng, "max_gain": handed.max_gain}
    if classifier is not None:
        print_notes(["--classifier is gone: no classifier judges a swap any more"])
    with progress_bar() as progress, spelled_errors(("proportion", *how)):
        how |= asked
        release = swap_records(records, proportion, progress=progress, **how)
        wanted = plot is not None and plot.suffix == ".html"
        places = PROPORTIONS if wanted else ()
        tried = swap_proportions(records, places, progress=progress, **how)
    report = release.reports[0]
    handed.give(
        release,
        options,
        drawn="ties were",
        changed="changed rows",
        safer="a larger --proportion",
        keys=list(asked["keys"]),
        max_posterior=report.max_posterior,
    )
    draw(
        release.view(),
        options,
        rows=report.records,
        method=f"swapping ({report.method})",
        promised="no gamma; against the intruder described, see the figures",
        other=_other_proportions(report, tried) if tried else None,
    )


def allowed_drift(text: str) -> int | None:
    """The number of records that the totals may move by; None for as many as must."""
    if text.strip() == ANY:
        return None
    if not text.strip().isdecimal():
        raise ParameterError(
            f"--drift {text} is no number of records", hint="use 0 or more, or any"
        )
    return int(text)


def _other_proportions(report: SwapReport, tried: Sequence[SwapReport | None]) -> View:
    """What other proportions would cost and buy for a column."""

    def traced(quantity: Callable[[SwapReport], float | None], times: float = 1) -> list[float]:
        values = [None if one is None else quantity(one) for one in tried]
        return [nan if value is None else times * value for value in values]

    found = {
        "objective": {report.method: traced(lambda one: one.objective)},
        "two-way tables": {report.method: traced(lambda one: one.cost.mean_two_way)},
        "guessed right, %": {
            "informed": traced(lambda one: one.informed, 100),
            "believing": traced(lambda one: one.cost.intruder.believing, 100),
            "no release": traced(lambda one: one.cost.intruder.baseline, 100),
        },
    }
    caption = (
        f"What other proportions cost and buy for {report.confidential}, the chosen one ringed; a "
        f"gap where one cannot be had. {MEASURED}"
    )
    today = report.objective, report.cost.mean_two_way, 100 * (report.informed or 0.0)
    chosen = {what: (report.proportion, value) for what, value in zip(found, today, strict=True)}
    return trade_off(found, PROPORTIONS, "proportion p of the unique records", caption, chosen)
