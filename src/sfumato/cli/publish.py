"""`sfumato identify`, `swap` and `hide`: a data owner's look at true data, and copies
to hand out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sfumato.cli.options import Force, Items, Json, Output, check_drawing_target, check_output

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.publish.hide import HideReport
    from sfumato.publish.identify import Identification
    from sfumato.publish.microdata import Binning, Microdata
    from sfumato.publish.restriction import Restriction
    from sfumato.publish.swap import SwapRelease, SwapReport
    from sfumato.randomness import Keystream
    from sfumato.table import Table

PROPORTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
DISCLOSURES = (0.0, 0.1, 0.2, 0.3, 0.4)
SHOWN, DRAWN = 10, 8

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="True records: .csv, .csv.gz or .parquet; - is standard input."
    ),
]
Confidential = Annotated[
    list[str],
    typer.Option(
        "--confidential",
        metavar="A",
        help="A column that must not be told from the others; may be repeated.",
    ),
]
Keys = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="What an intruder may know; else every column that is not confidential."
    ),
]
Bin = Annotated[
    list[str] | None,
    typer.Option(
        "--bin",
        metavar="A=HOW",
        help=(
            "Cut a number for matching: age=frequency:5, age=width:5 or age=35,55; may be repeated."
        ),
    ),
]
Nulls = Annotated[
    str,
    typer.Option(metavar="HOW", help="value: a null is a value of its own; error: refuse nulls."),
]
Plot = Annotated[
    Path | None, typer.Option(metavar="OUT", help="Draw the result: .html, .png or .svg.")
]
Seed = Annotated[
    int | None, typer.Option(help="Draw ties from this seed: an experiment, not for release.")
]
Reveal = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write which rows were changed to this JSON file: for the owner alone."
    ),
]


def identify(
    data: Data,
    confidential: Confidential,
    keys: Keys = None,
    bin: Bin = None,
    nulls: Nulls = "value",
    bins: Annotated[
        int, typer.Option(help="How many bins to try when asking what binning a column would save.")
    ] = 4,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Which records can be told apart by their keys, and which columns give them away.

    Example: sfumato identify adult.csv --confidential income --bin age=frequency:5
    """
    from sfumato.cli.printing import print_json
    from sfumato.publish.identify import identify as identify_records

    check_drawing_target(plot, force)
    microdata = read_microdata(data, confidential, keys, bin, nulls)
    with told() as progress:
        found = identify_records(microdata, bins=bins, progress=progress)
    if plot is not None:
        draw_identification(found, plot)
    print_json(found.to_dict()) if json else print_identification(found)


