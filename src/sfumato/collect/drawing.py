"""Drawing: bars, heat maps and days as SVG text; whatever a colour says stands there in
words too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from sfumato.collect.figures import Bar, PairFigures
from sfumato.collect.language import Language

WIDTH, LINE = 440, 34  # of a chart, so that a telephone shows it whole; the height of one bar
NUMBER = 76  # the room for numbers on the right
CELL, CELL_HEIGHT = 100, 40  # the least width of a heat map's cell, and its height
LETTER, LONGEST = 7.5, 24  # the width of a letter, and how many of a label are shown


def bars(shown: Sequence[Bar], labels: Sequence[str], words: Language, title: str) -> str:
    """Horizontal bars with the interval of each drawn across its end."""
    most = max([1e-9, *(bar.share.high for bar in shown)])
    least = min([0.0, *(bar.share.low for bar in shown)])
    start = _room(labels)
    room = WIDTH - start - NUMBER

    def place(share: float) -> float:
        return start + room * (share - least) / (most - least)

    parts = [
        _bar(bar, label, start, LINE * row + LINE / 2, place, words)
        for row, (bar, label) in enumerate(zip(shown, labels, strict=True))
    ]
    height = LINE * len(shown)
    axis = f'<line class="axis" x1="{place(0):.1f}" x2="{place(0):.1f}" y1="0" y2="{height}"/>'
    seen = "; ".join(
        f"{label} {words.percent(bar.share.value)} "
        f"({words.interval(bar.share.low, bar.share.high)})"
        for bar, label in zip(shown, labels, strict=True)
    )
    return _svg(WIDTH, height, f"{title} {seen}", "".join(parts) + axis)


def _room(labels: Sequence[str]) -> float:
    """The room on the left that the labels need."""
    return 14 + LETTER * min(LONGEST, max((len(label) for label in labels), default=0))


def _bar(
    bar: Bar,
    label: str,
    room: float,
    middle: float,
    place: Callable[[float], float],
    words: Language,
) -> str:
    share = bar.share
    start, end = sorted((place(0.0), place(share.value)))
    low, high = place(share.low), place(share.high)
    number = words.percent(share.value)
    return (
        f'<text class="label" x="{room - 8:.1f}" y="{middle + 5:.1f}">{_short(label)}</text>'
        f'<rect class="bar" x="{start:.1f}" y="{middle - 9:.1f}" width="{end - start:.1f}" '
        'height="18"/>'
        f'<path class="interval" d="M{low:.1f} {middle:.1f}H{high:.1f}'
        f'M{low:.1f} {middle - 6:.1f}v12M{high:.1f} {middle - 6:.1f}v12"/>'
        f'<text class="number" x="{WIDTH}" y="{middle + 5:.1f}">{escape(number)}</text>'
    )


def heat_map(
    pair: PairFigures, rows: Sequence[str], columns: Sequence[str], words: Language, title: str
) -> str:
    """A table of shares, the larger the darker, each with its number and error."""
    room = _room(rows)
    width = max(float(CELL), (WIDTH - room) / max(1, len(columns)))
    most = max([1e-9, *(value for row in pair.values for value in row)])
    parts = [
        f'<text class="head" x="{room + width * (place + 0.5):.1f}" y="16">'
        f"{_short(label, int(width / 8))}</text>"
        for place, label in enumerate(columns)
    ]
    for line, (label, values, errors) in enumerate(
        zip(rows, pair.values, pair.stderrs, strict=True)
    ):
        top = 24 + CELL_HEIGHT * line
        left = f'<text class="label" x="{room - 8:.1f}" y="{top + 25}">'
        parts.append(f"{left}{_short(label)}</text>")
        for place, (value, error) in enumerate(zip(values, errors, strict=True)):
            shade = min(1.0, max(0.0, value / most)) * 0.6
            edge = room + width * place
            parts.append(
                f'<rect class="cell" x="{edge + 1:.1f}" y="{top + 1}" width="{width - 2:.1f}" '
                f'height="{CELL_HEIGHT - 2}" fill-opacity="{shade:.2f}"/>'
                f'<text class="head" x="{edge + width / 2:.1f}" y="{top + 25}">'
                f"{escape(words.percent(value))} ± {escape(words.number(100 * error, 1))}</text>"
            )
    height = 24 + CELL_HEIGHT * len(rows)
    seen = "; ".join(
        f"{row} × {column} {words.percent(value)}"
        for row, values in zip(rows, pair.values, strict=True)
        for column, value in zip(columns, values, strict=True)
    )
    return _svg(room + width * len(columns), height, f"{title} {seen}", "".join(parts))


def days(counts: Sequence[tuple[str, int]], words: Language) -> str:
    """How many reports came each day, as columns."""
    most = max([1, *(count for _, count in counts)])
    width = WIDTH / max(1, len(counts))
    parts = [
        f'<rect class="bar" x="{width * place + 1:.1f}" y="{80 - 78 * count / most:.1f}" '
        f'width="{max(1.0, width - 2):.1f}" height="{78 * count / most:.1f}"/>'
        for place, (_, count) in enumerate(counts)
    ]
    title = f"{words('month')}: {words.number(sum(count for _, count in counts))}"
    axis = f'<line class="axis" x1="0" x2="{WIDTH}" y1="80" y2="80"/>'
    return _svg(WIDTH, 82, title, "".join(parts) + axis)


def _svg(width: float, height: float, title: str, inside: str) -> str:
    scrolls = ' class="wide"' if width > 1.2 * WIDTH else ""
    return (
        f'<svg{scrolls} viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">'
        f"{inside}</svg>"
    )


def _short(text: str, most: int = LONGEST) -> str:
    most = max(4, most)
    return escape(text if len(text) <= most else text[: most - 1] + "…")
