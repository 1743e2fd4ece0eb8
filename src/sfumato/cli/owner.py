"""What the commands of a data owner share: their options, their records and chance."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato import plots
from sfumato.address import redacted
from sfumato.cli.options import check_drawing_target, check_output
from sfumato.cli.pages import typed, with_origin
from sfumato.cli.printing import print_json, print_notes, reading, show
from sfumato.cli.usage import spelled_as_options
from sfumato.errors import ParameterError, SfumatoError
from sfumato.printable import percent
from sfumato.publish.dossier import Dossier, Owned
from sfumato.publish.owned import Keyed, binning, check_record_target, records_of
from sfumato.publish.owned import Nulls as NullsTreated
from sfumato.randomness import Keystream, secure, seeded
from sfumato.renderers.picture import lines as lines_of_panels
from sfumato.result import save_view
from sfumato.table import Table, reader_of
from sfumato.table.formats import write_text
from sfumato.view import ColumnView, TableView, View

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
        help="Cut a number: age=frequency:5, age=width:5 or age=35,55; may be repeated.",
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
    int | None, typer.Option(help="Draw from this seed: an experiment, not for release.")
]
Reveal = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write which rows were changed to this JSON file: for the owner alone."
    ),
]

DossierFile = Annotated[
    Path | None,
    typer.Option(
        "--dossier",
        metavar="FILE",
        help="Write what was done, risk, cost and what remains to FILE.html and FILE.json.",
    ),
]

# Options that are no settings of what is done.
APART = (
    *("data", "output", "plot", "reveal", "dossier", "patterns", "force", "json", "seed"),
    "classifier",  # which does nothing any more
)
SEEDED = "drawn from a seed: an experiment, not for release"


def check_targets(options: Mapping[str, Any], *, records: bool = True) -> None:
    """Refuse files that exist, are named twice or cannot be written, before any work is done for
    them.
    """
    output, force = options.get("output"), options["force"]
    if output is not None:
        check_output(output, force, options["json"])
    if output is not None and records:
        check_record_target(output, force=force)
    paths = [output, options.get("plot"), options.get("reveal"), *dossier_files(options["dossier"])]
    named = [path for path in paths if path is not None]
    twice = [path for path in named if named.count(path) > 1]
    if twice:
        raise ParameterError(
            f"'{twice[0]}' is to hold two things", hint="name one of them otherwise"
        )
    for path in named:
        check_drawing_target(path, force)


def hand_out(
    options: Mapping[str, Any],
    release: Any,
    *,
    drawn: str,
    changed: str,
    **settings: Any,
) -> None:
    """Write a release, what it changed and its dossier, as a command's options ask; then show it.

    `drawn` is what chance decided, `changed` what the dossier calls the file of what was changed,
    and `settings` take the place of options that say less.
    """
    output, reveal, force = options["output"], options["reveal"], options["force"]
    release.save(output, force=force)
    if reveal is not None:
        write_json(release.revealed(), reveal, force=force)
    files = {"output": output, "patterns": options.get("patterns"), changed: reveal}
    write_dossier(release, options, files, **settings)
    view = replace(release.view(), title=f"written: {output}")
    if options["seed"] is not None:
        view = replace(view, notes=(f"{drawn} {SEEDED}", *view.notes))
    if options["json"]:
        print_notes(view.notes)  # those of its sections are in the JSON
        print_json({**release.to_dict(), "output": str(output)})
    elif str(output) == "-":
        print_notes(view.all_notes())
    else:
        show(view)


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
    result: Owned,
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
        settings={**given(options), **settings},
        files={"input": options["data"], **(files or {})},
    )
    save_view(kept.view(), path)
    write_json(kept.to_dict(), data, force=options["force"])


def trade_off(
    tried: Mapping[str, Mapping[str, Sequence[float]]],
    places: Sequence[float],
    across: str,
    caption: str,
) -> View:
    """What other settings cost and buy, drawn and as a table: by quantity and by line, in per cent
    where the quantity says so; not a number where one cannot be had.
    """
    panels = {
        what: [plots.Series(name, values) for name, values in lines.items()]
        for what, lines in tried.items()
    }
    columns = [ColumnView(across, places)]
    for what, lines in tried.items():
        for name, values in lines.items():
            known = [None if isnan(value) else value for value in values]
            words = _in_percent if what.endswith(", %") else None
            head = f"{name}, {what.removesuffix(', %')}" if len(lines) > 1 else what
            columns.append(ColumnView(head, known, words=words))
    chart = lines_of_panels(places, panels, across=across, caption=caption)
    return View("Other settings", charts=(chart,), tables=(TableView(columns),))


def _in_percent(value: float | None) -> str:
    return "–" if value is None else percent(value / 100, 2)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among a command's options, for the record: all but files and manners."""
    chosen = {name: value for name, value in options.items() if name not in APART}
    seed = options.get("seed")
    drawn = (
        {"randomness": "secure" if seed is None else f"seed {seed}"} if "seed" in options else {}
    )
    return {**chosen, **drawn}


def chance(seed: int | None) -> Keystream:
    """Secure randomness, or that of a seed."""
    return secure() if seed is None else seeded(seed)


def read_records(
    data: str,
    confidential: Sequence[str],
    keys: str | None,
    bins: Sequence[str] | None,
    nulls: str,
    *,
    beside: Sequence[str] = (),
) -> tuple[Table, dict[str, Any]]:
    """The true records of a file, and what the options ask of them, the keys by their names."""
    with reading(reader_of(data)) as source:
        records = records_of(source)
    how: dict[str, Any] = {"bins": cuts(bins), "nulls": nulls_named(nulls)}
    found = Keyed.of(records, listed(confidential), keys=columns(keys), beside=beside, **how)
    return records, {"confidential": found.secret, "keys": found.keys, **how}


def write_json(content: Mapping[str, Any], path: Path, *, force: bool) -> None:
    """A small JSON file, there whole or not at all."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)
    write_text(text + "\n", path, force=force)


def nulls_named(text: str) -> NullsTreated:
    """How nulls are to be treated."""
    if text not in ("value", "error"):
        raise ParameterError(f"--nulls {text}", hint="use value or error")
    return "error" if text == "error" else "value"


def listed(texts: Sequence[str]) -> list[str]:
    """The names in options that were repeated, or hold several with commas."""
    return [name.strip() for text in texts for name in text.split(",")]


def columns(text: str | None) -> list[str] | None:
    """The names that one option holds with commas; None where it was not given."""
    return None if text is None else listed([text])


def cuts(texts: Sequence[str] | None) -> dict[str, str]:
    """The binnings written as COLUMN=HOW."""
    found = {}
    for text in texts or ():
        name, equals, how = text.partition("=")
        if not equals:
            raise ParameterError(
                f"--bin {text} does not say how",
                hint="write --bin age=frequency:5 or --bin age=35,55",
            )
        binning(how)
        found[name] = how
    return found


@contextmanager
def told_as_options(names: Collection[str]) -> Iterator[None]:
    """Errors of the library told as they are typed: `--max-posterior 0.5` for max_posterior=0.5."""
    try:
        yield
    except SfumatoError as error:
        error.message = spelled_as_options(error.message, names)
        error.hint = error.hint and spelled_as_options(error.hint, names)
        raise
