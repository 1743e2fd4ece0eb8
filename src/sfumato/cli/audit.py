"""`sfumato audit`: what an attacker learns from a release, and whether its mechanism
kept its word.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.audit import Audit, audit_release
from sfumato.audit.audit_result import LIMITS
from sfumato.cli.errors import VIOLATION
from sfumato.cli.options import Force, Json, Schema, check_drawing_target
from sfumato.cli.pages import bars_told, origin_of, save_page
from sfumato.cli.printing import (
    SCREEN,
    lines_on_screen,
    print_json,
    print_table,
    print_words,
    progress_bar,
    reading,
    telling,
)
from sfumato.cli.sources import read_source, read_truth
from sfumato.domain import Domain
from sfumato.errors import FileError, ParameterError
from sfumato.randomness import secure, seeded
from sfumato.report import Block, Heading, Listing, Note, Paragraph, Picture, save_figure
from sfumato.source import Release
from sfumato.table import Table, reader_of
from sfumato.table.order import read_order

AGAINST = 3  # findings against the promise on the screen; the others are counted
LEAST_ATTACKS = 3  # lines of guesses that are shown however much else there is
HEADED = 4  # lines above and below them
MORE = "--details: all attacks and checks, the smallest leaks seen, what is not covered"


def audit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that Sfumato perturbed.")],
    truth: Annotated[
        str,
        typer.Option(metavar="DATA", help="The very records that were perturbed, in their order."),
    ],
    order: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The secret order that perturb --order wrote: which record each report is of.",
        ),
    ] = None,
    schema: Schema = None,
    rho1: Annotated[float, typer.Option(help="Count beliefs of at most rho1 before …")] = 0.05,
    rho2: Annotated[float, typer.Option(help="… that are rho2 or more after.")] = 0.50,
    false_alarm: Annotated[
        float, typer.Option(help="How often a sound mechanism may be accused.")
    ] = 0.001,
    seed: Annotated[
        int | None, typer.Option(help="Draw the attacks from this seed, to repeat them.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Draw what is guessed right: .html, .png or .svg."),
    ] = None,
    force: Force = False,
    details: Annotated[
        bool,
        typer.Option("--details", help="Every attack and check, and how small a leak is seen."),
    ] = False,
    json: Json = False,
) -> None:
    """Attack a release with the truth at hand, and check it against what its mechanism promises.

    Reports that were shuffled are brought beside their records by --order; without it the audit
    judges what needs no pairing and says what it left out. Exit code 3 means that something was
    found against the promise.

    Example: sfumato audit census.parquet --truth census.csv --order census.npy
    """
    check_drawing_target(plot, force)
    with telling() as tell:
        source = read_source(file, None, None, tell=tell)
    if not isinstance(source, Release):
        raise FileError(
            f"'{file}' carries no mechanism, so there is no promise to audit",
            hint="audit a perturbed file",
        )
    records = read_records(truth, schema, source)
    with progress_bar("auditing") as progress:
        found = audit_release(
            source.table,
            records,
            order=read_secret(order, source),
            rng=secure() if seed is None else seeded(seed),
            rho1=rho1,
            rho2=rho2,
            false_alarm=false_alarm,
            progress=_of_rows(progress, records.rows),
        )
    if plot is not None:
        draw(found, origin_of(file, source), plot)
    if json:
        print_json(found.to_dict())
    else:
        print_audit(found, details)
    if not found.clean:
        raise typer.Exit(VIOLATION)


def read_secret(path: Path | None, release: Release) -> Any:
    """The secret order of a release, if it is given."""
    if path is None:
        return None
    return read_order(path, release.table.rows, release.table.copies)


def read_records(truth: str, schema: Path | None, release: Release) -> Table:
    """The true records, by their own schema if given, else by the domain that the
    release carries.
    """
    if schema is None:
        with telling() as tell:
            return read_truth(truth, release, tell=tell).table
    reader = reader_of(truth)
    if reader.provenance is not None:
        raise ParameterError(
            f"--truth '{truth}' is itself a perturbed file", hint="give the true records"
        )
    with reading(reader):
        return reader.table(Domain.load(schema))


def _of_rows(
    progress: Callable[[int, float | None], None] | None, rows: int
) -> Callable[[str, float], None] | None:
    """The audit's progress as the bar takes it: rows, and the share that is done."""
    return None if progress is None else lambda _, share: progress(round(share * rows), share)


