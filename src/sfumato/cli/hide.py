"""`sfumato hide`: a copy of true baskets from which chosen patterns cannot be mined, and what that
cost the others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sfumato import plots
from sfumato.cli.options import Force, Items, Json, Output
from sfumato.cli.owner import DossierFile, Plot, Reveal, Seed, chance, check_targets, hand_out
from sfumato.cli.pages import bars_told, owners_origin, save_page
from sfumato.cli.printing import (
    print_facts,
    print_table,
    print_words,
    telling,
    told,
)
from sfumato.errors import ParameterError
from sfumato.printable import percent
from sfumato.publish.baskets import baskets_of
from sfumato.publish.dossier import PATTERN_HEADS, hiding_dossier, hiding_facts, pattern_lines
from sfumato.publish.hide import HideRelease, HideReport, hide_disclosures
from sfumato.publish.hide import hide as hide_patterns
from sfumato.report import Block, Facts, Listing, Picture, save_figure
from sfumato.table import reader_of

DISCLOSURES = (0.0, 0.1, 0.2, 0.3, 0.4)
SHOWN = 10


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
        tried = (
            hide_disclosures(table, patterns, DISCLOSURES, progress=progress, **how)
            if plot is not None and plot.suffix == ".html"
            else {}
        )
    if plot is not None:
        draw_hiding(release.report, tried, data, plot)
    report = replace(release.report, seconds=time.perf_counter() - started)
    hand_out(
        options,
        replace(release, report=report),
        hiding_dossier(release),
        print_hiding,
        drawn="ties were",
        changed="changed",
        notes=report.notes,
    )


def wanted_margin(text: str) -> int | float:
    """A margin written as a number of baskets, a share, or per cent."""
    words = text.strip()
    try:
        value = float(words.removesuffix("%"))
    except ValueError:
        raise ParameterError(f"--margin {text} is no margin", hint="as in 20 or 5%") from None
    return value / 100 if words.endswith("%") else int(value) if value == int(value) else value


def print_hiding(release: HideRelease, output: Path) -> None:
    """What was hidden and what it cost."""
    report = release.report
    print_words(f"written: {output}")
    print_facts(_facts(report))
    print_table(PATTERN_HEADS, pattern_lines(report), left=1)
    if report.lost:
        shown = "; ".join(" ".join(items) for items in report.lost[:SHOWN])
        rest = (
            f" and {len(report.lost) - SHOWN} more (--json for all)"
            if len(report.lost) > SHOWN
            else ""
        )
        print_words(f"lost: {shown}{rest}")


def _facts(report: HideReport) -> list[tuple[str, str]]:
    time = f"{report.seconds:.2f} s ({report.hiding_seconds:.2f} s of it for the choice)"
    return [*hiding_facts(report), ("time", time)]


def draw_hiding(
    report: HideReport, tried: Mapping[str, Sequence[HideReport]], data: str, path: Path
) -> None:
    """The counts of the patterns before and after, and on a page also what other ψ would cost."""
    axes = report.plot()
    if path.suffix != ".html":
        save_figure(axes, path)
        return
    measures = {
        title: {name: [100 * getattr(one, what) for one in many] for name, many in tried.items()}
        for title, what in (("misses cost", "misses_cost"), ("hiding failure", "hiding_failure"))
    }
    panels = {
        f"{title}, %": [plots.Series(name, values) for name, values in lines.items()]
        for title, lines in measures.items()
    }
    drawn = plots.trade_off(DISCLOSURES, panels, across="disclosure threshold ψ")
    alt = bars_told(
        "baskets with the pattern",
        [hidden.pattern for hidden in report.patterns],
        [hidden.count_before for hidden in report.patterns],
        [hidden.count_after for hidden in report.patterns],
    )
    columns = [f"{name}, {title}" for title, lines in measures.items() for name in lines]
    values = [
        [percent(each / 100, 2) for each in line]
        for lines in measures.values()
        for line in lines.values()
    ]
    caption = "What other ψ cost and hide; lines that run together lie on one another, wider below"
    blocks: list[Block] = [
        Picture.of(axes, "Baskets with each pattern, before and after", alt=alt),
        Listing(PATTERN_HEADS, [[cell or None for cell in line] for line in pattern_lines(report)]),
        Facts(_facts(report)),
        Picture.of(drawn[0], caption, alt=f"{caption}. {plots.told(drawn)}"),
        Listing(("ψ", *columns), list(zip(DISCLOSURES, *values, strict=True))),
    ]
    promised = f"no gamma; the patterns are in fewer than {report.min_count:,} baskets"
    origin = owners_origin(data, report.rows, f"hiding ({report.method})", promised)
    save_page("Hidden patterns", blocks, origin, path)
