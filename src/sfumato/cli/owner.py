"""What the commands of a data owner share: their options, their records and what they hand out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Annotated, Any

from sfumato.address import redacted
from sfumato.cli.errors import spelled_as_options
from sfumato.cli.options import (
    Force,
    Json,
    Options,
    Output,
    argument,
    check_absent,
    check_output,
    option,
)
from sfumato.cli.pages import typed, with_origin
from sfumato.cli.printing import print_json, print_notes, reading, show
from sfumato.errors import ParameterError, PrivacyError, SfumatoError
from sfumato.printable import percent
from sfumato.publish.dossier import Dossier
from sfumato.publish.owned import Keyed, binning, check_record_target, records_of
from sfumato.publish.verdict import Judged
from sfumato.randomness import Keystream, secure, seeded
from sfumato.result import save_view
from sfumato.table import Table, reader_of
from sfumato.table.formats import write_text
from sfumato.view import Chart, ColumnView, Panel, Series, TableView, View

Data = Annotated[
    str, argument("True records: .csv, .csv.gz or .parquet; - is standard input.", "DATA")
]
Keys = Annotated[
    str | None,
    option("What an intruder may know; else every column that is not confidential.", metavar="A,B"),
]
Plot = Annotated[Path | None, option("Draw the result: .html, .png or .svg.", metavar="OUT")]
DossierFile = Annotated[
    Path | None,
    option(
        "Write what was done, risk, cost and what remains to FILE.html and FILE.json.",
        metavar="FILE",
    ),
]
# Options that are no settings of what is done.
APART = (
    *("data", "output", "plot", "reveal", "dossier", "patterns", "force", "json", "seed"),
    "classifier",  # which does nothing any more
)
SEEDED = "drawn from a seed: an experiment, not for release"


@dataclass(frozen=True, kw_only=True)
class Coded(Options):
    """How the values of true records are taken: numbers in bins where that is asked for."""

    bin: Annotated[
        list[str] | None,
        option(
            "Cut a number: age=frequency:5, age=width:5 or age=35,55; may be repeated.",
            metavar="A=HOW",
        ),
    ] = None

    def how(self) -> dict[str, Any]:
        """The same as the library takes it."""
        found = {}
        for text in self.bin or ():
            name, equals, how = text.partition("=")
            if not equals:
                raise ParameterError(
                    f"--bin {text} does not say how",
                    hint="write --bin age=frequency:5 or --bin age=35,55",
                )
            binning(how)
            found[name] = how
        return {"bins": found}


@dataclass(frozen=True, kw_only=True)
class KeyOptions(Coded):
    """Which columns are confidential, and which an intruder may know."""

    confidential: Annotated[
        list[str],
        option("A column that must not be told from the others; may be repeated.", metavar="A"),
    ]
    keys: Keys = None

    def read(self, data: str, *, beside: Sequence[str] = ()) -> tuple[Table, dict[str, Any]]:
        """The true records of a file, and what is asked of them, the keys by their names."""
        with reading(reader_of(data)) as source:
            records = records_of(source)
        how = self.how()
        wanted = {"keys": columns(self.keys), "beside": beside, **how}
        found = Keyed.of(records, listed(self.confidential), **wanted)
        return records, {"confidential": found.secret, "keys": found.keys, **how}


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(Options):
    """What is handed out, and what is kept of how it was made."""

    output: Output
    seed: Annotated[int | None, option("Draw from this seed: an experiment, not for release.")] = (
        None
    )
    reveal: Annotated[
        Path | None,
        option(
            "Write which rows were changed to this JSON file: for the owner alone.", metavar="FILE"
        ),
    ] = None
    dossier: DossierFile = None
    max_gain: Annotated[
        float | None,
        option(
            "The most that an intruder may gain over no release, in percentage points; 10 unless "
            "given, or what --k or --gamma allows.",
            metavar="POINTS",
        ),
    ] = None
    anyway: Annotated[bool, option("Write a release that misses this aim, too.")] = False
    force: Force = False
    json: Json = False

    @property
    def rng(self) -> Keystream:
        """Secure randomness, or that of a seed."""
        return secure() if self.seed is None else seeded(self.seed)

    def check(self, plot: Path | None = None, *, records: bool = True) -> None:
        """Refuse files that exist, are named twice or cannot be written, before any work is done
        for them.
        """
        check_output(self.output, self.force, self.json)
        if records:
            check_record_target(self.output, force=self.force)
        check_targets(self.force, self.output, plot, self.reveal, *dossier_files(self.dossier))

    def give(
        self,
        release: Any,
        asked: Mapping[str, Any],
        *,
        drawn: str,
        changed: str,
        safer: str,
        files: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Write a release, what it changed and its dossier; then show it.

        `drawn` is what chance decided, `changed` what the dossier calls the file of what was
        changed, `safer` what to try where the aim is missed, and `settings` take the place of
        options that say less.
        """
        if not (release.verdict.met or self.anyway):
            raise PrivacyError(
                f"not written: {release.verdict.text}",
                hint=f"try {safer}, or write it with --anyway",
            )
        release.save(self.output, force=self.force)
        if self.reveal is not None:
            write_json(release.revealed(), self.reveal, force=self.force)
        kept = {"output": self.output, **(files or {}), changed: self.reveal}
        write_dossier(release, asked, kept, **settings)
        view = replace(release.view(), title=f"written: {self.output}")
        if self.seed is not None:
            view = replace(view, notes=(f"{drawn} {SEEDED}", *view.notes))
        if self.json:
            print_notes(view.notes)  # those of its sections are in the JSON
            print_json({**release.to_dict(), "output": str(self.output)})
        elif str(self.output) == "-":
            print_notes(view.all_notes())
        else:
            show(view)


