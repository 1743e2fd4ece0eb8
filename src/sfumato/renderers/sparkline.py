"""Sparklines: small pictures in tables, one per line on an axis that all lines share.

They are SVG written by hand, so that looking at a result loads no drawing library, and they take
the colour of the text beside them, light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

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
