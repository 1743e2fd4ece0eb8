"""What an owner keeps for the record of a release: what was done, with which settings, the risk
before and after, what it cost, what remains.

A dossier is plain content; the command line writes it as a page and as JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import FileError
from sfumato.printable import percent
from sfumato.publish.hide import HideRelease, HideReport
from sfumato.publish.identify import Identification, Risk
from sfumato.publish.intruder import Intruder
from sfumato.publish.population import PopulationRisk
from sfumato.publish.pram import PramRelease, PramReport
from sfumato.publish.suppress import SuppressRelease
from sfumato.publish.swap import SwapRelease, SwapReport

__all__ = [
    "PATTERN_HEADS",
    "Dossier",
    "Lines",
    "Section",
    "hiding_dossier",
    "hiding_facts",
    "identification_dossier",
    "pattern_lines",
    "pram_dossier",
    "suppression_dossier",
    "swap_dossier",
]

PATTERN_HEADS = ("pattern", "count", "after", "confidence", "reverse", "company", "now")
SHOWN = 40  # lines of a table; the JSON file has all
BEWARE = (
    "For the owner's files, not for release: it describes the true data beside what was handed out."
)


@dataclass(frozen=True)
class Lines:
    """A table: lines under headings."""

    headings: tuple[str, ...]
    lines: tuple[tuple[Any, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with sentences and tables under it."""

    heading: str
    words: tuple[str, ...] = ()
    tables: tuple[Lines, ...] = ()


@dataclass(frozen=True)
class Dossier:
    """The sections of one dossier, and the result they describe as JSON."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    remains: tuple[str, ...]
    result: dict[str, Any] = field(repr=False)
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    command: str = ""
    made: str = ""

    def recorded(
        self,
        *,
        command: str,
        settings: Mapping[str, Any],
        files: Mapping[str, str | Path | None],
    ) -> Dossier:
        """The same with what was typed, the settings, and the files with their fingerprints."""
        named = {role: fingerprint(path) for role, path in files.items() if path is not None}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        given = {name: value for name, value in settings.items() if value not in (None, (), [])}
        return replace(self, command=command, settings=given, files=named, made=now)

    def all_sections(self) -> tuple[Section, ...]:
        """What was done first, then the result, then what remains."""
        done = [
            Lines(
                ("setting", "value"),
                tuple((n.replace("_", "-"), _worded(v)) for n, v in self.settings.items()),
            )
        ]
        if self.files:
            lines = tuple(
                (role, file["name"], file.get("bytes"), file.get("sha256", "–"))
                for role, file in self.files.items()
            )
            done.append(Lines(("file", "name", "bytes", "SHA-256"), lines))
        made = self.made.replace("T", " at ").replace("+00:00", " UTC")
        words = (f"Made by Sfumato {__version__} on {made}.", BEWARE)
        first = Section("What was done", words, tuple(done))
        return (first, *self.sections, Section("What remains", self.remains))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: everything, the result in full."""
        return {
            "title": self.title,
            "sfumato": __version__,
            "made": self.made,
            "command": self.command,
            "settings": {name: _plain(value) for name, value in self.settings.items()},
            "files": self.files,
            "result": self.result,
            "remains": list(self.remains),
        }


