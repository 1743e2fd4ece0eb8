"""A view as lines of text, for a terminal and for the repr of a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from sfumato.printable import one_line, plain, typed
from sfumato.view import ColumnView, TableView, View, is_figure, shown

GAP = 2  # blanks between the columns of a table
LEAST_WORDS = 16  # letters that a column of words has before it is broken; figures are shorter
ROOM, SCREEN, TABLE = 80, 24, 14  # letters of a line; lines of one screen, and of its tables

Grid = list[list[str]]  # the headings, then the lines


class Bold(str):
    """A line that a terminal shows bold."""

    __slots__ = ()
    style = "bold"


class Good(Bold):
    """One that is good news."""

    __slots__ = ()
    style = "bold green"


class Bad(Bold):
    """One that is bad news."""

    __slots__ = ()
    style = "bold red"


@dataclass(frozen=True)
class Paper:
    """What a view is written on: letters of a line, lines of a table (the rest is said to be left
    out), whether sentences are broken between words, as a terminal needs and a program does not,
    and whether a cell without room is cut or goes on below.
    """

    room: int = ROOM
    most: int | None = 20
    wrapped: bool = True
    cut: bool = False


def lines_of(view: View, paper: Paper) -> list[str]:
    """The lines of a view without its notes."""
    made = [*_lines(view, paper)]
    return [line for line, former in zip(made, ["", *made], strict=False) if line or former]


def screen_of(view: View) -> str:
    """A view without its details as one screen of text with its notes: a sentence is there whole or
    not at all, and what does not fit is said to be elsewhere.
    """
    view = view.brief()
    lines = lines_of(view, Paper(most=TABLE, cut=True))
    notes = [wrapped_words(plain(note), ROOM) for note in view.all_notes()]
    whole = not any(line.startswith("… and ") for line in lines)
    lines = [line for line in lines if not line.startswith("… and ")]
    for note in notes:
        whole = whole and len(lines) + len(note) <= SCREEN
        lines += note if whole else []
    if len(lines) > SCREEN or not whole:
        lines = [*lines[: SCREEN - 1], "the rest: to_dict(), and in a notebook"]
    return "\n".join(lines)


def fitting(view: View) -> int:
    """How many lines of each table leave room for all else on one screen with its prompt; three at
    least.
    """
    notes = [line for note in view.all_notes() for line in wrapped_words(f"note: {note}", ROOM)]
    tables = [table for part in view.parts() for table in part.tables if table.seen]
    free = SCREEN - 1 - len(lines_of(view, Paper(most=1))) - len(notes)
    return max(3, 1 + free // max(1, len(tables)))


def _lines(view: View, paper: Paper) -> Iterator[str]:
    room = paper.room if paper.wrapped else None
    if view.title:
        yield Bold(one_line(view.title))
    if view.verdict is not None:
        text, good = view.verdict
        yield from map(Good if good else Bad, wrapped_words(plain(text), room))
    for words in view.words:
        yield from wrapped_words(plain(words), room)
    if view.facts:
        yield from _facts(view.facts, room)
    yield from plain(view.code).splitlines()
    if view.command:
        for line in typed(one_line(view.command), None if room is None else room - 6):
            yield f"  {line}"
    for table in view.tables:
        if table.caption and table.seen and len(table):
            yield from ("", plain(table.caption))
        yield from table_lines(table, paper)
    for part in view.sections:
        yield ""
        yield from _lines(part, paper)


def wrapped_words(words: str, room: int | None) -> list[str]:
    """A sentence in lines that end between words, and never before a per cent sign."""
    lines = list[str]()
    if room is None:
        return words.split("\n")
    for line in words.split("\n"):
        held = line.replace(" %", "\u00a0%")
        parts = wrap(held, max(room, 20), break_long_words=False, break_on_hyphens=False)
        lines += [part.replace("\u00a0%", " %") for part in parts] or [""]
    return lines


def _facts(facts: Sequence[tuple[str, object]], room: int | None) -> Iterator[str]:
    """Names and what they stand for, side by side."""
    known = [(one_line(name), one_line(shown(value))) for name, value in facts if value is not None]
    width = max((width_of(name) for name, _ in known), default=0) + GAP
    for name, value in known:
        lines = wrapped_words(value, None if room is None else room - width)
        yield padded(name, width) + lines[0]
        yield from (" " * width + line for line in lines[1:])


def table_lines(table: TableView, paper: Paper) -> list[str]:
    """A table whose words stand to the left and whose figures to the right. Words are broken where
    there is no room; several estimates of a line then stand one below the other, and other figures
    go on below with the words said again.

    >>> from sfumato.view import TableView
    >>> table_lines(TableView.of(["item", "count"], [["tea", 1204], ["jam", 7]]), Paper())
    ['item  count', 'tea   1,204', 'jam       7']
    """
    if not table.seen or not len(table):
        return []
    grid, errors = _grid(table.seen, paper.most)
    if errors > 1 and len(_parts(grid, paper.room)) > 1:
        grid = _listed(table.seen, paper.most)
    lines = list[str]()
    for part in _parts(grid, paper.room):
        lines += [""] * bool(lines) + _aligned([[line[at] for at in part] for line in grid], paper)
    rest = 0 if paper.most is None else len(table) - paper.most
    return lines + ([f"… and {rest:,} {table.rest}"] if rest > 0 else [])


def _grid(columns: Sequence[ColumnView], most: int | None) -> tuple[Grid, int]:
    """The cells of headings and lines, and how many of the columns are estimates."""
    made, errors = list[list[str]](), 0
    for column in columns:
        stacks = _stacked(column, most)
        if not errors and any(" ± " in cell for cell in stacks[0]):
            stacks[0][0] += " ± stderr"  # of the first; the others are read alike
        errors += column.stderr is not None
        made += stacks
    return [*map(list, zip(*made, strict=True))], errors


def _stacked(column: ColumnView, most: int | None) -> Grid:
    """The columns of text that a column is: an estimate has its interval in a second one."""
    column = column.first(most)
    stacks = [[column.head, *column.cells]]
    if any(ends := column.interval_cells):
        stacks.append([interval_head(column.level), *ends])
    return [[one_line(cell) for cell in stack] for stack in stacks]


def _listed(columns: Sequence[ColumnView], most: int | None) -> Grid:
    """A line for each estimate of a line."""
    labels = [column for column in columns if column.stderr is None]
    estimates = [column for column in columns if column.stderr is not None]
    parts = [_stacked(column, most) for column in estimates]
    ends = any(len(part) > 1 for part in parts)
    head = [column.head for column in labels] + ["answer", "value ± stderr"]
    grid = [head + [parts[0][-1][0]] * ends]
    beside = [[one_line(cell) for cell in column.first(most).cells] for column in labels]
    for place in range(1, len(parts[0][0])):
        for column, part in zip(estimates, parts, strict=True):
            cells = [stack[place] for stack in part] + [""] * (ends and len(part) == 1)
            grid.append([*(each[place - 1] for each in beside), one_line(column.head), *cells])
    return grid


def interval_head(level: float | None) -> str:
    """What the intervals of a level are called."""
    return f"{100 * (level or 0.95):g} % interval"


def _parts(grid: Grid, room: int) -> list[list[int]]:
    """Which columns stand side by side: the words and what is left of the first estimate, which say
    what a line is about, and as many figures as have room beside them.
    """
    columns = [*zip(*grid, strict=True)]
    widths = [max(map(width_of, column)) for column in columns]
    words = {place for place, column in enumerate(columns) if not _figures(column)}
    least = [GAP + (min(w, LEAST_WORDS) if at in words else w) for at, w in enumerate(widths)]
    words.update(range(next((at for at, head in enumerate(grid[0]) if " ± " in head), 0)))
    free = room + GAP - sum(least[at] for at in words)  # the last column needs no gap behind it
    parts: list[list[int]] = [[]]
    for place in set(range(len(widths))).difference(words):
        if parts[-1] and sum(least[at] for at in (*parts[-1], place)) > free:
            parts.append([])
        parts[-1].append(place)
    return [sorted([*words, *figures]) for figures in parts]


def _figures(column: Sequence[str]) -> bool:
    return len(column) > 1 and all(map(is_figure, column[1:])) and any(column[1:])


def _aligned(grid: Grid, paper: Paper) -> list[str]:
    """The lines of a grid whose columns fit side by side once words are broken."""
    columns = [*zip(*grid, strict=True)]
    right = [_figures(column) for column in columns]
    widths = [max(map(width_of, column)) for column in columns]
    over = sum(widths) + GAP * (len(widths) - 1) - paper.room
    for place in sorted(range(len(widths)), key=lambda at: -widths[at]):
        if over > 0 and not right[place]:
            less = min(over, max(widths[place] - LEAST_WORDS, 0))
            widths[place], over = widths[place] - less, over - less
    lines = list[str]()
    for number, row in enumerate(grid):
        broken = [_fitted(*pair, paper.cut) for pair in zip(row, widths, strict=True)]
        for depth in range(max(map(len, broken))):
            cells = [part[depth] if depth < len(part) else "" for part in broken]
            parts = zip(cells, widths, right, strict=True)
            line = (" " * GAP).join(padded(*part) for part in parts).rstrip()
            lines.append(line if number else Bold(line))
    return lines if any(grid[0]) else lines[1:]


def _fitted(cell: str, width: int, cut: bool) -> list[str]:
    """A cell in lines of this width, or cut to one."""
    if width_of(cell) <= width:
        return [cell]
    from rich.cells import chop_cells, set_cell_size

    if cut:
        return [f"{set_cell_size(cell, width - 1).rstrip()}…"]
    parts = wrap(cell, width, break_on_hyphens=False)
    return [line for part in parts for line in chop_cells(part, width)]


def padded(words: str, width: int, right: bool = False) -> str:
    """The words with blanks to this width."""
    blanks = " " * max(0, width - width_of(words))
    return blanks + words if right else words + blanks


def width_of(words: str) -> int:
    """How many places of a terminal the words take: East Asian letters two each, a mark on a letter
    none.

    >>> width_of("tea"), width_of("お茶"), width_of("te\u0301")
    (3, 4, 2)
    """
    if words.isascii():
        return len(words)
    from rich.cells import cell_len  # here, so that what shows nothing does not load it

    return cell_len(words)
