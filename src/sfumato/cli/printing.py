"""What commands print: JSON or text on standard output, notes and progress on standard error."""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from sfumato.printable import escaped, one_line, plain
from sfumato.progress import Progress, silent

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.table import Reader
    from sfumato.view import View

R = TypeVar("R", bound="Reader")


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


def show(view: View, *, most: int | None = 20) -> None:
    """A view as text, of each table at most so many lines; its notes on standard error."""
    from sfumato.renderers.text import Bold, Paper, lines_of  # numpy with it, which no help needs

    screen = console()
    paper = Paper(screen.width, most, wrapped=sys.stdout.isatty())
    for line in lines_of(view, paper):
        if isinstance(line, Bold):
            screen.print(str(line), style=line.style, soft_wrap=True)
        else:
            print(line)
    print_notes(view.all_notes())


def show_brief(view: View, more: str) -> None:
    """A view on one screen, and below it what shows more."""
    from dataclasses import replace

    from sfumato.renderers.text import fitting
    from sfumato.view import View

    whole = replace(view, sections=(*view.sections, View(words=(more,))))
    show(whole, most=fitting(whole))


def print_words(words: str) -> None:
    """Sentences on standard output, broken between words where a terminal would cut one in two."""
    print(broken(words, sys.stdout))


def print_notes(notes: Sequence[str]) -> None:
    """Remarks, on standard error so that they do not mix with results."""
    for note in notes:
        print(broken(f"note: {one_line(note)}", sys.stderr), file=sys.stderr, flush=True)


def print_lines(lines: Sequence[str]) -> None:
    """What is to be seen before a command goes on, on standard error, and an empty line below."""
    print(*map(one_line, lines), "", sep="\n", file=sys.stderr, flush=True)


def broken(words: str, stream: TextIO) -> str:
    """The words as a terminal shows them uncut; as they are elsewhere, for whatever reads them."""
    if not stream.isatty():
        return words
    from sfumato.renderers.text import wrapped_words  # numpy with it, which no help needs

    return "\n".join(wrapped_words(words, get_terminal_size().columns))


def print_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Names and values side by side."""
    from sfumato.view import View

    show(View(facts=facts))


def print_either(result: Mapping[str, Any], facts: Sequence[tuple[str, Any]], json: bool) -> None:
    """A JSON object, or what it says as facts for people."""
    print_json(result) if json else print_facts(facts)


def print_table(heads: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    """Lines under headings."""
    from sfumato.view import TableView, View

    show(View(tables=(TableView.of(heads, lines),)), most=None)


def value_labels(attribute: Any) -> tuple[str, ...]:
    """The values of an attribute; of a number its default bins, or its range where it has none."""
    from sfumato.domain import Numeric  # numpy with it, which no command's help needs

    if not isinstance(attribute, Numeric):
        return attribute.labels
    return attribute.cells_by_cuts(attribute.cuts).labels


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A function that shows on a terminal what is being done and how much of it; silent
    elsewhere.
    """
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    shown = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[share]}"),
        TimeRemainingColumn(),
    )
    with Bars(*shown, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading …", total=None, share="")
        done: float | None = None

        def tell(words: str, share: float | None = None) -> None:
            nonlocal task, done
            known: dict[str, Any] = {
                "description": f"{one_line(words)} …",
                "share": "" if share is None else f"{share:.0%}",
            }
            if (share is None) != (done is None) or (share or 0) < (done or 0):
                # Other work has a pace of its own, which its time left follows from.
                bar.remove_task(task)
                task = bar.add_task(total=None if share is None else 1.0, **known)
            bar.update(task, completed=share or 0.0, **known)
            done = share

        yield tell


@contextmanager
def row_bar(title: str) -> Iterator[Callable[[int, float | None], None]]:
    """The same for work that counts the rows it has done."""
    with progress_bar() as tell:
        yield lambda rows, share: tell(f"{title} {rows:,} rows", share)


@contextmanager
def reading(reader: R) -> Iterator[R]:
    """The reader, which shows a terminal how much of its file has been read."""
    with progress_bar() as reader.tell:
        yield reader
    reader.tell = silent


class EscapeFilter(io.TextIOBase):
    """A stream that shows text and obeys none of it.

    Rich writes its own colours past it on a terminal, by the name that it looks for; what it is
    given to colour has passed `plain` before.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if stream.isatty():
            self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self._stream.write(plain(text))
        return len(text)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    @property
    def closed(self) -> bool:
        """Whether the stream is: who asks a closed one whether it is a terminal gets an error."""
        return self._stream.closed

    def fileno(self) -> int:
        return self._stream.fileno()

    # An attribute of io.TextIOBase, which only passes on here.
    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def buffer(self) -> Any:
        """The bytes below, for data that is written to standard output."""
        return self._stream.buffer


@contextmanager
def shielded() -> Iterator[None]:
    """A block whose standard output, standard error and warnings are shown and not obeyed."""
    kept = sys.stdout, sys.stderr, warnings.showwarning
    for stream in kept[:2]:
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal lacks is no fault
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = EscapeFilter(kept[0]), EscapeFilter(kept[1])
    warnings.showwarning = _noted
    try:
        yield
    finally:
        if isinstance(sys.stdout, EscapeFilter):  # else whoever read our output has gone
            sys.stdout = kept[0]
        sys.stderr, warnings.showwarning = kept[1:]


def _noted(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one of our notes; where in the program it arose helps nobody."""
    print_notes([str(message)])
