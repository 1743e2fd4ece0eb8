"""What commands print: JSON or text on standard output, notes and progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import listing
from sfumato.printable import escaped, one_line
from sfumato.telling import Telling, silent

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.domain import Domain  # numpy with it, which no command's help needs
    from sfumato.table import Reader

R = TypeVar("R", bound="Reader")
SHOWN_VALUES = 8
SHOWN_ATTRIBUTES = 200


def console(*, stderr: bool = False) -> Console:
    """Rich's way to the terminal, for text that has passed `one_line`."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # Rich takes standard output over while it draws; what it writes itself must not pass the
    # shield a second time.
    unshielded = getattr(stream, "rich_proxied_file", stream)
    return Console(file=unshielded, highlight=False, markup=False)


def print_json(result: Mapping[str, Any]) -> None:
    """One JSON object; a number that JSON cannot hold would be a mistake of ours."""
    print(escaped(json.dumps(result, ensure_ascii=False, allow_nan=False)))


def print_notes(notes: Sequence[str]) -> None:
    """Remarks, on standard error so that they do not mix with results."""
    for note in notes:
        print(f"note: {one_line(note)}", file=sys.stderr, flush=True)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Names and values side by side."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    for name, value in facts:
        grid.add_row(one_line(name), one_line(value))
    console().print(grid)


def print_table(headings: Sequence[str], lines: Sequence[Sequence[str]], *, left: int = 0) -> None:
    """Lines under headings; the first `left` columns are words, the others figures that stand to
    the right.
    """
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        table.add_column(
            one_line(heading), justify="left" if place < left else "right", overflow="fold"
        )
    for line in lines:
        table.add_row(*map(one_line, line))
    console().print(table)


def print_domain(domain: Domain) -> None:
    """A table of the attributes and their values."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("attribute", "values", ""):
        table.add_column(heading)
    for attribute in domain.attributes[:SHOWN_ATTRIBUTES]:
        values = listing(value_labels(attribute), most=SHOWN_VALUES)
        table.add_row(
            one_line(attribute.name), one_line(values), "public" if attribute.public else ""
        )
    if len(domain) > SHOWN_ATTRIBUTES:
        table.add_row(f"… and {len(domain) - SHOWN_ATTRIBUTES:,} more", "", "")
    console().print(table)


def value_labels(attribute: Any) -> tuple[str, ...]:
    """The values of an attribute; of a number its default bins, or its range where it has none."""
    from sfumato.domain import Numeric  # numpy with it, which no command's help needs

    if not isinstance(attribute, Numeric):
        return attribute.labels
    return attribute.cells_by_cuts(attribute.cuts).labels


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, float | None], None] | None]:
    """A function that moves a progress bar, on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0, rows=0)
        yield lambda rows, fraction: bar.update(task, completed=fraction or 0.0, rows=rows)


@contextmanager
def telling() -> Iterator[Telling]:
    """A function that shows on a terminal what is being done and how much of it; silent
    elsewhere.
    """
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[share]}"),
        TimeRemainingColumn(),
    )
    with Progress(*shown, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading …", total=None, share="")

        def tell(words: str, share: float | None = None) -> None:
            known: dict[str, Any] = {"total": None, "completed": 0, "share": ""}
            if share is not None:
                known = {"total": 1.0, "completed": share, "share": f"{share:.0%}"}
            bar.update(task, description=f"{one_line(words)} …", **known)

        yield tell


@contextmanager
def reading(reader: R) -> Iterator[R]:
    """The reader, which tells a terminal how much of its file has been read."""
    with telling() as tell:
        yield told(reader, tell)
    reader.tell = silent


def told(reader: R, tell: Telling) -> R:
    """The reader, which tells how much of its file has been read."""
    reader.tell = tell
    return reader
