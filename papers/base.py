"""Reproduction: a table of a paper, its numbers beside ours, and notes where the two
cannot agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from sfumato.errors import ParameterError
from sfumato.printable import percent
from sfumato.renderers.picture import in_words
from sfumato.renderers.picture import lines as chart_of_lines
from sfumato.view import Chart, Series, TableView, View

FEWEST_SEEDS = 10  # that tell a spread well enough to mark a printed number
LEVEL = 0.99  # of the interval outside which a paper's number is marked
LENGTH = "length"  # the label that makes a reproduction drawable
WIDTH = 120  # of a line of text
MARK = "≠"
MEANING_OF_MARK = (
    f"{MARK} marks a printed number that is not our exact one, or that lies outside the "
    f"{percent(LEVEL, 0)} prediction interval of our "
    "runs (by chance one in a hundred does)"
)

TITLE = "The papers' tables, theirs beside ours"

Label = str | int | float


@dataclass(frozen=True)
class Settings:
    """How a reproduction is run: where the data are, over how many seeds, and whether on small data
    to try it out.
    """

    data: str | Path | None = None
    seeds: int = 10
    quick: bool = False
    tell: Callable[[float], None] | None = None  # the share of the seeds that was run through

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ParameterError(f"seeds={self.seeds}; a reproduction needs at least one")

    @property
    def runs(self) -> Sequence[int]:
        """The seeds to run over."""
        seeds = range(1, 2 if self.quick else self.seeds + 1)
        return seeds if self.tell is None else TellingSeeds(seeds, self.tell)

    @property
    def counted(self) -> str:
        """The number of runs in words."""
        return "1 seed" if len(self.runs) == 1 else f"{len(self.runs)} seeds"


@dataclass(frozen=True)
class TellingSeeds(Sequence[int]):
    """Seeds that tell, as they are run through, how far that is."""

    seeds: range
    tell: Callable[[float], None]

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, place: Any) -> Any:
        return self.seeds[place]

    def __iter__(self) -> Iterator[int]:
        for done, seed in enumerate(self.seeds):
            self.tell(done / len(self.seeds))
            yield seed


class Printed(float):
    """A number as a paper prints it, with all its digits: 91.30 is not 91.3.

    >>> Printed("91.30") == 91.3, Printed("91.30").text
    (True, '91.30')
    """

    text: str

    def __new__(cls, text: str) -> Printed:
        """The number of a text that is kept beside it."""
        made = super().__new__(cls, text)
        made.text = text
        return made


@dataclass(frozen=True)
class Runs:
    """One quantity measured once a seed; None where a run did not define it (no itemset found,
    say).

    `grain` is the step in which it can change: one itemset more or less.

    >>> runs = Runs((4.0, 5.0, 6.0) * 4)
    >>> runs.mean, round(runs.spread or 0, 2), runs.excludes(5.5), runs.excludes(50)
    (5.0, 0.85, False, True)
    """

    values: tuple[float | None, ...]
    grain: float = 0.0

    @property
    def defined(self) -> list[float]:
        """The values of the runs that defined one."""
        return [value for value in self.values if value is not None]

    @property
    def mean(self) -> float | None:
        """The mean over the seeds."""
        return math.fsum(self.defined) / len(self.defined) if self.defined else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over the seeds; None for a single one."""
        mean, count = self.mean, len(self.defined)
        if mean is None or count < 2:
            return None
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in self.defined) / (count - 1))
        return spread if spread > 1e-12 * abs(mean) else 0.0

    def excludes(self, printed: float) -> bool:
        """Whether one more run would hardly ever give this number: |printed - mean| > t·spread·√(1
        + 1/seeds) + 3 grains.

        Runs that all agree tell nothing about their spread unless the grain is known.
        """
        mean, spread, count = self.mean, self.spread, len(self.defined)
        if mean is None or spread is None or not (spread or self.grain):
            return False
        if count < FEWEST_SEEDS:  # three would let anything within 11 deviations pass
            return False
        from scipy.special import stdtrit

        reach = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * spread * math.sqrt(1 + 1 / count)
        return abs(printed - mean) > reach + 3 * self.grain + rounding(printed)

    def to_dict(self) -> dict[str, Any]:
        """Mean, spread and every value."""
        return {"mean": self.mean, "spread": self.spread, "values": list(self.values)}


