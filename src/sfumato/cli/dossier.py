"""Writing a dossier: one page and one JSON file, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.owner import write_json
from sfumato.cli.pages import typed
from sfumato.errors import ParameterError
from sfumato.publish.dossier import Dossier
from sfumato.report import Block, Code, Heading, Listing, Page, Paragraph

DossierFile = Annotated[
    Path | None,
    typer.Option(
        "--dossier",
        metavar="FILE",
        help="Write what was done, risk, cost and what remains to FILE.html and FILE.json.",
    ),
]


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
    dossier: Dossier,
    path: Path | None,
    *,
    settings: Mapping[str, Any],
    files: Mapping[str, str | Path | None],
    force: bool,
) -> None:
    """Write both files, with the command that was typed."""
    if path is None:
        return
    page, data = dossier_files(path)
    told = dossier.recorded(command=typed(), settings=settings, files=files)
    blocks: list[Block] = []
    for section in told.all_sections():
        blocks.append(Heading(section.heading))
        blocks += [Paragraph(words) for words in section.words]
        blocks += [
            Listing(grid.headings, grid.lines, grid.caption)
            for grid in section.tables
            if grid.lines
        ]
        if section.heading == "What was done":
            blocks.append(Code(told.command, command=True))
    Page(told.title, blocks, told.lead).save(page)
    write_json(told.to_dict(), data, force=force)
