"""`sfumato hide`: a copy of true baskets from which chosen patterns cannot be mined, and what that
cost the others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Force, Items, Json, Output
from sfumato.cli.owner import (
    DossierFile,
    Plot,
    Reveal,
    Seed,
    chance,
    check_targets,
    draw,
    hand_out,
    trade_off,
)
from sfumato.cli.printing import telling, told
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
        typer.Argument(
            metavar="DATA",
            help="True baskets: .dat, .parquet, or .csv with lines of names or columns such as "
            "tid,item; text also as .gz; - is standard input.",
        ),
    ],
    output: Output,
    patterns: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="What to hide, one a line: 39 48 an itemset, 39 48 -> 41 a rule."
        ),
    ],
    min_support: Annotated[
        float | None,
        typer.Option(metavar="S", help="From which share of baskets a pattern is found."),
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(help="From which number of baskets, instead.")
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(metavar="C", help="From which confidence a rule holds.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help=(
                "cover (ours: starts from the others and never loses more), iga, minfia, maxfia "
                "or naive."
            )
        ),
    ] = "cover",
    margin: Annotated[
        str,
        typer.Option(
            metavar="M",
            help=(
                "Hide each pattern so many baskets (20) or that share of the threshold (5%) below "
                "it, and a random part of as much again."
            ),
        ),
    ] = "0",
    disclosure: Annotated[
        float | None,
        typer.Option(
            metavar="PSI", help="The share of a pattern's baskets that may be left alone."
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="How long cover may look for a better answer.")
    ] = 5.0,
    items: Items = None,
    seed: Seed = None,
    reveal: Reveal = None,
    dossier: DossierFile = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Release baskets from which chosen itemsets and rules can no longer be mined.

    Example: sfumato hide retail.dat.gz -o release.dat --patterns secret.txt --min-support 0.003
    """
    options = dict(locals())
    started = time.perf_counter()
    check_targets(options, records=False)
    limits = ("min_support", "min_count", "min_confidence", "seconds")
    how = {**{name: options[name] for name in limits}, "rng": chance(seed)}
    with telling() as progress:
        table = baskets_of(told(reader_of(data), progress), items)
        release = hide_patterns(
            table,
            patterns,
            method=method,
            disclosure=disclosure,
            margin=wanted_margin(margin),
            progress=progress,
            **how,
        )
        wanted = plot is not None and plot.suffix == ".html"
        other = _other_disclosures(table, patterns, progress, how) if wanted else None
    report = replace(release.report, seconds=time.perf_counter() - started)
    release = replace(release, report=report)
    draw(
        release.view(),
        options,
        rows=report.rows,
        method=f"hiding ({report.method})",
        promised=f"no gamma; the patterns are in fewer than {report.min_count:,} baskets",
        other=other,
    )
    hand_out(options, release, drawn="ties were", changed="changed")


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