def swap(
    data: Data,
    output: Output,
    confidential: Confidential,
    proportion: Annotated[
        float,
        typer.Option(metavar="P", help="The share of the unique records to change, in (0, 1]."),
    ],
    method: Annotated[
        str, typer.Option(help="optimal, greedy (the paper's two phases) or random.")
    ] = "optimal",
    conditional: Annotated[
        str, typer.Option(help="What a value is expected to be from the keys: bayes or tree.")
    ] = "bayes",
    jointly: Annotated[
        bool, typer.Option("--jointly", help="Several confidential columns as one; else in turn.")
    ] = False,
    drift: Annotated[
        int,
        typer.Option(
            help="Let the totals move by so many records in all, for a lower cost (optimal only)."
        ),
    ] = 0,
    classifier: Annotated[
        str, typer.Option(help="Judge the release by a tree, bayes or none.")
    ] = "tree",
    keys: Keys = None,
    bin: Bin = None,
    nulls: Nulls = "value",
    seed: Seed = None,
    reveal: Reveal = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Release records with confidential values exchanged so that no one's keys give theirs away (Li
    and Sarkar 2004).

    Example: sfumato swap adult.csv -o release.csv --confidential income --proportion 0.5 --bin
    age=frequency:5
    """
    from sfumato.cli.printing import print_json, print_notes
    from sfumato.publish.swap import swap as swap_records

    check_record_output(output, force, json)
    for path in (plot, reveal):
        check_drawing_target(path, force)
    microdata = read_microdata(data, confidential, keys, bin, nulls)
    options: dict[str, Any] = {"method": method, "conditional": conditional, "jointly": jointly}
    with told() as progress:
        release = swap_records(
            microdata,
            proportion,
            drift=drift,
            classifier=_classifier(classifier),
            rng=_rng(seed),
            progress=progress,
            **options,
        )
        if plot is not None:
            draw_swap(microdata, release, options, plot, progress)
    write_records(release.table, output)
    if reveal is not None:
        _write_json(reveal, {"changed_rows": (release.changed.nonzero()[0] + 1).tolist()})
    if seed is not None:
        print_notes(["ties were drawn from a seed: an experiment, not for release"])
    if json:
        print_json({**release.to_dict(), "output": str(output)})
    elif str(output) != "-":
        print_swap(release, output)


def hide(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="True baskets: .dat or .dat.gz; - is standard input."),
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
        str, typer.Option(help="cover (ours, loses least), iga, minfia, maxfia or naive.")
    ] = "cover",
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
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Release baskets from which chosen itemsets and rules can no longer be mined.

    Example: sfumato hide retail.dat.gz -o release.dat --patterns secret.txt --min-support 0.003
    """
    from sfumato.bits import Bits
    from sfumato.cli.printing import print_json, print_notes
    from sfumato.publish.hide import hide as hide_patterns
    from sfumato.table import Table, save

    check_output(output, force, json)
    for path in (plot, reveal):
        check_drawing_target(path, force)
    table = read_baskets(data, items)
    names = table.domain.attributes[0].labels
    restrictions = read_patterns(patterns, names)
    bits = table.columns[0]
    assert isinstance(bits, Bits)
    count = least_count(min_support, min_count, bits.rows)
    how: dict[str, Any] = {"min_confidence": min_confidence, "seconds": seconds}
    with told() as progress:
        release = hide_patterns(
            bits,
            names,
            restrictions,
            count,
            method=method,
            disclosure=disclosure,
            rng=_rng(seed),
            progress=progress,
            **how,
        )
        if plot is not None:
            draw_hiding(bits, names, restrictions, count, release.report, how, plot, progress)
    save(Table(table.domain, (release.bits,)), output, force=force)
    if reveal is not None:
        pairs = {"removed": release.removed, "added": release.added}
        rows = {
            word: [[int(r) + 1, names[i]] for r, i in zip(c.rows, c.items, strict=True)]
            for word, c in pairs.items()
        }
        _write_json(reveal, rows)
    if seed is not None:
        print_notes(["ties were drawn from a seed: an experiment, not for release"])
    print_notes(release.report.notes)
    if json:
        print_json({**release.report.to_dict(), "output": str(output)})
    elif str(output) != "-":
        print_hiding(release.report, output)


def read_microdata(
    data: str, confidential: Sequence[str], keys: str | None, bin: Sequence[str] | None, nulls: str
) -> Microdata:
    """The true records of a file with their columns coded."""
    from sfumato.errors import ParameterError
    from sfumato.publish.microdata import Microdata

    if nulls not in ("value", "error"):
        raise ParameterError(f"--nulls {nulls}", hint="use value or error")
    names = [name for text in confidential for name in text.split(",")]
    chosen = None if keys is None else [name.strip() for name in keys.split(",")]
    how: Literal["value", "error"] = "error" if nulls == "error" else "value"
    return Microdata.read(read_records(data), names, keys=chosen, bins=read_bins(bin), nulls=how)


def read_records(data: str) -> pa.Table:
    """All columns of a file of true records, words as they stand there."""
    import pyarrow as pa

    from sfumato.errors import DataError, ParameterError
    from sfumato.table import reader_of
    from sfumato.table.readers import RecordReader

    reader = reader_of(data)
    if not isinstance(reader, RecordReader):
        raise ParameterError(
            f"'{data}' holds baskets, not records", hint="sfumato hide is for baskets"
        )
    if reader.description is not None:
        raise ParameterError(f"'{data}' is itself a perturbed file", hint="give the true records")
    batches = list(reader.arrow_batches(reader.names))
    if not sum(batch.num_rows for batch in batches):
        raise DataError(f"'{data}' has no rows")
    return pa.Table.from_batches(batches)


def read_bins(texts: Sequence[str] | None) -> dict[str, Binning]:
    """The binnings written as COLUMN=HOW."""
    from sfumato.errors import ParameterError
    from sfumato.publish.microdata import Binning

    bins = {}
    for text in texts or ():
        name, equals, how = text.partition("=")
        if not equals:
            raise ParameterError(
                f"--bin {text} does not say how",
                hint="write --bin age=frequency:5 or --bin age=35,55",
            )
        bins[name] = Binning.parse(how)
    return bins