def check_targets(force: bool, *paths: Path | None) -> None:
    """Refuse files that exist or are named twice."""
    named = [path for path in paths if path is not None]
    twice = [path for path in named if named.count(path) > 1]
    if twice:
        raise ParameterError(
            f"'{twice[0]}' is to hold two things", hint="name one of them otherwise"
        )
    for path in named:
        check_absent(path, force)


def all_options(taken: Mapping[str, Any]) -> dict[str, Any]:
    """What a command was given, those of its groups one by one."""
    groups = {name: vars(each) for name, each in taken.items() if isinstance(each, Options)}
    found: dict[str, Any] = {}
    for name, value in taken.items():
        found |= groups.get(name, {name: value})
    return found


def draw(
    view: View,
    options: Mapping[str, Any],
    *,
    rows: int,
    method: str,
    promised: str,
    other: View | None = None,
) -> None:
    """Write a view where a picture is wanted; a page says too what `other` settings would do, what
    the records were, what was done to them, and what that promises.
    """
    if options["plot"] is None:
        return
    origin = [
        ("file", redacted(options["data"])),
        ("rows", f"{rows:,}"),
        ("mechanism", method),
        ("guarantee", promised),
    ]
    sections = view.sections if other is None else (*view.sections, other)
    save_view(with_origin(replace(view, sections=sections), origin), options["plot"])


def dossier_files(path: Path | None) -> tuple[Path, ...]:
    """The page and the JSON file of a dossier; none where none is wanted."""
    if path is None:
        return ()
    if path.suffix.lower() not in ("", ".html", ".json"):
        raise ParameterError(
            f"a dossier is a page and a JSON file, not '{path.suffix}'",
            hint="end --dossier in .html, or in nothing",
        )
    stem = path.with_suffix("") if path.suffix else path
    return stem.with_name(stem.name + ".html"), stem.with_name(stem.name + ".json")


def write_dossier(
    result: Judged,
    options: Mapping[str, Any],
    files: Mapping[str, str | Path | None] | None = None,
    **settings: Any,
) -> None:
    """Write both files of a dossier where one is wanted, with the command that was typed."""
    if options["dossier"] is None:
        return
    path, data = dossier_files(options["dossier"])
    kept = Dossier.of(
        result,
        command=typed(),
        settings={**settings_of(options), **settings},
        files={"input": options["data"], **(files or {})},
    )
    save_view(kept.view(), path)
    write_json(kept.to_dict(), data, force=options["force"])


def trade_off(
    tried: Mapping[str, Mapping[str, Sequence[float]]],
    places: Sequence[float],
    across: str,
    caption: str,
    chosen: Mapping[str, tuple[float, float]] | None = None,
) -> View:
    """What other settings cost and buy, drawn and as a table: by quantity and by line, in per cent
    where the quantity says so; not a number where one cannot be had. What was chosen is ringed.
    """
    panels = [
        Panel(
            *("lines", places, [Series(name, values) for name, values in lines.items()], what),
            across=across,
            ring=(chosen or {}).get(what),
        )
        for what, lines in tried.items()
    ]
    columns = [ColumnView(across, places)]
    for what, lines in tried.items():
        for name, values in lines.items():
            known = [None if isnan(value) else value for value in values]
            words = _in_percent if what.endswith(", %") else None
            head = f"{name}, {what.removesuffix(', %')}" if len(lines) > 1 else what
            columns.append(ColumnView(head, known, words=words))
    chart = Chart(panels, caption)
    return View("Other settings", charts=(chart,), tables=(TableView(columns),))


def _in_percent(value: float | None) -> str:
    return "–" if value is None else percent(value / 100, 2)


def settings_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among a command's options, for the record: all but files and manners."""
    chosen = {name: value for name, value in options.items() if name not in APART}
    seed = options.get("seed")
    drawn = (
        {"randomness": "secure" if seed is None else f"seed {seed}"} if "seed" in options else {}
    )
    return {**chosen, **drawn}


def write_json(content: Mapping[str, Any], path: Path, *, force: bool) -> None:
    """A small JSON file, there whole or not at all."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)
    write_text(text + "\n", path, force=force)


def listed(texts: Sequence[str]) -> list[str]:
    """The names in options that were repeated, or hold several with commas."""
    return [name.strip() for text in texts for name in text.split(",")]


def columns(text: str | None) -> list[str] | None:
    """The names that one option holds with commas; None where it was not given."""
    return None if text is None else listed([text])


@contextmanager
def spelled_errors(names: Collection[str]) -> Iterator[None]:
    """Errors of the library as they are typed: `--max-posterior 0.5` for max_posterior=0.5."""
    try:
        yield
    except SfumatoError as error:
        error.message = spelled_as_options(error.message, names)
        error.hint = error.hint and spelled_as_options(error.hint, names)
        raise
