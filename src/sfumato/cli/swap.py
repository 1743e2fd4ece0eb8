"""`sfumato swap`: a copy of true records with confidential values exchanged, and what that cost
and bought.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato import plots
from sfumato.cli.options import Force, Json, Output
from sfumato.cli.owner import (
    Bin,
    Confidential,
    Data,
    DossierFile,
    Keys,
    Nulls,
    Plot,
    Reveal,
    Seed,
    chance,
    check_targets,
    classifier_named,
    hand_out,
    read_records,
    told_as_options,
)
from sfumato.cli.pages import bars_told, owners_origin, save_page
from sfumato.cli.printing import print_facts, print_notes, print_words, telling
from sfumato.errors import ParameterError, listing
from sfumato.printable import percent
from sfumato.publish.dossier import swap_dossier
from sfumato.publish.intruder import Intruder
from sfumato.publish.swap import SwapRelease, SwapReport, swap_proportions
from sfumato.publish.swap import swap as swap_records
from sfumato.report import Block, Facts, Heading, Listing, Paragraph, Picture, save_figure

PROPORTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
ANY = "any"
GUESSED = "guessed right"  # a share; the other quantities have units of their own
MEASURED = (
    "The objective is how much less probable the values shown are, given the keys, than the true "
    "ones, summed over the records; two-way tables are those of the column with each key, and "
    "the share of their records that moved"
)


def swap(
    data: Data,
    output: Output,
    confidential: Confidential,
    proportion: Annotated[
        float,
        typer.Option(metavar="P", help="The share of the unique records to change, in (0, 1]."),
    ],
    max_posterior: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help=(
                "The most that may be known: of the unique records that show a value, no larger "
                "share truly has any one value. Unless given 0.9, which leaves out values that one "
                "or two of them hold."
            ),
        ),
    ] = None,
    drift: Annotated[
        str,
        typer.Option(
            metavar="N",
            help=(
                "Let the totals move by so many records, each counted once; any: as little as "
                "must be."
            ),
        ),
    ] = "0",
    method: Annotated[
        str, typer.Option(help="optimal, greedy (the paper's two phases) or random.")
    ] = "optimal",
    conditional: Annotated[
        str, typer.Option(help="What a value is expected to be from the keys: bayes or tree.")
    ] = "bayes",
    jointly: Annotated[
        bool, typer.Option("--jointly", help="Several confidential columns as one; else in turn.")
    ] = False,
    release_raw: Annotated[
        bool,
        typer.Option("--release-raw", help="Release what --bin cut as it was, not in its bins."),
    ] = False,
    classifier: Annotated[
        str, typer.Option(help="Judge the release by a tree, bayes or none.")
    ] = "tree",
    keys: Keys = None,
    bin: Bin = None,
    nulls: Nulls = "value",
    seed: Seed = None,
    reveal: Reveal = None,
    dossier: DossierFile = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Release records with confidential values exchanged so that no one's keys give theirs away (Li
    and Sarkar 2004).

    The totals stay unless --drift lets them move; columns cut by --bin are released in their bins.

    Example: sfumato swap adult.csv -o release.csv --confidential income
    --proportion 0.2 --bin age=frequency:5
    """
    options = dict(locals())
    check_targets(options)
    records, asked = read_records(data, confidential, keys, bin, nulls)
    same = ("method", "conditional", "jointly", "max_posterior", "release_raw")
    how = {name: options[name] for name in same}
    how |= {"drift": allowed_drift(drift), "rng": chance(seed)}
    judge = classifier_named(classifier)
    with telling() as progress, told_as_options(("proportion", *how)):
        how |= asked
        release = swap_records(records, proportion, classifier=judge, progress=progress, **how)
        tried = (
            swap_proportions(records, PROPORTIONS, progress=progress, **how)
            if plot is not None and plot.suffix == ".html"
            else ()
        )
    if plot is not None:
        draw_swap(release, tried, data, plot)
    hand_out(
        options,
        release,
        swap_dossier(release),
        print_swap,
        drawn="ties were",
        changed="changed rows",
        notes=release.notes,
        keys=list(asked["keys"]),
        classifier=judge,  # which need not be the one asked for
        max_posterior=release.reports[0].max_posterior,
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


def print_swap(release: SwapRelease, output: Path) -> None:
    """What a swap did, cost and bought, one confidential column after the other."""
    print_words(
        f"written: {output} ({int(release.changed.sum()):,} of {release.table.num_rows:,} records "
        f"changed, {release.seconds:.1f} s)"
    )
    for report in release.reports:
        print_words(f"\n{report.confidential}, {report.method}")
        print_facts([*_done(report), *_cost_facts(report)])
        for intruder in (report.cost.intruder, *report.single):
            print_intruder(intruder, report.max_posterior)
        print_notes(report.notes)
    print()
    for name, risk in release.released_risks.items():
        print_words(
            f"{name} as released: {risk.sample_uniques:,} records unique by their keys; the keys "
            f"of {risk.collective:,} more show one value only"
        )


def _done(report: SwapReport) -> list[tuple[str, str]]:
    proof = (
        ""
        if report.bound is None
        else f" (lower bound {report.bound:.4f}{', proved optimal' if report.optimal else ''})"
    )
    return [
        (
            "changed",
            f"{report.changed_unique:,} unique records, one in each of {report.changed_groups:,} "
            "groups",
        ),
        ("objective", f"{report.objective:.4f}{proof}"),
        ("time", f"{report.seconds:.2f} s for the exchange"),
    ]


def _cost_facts(report: SwapReport) -> list[tuple[str, str]]:
    cost = report.cost
    facts = [
        ("totals moved by", f"{cost.marginal_drift:,} records"),
        (
            "I-divergence of the joint",
            f"{cost.i_divergence:.4f} nats (half a record added to each cell)",
        ),
        (
            "two-way tables changed by",
            f"{cost.mean_two_way:.4f} on average, {max(cost.two_way.values()):.4f} at most",
        ),
    ]
    found = cost.classification
    if found is not None:
        words = (
            f"{percent(found.trained_on_release, 2)} trained on the release, "
            f"{percent(found.trained_on_truth, 2)} on the truth ({found.model})"
        )
        facts.append(("classification error", words))
    return facts


def print_intruder(intruder: Intruder, limit: float) -> None:
    """What guesses of one column come to, for one who knows nothing and for one who knows all."""
    if intruder.unique:
        print_words(
            f"\nan intruder is right about {intruder.confidential} for this share of the "
            f"{intruder.unique:,} unique records"
        )
        print_facts(_guesses(intruder, limit))
    if intruder.grouped:
        told = (
            f"; {intruder.groups_told:,} are still told for certain" if intruder.groups_told else ""
        )
        print_words(
            f"and for {_share(intruder.groups_informed)} of the {intruder.grouped:,} records of "
            f"groups that shared one value (most of them still show it){told}"
        )


def _guesses(intruder: Intruder, limit: float) -> list[tuple[str, str]]:
    facts = [
        ("without the release", f"{_share(intruder.baseline)} (always '{intruder.commonest}')"),
        ("believing what is shown", _share(intruder.believing)),
        ("knowing how it was made", _share(intruder.informed)),
        (
            "and weighing the keys",
            f"{_share(intruder.weighing_keys)} ({_share(intruder.keys_alone)} from the keys alone)",
        ),
    ]
    worst = intruder.worst
    if worst is not None:
        facts.append(
            (
                "worst shown value",
                f"'{worst.shown}': of {worst.records:,} records {percent(worst.posterior)} are "
                f"truly '{worst.likeliest}' (at most {percent(limit, 0)} were allowed)",
            )
        )
    return facts


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


def draw_swap(
    release: SwapRelease, tried: Sequence[SwapReport | None], data: str, path: Path
) -> None:
    """Risk before and after, and on a page, of every column, also what other proportions would
    cost.
    """
    report = release.reports[0]
    if path.suffix != ".html":
        save_figure(release.plot(), path)
        return
    blocks = [block for each in release.reports for block in _risks(each)]
    promised = "no gamma; against the intruder described, see the figures"
    origin = owners_origin(data, report.records, f"swapping ({report.method})", promised)
    names = listing([each.confidential for each in release.reports])
    save_page(f"Swapping {names}", [*blocks, *_trade_off(report, tried)], origin, path)


def _trade_off(report: SwapReport, tried: Sequence[SwapReport | None]) -> list[Block]:
    """What other proportions would cost and buy for a column, drawn and as a table."""
    traced = {
        "objective": {report.method: _traced(tried, lambda one: one.objective)},
        "two-way tables": {report.method: _traced(tried, lambda one: one.cost.mean_two_way)},
        GUESSED: {
            "informed": _traced(tried, lambda one: one.cost.intruder.informed),
            "believing": _traced(tried, lambda one: one.cost.intruder.believing),
            "no release": _traced(tried, lambda one: one.cost.intruder.baseline),
        },
    }
    panels = {
        f"{title}, %" if title == GUESSED else title: [
            plots.Series(name, [(100 if title == GUESSED else 1) * value for value in values])
            for name, values in lines.items()
        ]
        for title, lines in traced.items()
    }
    drawn = plots.trade_off(PROPORTIONS, panels, across="proportion p of the unique records")
    columns = [
        f"{title}, {name}" if len(lines) > 1 else title
        for title, lines in traced.items()
        for name in lines
    ]
    values = [
        [None if math.isnan(v) else percent(v) if title == GUESSED else v for v in line]
        for title, lines in traced.items()
        for line in lines.values()
    ]
    caption = (
        f"What other proportions cost and buy for {report.confidential}; a gap where one cannot "
        f"be had. {MEASURED}"
    )
    return [
        Heading("Other proportions"),
        Picture.of(drawn[0], caption, alt=f"{caption} {plots.told(drawn)}"),
        Listing(("proportion", *columns), list(zip(PROPORTIONS, *values, strict=True))),
    ]


def _risks(report: SwapReport) -> list[Block]:
    """The records at risk of one column, drawn and as a table, and what its release cost."""
    facts = [*_done(report), *_cost_facts(report)]
    guessed = _guesses(report.cost.intruder, report.max_posterior)
    return [
        Heading(f"{report.confidential}: records at risk"),
        Picture.of(report.plot(), "Records at risk before and after", alt=_bars_told(report)),
        Listing(("", "before", "after"), _risk_lines(report)),
        Facts(facts),
        Paragraph(
            f"An intruder is right about {report.confidential} for this share of the "
            f"{report.cost.intruder.unique:,} unique records:"
        ),
        Facts(guessed),
    ]


def _risk_lines(report: SwapReport) -> list[tuple[str, float, float]]:
    """The records at risk before and after, as they are drawn."""
    cost = report.cost
    guessed = round((cost.intruder.informed or 0) * cost.intruder.unique)
    return [
        ("unique", cost.before.unique, cost.after.unique),
        ("collective", cost.before.collective, cost.after.collective),
        ("guessed of the unique", cost.before.unique, guessed),
    ]


def _bars_told(report: SwapReport) -> str:
    labels, before, after = zip(*_risk_lines(report), strict=True)
    return bars_told("records at risk", labels, before, after)


def _traced(tried: Sequence[SwapReport | None], quantity: Any) -> list[float]:
    """A quantity over the proportions, not a number where a proportion cannot be had."""
    values = [None if one is None else quantity(one) for one in tried]
    return [float("nan") if value is None else value for value in values]