def read_baskets(data: str, items: Path | None) -> Table:
    """The true baskets of a file."""
    from sfumato.cli.perturb import read_domain
    from sfumato.errors import ParameterError
    from sfumato.table import reader_of
    from sfumato.table.readers import BasketReader

    reader = reader_of(data)
    if not isinstance(reader, BasketReader):
        raise ParameterError(
            f"'{data}' holds records, not baskets", hint="sfumato swap is for records"
        )
    if reader.description is not None:
        raise ParameterError(f"'{data}' is itself a perturbed file", hint="give the true baskets")
    return reader.table(read_domain(reader, None, items))


def read_patterns(path: Path, names: Sequence[str]) -> tuple[Restriction, ...]:
    """The restrictions in a file."""
    from sfumato.errors import FileError
    from sfumato.publish.restriction import read_restrictions

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(
            f"cannot read '{path}': {getattr(error, 'strerror', None) or 'not UTF-8 text'}"
        ) from None
    return read_restrictions(text.splitlines(), names)


def least_count(min_support: float | None, min_count: int | None, rows: int) -> int:
    """The number of baskets from which a pattern is found."""
    import math

    from sfumato.errors import ParameterError

    if (min_support is None) == (min_count is None):
        raise ParameterError(
            "say what is frequent, one way", hint="give --min-support or --min-count"
        )
    if min_count is not None:
        return min_count
    if min_support is None or not 0 < min_support <= 1:
        raise ParameterError(f"--min-support {min_support} is no fraction", hint="use 0 < S <= 1")
    return max(1, math.ceil(min_support * rows * (1 - 1e-12)))


def check_record_output(output: Path, force: bool, json: bool) -> None:
    """Refuse what records cannot be written to."""
    from sfumato.errors import ParameterError

    check_output(output, force, json)
    if output.name.removesuffix(".gz").endswith(".dat"):
        raise ParameterError(
            f"'{output}' is a name for baskets", hint="end it in .csv, .csv.gz or .parquet"
        )


def write_records(table: pa.Table, output: Path) -> None:
    """The records as CSV or Parquet, as the file's name says, there whole or not at all."""
    import gzip
    import io

    from sfumato.report import write_whole

    buffer = io.BytesIO()
    if output.suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, buffer, compression="zstd")
    else:
        buffer.write(csv_text(table))
    content = buffer.getvalue()
    if str(output) == "-":
        sys.stdout.buffer.write(content)
    else:
        write_whole(
            output, gzip.compress(content, 6, mtime=0) if output.suffix == ".gz" else content
        )


def csv_text(table: pa.Table) -> bytes:
    """The records as CSV; a field is quoted where it must be, and an empty word so that it is not
    read back as a null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def fields(words: Any) -> Any:
        quoted = pc.binary_join_element_wise('"', pc.replace_substring(words, '"', '""'), '"', "")
        delicate = pc.or_(pc.match_substring_regex(words, '[",\\r\\n]'), pc.equal(words, ""))
        return pc.fill_null(pc.if_else(delicate, quoted, words), "")

    header = fields(pa.array(table.column_names)).to_pylist()
    columns = [fields(table[name].cast(pa.string())) for name in table.column_names]
    lines = pc.binary_join_element_wise(*columns, ",") if len(columns) > 1 else columns[0]
    return "".join(f"{line}\n" for line in (",".join(header), *lines.to_pylist())).encode()


def _write_json(path: Path, content: dict[str, Any]) -> None:
    import json

    from sfumato.report import write_whole

    write_whole(path, (json.dumps(content) + "\n").encode())


def _rng(seed: int | None) -> Keystream:
    from sfumato.randomness import secure, seeded

    return secure() if seed is None else seeded(seed)


def _classifier(name: str) -> Any:
    """The classifier asked for; bayes where the tree's library is not installed."""
    from importlib.util import find_spec

    from sfumato.cli.printing import print_notes
    from sfumato.errors import ParameterError

    if name not in ("tree", "bayes", "none"):
        raise ParameterError(f"no classifier '{name}'", hint="use tree, bayes or none")
    if name == "tree" and find_spec("sklearn") is None:
        print_notes(
            ["scikit-learn is not installed, so naive Bayes judges the release instead of a tree"]
        )
        return "bayes"
    return name


