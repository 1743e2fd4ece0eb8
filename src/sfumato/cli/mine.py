"""`sfumato mine`: frequent itemsets and association rules, each with its standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import (
    Engine,
    Fit,
    Force,
    Form,
    Items,
    Json,
    NoCache,
    Schema,
    among,
    check_drawing_target,
)
from sfumato.cli.pages import origin_of, with_origin
from sfumato.cli.printing import print_json, print_notes, telling
from sfumato.cli.printing import show as show_view
from sfumato.cli.round_options import earlier, rounds_up_to
from sfumato.cli.sources import read_source, read_truth
from sfumato.errors import ParameterError, listing, near_miss
from sfumato.estimation.supports.symbols import SymbolSupports
from sfumato.evaluate import ErrorsByLength, beside_truth, itemset_errors
from sfumato.mine.itemsets import Itemsets, Level, frequent_itemsets
from sfumato.mine.rules import Rules, association_rules
from sfumato.progress import Progress, silent
from sfumato.result import save_view, write_whole
from sfumato.source import Exact, Release, Source
from sfumato.table import check_named, read_names
from sfumato.view import LISTED, View

SORTS = ("support", "lift", "confidence")
WHAT, TRUST = "What is frequent", "How errors are treated"


def mine(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="A perturbed file, or true records or baskets; - is standard input. Several "
            "are the rounds of one series.",
        ),
    ],
    min_support: Annotated[
        float | None,
        typer.Option(help="The least share of rows, a fraction.", rich_help_panel=WHAT),
    ] = None,
    min_count: Annotated[
        float | None, typer.Option(help="The least number of rows, instead.", rich_help_panel=WHAT)
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(help="Only so many itemsets of largest support.", rich_help_panel=WHAT),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="The longest itemsets looked for.", rich_help_panel=WHAT)
    ] = None,
    maximal: Annotated[
        bool,
        typer.Option(
            "--maximal", help="Only itemsets with no frequent superset.", rich_help_panel=WHAT
        ),
    ] = False,
    closed: Annotated[
        bool,
        typer.Option(
            "--closed",
            help="Only itemsets with no superset of the same support.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    relax: Annotated[
        float,
        typer.Option(
            help="Report from (1-R)·min-support on (MASK §6).", metavar="R", rich_help_panel=TRUST
        ),
    ] = 0.0,
    level: Annotated[
        float | None,
        typer.Option(
            help="Report what is frequent with this probability: the better form of --relax.",
            rich_help_panel=TRUST,
        ),
    ] = None,
    max_candidates: Annotated[
        int, typer.Option(help="Stop where one length would need more.", rich_help_panel=TRUST)
    ] = 10_000_000,
    rules: Annotated[bool, typer.Option("--rules", help="Association rules too.")] = False,
    min_confidence: Annotated[float, typer.Option(help="The least confidence of a rule.")] = 0.8,
    max_consequents: Annotated[
        int | None, typer.Option(min=1, help="The most items of a rule's 'then'.")
    ] = None,
    truth: Annotated[
        str | None, typer.Option(metavar="DATA", help="The true data: errors by length.")
    ] = None,
    schema: Schema = None,
    items: Items = None,
    form: Form = None,
    names: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="What items are called, a line each: id,name. For what is shown."
        ),
    ] = None,
    engine: Engine = None,
    fit: Fit = False,
    no_cache: NoCache = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw the result: .html, .png or .svg.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Write all itemsets (or rules) as .csv, .json or .parquet.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="BY",
            help="support, or of rules lift or confidence, the surest first (less two standard "
            "errors); else the shortest itemsets first, and rules by confidence.",
            autocompletion=among(("support", "lift", "confidence")),
        ),
    ] = None,
    show: Annotated[int, typer.Option(help="How many lines of each table to print.")] = 20,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find frequent itemsets and rules in perturbed (or true) data, with standard errors.

    Example: sfumato mine census.parquet --min-support 0.02 --rules --min-confidence 0.6
    """
    _check_asked(maximal and closed, min_confidence, sort, rules, (plot, output), force)
    _check_threshold(min_support, min_count, top)
    called = None if names is None else read_names(names)
    how: dict[str, Any] = {"cache": not no_cache, "form": None if truth else form, "fit": fit}
    limits = {"max_length": max_length, "max_candidates": max_candidates}
    wanted: dict[str, Any] = {"min_count": min_count, "top": top, **limits}
    with telling() as tell:
        source = mined_source(files, schema, items, engine, **how, tell=tell)
        exact = None if truth is None else _truth_beside(files[0], truth, source, form, tell)
        found = frequent_itemsets(
            source,
            min_support,
            relax=relax,
            level=level,
            progress=levels(tell),
            **wanted,
        )
    wanted = {"min_confidence": min_confidence, "max_consequents": max_consequents}
    errors = None
    if exact is not None:
        found = beside_truth(found, exact)
        errors = itemset_errors(found, _mined_truth(exact, found, top, max_length, max_candidates))
    if called is not None:
        print_notes(unnamed_notes(source, called))
        found = found.named(called)
    implied = association_rules(found, **wanted) if rules else None
    shown = found.maximal() if maximal else found.closed() if closed else found
    if output is not None:
        write_result(implied if implied is not None else shown, output, sort)
    view = mined_view(shown, implied, errors, sort, max(show, LISTED))
    if plot is not None:
        save_view(with_origin(view, origin_of(files[0], source)), plot)
    notes = [*shown.suppositions, *_length_notes(source, found, max_length)]
    notes += _nothing_notes(found, implied, max_length)
    if json:
        print_json(result_dict(source.rows, shown, implied, errors, sort))
        print_notes(notes)
    else:
        show_view(replace(view, notes=notes), most=show)


