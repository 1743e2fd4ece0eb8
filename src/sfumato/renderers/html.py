"""A view as HTML: a fragment in a notebook, or one page that needs nothing else: no script, no
outside file, readable on a phone, light and dark.

Every label is escaped: it comes from a file, and files may hold anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any

from sfumato.errors import MissingExtraError
from sfumato.printable import plain
from sfumato.renderers.picture import figure_html
from sfumato.renderers.text import interval_head
from sfumato.view import LISTED, Chart, ColumnView, TableView, View, is_figure, shown

MOST_LINES = 40  # of a table in a notebook
LONG = 12  # letters from which on the first column's words need room on a phone
ENDLESS = 24  # letters of one word from which on it may be broken there
_OPTION = re.compile(r"(?<= )-[^ ]+")

SHEET = """
:root { color-scheme: light dark;
  --ink: #22262e; --faint: #667; --paper: #fff; --line: #dfe2e8; --tint: #f5f6f9;
    --accent: #0072b2; --good: #009e73; --bad: #d55e00; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ee; --faint: #99a1b0; --paper: #15181e; --line: #333a46; --tint: #1e232c;
    --accent: #56b4e9; }
  figure img { filter: invert(0.91) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1.1rem 4rem; background: var(--paper);
  color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
    overflow-wrap: anywhere; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 0.6rem; padding-top: 0.9rem;
  border-top: 1px solid var(--line); }
p { max-width: 44rem; }
.lead { color: var(--faint); font-size: 1.1rem; margin-top: 0; }
.verdict { font-weight: 600; padding: 0.6rem 0.9rem; border-left: 5px solid var(--bad);
  background: var(--tint); }
.verdict.good { border-color: var(--good); }
.note { border-left: 3px solid var(--accent); background: var(--tint); padding: 0.6rem 0.9rem; }
.wide { overflow-x: auto; margin: 1rem 0; background: /* a shadow where more is to be had */
  linear-gradient(90deg, var(--paper) 40%, transparent) 0 0 / 2rem 100% no-repeat local,
  linear-gradient(270deg, var(--paper) 40%, transparent) 100% 0 / 2rem 100% no-repeat local,
  linear-gradient(90deg, var(--line), transparent) 0 0 / 0.8rem 100% no-repeat scroll,
  linear-gradient(270deg, var(--line), transparent) 100% 0 / 0.8rem 100% no-repeat scroll; }
table { min-width: 17rem; border-collapse: collapse; font-variant-numeric: tabular-nums;
  font-size: 0.94rem; }
caption { text-align: left; color: var(--faint); padding-bottom: 0.4rem; }
th, td { padding: 0.32rem 0.8rem; text-align: left; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; }
th { font-weight: 600; vertical-align: top; }
thead th { vertical-align: bottom; }
.number { text-align: right; }
td.number { white-space: nowrap; }
tbody tr:hover { background: var(--tint); }
figure { margin: 1.2rem 0; overflow-x: auto; }
figure img { display: block; width: 36rem; max-width: 100%; height: auto; background: #fff;
  border-radius: 8px; padding: 6px; }
figure.wide img { width: auto; }
figcaption { color: var(--faint); font-size: 0.94rem; margin-top: 0.4rem; max-width: 44rem; }
pre { overflow-x: auto; background: var(--tint); padding: 0.8rem; border-radius: 6px;
  font-size: 0.88rem; overflow-wrap: normal; }
pre.command { white-space: pre-wrap; overflow-wrap: anywhere; }
pre.command span { white-space: nowrap; }
@media (max-width: 36rem) {
  figure.wide img { max-width: none; }
  table { font-size: 0.85rem; }
  th, td { padding: 0.3rem 0.42rem; }
  td.number { white-space: normal; }
  td.long { min-width: 7rem; }
  td.endless { overflow-wrap: anywhere; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  figure, tr, .facts, pre { break-inside: avoid; }
  figure img, figure.wide img { max-width: 100%; width: auto; padding: 0; }
  .wide, figure { overflow: visible; background: none; }
  table { font-size: 8pt; }
  th, td { padding: 0.15rem 0.3rem; overflow-wrap: anywhere; }
  pre { white-space: pre-wrap; }
  h2 { break-after: avoid; }
}
""".strip()


def page(view: View) -> str:
    """The whole page as text.

    >>> "<title>Smokers &amp; others</title>" in page(View("Smokers & others", ["24.7 %"]))
    True
    """
    title = escape(plain(view.title))
    body = "\n".join(_parts(view, LISTED, paged=True))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{SHEET}\n</style>\n</head>\n"
        f"<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def fragment(view: View) -> str:
    """What a notebook shows: no details, no pictures but sparklines, long tables cut."""
    title = f"<p><b>{_words(view.title)}</b></p>" if view.title else ""
    return title + "".join(_parts(view.brief(), MOST_LINES, paged=False))


def _parts(view: View, most: int, *, paged: bool) -> Iterator[str]:
    """All but the title."""
    if view.verdict is not None:
        text, good = view.verdict
        yield f'<p class="verdict{" good" * good}">{_words(text)}</p>'
    yield from (f"<p>{_words(words)}</p>" for words in view.words if words)
    if paged:
        yield from map(_figure, view.charts)
    if any(value is not None for _, value in view.facts):
        yield _facts(view.facts)
    if view.code:
        yield f"<pre>{escape(plain(view.code))}</pre>"
    if view.command:
        yield _command(view.command)
    for table in view.tables:
        yield from _table(table, most)
    yield from (f'<p class="note">{_words(note)}</p>' for note in view.notes)
    for part in view.sections:
        if part.title:
            yield (
                f"<h2>{_words(part.title)}</h2>" if paged else f"<p><b>{_words(part.title)}</b></p>"
            )
        yield from _parts(part, most, paged=paged)


def _figure(chart: Chart) -> str:
    """The picture, or why there is none: the rest of the page needs no drawing library."""
    try:
        return figure_html(chart)
    except MissingExtraError as missing:
        return f'<p class="note">{_words(str(missing))}</p>'


def _command(command: str) -> str:
    """What was typed, whose long lines go on below; no line ends in "--"."""
    whole = _OPTION.sub(r"<span>\g<0></span>", escape(plain(command)))
    return f'<pre class="command">{whole}</pre>'


def _facts(facts: Sequence[tuple[str, Any]]) -> str:
    lines = "\n".join(
        f'<tr><th scope="row">{_words(name)}</th><td>{_words(shown(value))}</td></tr>'
        for name, value in facts
        if value is not None
    )
    return f'<div class="wide facts"><table><tbody>{lines}</tbody></table></div>'


def _table(table: TableView, most: int) -> Iterator[str]:
    """Numbers stand to the right; each estimate with its interval and a sparkline of it."""
    if not table.seen or not len(table):
        return
    columns = [part for column in table.seen for part in _columns(column, most)]
    caption = f"<caption>{_words(table.caption)}</caption>" if table.caption else ""
    head = "".join(name for name, _ in columns)
    rows = zip(*(cells for _, cells in columns), strict=True)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    yield (
        f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )
    if len(table) > most:
        yield f"<p>… and {len(table) - most:,} {_words(table.rest)}</p>"


def _columns(column: ColumnView, most: int) -> Iterator[tuple[str, list[str]]]:
    """Heading and cells of the one to three columns that a column is."""
    column = column.first(most)
    cells = column.cells
    estimated = column.stderr is not None and any(" ± " in cell for cell in cells)
    yield _column(column.head + " ± stderr" * estimated, cells)
    if column.level is None and column.mark is None and column.ends is None:
        return
    if any(ends := column.interval_cells):
        yield _column(interval_head(column.level), ends)
    if column.ends is None and column.stderr is not None:
        drawn = around(column.values, column.stderr, column.reach)
    else:
        drawn = [
            (value, *ends) for value, ends in zip(column.values, column.intervals, strict=True)
        ]
    words = column.words or "{:,.4g}".format
    pictures = spans(drawn, zero=column.counts, mark=column.mark, words=words)
    head = "" if column.mark is None else f"dashed: {words(column.mark)}"
    yield _cell("th", head, False, False), [f"<td>{picture}</td>" for picture in pictures]


def _column(head: str, cells: Sequence[str]) -> tuple[str, list[str]]:
    right = any(cells) and all(map(is_figure, cells))
    long = not right and any(len(cell) > LONG for cell in cells)
    return _cell("th", head, right, False), [_cell("td", cell, right, long) for cell in cells]


def _cell(tag: str, words: str, right: bool, long: bool) -> str:
    endless = long and max(map(len, words.split()), default=0) > ENDLESS
    kind = "number" if right else "long endless" if endless else "long" if long else ""
    look = (' scope="col"' if tag == "th" else "") + (f' class="{kind}"' if kind else "")
    safe = _words(words)
    if right and tag == "td":  # where a phone breaks it, it breaks before the error
        safe = safe.replace("± ", "±\N{NO-BREAK SPACE}")
    return f"<{tag}{look}>{safe}</{tag}>"


def _words(text: str) -> str:
    """A text made safe; no line ends between a number and its per cent.

    >>> _words("5 % & more").replace("\N{NO-BREAK SPACE}", "_")
    '5_% &amp; more'
    """
    return escape(plain(text)).replace(" %", "\N{NO-BREAK SPACE}%")


# Sparklines: small pictures in tables, one per line on an axis that all lines share. They are SVG
# written by hand, so that looking at a result loads no drawing library, and they take the colour of
# the text beside them, light or dark.

WIDTH, HEIGHT, MARGIN = 150, 14, 5  # in points of the screen
MIDDLE, CAP = HEIGHT / 2, 3

Span = tuple[float, float, float]  # a value, and the ends of the line through it


def spans(
    lines: Iterable[Span],
    *,
    zero: bool = True,
    mark: float | None = None,
    words: Callable[[float], str] = "{:,.4g}".format,
) -> list[str]:
    """A picture per line, as HTML: the value as a dot, its interval as a line through it. The axis
    holds all of them, 0 if `zero`, and `mark`, which is drawn dashed; what is undefined stays
    empty, and `words` say the numbers to whoever cannot see.

    >>> [len(picture) > 0 for picture in spans([(2.0, 1.0, 3.0), (math.nan, math.nan, math.nan)])]
    [True, False]
    """
    shown = list(lines)
    known = [number for line in shown if _known(line) for number in line]
    fixed = [0.0] * zero + ([] if mark is None else [mark])
    axis = _Axis(known + fixed)
    ground = "".join(_rule(axis.place(at), dashed=at == mark) for at in dict.fromkeys(fixed))
    return [_picture(axis, line, ground, words) for line in shown]


def around(values: Iterable[float], stderr: Iterable[float], reach: float = 1.96) -> list[Span]:
    """Each value with the ends of its interval, `reach` standard errors away on either side; the
    value alone where its error is unknown.

    >>> around([1.0], [0.5], 2)
    [(1.0, 0.0, 2.0)]
    """
    pairs = zip(map(float, values), map(float, stderr), strict=True)
    known = ((value, 0.0 if math.isnan(error) else reach * error) for value, error in pairs)
    return [(value, value - ends, value + ends) for value, ends in known]


class _Axis:
    """From numbers to places across."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self.low = min(numbers, default=0.0)
        self.width = max(numbers, default=1.0) - self.low or 1.0

    def place(self, number: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * (number - self.low) / self.width


def _known(line: Span) -> bool:
    return all(map(math.isfinite, line))


def _rule(place: float, *, dashed: bool) -> str:
    look = ' stroke-dasharray="2 2"' if dashed else ""
    return f'<path d="M{place:.1f} 0V{HEIGHT}" stroke="currentColor" opacity="0.45"{look}/>'


def _picture(axis: _Axis, line: Span, ground: str, words: Callable[[float], str]) -> str:
    if not _known(line):
        return ""
    value, low, high = map(axis.place, line)
    said, *ends = map(words, line)
    if low != high:
        said += f", on a line from {ends[0]} to {ends[1]}"
    return (
        f'<svg role="img" aria-label="{escape(said)}" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">{ground}{_whiskers(low, high)}'
        f'<circle cx="{value:.1f}" cy="{MIDDLE:g}" r="3.2" fill="currentColor"/></svg>'
    )


def _whiskers(low: float, high: float) -> str:
    caps = "".join(f"M{end:.1f} {MIDDLE - CAP:g}v{2 * CAP}" for end in (low, high))
    line = f"M{low:.1f} {MIDDLE:g}H{high:.1f}{caps}"
    return f'<path d="{line}" stroke="currentColor" stroke-width="1.4" fill="none"/>'