@dataclass(frozen=True)
class Cell:
    """What the paper prints (None where it prints nothing) and what we find: runs over seeds, or an
    exact number.
    """

    paper: float | None
    ours: Runs | float | None

    @property
    def differs(self) -> bool:
        """Whether the paper's number is not one that we would find."""
        if self.paper is None or self.ours is None:
            return False
        if isinstance(self.ours, Runs):
            return self.ours.excludes(self.paper)
        return abs(self.paper - self.ours) > rounding(self.paper) * (1 + 1e-9)

    @property
    def seeds(self) -> int:
        """How many runs our number is from; 0 where it is exact."""
        return len(self.ours.values) if isinstance(self.ours, Runs) else 0

    @property
    def value(self) -> float | None:
        """Our number: the mean, or the exact one."""
        return self.ours.mean if isinstance(self.ours, Runs) else self.ours

    def shown(self) -> str:
        """Our number in words, with its spread, marked where the paper's differs."""
        mark = f" {MARK}" if self.differs else ""
        if isinstance(self.ours, Runs):
            return _with_spread(self.ours.mean, self.ours.spread) + mark
        if self.paper is None or self.ours is None:
            return _number(self.ours) + mark
        return f"{self.ours:,.{_decimals(self.paper)}f}{mark}"

    def printed(self) -> str:
        """The paper's number with all its digits."""
        return "–" if self.paper is None else f"{self.paper:,.{_decimals(self.paper)}f}"

    def to_dict(self) -> dict[str, Any]:
        """Both numbers as JSON data."""
        ours = self.ours.to_dict() if isinstance(self.ours, Runs) else self.ours
        printed = None if self.paper is None else self.printed()
        return {
            "paper": self.paper,
            "printed": printed,
            "ours": _finite(ours),
            "differs": self.differs,
        }