def mined_source(
    files: list[str], schema: Path | None, items: Path | None, engine: str | None, **how: Any
) -> Source:
    """The source in a file, or the rounds that several files are, or a campaign has."""
    if len(files) == 1:
        source = read_source(files[0], schema, items, engine, **how)
        rounds = rounds_up_to(files[0], source)
        return source if len(rounds) == 1 or how["fit"] else earlier(rounds)
    if schema or items or engine or how["fit"]:
        raise ParameterError(
            "several files are the rounds of one series, which carry their own items",
            hint="leave --schema, --items, --engine and --fit out",
        )
    return earlier(files)


def _length_notes(source: Source, found: Itemsets, asked: int | None) -> list[str]:
    """Which itemsets no report held together, in words, unless shorter ones are asked for."""
    longest = found.supports.longest
    if longest is None or (asked is not None and asked <= longest) or not len(found):
        return []
    if isinstance(source, Release) and source.mechanism.at_once is not None:
        return [f"itemsets of more than {longest} need a model: add --fit"]
    if found.round is not None:
        return [
            f"this is round {found.round} alone, of a part of the people: mine all rounds "
            "together, as in sfumato mine ROUND1 ROUND2 ROUND3"
        ]
    if isinstance(found.supports, SymbolSupports):
        return [
            f"nobody was asked about more than {longest} {'item' if longest == 1 else 'items'} "
            "together, so nothing is known of longer itemsets and their rules: ask in rounds "
            "(perturb --round 1), or about itemsets you name (--candidates)"
        ]
    return [f"reports hold {longest} items at most: of longer itemsets they say nothing"]


def _nothing_notes(found: Itemsets, implied: Rules | None, asked: int | None) -> list[str]:
    """Why nothing was found, and what would do, in words."""
    people = "" if found.supports.exact else "; more people or a larger gamma tell more"
    if not len(found):
        lower = "lower it, or see the strongest by --top 20"
        why = "what does is lost in its errors" if found.left_out else lower
        return [f"no itemset reaches support {found.min_support:.4g}: {why}{people}"]
    said = found.lost is not None or found.supports.longest == 1
    if implied is None or len(implied) or said:
        return []
    if asked == 1:
        return ["a rule needs two items at least: raise --max-length"]
    if max(found.by_length()) == 1:
        return [f"a rule needs two items, and no two reach this support: lower it{people}"]
    return [f"no rule between these itemsets is as sure: lower --min-confidence{people}"]


def _check_asked(
    twice: bool,
    min_confidence: float,
    sort: str | None,
    rules: bool,
    targets: Iterable[Path | None],
    force: bool,
) -> None:
    """Refuse what cannot be done before anything is read."""
    if twice:
        raise ParameterError("give --maximal or --closed, not both")
    check_fraction("--min-confidence", min_confidence)
    _check_sort(sort, rules)
    for path in targets:
        check_drawing_target(path, force)


