"""`sfumato mine`: frequent itemsets and association rules, each with its standard error."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from sfumato.cli.options import Options, argument, check_absent, option
from sfumato.cli.pages import Given
from sfumato.cli.printing import print_notes, progress_bar
from sfumato.cli.sources import Reading, earlier, read_truth, rounds_up_to
from sfumato.errors import ParameterError, listing, near_miss
from sfumato.estimation.supports.symbols import SymbolSupports
from sfumato.evaluate import ErrorsByLength, beside_truth, itemset_errors
from sfumato.mine.itemsets import Itemsets, frequent_itemsets
from sfumato.mine.rules import Rules, association_rules
from sfumato.mine.search import Level
from sfumato.progress import Progress, silent
from sfumato.release import Release
from sfumato.result import write_whole
from sfumato.source import Source
from sfumato.table import check_named, read_names
from sfumato.view import LISTED, View

SORTS = ("support", "lift", "confidence")
what = partial(option, panel="What is frequent")
trust = partial(option, panel="How errors are treated")


@dataclass(frozen=True)
class Frequent(Options):
    """Which itemsets are frequent, and how far errors are trusted."""

    min_support: Annotated[float | None, what("The least share of rows, a fraction.")] = None
    min_count: Annotated[float | None, what("The least number of rows, instead.")] = None
    top: Annotated[int | None, what("Only so many itemsets of largest support.")] = None
    max_length: Annotated[int | None, what("The longest itemsets looked for.")] = None
    maximal: Annotated[bool, what("Only itemsets with no frequent superset.")] = False
    closed: Annotated[bool, what("Only itemsets with no superset of the same support.")] = False
    relax: Annotated[float, trust("Report from (1-R)·min-support on (MASK §6).", metavar="R")] = 0.0
    level: Annotated[
        float | None,
        trust("Report what is frequent with this probability: the better form of --relax."),
    ] = None
    max_candidates: Annotated[int, trust("Stop where one length would need more.")] = 10_000_000

    def check(self) -> None:
        """Refuse what cannot be done before anything is read."""
        if self.maximal and self.closed:
            raise ParameterError("give --maximal or --closed, not both")
        if self.min_support is self.min_count is self.top is None:
            raise ParameterError(
                "say what is frequent: --min-support, --min-count or --top",
                hint="--top 20 finds the twenty of largest support",
            )

    def itemsets(self, source: Source, min_support: float | None = None, **how: Any) -> Itemsets:
        """The frequent itemsets of a source, or those from another support on."""
        how = {"max_length": self.max_length, "max_candidates": self.max_candidates, **how}
        return frequent_itemsets(source, min_support, **how)

    def found(self, source: Source, tell: Progress) -> Itemsets:
        """The frequent itemsets, as they were asked for."""
        how = {"min_count": self.min_count, "relax": self.relax, "level": self.level}
        show = levels(tell)
        return self.itemsets(source, self.min_support, top=self.top, progress=show, **how)

    def errors(self, found: Itemsets, truth: Source) -> ErrorsByLength:
        """How far what was found is from the same found in the truth."""
        wanted = {"min_support": found.min_support} if self.top is None else {"top": self.top}
        return itemset_errors(found, self.itemsets(truth, **wanted))

    def condensed(self, found: Itemsets) -> Itemsets:
        """Those of the itemsets that are shown."""
        return found.maximal() if self.maximal else found.closed() if self.closed else found


@dataclass(frozen=True)
class Listing(Options):
    """Which rules go with the itemsets, in which order all are listed, and where they are
    written.
    """

    rules: Annotated[bool, option("Association rules too.")] = False
    min_confidence: Annotated[float, option("The least confidence of a rule.")] = 0.8
    max_consequents: Annotated[int | None, option("The most items of a rule's 'then'.", min=1)] = (
        None
    )
    output: Annotated[
        Path | None,
        option(
            "Write all itemsets (or rules) as .csv, .json or .parquet.",
            "--output",
            "-o",
            metavar="OUT",
        ),
    ] = None
    sort: Annotated[
        str | None,
        option(
            "support, or of rules lift or confidence, the surest first (less two standard "
            "errors); else the shortest itemsets first, and rules by confidence.",
            metavar="BY",
            known=SORTS,
        ),
    ] = None
    show: Annotated[int, option("How many lines of each table to print.")] = 20

    def check(self, force: bool) -> None:
        """Refuse what cannot be done before anything is read."""
        if not 0 <= self.min_confidence <= 1:
            raise ParameterError(
                f"--min-confidence {self.min_confidence:g} is no fraction; use a number from 0 to 1"
            )
        by = self.sort
        if by is not None and by not in SORTS:
            raise ParameterError(
                f"cannot sort by '{by}' ({listing(SORTS)})", hint=near_miss(by, SORTS)
            )
        if by in ("lift", "confidence") and not self.rules:
            raise ParameterError(
                f"only rules have a {by}", hint="add --rules, or use --sort support"
            )
        check_absent(self.output, force)

    def implied(self, found: Itemsets) -> Rules | None:
        """The rules, where they are asked for."""
        if not self.rules:
            return None
        most = self.max_consequents
        return association_rules(found, min_confidence=self.min_confidence, max_consequents=most)

    def ordered(self, rules: Rules) -> Rules:
        """The rules in the order that was asked for."""
        return rules if self.sort is None else rules.strongest(self.sort)

    def write(self, found: Itemsets, implied: Rules | None) -> None:
        """All rules, or all itemsets, as a file in the form that its name says."""
        path = self.output
        if path is None:
            return
        by: dict[str, Any] = {"by": self.sort} if implied is None else {}
        result = found if implied is None else self.ordered(implied)
        if path.suffix == ".csv":
            octets = result.to_csv(**by).encode()
        elif path.suffix == ".json":
            octets = result.to_json(**by).encode()
        elif path.suffix == ".parquet":
            import pyarrow.parquet as pq

            buffer = io.BytesIO()
            pq.write_table(result.to_arrow(**by), buffer)
            octets = buffer.getvalue()
        else:
            raise ParameterError(f"'{path}' should end in .csv, .json or .parquet")
        write_whole(path, octets)

    def view(self, found: Itemsets, implied: Rules | None, errors: ErrorsByLength | None) -> View:
        """The itemsets, shortest or strongest first, their rules, and how far both are from the
        truth where it is known.
        """
        most = max(self.show, LISTED)
        parts = [] if implied is None else [implied.view(self.sort or "confidence", most)]
        parts += [] if errors is None else [errors.view()]
        by = "support" if self.sort == "support" else "length"
        return replace(found.view(by, most), sections=parts)

    def result(
        self, rows: int, found: Itemsets, implied: Rules | None, errors: ErrorsByLength | None
    ) -> dict[str, Any]:
        """The JSON shape of the command, in the order that was asked for."""
        result: dict[str, Any] = {
            "rows": rows,
            "min_support": found.min_support,
            "false_discovery_rate": found.false_discoveries,
            "itemsets": found.to_dicts(by="support" if self.sort == "support" else None),
        }
        if found.lost is not None:
            result["untold"] = found.lost.length
        if implied is not None:
            result["rules"] = self.ordered(implied).to_dicts()
        if errors is not None:
            result["errors"] = [error.to_dict() for error in errors]
        return result


def mine(
    files: Annotated[
        list[str],
        argument(
            "A perturbed file, or true records or baskets; - is standard input. Several are the "
            "rounds of one series.",
            "FILE…",
        ),
    ],
    frequent: Frequent = Frequent(),
    listed: Listing = Listing(),
    truth: Annotated[str | None, option("The true data: errors by length.", metavar="DATA")] = None,
    names: Annotated[
        Path | None,
        option("What items are called, a line each: id,name. For what is shown.", metavar="FILE"),
    ] = None,
    reading: Reading = Reading(),
    given: Given = Given(),
) -> None:
    """Find frequent itemsets and rules in perturbed (or true) data, with standard errors.

    Example: sfumato mine census.parquet --min-support 0.02 --rules --min-confidence 0.6
    """
    frequent.check()
    listed.check(given.force)
    given.check()
    called = None if names is None else read_names(names)
    with progress_bar() as tell:
        source = _source(files, reading if truth is None else replace(reading, form=None), tell)
        exact = None if truth is None else read_truth(files[0], truth, source, reading.form, tell)
        found = frequent.found(source, tell)
    errors = None
    if exact is not None:
        found = beside_truth(found, exact)
        errors = frequent.errors(found, exact)
    if called is not None:
        unnamed, items = check_named("--names", source.domain, called)
        print_notes([f"{unnamed} of {items} items have no name there"] if unnamed else [])
        found = found.named(called)
    implied = listed.implied(found)
    shown = frequent.condensed(found)
    listed.write(shown, implied)
    view = listed.view(shown, implied, errors)
    given.draw(view, files[0], source)
    notes = [*shown.suppositions, *_length_notes(source, found, frequent.max_length)]
    notes += _nothing_notes(found, implied, frequent.max_length)
    if given.json:
        print_notes(notes)
    result = partial(listed.result, source.rows, shown, implied, errors)
    given.give(replace(view, notes=notes), result, most=listed.show)


def _source(files: list[str], reading: Reading, tell: Progress) -> Source:
    """The source in a file, or the rounds that several files are, or a campaign has."""
    if len(files) == 1:
        source = reading.source(files[0], tell)
        rounds = rounds_up_to(files[0], source)
        return source if len(rounds) == 1 or reading.fit else earlier(rounds)
    if reading.schema or reading.items or reading.engine or reading.fit:
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
