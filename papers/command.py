"""What `sfumato reproduce` does in a checkout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size

from papers.base import WIDTH, Reproduction, Settings, view_of
from papers.registry import ALL, PAPERS, parts_of, reproduce
from sfumato.cli.pages import with_origin
from sfumato.cli.printing import print_json, progress_bar
from sfumato.errors import FileError, ParameterError
from sfumato.result import save_view

NAMES = (ALL, *PAPERS, *(part for paper in PAPERS.values() for part in paper.parts))


def run(
    names: Sequence[str],
    data: Path | None,
    seeds: int,
    quick: bool,
    plot: Path | None,
    force: bool,
    json: bool,
) -> None:
    """Repeat the experiments of these names, each printed as it is done; without any, list them."""
    if not names:
        _list_names(json)
        return
    _check_page(plot, force)
    wanted = [part for parts in parts_of(names).values() for part in parts]
    Settings(data, seeds, quick)  # refused before anything is shown
    done: list[Reproduction] = []
    width = get_terminal_size((WIDTH, 24)).columns  # a pipe has none, unless COLUMNS says
    with progress_bar() as told:

        def tell(share: float) -> None:
            place = min(len(done), len(wanted) - 1)
            words = f"{wanted[place]} ({place + 1} of {len(wanted)})"
            told(words, (place + share) / len(wanted))

        tell(0.0)
        for reproduction in reproduce(names, Settings(data, seeds, quick, tell)):
            done.append(reproduction)
            if not json:
                print(reproduction.to_text(width), end="\n\n")
                sys.stdout.flush()
            tell(0.0)
    if plot is not None:
        save_view(with_origin(view_of(done), _origin(data, seeds, quick)), plot)
    if json:
        print_json({"reproductions": [reproduction.to_dict() for reproduction in done]})


def _list_names(json: bool) -> None:

    if json:
        print_json(
            {
                "papers": [
                    {"name": name, "title": paper.title, "parts": dict(paper.parts)}
                    for name, paper in PAPERS.items()
                ]
            }
        )
        return
    for name, paper in PAPERS.items():
        print(f"{name:<20} {paper.title}")
        for part, title in paper.parts.items():
            print(f"  {part:<18} {title}")
    print("all")


def _origin(data: Path | None, seeds: int, quick: bool) -> list[tuple[str, str]]:
    """What a reproduction was made from."""
    return [
        ("file", "the public data sets of each paper" if data is None else str(data)),
        ("rows", "as each table says" + (", cut to try it out" if quick else "")),
        ("mechanism", "those of the papers, each with its parameters"),
        ("guarantee", "none: experiments, drawn from seeds"),
        ("seeds", "1" if quick else str(seeds)),
    ]


def _check_page(plot: Path | None, force: bool) -> None:
    """Refuse a page that could not be written, before any work is done for it."""
    if plot is None:
        return
    if plot.suffix.lower() != ".html":
        raise ParameterError(f"'{plot}' is no page", hint="end it in .html")
    if plot.exists() and not force:
        raise FileError(f"'{plot}' exists", hint="use --force to overwrite it")
