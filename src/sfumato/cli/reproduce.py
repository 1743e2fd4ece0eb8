"""`sfumato reproduce`: the papers' tables, theirs beside ours, in a checkout of the repository."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from sfumato.cli.options import Force, Json, among, argument, option
from sfumato.errors import FileError

ROOT = Path(__file__).resolve().parents[3]  # of the checkout that this file belongs to, if it does


def _names(incomplete: str) -> list[str]:
    return among(papers().NAMES)(incomplete)


def reproduce(
    names: Annotated[
        list[str] | None,
        argument(
            "Papers, tables or figures; all. None lists the names.",
            metavar="[NAME]…",
            complete=_names,
        ),
    ] = None,
    data: Annotated[
        Path | None, option("The folder of the public data sets; else SFUMATO_DATA.", metavar="DIR")
    ] = None,
    seeds: Annotated[int, option("How many times each experiment is run.")] = 10,
    quick: Annotated[bool, option("One seed on small data, to try it out.")] = False,
    plot: Annotated[
        Path | None, option("Write the tables with figures as an .html page.", metavar="OUT")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Repeat the papers' experiments: their numbers beside ours, mean and spread over seeds, and
    what cannot be met.

    They are the folder `papers` of the repository and run in a checkout; no wheel holds them.

    Example: sfumato reproduce mask-table-7 frapp-figure-2 --data data
    """
    papers().run(names or (), data, seeds, quick, plot, force, json)


def papers() -> Any:
    """The experiments of the checkout that this program is run from. Only there: what lies in the
    folder where a command happens to be typed is not run.
    """
    if not (ROOT / "papers" / "command.py").is_file():
        raise FileError(
            "the papers' experiments are not part of the installed package",
            hint="they are the folder 'papers' of Sfumato's repository: run `make setup` in a "
            "checkout, and `.venv/bin/sfumato reproduce` there",
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return import_module("papers.command")
