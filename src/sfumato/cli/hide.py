"""`sfumato hide`: a copy of true baskets from which chosen patterns cannot be mined, and what that
cost the others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from sfumato.cli.options import Items, argument, option
from sfumato.cli.owner import Plot, ReleaseOptions, all_options, draw, trade_off
from sfumato.cli.printing import progress_bar
from sfumato.errors import ParameterError
from sfumato.progress import Progress
from sfumato.publish.hide import hide as hide_patterns
from sfumato.publish.hide import hide_disclosures
from sfumato.publish.owned import baskets_of
from sfumato.table import Table, reader_of
from sfumato.view import View

DISCLOSURES = (0.0, 0.1, 0.2, 0.3, 0.4)


def hide(
    data: Annotated[
        str,
        argument(
            "True baskets: .dat, .parquet, or .csv with lines of names or columns such as "
            "tid,item; text also as .gz; - is standard input.",
            "DATA",
        ),
    ],
    *,
    patterns: Annotated[
        Path,
        option("What to hide, one a line: 39 48 an itemset, 39 48 -> 41 a rule.", metavar="FILE"),
    ],
    min_support: Annotated[
        float | None, option("From which share of baskets a pattern is found.", metavar="S")
    ] = None,
    min_count: Annotated[int | None, option("From which number of baskets, instead.")] = None,
    min_confidence: Annotated[
        float | None, option("From which confidence a rule holds.", metavar="C")
    ] = None,
    method: Annotated[
        str,
        option(
            "cover (ours: starts from the others and never loses more), iga, minfia, maxfia or "
            "naive."
        ),
    ] = "cover",
    margin: Annotated[
        str,
        option(
            "Hide each pattern so many baskets (20) or that share of the threshold (5%) below "
            "it, and a random part of as much again.",
            metavar="M",
        ),
    ] = "0",
    disclosure: Annotated[
        float | None,
        option("The share of a pattern's baskets that may be left alone.", metavar="PSI"),
    ] = None,
    seconds: Annotated[float, option("How long cover may look for a better answer.")] = 5.0,
    items: Items = None,
    plot: Plot = None,
    handed: ReleaseOptions,
) -> None:
    """Release baskets from which chosen itemsets and rules can no longer be mined.

    Example: sfumato hide retail.dat.gz -o release.dat --patterns secret.txt --min-support 0.003
    """
    options = all_options(locals())
    started = time.perf_counter()
    handed.check(plot, records=False)
    limits = ("min_support", "min_count", "min_confidence", "seconds")
    how = {**{name: options[name] for name in limits}, "rng": handed.rng}
    with progress_bar() as progress:
        reader = reader_of(data)
        reader.tell = progress
        table = baskets_of(reader, items)
        release = hide_patterns(
            table,
            patterns,
            method=method,
            disclosure=disclosure,
            margin=wanted_margin(margin),
            max_gain=handed.max_gain,
            progress=progress,
            **how,
        )
        wanted = plot is not None and plot.suffix == ".html"
        other = _other_disclosures(table, patterns, progress, how) if wanted else None
    report = replace(release.report, seconds=time.perf_counter() - started)
    release = replace(release, report=report)
    files = {"patterns": patterns}
    handed.give(
        release,
        options,
        drawn="ties were",
        changed="changed",
        safer="a smaller --disclosure",
        files=files,
    )
    draw(
        release.view(),
        options,
        rows=report.rows,
        method=f"hiding ({report.method})",
        promised=f"no gamma; the patterns are in fewer than {report.min_count:,} baskets",
        other=other,
    )


def _other_disclosures(
    table: Table, patterns: Path, progress: Progress, how: Mapping[str, Any]
) -> View:
    """What the methods would cost and hide at other ψ."""
    tried = hide_disclosures(table, patterns, DISCLOSURES, progress=progress, **how)
    measures = {
        f"{measure.replace('_', ' ')}, %": {
            name: [100 * getattr(one, measure) for one in many] for name, many in tried.items()
        }
        for measure in ("misses_cost", "hiding_failure")
    }
    caption = "What other ψ cost and hide; lines that run together lie on one another, wider below"
    return trade_off(measures, DISCLOSURES, "disclosure threshold ψ", caption)


def wanted_margin(text: str) -> int | float:
    """A margin written as a number of baskets, a share, or per cent."""
    words = text.strip()
    try:
        value = float(words.removesuffix("%"))
    except ValueError:
        raise ParameterError(f"--margin {text} is no margin", hint="as in 20 or 5%") from None
    return value / 100 if words.endswith("%") else int(value) if value == int(value) else value
