"""`sfumato demo`: the whole path on synthetic data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as TerminalTable

from sfumato.cli.demonstration import Demonstration
from sfumato.cli.options import Json
from sfumato.cli.pages import origin_of, save_page
from sfumato.cli.printing import console, print_json, print_words
from sfumato.cli.summary import summarise
from sfumato.errors import FileError
from sfumato.randomness import secure, seeded
from sfumato.report import Block, Code, Heading, Listing, Note, Paragraph, shown


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the HTML report goes.")
    ] = Path("demo-output"),
    rows: Annotated[int, typer.Option(help="How many people, and how many baskets.")] = 100_000,
    seed: Annotated[
        int | None, typer.Option(help="Draw the noise from this seed: an experiment.")
    ] = None,
    json: Json = False,
) -> None:
    """See the whole path on synthetic data: perturb, reconstruct, mine, ask, classify, publish.
    Writes a report with pictures.

    Example: sfumato demo -o demo-output
    """
    story = Demonstration(rows, seeded(1), secure() if seed is None else seeded(seed))
    blocks = list(story.blocks())
    path = _folder(output) / "report.html"
    lead = "Each record is blurred before anyone sees it; the counts of the crowd stay sharp."
    origin = origin_of("none: people and baskets are synthetic", story.release)
    save_page("Sfumato", blocks, origin, path, lead=lead)
    if json:
        promised = summarise(story.release.provenance, story.release.rows)
        print_json({**promised, "marginals": story.cells_as_json(), "report": str(path)})
        return
    for block in blocks:
        _print_block(block)
    print_words(f"\nThe same with pictures: {path}")


def _folder(path: Path) -> Path:

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder '{path}': {error.strerror}") from None
    return path


def _print_block(block: Block) -> None:

    if isinstance(block, Heading):
        console().print(f"\n{block.text}", style="bold")
    elif isinstance(block, Code | Paragraph | Note):
        console().print(block.text)
    elif isinstance(block, Listing):
        console().print(_text_table(block))


def _text_table(block: Any) -> Any:

    table = TerminalTable(
        box=None,
        header_style="bold",
        padding=(0, 2, 0, 0),
        caption=block.caption or None,
        caption_justify="left",
    )
    for place, name in enumerate(block.columns):
        words = all(isinstance(row[place], str) for row in block.rows)
        table.add_column(name, justify="left" if words else "right")
    for row in block.rows:
        table.add_row(*map(shown, row))
    return table