@contextmanager
def told() -> Iterator[Callable[[str], None] | None]:
    """A function that says on a terminal what is being done; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from sfumato.cli.printing import console

    with console(stderr=True).status("reading …") as status:
        yield lambda text: status.update(f"{text} …")


def print_identification(found: Identification) -> None:
    """Risk by confidential column, and what each key gives away."""
    from sfumato.cli.printing import print_facts, print_table

    for name, risk in zip(found.confidential, found.risks, strict=True):
        print(f"{risk.records:,} records, confidential: {name}")
        print_facts(
            [
                ("unique", f"{risk.unique:,}"),
                ("collective", f"{risk.collective:,} in {risk.groups:,} groups"),
                ("unidentifiable", f"{risk.unidentifiable:,}"),
                ("k-anonymity", str(risk.k_anonymity)),
                ("l-diversity", f"{risk.l_diversity} (by entropy {risk.entropy_l_diversity:.2f})"),
                ("sample uniques", f"{risk.sample_uniques:,}"),
                ("mean group", f"{risk.mean_group:.2f}"),
            ]
        )
    lines = [
        (
            role.name,
            str(role.values),
            f"{role.saved_by_dropping:,}",
            "–"
            if role.saved_by_binning is None
            else f"{role.saved_by_binning:,} ({role.bins} bins)",
        )
        for role in found.columns
    ]
    print("\nidentifiable records that each key would save")
    print_table(("key", "values", "if dropped", "if binned"), lines, left=1)


def print_swap(release: SwapRelease, output: Path) -> None:
    """What a swap did, cost and bought, one confidential column after the other."""
    from sfumato.cli.printing import print_facts, print_notes

    print(
        f"written: {output} ({int(release.changed.sum()):,} of {release.table.num_rows:,} records "
        "changed)"
    )
    for report in release.reports:
        print(f"\n{report.confidential}, {report.method}")
        print_facts([*_done(report), *_cost_facts(report)])
        print_notes(report.notes)
    for name, risk in release.released_risks.items():
        print(
            f"{name} as released: {risk.identifiable:,} records whose keys show one value only, "
            f"{risk.unique:,} of them alone"
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
        ("time", f"{report.seconds:.2f} s"),
    ]


def _cost_facts(report: SwapReport) -> list[tuple[str, str]]:
    cost, after, before = report.cost, report.cost.attack_after, report.cost.attack_before
    facts = [
        ("totals moved by", f"{cost.marginal_drift} records"),
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
        words = f"{found.trained_on_release:.2%} trained on the release, {found.trained_on_truth:.2%} on the truth ({found.model})"
        facts.append(("classification error", words))
    if before.identifiable is not None and after.identifiable is not None:
        share = (
            f"{after.identifiable:.1%} of those identifiable before, then {before.identifiable:.0%}"
        )
        words = f"{share}; {after.everyone:.1%} of all"
        facts.append(("an intruder is right about", words))
    return facts


def print_hiding(report: HideReport, output: Path) -> None:
    """What was hidden and what it cost."""
    from sfumato.cli.printing import print_facts, print_table

    print(f"written: {output}")
    print_facts(
        [
            ("hiding failure", f"{report.hiding_failure:.1%}"),
            ("misses cost", f"{report.misses_cost:.2%} of {report.lawful:,} lawful itemsets"),
            ("artifactual", f"{report.artifactual:.2%}"),
            (
                "dissimilarity",
                f"{report.dissimilarity:.3%} ({report.removed:,} items removed, {report.added:,} "
                "added)",
            ),
            ("baskets changed", f"{report.changed_transactions:,} of {report.rows:,}"),
            (
                "frequent itemsets",
                f"{report.frequent_before:,} before, {report.frequent_after:,} after",
            ),
            ("time", f"{report.seconds:.2f} s"),
        ]
    )
    lines = [
        (
            hidden.pattern,
            str(hidden.count_before),
            str(hidden.count_after),
            _change(hidden.confidence_before, hidden.confidence_after),
            _change(hidden.reverse_before, hidden.reverse_after),
            "found" if hidden.found_after else "hidden",
        )
        for hidden in report.patterns
    ]
    print_table(("pattern", "count", "after", "confidence", "reverse", ""), lines, left=1)
    if report.lost:
        shown = "; ".join(" ".join(items) for items in report.lost[:SHOWN])
        rest = (
            f" and {len(report.lost) - SHOWN} more (--json for all)"
            if len(report.lost) > SHOWN
            else ""
        )
        print(f"lost: {shown}{rest}")


def _change(before: float | None, after: float | None) -> str:
    return "" if before is None else f"{before:.3f} → {after or 0:.3f}"


def draw_identification(found: Identification, path: Path) -> None:
    """What each key gives away: identifiable records with it, and without it."""
    from sfumato import plots
    from sfumato.report import save_figure

    telling = found.columns[:DRAWN]
    axes = plots.risk(
        [f"without {role.name}" for role in telling],
        [found.risk.identifiable] * len(telling),
        [role.identifiable_if_dropped for role in telling],
        quantity="identifiable records",
    )
    save_figure(axes, path, title="Identifiable records")


def draw_swap(
    microdata: Microdata,
    release: SwapRelease,
    options: dict[str, Any],
    path: Path,
    progress: Callable[[str], None] | None,
) -> None:
    """Risk before and after, and on a page also what other proportions would cost."""
    from sfumato import plots
    from sfumato.publish.swap import swap as swap_records
    from sfumato.report import Page, Picture, save_figure

    report = release.reports[0]
    before, after = report.cost.before, report.cost.after
    axes = plots.risk(
        ["unique", "collective", "guessed right"],
        [
            before.unique,
            before.collective,
            (report.cost.attack_before.identifiable or 0) * before.identifiable,
        ],
        [
            after.unique,
            after.collective,
            (report.cost.attack_after.identifiable or 0) * before.identifiable,
        ],
    )
    if path.suffix != ".html":
        save_figure(axes, path)
        return
    tried = []
    for proportion in PROPORTIONS:
        if progress:
            progress(f"trying proportion {proportion:g}")
        tried.append(swap_records(microdata, proportion, classifier="none", **options).reports[0])
    panels = {
        "objective": [plots.Series(report.method, [one.objective for one in tried])],
        "two-way tables": [plots.Series(report.method, [one.cost.mean_two_way for one in tried])],
        "guessed right": [
            plots.Series(report.method, [one.cost.attack_after.identifiable or 0 for one in tried])
        ],
    }
    drawn = plots.trade_off(PROPORTIONS, panels, across="proportion p of the unique records")
    blocks = [
        Picture.of(axes, "Records at risk before and after"),
        Picture.of(drawn[0], "What other proportions cost and buy"),
    ]
    Page(f"Swapping {report.confidential}", blocks).save(path)


def draw_hiding(
    bits: Any,
    names: Sequence[str],
    restrictions: Sequence[Restriction],
    min_count: int,
    report: HideReport,
    how: dict[str, Any],
    path: Path,
    progress: Callable[[str], None] | None,
) -> None:
    """The counts of the patterns before and after, and on a page also what other ψ would cost."""
    from sfumato import plots
    from sfumato.publish.hide import HIDING_METHODS
    from sfumato.publish.hide import hide as hide_patterns
    from sfumato.report import Page, Picture, save_figure

    axes = plots.risk(
        [hidden.pattern for hidden in report.patterns],
        [hidden.count_before for hidden in report.patterns],
        [hidden.count_after for hidden in report.patterns],
        quantity="baskets with the pattern",
    )
    if path.suffix != ".html":
        save_figure(axes, path)
        return
    misses, failures = [], []
    for method in HIDING_METHODS:
        if progress:
            progress(f"trying {method} with other ψ")
        tried = [
            hide_patterns(
                bits, names, restrictions, min_count, method=method, disclosure=psi, **how
            ).report
            for psi in DISCLOSURES
        ]
        misses.append(plots.Series(method, [one.misses_cost for one in tried]))
        failures.append(plots.Series(method, [one.hiding_failure for one in tried]))
    drawn = plots.trade_off(
        DISCLOSURES,
        {"misses cost": misses, "hiding failure": failures},
        across="disclosure threshold ψ",
    )
    blocks = [
        Picture.of(axes, "Patterns before and after"),
        Picture.of(drawn[0], "What other ψ cost and hide"),
    ]
    Page("Hidden patterns", blocks).save(path)
