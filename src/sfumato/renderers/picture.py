"""Pictures of a view: charts drawn, embedded in a page, written as files; and charts of points,
bars and lines, each with what is seen of it in words.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sfumato import plots
from sfumato.errors import ParameterError
from sfumato.printable import plain
from sfumato.view import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawing: TypeAlias = (
    "Axes | Figure | Sequence[Axes]"  # a list of axes stands for the figure they share
)
MEDIA = {"png": "image/png", "svg": "image/svg+xml"}
NARROW = 5.0  # inches up to which a picture is readable on a phone as it is
SAID = 12  # figures of a picture that are said in words


def points(panels: Sequence[plots.Marginal], caption: str = "", *, quantity: str = "") -> Chart:
    """A panel for each quantity, the groups across, with 95 % intervals."""

    def alt() -> str:
        each = (points_in_words(p.name, p.labels, p.value, p.stderr) for p in panels)
        return " ".join(f"{words}." for words in each)

    return Chart(partial(plots.marginals, panels, columns=1, quantity=quantity), caption, alt)


def bars(
    what: str,
    labels: Sequence[str],
    before: Sequence[float],
    after: Sequence[float],
    *,
    caption: str = "",
    called: tuple[str, str] = ("before", "after"),
    **look: Any,
) -> Chart:
    """Paired bars of a quantity, before and after."""

    def alt() -> str:
        first = zip(labels[:SAID], before[:SAID], after[:SAID], strict=True)
        pairs = [
            f"{label}: {_figure(old)} {called[0]}, {_figure(new)} {called[1]}"
            for label, old, new in first
        ]
        return _listed(f"Paired bars of {what}", pairs, len(labels))

    draw = partial(plots.risk, labels, before, after, quantity=what, called=called, **look)
    return Chart(draw, caption, alt)


def lines(
    places: Sequence[float],
    panels: Mapping[str, Sequence[plots.Series]],
    *,
    across: str,
    caption: str = "",
) -> Chart:
    """A panel for each quantity, a line for each method."""
    return Chart(partial(plots.trade_off, places, panels, across=across), caption)


def points_in_words(what: str, labels: Sequence[str], value: Any, stderr: Any) -> str:
    """Points with their error bars in words: each with its standard error, unless all are exact.

    >>> points_in_words("Counts", ["a", "b"], [1312.4, math.nan], [50.2, math.nan])
    'Counts ± standard error, drawn with 95 % intervals: a: 1,312 ± 50.2; b: undefined'
    """
    exact = not np.any(stderr)
    each = [
        f"{label}: {_figure(v)}"
        if exact or math.isnan(v)
        else f"{label}: {_figure(v)} ± {_figure(e)}"
        for label, v, e in zip(labels[:SAID], value[:SAID], stderr[:SAID], strict=True)
    ]
    drawn = ", exact" if exact else " ± standard error, drawn with 95 % intervals"
    return _listed(what + drawn, each, len(labels))


def _listed(start: str, first: Sequence[str], number: int) -> str:
    """What is said of so many figures."""
    rest = number - len(first)
    return plain(f"{start}: {'; '.join(first)}" + (f"; and {rest} more" if rest > 0 else ""))


def _figure(value: float) -> str:
    if math.isnan(value):
        return "undefined"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def figure_html(chart: Chart) -> str:
    """A chart inside a page, with words for those who cannot see it."""
    drawn = chart.draw()
    wide = _figure_of(drawn).get_figwidth() > NARROW
    source = f"data:{MEDIA['svg']};base64,{base64.b64encode(image(drawn, 'svg')).decode('ascii')}"
    caption = escape(plain(chart.caption)).replace(" %", "\N{NO-BREAK SPACE}%")
    alt = chart.in_words()
    if not alt:
        lines = plots.in_words(drawn) if isinstance(drawn, Sequence) else ""
        alt = f"{chart.caption} {lines}".strip()
    look = ' class="wide"' if wide else ""
    img = f'<img src="{source}" alt="{escape(plain(alt), quote=True)}">'
    return f"<figure{look}>{img}<figcaption>{caption}</figcaption></figure>"


def picture_form(path: str | Path) -> str:
    """Which picture a file's name asks for: html, png or svg."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in ("html", *MEDIA):
        found = f"'.{form}'" if form else "no extension"
        raise ParameterError(
            f"cannot tell which picture '{path}' should be ({found})",
            hint="end it in .png, .svg or .html",
        )
    return form


def image(drawing: Drawing, form: str) -> bytes:
    """The drawing as bytes that do not change from run to run: no date, no random ids."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "sfumato"}):
        _figure_of(drawing).savefig(
            buffer, format=form, dpi=160, metadata={"Date" if form == "svg" else "Software": None}
        )
    return buffer.getvalue()


def _figure_of(drawing: Drawing) -> Figure:
    """The whole figure: one is its own figure, and a part of one knows the whole."""
    first: Any = drawing[0] if isinstance(drawing, Sequence) else drawing
    whole: Figure = first.figure.figure
    return whole