def fingerprint(path: str | Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file; the name alone where it is a stream."""
    place = Path(path)
    if not place.is_file():
        return {"name": str(path)}
    digest = hashlib.sha256()
    try:
        with place.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise FileError(f"cannot read '{path}': {error.strerror}") from None
    return {
        "name": place.name,
        "bytes": place.stat().st_size,
        "sha256": digest.hexdigest(),
    }


def identification_dossier(found: Identification) -> Dossier:
    """Who can be told apart, before anything is released."""
    risk = found.risk
    roles = tuple(
        (role.name, role.values, role.saved_by_dropping, role.saved_by_binning)
        for role in found.columns
    )
    sections = [
        Section(
            "Risk",
            tables=tuple(
                _risk_grid({"records": one}, name)
                for name, one in zip(found.confidential, found.risks, strict=True)
            ),
        ),
        Section(
            "What gives records away",
            ("Identifiable records that would be saved without a key, or with it in few bins.",),
            (Lines(("key", "values", "if dropped", "if binned"), roles),),
        ),
    ]
    if found.population is not None:
        sections.insert(1, _population_section(found.population))
    remains = (
        f"{risk.identifiable:,} of {risk.records:,} records have keys that determine "
        f"{found.confidential[-1]}; nothing was changed.",
    )
    lead = f"{risk.unique:,} of {risk.records:,} records are unique by their keys."
    return Dossier("Identification", lead, tuple(sections), remains, found.to_dict())


def _population_section(population: PopulationRisk) -> Section:
    right = population.right_matches
    lines = (
        ("people in the population", round(population.size)),
        ("sampling fraction", percent(population.fraction, 3)),
        ("unique in the sample", population.sample_uniques),
        (
            "chance that a unique match is the right person",
            "–" if right is None else f"{right.value:.3f} ± {right.stderr:.3f}",
        ),
        ("expected to be unique in the population", round(population.population_uniques)),
        ("right matches expected among the unique", round(population.expected_matches)),
        ("records with a chance above a tenth", population.risky),
        ("right matches by the weights alone", round(population.weighted_matches)),
    )
    words = (
        "The records as a sample. The expected numbers assume that keys are independent of each "
        "other, which mostly overstates them; those by the weights alone understate.",
    )
    return Section("In the population", words, (Lines(("quantity", "value"), lines),))


def _risk_grid(risks: Mapping[str, Risk], caption: str) -> Lines:
    """The measures of several risks side by side."""
    names = (
        ("records", "records"),
        ("unique", "unique"),
        ("collective", "in groups that share keys and value"),
        ("groups", "such groups"),
        ("unidentifiable", "not identifiable"),
        ("k_anonymity", "k-anonymity"),
        ("l_diversity", "l-diversity"),
        ("mean_group", "mean group"),
    )
    lines = tuple(
        (words, *(one.to_dict()[name] for one in risks.values())) for name, words in names
    )
    return Lines(("measure", *risks), lines, caption)


def swap_dossier(release: SwapRelease) -> Dossier:
    """What a swap did, what an informed intruder makes of it, and what it cost."""
    sections: list[Section] = []
    for report in release.reports:
        sections.append(_swap_risk(report))
        sections.append(_swap_cost(report))
    names = ", ".join(report.confidential for report in release.reports)
    lead = (
        f"{int(release.changed.sum()):,} of {release.table.num_rows:,} records have another value "
        f"of {names}."
    )
    remains = [*release.notes]
    for report in release.reports:
        remains += [*report.notes, *_swap_remains(report)]
    remains += [
        f"{risk.sample_uniques:,} records are unique by the keys in the file as released: that "
        f"someone is in it can be seen, what is blurred is {name}."
        for name, risk in release.released_risks.items()
    ]
    return Dossier(f"Swapping {names}", lead, tuple(sections), tuple(remains), release.to_dict())


def _swap_risk(report: SwapReport) -> Section:
    cost = report.cost
    caption = "by the keys matched on"
    warned = _still_guessed(report)
    if warned:
        caption += f" — counted by what is shown, which is no protection by itself: {warned}"
    grids = [_risk_grid({"before": cost.before, "after": cost.after}, caption)]
    for intruder in (cost.intruder, *report.single):
        grids += [_guess_grid(intruder), _shown_grid(intruder)]
    words = (
        "An informed intruder knows the keys of a person, how the release was made, the "
        "proportion and the totals. No guess was to be surer than "
        f"{percent(report.max_posterior, 0)} from any shown value.",
    )
    return Section(f"Risk before and after: {report.confidential}", words, tuple(grids))


def _still_guessed(report: SwapReport) -> str:
    """Where records that count as not identifiable after the swap can be guessed all the same."""
    return "; ".join(
        f"{intruder.confidential} is still guessed right for {_percent(intruder.groups_informed)} "
        f"of the {intruder.grouped:,} records of groups that shared one value"
        for intruder in (report.cost.intruder, *report.single)
        if intruder.grouped
    )


def _guess_grid(intruder: Intruder) -> Lines:
    lines = (
        (f"without the release (always '{intruder.commonest}')", _percent(intruder.baseline)),
        ("believing what is shown", _percent(intruder.believing)),
        ("knowing how it was made", _percent(intruder.informed)),
        ("from the keys alone", _percent(intruder.keys_alone)),
        ("knowing all and weighing the keys", _percent(intruder.weighing_keys)),
        (
            f"in the {intruder.grouped:,} records of groups that shared one value",
            _percent(intruder.groups_informed),
        ),
    )
    caption = f"right guesses of {intruder.confidential}, {intruder.unique:,} unique records"
    return Lines(("intruder", "right"), lines, caption)


def _shown_grid(intruder: Intruder) -> Lines:
    ordered = sorted(intruder.shown, key=lambda one: -one.posterior)[:SHOWN]
    lines = tuple(
        (
            str(one.shown),
            one.records,
            str(one.likeliest),
            _percent(one.posterior),
            _percent(one.as_shown),
        )
        for one in ordered
    )
    headings = ("shown", "unique records", "likeliest truth", "how sure", "as shown")
    return Lines(headings, lines, f"{intruder.confidential}, surest first")


def _swap_cost(report: SwapReport) -> Section:
    cost = report.cost
    lines: list[tuple[Any, ...]] = [
        ("unique records changed", report.changed_unique),
        ("groups with one record changed", report.changed_groups),
        ("totals moved by", cost.marginal_drift),
        ("objective (change in p(y | x))", report.objective),
        ("lower bound", report.bound),
        ("proved optimal", report.optimal),
        ("I-divergence of the joint, nats", cost.i_divergence),
        ("two-way tables changed by, mean", cost.mean_two_way),
    ]
    found = cost.classification
    if found is not None:
        lines += [
            ("classification error, trained on the truth", percent(found.trained_on_truth, 2)),
            ("classification error, on the release", percent(found.trained_on_release, 2)),
        ]
    two_way = tuple((name, change) for name, change in cost.two_way.items())
    grids = (
        Lines(("quantity", "value"), tuple(lines)),
        Lines(("value", "before", "after"), _totals(report), "totals"),
        Lines(("key", "change"), two_way, "two-way table of each key, total variation distance"),
    )
    return Section(f"What it cost: {report.confidential}", (), grids)


def _totals(report: SwapReport) -> tuple[tuple[Any, ...], ...]:
    return tuple((str(one.value), one.before, one.after) for one in report.cost.totals[:SHOWN])


def _swap_remains(report: SwapReport) -> list[str]:
    found = []
    for intruder in (report.cost.intruder, *report.single):
        worst = intruder.worst
        if worst is not None:
            found.append(
                f"{intruder.confidential}: of the {worst.records:,} unique records that show "
                f"'{worst.shown}', {percent(worst.posterior)} truly have '{worst.likeliest}', the "
                "surest "
                "guess that knowing the method allows."
            )
        if (intruder.weighing_keys or 0) > (intruder.informed or 0) + 0.005:
            found.append(
                f"{intruder.confidential}: one who also weighs how likely the keys make a value is "
                f"right about {_percent(intruder.weighing_keys)} of the unique records; the limit "
                "does not bound this."
            )
        if intruder.grouped:
            found.append(
                f"{intruder.confidential}: of {intruder.grouped:,} records in groups that shared "
                "one value one a group was changed, so the majority of three or more still shows "
                f"it; a guess is right for {_percent(intruder.groups_informed)} of them."
            )
    return found


def hiding_dossier(release: HideRelease) -> Dossier:
    """What was hidden, how deep, and what other patterns were lost."""
    report = release.report
    found = sum(one.found_after for one in report.patterns)
    remains = (
        *report.notes,
        f"{found} of {len(report.patterns)} patterns are still found.",
        "Below the threshold each is still held by the baskets counted above; one who knows what "
        "someone bought can see that an item is missing.",
    )
    lead = f"{report.changed_transactions:,} of {report.rows:,} baskets changed."
    sections = (_hiding_risk(report), _hiding_cost(report))
    return Dossier("Hidden patterns", lead, sections, remains, release.to_dict())


def _hiding_risk(report: HideReport) -> Section:
    words = (
        f"A pattern is found from {report.min_count:,} of {report.rows:,} baskets. Company counts "
        "the other itemsets that show when the threshold is lowered to a hidden one.",
    )
    patterns = tuple(tuple(cell or "–" for cell in line) for line in pattern_lines(report))
    return Section("Risk before and after", words, (Lines(PATTERN_HEADS, patterns),))


def pattern_lines(report: HideReport) -> tuple[tuple[str, ...], ...]:
    """One line a pattern: how often it was there before and after, its confidence either way, and
    whether it is still found.
    """
    return tuple(
        (
            one.pattern,
            f"{one.count_before:,}",
            f"{one.count_after:,}",
            _change(one.confidence_before, one.confidence_after),
            _change(one.reverse_before, one.reverse_after),
            "" if one.company is None else f"{one.company:,}",
            "found" if one.found_after else "hidden",
        )
        for one in report.patterns
    )


def _change(before: float | None, after: float | None) -> str:
    return "" if before is None else f"{before:.3f} → {after or 0:.3f}"


def _hiding_cost(report: HideReport) -> Section:
    lost = tuple((" ".join(items),) for items in report.lost[:SHOWN])
    grids = (Lines(("quantity", "value"), hiding_facts(report)), Lines(("lost itemsets",), lost))
    return Section("What it cost", (), grids)


def hiding_facts(report: HideReport) -> tuple[tuple[str, str], ...]:
    """What hiding cost, in words."""
    return (
        ("hiding failure", percent(report.hiding_failure)),
        ("misses cost", f"{percent(report.misses_cost, 2)} of {report.lawful:,} lawful itemsets"),
        ("artifactual", percent(report.artifactual, 2)),
        (
            "dissimilarity",
            f"{percent(report.dissimilarity, 3)} ({report.removed:,} items removed, "
            f"{report.added:,} added)",
        ),
        ("baskets changed", f"{report.changed_transactions:,} of {report.rows:,}"),
        (
            "frequent itemsets",
            f"{report.frequent_before:,} before, {report.frequent_after:,} after",
        ),
    )


def suppression_dossier(release: SuppressRelease) -> Dossier:
    """Which columns were blanked how often, and who still shares a secret."""
    report = release.report
    lines = (
        ("records", report.records),
        ("wanted k", report.k),
        ("records in smaller groups before", report.small_before),
        ("smallest group before", report.smallest_before),
        ("smallest group after", report.smallest_after),
    )
    cost = (
        ("cells blanked", report.cells),
        ("no answer needs fewer than", report.bound),
        ("proved to be the fewest", report.proved),
        ("records with a blank", report.blanked_records),
    )
    risks = tuple(
        _risk_grid({"before": before, "after": after}, name)
        for name, (before, after) in release.risks.items()
    )
    sections = (
        Section("Risk before and after", (), (Lines(("measure", "value"), lines), *risks)),
        Section(
            "What it cost",
            (),
            (
                Lines(("quantity", "value"), cost),
                Lines(("key", "cells blanked"), tuple(report.by_column.items())),
            ),
        ),
    )
    remains = (
        f"Whoever knows the keys of a person finds {report.smallest_after} records or more that "
        "fit them: who it is stays open, what they share does not.",
        *(
            f"{told:,} records are in groups that all have one value of {name}: it is told."
            for name, told in report.still_told.items()
            if told
        ),
    )
    lead = f"{report.cells:,} cells of {report.blanked_records:,} records were blanked."
    return Dossier("Local suppression", lead, sections, remains, release.to_dict())


def pram_dossier(release: PramRelease) -> Dossier:
    """What random replacement promises, what it does to counts, and what can be guessed."""
    remains = [
        f"All replaced columns together: gamma {release.to_dict()['gamma']:.6g}. The matrices are "
        "made from the counts of the table and are described by them."
    ]
    sections: list[Section] = []
    for report in release.reports:
        sections += [_pram_risk(report), _pram_cost(report)]
        remains += [*report.notes, _weaker(report.column, report.within)]
    names = ", ".join(report.column for report in release.reports)
    lead = (
        f"{int(release.changed.sum()):,} of {release.table.num_rows:,} records show another "
        f"{names}."
    )
    return Dossier(
        f"Random replacement of {names}", lead, tuple(sections), tuple(remains), release.to_dict()
    )


def _pram_risk(report: PramReport) -> Section:
    guesses = (
        ("gamma", report.gamma),
        ("right guesses without the release", _percent(report.baseline)),
        ("right guesses from what is shown, knowing the matrix", _percent(report.informed)),
        ("surest shown value", str(report.worst.shown)),
        ("how sure of " + str(report.worst.likeliest), _percent(report.worst.posterior)),
    )
    return Section(f"Risk: {report.column}", (), (Lines(("quantity", "value"), guesses),))


def _pram_cost(report: PramReport) -> Section:
    counts = tuple(
        (str(one.value), one.true, one.shown, one.stderr) for one in report.counts[:SHOWN]
    )
    cost = (
        ("records changed", report.changed),
        ("expected to show the truth", _percent(report.kept)),
        ("expected counts differ by", f"{report.moved:.2g} records at most (rounding)"),
    )
    grids = (
        Lines(("quantity", "value"), cost),
        Lines(("value", "true", "shown", "standard error"), counts),
        Lines(("with", "two-way table changed by"), tuple(report.two_way.items())),
    )
    return Section(f"What it cost: {report.column}", (), grids)


def _weaker(column: str, within: Sequence[str]) -> str:
    kept = f" and with {', '.join(within)}" if within else ""
    return (
        f"Expected counts of {column}{kept} are those of the truth; with any other column its "
        "relation is weaker than it truly is."
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else percent(value)


def _worded(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and value < 1e15 else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, bool | int | float | str) else str(value)