def print_audit(found: Audit, details: bool = False) -> None:
    """The audit for people: on one screen the verdict, the worst of what was found, and what was
    tried; every attack and check where details are wanted.
    """
    if details:
        _print_details(found)
    else:
        _print_screen(found)


def _print_screen(found: Audit) -> None:
    """The verdict, what is against it, what a report tells at most, and the checks in one line."""
    above = [*found.findings(AGAINST), *found.measured(), *found.left_out]
    below = [found.checked(), *([f"note: {LIMITS[0]}"] if found.clean else []), MORE]
    for sentence in above:
        print_words(sentence)
    if found.attacks:
        room = SCREEN - HEADED - sum(map(lines_on_screen, (*above, *below)))
        worst, rest = found.worst(max(room, LEAST_ATTACKS))
        more = f"; {rest} more with --details" if rest else ""
        print(f"\nguessed right by the better prior (worst first{more})")
        print_table(found.worst_header(), worst, left=1)
        print()
    for sentence in below:
        print_words(sentence)


def _print_details(found: Audit) -> None:
    for sentence in found.sentences():
        print_words(sentence)
    if found.violations:
        print()
        print_table(("against the promise",), [(line,) for line in found.violations], left=1)
    if found.attacks:
        print("\nguessed right")
        print_table(found.header(), found.table(), left=2)
    print(f"\nchecks (a p-value below {found.threshold:.2g} fails)")
    lines = [
        (check.name, f"{check.p_value:.2g}", check.detail if check in found.failed else "")
        for check in found.checks
    ]
    shown = 3 if found.failed else 2  # details are of what failed
    headings = ("what should hold", "p-value", "")
    print_table(headings[:shown], [line[:shown] for line in lines], left=1)
    print()
    for limit in LIMITS:
        print_words(f"note: {limit}")


def _guessed(found: Audit) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The attacks with the standard error of what one report lets guess: headings and lines."""
    errors = [f"± {100 * attack.stderr:.2g} %" for attack in found.attacks]
    lines = zip(found.table(), errors, strict=True)
    head = found.header()
    return (*head[:4], "± stderr", *head[4:]), [
        (*line[:4], error, *line[4:]) for line, error in lines
    ]


def draw(found: Audit, origin: list[tuple[str, str]], path: Path) -> None:
    """What is guessed right without and with the reports; on a page, the whole audit beside it."""
    if not found.attacks:
        raise ParameterError(
            "there is nothing to draw: without --order the attacks are left out",
            hint="leave --plot out, or give the order that perturb --order wrote",
        )
    axes = found.plot()
    if path.suffix != ".html":
        save_figure(axes, path)
        return
    guesses = [attack for attack in found.attacks if attack.prior == "true"]
    alt = bars_told(
        "right guesses in per cent",
        [attack.target for attack in guesses],
        [100 * attack.baseline for attack in guesses],
        [100 * attack.right for attack in guesses],
        ("without a report", "with a report"),
    )
    verdict, *others = found.sentences()
    checks = [(check.name, f"{check.p_value:.2g}", check.detail) for check in found.checks]
    caption = (
        "What the best guess gets right, in per cent: from the true distribution alone, and "
        "from a report too, with 95 % intervals of the people attacked"
    )
    blocks: list[Block] = [
        Note(verdict),
        *(Paragraph(sentence) for sentence in others),
        Picture.of(axes, caption, alt=alt),
        Listing(*_guessed(found)),
        Heading("Checks"),
        Listing(
            ("what should hold", "p\N{NON-BREAKING HYPHEN}value", "where it holds least"), checks
        ),
        *(Paragraph(limit) for limit in LIMITS),
    ]
    save_page("Audit of a release", blocks, origin, path)