def _check_threshold(*asked: float | None) -> None:
    if all(each is None for each in asked):
        raise ParameterError(
            "say what is frequent: --min-support, --min-count or --top",
            hint="--top 20 finds the twenty of largest support",
        )


def _check_sort(by: str | None, rules: bool) -> None:
    if by is not None and by not in SORTS:
        raise ParameterError(f"cannot sort by '{by}' ({listing(SORTS)})", hint=near_miss(by, SORTS))
    if by in ("lift", "confidence") and not rules:
        raise ParameterError(f"only rules have a {by}", hint="add --rules, or use --sort support")


def _truth_beside(file: str, truth: str, source: Source, form: str | None, tell: Progress) -> Exact:
    """The true records of a release; of true records nothing else is the truth."""
    if isinstance(source, Exact):
        raise ParameterError(
            f"'{file}' is itself the truth", hint="--truth goes with a perturbed file"
        )
    return read_truth(truth, source, form, tell=tell)


def _mined_truth(
    exact: Exact, found: Itemsets, top: int | None, max_length: int | None, max_candidates: int
) -> Itemsets:

    if top is not None:
        return frequent_itemsets(
            exact, top=top, max_length=max_length, max_candidates=max_candidates
        )
    return frequent_itemsets(
        exact, found.min_support, max_length=max_length, max_candidates=max_candidates
    )


def unnamed_notes(source: Source, called: Mapping[str, str]) -> tuple[str, ...]:
    """A note where items of the source have no name; refused where none has."""
    unnamed, items = check_named("--names", source.domain, called)
    return (f"{unnamed} of {items} items have no name there",) if unnamed else ()


def check_fraction(name: str, value: float) -> None:
    """Refuse what is no share of a whole."""
    if not 0 <= value <= 1:
        raise ParameterError(f"{name} {value:g} is no fraction; use a number from 0 to 1")


def levels(tell: Progress) -> Callable[[Level], None] | None:
    """What tells a terminal of each finished length, in a line that stays; None elsewhere."""
    if tell is silent:
        return None
    tell("mining length 1", None)

    def step(done: Level) -> None:
        line = f"length {done.length}: {done.candidates:,} candidates, {done.kept:,} kept"
        print(line, file=sys.stderr, flush=True)
        tell(f"mining length {done.length + 1}", None)

    return step


def result_dict(
    rows: int,
    found: Itemsets,
    implied: Rules | None,
    errors: ErrorsByLength | None,
    by: str | None = None,
) -> dict[str, Any]:
    """The JSON shape of the command, in the order that was asked for."""
    result: dict[str, Any] = {
        "rows": rows,
        "min_support": found.min_support,
        "false_discovery_rate": found.false_discoveries,
        "itemsets": found.to_dicts(by="support" if by == "support" else None),
    }
    if found.untold is not None:
        result["untold"] = found.untold
    if implied is not None:
        result["rules"] = (implied if by is None else implied.strongest(by)).to_dicts()
    if errors is not None:
        result["errors"] = [error.to_dict() for error in errors]
    return result


def write_result(result: Itemsets | Rules, path: Path, by: str | None = None) -> None:
    """The whole result as a file, in the form its name says and the order that was asked for."""
    ordered: dict[str, Any] = {}
    if isinstance(result, Rules):
        result = result if by is None else result.strongest(by)
    else:
        ordered = {"by": by}
    if path.suffix == ".csv":
        write_whole(path, result.to_csv(**ordered).encode())
    elif path.suffix == ".json":
        write_whole(path, result.to_json(**ordered).encode())
    elif path.suffix == ".parquet":
        import io

        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(result.to_arrow(**ordered), buffer)
        write_whole(path, buffer.getvalue())
    else:
        raise ParameterError(f"'{path}' should end in .csv, .json or .parquet")


def mined_view(
    found: Itemsets,
    implied: Rules | None,
    errors: ErrorsByLength | None,
    by: str | None,
    most: int,
) -> View:
    """The itemsets, shortest or strongest first, their rules, and how far both are from the truth
    where it is known.
    """
    parts = [] if implied is None else [implied.view(by or "confidence", most)]
    parts += [] if errors is None else [errors.view()]
    return replace(found.view("support" if by == "support" else "length", most), sections=parts)