@dataclass(frozen=True)
class Row:
    """One line: its labels (a length, a mechanism and a length …) and a cell for each quantity."""

    labels: tuple[Label, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Reproduction:
    """A table of a paper beside ours.

    >>> row = Row((1,), (Cell(249, 249), Cell(5.89, Runs((6.1, 6.4, 6.3)))))
    >>> print(Reproduction("demo", "A table", (LENGTH,), ("|F|", "support error (%)"),
    ...     (row,)).to_text())
    A table
             |F|          support error (%)
    length   paper ours   paper ours
    1          249  249    5.89 6.27 ± 0.15
      · verdict: not judged: 3 seed(s), 10 tell a spread (--seeds)
    """

    name: str
    title: str
    labels: tuple[str, ...]
    quantities: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    logarithmic: tuple[str, ...] = field(
        default=(), kw_only=True
    )  # quantities drawn on a logarithmic axis
    # what is judged where no number is printed
    unprinted: str = field(default="shape only: the paper prints no numbers here", kw_only=True)
    # the verdict where printed numbers cannot be held against ours: seconds of another machine
    said: str = field(default="", kw_only=True)
    # why printed numbers beside which there is a single number of ours are not judged
    apart: str = field(default="they are not of the runs", kw_only=True)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.labels) != len(self.labels) or len(row.cells) != len(self.quantities):
                raise ParameterError(
                    f"'{self.name}': a row has {len(row.labels)} labels and {len(row.cells)} "
                    "cells, "
                    f"where {len(self.labels)} and {len(self.quantities)} are named"
                )

    @property
    def verdict(self) -> str:
        """How the paper's numbers stand beside ours, in a few words."""
        if self.said:
            return self.said
        printed = [cell for row in self.rows for cell in row.cells if cell.paper is not None]
        if not printed:
            return self.unprinted
        judged = [cell for cell in printed if cell.seeds != 1]
        if not judged:
            return self._unjudged(len(printed))
        rest = len(printed) - len(judged)
        return _verdict(judged) + (f"; {rest} more are not judged: {self.apart}" if rest else "")

    def _unjudged(self, printed: int) -> str:
        """The verdict where beside no printed number there are runs, or a single one of each."""
        if all(cell.seeds <= 1 for row in self.rows for cell in row.cells):
            return _too_few(1)
        return f"shape only: the {printed} printed numbers are not judged: {self.apart}"

    def column(self, quantity: str) -> list[Cell]:
        """The cells of one quantity, row by row."""
        place = self.quantities.index(quantity)
        return [row.cells[place] for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON data."""
        rows = [
            dict(zip(self.labels, row.labels, strict=True))
            | {name: cell.to_dict() for name, cell in zip(self.quantities, row.cells, strict=True)}
            for row in self.rows
        ]
        return {
            "name": self.name,
            "title": self.title,
            "verdict": self.verdict,
            "rows": rows,
            "notes": list(self.notes),
        }

    def to_text(self, width: int = WIDTH) -> str:
        """A plain text table: for each quantity the paper's number (where it prints
        any) and ours; where they are too many for the width, the rest below.
        """
        lines = _laid_out(self.labels, list(self._groups()), self.rows, width)
        marked = (
            [MEANING_OF_MARK]
            if any(cell.differs for row in self.rows for cell in row.cells)
            else []
        )
        notes = [f"verdict: {self.verdict}", *marked, *self.notes]
        return "\n".join([fill(self.title, width), *lines, *(_note(note, width) for note in notes)])

    def view(self) -> View:
        """The same for an HTML page."""
        table = TableView.of(*self.grid())
        verdict = f"Verdict: {self.verdict}."
        return View(
            self.title, words=(verdict,), charts=self._charts(), tables=(table,), notes=self.notes
        )

    def _charts(self) -> tuple[Chart, ...]:
        """The figure, where there is one to draw."""
        drawn = self.drawing()
        if drawn is None:
            return ()
        across = "itemset length" if self.labels[-1] == LENGTH else self.labels[-1]
        alt = f"Curves of {self.title}. {in_words(drawn)}"
        return (replace(drawn, caption=f"{self.title}: by {across}", alt=alt),)

    def grid(self) -> tuple[list[str], list[list[Any]]]:
        """The names of the columns, and the rows: labels, then the paper's numbers beside ours."""
        columns = list(self.labels)
        for quantity, printed, _ in self._groups():
            columns += [f"{quantity}: paper", "ours"] if printed else [quantity]
        return columns, [[*row.labels, *self._entries(row)] for row in self.rows]

    def drawing(self) -> Chart | None:
        """The errors by length as a figure; None where rows are not lengths."""
        if self.labels[-1] != LENGTH or not self.rows:
            return None
        lengths = sorted({int(row.labels[-1]) for row in self.rows})
        lines = {
            quantity: self._lines(quantity, lengths)
            for quantity in self.quantities
            if "%" in quantity
        }
        if not lines:
            return None
        drawn = chart_of_lines(lengths, lines, across="itemset length", quantity="error (%)")
        assert isinstance(drawn.drawn, Sequence)
        panels = zip(lines, drawn.drawn, strict=True)
        return replace(
            drawn,
            drawn=[
                replace(panel, log="y") if name in self.logarithmic else panel
                for name, panel in panels
            ],
        )

    def _lines(self, quantity: str, lengths: Sequence[int]) -> list[Any]:
        """Our means with their standard errors, a line for each set of the other labels; the
        paper's where there is one set.
        """
        place = self.quantities.index(quantity)
        lines = []
        for labels, rows in groupby(self.rows, key=lambda row: row.labels[:-1]):
            cells = {int(row.labels[-1]): row.cells[place] for row in rows}
            lines.append(
                Series(
                    " ".join(map(str, labels)) or "ours",
                    *means([cells.get(length) for length in lengths]),
                )
            )
            if not labels:
                lines.append(
                    Series(
                        "paper",
                        [
                            _or_nan(cells[length].paper if length in cells else None)
                            for length in lengths
                        ],
                    )
                )
        return lines

    def _groups(self) -> Iterator[tuple[str, bool, list[Cell]]]:
        """Each quantity, whether the paper prints it anywhere, and its cells."""
        for quantity in self.quantities:
            cells = self.column(quantity)
            yield quantity, any(cell.paper is not None for cell in cells), cells

    def _entries(self, row: Row) -> Iterator[Any]:
        for cell, (_, printed, _) in zip(row.cells, self._groups(), strict=True):
            if printed:
                yield cell.printed()
            yield cell.shown()


def _verdict(cells: Sequence[Cell]) -> str:
    missed = sum(cell.differs for cell in cells)
    if missed:
        return f"misses {missed} of {len(cells)} printed numbers; the notes say what is known"
    seeds = min((cell.seeds for cell in cells if cell.seeds), default=0)
    if not seeds:
        near = sum(cell.shown() != cell.printed() for cell in cells)
        if near:
            return f"to rounding: all {len(cells)} printed numbers, {near} but for the last digit"
        return f"exact: all {len(cells)} printed numbers"
    if seeds < FEWEST_SEEDS:
        return _too_few(seeds)
    return f"within error: all {len(cells)} printed numbers"


def _too_few(seeds: int) -> str:
    return f"not judged: {seeds} seed(s), {FEWEST_SEEDS} tell a spread (--seeds)"


def over_runs(
    measure: Callable[[int], Sequence[Sequence[float | None]]], seeds: Iterable[int]
) -> list[list[Runs]]:
    """A table of runs from a table of numbers a seed: same rows, same columns."""
    tables = [measure(seed) for seed in seeds]
    return [
        [Runs(tuple(values)) for values in zip(*rows, strict=True)]
        for rows in zip(*tables, strict=True)
    ]


def view_of(reproductions: Sequence[Reproduction]) -> View:
    """Every table and, where it can be drawn, its figure."""
    return View(TITLE, words=(MEANING_OF_MARK,), sections=[each.view() for each in reproductions])


def rounding(printed: float) -> float:
    """By how much a printed number may differ from the true one: two units in its last decimal
    place, half a whole number.

    Two, since papers cut digits off as often as they round, and from numbers that were rounded
    before.

    >>> rounding(5.89), rounding(249)
    (0.02, 0.5)
    """
    return 2 * 10.0 ** -_decimals(printed) if _decimals(printed) else 0.5


def _note(text: str, width: int) -> str:
    return fill(text, width, initial_indent="  · ", subsequent_indent="    ")


def _decimals(printed: float) -> int:
    if isinstance(printed, Printed):
        return len(printed.text.partition(".")[2])
    return 0 if printed == round(printed) else len(repr(float(printed)).partition(".")[2])


def _laid_out(
    labels: Sequence[str],
    groups: Sequence[tuple[str, bool, list[Cell]]],
    rows: Sequence[Row],
    width: int,
) -> list[str]:
    """Head and body lines: label columns to the left, then for each quantity its paper and our
    columns.
    """
    names = [
        _column("", name, [_number(row.labels[place]) for row in rows])
        for place, name in enumerate(labels)
    ]
    abreast: list[list[list[str]]] = [[]]
    for quantity, printed, cells in groups:
        ours = _column("" if printed else quantity, "ours", [cell.shown() for cell in cells])
        if printed:
            theirs = _column("", "paper", [cell.printed() for cell in cells], right=True)
            pair = [f"{left} {right}" for left, right in zip(theirs[1:], ours[1:], strict=True)]
            ours = _padded([quantity, *pair])
        if abreast[-1] and len(_beside([*names, *abreast[-1], ours])[0]) > width:
            abreast.append([])
        abreast[-1].append(ours)
    told = [[line.rstrip() for line in _beside([*names, *columns])] for columns in abreast]
    return [line for place, part in enumerate(told) for line in ([""] if place else []) + part]


def _beside(columns: Sequence[Sequence[str]]) -> list[str]:
    return ["   ".join(parts) for parts in zip(*columns, strict=True)]


def _column(over: str, head: str, entries: Sequence[str], *, right: bool = False) -> list[str]:
    return _padded([over, head, *entries], right=right)


def _padded(lines: Sequence[str], *, right: bool = False) -> list[str]:
    width = max(map(len, lines))
    return [line.rjust(width) if right else line.ljust(width) for line in lines]


def _number(value: Label | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return "∞"
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1_000 else f"{value:.4g}"


def _with_spread(value: float | None, spread: float | None) -> str:
    """Both to the second figure of the spread."""
    if value is None or not spread:
        return _number(value)
    digits = max(0, min(4, 1 - math.floor(math.log10(spread))))
    return f"{value:,.{digits}f} ± {spread:,.{digits}f}"


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def means(cells: Sequence[Cell | None]) -> tuple[list[float], list[float]]:
    """The mean of each cell over its runs and the standard error of that mean; a gap where it is
    undefined.
    """
    values, errors = [], []
    for cell in cells:
        runs = cell.ours if cell is not None and isinstance(cell.ours, Runs) else None
        values.append(_or_nan(cell.value if cell is not None else None))
        errors.append(
            (runs.spread or 0) / math.sqrt(len(runs.defined)) if runs and runs.defined else 0
        )
    return values, errors
